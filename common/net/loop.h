/* One event loop per thread (libevent), with timers, signals, and what must wait for the end of a
 * tick. Everything here belongs to the thread that runs the loop; other threads come in by a
 * mailbox (mailbox.h). */
#ifndef GRADWIRE_COMMON_NET_LOOP_H
#define GRADWIRE_COMMON_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "common/base/err.h"

/* Work that is put off to the end of the tick, embedded in what it is about (a closed connection).
 */
struct loop_later {
    struct loop_later *next;
    void (*fn)(struct loop_later *later);
};

struct loop {
    struct event_base *base; /* for what speaks libevent itself (HTTP) */
    struct loop_later *later, **later_end;
    bool stopped;
};

enum err loop_init(struct loop *l) MUST_CHECK;
/* Runs what was put off, too. Timers, signals, connections on it are closed before. */
void loop_close(struct loop *l);

/* Until loop_stop, or until nothing is left to wait for. A stopped loop can be run again.
 * Errors: ERR_IO when the kernel's event queue fails. */
enum err loop_run(struct loop *l) MUST_CHECK;
/* Wait for events once and serve them. *idle (may be NULL): there is nothing to wait for. */
enum err loop_tick(struct loop *l, bool *idle) MUST_CHECK;
/* loop_run returns at the end of this tick. From the loop's own thread; from others through a
 * mailbox. */
void loop_stop(struct loop *l);

/* Call later->fn at the end of this tick, in the order of these calls. Never fails. */
void loop_put_off(struct loop *l, struct loop_later *later);

struct loop_timer {
    struct event event;
    void (*fn)(void *arg);
    void *arg;
};

/* Does not start it. */
void loop_timer_init(struct loop_timer *t, struct loop *l, void (*fn)(void *arg), void *arg);
/* Due once, `ms` from now; a timer that runs already is set anew. Errors: ERR_NOMEM. */
enum err loop_timer_once(struct loop_timer *t, int64_t ms) MUST_CHECK;
/* Due each `ms`, the first time `ms` from now. Errors: ERR_NOMEM. */
enum err loop_timer_every(struct loop_timer *t, int64_t ms) MUST_CHECK;
bool loop_timer_running(const struct loop_timer *t);
/* Safe at any time after init, inside fn too. */
void loop_timer_stop(struct loop_timer *t);

struct loop_signal {
    struct event event;
    void (*fn)(int number, void *arg);
    void *arg;
};

/* fn is called on the loop for each signal `number`; only one loop of a process takes signals. */
enum err loop_signal_init(struct loop_signal *s, struct loop *l, int number,
                          void (*fn)(int number, void *arg), void *arg) MUST_CHECK;
void loop_signal_close(struct loop_signal *s);

#endif
