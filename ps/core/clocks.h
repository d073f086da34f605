/* The clocks of bounded staleness as one shard has heard them (Ho et al. 2013, "More effective distributed ML via a
 * stale synchronous parallel parameter server"). A worker's clock is the number of batches that it has finished and
 * whose updates this shard has, counted from where it entered. A worker at clock c may read when no live worker's
 * clock is below c - s. Who has nothing to do is idle and holds nobody up; who begins enters at the least live clock.
 * Pure. */
#ifndef GRADWIRE_PS_CORE_CLOCKS_H
#define GRADWIRE_PS_CORE_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct clock_of {
    uint32_t worker;
    bool idle;
    uint64_t incarnation;
    uint64_t entry; /* its own count of its entries: what is said of a former one is stale */
    uint64_t clock;
};

struct clocks {
    size_t n;
    struct clock_of *of;
    uint64_t highest; /* that anybody ever had */
};

void clocks_close(struct clocks *c);

/* The least live clock; UINT64_MAX: nobody is live. */
uint64_t clocks_least(const struct clocks *c);
/* Who has it; NULL: nobody is live. */
const struct clock_of *clocks_last(const struct clocks *c);

/* The worker begins: at the least live clock, or where nobody is live at the highest that there was. Said again it gets
 * the same answer. Errors: ERR_NOMEM. */
enum err clocks_enter(struct clocks *c, uint32_t worker, uint64_t incarnation, uint64_t entry,
                      uint64_t *clock) MUST_CHECK;

/* The worker is at `clock`, or idle from there on. Clocks only grow; of an unknown worker or a former entry: nothing. */
void clocks_tick(struct clocks *c, uint32_t worker, uint64_t incarnation, uint64_t entry,
                 uint64_t clock, bool idle);

/* Every shard refuses incarnations of the worker below this one: they count no more. */
void clocks_drop(struct clocks *c, uint32_t worker, uint64_t below);

bool clocks_may_read(const struct clocks *c, uint64_t clock, uint64_t staleness);

#endif
