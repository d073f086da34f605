/* The tables of a job, as all processes know them. Tables that are looked up by the same columns share one list of
 * keys, which is built, sent and sorted once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/math/optimizer.h"
#include "common/parameters/layout.h"
#include "common/rows/key.h"

enum { ROW_TABLES_MAX = 64, ROW_DIM_MAX = 4096, ROW_TABLE_NAME_MAX = 64 };

/* Limit of a body of rows and of a reply with rows, so that a peer's number alone cannot make us allocate more
 * memory. */
#define ROWS_BODY_MAX (UINT64_C(1) << 30)

/* Admission: which touch of a key creates its row, and what a missing row reads as. Zeros: the first touch creates
 * it, and a missing row reads as its first value. */
struct row_admission {
    /* number of touches needed, up to ROW_MIN_COUNT_MAX; 0 or 1: the first touch */
    uint32_t min_count;
    /* probability (below 1) that a touch creates the row; 0: the first touch does */
    float probability;
    bool initial;       /* a missing row reads as its first value; false: as zeros */
    uint32_t sketch_mb; /* with min_count: memory for counts, over the shards of all ps */
};
enum { ROW_MIN_COUNT_MAX = 255, ROW_SKETCH_MB_MAX = 1024 };

static inline bool row_admission_on(const struct row_admission *a)
{
    return a->min_count > 1 || a->probability > 0;
}

/* Bytes of the counters of one bucket; 0: touches are not counted. */
static inline uint32_t row_sketch_bytes(const struct row_admission *a)
{
    return a->min_count > 1 ? (a->sketch_mb << 20) / ROW_BUCKETS : 0;
}

struct row_table_spec {
    char name[ROW_TABLE_NAME_MAX];
    uint32_t dim;
    uint32_t list; /* the list with its keys */
    enum init_kind init;
    float init_value, init_center; /* as in struct tensor */
    struct row_admission admission;
    bool has_optimizer;         /* false: the job's optimizer updates its rows */
    struct optimizer optimizer; /* must be lazy */
    /* Eviction: a row is removed this many clocks after its last touch; 0: never. */
    uint32_t unseen_steps;
};
enum { ROW_UNSEEN_STEPS_MAX = 1 << 24 };

/* The reaction to a new row if the memory for rows (ps.memory) is full. The numbers are on the wire. */
enum row_full {
    ROW_FULL_STOP,   /* end the job */
    ROW_FULL_EVICT,  /* remove the rows with the oldest last touch */
    ROW_FULL_REFUSE, /* do not create it */
};

/* See row_codec.h. The numbers are on the wire. */
enum row_codec { ROW_CODEC_NONE, ROW_CODEC_FP16, ROW_CODEC_BF16, ROW_CODEC_INT8 };

/* The codecs of each table, for its gradients and its rows. The chief's choice applies to all processes. */
struct row_codecs {
    enum row_codec push[ROW_TABLES_MAX], reply[ROW_TABLES_MAX];
};

struct row_layout {
    uint32_t lists, tables;
    struct row_codecs codecs;
    /* in the job file's order; their list numbers ascend */
    struct row_table_spec table[ROW_TABLES_MAX];
};

/* Writes the first value of a row, w (dim): a function of (seed, table's name, mixed key, column) only. */
void row_first_value(const struct row_table_spec *t, uint64_t seed, uint64_t mixed, float *w);
/* Writes the value of a missing row: w (dim). */
void row_absent_value(const struct row_table_spec *t, uint64_t seed, uint64_t mixed, float *w);

/* Statistics of a table's rows, for one shard or for all. Rejected steps and duplicates are not counted. */
struct row_counts {
    uint64_t rows; /* present rows */
    /* since the job's start, or that of its last new run (checkpoint.run): */
    uint64_t admitted; /* rows created */
    uint64_t refused;  /* gradients for new rows that could not be created for lack of memory */
    uint64_t dropped;  /* gradients for keys that admission did not admit */
    uint64_t evicted;  /* rows removed */
};

/* The members, with their names in messages and files. */
#define ROW_COUNTS(X)                                                                              \
    X(rows)                                                                                        \
    X(admitted)                                                                                    \
    X(refused)                                                                                     \
    X(dropped)                                                                                     \
    X(evicted)

static inline void row_counts_add(struct row_counts *to, const struct row_counts *from)
{
#define X(name) to->name += from->name;
    ROW_COUNTS(X)
#undef X
}
