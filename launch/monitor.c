#include "launch/monitor.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/process/output.h"
#include "launch/base/rundir.h"
#include "launch/base/say.h"

enum {
    MONITOR_LINE_EVERY_MS = 2000,
    MONITOR_SAVE_EVERY_MS = 1000,
    MONITOR_REDRAW_EVERY_MS = 100,
    MONITOR_WATCH_EVERY_MS = 1000,
    MONITOR_STATUS_BYTES = 256,
    MONITOR_EPOCH_BYTES = 900
};

/* ---- processes/progress.json ---- */

void monitor_save(struct monitor *m)
{
    char text[3 * PROGRESS_LINE_BYTES + 256];
    int n =
        snprintf(text, sizeof text,
                 "{\"time\":%lld,\"restarts\":%u,\"cut\":%lld,"
                 "\"wait\":%s,\"wait_time\":%lld,\"silent_since\":%lld,\"loading\":%s,"
                 "\"progress_time\":%lld,\"progress\":%s}\n",
                 (long long)time(NULL), m->policy->restarts,
                 m->any_checkpoint ? (long long)m->checkpoint.cut : -1LL,
                 m->waits ? m->wait_line : "null", (long long)m->waits_told_s,
                 m->silent ? (long long)m->silent_since_s : -1LL, m->loads ? m->load_line : "null",
                 (long long)m->last_told_s, m->any_progress ? m->last_line : "null");
    struct errmsg e;
    enum err err = ERR_OK;
    if (n > 0 && (size_t)n < sizeof text)
        err = rundir_put(m->plan->dir, OUTPUT_PROGRESS, text, (size_t)n, &e);
    if (err && err != ERR_STATE) /* the supervisor reports that DIR is lost */
        say_warn("%s", e.text);
    m->saved_ms = clock_now_ms();
}

/* Save at most once per MONITOR_SAVE_EVERY_MS. */
void monitor_keep(struct monitor *m)
{
    struct timeval after = clock_timeval(m->saved_ms + MONITOR_SAVE_EVERY_MS - clock_now_ms());
    if (!evtimer_pending(m->save, NULL))
        (void)event_add(m->save, &after);
}

static void on_save(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    monitor_save(arg);
}

/* ---- the terminal ---- */

static void monitor_draw(const struct monitor *m)
{
    char text[MONITOR_STATUS_BYTES];
    progress_format_bar(text, sizeof text, &m->last, say_width());
    say_status(text);
}

void monitor_redraw(const struct monitor *m)
{
    if (m->any_progress && say_on_terminal() && !m->policy->ending)
        monitor_draw(m);
}

static void monitor_show_step(struct monitor *m)
{
    char text[MONITOR_STATUS_BYTES];
    int64_t now_ms = clock_now_ms();
    int64_t *when_ms = say_on_terminal() ? &m->drawn_ms : &m->said_ms;
    int64_t every_ms = say_on_terminal() ? MONITOR_REDRAW_EVERY_MS : MONITOR_LINE_EVERY_MS;
    if (now_ms - *when_ms < every_ms)
        return;
    *when_ms = now_ms;
    if (say_on_terminal()) {
        monitor_draw(m);
        return;
    }
    progress_format_step(text, sizeof text, &m->last);
    say_info("%s", text);
}

static void monitor_on_step(struct monitor *m, const struct progress_event *event, const char *line,
                            size_t bytes)
{
    m->last = *event;
    m->any_progress = true;
    m->loads = false;
    (void)snprintf(m->last_line, sizeof m->last_line, "%.*s", (int)bytes, line);
    m->last_told_s = (int64_t)time(NULL);
    m->result->epoch = event->epoch;
    m->result->step = progress_total_step(event);
    policy_at_step(m->policy, m->result->step);
    monitor_show_step(m);
    monitor_keep(m);
}

/* Before the first step, and again where a chief reads its data again. */
static void monitor_on_loading(struct monitor *m, const struct progress_event *event,
                               const char *line, size_t bytes)
{
    char text[MONITOR_STATUS_BYTES];
    int64_t now_ms = clock_now_ms();
    bool loads = event->bytes || event->rows;
    if (m->loads || loads)
        monitor_keep(m);
    m->loads = loads;
    if (!loads)
        return;
    (void)snprintf(m->load_line, sizeof m->load_line, "%.*s", (int)bytes, line);
    progress_format_loading(text, sizeof text, event);
    if (say_on_terminal()) {
        say_status(text);
    } else if (now_ms - m->said_ms >= MONITOR_LINE_EVERY_MS) {
        m->said_ms = now_ms;
        say_info("%s", text);
    }
}

static void monitor_on_epoch(struct monitor *m, const struct progress_event *event)
{
    char text[MONITOR_EPOCH_BYTES];
    progress_format_epoch(text, sizeof text, event);
    say_info("%s", text);
    m->said_ms = clock_now_ms();
}

