/* One event loop per thread (libevent): timers, signals, and work for the end of a tick; and threads for disks. All functions must be
 * called on the loop's thread; other threads reach it through a mailbox. */
#ifndef GRADWIRE_COMMON_NET_LOOP_H
#define GRADWIRE_COMMON_NET_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
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

/* Letters: messages from any thread to one loop. A mailbox has a mutex, two arrays that are swapped, and an eventfd.
 * Posting never waits for the reader and allocates nothing. One wake-up serves all waiting letters. */
enum { MAILBOX_MAX = 4096 }; /* waiting letters; more are refused */

struct mail {
    int type;             /* from the reader's own enum */
    uint64_t number;      /* a value that needs no memory: an id, a step, a descriptor */
    void *data;           /* can be NULL */
    void (*free)(void *); /* frees `data` if the reader did not take it; NULL: not freed */
};

struct mailbox {
    pthread_mutex_t lock;
    struct mail *in, *out; /* in: posted; out: being read */
    size_t n_in, n_out, read;
    int fd;
    struct event event;
    void (*fn)(void *arg, struct mail *m);
    void *arg;
};

/* `fn` gets each letter on the loop's thread, in the order of posting. It takes m->data by setting it to NULL.
 * Errors: ERR_NOMEM, ERR_FILES, ERR_IO. */
enum err mailbox_init(struct mailbox *mb, struct loop *l, void (*fn)(void *arg, struct mail *m),
                      void *arg) MUST_CHECK;
/* Frees the data of unread letters. The caller must make sure that no thread posts during the call or afterwards.
 * Thread: the loop's, but not inside fn. */
void mailbox_close(struct mailbox *mb);

/* Copies *m and takes m->data; on error the data is freed. Errors: ERR_TOOBIG if MAILBOX_MAX letters wait
 * already. Thread: any; never waits for the reader. */
enum err mailbox_post(struct mailbox *mb, const struct mail *m) MUST_CHECK;

/* A thread that waits for a disk so that an event loop does not have to. It runs jobs one after the other, in the
 * order of posting; a job reports its result by a letter. If the jobs of one purpose must not wait for
 * those of another, each purpose has a thread of its own. CONTRIBUTING.md ("Rules for code") lists the disk waits that
 * remain on event loops. */
enum { DISK_JOBS_MAX = 4096 }; /* waiting jobs; more are refused */

struct disk_job;

struct disk_thread {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job was added or done */
    pthread_t pthread;
    bool running, stop;
    size_t jobs; /* including the running one */
    struct disk_job *first, **last;
};

/* The thread itself starts with the first job. */
void disk_thread_init(struct disk_thread *t);
/* Finishes all posted jobs, then ends the thread. The caller must make sure that no thread posts a job
 * during the call or afterwards. Thread: the owner's; blocks. */
void disk_thread_close(struct disk_thread *t);

/* Waits up to `ms` for all posted jobs. If they finish, it does as disk_thread_close and returns true. Otherwise a disk
 * does not respond, and it returns false: the thread continues, and *t and everything that its jobs use must stay until
 * the process ends by _exit. */
bool disk_thread_close_within(struct disk_thread *t, int64_t ms) MUST_CHECK;

/* Posts a job: `run` gets `arg` and owns it. On error the caller still owns `arg`. Errors: ERR_TOOBIG if
 * DISK_JOBS_MAX jobs wait; ERR_NOMEM, also if the thread could not be started. Thread: any; never blocks. */
enum err disk_thread_post(struct disk_thread *t, void (*run)(void *arg), void *arg) MUST_CHECK;
/* Waits until all posted jobs are done. Thread: any but this one, so not inside a job; blocks. */
void disk_thread_settle(struct disk_thread *t);

#endif
