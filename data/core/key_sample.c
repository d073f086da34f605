/* A sample of keys by their hash, and how often each was looked up. */
#include "data/core/key_sample.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "common/base/mem.h"

enum { SLOTS_FEWEST = 1024 };

static bool is_in(uint64_t mixed, uint32_t bits)
{
    return (mixed & ((UINT64_C(1) << bits) - 1)) == 0;
}

/* The slot that has the key, or the free slot for it. The high bits of a sampled key are as good as any. */
static struct sampled_key *slot_of(struct sampled_key *slot, uint32_t slots, uint64_t mixed)
{
    uint32_t mask = slots - 1, i = (uint32_t)(mixed >> 32) & mask;
    while (slot[i].last && slot[i].mixed != mixed)
        i = (i + 1) & mask;
    return &slot[i];
}

/* Move the keys of so many zero bits to a new table. */
static enum err rebuild(struct key_sample *s, uint32_t slots, uint32_t bits)
{
    struct sampled_key *slot = mem_zalloc(slots, sizeof *slot);
    if (!slot)
        return ERR_NOMEM;
    uint32_t keys = 0;
    for (uint32_t i = 0; i < s->slots; i++) {
        const struct sampled_key *k = &s->slot[i];
        if (!k->last || !is_in(k->mixed, bits))
            continue;
        *slot_of(slot, slots, k->mixed) = *k;
        keys++;
    }
    mem_free(s->slot);
    *s = (struct key_sample){slot, slots, keys, bits};
    return ERR_OK;
}

/* Make room for one more key. */
static enum err reserve(struct key_sample *s)
{
    enum err err = ERR_OK;
    if (2 * s->keys >= s->slots && s->keys < KEY_SAMPLE_MAX)
        err = rebuild(s, s->slots ? 2 * s->slots : SLOTS_FEWEST, s->bits);
    while (!err && s->keys >= KEY_SAMPLE_MAX)
        err = rebuild(s, s->slots, s->bits + 1);
    return err;
}

enum err key_sample_add(struct key_sample *s, uint64_t mixed, uint32_t block)
{
    if (!is_in(mixed, s->bits))
        return ERR_OK;
    struct sampled_key *k = s->slots ? slot_of(s->slot, s->slots, mixed) : NULL;
    if (!k || !k->last) {
        enum err err = reserve(s);
        if (err || !is_in(mixed, s->bits))
            return err;
        k = slot_of(s->slot, s->slots, mixed);
        *k = (struct sampled_key){.mixed = mixed};
        s->keys++;
    }
    assert(k->last <= block + 1 && 2 * s->keys <= s->slots);
    k->blocks += k->last != block + 1;
    k->last = block + 1;
    return ERR_OK;
}

double key_sample_keys(const struct key_sample *s)
{
    return ldexp(s->keys, (int)s->bits);
}

void key_sample_spectrum(const struct key_sample *s, double *in_blocks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        in_blocks[i] = 0;
    for (uint32_t i = 0; i < s->slots; i++) {
        const uint32_t blocks = s->slot[i].blocks;
        if (blocks)
            in_blocks[(blocks < n ? blocks : n) - 1] += ldexp(1, (int)s->bits);
    }
}

void key_sample_close(struct key_sample *s)
{
    mem_free(s->slot);
    *s = (struct key_sample){.slots = 0};
}