/* `status` shows a wait until it ends. The chief's log and the terminal (log_watch.h) have it once. */
static void monitor_on_wait(struct monitor *m, const struct progress_event *event, const char *line,
                            size_t bytes)
{
    m->waits = *event->text;
    (void)snprintf(m->wait_line, sizeof m->wait_line, "%.*s", (int)bytes, line);
    m->waits_told_s = (int64_t)time(NULL);
    monitor_keep(m);
}

void monitor_forget_chief(struct monitor *m)
{
    if (m->waits || m->silent)
        monitor_keep(m);
    m->waits = m->silent = false;
    m->alive_ms = 0;
}

/* ---- the chief's signs ---- */

static const char *monitor_chief(const struct monitor *m)
{
    return m->plan->crew->process[m->plan->crew->chief].name;
}

static void monitor_on_alive(struct monitor *m)
{
    int64_t now_ms = clock_now_ms();
    if (m->silent) {
        m->silent = false;
        say_info("%s, the chief, gives signs again, after %lld s", monitor_chief(m),
                 (long long)(now_ms - m->alive_ms) / 1000);
        monitor_redraw(m);
        monitor_keep(m);
    }
    m->alive_ms = now_ms;
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct monitor *m = arg;
    char text[MONITOR_STATUS_BYTES];
    int64_t now_ms = clock_now_ms(), late_ms = now_ms - m->watched_ms - MONITOR_WATCH_EVERY_MS;
    m->watched_ms = now_ms;
    if (!m->alive_ms || m->policy->ending)
        return;
    if (late_ms > MONITOR_WATCH_EVERY_MS)
        m->alive_ms += late_ms; /* the launcher itself was stopped */
    long long seconds = (long long)(now_ms - m->alive_ms) / 1000;
    if (now_ms - m->alive_ms < MONITOR_SILENT_MS)
        return;
    if (!m->silent) {
        m->silent = true;
        m->silent_since_s = (int64_t)time(NULL) - seconds;
        say_warn("no sign of %s, the chief, for %lld s: it is stopped or hangs, or its host does "
                 "not answer",
                 monitor_chief(m), seconds);
        monitor_keep(m);
    }
    (void)snprintf(text, sizeof text, "no sign of the chief for %lld s", seconds);
    say_status(text);
}

static void monitor_on_line(void *arg, const char *line, size_t bytes)
{
    struct monitor *m = arg;
    struct progress_event event = {0};
    if (progress_parse(&event, line, bytes))
        return;
    switch (event.type) {
    case PROGRESS_STEP:
        monitor_on_step(m, &event, line, bytes);
        break;
    case PROGRESS_EPOCH:
        monitor_on_epoch(m, &event);
        break;
    case PROGRESS_LOADING:
        monitor_on_loading(m, &event, line, bytes);
        break;
    case PROGRESS_FIRST_STEP:
        m->loads = false;
        policy_made_step(m->policy);
        if (isnan(m->result->first_step_s))
            m->result->first_step_s = clock_now_s() - m->plan->start_s;
        if (m->plan->on_first_step)
            m->plan->on_first_step(m->plan->arg);
        break;
    case PROGRESS_CHECKPOINT:
        policy_published(m->policy, event.cut);
        m->checkpoint = event;
        m->any_checkpoint = true;
        monitor_keep(m);
        break;
    case PROGRESS_LOG:
        say_info("%s", event.text);
        break;
    case PROGRESS_WAIT:
        monitor_on_wait(m, &event, line, bytes);
        break;
    case PROGRESS_ALIVE:
        monitor_on_alive(m);
        break;
    case PROGRESS_UNTRAINED: /* a restarted chief does not know that this run has trained before */
        if (isnan(m->result->first_step_s))
            say_info("%s", event.text);
        break;
    }
}

void monitor_feed(struct monitor *m, const char *bytes, size_t n)
{
    progress_lines_feed(&m->lines, bytes, n, monitor_on_line, m);
}

/* ---- life ---- */

enum err monitor_init(struct monitor *m, const struct supervisor_plan *plan, struct policy *policy,
                      struct supervisor_result *result)
{
    *m = (struct monitor){.plan = plan, .policy = policy, .result = result};
    struct timeval every = clock_timeval(MONITOR_WATCH_EVERY_MS);
    m->watched_ms = clock_now_ms();
    m->save = evtimer_new(plan->base, on_save, m);
    m->watch = event_new(plan->base, -1, EV_PERSIST, on_watch, m);
    return m->save && m->watch && event_add(m->watch, &every) == 0 ? ERR_OK : ERR_NOMEM;
}

void monitor_close(struct monitor *m)
{
    if (m->save)
        event_free(m->save);
    if (m->watch)
        event_free(m->watch);
    m->save = m->watch = NULL;
}
