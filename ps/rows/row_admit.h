/* Admission to one table of one shard: does this touch make the row? Touches are counted in a sketch, or a coin is
 * tossed. Pure: the same touches in the same order give the same answers, whatever the number of shards.
 *
 * Each bucket has counters of its own, four rows of them (a count-min sketch: Cormode and Muthukrishnan 2005), which only
 * grow as far as they have to ("conservative update": Estan and Varghese 2002). A counter is a byte and stays at 255. */
#ifndef GRADWIRE_PS_ROWS_ROW_ADMIT_H
#define GRADWIRE_PS_ROWS_ROW_ADMIT_H

#include "common/base/err.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"

enum { ROW_SKETCH_ROWS = 4 };

struct row_admit {
    bool on; /* false: each touch makes its row */
    uint32_t min_count;
    float probability;
    uint64_t coin; /* the key of this table's coins */
    struct bucket_range buckets;
    uint32_t bucket_bytes; /* of a bucket's counters; 0: nothing is counted */
    uint8_t *counters;     /* (buckets, ROW_SKETCH_ROWS, bucket_bytes / ROW_SKETCH_ROWS) */
};

/* Bytes that each bucket of a table has; 0: nothing is counted. */
static inline uint32_t row_sketch_bytes(const struct row_admission *a)
{
    return a->min_count > 1 ? (a->sketch_mb << 20) / ROW_BUCKETS : 0;
}

/* No touch was counted. Owns: row_admit_close. Errors: ERR_NOMEM: *a is zeros. */
enum err row_admit_init(struct row_admit *a, const struct row_table_spec *t,
                        struct bucket_range buckets, uint64_t seed) MUST_CHECK;
void row_admit_close(struct row_admit *a); /* zeros, too */

/* A touch of a row that is not there, of these buckets; `clock`: the stamp that the row would get. Does it make the row?
 * *undo is what row_admit_undo takes: the touches since are taken back before, the last one first. */
bool row_admit_touch(struct row_admit *a, uint64_t mixed, uint64_t clock, uint32_t *undo);
void row_admit_undo(struct row_admit *a, uint64_t mixed, uint32_t undo);

/* A bucket's counters: (bucket_bytes), for a cut; NULL: nothing is counted. */
uint8_t *row_admit_sketch(const struct row_admit *a, uint32_t bucket);
/* Of memory. */
uint64_t row_admit_bytes(const struct row_admit *a);

#endif
