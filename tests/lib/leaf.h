/* The lookups of a microbatch in a job's tables, drawn at random: keys of one row of data repeat, some places are missing,
 * bags may be empty, weights may be 0 or negative. */
#pragma once

#include "job/job.h"
#include "common/rows/lookups.h"

enum {
    LEAF_ROWS = 8,
    LEAF_TABLES = 4,
    LEAF_KEYS = 7,
    LEAF_DIM = 4,
    LEAF_LOOKUPS = 12,
    LEAF_WIDTH = 3,
    LEAF_ELEMS = LEAF_KEYS * LEAF_DIM
};

struct drawn_leaf {
    struct leaf_keys keys;
    struct leaf_rows rows; /* w and dw below */
    struct key_list list[LEAF_TABLES];
    struct lookup_column column[LEAF_LOOKUPS];
    uint64_t mixed[LEAF_TABLES][LEAF_KEYS];
    uint32_t count[LEAF_LOOKUPS][LEAF_ROWS], at[LEAF_LOOKUPS][LEAF_ROWS * LEAF_WIDTH];
    float weight[LEAF_LOOKUPS][LEAF_ROWS * LEAF_WIDTH];
    float w[LEAF_TABLES][LEAF_ELEMS], dw[LEAF_TABLES][LEAF_ELEMS];
};

/* Of n rows. An embedding's and a linear layer's columns have one place a row, a bag's have LEAF_WIDTH. It stays where it
 * is. */
void leaf_draw(struct drawn_leaf *l, const struct job *job, uint32_t n, uint64_t seed);
void leaf_forget_gradient(struct drawn_leaf *l);
/* The keys of its rows from `first` on; valid until the next call. */
const struct leaf_keys *leaf_from(const struct drawn_leaf *l, uint32_t first);
