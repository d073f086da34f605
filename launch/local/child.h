/* Child processes: fork, exec, signal. local.c and runner.c start the job's processes with it. */
#ifndef GRADWIRE_LAUNCH_LOCAL_CHILD_H
#define GRADWIRE_LAUNCH_LOCAL_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "launch/local/guardian.h"

enum { CHILD_EXIT_NO_EXEC = 127 };

/* A growing command line, NULL-terminated. A failed allocation is remembered. Begins as zeros. */
struct args {
    char **argv; /* free with argv_free */
    size_t n;
    bool failed;
};
void args_add(struct args *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void argv_free(char **argv); /* takes NULL, too */

/* Descriptors that a process inherits; -1: none. */
struct handed {
    int listen, http, progress;
    int lock;              /* the open file DIR/lock, which this process has locked: the chief's */
    uint16_t http_port;    /* of `http` */
    const char *http_name; /* the user's name for the address of `http`; NULL: none */
};
/* Add the flags that tell the process the numbers of its descriptors. */
void args_add_handed(struct args *a, const struct handed *fds);

struct child {
    char *const *argv; /* NULL-terminated */
    struct handed handed;
    int out_fd;        /* stdout and stderr of the child */
    const char *token; /* written to the child's standard input; NULL: standard input is empty */
    bool again;        /* a restart in the same job */
};

/* Start the child in its own process group, registered with the guardian. If it cannot be registered (a kernel without
 * pidfd), the child gets SIGKILL when its parent dies. If the program cannot be executed, the child writes the reason
 * to out_fd and exits with CHILD_EXIT_NO_EXEC. The descriptors stay the caller's. Errors: ERR_IO. */
enum err child_start(pid_t *pid, const struct child *c, const struct guardian *g,
                     struct errmsg *e) MUST_CHECK;

/* Set the environment that children inherit: BLAS uses one thread, because gradwire has its own compute threads, and
 * TF_CONFIG, which could contradict the flags of a process, is removed. */
void child_set_environment(void);

/* Signal the child's process group. Does nothing if pid is 0. */
void child_signal(pid_t pid, int sig);

#endif
