/* Values in a cut that are not finite. The shard's writer checks them while it writes, so that training does not
 * wait for the check. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_BROKEN_H
#define GRADWIRE_COMMON_CHECKPOINT_BROKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_rows.h"

/* The first such value: an element of the flat block, or if the block is finite, a row. */
struct broken {
    enum { BROKEN_NONE, BROKEN_ELEM, BROKEN_ROW } kind;
    uint64_t elem;
    uint32_t table;
    uint64_t mixed; /* the row's mixed key */
};

/* Check the weights of a block or of rows, but not optimizer state. Start with *to zeroed: finite weights leave it
 * unchanged. Call broken_find first; broken_find_in_rows keeps an earlier finding. */
void broken_find(struct broken *to, const struct checkpoint_shard *blocks);
void broken_find_in_rows(struct broken *to, const struct row_group *g,
                         const struct checkpoint_table *of);

#endif
