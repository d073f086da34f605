/* The two processes of a host, ps and worker, under one parent that stays. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_PAIR_H
#define GRADWIRE_K8S_ENTRYPOINT_PAIR_H

/* Run both to their end, each a NULL-terminated argv. SIGTERM and SIGINT are passed on as SIGTERM; when one ends with
 * something else than 0, so is the other told to end. Returns what the container exits with: the first that is not 0
 * (128 + the signal, where it was one), or 0. */
int pair_run(char *const *first, char *const *second);

/* Run one after the other, to their ends. Returns the larger exit code. */
int pair_in_turn(char *const *first, char *const *second);

#endif
