/* The chief's progress: shown on stderr, and kept in processes/progress.json for `gradwire status`.
 * Thread: the supervisor's loop. */
#ifndef GRADWIRE_LAUNCH_MONITOR_H
#define GRADWIRE_LAUNCH_MONITOR_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "launch/policy.h"
#include "launch/progress.h"
#include "launch/supervisor.h"

struct monitor {
    const struct supervisor_plan *plan;
    struct policy *policy;            /* receives the steps */
    struct supervisor_result *result; /* step, epoch, first_step_s */
    struct event *save;
    struct progress_lines lines;
    struct progress_event last;          /* progress */
    char last_line[PROGRESS_LINE_BYTES]; /* its JSON */
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
/* The chief has ended: forget the wait that it reported. The next chief reports its own. */
void monitor_forget_wait(struct monitor *m);
/* The terminal's width has changed: draw the progress line again. */
void monitor_redraw(const struct monitor *m);
/* Something has changed: write progress.json now (monitor_save), or within a second of the last time (monitor_keep). */
void monitor_keep(struct monitor *m);
void monitor_save(struct monitor *m);

#endif
