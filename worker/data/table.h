/* Rows of numbers and categories in memory: 4 bytes a cell, a category as its word's number; a batch
 * gets them as features, categories as one-hot. */
#ifndef GRADWIRE_WORKER_DATA_TABLE_H
#define GRADWIRE_WORKER_DATA_TABLE_H

#include <stdint.h>

#include "common/err.h"
#include "common/job.h"
#include "worker/data/vocabulary.h"
#include "worker/pool.h"

/* One column that is an input. */
struct table_input {
    enum column_kind kind; /* COLUMN_NUMBER or COLUMN_CATEGORY */
    enum column_scale scale;
    enum column_missing missing;
    float missing_value;
    enum column_encode encode;
    char name[JOB_NAME_MAX];
    int learns;              /* category: its words are those of the training part */
    struct vocabulary words; /* category */
    double shift, divisor;   /* number: (x - shift) / divisor */
    double fill;             /* number: what stands for a missing one, before that */
    uint32_t feature, width; /* its features: [feature, feature + width) */
};

/* What the training part decides and the eval part is read with. Shared, not by threads. */
struct table_schema {
    uint32_t refs, inputs, features;
    struct table_input *input; /* (inputs) in the order of the job's columns */
};

struct table {
    struct table_schema *schema;
    uint64_t rows;
    uint64_t chunks;
    uint32_t **chunk; /* TABLE_CHUNK_ROWS rows of (inputs + 1) cells each; the last is the label */
};
enum { TABLE_CHUNK_ROWS = 1 << 14 };

/* Cells are the bits of a float: a number (NaN: missing) and the label (NaN: the row is left out);
 * or a category: 0 is unknown, n + 1 is word n. */
static inline uint32_t *table_row(const struct table *t, uint64_t row)
{
    return t->chunk[row / TABLE_CHUNK_ROWS] +
           row % TABLE_CHUNK_ROWS * ((size_t)t->schema->inputs + 1);
}
static inline uint32_t table_bits(float v)
{
    union {
        float f;
        uint32_t u;
    } w = {.f = v};
    return w.u;
}
static inline float table_float(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } w = {.u = bits};
    return w.f;
}

/* From the job's columns, with the vocabularies that they give. Errors: ERR_NOMEM. */
enum err table_schema_new(struct table_schema **s, const struct job_csv *csv,
                          struct errmsg *e) MUST_CHECK;
struct table_schema *table_schema_ref(struct table_schema *s);
void table_schema_unref(struct table_schema *s);

/* `rows` more, zeroed. Errors: ERR_NOMEM. */
enum err table_extend(struct table *t, uint64_t rows, struct errmsg *e) MUST_CHECK;

/* The training part is whole: learn shifts, divisors, fills and widths from it. Sums are made in an
 * order that does not depend on the pool. Errors: ERR_NOMEM; ERR_INPUT too many features. */
enum err table_learn(struct table *t, struct pool *pool, struct errmsg *e) MUST_CHECK;
/* Put fills and scales into the cells, once. */
void table_scale(struct table *t, struct pool *pool);

/* x: (features). Thread: any. */
void table_gather(const struct table *t, uint64_t row, float *x);
void table_close(struct table *t);

#endif
