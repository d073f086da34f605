/* The plan: a pure function of (elements of the flat block, threads of each ps). Chunk borders depend on the model
 * alone; a shard owns one contiguous run of chunks, even by bytes. */
#ifndef GRADWIRE_COMMON_PARAMETERS_PLAN_H
#define GRADWIRE_COMMON_PARAMETERS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    PLAN_CHUNK_MIN_BYTES = 4096,
    PLAN_CHUNK_MAX_BYTES = 1 << 20,
    PLAN_CHUNKS_WANTED = 64,
    PLAN_SHARDS_MAX = 4096,
    /* Chunks travel in runs of about this much: large enough for few system calls and wake-ups, small enough that
     * a large model's replies start while its gradients still arrive. */
    PLAN_RUN_BYTES = 256 << 10,
};

struct plan_shard {
    uint32_t ps, thread; /* thread of that ps */
    uint32_t first_chunk, chunks;
    uint64_t first_elem, elems;
};

struct plan {
    uint64_t elems;
    uint32_t chunk_elems, chunks;
    uint32_t run_chunks; /* chunks in a full run */
    uint32_t shards;     /* shards that own chunks, with tables all threads; shard 0 is the lead */
    bool tables;         /* rows of tables are shared out among all threads */
    struct plan_shard *shard;
};

/* `threads[i]`: shard threads that ps i offers. If there are more threads than chunks, some own no chunks: without tables
 * they are not in the plan; with tables they are, and chunk 0 is shard 0's.
 * Errors: ERR_INPUT no elements, no threads or over the limits; ERR_NOMEM. Owns: plan_close. */
enum err plan_init(struct plan *p, uint64_t elems, const uint32_t *threads, uint32_t ps,
                   struct errmsg *e) MUST_CHECK;
/* The same of a job with tables. */
enum err plan_init_tables(struct plan *p, uint64_t elems, const uint32_t *threads, uint32_t ps,
                          struct errmsg *e) MUST_CHECK;
void plan_close(struct plan *p);

/* First element and elements of the chunks [first, first + count). */
uint64_t plan_chunk_elem(const struct plan *p, uint32_t chunk);
uint64_t plan_run_elems(const struct plan *p, uint32_t first, uint32_t count);

#endif
