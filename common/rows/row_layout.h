/* The tables of a job, as all processes know them. Tables that the same columns look up share one list of keys: it is
 * made, sent and sorted once. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_LAYOUT_H
#define GRADWIRE_COMMON_ROWS_ROW_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/math/optimizer.h"
#include "common/parameters/layout.h"

enum { ROW_TABLES_MAX = 64, ROW_DIM_MAX = 4096, ROW_TABLE_NAME_MAX = 64 };

/* No body of rows is larger, nor is an answer: a peer's word alone makes nobody ask for more memory. */
#define ROWS_BODY_MAX (UINT64_C(1) << 30)

/* Admission: which touch makes a row, and how one that is not there reads. Zeros: the first touch makes it, and it reads
 * as its first value before. */
struct row_admission {
    uint32_t min_count; /* so many touches, up to ROW_MIN_COUNT_MAX; 0, 1: the first */
    float probability;  /* each touch makes it with this, below 1; 0: the first touch */
    bool initial;       /* it reads as its first value; false: as zeros */
    uint32_t sketch_mb; /* min_count: of counts, for the shards of all ps together */
};
enum { ROW_MIN_COUNT_MAX = 255, ROW_SKETCH_MB_MAX = 1024 };

static inline bool row_admission_on(const struct row_admission *a)
{
    return a->min_count > 1 || a->probability > 0;
}

struct row_table_spec {
    char name[ROW_TABLE_NAME_MAX];
    uint32_t dim;
    uint32_t list; /* whose keys look it up */
    enum init_kind init;
    float init_value, init_center; /* as in struct tensor */
    struct row_admission admission;
    bool has_optimizer;         /* false: the job's updates its rows */
    struct optimizer optimizer; /* lazy */
    /* Eviction: a row is gone so many clocks after its last touch; 0: it stays. */
    uint32_t unseen_steps;
};
enum { ROW_UNSEEN_STEPS_MAX = 1 << 24 };

/* What becomes of a row that is to be made, where the memory for rows (ps.memory) is full; the numbers travel. */
enum row_full {
    ROW_FULL_STOP,   /* the job ends */
    ROW_FULL_EVICT,  /* the rows whose last touch is the oldest go */
    ROW_FULL_REFUSE, /* it is not made */
};

/* row_codec.h; the numbers travel. */
enum row_codec { ROW_CODEC_NONE, ROW_CODEC_FP16, ROW_CODEC_BF16, ROW_CODEC_INT8 };

/* Of each table: how its gradients and its rows travel. The chief's hold for all. */
struct row_codecs {
    enum row_codec push[ROW_TABLES_MAX], reply[ROW_TABLES_MAX];
};

struct row_layout {
    uint32_t lists, tables;
    struct row_codecs codecs;
    struct row_table_spec
        table[ROW_TABLES_MAX]; /* in the job file's order; lists appear in ascending order */
};

/* The first value of a row: w (dim), a function of (seed, table's name, mixed key, column) alone. */
void row_first_value(const struct row_table_spec *t, uint64_t seed, uint64_t mixed, float *w);
/* What a row that is not there reads as: w (dim). */
void row_absent_value(const struct row_table_spec *t, uint64_t seed, uint64_t mixed, float *w);

/* Floats that a key of this list has in all of its tables together. */
uint32_t row_layout_list_dim(const struct row_layout *l, uint32_t list);

#endif
