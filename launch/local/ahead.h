/* Checks a job before its first process starts. The worker program builds the model and reports how much memory the
 * processes will need on a host. Only the worker program knows models, so the launcher runs it, on each host for the
 * processes there. */
#pragma once

#include "launch/local/crew.h"

/* The processes of one host, and of the whole job. All zero: only the model is checked, not the memory. */
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

/* Run the worker program's checks on this host. Sets the environment of this process (child_set_environment). Each
 * warning is passed to `warn`; the text is valid during the call. If the program cannot be executed, nothing is
 * reported. Errors: ERR_INPUT if the job cannot work; ERR_NOMEM. Blocks until the worker program has ended. */
enum err ahead_ask(const struct ahead *a, void (*warn)(void *arg, const char *text), void *arg,
                   struct errmsg *e) MUST_CHECK;

/* Check the number of workers against the cores of a host. False: too many, and `text` is the error. True: `text` is a
 * warning, or "". `flag`: "--workers" if that flag gives the number; otherwise "". */
enum { AHEAD_TEXT_BYTES = 320 };
bool ahead_count(uint32_t workers, uint32_t cores, const char *flag, char text[AHEAD_TEXT_BYTES]);

/* Check a job of `train` before its processes start, and print warnings. With --hosts only the model is checked,
 * because each host checks its own memory (launch/remote/check.h). Errors and blocking: as ahead_ask. */
enum err ahead_look(const struct options *o, const struct site *site, struct errmsg *e) MUST_CHECK;
