/* Which rows make which batch, and which leaf of it; and which are held out. */
#include "data/core/order.h"

#include <assert.h>

#include "common/base/mem.h"
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

uint64_t order_last(uint64_t rows, double last)
{
    return (uint64_t)((double)rows * last);
}

uint64_t order_hold_key(uint64_t seed, bool of_keys)
{
    return rng_key(of_keys ? 0 : seed, RNG_VALIDATION, of_keys, 0);
}

bool order_holds_out(uint64_t key, uint64_t number, double share)
{
    return (double)(rng_u64(key, number) >> 11) * 0x1p-53 < share;
}

enum err order_note(struct order_held *h, bool held)
{
    const size_t at = (size_t)(h->noted / 8);
    if (h->noted % 8 == 0) {
        uint8_t *bits = mem_grow(h->bits, &h->bytes, at + 1, 1);
        if (!bits)
            return ERR_NOMEM;
        h->bits = bits;
        bits[at] = 0;
    }
    h->bits[at] |= (uint8_t)(held << h->noted % 8);
    h->rows += held;
    h->noted++;
    assert(h->rows <= h->noted && h->noted <= 8 * (uint64_t)h->bytes);
    return ERR_OK;
}
