#include "launch/supervisor.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/process/dirlock.h"
#include "common/process/output.h"
#include "launch/remote/fleet.h"
#include "launch/log_watch.h"
#include "launch/policy.h"
#include "launch/base/rundir.h"
#include "launch/base/say.h"
#include "launch/progress.h"

/* The chief's progress: shown on stderr, and kept in processes/progress.json for `gradwire status`. The chief gives a sign
 * every second ("alive" in progress.h), from its start to its end; if none comes for MONITOR_SILENT_MS, both say so.
 * Thread: the supervisor's loop. */
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
    bool any_loads;                      /* it, or a worker */
    char load_line[PROGRESS_LINE_BYTES]; /* its JSON */
    bool waits;                          /* training waits for a process */
    char wait_line[PROGRESS_LINE_BYTES]; /* its JSON */
    int64_t waits_told_s;                /* time of that line, seconds since 1970 */
    int64_t said_ms, saved_ms,
        drawn_ms;         /* times when progress was last logged, kept in the file, drawn */
    int64_t load_said_ms; /* when load_line was last logged */
    bool any_progress, any_checkpoint;
};

enum {
    MONITOR_LINE_EVERY_MS = 2000,
    MONITOR_ARRIVALS_EVERY_MS = 10000, /* while others train */
    MONITOR_NO_STEP_MS = 5000,         /* then the terminal shows who reads its data */
    MONITOR_SAVE_EVERY_MS = 1000,
    MONITOR_REDRAW_EVERY_MS = 100,
    MONITOR_WATCH_EVERY_MS = 1000,
    MONITOR_STATUS_BYTES = 256,
    MONITOR_EPOCH_BYTES = 900
};

/* ---- processes/progress.json ---- */

static void monitor_save(struct monitor *m)
{
    char text[3 * PROGRESS_LINE_BYTES + 256];
    int n = snprintf(text, sizeof text,
                     "{\"time\":%lld,\"restarts\":%u,\"cut\":%lld,"
                     "\"wait\":%s,\"wait_time\":%lld,\"silent_since\":%lld,\"loading\":%s,"
                     "\"progress_time\":%lld,\"progress\":%s}\n",
                     (long long)time(NULL), m->policy->restarts,
                     m->any_checkpoint ? (long long)m->checkpoint.cut : -1LL,
                     m->waits ? m->wait_line : "null", (long long)m->waits_told_s,
                     m->silent ? (long long)m->silent_since_s : -1LL,
                     m->any_loads ? m->load_line : "null", (long long)m->last_told_s,
                     m->any_progress ? m->last_line : "null");
    struct errmsg e;
    enum err err = ERR_OK;
    if (n > 0 && (size_t)n < sizeof text)
        err = rundir_put(m->plan->dir, OUTPUT_PROGRESS, text, (size_t)n, &e);
    if (err && err != ERR_STATE) /* the supervisor reports that DIR is lost */
        say_warn("%s", e.text);
    m->saved_ms = clock_now_ms();
}

/* Save at most once per MONITOR_SAVE_EVERY_MS. */
static void monitor_keep(struct monitor *m)
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

/* The terminal's width has changed: draw the progress line again. */
static void monitor_redraw(const struct monitor *m)
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
    (void)snprintf(m->last_line, sizeof m->last_line, "%.*s", (int)bytes, line);
    m->last_told_s = (int64_t)time(NULL);
    m->result->epoch = event->epoch;
    m->result->step = progress_total_step(event);
    policy_at_step(m->policy, m->result->step);
    monitor_show_step(m);
    monitor_keep(m);
}

/* Before the first step, and again where a process is started again. While others train on, the terminal shows their steps, and the
 * log theirs and, now and then, this. */
