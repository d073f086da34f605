/* The command line of a ps or worker in the container: the program, flags for the files that the container has, and the
 * flags that this process got. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_COMMAND_H
#define GRADWIRE_K8S_ENTRYPOINT_COMMAND_H

#include <limits.h>
#include <stddef.h>

#include "common/base/err.h"
#include "common/cluster/cluster.h"

enum { COMMAND_GIVEN_MAX = 1024, COMMAND_WORDS_MAX = COMMAND_GIVEN_MAX + 24 };

struct command {
    char program[PATH_MAX];
    const char *words[COMMAND_WORDS_MAX]; /* NULL after the last, as for execv */
    size_t n;
};

/* The file for the container's last words, or "": --termination_message, otherwise Kubernetes' file, if it is there. */
const char *command_last_words(void);

/* Fill *c, which is zero, for a process of this role: the program, the container's files, then the flags that were read.
 * With --doctor the program is the worker, which checks for all roles. The words live as long as the process. Errors:
 * ERR_INPUT. */
enum err command_init(struct command *c, enum role role, struct errmsg *e) MUST_CHECK;

/* Add a word, which is copied and never freed; of flags that are given twice the last one counts. Errors: ERR_NOMEM. */
enum err command_add(struct command *c, struct errmsg *e, const char *format, ...)
    __attribute__((format(printf, 3, 4))) MUST_CHECK;

/* Print the words as one line. */
void command_print(const struct command *c);

/* Become the program. Returns, with the exit code 1, only if that fails; the log has the reason. */
int command_exec(struct command *c);

#endif
