/* Which ps this worker has no connection to, and for how long. Pure: time comes in.
 *
 * A shard's link counts as away when it has been so for UNREACHED_AFTER_MS: one that is dialed again at once is no news. A
 * link that is dialed and answered counts as there, even where the answer is a refusal. */
#ifndef GRADWIRE_WORKER_CORE_UNREACHED_H
#define GRADWIRE_WORKER_CORE_UNREACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/plan.h"

enum {
    UNREACHED_AFTER_MS = 1000,
    UNREACHED_LATE_MS =
        2500, /* since the look before: links that are back may not have been read */
    UNREACHED_MORE_MS =
        10000, /* where the chief has not parked this worker, it may end the job first */
};

/* What the chief has made of it. */
enum unreached_park {
    UNPARKED,
    PARKED,      /* our work is others' until every ps is reached */
    PARK_IS_OVER /* every ps is: the chief's welcome ends it */
};

struct unreached {
    uint32_t shards;
    int64_t *lost_ms; /* (shards) since when the link is away; 0: it is there */
    enum unreached_park park;
    int64_t parked_ms, looked_ms;
    bool any;      /* as it was told last */
    uint32_t told; /* the first ps of these */
};

/* What the shell is to do after a look. */
enum unreached_act {
    UNREACHED_NOTHING,
    UNREACHED_TELL,    /* the chief: which ps, or that there is none any more */
    UNREACHED_BACK,    /* to the chief: every ps is reached again */
    UNREACHED_GIVE_UP, /* for longer than the bound */
};

struct unreached_seen {
    bool any;
    uint32_t ps;
    int64_t away_ms;
};

/* All links are away, from now on. Errors: ERR_NOMEM. */
enum err unreached_begin(struct unreached *u, uint32_t shards, int64_t now_ms) MUST_CHECK;
void unreached_close(struct unreached *u);
void unreached_up(struct unreached *u, uint32_t shard);
/* `silent_ms`: for so long it had not been heard of. */
void unreached_down(struct unreached *u, uint32_t shard, int64_t now_ms, int64_t silent_ms);

/* The ps that is away for the longest time: *ps, and for how long, *away_ms. False: none is. */
bool unreached_longest(const struct unreached *u, const struct plan *plan, int64_t now_ms,
                       uint32_t *ps, int64_t *away_ms);
/* True: what unreached_longest says is another ps than it was told last, or none any more; now it is told. */
bool unreached_is_news(struct unreached *u, const struct plan *plan, int64_t now_ms);
/* Once a second. `answers_ms`: a link that a shard turns away is dialed again within this, so it counts as there. */
enum unreached_act unreached_look(struct unreached *u, const struct plan *plan, int64_t now_ms,
                                  uint32_t ps_rejoin_s, int64_t answers_ms,
                                  struct unreached_seen *seen);
/* The chief has given our work to others. */
void unreached_park(struct unreached *u, int64_t now_ms);
/* The chief has welcomed us: nothing is told to it, and nothing is parked. */
void unreached_welcomed(struct unreached *u);

#endif
