/* Which rows make which batch, and which leaf of it. */
#include "data/core/order.h"

#include <assert.h>

#include "common/base/rng.h"

uint64_t order_batches(const struct order *o)
{
    return o->rows / o->batch_size + (o->rows % o->batch_size != 0);
}

uint64_t order_batch_rows(const struct order *o, uint64_t id)
{
    uint64_t first = id % order_batches(o) * o->batch_size;
    return o->rows - first < o->batch_size ? o->rows - first : o->batch_size;
}

uint32_t order_leaf_rows_max(const struct order *o)
{
    return (uint32_t)(o->batch_size / o->microbatches + 1);
}

uint32_t order_leaf(const struct order *o, uint64_t id, uint32_t leaf, uint64_t *out)
{
    assert(leaf < o->microbatches);
    uint64_t batches = order_batches(o), count = order_batch_rows(o, id);
    uint64_t key = rng_key(o->seed, RNG_SHUFFLE, id / batches, 0);
    uint64_t first = id % batches * o->batch_size;
    uint64_t begin = count * leaf / o->microbatches;
    uint64_t end = count * (leaf + 1) / o->microbatches;
    for (uint64_t p = begin; p < end; p++)
        out[p - begin] = rng_permute(key, first + p, o->rows);
    assert(end <= count && first + count <= o->rows);
    assert(end - begin <= order_leaf_rows_max(o));
    return (uint32_t)(end - begin);
}