static void monitor_on_loading(struct monitor *m, const struct progress_event *event,
                               const char *line, size_t bytes)
{
    char text[MONITOR_STATUS_BYTES];
    int64_t now_ms = clock_now_ms();
    bool any = event->n_loading > 0;
    bool trains = m->any_progress && (!any || *event->loading->name);
    int64_t every_ms = trains ? MONITOR_ARRIVALS_EVERY_MS : MONITOR_LINE_EVERY_MS;
    if (m->any_loads || any)
        monitor_keep(m);
    if (m->any_loads && !any)
        monitor_redraw(m);
    m->any_loads = any;
    m->loads = any && !*event->loading->name;
    if (!any)
        return;
    (void)snprintf(m->load_line, sizeof m->load_line, "%.*s", (int)bytes, line);
    progress_format_loading(text, sizeof text, event->loading, event->n_loading,
                            event->more_loading, say_on_terminal() ? say_width() : 0);
    if (say_on_terminal()) {
        if (!trains || now_ms - m->drawn_ms >= MONITOR_NO_STEP_MS)
            say_status(text);
    } else if (now_ms - m->load_said_ms >= every_ms) {
        m->load_said_ms = now_ms;
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

/* The chief has ended: forget the wait that it reported, and its signs. The next chief has its own. */
static void monitor_forget_chief(struct monitor *m)
{
    if (m->waits || m->silent || m->any_loads)
        monitor_keep(m);
    m->waits = m->silent = m->loads = m->any_loads = false;
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

/* ---- life ---- */

/* Close with monitor_close, also after an error. Errors: ERR_NOMEM. */
static enum err monitor_init(struct monitor *m, const struct supervisor_plan *plan,
                             struct policy *policy, struct supervisor_result *result)
{
    *m = (struct monitor){.plan = plan, .policy = policy, .result = result};
    struct timeval every = clock_timeval(MONITOR_WATCH_EVERY_MS);
    m->watched_ms = clock_now_ms();
    m->save = evtimer_new(plan->base, on_save, m);
    m->watch = event_new(plan->base, -1, EV_PERSIST, on_watch, m);
    return m->save && m->watch && event_add(m->watch, &every) == 0 ? ERR_OK : ERR_NOMEM;
}

static void monitor_close(struct monitor *m)
{
    if (m->save)
        event_free(m->save);
    if (m->watch)
        event_free(m->watch);
    m->save = m->watch = NULL;
}

enum {
    SUPERVISOR_SAME_INT_MS =
        300 /* timeout(1) signals a process and then its group; both count as one Ctrl-C */
};

enum {
    EVENT_INT,
    EVENT_TERM,
    EVENT_HUP,
    EVENT_CHILD,
    EVENT_WIDTH,
    EVENT_PROGRESS,
    EVENT_KILL,
    EVENT_GUARD,
    EVENTS
};

struct supervisor;
struct restart {
    struct supervisor *owner;
    struct process *process;
    struct event *timer;
    bool waiting;
};

struct supervisor {
    const struct supervisor_plan *plan;
    struct supervisor_result *result;
    struct event *event[EVENTS];
    bool announced; /* all processes have been started */
    struct policy policy;
    struct restart *restart; /* one for each process */
    struct monitor monitor;
    struct log_watch watch;
    int64_t interrupted_ms; /* time of the interruption */
};

static void supervisor_signal_all(const struct supervisor *s, int sig)
{
    for (uint32_t i = 0; i < s->plan->crew->n; i++) {
        struct process *p = &s->plan->crew->process[i];
        p->ops->signal(p, sig);
    }
}

/* ---- files in DIR/processes ---- */

/* Write processes/pids: "role index pid" of all running processes, the launcher first; for a process on another host the
 * host follows. */
static void supervisor_write_pids(const struct supervisor *s)
{
    const struct crew *c = s->plan->crew;
    char *text = NULL;
    size_t bytes = 0;
    struct errmsg e;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return;
    (void)fprintf(out, "launcher 0 %ld\n", (long)getpid());
    for (const struct process *p = c->process; p < c->process + c->n; p++)
        if (p->pid > 0)
            (void)fprintf(out, "%s %u %ld%s%s\n", role_str(p->role), p->index, (long)p->pid,
                          p->host ? " " : "", p->host ? p->host : "");
    enum err err =
        fclose(out) == 0 ? rundir_put(s->plan->dir, OUTPUT_PIDS, text, bytes, &e) : ERR_OK;
    if (err && err != ERR_STATE) /* on_guard reports that DIR is lost */
        say_warn("%s", e.text);
    free(text);
}

/* ---- progress ---- */

static void progress_bytes(void *arg, const char *bytes, size_t n)
{
    struct supervisor *s = arg;
    progress_lines_feed(&s->monitor.lines, bytes, n, monitor_on_line, &s->monitor);
}

/* Read everything that is in the pipe now. */
static void on_progress(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    char bytes[4096];
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        progress_bytes(arg, bytes, (size_t)n);
}

static void on_width(evutil_socket_t sig, short what, void *arg)
{
    (void)sig, (void)what;
    const struct supervisor *s = arg;
    monitor_redraw(&s->monitor);
}

/* ---- the end ---- */

static void supervisor_stop_if_over(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->plan->crew->n; i++)
        if (s->plan->crew->process[i].state != PROCESS_ENDED || s->restart[i].waiting)
            return;
    (void)event_base_loopbreak(s->plan->base);
}

/* The set of running processes has changed: write the file again, and check if the job is over. */
static void supervisor_changed(struct supervisor *s)
{
    supervisor_write_pids(s);
    supervisor_stop_if_over(s);
}

static void supervisor_cancel_restarts(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->plan->crew->n; i++) {
        struct process *p = &s->plan->crew->process[i];
        s->restart[i].waiting = false;
        (void)event_del(s->restart[i].timer);
        if (p->ops->cancel)
            p->ops->cancel(p);
    }
}

static void supervisor_kill_after_ms(struct supervisor *s, int64_t ms)
{
    struct timeval after = clock_timeval(ms);
    (void)event_add(s->event[EVENT_KILL], &after);
}

/* Send SIGTERM to all processes; the grace begins. The caller has set the exit code. */
static void supervisor_end(struct supervisor *s)
{
    s->policy.ending = true;
    supervisor_cancel_restarts(s);
    supervisor_signal_all(s, SIGTERM);
    supervisor_kill_after_ms(s, (int64_t)s->plan->job->timeouts.grace_s * 1000);
    supervisor_stop_if_over(s);
}

/* The grace is over; or, if the processes were not told to end yet, they still run after the chief is done. */
static void on_kill(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct supervisor *s = arg;
    if (!s->policy.ending) {
        say_warn("the chief is done, but other processes still run after %d s; ending them",
                 SUPERVISOR_LINGER_S);
        supervisor_end(s);
        return;
    }
    say_warn("some processes still run after %u s (timeouts.grace_s); killing them",
             s->plan->job->timeouts.grace_s);
    supervisor_signal_all(s, SIGKILL);
}

static void supervisor_interrupt(struct supervisor *s, int exit_code, const char *what)
{
    if (s->policy.ending)
        return;
    say_status("");
    say_info("%s: the job ends after a checkpoint, within %u s%s", what,
             s->plan->job->timeouts.grace_s,
             exit_code == SUPERVISOR_EXIT_INT ? " (press Ctrl-C again to kill it)" : "");
    if (!s->policy.chief_done) {
        s->result->exit_code = exit_code;
        (void)snprintf(s->result->error, sizeof s->result->error, "interrupted by %s", what);
    }
    s->interrupted_ms = clock_now_ms();
    supervisor_end(s);
}

static void on_interrupt(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct supervisor *s = arg;
    if (s->policy.ending && clock_now_ms() - s->interrupted_ms < SUPERVISOR_SAME_INT_MS)
        return;
    if (s->policy.ending) {
        say_warn("Ctrl-C: killing all processes");
        supervisor_signal_all(s, SIGKILL);
    } else {
        supervisor_interrupt(s, SUPERVISOR_EXIT_INT, "Ctrl-C");
    }
}

static void on_terminate(evutil_socket_t sig, short what, void *arg)
{
    (void)what;
    supervisor_interrupt(arg, SUPERVISOR_EXIT_TERM, sig == SIGHUP ? "SIGHUP" : "SIGTERM");
}

/* ---- processes come and go ---- */

/* The job ends, with this exit code and error. */
static void supervisor_fail(struct supervisor *s, int exit_code, const char *name, const char *text)
{
    log_watch_hush(&s->watch);
    s->result->exit_code = exit_code;
    (void)snprintf(s->result->error, sizeof s->result->error, "%s: %s", name, text);
    supervisor_end(s);
}

/* True: DIR was removed, so the job ends. Another job may use DIR now. */
static bool supervisor_lost_dir(struct supervisor *s)
{
    struct errmsg e;
    if (!dirguard_check(&e))
        return false;
    if (s->policy.ending || s->policy.chief_done)
        return true;
    log_watch_hush(&s->watch);
    say_status("");
    say_error("%s", e.text);
    s->result->exit_code = 1;
    (void)snprintf(s->result->error, sizeof s->result->error, "%s", e.text);
    supervisor_end(s);
    return true;
}

static void on_guard(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct supervisor *s = arg;
    if (supervisor_lost_dir(s))
        (void)event_del(s->event[EVENT_GUARD]);
}

static void on_restart(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct restart *r = arg;
    struct supervisor *s = r->owner;
    struct errmsg e;
    r->waiting = false;
    if (supervisor_lost_dir(s))
        return;
    if (r->process->ops->start(r->process, &e)) {
        say_error("%s", e.text);
        supervisor_fail(s, 1, r->process->name, e.text);
    }
    supervisor_changed(s);
}

static void supervisor_restart(struct supervisor *s, uint32_t i, const struct policy_verdict *v)
{
    const struct process *p = &s->plan->crew->process[i];
    say_warn("%s %s; starting it again in %.1f s (restart %u of %u)", p->name, v->why,
             v->delay_ms / 1e3, s->policy.restarts, s->policy.restarts_max);
    struct timeval after = clock_timeval(v->delay_ms);
    s->restart[i].waiting = true;
    monitor_keep(&s->monitor);
    (void)event_add(s->restart[i].timer, &after);
}

/* This process ends the job. If it exited, its own last log line is the best reason; if it died, the policy has the reason. */
static void supervisor_end_by(struct supervisor *s, const struct process *p,
                              const struct policy_verdict *v, const char words[PROCESS_WORDS_BYTES],
                              bool exited)
{
    char text[sizeof s->result->error - PROCESS_NAME_BYTES - 2];
    if (exited && *words)
        (void)snprintf(text, sizeof text, "%s", words);
    else if (*words)
        (void)snprintf(text, sizeof text, "%s (%s)", v->why, words);
    else
        (void)snprintf(text, sizeof text, "%s", v->why);
    say_status("");
    say_error("%s: %s", p->name, text);
    supervisor_fail(s, v->exit_code, p->name, text);
}

/* The job is done, even if a Ctrl-C came at its last moment. */
static void supervisor_on_chief_done(struct supervisor *s)
{
    supervisor_cancel_restarts(s);
    log_watch_hush(&s->watch);
    if (!s->policy.ending)
        supervisor_kill_after_ms(s, SUPERVISOR_LINGER_S * 1000);
    if (s->result->exit_code == SUPERVISOR_EXIT_INT ||
        s->result->exit_code == SUPERVISOR_EXIT_TERM) {
        s->result->exit_code = 0;
        s->result->error[0] = 0;
    }
}

/* Carry out the verdict v after the end of process i. `quiet`: the end is normal, or was requested. `exited`: the process
 * exited by itself, so its last log line has the best reason. */
static void supervisor_follow(struct supervisor *s, uint32_t i, const struct policy_verdict *v,
                              bool quiet, bool exited)
{
    const struct process *p = &s->plan->crew->process[i];
    char words[PROCESS_WORDS_BYTES] = "";
    log_watch_on_end(&s->watch, i);
    if (i == s->plan->crew->chief)
        monitor_forget_chief(&s->monitor);
    if (!quiet)
        process_last_words(p, exited, words, sizeof words);
    if (v->action == POLICY_END)
        supervisor_end_by(s, p, v, words, exited);
    else if (*words)
        say_error("%s: %s", p->name, words);
    if (v->action == POLICY_RESTART)
        supervisor_restart(s, i, v);
    else if (v->action == POLICY_GONE && !quiet)
        say_warn("%s %s%s", p->name, v->why,
                 s->policy.chief_done ? " after the chief was done" : "");
}

/* Tell the policy how long process i ran; the exit follows. */
static void supervisor_ran(struct supervisor *s, uint32_t i)
{
    int64_t started_ms = s->plan->crew->process[i].started_ms;
    policy_ran(&s->policy, i, started_ms ? clock_now_ms() - started_ms : 0);
}

static void supervisor_on_exit(struct supervisor *s, uint32_t i, int status)
{
    bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!clean) /* then this is why it ended, and it may have no log to say so */
        (void)supervisor_lost_dir(s);
    bool was_ending = s->policy.ending, chief_was_done = s->policy.chief_done;
    if (i == s->plan->crew->chief && !s->plan->fleet)
        on_progress(s->plan->progress_fd, EV_READ, s); /* its last messages count */
    supervisor_ran(s, i);
    struct policy_verdict v = policy_exit(&s->policy, i, status);
    supervisor_follow(s, i, &v, clean || was_ending,
                      WIFEXITED(status) && v.exit_code == WEXITSTATUS(status));
    if (s->policy.chief_done && !chief_was_done)
        supervisor_on_chief_done(s);
}

