/* One process of the job as the supervisor sees it: its state, its log, and the operations of the host on which it runs
 * (crew.h: this host; remote/fleet.h: another host). */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/cluster/cluster.h"

enum { PROCESS_NAME_BYTES = 32, PROCESS_ADDRESS_BYTES = 320, PROCESS_WORDS_BYTES = 440 };

enum process_phase {
    PROCESS_ENDED,   /* or not started yet */
    PROCESS_AWAITED, /* start was requested; its host has not confirmed it yet */
    PROCESS_RUNS
};

struct process;

/* Operations of a local or remote host. Their results are reported to the supervisor by process_events. */
struct process_ops {
    /* Start the process; from now on it is awaited, or runs. Errors: ERR_IO, ERR_NOMEM: it is neither. */
    enum err (*start)(struct process *p, struct errmsg *e);
    /* Signal the process group. If the start is only awaited, it is cancelled. Does nothing if the process has ended. */
    void (*signal)(struct process *p, int sig);
    /* Cancel a start that is only awaited; otherwise do nothing. NULL: starts there are never awaited. */
    void (*cancel)(struct process *p);
};

/* Events for the supervisor. Never called from inside of process_ops. */
struct process_events {
    void (*started)(void *arg, struct process *p);
    /* The process has ended with this wait status; p->peak_rss_bytes is up to date. */
    void (*ended)(void *arg, struct process *p, int wait_status);
    /* The process was lost together with its host. */
    void (*lost)(void *arg, struct process *p);
    /* The process could not be started. */
    void (*failed)(void *arg, struct process *p, const char *why);
    /* The chief has written these bytes to its progress pipe. */
    void (*progress)(void *arg, const char *bytes, size_t n);
    /* The job cannot continue; `who` and `why` name the host and the reason. */
    void (*end)(void *arg, const char *who, const char *why);
};

struct process {
    const struct process_ops *ops;
    void *place;      /* private to `ops` */
    const char *host; /* NULL: this host */
    enum role role;
    uint32_t index;
    char name[PROCESS_NAME_BYTES];       /* "worker 0" */
    char address[PROCESS_ADDRESS_BYTES]; /* "127.0.0.1:40001" */
    char http[PROCESS_ADDRESS_BYTES];    /* address of its HTTP server; "": none */
    enum process_phase state;
    pid_t pid;          /* on its host; 0: not running */
    int64_t started_ms; /* time at which this start was confirmed (clock_now_ms); 0: not yet */
    char log[PATH_MAX];
    off_t log_from;          /* offset at which the log of the present start begins */
    char **argv;             /* NULL-terminated; belongs to the crew */
    uint64_t peak_rss_bytes; /* the maximum over all starts that have ended */
};

/* Initialize; the log is dir/processes/ROLE-INDEX.log. Errors: ERR_IO. */
enum err process_init(struct process *p, enum role role, uint32_t index, const char *dir,
                      struct errmsg *e) MUST_CHECK;

/* Open the log for a start: sets log_from, and started_ms to 0. *fd belongs to the caller. Errors: ERR_IO. */
enum err process_open_log(struct process *p, int *fd, struct errmsg *e) MUST_CHECK;

/* Note the peak memory of a start that has ended. */
void process_peak_rss(struct process *p, uint64_t bytes);

/* The last line of level error that the present start has logged, or, with `any`, its last line of any level. Without time
 * and level; "" if there is none. */
void process_last_words(const struct process *p, bool any, char *out, size_t bytes);

/* Parses a line of a process's log (common/base/log.h), in text or JSON format: level and text. No I/O. */

enum { LOG_LINE_TEXT_BYTES = 440 };

struct log_line {
    enum log_level level;
    char text[LOG_LINE_TEXT_BYTES]; /* without time, level and process; truncated to fit */
};

/* False: the line has another format, for example because a library printed it; *l is unchanged. */
bool log_line_parse(struct log_line *l, const char *line);
