/* Rows of numbers and categories: 4 bytes a cell, a category as its word's number; a batch gets them as
 * features, categories as one-hot. They are in chunks, each in memory, or where that is used up in a
 * file (spill.h); which of them are where changes nothing but speed. */
#ifndef GRADWIRE_WORKER_DATA_TABLE_H
#define GRADWIRE_WORKER_DATA_TABLE_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "worker/data/core/buckets.h"
#include "worker/data/spill.h"
#include "worker/data/vocabulary.h"
#include "common/math/pool.h"

/* One column that is an input. */
struct table_input {
    enum column_kind kind; /* COLUMN_NUMBER or COLUMN_CATEGORY */
    enum column_scale scale;
    enum column_missing missing;
    float missing_value;
    enum column_encode encode;
    char name[JOB_NAME_MAX];
    int learns;                    /* category: its words are those of the training part */
    struct vocabulary words;       /* category */
    uint32_t known;                /* of them: those that the checkpoint has taught */
    double shift, divisor;         /* number: (x - shift) / divisor */
    double fill;                   /* number: what stands for a missing one, before that */
    enum column_buckets bucketing; /* number: in which buckets it is */
    uint32_t quantiles;            /* how many are wanted */
    struct buckets buckets;
    uint32_t feature, width; /* its features: [feature, feature + width) */
};

/* One key column. Its cells stand behind a row's others: of a key TABLE_KEY_CELLS, and with `missing: none` one more: is
 * it there? Of keys their number, and for each key its cells and, with weights, its weight. Keys are mixed. */
struct table_key {
    enum column_kind kind; /* COLUMN_KEY, COLUMN_KEYS or COLUMN_CROSS */
    char name[JOB_NAME_MAX];
    struct job_key_column options;
    uint64_t seed;                       /* of its space */
    uint32_t cell, cells;                /* in the key part of a row */
    uint32_t crossed, of[JOB_CROSS_MAX]; /* cross: the keys of the schema that it is of */
};
enum { TABLE_KEY_CELLS = 2 /* the low half, the high half */ };

/* What a layer looks up: as struct job_lookup. */
struct table_lookup {
    uint32_t list, key;
};

/* What the training part decides and the eval part is read with. Shared, not by threads. */
struct table_schema {
    uint32_t refs, inputs, features;
    bool weighted;             /* a row has a weight */
    bool taught;               /* by a checkpoint, and not by the training part */
    struct table_input *input; /* (inputs) in the order of the job's columns */
    uint32_t keys, key_cells;  /* key_cells: of a row */
    struct table_key *key;     /* (keys) in the same order */
    uint32_t lists, lookups;   /* of the model */
    struct table_lookup *lookup;
};

/* chunk_rows rows of table_row_cells each: inputs, the label, the weight where there is one, and keys. */
struct table_chunk {
    uint32_t *cells; /* NULL: in the file */
    uint64_t at;     /* there */
};

struct table {
    struct table_schema *schema;
    struct spill *spill;
    uint64_t rows;
    uint64_t chunks;
    uint32_t chunk_rows; /* by the width of a row */
    struct table_chunk *chunk;
};
enum {
    TABLE_CHUNK_ROWS = 1 << 14, /* the most */
    TABLE_ROW_CELLS_MAX = JOB_ROW_CELLS_MAX,
};

/* Where the keys' cells begin. */
static inline uint32_t table_keys_at(const struct table_schema *s)
{
    return s->inputs + 1 + s->weighted;
}
static inline uint32_t table_row_cells(const struct table_schema *s)
{
    return table_keys_at(s) + s->key_cells;
}

/* Cells are the bits of a float: a number (NaN: missing), the label (NaN: the row is left out) and the weight;
 * or a category: 0 is unknown, n + 1 is word n. A number in buckets is
 * a number until table_scale, and then a category: 0 is missing, n + 1 is bucket n. */
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
/* What the model looks up of it. Errors: ERR_NOMEM. */
enum err table_schema_look_up(struct table_schema *s, const struct job *job,
                              struct errmsg *e) MUST_CHECK;
struct table_schema *table_schema_ref(struct table_schema *s);
void table_schema_unref(struct table_schema *s);

/* Once, when its schema and spill are there, before the first row. */
void table_begin(struct table *t);
/* `rows` more, of (rows, table_row_cells) cells. Errors: ERR_NOMEM; ERR_INPUT no room in the file; ERR_DISK. */
enum err table_append(struct table *t, const uint32_t *cells, uint64_t rows,
                      struct errmsg *e) MUST_CHECK;

/* Cells of the *n rows from `row` on, where they stand or read into `buffer` of `room` cells, at least
 * TABLE_ROW_CELLS_MAX. *n becomes how many of them one look gives, at least 1.
 * Errors: ERR_DISK. Thread: any. */
enum err table_look(const struct table *t, uint64_t row, uint64_t *n, uint32_t *buffer, size_t room,
                    const uint32_t **cells, struct errmsg *e) MUST_CHECK;
/* Would a look at the row wait for the disk? Thread: any; does not wait. */
bool table_waits(const struct table *t, uint64_t row);
/* It is looked at soon. Thread: any; does not wait. */
void table_want(const struct table *t, uint64_t row);

/* The training part is whole: learn shifts, divisors, fills and widths from it. Sums are made in an
 * order that does not depend on the pool. Errors: ERR_NOMEM; ERR_INPUT too many features; ERR_DISK. */
enum err table_learn(struct table *t, struct pool *pool, struct errmsg *e) MUST_CHECK;
/* The same where a checkpoint has taught them, and words are all there: only the features are numbered. Errors: ERR_INPUT too
 * many. */
enum err table_schema_number(struct table_schema *s, struct errmsg *e) MUST_CHECK;
/* Put fills and scales into the cells, once. Errors: ERR_NOMEM; ERR_DISK; ERR_INPUT as of append. */
enum err table_scale(struct table *t, struct pool *pool, struct errmsg *e) MUST_CHECK;

/* Its features are those of ids: a category, or a number in buckets. */
bool table_input_is_id(const struct table_input *in);
/* More of the training part may give it more features. */
bool table_input_grows(const struct table_input *in);
/* A row's cells as features. x: (features). Thread: any. */
void table_features(const struct table_schema *s, const uint32_t *cells, float *x);
/* Of its rows in the file. */
uint64_t table_spilled_bytes(const struct table *t);
void table_close(struct table *t);

#endif
