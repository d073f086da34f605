/* Run the ps and the worker of one host under a parent process that stays. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_PAIR_H
#define GRADWIRE_K8S_ENTRYPOINT_PAIR_H

/* Run both programs until both have ended; each argument is a NULL-terminated argv. SIGTERM and SIGINT are passed on
 * to both as SIGTERM. If one ends with another code than 0, the other gets SIGTERM. Returns the exit code of the
 * container: the first code that is not 0 (128 + the signal for a signal), or 0. */
int pair_run(char *const *first, char *const *second);

/* Run one program after the other. Returns the larger exit code. */
int pair_in_turn(char *const *first, char *const *second);

#endif
