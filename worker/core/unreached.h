/* Tracks which ps this worker has no connection to, and for how long. Pure: the caller passes the time.
 *
 * A shard's connection counts as away after UNREACHED_AFTER_MS: one that is replaced immediately is not reported. A
 * connection that is answered counts as up, even if the answer is a refusal. An accepted hello alone is less: on a path that loses
 * large packets it passes, and each push is lost. So if a connection ends with nothing but its hello answered, the time counts on
 * from the loss before it, and the next hello does not end it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/plan.h"

enum {
    UNREACHED_AFTER_MS = 1000,
    /* A check that comes later than this after the one before decides nothing: the thread was busy, so replies may be
     * unread on connections that are up. */
    UNREACHED_LATE_MS = 2500,
    /* A worker that is not parked gives up this much after timeouts.ps_rejoin_s, so that the chief can end the job
     * first. */
    UNREACHED_MORE_MS = 10000,
};

/* The chief's reaction. */
enum unreached_park {
    UNPARKED,
    PARKED,      /* others do our work until we reach every ps */
    PARK_IS_OVER /* we reach every ps: the chief's welcome ends the parking */
};

struct unreached {
    uint32_t shards;
    int64_t *lost_ms; /* (shards) when the connection was lost; 0: it is up */
    /* (shards) as before its hello was accepted; 0: it has answered more since */
    int64_t *before_ms;
    bool *doubted; /* (shards) the last connection answered nothing but its hello */
    enum unreached_park park;
    int64_t parked_ms, looked_ms;
    bool any;      /* the last report to the chief named a ps that is away */
    uint32_t told; /* if any: that ps */
};

/* The action that the shell must take after a check. */
enum unreached_act {
    UNREACHED_NOTHING,
    UNREACHED_TELL,    /* report to the chief which ps, or that none is missing any more */
    UNREACHED_BACK,    /* report to the chief that every ps is reached again */
    UNREACHED_GIVE_UP, /* a ps was away for longer than the bound */
};

struct unreached_seen {
    bool any;
    uint32_t ps;
    int64_t away_ms;
};

/* All connections count as away from now on. Errors: ERR_NOMEM. */
enum err unreached_begin(struct unreached *u, uint32_t shards, int64_t now_ms) MUST_CHECK;
void unreached_close(struct unreached *u);
/* The shard accepts our hello. */
void unreached_greeted(struct unreached *u, uint32_t shard);
/* The shard answers anything else. */
void unreached_up(struct unreached *u, uint32_t shard);
/* The connection to this shard is lost. `silent_ms`: how long the shard had sent nothing before; it counts as away for
 * this time too. `asked`: more than the hello was sent over it. */
void unreached_down(struct unreached *u, uint32_t shard, int64_t now_ms, int64_t silent_ms,
                    bool asked);

/* The ps that has been away the longest: *ps, and for how long, *away_ms. False: none is away. */
bool unreached_longest(const struct unreached *u, const struct plan *plan, int64_t now_ms,
                       uint32_t *ps, int64_t *away_ms);
/* True if the result of unreached_longest differs from the one reported last (another ps, or none any more); the new
 * result then counts as reported. */
bool unreached_is_news(struct unreached *u, const struct plan *plan, int64_t now_ms);
/* Call once a second. ps_rejoin_s: timeouts.ps_rejoin_s. `answers_ms`: a connection that a shard turns away is opened
 * again within this time, so it counts as up. *seen: the ps that has been away the longest. */
enum unreached_act unreached_look(struct unreached *u, const struct plan *plan, int64_t now_ms,
                                  uint32_t ps_rejoin_s, int64_t answers_ms,
                                  struct unreached_seen *seen);
/* The chief has given our work to other workers. */
void unreached_park(struct unreached *u, int64_t now_ms);
/* The chief has welcomed us: nothing counts as reported or parked. */
void unreached_welcomed(struct unreached *u);

/* Decides when to report that something is being waited for: first after PATIENCE_FIRST_MS, then each time the wait
 * has doubled. Pure: the caller passes the time. */

enum { PATIENCE_FIRST_MS = 10000 };

struct patience {
    int64_t since_ms; /* when the wait began */
    int64_t say_ms;   /* the length of the wait at which it is reported next */
};

/* Start measuring from now: the awaited event has come, or nothing was awaited. */
void patience_begin(struct patience *p, int64_t now_ms);
/* True: report the wait now; *waited_s is how long it has lasted, in seconds. */
bool patience_over(struct patience *p, int64_t now_ms, int64_t *waited_s);
