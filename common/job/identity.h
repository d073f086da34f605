/* What a job is: its canonical text, the lines of its identity keys, and their hash. */
#ifndef GRADWIRE_COMMON_JOB_IDENTITY_H
#define GRADWIRE_COMMON_JOB_IDENTITY_H

#include "common/job/job.h"

/* Fill job->canonical, identity_text and identity from all the rest. Errors: ERR_NOMEM; what was
 * filled is the job's (job_close). */
enum err job_identify(struct job *job, struct errmsg *e) MUST_CHECK;

#endif
