/* Admission to one table of one shard: decides if a touch of a missing row creates it. Touches are counted in a sketch,
 * or a coin is tossed. Pure: the same touches in the same order give the same answers, for any number of shards.
 *
 * Each bucket has its own sketch: a matrix of counters with ROW_SKETCH_ROWS rows (count-min: Cormode and Muthukrishnan
 * 2005). A key has one counter in each row of the matrix. A touch increments only those of the key's counters that are
 * the smallest ("conservative update": Estan and Varghese 2002). A counter is a byte and stays at 255. */
#pragma once

#include "common/base/err.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"

enum { ROW_SKETCH_ROWS = 4 };

struct row_admit {
    bool on; /* false: each touch creates its row */
    uint32_t min_count;
    float probability;
    uint64_t coin; /* the seed of this table's coin tosses */
    struct bucket_range buckets;
    uint32_t bucket_bytes; /* of a bucket's counters; 0: touches are not counted */
    uint8_t *counters;     /* (buckets, ROW_SKETCH_ROWS, bucket_bytes / ROW_SKETCH_ROWS) */
};

/* All counters are 0. Free with row_admit_close. Errors: ERR_NOMEM: *a is zeros. */
enum err row_admit_init(struct row_admit *a, const struct row_table_spec *t,
                        struct bucket_range buckets, uint64_t seed) MUST_CHECK;
void row_admit_close(struct row_admit *a); /* takes zeros, too */

/* Count a touch of a missing row of these buckets. True: create the row; if admission is off always. `clock`: the stamp
 * that the row would get. *undo is for row_admit_undo; touches are undone in reverse order. */
bool row_admit_touch(struct row_admit *a, uint64_t mixed, uint64_t clock, uint32_t *undo);
void row_admit_undo(struct row_admit *a, uint64_t mixed, uint32_t undo);

/* A bucket's counters, (bucket_bytes), for a cut; NULL: touches are not counted. */
uint8_t *row_admit_sketch(const struct row_admit *a, uint32_t bucket);
/* Bytes of memory that the counters take. */
uint64_t row_admit_bytes(const struct row_admit *a);
