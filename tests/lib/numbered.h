/* A real source of a stream (data/stream_source.c) over rows that are their own numbers. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"

struct numbered;
struct numbered_config {
    uint64_t rows, batch_size, seed;
    uint32_t microbatches, window, mix;
    uint32_t times; /* its memory has room for so many times the windows that it needs */
};
/* NULL: it cannot be made, and *e says why. */
struct numbered *numbered_new(const struct numbered_config *c, struct errmsg *e);
void numbered_free(struct numbered *n);
/* As struct source_type has them. out: the numbers of the leaf's rows, valid until the next call. */
void numbered_want(struct numbered *n, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                   uint32_t leaves);
enum err numbered_leaf(struct numbered *n, uint64_t id, uint32_t leaf, const float **out,
                       uint32_t *rows, struct errmsg *e) MUST_CHECK;
