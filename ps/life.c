#include "ps/life.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

const struct life_is life_is[] = {
    [LIFE_NEW] = {.before_chief = true},
    [LIFE_IDLE] = {.rests = true},
    [LIFE_DONE] = {.before_chief = true, .done = true, .rests = true},
    [LIFE_DONE_MET] = {.done = true, .rests = true},
    [LIFE_TRAINING] = {.entered = true},
    [LIFE_GOING] = {.entered = true, .told = true},
    [LIFE_LEAVING] = {.told = true},
    [LIFE_STOPPING] = {.stopping = true},
    [LIFE_LAST] = {.told = true, .stopping = true},
};

enum life life_next(enum life now, enum life_event what)
{
    assert(!life_is[now].stopping || what == LIFE_TOLD);
    switch (what) {
    case LIFE_CHIEF:
        return now == LIFE_NEW ? LIFE_MET : now == LIFE_DONE ? LIFE_DONE_MET : now;
    case LIFE_ENTER:
        assert(!life_is[now].before_chief);
        return life_is[now].told ? LIFE_GOING : LIFE_TRAINING;
    case LIFE_ALONE:
        assert(now == LIFE_NEW || now == LIFE_MET);
        return LIFE_IDLE;
    case LIFE_OVER:
        assert(!life_is[now].before_chief && !life_is[now].entered);
        return life_is[now].told ? now : LIFE_DONE_MET;
    case LIFE_TOLD:
        return life_is[now].stopping ? LIFE_LAST : life_is[now].entered ? LIFE_GOING : LIFE_LEAVING;
    case LIFE_STOP:
        return life_is[now].told ? LIFE_LAST : LIFE_STOPPING;
    }
    return now;
}

enum process_state life_process_state(enum life l, bool chief)
{
    if (life_is[l].entered)
        return chief ? STATE_TRAINING : STATE_WAITING;
    return life_is[l].done ? STATE_DONE : l == LIFE_IDLE ? STATE_IDLE : STATE_WAITING;
}

void grace_init(struct grace *g, uint32_t job_s, uint32_t given_s)
{
    *g = (struct grace){.allowed_s = job_s};
    g->is_killed = given_s && given_s <= job_s;
    if (g->is_killed)
        g->allowed_s = given_s;
}

int64_t grace_bound_ms(const struct grace *g)
{
    int64_t ms = (int64_t)g->allowed_s * 1000;
    if (!g->is_killed)
        return ms;
    return ms > 2 * GRACE_LEAVE_MS ? ms - GRACE_LEAVE_MS : ms / 2;
}

void grace_note(struct grace *g, uint32_t thread, uint64_t bytes, double seconds)
{
    if (thread >= PLAN_SHARDS_MAX)
        return;
    struct grace_part *p = &g->part[thread];
    if (thread >= g->parts)
        g->parts = thread + 1;
    if (seconds > 0 || bytes != p->bytes)
        p->seconds = seconds;
    p->bytes = bytes;
}

uint64_t grace_bytes(const struct grace *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->parts; i++)
        bytes += g->part[i].bytes;
    return bytes;
}

/* Bytes per second of all measured parts; 0: none was measured. */
static double rate(const struct grace *g)
{
    double seconds = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->parts; i++) {
        if (g->part[i].seconds > 0)
            bytes += g->part[i].bytes;
        if (g->part[i].seconds > seconds)
            seconds = g->part[i].seconds;
    }
    return bytes ? (double)bytes / seconds : 0;
}

double grace_needs_s(const struct grace *g)
{
    double measured = rate(g);
    return GRACE_FIXED_MS / 1000.0 +
           (double)grace_bytes(g) / (measured > 0 ? measured : GRACE_FIRST_BYTES_PER_S);
}

void grace_say(const struct grace *g, char *out, size_t bytes)
{
    double measured = rate(g), mib = (double)(1 << 20);
    (void)snprintf(out, bytes,
                   "a snapshot of its %.1f MiB takes about %.0f s (%.1f MiB/s, %s), and the grace "
                   "after SIGTERM is %" PRIu32 " s",
                   (double)grace_bytes(g) / mib, grace_needs_s(g),
                   (measured > 0 ? measured : GRACE_FIRST_BYTES_PER_S) / mib,
                   measured > 0 ? "the rate of the last one" : "assumed: none was written yet",
                   g->allowed_s);
}
