/* Reads what the processes of a job write to their logs, wherever they run (the launcher writes the logs of those on
 * other hosts itself), and repeats their warnings on the terminal (warnings.h).
 *
 * Every LOG_WATCH_EVERY_MS the new bytes of each log are read: LOG_WATCH_READ_BYTES of one log at most, and what is more than
 * LOG_WATCH_BEHIND_BYTES behind is passed over, so a process that writes much costs the launcher little. A log that was cut (logrotate's copytruncate) is read from its
 * beginning. An error is repeated
 * only if its process still runs LOG_WATCH_ERROR_MS later: of one that ends the supervisor tells. Thread: the supervisor's loop. */
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
    struct log_place *log; /* of each process */
    struct warnings warnings;
    bool quiet; /* the job ends: what processes say of each other's end is no news */
};

/* All processes were started. Close with log_watch_close, on error too. Errors: ERR_NOMEM. */
enum err log_watch_init(struct log_watch *l, struct event_base *base,
                        const struct crew *crew) MUST_CHECK;
void log_watch_close(struct log_watch *l);

/* Repeat what is there by now; process i has ended, and its last error is somebody else's to tell. */
void log_watch_on_end(struct log_watch *l, uint32_t i);
/* Say no more. */
void log_watch_hush(struct log_watch *l);

#endif
