#include "data/core/key_growth.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "common/base/mem.h"

/* A sample of keys by their hash, and how often each was looked up. */

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

enum {
    RATES = 40,
    CLASSES = 16, /* by the number of blocks that have a key: 1, 2, .., and that many or more */
    /* Enough to tell a vocabulary that ends from one that does not, and too few to follow the noise of rare classes. */
    ITERATIONS = 2000,
};

struct rates {
    double rate[RATES];            /* mean number of counted blocks that have the key */
    double chance[RATES][CLASSES]; /* of each class, if the key came */
    double share[RATES];           /* of the keys that came */
};

/* Rates from that of a key which would come in a quarter of all sets of this size, up to the last class. */
static void rates_init(struct rates *r, double times)
{
    const double least = 1 / (4 * times), most = 1.5 * CLASSES;
    for (int k = 0; k < RATES; k++) {
        double rate = least * pow(most / least, (double)k / (RATES - 1)), rest = 1;
        double chance = exp(-rate) / -expm1(-rate);
        for (int c = 0; c < CLASSES - 1; c++) {
            chance *= rate / (c + 1);
            r->chance[k][c] = chance;
            rest -= chance;
        }
        r->chance[k][CLASSES - 1] = fmax(rest, 0);
        r->rate[k] = rate;
        r->share[k] = 1.0 / RATES;
    }
}

/* One iteration of expectation maximization. part: (CLASSES) of the keys that came */
static void improve(struct rates *r, const double *part)
{
    double next[RATES] = {0};
    for (int c = 0; c < CLASSES; c++) {
        double sum = 0;
        for (int k = 0; k < RATES; k++)
            sum += r->share[k] * r->chance[k][c];
        for (int k = 0; k < RATES && part[c] > 0 && sum > 0; k++)
            next[k] += part[c] * r->share[k] * r->chance[k][c] / sum;
    }
    for (int k = 0; k < RATES; k++)
        r->share[k] = next[k];
}

/* The keys of `times` as many blocks for each key of these. */
static double grown(const struct rates *r, double times)
{
    double keys = 1;
    for (int k = 0; k < RATES; k++) {
        double came = -expm1(-r->rate[k]), comes = exp(-r->rate[k]) - exp(-r->rate[k] * times);
        keys += r->share[k] * comes / came;
    }
    return keys;
}

static double keys_of(const struct key_sample *sample, double seen, double times)
{
    struct rates r;
    double part[CLASSES];
    if (times <= 1 || seen < 1)
        return seen;
    key_sample_spectrum(sample, part, CLASSES);
    for (int c = 0; c < CLASSES; c++)
        part[c] /= seen;
    rates_init(&r, times);
    for (int i = 0; i < ITERATIONS; i++)
        improve(&r, part);
    return seen * grown(&r, times);
}

void key_growth_finish(struct key_growth *g, const struct key_sample *sample, uint32_t lists)
{
    assert(lists <= KEY_GROWTH_LISTS_MAX && (g->counted > 0 || g->rows == 0));
    g->lists = lists;
    for (uint32_t i = 0; i < lists; i++) {
        g->seen[i] = key_sample_keys(&sample[i]);
        g->all[i] = keys_of(&sample[i], g->seen[i], (double)g->rows / (double)g->counted);
    }
}
