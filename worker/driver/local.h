/* Local SGD: the optimizer runs at the worker, and this tracks how far its parameters have moved since the servers'
 * last ones came [Paddle's geo-SGD; Zhang et al. 2015, EASGD, for the idea]. Memory: three blocks in addition to the
 * parameters, and the optimizer's slots. Thread: the training thread. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "common/parameters/layout.h"
#include "common/math/optimizer.h"
#include "worker/driver/gradient_node.h"

enum { LOCAL_EPOCHS = 8 };

struct local {
    const struct layout *layout;
    struct optimizer optimizer;
    uint64_t t;       /* updates made here since the slots were reset */
    uint32_t updates; /* updates since the last round */
    /* old, of a weight: w at the last merge, plus what was pushed since. Of a statistic: what the batches since then
     * add to its moving average. server: the servers' parameters. */
    float *old, *server, *slot[OPTIMIZER_SLOTS_MAX];
    struct gradient_node round; /* the node whose value is pushed */
    size_t epochs;
    struct epoch_sums epoch[LOCAL_EPOCHS]; /* sums of the batches since the last round */
};

/* The layout is borrowed, *o is copied. Errors: ERR_NOMEM. */
enum err local_new(struct local **l, const struct layout *layout, const struct optimizer *o,
                   struct errmsg *e) MUST_CHECK;
void local_free(struct local *l);

/* A new generation, with the chief's optimizer, which has the same slots: slots are reset, and moves that were not pushed
 * are dropped. *o is copied. */
void local_reset(struct local *l, const struct optimizer *o);

/* w = the optimizer's update of w by the node's gradient, for batch `id` of `epoch`. The rate is that of update id +
 * 1. */
void local_step(struct local *l, float *w, const struct gradient_node *n, uint64_t id,
                uint64_t epoch);

/* Make the round: value = part (w - old), old += value; with part 1 all of it. For a statistic value = a: in k
 * updates the moving average r has become m^k r + a, and a shard does the same with its own. */
void local_round(struct local *l, const float *w, float part);

/* Merge the servers' parameters, which are in l->server. fresh: w = old = server; else w += server - old, old =
 * server. A statistic always becomes the servers'. The sums of the round are reset. */
void local_merge(struct local *l, float *w, bool fresh);
