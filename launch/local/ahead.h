/* A look at the job before its first process starts: the worker program makes the model, and says what the processes will
 * take of a host. Models are its business, so it is run for that, on each host for the processes there. */
#ifndef GRADWIRE_LAUNCH_LOCAL_AHEAD_H
#define GRADWIRE_LAUNCH_LOCAL_AHEAD_H

#include "launch/local/crew.h"

/* Processes of one host, and of the whole job. All zero: the model alone is looked at, and no memory. */
struct ahead_crew {
    uint32_t ps, workers, evaluators;
    uint32_t all_ps, all_workers;
};

struct ahead {
    const char *worker_program, *job;
    const char *const *sets;
    size_t n_sets;
    struct ahead_crew crew;
};

/* Run the checks on this host. `warn` is told of each thing that is unwise. Errors: ERR_INPUT if the job cannot work. Blocks until
 * the worker program, which does the checks, has ended. The environment is that of a process of the job (child_set_environment). */
enum err ahead_ask(const struct ahead *a, void (*warn)(void *arg, const char *text), void *arg,
                   struct errmsg *e) MUST_CHECK;

/* Do so many workers fit on so many cores of a host? "" : yes. False: no, and `text` is the error; else a warning. `flag`:
 * "--workers", where that is how many there are. */
enum { AHEAD_TEXT_BYTES = 320 };
bool ahead_count(uint32_t workers, uint32_t cores, const char *flag, char text[AHEAD_TEXT_BYTES]);

/* Check a job of `train` before its processes start; warn at once of what is unwise. With --hosts the model alone: each host
 * looks at its own memory (launch/remote/check.h). Errors: ERR_INPUT if the job cannot work. Blocks as ahead_ask. */
enum err ahead_look(const struct options *o, const struct site *site, struct errmsg *e) MUST_CHECK;

#endif
