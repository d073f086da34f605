/* A program in a process of its own: fork, exec, signal. What local.c and runner.c start. */
#ifndef GRADWIRE_LAUNCH_LOCAL_CHILD_H
#define GRADWIRE_LAUNCH_LOCAL_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "launch/local/guardian.h"

enum { CHILD_EXIT_NO_EXEC = 127 };

/* A command line that grows, NULL at its end; a failed allocation sticks. All zero at first. */
struct args {
    char **argv; /* free with argv_free */
    size_t n;
    bool failed;
};
void args_add(struct args *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void argv_free(char **argv); /* NULL is ignored */

/* Descriptors that a process is handed; -1: none. */
struct handed {
    int listen, http, progress;
};
/* The flags that name them to the process. */
void args_add_handed(struct args *a, const struct handed *fds);

struct child {
    char *const *argv; /* NULL-terminated */
    struct handed handed;
    int out_fd;        /* its stdout and stderr */
    const char *token; /* written to its standard input; NULL: that is empty */
    bool again;        /* it ran before, in this job */
};

/* Start it in a process group of its own, registered with the guardian. A program that cannot be
 * executed ends with CHILD_EXIT_NO_EXEC and says why on out_fd. Errors: ERR_IO. */
enum err child_start(pid_t *pid, const struct child *c, const struct guardian *g,
                     struct errmsg *e) MUST_CHECK;

/* What processes inherit: BLAS on one thread each (the compute threads are ours), and no identity but the flags'. */
void child_set_environment(void);

/* Signal its process group; nothing if pid is 0. */
void child_signal(pid_t pid, int sig);

#endif
