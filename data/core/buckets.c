#include "data/core/buckets.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/texts.h"
#include "common/base/mem.h"

/* ---- the bits of a number ---- */

/* An order-preserving mapping of the number to bits. */
static uint64_t bits_of(double x)
{
    union {
        double d;
        uint64_t u;
    } w = {.d = x};
    return w.u >> 63 ? ~w.u : w.u | UINT64_C(1) << 63;
}

static double number_of(uint64_t bits)
{
    union {
        uint64_t u;
        double d;
    } w = {.u = bits >> 63 ? bits & ~(UINT64_C(1) << 63) : ~bits};
    return w.d;
}

/* ---- given and found ---- */

enum err buckets_given(struct buckets *b, const char *borders)
{
    uint32_t n = 0;
    size_t bytes;
    for (const char *p = borders; p; p = texts_next(p, &bytes))
        n++;
    double *value = mem_zalloc(n, sizeof *value);
    if (!value)
        return ERR_NOMEM;
    const char *p = borders;
    for (uint32_t i = 0; i < n; i++) {
        value[i] = strtod(p, NULL);
        p = texts_next(p, &bytes);
    }
    enum err err = buckets_learn_borders(b, value, n);
    mem_free(value);
    return err;
}

void buckets_round(struct buckets *b)
{
    for (uint32_t i = 0; b->border && i + 1 < b->count; i++)
        b->border[i] = (double)(float)b->border[i];
}

bool buckets_are_floats(const struct buckets *b)
{
    bool all = true;
    for (uint32_t i = 0; b->border && i + 1 < b->count; i++)
        all &= (double)(float)b->border[i] == b->border[i];
    return all;
}

void buckets_close(struct buckets *b)
{
    mem_free(b->border);
    *b = (struct buckets){.count = 0};
}

/* As in the features of "3 Idiots" for Criteo: floor(ln(x)^2) above 2, the integer itself up to 2. The steps above 2
 * follow those up to it. */
static int32_t step_of(double x)
{
    enum { LOWEST = -64, ABOVE_TWO = 3 };
    if (x <= 2)
        return (int32_t)(x < LOWEST ? LOWEST : x);
    double l = log(x);
    return ABOVE_TWO + (int32_t)floor(l * l);
}

