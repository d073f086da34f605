#include "worker/tensorboard/events.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/log.h"
#include "common/net/loop.h"
#include "common/net/mailbox.h"
#include "common/base/mem.h"
#include "worker/tensorboard/events_file.h"
#include "worker/tensorboard/events_note.h"

enum events_letter { EVENTS_NOTE, EVENTS_QUIT };

struct events {
    char logs[FILES_PATH_MAX];
    struct loop loop;
    struct mailbox in;
    pthread_t pthread;
    /* the thread's own */
    struct events_file file[EVENTS_RUNS];
    bool complained;
};

/* ---- the thread ---- */

static enum err open_file(struct events *ev, enum events_run run, double wall_time,
                          struct errmsg *e)
{
    static const char *const folders[] = {"/train", "/eval", ""};
    char folder[FILES_PATH_MAX + 8];
    (void)snprintf(folder, sizeof folder, "%s%s", ev->logs, folders[run]);
    return events_file_open(&ev->file[run], folder, wall_time, e);
}

static void write_note(struct events *ev, const struct events_note *n)
{
    struct errmsg e = {""};
    struct events_file *file = &ev->file[n->run];
    enum err err = file->fd >= 0 ? ERR_OK : open_file(ev, n->run, n->wall_time, &e);
    if (!err)
        err = events_note_write(n, file, &e);
    if (err && !ev->complained)
        log_warn("TensorBoard's files lack what cannot be written (said once): %s", e.text);
    ev->complained |= err != ERR_OK;
}

static void on_letter(void *arg, struct mail *m)
{
    struct events *ev = arg;
    if (m->type == EVENTS_NOTE)
        write_note(ev, m->data);
    else
        loop_stop(&ev->loop);
}

static void *run(void *arg)
{
    struct events *ev = arg;
    if (loop_run(&ev->loop))
        log_warn("TensorBoard's files are written no more: the event loop failed");
    return NULL;
}

/* ---- life ---- */

struct events *events_new(const char *logs)
{
    struct events *ev = mem_zalloc(1, sizeof *ev);
    if (!ev)
        goto no_memory;
    (void)snprintf(ev->logs, sizeof ev->logs, "%s", logs);
    for (int i = 0; i < EVENTS_RUNS; i++)
        ev->file[i].fd = -1;
    if (loop_init(&ev->loop))
        goto no_loop;
    if (mailbox_init(&ev->in, &ev->loop, on_letter, ev))
        goto no_mailbox;
    if (pthread_create(&ev->pthread, NULL, run, ev) == 0)
        return ev;
    mailbox_close(&ev->in);
no_mailbox:
    loop_close(&ev->loop);
no_loop:
    mem_free(ev);
no_memory:
    log_warn("no memory for the thread that writes TensorBoard's files: there are none");
    return NULL;
}

void events_free(struct events *ev)
{
    struct mail quit = {.type = EVENTS_QUIT};
    if (!ev)
        return;
    while (mailbox_post(&ev->in, &quit) == ERR_TOOBIG) { /* the disk is slow */
        struct timespec soon = {.tv_nsec = 10000000};
        (void)nanosleep(&soon, NULL);
    }
    pthread_join(ev->pthread, NULL);
    for (int i = 0; i < EVENTS_RUNS; i++)
        events_file_close(&ev->file[i]);
    mailbox_close(&ev->in);
    loop_close(&ev->loop);
    mem_free(ev);
}

void events_post(struct events *ev, struct events_note *take)
{
    struct mail m = {.type = EVENTS_NOTE, .data = take, .free = events_note_free};
    if (!take)
        return;
    if (!ev || take->failed)
        events_note_free(take);
    else if (mailbox_post(&ev->in, &m))
        log_debug("an event for TensorBoard is left out: too many wait for the disk");
}

void events_restart(struct events *ev, enum events_run which, uint64_t step)
{
    struct events_note *n = ev ? events_note(which, step) : NULL;
    if (n)
        n->restart = true;
    events_post(ev, n);
}

/* ---- histograms ---- */

struct counting {
    struct events_histogram *out;
    const struct layout *l;
    const struct events_values *v;
    atomic_uint next;
};

static double value_at(const struct events_values *v, uint64_t i)
{
    double sum = 0;
    for (uint32_t b = 0; b < v->blocks; b++)
        sum += (double)v->block[b][i];
    return v->scale * sum;
}

/* Elements [from, to). */
static void histogram(struct events_histogram *h, const struct events_values *v, uint64_t from,
                      uint64_t to)
{
    *h = (struct events_histogram){.min = INFINITY, .max = -INFINITY};
    for (uint64_t i = from; i < to; i++) {
        double x = value_at(v, i);
        if (!isfinite(x))
            continue;
        h->min = x < h->min ? x : h->min;
        h->max = x > h->max ? x : h->max;
        h->num += 1;
        h->sum += x;
        h->sum_squares += x * x;
    }
    double scale = h->max > h->min ? EVENTS_BUCKETS / (h->max - h->min) : 0;
    for (uint64_t i = from; i < to; i++) {
        double x = value_at(v, i);
        if (!isfinite(x))
            continue;
        int at = (int)((x - h->min) * scale);
        h->bucket[at < EVENTS_BUCKETS ? at : EVENTS_BUCKETS - 1] += 1;
    }
}

static void count_tensors(void *ctx, uint32_t thread)
{
    struct counting *c = ctx;
    uint32_t i;
    (void)thread;
    while ((i = atomic_fetch_add(&c->next, 1)) < c->l->tensors) {
        const struct tensor *t = &c->l->tensor[i];
        histogram(&c->out[i], c->v, t->offset_elems, t->offset_elems + t->elems);
    }
}

void events_histograms(struct events_histogram *out, const struct layout *l,
                       const struct events_values *v, struct pool *pool)
{
    struct counting c = {.out = out, .l = l, .v = v};
    atomic_init(&c.next, 0);
    pool_run(pool, count_tensors, &c);
}
