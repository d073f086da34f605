/* Where gradwire's programs are: installed side by side, or as a build leaves them. */
#ifndef GRADWIRE_COMMON_PROCESS_PROGRAM_H
#define GRADWIRE_COMMON_PROCESS_PROGRAM_H

#include <limits.h>

#include "common/base/err.h"

/* The program `name` ("ps", "worker") of a folder: installed there as FOLDER/gradwire-NAME, or built there as
 * FOLDER/NAME/NAME. Unchanged on error. Errors: ERR_INPUT neither is there and executable. */
enum err program_in(char path[static PATH_MAX], const char *folder, const char *name,
                    struct errmsg *e) MUST_CHECK;

/* The program `name` beside the running one, installed or built. Unchanged on error. Errors: ERR_INPUT as above. */
enum err program_beside(char path[static PATH_MAX], const char *name, struct errmsg *e) MUST_CHECK;

#endif
