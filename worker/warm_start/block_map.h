/* Where each element of a new job's block was in that of the job before it, whose model had fewer rows in some tensors. */
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

/* What no run has is a gap between tensors, and 0. */
struct block_map {
    uint32_t runs;
    struct block_run *run; /* by `at` */
    uint64_t old_elems;    /* of the block before */
};

/* fresh (l->tensors): 1 for each new row of (shape[0]) of that tensor, or NULL. Owns: block_map_close, also on error.
 * Errors: ERR_NOMEM. */
enum err block_map_init(struct block_map *map, const struct layout *l, uint8_t *const *fresh,
                        struct errmsg *e) MUST_CHECK;
void block_map_close(struct block_map *map);

#endif
