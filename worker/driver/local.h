/* Local SGD: the optimizer at the worker, and what its parameters have moved since the servers' were here last [Paddle's
 * geo-SGD; Zhang et al. 2015, EASGD, for the idea]. Memory: three blocks beside the parameters, and the optimizer's
 * slots. Thread: the training thread. */
#ifndef GRADWIRE_WORKER_DRIVER_LOCAL_H
#define GRADWIRE_WORKER_DRIVER_LOCAL_H

#include "common/checkpoint/checkpoint.h"
#include "common/parameters/layout.h"
#include "common/math/optimizer.h"
#include "worker/driver/gradient_node.h"

enum { LOCAL_EPOCHS = 8 };

struct local {
    const struct layout *layout;
    struct optimizer optimizer;
    uint64_t t;       /* updates made here since the slots began */
    uint32_t updates; /* those since the last round */
    /* old: what w was at the last merge and has been pushed of since; of a statistic, in its place, what the batches since
     * then add to its moving average */
    float *old, *server, *slot[OPTIMIZER_SLOTS_MAX];
    struct gradient_node round; /* its value: what is pushed */
    size_t epochs;
    struct epoch_sums epoch[LOCAL_EPOCHS]; /* of the batches since the last round */
};

enum err local_new(struct local **l, const struct layout *layout, const struct optimizer *o,
                   struct errmsg *e) MUST_CHECK;
void local_free(struct local *l);

/* A new generation: slots begin anew, and what was not pushed is forgotten. */
void local_reset(struct local *l);

/* w = the optimizer's update of w by the node's gradient: batch `id` of `epoch`. The rate is that of update id + 1. */
void local_step(struct local *l, float *w, const struct gradient_node *n, uint64_t id,
                uint64_t epoch);

/* The round: value = part (w - old), old += value; with part 1 all of it. Of a statistic value = a: in k updates
 * the moving average r has become m^k r + a, which a shard does with its own. */
void local_round(struct local *l, const float *w, float part);

/* The servers' parameters are in l->server. Fresh: w = old = server; else w += server - old, old = server. A statistic is
 * the servers' each time. The sums of the round went out with it: those of the next begin. */
void local_merge(struct local *l, float *w, bool fresh);

#endif
