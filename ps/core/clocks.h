/* The workers' clocks of bounded staleness, as one shard knows them (Ho et al. 2013, "More effective distributed ML via
 * a stale synchronous parallel parameter server"). A worker's clock is the value that it began with, plus the number of
 * batches that it has finished since then and that this shard has applied. A worker has a clock for each of its
 * incarnations. A worker at clock c may read if no live worker's clock is below c - s. A worker without a batch is idle
 * and delays no other worker. A worker that begins enters at the least live clock. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/mem.h"

struct clock_of {
    uint32_t worker;
    bool idle;
    uint64_t incarnation;
    uint64_t entry; /* the worker's count of its entries; messages with an earlier one are stale */
    uint64_t clock;
};

struct clocks {
    size_t n;
    struct clock_of *of;
    uint64_t highest; /* the highest clock that any worker ever had */
};

static inline void clocks_close(struct clocks *c)
{
    mem_free(c->of);
    *c = (struct clocks){0};
}

/* The least live clock; UINT64_MAX: no worker is live. */
uint64_t clocks_least(const struct clocks *c);
/* A worker with the least live clock; NULL: no worker is live. */
const struct clock_of *clocks_last(const struct clocks *c);

/* The worker begins at the least live clock, or, if no worker is live, at the highest clock so far. A repeated or
 * earlier entry changes nothing, and *clock is the worker's present clock. Errors: ERR_NOMEM. */
enum err clocks_enter(struct clocks *c, uint32_t worker, uint64_t incarnation, uint64_t entry,
                      uint64_t *clock) MUST_CHECK;

/* The worker is at `clock`; `idle`: it is idle from now until it enters again. Clocks only grow. Does nothing for an
 * unknown worker, or if `entry` is not the worker's last one. */
void clocks_tick(struct clocks *c, uint32_t worker, uint64_t incarnation, uint64_t entry,
                 uint64_t clock, bool idle);

/* Forget the worker's clock if its incarnation is below this one, because every shard refuses such incarnations. */
void clocks_drop(struct clocks *c, uint32_t worker, uint64_t below);

/* True: a worker at `clock` may read now. staleness: the bound s. */
bool clocks_may_read(const struct clocks *c, uint64_t clock, uint64_t staleness);
