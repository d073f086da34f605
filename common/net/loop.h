/* One event loop per thread (libevent): timers, signals, and work for the end of a tick. All functions must be
 * called on the loop's thread; other threads reach it through a mailbox (mailbox.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "common/base/err.h"

/* Work for the end of the tick. Embed it in the object that it concerns, such as a closed connection. */
struct loop_later {
    struct loop_later *next;
    void (*fn)(struct loop_later *later);
};

struct loop {
    struct event_base *base; /* for code that uses libevent directly (HTTP) */
    struct loop_later *later, **later_end;
    bool stopped;
};

/* For code that uses libevent without a loop of ours: event_base_free. Errors: ERR_NOMEM; ERR_FILES without three free
 * descriptors, for which libevent itself would end the process. */
enum err loop_base_new(struct event_base **out, struct errmsg *e) MUST_CHECK;

/* *l must not move until loop_close. Errors: as loop_base_new. */
enum err loop_init(struct loop *l) MUST_CHECK;
/* Runs pending loop_later work first. The caller must have closed the loop's timers, signals and connections. */
void loop_close(struct loop *l);

/* Runs until loop_stop, or until no event is left to wait for. A stopped loop can run again. Errors: ERR_IO if the
 * kernel's event queue fails. */
enum err loop_run(struct loop *l) MUST_CHECK;
/* Waits for events once and handles them. *idle (`idle` can be NULL): no event is left to wait for. Errors: as
 * loop_run. */
enum err loop_tick(struct loop *l, bool *idle) MUST_CHECK;
/* Makes loop_run return at the end of this tick. */
void loop_stop(struct loop *l);

/* Calls later->fn once, at the end of this tick; several in the order of the calls. `later` must not be waiting
 * already, and must stay valid until fn is called; fn can free it. Never fails. */
void loop_put_off(struct loop *l, struct loop_later *later);

struct loop_timer {
    struct event event;
    void (*fn)(void *arg);
    void *arg;
};

/* Does not start the timer. *t must not move while it runs. */
void loop_timer_init(struct loop_timer *t, struct loop *l, void (*fn)(void *arg), void *arg);
/* Fires once, `ms` from now. A running timer is restarted. Errors: ERR_NOMEM. */
enum err loop_timer_once(struct loop_timer *t, int64_t ms) MUST_CHECK;
/* Fires every `ms`, the first time `ms` from now. Errors: ERR_NOMEM. */
enum err loop_timer_every(struct loop_timer *t, int64_t ms) MUST_CHECK;
bool loop_timer_running(const struct loop_timer *t);
/* Safe at any time after init, also inside fn. */
void loop_timer_stop(struct loop_timer *t);

struct loop_signal {
    struct event event;
    void (*fn)(int number, void *arg);
    void *arg;
};

/* Calls fn on the loop for each signal `number`. Only one loop of a process can receive signals. Errors:
 * ERR_NOMEM. */
enum err loop_signal_init(struct loop_signal *s, struct loop *l, int number,
                          void (*fn)(int number, void *arg), void *arg) MUST_CHECK;
void loop_signal_close(struct loop_signal *s);
