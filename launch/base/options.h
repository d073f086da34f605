/* The flags of `gradwire train` and `gradwire rank` as values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/net/tls.h"

struct options {
    const char *job;         /* the job file */
    const char *output;      /* NULL: runs/NAME */
    const char *bin_dir;     /* else $GRADWIRE_BIN_DIR; NULL: the launcher's directory */
    const char *hosts;       /* the hosts file; NULL: all processes run on this host */
    const char *rsh;         /* the remote shell; NULL: GRADWIRE_RSH, or ssh */
    const char *const *sets; /* each --set, in order */
    size_t n_sets;
    const char *const *faults; /* each --fault: "worker-1=nan:7" */
    size_t n_faults;
    struct tls_files tls; /* passed to each process; "": not given */
    uint32_t ps, workers; /* workers: a separate chief is not counted */
    bool chief;           /* the chief is a separate process, which trains, too */
    bool evaluator;       /* one more process, which does not train */
    uint32_t restarts;    /* limit for all processes together */
    bool fresh, detach;
};

/* Fill from the flags that flags_read has parsed; the texts belong to the flags, and nothing must be freed. `rank` sets
 * `workers` later, from the number of ranks. */
void options_init(struct options *o);

/* Check combinations of train's flags. Errors: ERR_INPUT with one line that tells how to correct them. */
enum err options_check(const struct options *o, struct errmsg *e) MUST_CHECK;

/* Exit codes of a command that fails. */
enum { EXIT_FAILED = 1, EXIT_INPUT = 2 };
int options_exit_code(enum err err);

/* The number of processes that compute gradients. */
uint32_t options_trainers(const struct options *o);

/* The number of all processes, with the ps. */
uint32_t options_processes(const struct options *o);

/* The commands of the launcher: argv[0] is the command's name. Each returns the exit code. */
/* argv[0] is "train". Returns the exit code. */
int train_main(int argc, char **argv);

/* argv[0] is the command. Returns the exit code. */
int runner_main(int argc, char **argv);

/* argv[0] is the command. Returns the exit code. 0: the job is running. Not running: 1 the last run failed, 3 the job is
 * done, 4 run it again to resume. 2: DIR is not a job's directory. */
int status_main(int argc, char **argv);

/* argv[0] is the command. Each function returns its exit code: 0 success; 1 it failed; 2 DIR is not a job's output
 * directory, or a named log does not exist. */
/* Send SIGTERM to the launcher, and wait until the job has ended. Returns 0 also if no job is running. */
int control_stop(int argc, char **argv);
/* logs DIR [-f] [PROCESS]...: print all logs, or those of the named processes ("worker-0"). -f prints the last 20 lines
 * of each, and follows the logs until the job ends. This process becomes tail by exec, so the function returns only on
 * failure. */
int control_logs(int argc, char **argv);

/* argv[0] is the command. Returns the exit code. 0: listed, or all named directories were removed. 1: at least one was not
 * removed. 2: DIR is not a job's directory and no DIR.N exists, or the named number does not exist. */
int old_main(int argc, char **argv);
