/* A real source of a stream (data/stream_source.c) over rows that are their own numbers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct numbered;
struct numbered_config {
    uint64_t rows, batch_size, seed;
    uint32_t microbatches, window, mix;
    bool leased;    /* as lanes_init_leased */
    uint32_t times; /* its memory has room for so many times the windows that it needs */
};
/* NULL: it cannot be made, and *e says why. */
struct numbered *numbered_new(const struct numbered_config *c, struct errmsg *e);
void numbered_free(struct numbered *n);
/* As struct source_type has them. out: the numbers of the leaf's rows, valid until the next call. */
void numbered_want(struct numbered *n, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                   uint32_t leaves);
void numbered_soon(struct numbered *n, uint64_t id);
enum err numbered_leaf(struct numbered *n, uint64_t id, uint32_t leaf, const float **out,
                       uint32_t *rows, struct errmsg *e) MUST_CHECK;
/* Of a source of this order; 0: its batches are not leased. */
uint32_t numbered_window_batches(const struct numbered_config *c);
/* How many rows all sources of this program have read. */
uint64_t numbered_read(void);
