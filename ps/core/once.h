/* Exactly once in async: the pair (batch id, chunk) is applied once on a shard, whatever is retried or redone. Parts of
 * tables count as chunks behind the last one.
 * `resolved` holds the ids of which every chunk is applied; `partial` those of which only some are. Pure. */
#ifndef GRADWIRE_PS_CORE_ONCE_H
#define GRADWIRE_PS_CORE_ONCE_H

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
    size_t partials, room;
    struct once_partial *partial;
};

enum once_verdict {
    ONCE_APPLY,     /* the first time: it is marked, and the caller applies it */
    ONCE_LAST,      /* the same, and it was the id's last chunk: the id is resolved */
    ONCE_DUPLICATE, /* applied before */
    ONCE_TOO_FAR,   /* beyond the window: the peer is wrong */
    ONCE_NO_MEMORY,
};

void once_init(struct once *o, uint32_t chunks);
void once_close(struct once *o);

/* Forget everything but `resolved` (a restore). */
void once_restore(struct once *o, const struct ids *resolved);

/* What once_admit is going to say, but for ONCE_LAST; there is memory for its mark then. */
enum once_verdict once_look(struct once *o, uint64_t id, uint32_t chunk);
enum once_verdict once_admit(struct once *o, uint64_t id, uint32_t chunk);

#endif