static enum err supervisor_guard_all(const struct supervisor *s, struct errmsg *e)
{
    const struct crew *c = s->plan->crew;
    enum err err = s->plan->fleet ? fleet_guard(s->plan->fleet, &c->guardian, e) : ERR_OK;
    for (uint32_t i = 0; !err && i < c->n; i++)
        if (!c->process[i].host && c->process[i].pid > 0)
            err = guardian_register(&c->guardian, c->process[i].pid, WARD_PROCESS, e);
    return err;
}

static void supervisor_renew_guardian(struct supervisor *s)
{
    struct errmsg e;
    struct guardian *g = &s->plan->crew->guardian;
    (void)close(g->fd);
    enum err err = guardian_start(g, &e);
    if (!err)
        err = supervisor_guard_all(s, &e);
    if (err)
        say_warn("cannot start a guardian: %s; if the launcher is killed, its processes may keep "
                 "running",
                 e.text);
}

static void supervisor_reaped(struct supervisor *s, pid_t pid, int status, const struct rusage *use)
{
    struct crew *c = s->plan->crew;
    if (pid == c->guardian.pid)
        supervisor_renew_guardian(s);
    if (s->plan->fleet)
        fleet_reaped(s->plan->fleet, pid);
    for (uint32_t i = 0; i < c->n; i++)
        if (local_reaped(&c->process[i], pid, (uint64_t)use->ru_maxrss * 1024)) {
            supervisor_on_exit(s, i, status);
            return;
        }
}

