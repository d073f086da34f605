/* Runs a ps and a worker as children of this process, which is PID 1 of the container. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_PAIR_H
#define GRADWIRE_K8S_ENTRYPOINT_PAIR_H

#include <stdbool.h>

/* Run both programs until both have ended; each is a NULL-terminated argv. `is_chief`: the worker is the job's chief.
 * SIGTERM and SIGINT are passed on to both as SIGTERM. If one ends with another code than 0, the other gets SIGTERM. If the
 * ps ends with 0, the job is done: a worker that is not the chief and still runs 10 s later connected too late to learn
 * this. It gets SIGTERM, and its code does not count. `last_words` ("": none) is the file to which both write a reason at
 * their end: at the end of this call it has the reason of the one that failed first. Returns the exit code of the container:
 * the first code that is not 0 (128 + the signal for a signal), or 0; 138, which requests a restart, if a process cannot be
 * forked. */
int pair_run(char *const *ps, char *const *worker, bool is_chief, const char *last_words);

/* Run one program after the other, the second one also if the first one fails. Returns the larger exit code (128 + the
 * signal for a signal; 1 if a process cannot be forked). */
int pair_in_turn(char *const *first, char *const *second);

#endif
