/* Maps each element of a new job's flat block to its position in the earlier job's block, whose model had fewer rows
 * in some tensors. */
#ifndef GRADWIRE_WORKER_WARM_START_BLOCK_MAP_H
#define GRADWIRE_WORKER_WARM_START_BLOCK_MAP_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/layout.h"

#define BLOCK_MAP_NEW UINT64_MAX

/* Elements [at, at + n) were [from, from + n); from BLOCK_MAP_NEW: they are new. */
struct block_run {
    uint64_t at, n, from;
};

/* An element in no run is a gap between tensors, and 0. */
struct block_map {
    uint32_t runs;
    struct block_run *run; /* (runs) in ascending order of `at` */
    uint64_t old_elems;    /* size of the earlier block */
};

/* fresh (l->tensors): for each tensor 1 for each new row (shape[0]), or NULL. Owns: block_map_close, also on error.
 * Errors: ERR_NOMEM. */
enum err block_map_init(struct block_map *map, const struct layout *l, uint8_t *const *fresh,
                        struct errmsg *e) MUST_CHECK;
void block_map_close(struct block_map *map);

#endif