static void on_child(evutil_socket_t sig, short what, void *arg)
{
    (void)sig, (void)what;
    struct supervisor *s = arg;
    int status;
    struct rusage use;
    pid_t pid;
    bool any = false;
    while ((pid = wait4(-1, &status, WNOHANG, &use)) > 0) {
        supervisor_reaped(s, pid, status, &use);
        any = true;
    }
    if (any)
        supervisor_write_pids(s);
    supervisor_stop_if_over(s);
}

/* ---- events of other hosts ---- */

static void supervisor_announce(struct supervisor *s)
{
    const struct crew *c = s->plan->crew;
    for (uint32_t i = 0; i < c->n; i++)
        if (s->announced || c->process[i].state == PROCESS_AWAITED)
            return;
    s->announced = true;
    say_info("%s: %u ps, %u worker processes%s; output in %s", s->plan->job->name, c->chief,
             c->n - c->chief - c->evaluators, c->evaluators ? ", 1 evaluator" : "", s->plan->dir);
    for (uint32_t i = 0; i < c->n; i++)
        say_info("%s: pid %ld on %s", c->process[i].name, (long)c->process[i].pid,
                 c->process[i].address);
}

static void remote_started(void *arg, struct process *p)
{
    (void)p;
    supervisor_write_pids(arg);
    supervisor_announce(arg);
}

