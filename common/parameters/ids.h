/* A set of batch ids: a mark (every id below it is in) and a bounded window above it. What a shard has resolved,
 * and what the chief knows to be done. Pure. */
#ifndef GRADWIRE_COMMON_PARAMETERS_IDS_H
#define GRADWIRE_COMMON_PARAMETERS_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { IDS_WINDOW = 4096, IDS_WINDOW_BYTES = IDS_WINDOW / 8 };

struct ids {
    uint64_t mark;
    uint64_t count; /* ids in the set */
    uint64_t
        bits[IDS_WINDOW / 64]; /* id i at bit i % IDS_WINDOW, for mark <= i < mark + IDS_WINDOW */
};

bool ids_has(const struct ids *s, uint64_t id);

/* Errors: ERR_TOOBIG where id is not below mark + IDS_WINDOW. Adding twice is no error. */
enum err ids_add(struct ids *s, uint64_t id) MUST_CHECK;

/* One above the largest id in the set (0: none). */
uint64_t ids_end(const struct ids *s);

bool ids_equal(const struct ids *a, const struct ids *b);

/* The window as bytes, bit i = mark + i, without trailing zeros; returns how many bytes. */
size_t ids_pack(const struct ids *s, uint8_t out[IDS_WINDOW_BYTES]);

/* Errors: ERR_PROTO more than IDS_WINDOW_BYTES, or the bit of the mark itself is set. */
enum err ids_unpack(struct ids *s, uint64_t mark, const uint8_t *window, size_t bytes) MUST_CHECK;

#endif
