/* A set of batch ids: all ids below a mark, plus any ids in a bounded window from the mark on. A shard keeps the
 * ids that it has resolved, the chief those that are done. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { IDS_WINDOW = 4096, IDS_WINDOW_BYTES = IDS_WINDOW / 8 };

struct ids {
    uint64_t mark;
    uint64_t count; /* ids in the set */
    /* id i is bit i % IDS_WINDOW, for mark <= i < mark + IDS_WINDOW */
    uint64_t bits[IDS_WINDOW / 64];
};

bool ids_has(const struct ids *s, uint64_t id);

/* Adds an id; adding it twice is no error. Errors: ERR_TOOBIG if id >= mark + IDS_WINDOW. */
enum err ids_add(struct ids *s, uint64_t id) MUST_CHECK;

/* Returns the largest id in the set plus 1; 0 for an empty set. */
uint64_t ids_end(const struct ids *s);

bool ids_equal(const struct ids *a, const struct ids *b);

/* Writes the window as bytes, bit i for id mark + i, without trailing zero bytes. Returns the number of bytes. */
size_t ids_pack(const struct ids *s, uint8_t out[IDS_WINDOW_BYTES]);

/* Makes *s the set with this mark and window (ids_pack's). Errors: ERR_PROTO if there are more than IDS_WINDOW_BYTES,
 * or the bit of the mark itself is set. */
enum err ids_unpack(struct ids *s, uint64_t mark, const uint8_t *window, size_t bytes) MUST_CHECK;