static uint32_t supervisor_index(const struct supervisor *s, const struct process *p)
{
    return (uint32_t)(p - s->plan->crew->process);
}

static void remote_ended(void *arg, struct process *p, int wait_status)
{
    supervisor_on_exit(arg, supervisor_index(arg, p), wait_status);
    supervisor_changed(arg);
}

static void remote_lost(void *arg, struct process *p)
{
    struct supervisor *s = arg;
    bool was_ending = s->policy.ending;
    supervisor_ran(s, supervisor_index(s, p));
    struct policy_verdict v = policy_lost(&s->policy, supervisor_index(s, p));
    supervisor_follow(s, supervisor_index(s, p), &v, was_ending, false);
    supervisor_changed(s);
}

static void remote_end(void *arg, const char *who, const char *why)
{
    struct supervisor *s = arg;
    if (s->policy.ending || s->policy.chief_done)
        return;
    say_status("");
    say_error("%s: %s", who, why);
    supervisor_fail(s, 1, who, why);
}

static void remote_failed(void *arg, struct process *p, const char *why)
{
    remote_end(arg, p->name, why);
    supervisor_stop_if_over(arg);
}

static const struct process_events supervisor_events = {
    .started = remote_started,
    .ended = remote_ended,
    .lost = remote_lost,
    .failed = remote_failed,
    .progress = progress_bytes,
    .end = remote_end,
};

