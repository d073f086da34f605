/* Exactly once in async: a shard applies the pair (batch id, chunk) once, however often a push is retried or a batch is
 * recomputed. Parts of tables count as chunks with numbers after the last chunk.
 * `resolved` has the ids with all chunks applied, `partial` the ids with only some chunks applied. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/parameters/ids.h"

struct once_partial {
    uint64_t id;
    uint32_t applied; /* chunks */
    uint8_t *bits;
};

struct once {
    struct ids resolved;
    uint32_t chunks;
    size_t partials, capacity;
    struct once_partial *partial;
};

enum once_verdict {
    ONCE_APPLY,     /* the first time: the pair is marked, and the caller applies it */
    ONCE_LAST,      /* the same, and it was the id's last chunk: the id is now resolved */
    ONCE_DUPLICATE, /* applied before */
    ONCE_TOO_FAR,   /* beyond the window: the peer has made an error */
    ONCE_NO_MEMORY,
};

void once_init(struct once *o, uint32_t chunks);
void once_close(struct once *o);

/* Forget all ids, and take a copy of *resolved: a restore from a checkpoint. */
void once_restore(struct once *o, const struct ids *resolved);

/* Return what once_admit would return now, with ONCE_APPLY also for ONCE_LAST, and reserve the memory that once_admit
 * needs, so that it cannot return ONCE_NO_MEMORY. chunk < chunks. */
enum once_verdict once_look(struct once *o, uint64_t id, uint32_t chunk);
/* Mark the pair as applied if the verdict is ONCE_APPLY or ONCE_LAST. */
enum once_verdict once_admit(struct once *o, uint64_t id, uint32_t chunk);
