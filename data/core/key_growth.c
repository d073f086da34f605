#include "data/core/key_growth.h"

#include <assert.h>
#include <math.h>

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
