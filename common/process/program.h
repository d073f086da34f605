/* Finds gradwire's programs: installed in one directory, or in a build directory. */
#ifndef GRADWIRE_COMMON_PROCESS_PROGRAM_H
#define GRADWIRE_COMMON_PROCESS_PROGRAM_H

#include <limits.h>

#include "common/base/err.h"

/* Finds the program `name` ("ps", "worker") under `folder`: FOLDER/gradwire-NAME (installed) or FOLDER/NAME/NAME
 * (built). `path` is unchanged on error. Errors: ERR_INPUT if neither is an executable file. */
enum err program_in(char path[static PATH_MAX], const char *folder, const char *name,
                    struct errmsg *e) MUST_CHECK;

/* Same, in the directory of the running program, or in the build directory above it. */
enum err program_beside(char path[static PATH_MAX], const char *name, struct errmsg *e) MUST_CHECK;

#endif
