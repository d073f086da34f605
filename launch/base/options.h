/* The flags of `gradwire train` and `gradwire rank` as values. */
#ifndef GRADWIRE_LAUNCH_BASE_OPTIONS_H
#define GRADWIRE_LAUNCH_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/net/tls.h"

struct options {
    const char *job;         /* the job file */
    const char *output;      /* NULL: runs/NAME */
    const char *bin_dir;     /* where ps/ps and worker/worker stand; NULL: beside the launcher */
    const char *hosts;       /* the hosts file; NULL: all run here */
    const char *rsh;         /* the remote shell; NULL: GRADWIRE_RSH, or ssh */
    const char *const *sets; /* each --set, in order */
    size_t n_sets;
    const char *const *faults; /* each --fault: "worker-1=nan:7" */
    size_t n_faults;
    struct tls_files tls; /* handed to each process; "": not given */
    uint32_t ps, workers; /* workers without a separate chief */
    bool chief;           /* one more process, which trains too */
    bool evaluator;       /* one more process, which does not */
    uint32_t restarts;    /* in all */
    bool fresh, detach;
};

/* From the flags as flags_read left them; rank fills in `workers` when it knows how many ranks there are. */
void options_init(struct options *o);

/* Does it fit together? For train. Errors: ERR_INPUT with one line that says what would be right. */
enum err options_check(const struct options *o, struct errmsg *e) MUST_CHECK;

/* What a command of the launcher exits with where it failed. */
enum { EXIT_FAILED = 1, EXIT_INPUT = 2 };
int options_exit_code(enum err err);

/* How many processes compute gradients. */
uint32_t options_trainers(const struct options *o);

/* All of them, the ps too. */
uint32_t options_processes(const struct options *o);

#endif
