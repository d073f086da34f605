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

enum { UNREACHED_AFTER_MS = 1000 };

struct unreached {
    uint32_t shards;
    int64_t *lost_ms; /* (shards) since when the link is away; 0: it is there */
    bool any;         /* as it was told last */
    uint32_t told;    /* the first ps of these */
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
/* Nothing is told: to another chief, or to one that has forgotten. */
void unreached_forget(struct unreached *u);

#endif
