/* The chief's progress: shown on stderr, and kept in processes/progress.json for `gradwire status`. The chief gives a sign
 * every second ("alive" in progress.h), from its start to its end; if none comes for MONITOR_SILENT_MS, both say so.
 * Thread: the supervisor's loop. */
#ifndef GRADWIRE_LAUNCH_MONITOR_H
#define GRADWIRE_LAUNCH_MONITOR_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"
#include "launch/policy.h"
#include "launch/progress.h"
#include "launch/supervisor.h"

enum { MONITOR_SILENT_MS = 8000 }; /* docs/reference/timeouts.md */

struct monitor {
    const struct supervisor_plan *plan;
    struct policy *policy;            /* receives the steps */
    struct supervisor_result *result; /* step, epoch, first_step_s */
    struct event *save;
    struct event *watch;    /* of the chief's signs */
    int64_t alive_ms;       /* the last sign of the present chief; 0: none yet */
    int64_t watched_ms;     /* when this was checked last */
    bool silent;            /* the chief gives no sign */
    int64_t silent_since_s; /* seconds since 1970 */
    struct progress_lines lines;
    struct progress_event last;          /* progress */
    char last_line[PROGRESS_LINE_BYTES]; /* its JSON */
    int64_t last_told_s;                 /* time of that line, seconds since 1970 */
    struct progress_event checkpoint;
    bool loads;                          /* the chief reads its data */
    char load_line[PROGRESS_LINE_BYTES]; /* its JSON */
    bool waits;                          /* training waits for a process */
    char wait_line[PROGRESS_LINE_BYTES]; /* its JSON */
    int64_t waits_told_s;                /* time of that line, seconds since 1970 */
    int64_t said_ms, saved_ms,
        drawn_ms; /* times when progress was last logged, kept in the file, drawn */
    bool any_progress, any_checkpoint;
};

/* Close with monitor_close, also after an error. Errors: ERR_NOMEM. */
enum err monitor_init(struct monitor *m, const struct supervisor_plan *plan, struct policy *policy,
                      struct supervisor_result *result) MUST_CHECK;
void monitor_close(struct monitor *m);

/* Process bytes from the chief's progress pipe (progress.h). */
void monitor_feed(struct monitor *m, const char *bytes, size_t n);
/* The chief has ended: forget the wait that it reported, and its signs. The next chief has its own. */
void monitor_forget_chief(struct monitor *m);
/* The terminal's width has changed: draw the progress line again. */
void monitor_redraw(const struct monitor *m);
/* Something has changed: write progress.json now (monitor_save), or within a second of the last time (monitor_keep). */
void monitor_keep(struct monitor *m);
void monitor_save(struct monitor *m);

#endif