/* The number of borders that are at most x. */
static uint32_t find_border(const struct buckets *b, double x)
{
    uint32_t low = 0, high = b->count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->border[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t buckets_find(const struct buckets *b, double x)
{
    if (!b->log_squared)
        return find_border(b, x);
    int32_t step = step_of(x), last = b->first + (int32_t)b->count - 1;
    return (uint32_t)((step < b->first ? b->first : step > last ? last : step) - b->first);
}

/* The lowest number whose step is this one or higher: steps rise with numbers. */
static double lowest_of(int32_t step)
{
    uint64_t below = bits_of(-INFINITY), low = bits_of(INFINITY);
    while (low - below > 1) {
        uint64_t middle = below + (low - below) / 2;
        if (step_of(number_of(middle)) < step)
            below = middle;
        else
            low = middle;
    }
    return number_of(low);
}

double buckets_begin(const struct buckets *b, uint32_t bucket)
{
    assert(bucket > 0 && bucket < b->count);
    return b->log_squared ? lowest_of(b->first + (int32_t)bucket) : b->border[bucket - 1];
}

bool buckets_round_moves(const struct buckets *b, double x)
{
    uint32_t bucket = buckets_find(b, x);
    if (b->log_squared)
        return buckets_find(b, (double)(float)x) != bucket;
    return bucket + 1 < b->count && (float)b->border[bucket] <= (float)x; /* the next one, too */
}

/* ---- learned ---- */

void buckets_learn_range(struct buckets *b, double low, double high)
{
    b->log_squared = true;
    b->first = step_of(low);
    b->count = (uint32_t)(step_of(high) - b->first) + 1;
}

enum err buckets_learn_borders(struct buckets *b, const double *value, uint32_t n)
{
    double *border = mem_zalloc((size_t)n + 1, sizeof *border);
    uint32_t borders = 0;
    if (!border)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        if (borders == 0 || value[i] > border[borders - 1])
            border[borders++] = value[i];
    mem_free(b->border);
    b->border = border;
    b->count = borders + 1;
    return ERR_OK;
}

/* ---- quantiles ---- */

enum { BITS = 64, PART_BITS = 11, PART_VALUES = 1 << PART_BITS };
_Static_assert(QUANTILES_ROUNDS *PART_BITS >= BITS, "the last round knows all bits");

/* The number of highest bits that are known when the round begins. */
static uint32_t known_bits(int round)
{
    uint32_t known = (uint32_t)round * PART_BITS;
    return known < BITS ? known : BITS;
}

static uint64_t highest(uint64_t bits, uint32_t n)
{
    return n == 0 ? 0 : bits >> (BITS - n);
}

/* Collect the different beginnings of the quantiles, in rising order. */
static enum err begin_round(struct quantiles *q)
{
    q->ranges = 0;
    for (uint32_t i = 0; i < q->n; i++)
        if (q->ranges == 0 || q->range[q->ranges - 1] != q->of[i].bits)
            q->range[q->ranges++] = q->of[i].bits;
    mem_free(q->count);
    q->count = mem_zalloc((size_t)q->ranges * PART_VALUES, sizeof *q->count);
    return q->count ? ERR_OK : ERR_NOMEM;
}

enum err quantiles_init(struct quantiles *q, uint32_t n, uint64_t total)
{
    assert(n > 0 && total > 0);
    *q = (struct quantiles){.n = n};
    q->of = mem_zalloc(n, sizeof *q->of);
    q->range = mem_zalloc(n, sizeof *q->range);
    if (!q->of || !q->range)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++) { /* ceil((i + 1) total / (n + 1)), counted from 1 */
        uint64_t whole = total / (n + 1), rest = total % (n + 1);
        q->of[i].rank = (i + 1) * whole + ((i + 1) * rest + n) / (n + 1) - 1;
        assert(q->of[i].rank < total);
    }
    return begin_round(q);
}

void quantiles_close(struct quantiles *q)
{
    mem_free(q->of);
    mem_free(q->range);
    mem_free(q->count);
    *q = (struct quantiles){.n = 0};
}

/* The range with this beginning; `ranges`: none. */
static uint32_t find_range(const struct quantiles *q, uint64_t beginning)
{
    uint32_t low = 0, high = q->ranges;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (q->range[middle] < beginning)
            low = middle + 1;
        else
            high = middle;
    }
    return low < q->ranges && q->range[low] == beginning ? low : q->ranges;
}

void quantiles_count(struct quantiles *q, double x)
{
    uint32_t known = known_bits(q->round), next = known_bits(q->round + 1);
    uint64_t bits = bits_of(x);
    uint32_t range = find_range(q, highest(bits, known));
    if (range == q->ranges)
        return;
    uint32_t part = (uint32_t)highest(bits, next) & ((1u << (next - known)) - 1);
    atomic_fetch_add_explicit(&q->count[(size_t)range * PART_VALUES + part], 1,
                              memory_order_relaxed);
}

enum err quantiles_end_round(struct quantiles *q)
{
    uint32_t bits = known_bits(q->round + 1) - known_bits(q->round);
    for (uint32_t i = 0; i < q->n; i++) {
        struct quantile *of = &q->of[i];
        const atomic_ullong *count = q->count + (size_t)find_range(q, of->bits) * PART_VALUES;
        uint32_t part = 0;
        while (of->rank >= atomic_load(&count[part])) {
            of->rank -= atomic_load(&count[part++]);
            assert(part < PART_VALUES); /* more numbers have this beginning than the rank */
        }
        of->bits = of->bits << bits | part;
    }
    q->round++;
    return q->round < QUANTILES_ROUNDS ? begin_round(q) : ERR_OK;
}

void quantiles_values(const struct quantiles *q, double *value)
{
    assert(q->round == QUANTILES_ROUNDS);
    for (uint32_t i = 0; i < q->n; i++)
        value[i] = number_of(q->of[i].bits);
}
