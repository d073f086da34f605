/* The page of a job, which the chief serves: worker/control/page/ as it was when this program was built. */
#ifndef GRADWIRE_WORKER_CONTROL_JOB_PAGE_H
#define GRADWIRE_WORKER_CONTROL_JOB_PAGE_H

#include "common/serve/http.h"

extern const struct http_file job_page[];

#endif
