/* Reads the logs of all processes of a job and repeats their warnings on the terminal (struct warnings). The logs of
 * processes on other hosts are on this host, too: the launcher writes them.
 *
 * Every LOG_WATCH_EVERY_MS it reads the new bytes of each log, at most LOG_WATCH_READ_BYTES of one log. If more than
 * LOG_WATCH_BEHIND_BYTES of a log are unread, it skips all but the last LOG_WATCH_READ_BYTES, so that a process that
 * writes much costs the launcher little. A truncated log (logrotate's copytruncate) is read from its beginning. An
 * error is repeated only if its process still runs LOG_WATCH_ERROR_MS later; if the process has ended, the supervisor
 * reports it. Thread: the supervisor's loop. */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "launch/local/crew.h"

/* Selects the warnings of the processes that appear on the terminal: each warning once, however many processes log it and
 * however often. Pure: texts, names and times come in, lines go out.
 *
 * Two texts are the same warning if they differ only in durations ("waiting 10 s"), steps, ports, and counts of omitted
 * lines. A warning that was not logged for WARNINGS_QUIET_MS is shown again. Processes that log the same warning between two
 * calls of warnings_take share a line: "worker 0, worker 2: ..". */

struct warning_held {
    uint64_t key;
    uint32_t more; /* processes that logged it, without those in `names` */
    uint32_t named;
    char names[128], last[32], text[448];
};

struct warning {
    uint64_t key;     /* warnings_key of the text; 0: none */
    int64_t heard_ms; /* last */
};

enum {
    WARNINGS_KEPT = 256,       /* remembered warnings; the least recent one is replaced */
    WARNINGS_QUIET_MS = 60000, /* longer than the 10 s after which a wait is logged again */
    WARNINGS_HELD = 16,        /* new warnings between two calls of warnings_take */
    WARNINGS_NAMED = 3,        /* processes named in one line; the others are counted */
    WARNINGS_LINE_BYTES = 640
};

/* Begins as zeros. */
struct warnings {
    struct warning kept[WARNINGS_KEPT];
    struct warning_held held[WARNINGS_HELD];
    uint32_t n_held, left_out;
    struct log_budget budget;
};

/* Process `name` has logged this text. */
void warnings_hear(struct warnings *w, const char *name, const char *text, int64_t now_ms);
/* Get the next line to show. False: there is none. */
bool warnings_take(struct warnings *w, char out[WARNINGS_LINE_BYTES]);

/* A key of the text; texts of the same warning have the same key. */
uint64_t warnings_key(const char *text);

enum {
    LOG_WATCH_EVERY_MS = 250,
    LOG_WATCH_ERROR_MS = 1000,
    LOG_WATCH_READ_BYTES = 32 << 10,
    LOG_WATCH_BEHIND_BYTES = 4 << 20
};

struct log_place;
struct log_watch {
    const struct crew *crew;
    struct event *tick;
    struct log_place *log; /* one for each process */
    struct warnings warnings;
    const bool *loads; /* the chief reads its data: others wait for it, as they must */
    bool quiet;        /* the job is ending: messages about lost processes are expected */
};

/* loads: while it is true, waits for the chief are not repeated. Call after all processes were started. Close with log_watch_close, also after an error. Errors: ERR_NOMEM. */
enum err log_watch_init(struct log_watch *l, struct event_base *base, const struct crew *crew,
                        const bool *loads) MUST_CHECK;
void log_watch_close(struct log_watch *l);

/* Process i has ended: repeat its remaining warnings. The supervisor reports its last error. */
void log_watch_on_end(struct log_watch *l, uint32_t i);
/* Show what is pending, and stop repeating: the job is ending. */
void log_watch_hush(struct log_watch *l);
