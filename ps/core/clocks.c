#include "ps/core/clocks.h"

#include <assert.h>

#include "common/base/mem.h"

const struct clock_of *clocks_last(const struct clocks *c)
{
    const struct clock_of *last = NULL;
    for (size_t i = 0; i < c->n; i++)
        if (!c->of[i].idle && (!last || c->of[i].clock < last->clock))
            last = &c->of[i];
    return last;
}

uint64_t clocks_least(const struct clocks *c)
{
    const struct clock_of *last = clocks_last(c);
    return last ? last->clock : UINT64_MAX;
}

static struct clock_of *find(struct clocks *c, uint32_t worker, uint64_t incarnation)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->of[i].worker == worker && c->of[i].incarnation == incarnation)
            return &c->of[i];
    return NULL;
}

/* Assert that every live worker has entered, and that no clock exceeds the highest. */
static void check(const struct clocks *c, const struct clock_of *of)
{
    assert(of->idle || of->entry > 0);
    assert(of->clock <= c->highest);
    assert(of->idle || clocks_least(c) <= of->clock);
    (void)c, (void)of;
}

static struct clock_of *find_or_add(struct clocks *c, uint32_t worker, uint64_t incarnation)
{
    struct clock_of *of = find(c, worker, incarnation);
    if (of)
        return of;
    struct clock_of *grown = mem_resize(c->of, c->n + 1, sizeof *grown);
    if (!grown)
        return NULL;
    c->of = grown;
    c->of[c->n] = (struct clock_of){.worker = worker, .incarnation = incarnation, .idle = true};
    return &c->of[c->n++];
}

enum err clocks_enter(struct clocks *c, uint32_t worker, uint64_t incarnation, uint64_t entry,
                      uint64_t *clock)
{
    struct clock_of *of = find_or_add(c, worker, incarnation);
    if (!of)
        return ERR_NOMEM;
    if (entry > of->entry) {
        uint64_t least = clocks_least(c);
        of->clock = least == UINT64_MAX ? c->highest : least;
        of->entry = entry;
        of->idle = false;
    }
    check(c, of);
    *clock = of->clock;
    return ERR_OK;
}

void clocks_tick(struct clocks *c, uint32_t worker, uint64_t incarnation, uint64_t entry,
                 uint64_t clock, bool idle)
{
    struct clock_of *of = find(c, worker, incarnation);
    if (!of || entry != of->entry)
        return;
    if (clock > of->clock)
        of->clock = clock;
    if (clock > c->highest)
        c->highest = clock;
    of->idle = of->idle || idle;
    check(c, of);
}

void clocks_drop(struct clocks *c, uint32_t worker, uint64_t below)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->of[i].worker != worker || c->of[i].incarnation >= below)
            c->of[kept++] = c->of[i];
    assert(kept <= c->n);
    c->n = kept;
}

bool clocks_may_read(const struct clocks *c, uint64_t clock, uint64_t staleness)
{
    uint64_t least = clocks_least(c);
    assert(least == UINT64_MAX || least <= c->highest);
    return clock <= least || clock - least <= staleness;
}
