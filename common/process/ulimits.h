/* The limits that `ulimit` sets for this process. */
#ifndef GRADWIRE_COMMON_PROCESS_ULIMITS_H
#define GRADWIRE_COMMON_PROCESS_ULIMITS_H

#include <stdint.h>

#include "common/base/err.h"

/* Reads the limits, for the texts and the exit codes of errors (err_limits_set). Call it first in main. */
void ulimits_init(void);

/* Checks that the process can open so many descriptors more. Errors: ERR_FILES: the text says how many it needs in all;
 * ERR_NOMEM. Thread: any; never blocks. */
enum err ulimits_check_descriptors(uint32_t more, struct errmsg *e) MUST_CHECK;

#endif
