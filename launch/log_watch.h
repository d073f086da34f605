/* Reads the logs of all processes of a job and repeats their warnings on the terminal (warnings.h). The logs of
 * processes on other hosts are on this host, too: the launcher writes them.
 *
 * Every LOG_WATCH_EVERY_MS it reads the new bytes of each log, at most LOG_WATCH_READ_BYTES of one log. If more than
 * LOG_WATCH_BEHIND_BYTES of a log are unread, it skips all but the last LOG_WATCH_READ_BYTES, so that a process that
 * writes much costs the launcher little. A truncated log (logrotate's copytruncate) is read from its beginning. An
 * error is repeated only if its process still runs LOG_WATCH_ERROR_MS later; if the process has ended, the supervisor
 * reports it. Thread: the supervisor's loop. */
#ifndef GRADWIRE_LAUNCH_LOG_WATCH_H
#define GRADWIRE_LAUNCH_LOG_WATCH_H

#include <event2/event.h>

#include "common/base/err.h"
#include "launch/local/crew.h"
#include "launch/warnings.h"

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

#endif
