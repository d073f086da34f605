/* The flags of `gradwire train`. */
#ifndef GRADWIRE_LAUNCH_BASE_OPTIONS_H
#define GRADWIRE_LAUNCH_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/net/tls.h"

enum { OPTIONS_PS_MAX = 256, OPTIONS_WORKERS_MAX = 1024, OPTIONS_RESTARTS_MAX = 1000000 };

struct options {
    const char *job;     /* the job file */
    const char *output;  /* NULL: runs/NAME */
    const char *bin_dir; /* where ps/ps and worker/worker stand; NULL: beside the launcher */
    const char *hosts;   /* the hosts file; NULL: all run here */
    const char *rsh;     /* the remote shell; NULL: GRADWIRE_RSH, or ssh */
    const char **sets;   /* each --set, in order */
    size_t n_sets;
    const char **faults; /* each --fault: "worker-1=nan:7" */
    size_t n_faults;
    struct tls_files tls; /* handed to each process; "": not given */
    uint32_t ps, workers; /* workers without a separate chief */
    bool chief;           /* one more process, which trains too */
    bool evaluator;       /* one more process, which does not */
    uint32_t restarts;    /* in all */
    bool fresh, detach, help;
};

/* Parse what follows `train`. The strings are argv's. Close with options_close, on error too.
 * Errors: ERR_INPUT with one line that says what would be right; ERR_NOMEM. */
enum err options_init(struct options *o, int argc, char **argv, struct errmsg *e) MUST_CHECK;
void options_close(struct options *o);

/* How many processes compute gradients. */
uint32_t options_trainers(const struct options *o);

/* All of them, the ps too. */
uint32_t options_processes(const struct options *o);

extern const char options_help[];

#endif
