/* Counts of rows by score: adding, the area under the curve, and the form in a cut. */
#include "common/math/bins.h"

#include "common/base/mem.h"

enum { BLOCK = 2 * BINS };

static size_t counts_of(const struct bins *b)
{
    return (size_t)(1 + b->slices) * BLOCK;
}

enum err bins_init(struct bins *b, uint32_t slices)
{
    struct bins made = {.slices = slices};
    made.count = mem_zalloc(counts_of(&made), sizeof *made.count);
    if (!made.count)
        return ERR_NOMEM;
    *b = made;
    return ERR_OK;
}

enum err bins_copy(struct bins *to, const struct bins *from)
{
    enum err err = bins_init(to, from->slices);
    if (err)
        return err;
    memcpy(to->count, from->count, counts_of(from) * sizeof *to->count);
    to->epoch = from->epoch;
    to->rows = from->rows;
    return ERR_OK;
}

void bins_close(struct bins *b)
{
    mem_free(b->count);
    *b = (struct bins){0};
}

void bins_clear(struct bins *b)
{
    b->rows = 0;
    memset(b->count, 0, counts_of(b) * sizeof *b->count);
}

void bins_add(struct bins *b, const uint8_t *marks, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t at =
            ((uint32_t)marks[2 * (size_t)i] | (uint32_t)marks[2 * (size_t)i + 1] << 8) % BLOCK;
        b->count[at]++;
        if (b->slices)
            b->count[(size_t)BLOCK * (1 + marks[2 * (size_t)rows + i] % b->slices) + at]++;
    }
    b->rows += rows;
}

struct bins_auc bins_auc(const struct bins *b, uint32_t block)
{
    const uint64_t *count = b->count + (size_t)BLOCK * block;
    double negatives = 0, positives = 0, area = 0, tied = 0;
    for (uint32_t i = 0; i < BLOCK; i += 2) {
        double n = (double)count[i], p = (double)count[i + 1];
        area += p * (negatives + n / 2);
        tied += p * n / 2;
        negatives += n;
        positives += p;
    }
    double pairs = negatives * positives;
    return pairs > 0 ? (struct bins_auc){area / pairs, tied / pairs} : (struct bins_auc){NAN, NAN};
}

struct bins_sums bins_sums(const struct bins *b, uint32_t block)
{
    const uint64_t *count = b->count + (size_t)BLOCK * block;
    struct bins_sums s = {0, 0, 0, 0};
    for (uint32_t i = 0; i < BLOCK; i += 2) {
        const double n = (double)count[i], p = (double)count[i + 1];
        const double logit = ((double)i / 2 + 0.5) / 128 - 16;
        if (n + p == 0)
            continue;
        s.rows += n + p;
        s.positives += p;
        s.predicted += (n + p) / (1 + exp(-logit));
        s.loss += n * log1p(exp(logit)) + p * log1p(exp(-logit));
    }
    s.loss /= s.rows;
    return s;
}

size_t bins_pack(const struct bins *b, uint64_t *out)
{
    size_t n = 0;
    uint64_t zeros = 0;
    for (size_t i = 0; i < counts_of(b); i++) {
        if (b->count[i] == 0) {
            zeros++;
            continue;
        }
        if (out) {
            out[n] = zeros;
            out[n + 1] = b->count[i];
        }
        n += 2;
        zeros = 0;
    }
    return n;
}

bool bins_unpack(struct bins *b, const uint64_t *from, size_t n)
{
    size_t at = 0;
    bins_clear(b);
    for (size_t i = 0; i + 1 < n; i += 2) {
        if (from[i] >= counts_of(b) - at)
            return false;
        at += from[i];
        b->count[at] = from[i + 1];
        b->rows += at < BLOCK ? from[i + 1] : 0;
        at++;
    }
    return n % 2 == 0;
}
