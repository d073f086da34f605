/* Rows of a data set, by their numbers, copied out of a buffer: what a test compares. */
#pragma once

#include <string.h>

#include "data/dataset.h"

/* x: (n, features), y: (n), weight: (n); weight: NULL: not wanted. *there: rows that are not bad. The rest as dataset_gather. */
static inline enum err gathered_augmented(const struct dataset *d, const uint64_t *rows, uint32_t n,
                                          const uint64_t *augment, float *x, float *y,
                                          float *weight, uint32_t *there, struct errmsg *e)
{
    const struct leaf_form form = dataset_form(d);
    struct leaf_buffer *buffer;
    struct leaf leaf;
    enum err err = leaf_buffer_new(&buffer, &form, n ? n : 1, LEAF_VALUES, e);
    *there = 0;
    if (err)
        return err;
    err = dataset_gather(d, rows, n, augment, buffer, &leaf, e);
    *there = err ? 0 : leaf.n;
    if (*there && x)
        memcpy(x, leaf.x, (size_t)leaf.n * form.features * sizeof *x);
    if (*there)
        memcpy(y, leaf.y, leaf.n * sizeof *y);
    if (*there && weight)
        memcpy(weight, leaf.weight, leaf.n * sizeof *weight);
    leaf_buffer_free(buffer);
    return err;
}

static inline enum err gathered_weighted(const struct dataset *d, const uint64_t *rows, uint32_t n,
                                         float *x, float *y, float *weight, uint32_t *there,
                                         struct errmsg *e)
{
    return gathered_augmented(d, rows, n, NULL, x, y, weight, there, e);
}

static inline enum err gathered_rows(const struct dataset *d, const uint64_t *rows, uint32_t n,
                                     float *x, float *y, uint32_t *there, struct errmsg *e)
{
    return gathered_weighted(d, rows, n, x, y, NULL, there, e);
}

/* A buffer for the keys of `rows` rows. */
static inline enum err gathered_buffer(struct leaf_buffer **buffer, const struct table_schema *s,
                                       uint32_t rows, struct errmsg *e)
{
    const struct leaf_form form = leaf_form_of_cells(s);
    return leaf_buffer_new(buffer, &form, rows, LEAF_LOOKUPS, e);
}

static inline enum err gathered_keys(const struct dataset *d, const uint64_t *rows, uint32_t n,
                                     struct leaf_buffer *buffer, const struct leaf_keys **keys,
                                     struct errmsg *e)
{
    struct leaf leaf = {.keys = NULL};
    enum err err = dataset_gather(d, rows, n, NULL, buffer, &leaf, e);
    *keys = leaf.keys;
    return err;
}

/* A source over the set, for calls that borrow one. */
static inline struct source *source_over(struct dataset_source *s, const struct dataset *d,
                                         const struct order *order)
{
    dataset_source_init(s, d, order);
    return &s->source;
}
