/* The rows of a rig's tables as they have to be: a plain loop of sgd with momentum over all keys. */
#pragma once

#include "tests/lib/rig.h"

/* Weights and momenta. All zeros: no row is there. */
struct row_model {
    bool there[RIG_TABLES][RIG_KEYS];
    float w[RIG_TABLES][RIG_KEYS][RIG_DIM_MAX], v[RIG_TABLES][RIG_KEYS][RIG_DIM_MAX];
};

/* A step, by the optimizer of each table; without examples nothing is touched. */
void row_model_step(struct rig *c, struct row_model *m, const struct rig_grads *sum,
                    uint32_t examples);
/* The sum over a node's leaves, in the order of the tree. */
struct rig_grads row_model_sum(const struct rig_grads leaf[RIG_LEAVES], struct tree_node of);
/* The answer has the rows of the model, bit for bit. */
void row_model_check(const struct rig *c, uint32_t shard, const struct rig_sent *s,
                     const struct row_model *m);
/* All shards are asked for their present rows. Their logs are emptied before. */
void row_model_check_now(struct rig *c, const struct row_model *m);
