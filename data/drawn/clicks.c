/* Everything is computed with integers, or with functions that have the same bits on every machine
 * (common/base/real.h). Weights and vectors of keys are not stored: they are drawn again for each row, so a
 * vocabulary of any size takes no memory. */
#include "data/drawn/clicks.h"

#include <math.h>

#include "common/base/rng.h"
#include "common/base/real.h"

enum { CLICKS_CHANCE = 2, PART_MODEL = 2 }; /* parts 0 and 1 are rows; the census uses 1 */
/* The variance of the logit due to weights, and due to products. */
static const double bias = -1.2, weights_variance = 1.6, products_variance = 1.0;

/* ---- the model ---- */

/* Fields differ in size, as in real data: by the square of their number. The sum over all fields is `keys`. */
static uint32_t keys_of(uint32_t field, uint32_t fields, uint64_t keys)
{
    uint64_t below = (uint64_t)field * (field + 1) * (2 * field + 1) / 6, here = field + 1;
    uint64_t all = (uint64_t)fields * (fields + 1) * (2 * fields + 1) / 6;
    uint64_t rest = keys - fields;
    return (uint32_t)(1 + rest * (below + here * here) / all - rest * below / all);
}

void clicks_init(struct clicks *c, const struct job *job)
{
    /* a weight is the sum of four uniform 16-bit integers, an element of a vector is one */
    const double element_variance = 65536.0 * 65536.0 / 12;
    uint32_t fields = job->data.synthetic_fields, rank = job->data.synthetic_interaction;
    double pairs = (double)fields * (fields - 1) / 2;
    *c = (struct clicks){.fields = fields, .rank = rank};
    c->weight_scale = sqrt(weights_variance / (4 * element_variance * fields));
    if (rank && pairs > 0)
        c->product_scale = sqrt(products_variance / (pairs * rank)) / element_variance;
    for (uint32_t f = 0; f < fields; f++) {
        struct clicks_field *to = &c->field[f];
        to->keys = keys_of(f, fields, job->data.synthetic_keys);
        to->log_range = series_log((double)to->keys + 1);
        to->model = rng_key(CLICKS_CHANCE, RNG_SYNTHETIC, PART_MODEL, f);
    }
}

/* Word i of four, centred on 0. */
static int64_t word_of(uint64_t bits, uint32_t i)
{
    return (int64_t)(bits >> (16 * i) & 0xFFFF) - 32768;
}

static int64_t weight_of(uint64_t bits)
{
    return word_of(bits, 0) + word_of(bits, 1) + word_of(bits, 2) + word_of(bits, 3);
}

/* The sum over pairs of fields of their vectors' products: half of (sum squared - sum of squares). Exact: |sum| <
 * 2^21. */
static int64_t products(const struct clicks *c, const struct click *row)
{
    int64_t sum[4] = {0}, squares = 0, all = 0;
    for (uint32_t f = 0; f < c->fields; f++) {
        uint64_t bits = rng_u64(c->field[f].model, 2 * (uint64_t)row->key[f] + 1);
        for (uint32_t i = 0; i < c->rank; i++) {
            int64_t v = word_of(bits, i);
            sum[i] += v;
            squares += v * v;
        }
    }
    for (uint32_t i = 0; i < c->rank; i++)
        all += sum[i] * sum[i];
    return (all - squares) / 2;
}

static double logit_of(const struct clicks *c, const struct click *row)
{
    int64_t sum = 0;
    for (uint32_t f = 0; f < c->fields; f++)
        sum += weight_of(rng_u64(c->field[f].model, 2 * (uint64_t)row->key[f]));
    double logit = bias + c->weight_scale * (double)sum;
    return c->rank ? logit + c->product_scale * (double)products(c, row) : logit;
}

/* ---- a row ---- */

/* In [0, 1). */
static double unit(uint64_t chance, uint64_t position)
{
    return (double)(rng_u64(chance, position) >> 11) * 0x1p-53;
}

static uint32_t key_draw(const struct clicks_field *f, double u)
{
    double x = series_exp(u * f->log_range); /* in [1, keys + 1), except for rounding */
    return x >= f->keys ? f->keys : (uint32_t)x;
}

static uint64_t chance_of(int eval, uint64_t row)
{
    return rng_key(CLICKS_CHANCE, RNG_SYNTHETIC, (uint64_t)eval, row);
}

void clicks_draw(const struct clicks *c, int eval, uint64_t row, struct click *out)
{
    uint64_t chance = chance_of(eval, row);
    for (uint32_t f = 0; f < c->fields; f++)
        out->key[f] = key_draw(&c->field[f], unit(chance, 1 + CLICKS_NUMBERS + f));
    out->logit = logit_of(c, out);
    out->clicked = unit(chance, 0) < 1 / (1 + series_exp(-out->logit));
}

/* ---- its text ---- */

/* A count below 2^bits, with each power of two equally likely; missing in this many of 256 rows. */
static const struct {
    uint8_t bits, missing;
} numbers[CLICKS_NUMBERS] = {{7, 116}, {10, 0},  {9, 55},  {6, 55}, {17, 7},  {11, 57}, {8, 11},
                             {7, 1},   {10, 11}, {3, 116}, {5, 11}, {4, 195}, {8, 55}};

static char *decimal_put(char *out, uint32_t number)
{
    char digits[10];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n > 0)
        *out++ = digits[--n];
    return out;
}

static char *number_put(char *out, uint32_t i, uint64_t bits)
{
    if ((bits & 0xFF) < numbers[i].missing)
        return out;
    uint32_t size = (uint32_t)(bits >> 8 & 0xFFFF) % (numbers[i].bits + 1U);
    return decimal_put(out, (uint32_t)(bits >> 32) & ((1U << size) - 1));
}

/* 8 hex digits, a different word for each key of the field: each line is a bijection (MurmurHash3's finalizer). */
static char *word_put(char *out, const struct clicks_field *f, uint32_t key)
{
    uint32_t x = key ^ (uint32_t)f->model;
    x = (x ^ x >> 16) * 0x85EBCA6BU;
    x = (x ^ x >> 13) * 0xC2B2AE35U;
    x ^= x >> 16;
    for (int i = 0; i < 8; i++, x <<= 4)
        *out++ = "0123456789abcdef"[x >> 28];
    return out;
}

size_t clicks_write(const struct clicks *c, char *out, char delimiter, int eval, uint64_t row)
{
    struct click drawn;
    uint64_t chance = chance_of(eval, row);
    char *to = out;
    clicks_draw(c, eval, row, &drawn);
    *to++ = drawn.clicked ? '1' : '0';
    for (uint32_t i = 0; i < CLICKS_NUMBERS; i++) {
        *to++ = delimiter;
        to = number_put(to, i, rng_u64(chance, 1 + i));
    }
    for (uint32_t f = 0; f < c->fields; f++) {
        *to++ = delimiter;
        to = word_put(to, &c->field[f], drawn.key[f]);
    }
    *to++ = '\n';
    return (size_t)(to - out);
}
