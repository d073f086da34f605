/* What a cut has that is not finite. The writer looks while it writes: training does not wait for it. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_BROKEN_H
#define GRADWIRE_COMMON_CHECKPOINT_BROKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_rows.h"

/* The first one: an element of the flat block, or, where all of that is finite, a row. */
struct broken {
    enum { BROKEN_NONE, BROKEN_ELEM, BROKEN_ROW } kind;
    uint64_t elem;
    uint32_t table;
    uint64_t mixed; /* the row's key */
};

/* Optimizer state is not looked at. The blocks come first; a row is not put in the place of what was found before. */
void broken_look(struct broken *to, const struct checkpoint_shard *blocks);
void broken_look_at_rows(struct broken *to, const struct row_group *g,
                         const struct checkpoint_table *of);

#endif
