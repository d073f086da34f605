/* One process of the job as the supervisor sees it, wherever it runs: what is told of it, its log,
 * and the few things that can be asked of the place where it runs (local.h: this host; remote/fleet.h:
 * another one). */
#ifndef GRADWIRE_LAUNCH_LOCAL_PROCESS_H
#define GRADWIRE_LAUNCH_LOCAL_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cluster/cluster.h"
#include "common/base/err.h"

enum { PROCESS_NAME_BYTES = 32, PROCESS_ADDRESS_BYTES = 320, PROCESS_WORDS_BYTES = 440 };

enum process_state {
    PROCESS_ENDED,   /* or never started */
    PROCESS_AWAITED, /* asked for: its host has not said yet that it runs */
    PROCESS_RUNS
};

struct process;

/* What a place can do. Each place tells the supervisor of what comes of it: process_events. */
struct process_ops {
    /* Start it: from here on it is awaited, or runs. Errors: ERR_IO, ERR_NOMEM: it is neither. */
    enum err (*start)(struct process *p, struct errmsg *e);
    /* Signal its process group; nothing if it does not run. */
    void (*signal)(struct process *p, int sig);
    /* No longer wanted if it is only awaited; nothing otherwise. NULL: none is ever awaited there. */
    void (*cancel)(struct process *p);
};

/* What the places tell the supervisor. Never called from inside the ops. */
struct process_events {
    void (*started)(void *arg, struct process *p);
    /* It ended with this wait status; p->peak_rss_bytes has heard of it. */
    void (*ended)(void *arg, struct process *p, int wait_status);
    /* It is gone with its host. */
    void (*lost)(void *arg, struct process *p);
    /* It could not be started. */
    void (*failed)(void *arg, struct process *p, const char *why);
    /* What the chief wrote to its progress pipe. */
    void (*progress)(void *arg, const char *bytes, size_t n);
    /* The job cannot go on for a reason of the place's own. */
    void (*end)(void *arg, const char *who, const char *why);
};

struct process {
    const struct process_ops *ops;
    void *place;      /* the ops' own */
    const char *host; /* NULL: this one */
    enum role role;
    uint32_t index;
    char name[PROCESS_NAME_BYTES];       /* "worker 0" */
    char address[PROCESS_ADDRESS_BYTES]; /* "127.0.0.1:40001" */
    char http[PROCESS_ADDRESS_BYTES];    /* the same, of its HTTP; "": none */
    enum process_state state;
    pid_t pid;          /* on its host; 0: not running */
    int64_t started_ms; /* when this start was seen to run (clock_now_ms); 0: not yet */
    char log[PATH_MAX];
    off_t log_from;          /* where the log of the present start begins */
    char **argv;             /* NULL-terminated; the owner's */
    uint64_t peak_rss_bytes; /* the most over all starts that ended */
};

/* The log is dir/processes/<role>-<index>.log. Errors: ERR_IO. */
enum err process_init(struct process *p, enum role role, uint32_t index, const char *dir,
                      struct errmsg *e) MUST_CHECK;

/* Open the log for a fresh start; *fd is the caller's. Errors: ERR_IO. */
enum err process_open_log(struct process *p, int *fd, struct errmsg *e) MUST_CHECK;

/* A start has ended that took this much memory at most. */
void process_peak_rss(struct process *p, uint64_t bytes);

/* The last line of level error that the present start wrote; or, with `any`, its last line at all.
 * Time and level in front are left out. "" if there is none. */
void process_last_words(const struct process *p, bool any, char *out, size_t bytes);

#endif