/* ---- life ---- */

/* True: the signal is ignored, as nohup does with SIGHUP; leave it so. */
static bool supervisor_ignores(int sig)
{
    struct sigaction now;
    return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static enum err supervisor_make_events(struct supervisor *s)
{
    static const struct {
        int which, sig;
        event_callback_fn call;
    } signals[] = {{EVENT_INT, SIGINT, on_interrupt},
                   {EVENT_TERM, SIGTERM, on_terminate},
                   {EVENT_HUP, SIGHUP, on_terminate},
                   {EVENT_CHILD, SIGCHLD, on_child},
                   {EVENT_WIDTH, SIGWINCH, on_width}};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (signals[i].sig == SIGHUP && supervisor_ignores(SIGHUP))
            continue;
        if (signals[i].sig != SIGCHLD)
            (void)signal(
                signals[i].sig,
                SIG_IGN); /* ignored again after the events are freed, so that the summary is written */
        struct event *ev = evsignal_new(s->plan->base, signals[i].sig, signals[i].call, s);
        s->event[signals[i].which] = ev;
        if (!ev || event_add(ev, NULL) != 0)
            return ERR_NOMEM;
    }
    s->event[EVENT_PROGRESS] =
        event_new(s->plan->base, s->plan->progress_fd, EV_READ | EV_PERSIST, on_progress, s);
    s->event[EVENT_KILL] = evtimer_new(s->plan->base, on_kill, s);
    struct timeval every = clock_timeval(DIRGUARD_EVERY_MS);
    s->event[EVENT_GUARD] = event_new(s->plan->base, -1, EV_PERSIST, on_guard, s);
    if (!s->event[EVENT_PROGRESS] || !s->event[EVENT_KILL] || !s->event[EVENT_GUARD] ||
        event_add(s->event[EVENT_PROGRESS], NULL) != 0 ||
        event_add(s->event[EVENT_GUARD], &every) != 0)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < s->plan->crew->n; i++) {
        struct restart *r = &s->restart[i];
        *r = (struct restart){.owner = s, .process = &s->plan->crew->process[i]};
        r->timer = evtimer_new(s->plan->base, on_restart, r);
        if (!r->timer)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

static void supervisor_close(struct supervisor *s)
{
    for (uint32_t i = 0; s->restart && i < s->plan->crew->n; i++)
        if (s->restart[i].timer)
            event_free(s->restart[i].timer);
    for (size_t i = 0; i < EVENTS; i++)
        if (s->event[i])
            event_free(s->event[i]);
    monitor_close(&s->monitor);
    log_watch_close(&s->watch);
    policy_close(&s->policy);
    mem_free(s->restart);
}

static enum err supervisor_init(struct supervisor *s)
{
    const struct crew *c = s->plan->crew;
    if (policy_init(&s->policy, c->n, c->chief, s->plan->restarts_max) ||
        monitor_init(&s->monitor, s->plan, &s->policy, s->result))
        return ERR_NOMEM;
    if (c->evaluators)
        s->policy.spare = c->n - 1;
    s->restart = mem_zalloc(c->n, sizeof *s->restart);
    if (!s->restart)
        return ERR_NOMEM;
    if (s->plan->fleet)
        fleet_tell(s->plan->fleet, &supervisor_events, s);
    return supervisor_make_events(s);
}

/* End the processes on this host after the start of another process has failed. */
static void supervisor_undo_start(const struct supervisor *s)
{
    struct crew *c = s->plan->crew;
    supervisor_signal_all(s, SIGKILL);
    for (uint32_t i = 0; i < c->n; i++)
        if (!c->process[i].host && c->process[i].pid > 0)
            (void)TEMP_FAILURE_RETRY(waitpid(c->process[i].pid, NULL, 0));
}

static enum err supervisor_start_all(struct supervisor *s, struct errmsg *e)
{
    struct crew *c = s->plan->crew;
    enum err err = guardian_start(&c->guardian, e);
    if (err)
        return err;
    err = supervisor_guard_all(s, e);
    for (uint32_t i = 0; !err && i < c->n; i++)
        err = c->process[i].ops->start(&c->process[i], e);
    if (!err)
        return ERR_OK;
    supervisor_undo_start(s);
    if (s->plan->fleet)
        fleet_close(s->plan->fleet);
    guardian_close(&c->guardian);
    return err;
}

enum err supervisor_run(struct supervisor_result *result, const struct supervisor_plan *plan,
                        struct errmsg *e)
{
    *result = (struct supervisor_result){.first_step_s = (double)NAN};
    struct supervisor *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_memory(e);
    s->plan = plan;
    s->result = result;
    enum err err = supervisor_init(s);
    if (err)
        err_set(e, err, "%s", err_str(err));
    else
        monitor_save(&s->monitor); /* in place of an earlier run's */
    if (!err)
        err = supervisor_start_all(s, e);
    if (!err && log_watch_init(&s->watch, plan->base, plan->crew, &s->monitor.loads)) {
        say_warn("out of memory: warnings of the processes are only in their logs");
        log_watch_close(&s->watch);
    }
    if (!err) {
        supervisor_write_pids(s);
        supervisor_announce(s);
        (void)event_base_dispatch(plan->base);
        on_progress(plan->progress_fd, EV_READ, s);
        say_status("");
        monitor_save(&s->monitor);
        if (plan->fleet)
            fleet_close(plan->fleet);
        guardian_close(&plan->crew->guardian);
        result->restarts = s->policy.restarts;
    }
    supervisor_close(s);
    mem_free(s);
    return err;
}
