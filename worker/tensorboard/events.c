#include "worker/tensorboard/events.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/net/disk_thread.h"
#include "common/base/mem.h"
#include "worker/tensorboard/events_file.h"
#include "worker/tensorboard/events_note.h"

struct events {
    char logs[FILES_PATH_MAX];
    struct disk_thread *disk;
    /* used by the disk's thread */
    struct events_file file[EVENTS_RUNS];
    bool complained;
};

/* ---- the disk's thread ---- */

static enum err open_file(struct events *ev, enum events_run run, double wall_time,
                          struct errmsg *e)
{
    static const char *const folders[] = {"/train", "/eval", ""};
    char folder[FILES_PATH_MAX + 8];
    (void)snprintf(folder, sizeof folder, "%s%s", ev->logs, folders[run]);
    return events_file_open(&ev->file[run], folder, wall_time, e);
}

static void write_note(void *note)
{
    const struct events_note *n = note;
    struct events *ev = n->of;
    struct errmsg e = {""};
    struct events_file *file = &ev->file[n->run];
    bool begins = file->fd < 0;
    enum err err = begins ? open_file(ev, n->run, n->wall_time, &e) : ERR_OK;
    if (!err)
        err = events_note_write(n, file, &e);
    if (!err && begins && n->run == EVENTS_SESSION)
        events_file_replace(file, EVENTS_SESSION_TAG);
    if (err && !ev->complained)
        log_warn("TensorBoard's files are incomplete (logged once): %s", e.text);
    ev->complained |= err != ERR_OK;
    events_note_free(note);
}

/* ---- life ---- */

struct events *events_new(const char *logs, struct disk_thread *disk)
{
    struct events *ev = mem_zalloc(1, sizeof *ev);
    if (!ev) {
        log_warn("no memory for the thread that writes TensorBoard's files: none are written");
        return NULL;
    }
    ev->disk = disk;
    (void)snprintf(ev->logs, sizeof ev->logs, "%s", logs);
    for (int i = 0; i < EVENTS_RUNS; i++)
        ev->file[i].fd = -1;
    return ev;
}

void events_free(struct events *ev)
{
    if (!ev)
        return;
    disk_thread_settle(ev->disk);
    for (int i = 0; i < EVENTS_RUNS; i++)
        events_file_close(&ev->file[i]);
    mem_free(ev);
}

void events_post(struct events *ev, struct events_note *take)
{
    if (!take)
        return;
    take->of = ev;
    if (!ev || take->failed) {
        events_note_free(take);
    } else if (disk_thread_post(ev->disk, write_note, take)) {
        log_debug("an event for TensorBoard is dropped: too many wait for the disk");
        events_note_free(take);
    }
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

/* The histogram of elements [from, to). */
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
