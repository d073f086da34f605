/* Another program of gradwire's, run to its end by this process.
 *
 * Happy path: the child starts without open files of ours, and exits with 0.
 * Failure modes: it exits with another code (its last line on stderr is the error), a signal ends it, or it still runs at the
 * deadline: then it is killed. It is also killed if the calling thread ends. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct child_call {
    const char *program;     /* path */
    const char *const *argv; /* ends with NULL; argv[0] is the program's name in messages */
    const char *what;        /* before its warnings in the log */
    uint32_t deadline_ms;
    /* asked a few times a second; true: kill the child now. NULL: never */
    bool (*ends)(void);
};

/* Run the program with /dev/null as stdin and stdout. A line of its stderr that begins with "gradwire: warning: " is logged as a
 * warning. Errors: ERR_INPUT: exit code 2; ERR_STATE: any other failure, with the
 * child's last line; ERR_TIMEOUT; ERR_CLOSED: `ends`; ERR_IO: it could not be started. Thread: any; waits for the child. */
enum err child_run(const struct child_call *call, struct errmsg *e) MUST_CHECK;

/* Finds gradwire's programs: installed in one directory, or in a build directory. */

/* Finds the program `name` ("ps", "worker") under `folder`: FOLDER/gradwire-NAME (installed) or FOLDER/NAME/NAME
 * (built). `path` is unchanged on error. Errors: ERR_INPUT if neither is an executable file. */
enum err program_in(char path[static PATH_MAX], const char *folder, const char *name,
                    struct errmsg *e) MUST_CHECK;

/* Same, in the directory of the running program, or in the build directory above it. */
enum err program_beside(char path[static PATH_MAX], const char *name, struct errmsg *e) MUST_CHECK;
