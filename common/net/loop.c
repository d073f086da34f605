#include "common/net/loop.h"

#include "common/base/clock.h"
#include "common/process/cgroup.h"

/* libevent opens an epoll instance and a pair for signals, and ends the process if it cannot. */
enum { LOOP_DESCRIPTORS = 3 };

enum err loop_base_new(struct event_base **out, struct errmsg *e)
{
    enum err err = ulimits_check_descriptors(LOOP_DESCRIPTORS, e);
    if (err)
        return err;
    struct event_config *config = event_config_new();
    if (!config)
        return err_memory_for(e, "an event loop");
    /* One thread per loop, so libevent needs no locks. */
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    if (!base)
        return err_memory_for(e, "an event loop");
    *out = base;
    return ERR_OK;
}

enum err loop_init(struct loop *l)
{
    struct event_base *base = NULL;
    enum err err = loop_base_new(&base, NULL);
    if (err)
        return err;
    *l = (struct loop){.base = base};
    l->later_end = &l->later;
    return ERR_OK;
}

void loop_put_off(struct loop *l, struct loop_later *later)
{
    later->next = NULL;
    *l->later_end = later;
    l->later_end = &later->next;
}

/* Work that is added meanwhile runs, too. */
static void run_later(struct loop *l)
{
    while (l->later) {
        struct loop_later *first = l->later;
        l->later = first->next;
        if (!l->later)
            l->later_end = &l->later;
        first->fn(first);
    }
}

enum err loop_tick(struct loop *l, bool *idle)
{
    /* Work scheduled between ticks runs now; this tick then does not wait for events. */
    int flags = l->later ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE;
    run_later(l);
    int rc = event_base_loop(l->base, flags);
    run_later(l);
    if (rc < 0)
        return ERR_IO;
    if (idle) /* run_later may have added events */
        *idle = rc == 1 && event_base_get_num_events(l->base, EVENT_BASE_COUNT_ADDED) == 0;
    return ERR_OK;
}

enum err loop_run(struct loop *l)
{
    enum err rc = ERR_OK;
    bool idle = false;
    l->stopped = false;
    while (rc == ERR_OK && !idle && !l->stopped)
        rc = loop_tick(l, &idle);
    return rc;
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
}

void loop_close(struct loop *l)
{
    run_later(l);
    event_base_free(l->base);
    *l = (struct loop){0};
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct loop_timer *t = arg;
    t->fn(t->arg);
}

void loop_timer_init(struct loop_timer *t, struct loop *l, void (*fn)(void *arg), void *arg)
{
    *t = (struct loop_timer){.fn = fn, .arg = arg};
    event_assign(&t->event, l->base, -1, 0, on_timer, t);
}

/* libevent cannot change the kind of a pending event: delete, assign and add it again. */
static enum err timer_start(struct loop_timer *t, int64_t ms, short kind)
{
    struct timeval tv = clock_timeval(ms);
    struct event_base *base = event_get_base(&t->event);
    event_del(&t->event);
    event_assign(&t->event, base, -1, kind, on_timer, t);
    return event_add(&t->event, &tv) == 0 ? ERR_OK : ERR_NOMEM;
}

enum err loop_timer_once(struct loop_timer *t, int64_t ms)
{
    return timer_start(t, ms, 0);
}

enum err loop_timer_every(struct loop_timer *t, int64_t ms)
{
    return timer_start(t, ms, EV_PERSIST);
}

bool loop_timer_running(const struct loop_timer *t)
{
    return event_pending(&t->event, EV_TIMEOUT, NULL) != 0;
}

void loop_timer_stop(struct loop_timer *t)
{
    event_del(&t->event);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    struct loop_signal *s = arg;
    s->fn((int)number, s->arg);
}

enum err loop_signal_init(struct loop_signal *s, struct loop *l, int number,
                          void (*fn)(int number, void *arg), void *arg)
{
    *s = (struct loop_signal){.fn = fn, .arg = arg};
    event_assign(&s->event, l->base, number, EV_SIGNAL | EV_PERSIST, on_signal, s);
    return event_add(&s->event, NULL) == 0 ? ERR_OK : ERR_NOMEM;
}

void loop_signal_close(struct loop_signal *s)
{
    event_del(&s->event);
}
