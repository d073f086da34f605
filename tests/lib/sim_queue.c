/* Time, chance, and a heap of what is still to happen. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/lib/sim.h"

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void sift_up(struct sim *sim, size_t i)
{
    while (i > 0 && before(sim->event[i], sim->event[(i - 1) / 2])) {
        struct sim_event *up = sim->event[(i - 1) / 2];
        sim->event[(i - 1) / 2] = sim->event[i];
        sim->event[i] = up;
        i = (i - 1) / 2;
    }
}

static void sift_down(struct sim *sim)
{
    size_t i = 0;
    for (;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < sim->events && before(sim->event[left], sim->event[least]))
            least = left;
        if (right < sim->events && before(sim->event[right], sim->event[least]))
            least = right;
        if (least == i)
            return;
        struct sim_event *down = sim->event[i];
        sim->event[i] = sim->event[least];
        sim->event[least] = down;
        i = least;
    }
}

static void push(struct sim *sim, struct sim_event *e)
{
    if (sim->events == sim->room) {
        sim->room = sim->room ? sim->room * 2 : 256;
        sim->event = realloc(sim->event, sim->room * sizeof(struct sim_event *));
    }
    sim->event[sim->events++] = e;
    sift_up(sim, sim->events - 1);
}

struct sim_event *sim_after(struct sim *sim, int64_t us, struct sim_proc *proc,
                            void (*run)(struct sim *, struct sim_event *))
{
    struct sim_event *e = calloc(1, sizeof *e);
    e->at_us = sim->now_us + us;
    e->order = sim->order++;
    e->proc = proc;
    e->life = proc ? proc->life : 0;
    e->run = run;
    push(sim, e);
    return e;
}

static void event_free(struct sim_event *e, bool dropped)
{
    if (dropped && e->drop && e->p)
        e->drop(e->p);
    free(e);
}

bool sim_next(struct sim *sim)
{
    if (sim->events == 0)
        return false;
    struct sim_event *e = sim->event[0];
    sim->event[0] = sim->event[--sim->events];
    sift_down(sim);
    sim->now_us = e->at_us;
    bool stale = e->proc && e->life != e->proc->life;
    if (!stale && e->proc && e->proc->frozen_us > sim->now_us) {
        e->at_us = e->proc->frozen_us;
        push(sim, e); /* its order is kept */
        return true;
    }
    if (!stale)
        e->run(sim, e);
    event_free(e, stale);
    return true;
}

void sim_queue_close(struct sim *sim)
{
    for (size_t i = 0; i < sim->events; i++)
        event_free(sim->event[i], true);
    free(sim->event);
    sim->event = NULL;
    sim->events = 0;
}

uint64_t sim_below(struct sim *sim, uint64_t n)
{
    return n ? rng_u64(sim->key, sim->drawn++) % n : 0;
}

bool sim_chance(struct sim *sim, uint32_t one_in)
{
    return sim_below(sim, one_in) == 0;
}

int64_t sim_ms(const struct sim *sim)
{
    return sim->now_us / 1000;
}

void sim_fail(struct sim *sim, const char *fmt, ...)
{
    if (sim->failed)
        return;
    sim->failed = true;
    int n = snprintf(sim->failure, sizeof sim->failure, "at %" PRId64 " us: ", sim->now_us);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(sim->failure + n, sizeof sim->failure - (size_t)n, fmt, args);
    va_end(args);
}

void sim_trace(struct sim *sim, const char *fmt, ...)
{
    if (!sim->tracing)
        return;
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "%10" PRId64 " %s\n", sim->now_us, text);
}
