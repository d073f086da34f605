/* The plan: which shard owns which chunks of the flat block. It is a pure function of the block's elements and the
 * threads of each ps. Chunk borders depend only on the model; each shard owns consecutive chunks, about the same
 * bytes on each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    PLAN_CHUNK_MIN_BYTES = 4096,
    PLAN_CHUNK_MAX_BYTES = 1 << 20,
    PLAN_CHUNKS_WANTED = 64,
    PLAN_SHARDS_MAX = 4096,
    /* Chunks travel in ranges of about this size: large enough for few system calls and wake-ups, and small enough
     * that the replies of a large model start while its gradients still arrive. */
    PLAN_RUN_BYTES = 256 << 10,
};

struct plan_shard {
    uint32_t ps, thread; /* `thread`: index among the threads of that ps */
    uint32_t first_chunk, chunks;
    uint64_t first_elem, elems;
};

struct plan {
    uint64_t elems;
    uint32_t chunk_elems, chunks;
    uint32_t run_chunks; /* chunks in a full range */
    /* shards in the plan: those that own chunks, or all threads if there are tables; shard 0 is the lead */
    uint32_t shards;
    bool tables; /* all threads share the rows of tables */
    struct plan_shard *shard;
};

/* Makes a plan. `threads[i]` is the number of shard threads that ps i offers. Threads without a chunk, if there
 * are more threads than chunks, are not in the plan. Errors: ERR_INPUT no elements, no threads, or over a limit;
 * ERR_NOMEM. The caller owns *p: plan_close. */
enum err plan_init(struct plan *p, uint64_t elems, const uint32_t *threads, uint32_t ps,
                   struct errmsg *e) MUST_CHECK;
/* Same for a job with tables: threads without a chunk are in the plan, too, and shard 0 owns chunk 0. */
enum err plan_init_tables(struct plan *p, uint64_t elems, const uint32_t *threads, uint32_t ps,
                          struct errmsg *e) MUST_CHECK;
void plan_close(struct plan *p);

/* The index of a chunk's first element; the number of elements of the chunks [first, first + count). */
uint64_t plan_chunk_elem(const struct plan *p, uint32_t chunk);
uint64_t plan_run_elems(const struct plan *p, uint32_t first, uint32_t count);
