/* The columns of rows, and the layout of a row: 4 bytes a cell (8 for a number that is still to be scaled), a category
 * as its word's number. A batch gets the cells as features, categories as one-hot. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "data/core/buckets.h"
#include "data/meaning/vocabulary.h"
#include "job/job.h"

/* One input column. */
struct schema_input {
    enum column_kind kind; /* COLUMN_NUMBER or COLUMN_CATEGORY */
    enum column_scale scale;
    enum column_missing missing;
    uint32_t ids;         /* as in job_column; a missing id does not become the mean of ids */
    double missing_value; /* a float, unless the number is wide */
    enum column_encode encode;
    /* number: the position of its second cell behind the row, counted from 1, while it is a double; 0: it is a
     * float from the start */
    uint32_t wide;
    bool needs_double;             /* a float is not enough for the training part's numbers */
    const char *name;              /* the job's, which must live as long */
    int learns;                    /* category: it learns the words of the training part */
    struct vocabulary words;       /* category */
    bool complete;                 /* given words: no row of the training part lacks a value */
    uint32_t known;                /* number of its words that the checkpoint has taught */
    double shift, divisor;         /* number: (x - shift) / divisor */
    double fill;                   /* number: replaces a missing one, before the scaling */
    enum column_buckets bucketing; /* number: the kind of its buckets */
    uint32_t quantiles;            /* number of quantiles wanted */
    struct buckets buckets;
    uint32_t feature, width; /* its features: [feature, feature + width) */
};

/* One key column. Its cells come after a row's other cells, those of `keys` columns last. A key has SCHEMA_KEY_CELLS,
 * and with `missing: none` one more that tells whether it is present. Keys have their number, and for each key its cells
 * and, with weights, its weight. Keys are mixed. */
struct table_key {
    enum column_kind kind; /* COLUMN_KEY, COLUMN_KEYS or COLUMN_CROSS */
    const char *name;      /* and those of options: as above */
    struct job_key_column options;
    uint64_t seed; /* of its key space */
    bool complete; /* missing: none: no row of the training part lacks a value */
    /* in the key part of a row that is not packed; of keys: with room for max_values */
    uint32_t cell, cells;
    uint32_t nth; /* of keys: number of `keys` columns before it */
    /* cross: indices of the schema's keys that it combines */
    uint32_t crossed, of[JOB_CROSS_MAX];
};
enum { SCHEMA_KEY_CELLS = 2 /* the low half, the high half */ };

/* The most keys that a row has in the column. */
static inline uint32_t table_key_width(const struct table_key *k)
{
    return k->kind == COLUMN_KEYS ? k->options.max_values : 1;
}

/* The key of a word is the same for every program that serves the model, so docs/reference/data.md defines it, with
 * examples. Pure. */

/* A column's seed: XXH3_64bits of its space. */
uint64_t word_key_seed(const char *space);

/* *key: XXH3_64bits_withSeed(word, seed), or without `hash` the decimal integer in the word; modulo the buckets.
 * False: the word is not an integer below 2^64. */
bool word_key(const struct job_key_column *c, uint64_t seed, const char *word, size_t bytes,
              uint64_t *key);
/* The key modulo the buckets, if the column has buckets. */
static inline uint64_t word_key_fold(const struct job_key_column *c, uint64_t key)
{
    return c->buckets ? key % c->buckets : key;
}

/* The key of a missing value. False: a missing value has no key. */
static inline bool word_key_missing(const struct job_key_column *c, uint64_t seed, uint64_t *key)
{
    if (c->missing == KEY_MISSING_NONE)
        return false;
    if (c->missing == KEY_MISSING_EMPTY)
        return word_key(c, seed, "", 0, key);
    *key = word_key_fold(c, c->missing_key);
    return true;
}

/* A lookup of a layer, as struct job_lookup. */
struct table_lookup {
    uint32_t list, key;
};

/* The encoding that the training part determines and the eval part is read with. References are not atomic. */
struct table_schema {
    uint32_t refs, inputs, features;
    bool weighted;              /* rows have a weight */
    bool taught;                /* by a checkpoint, not by the training part */
    uint32_t wide;              /* number of inputs with a second cell */
    struct schema_input *input; /* (inputs) in the order of the job's columns */
    uint32_t keys, key_cells;   /* key_cells: number in a row that is not packed */
    struct table_key *key;      /* (keys) in the same order */
    uint32_t several;           /* number of `keys` columns */
    uint32_t *each;             /* (several) cells of one of their values */
    uint32_t several_at;        /* in the key part of a row: where their cells begin */
    uint32_t lists, lookups;    /* of the model */
    struct table_lookup *lookup;
    const char *missing; /* the job's data.missing. Its first text is the word of a missing value */
};

/* Index of the first key cell of a row. */
static inline uint32_t schema_keys_at(const struct table_schema *s)
{
    return s->inputs + 1 + s->weighted;
}
/* The most cells of a row: while a reader fills it, each `keys` column has room for max_values. */
static inline uint32_t schema_row_cells(const struct table_schema *s)
{
    return schema_keys_at(s) + s->key_cells;
}

/* The same before the numbers are scaled. */
static inline uint32_t schema_raw_cells(const struct table_schema *s)
{
    return schema_row_cells(s) + s->wide;
}

/* Pack a row of schema_raw_cells: what its `keys` columns do not use is left out. Returns schema_packed_raw_cells. Readers
 * do this when the row is whole; everybody else has packed rows. */
size_t schema_pack(const struct table_schema *s, uint32_t *cells);

/* Where the cells of a `keys` column begin in a packed row, and where those of the one before it end. nth: up to s->several. */
static inline const uint32_t *table_several_cells(const struct table_schema *s, uint32_t nth,
                                                  const uint32_t *cells)
{
    cells += schema_keys_at(s) + s->several_at;
    for (uint32_t i = 0; i < nth; i++)
        cells += 1 + (size_t)cells[0] * s->each[i];
    return cells;
}

/* Where the cells of a key column begin in a packed row. */
static inline const uint32_t *table_key_cells(const struct table_schema *s,
                                              const struct table_key *k, const uint32_t *cells)
{
    return k->kind == COLUMN_KEYS ? table_several_cells(s, k->nth, cells)
                                  : cells + schema_keys_at(s) + k->cell;
}

/* Number of cells of a packed row without values in its `keys` columns, once its numbers are scaled. */
static inline size_t schema_fixed_cells(const struct table_schema *s)
{
    return (size_t)schema_keys_at(s) + s->several_at + s->several;
}

/* Number of cells of a packed row, once its numbers are scaled. */
static inline size_t table_packed_cells(const struct table_schema *s, const uint32_t *cells)
{
    return (size_t)(table_several_cells(s, s->several, cells) - cells);
}

/* The same before the numbers are scaled. */
static inline size_t schema_packed_raw_cells(const struct table_schema *s, const uint32_t *cells)
{
    return table_packed_cells(s, cells) + s->wide;
}

/* Cells have the bits of a float for a number (NaN: missing), the label (NaN: the row is left out) and the weight; a
 * category has 0 for unknown, n + 1 for word n. A number with a scale or buckets is a double (schema_number) until
 * table_scale. Then it is a float, or in buckets a category: 0 is missing, n + 1 is bucket n. */
static inline uint32_t schema_bits(float v)
{
    union {
        float f;
        uint32_t u;
    } w = {.f = v};
    return w.u;
}
static inline float schema_float(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } w = {.u = bits};
    return w.f;
}

/* The second cells of doubles, of a packed row that is not scaled. NULL: it has none. */
static inline const uint32_t *schema_high_cells(const struct table_schema *s, const uint32_t *cells)
{
    return s->wide ? cells + table_packed_cells(s, cells) : NULL;
}
static inline double schema_double(uint32_t low, uint32_t high)
{
    union {
        uint64_t u;
        double d;
    } w = {.u = low | (uint64_t)high << 32};
    return w.d;
}
/* A number of a row that is not scaled. high: its second cells */
static inline double schema_number(const struct table_schema *s, const uint32_t *cells,
                                   const uint32_t *high, uint32_t i)
{
    return s->input[i].wide ? schema_double(cells[i], high[s->input[i].wide - 1])
                            : (double)schema_float(cells[i]);
}
/* One of two numbers, bit by bit: without a branch, which the processor could not predict, and with the bits of denormal numbers,
 * which minsd flushes. */
static inline double schema_pick(bool first, double one, double other)
{
    union {
        double d;
        uint64_t u;
    } a = {.d = one}, b = {.d = other};
    const uint64_t is = 0 - (uint64_t)first;
    a.u = (a.u & is) | (b.u & ~is);
    return a.d;
}
/* v, or `other` if v is missing. */
static inline double schema_number_or(double v, double other)
{
    return schema_pick(v == v, v, other);
}
/* Put it into a row that is not packed yet. The second cell of input i comes so many cells behind the first; 0: it has none. */
static inline size_t schema_high_of(const struct table_schema *s, uint32_t i)
{
    return s->input[i].wide ? schema_row_cells(s) + s->input[i].wide - 1 - i : 0;
}
static inline void schema_put_double(uint32_t *cell, size_t high, double v)
{
    union {
        double d;
        uint64_t u;
    } w = {.d = v};
    cell[0] = high ? (uint32_t)w.u : schema_bits((float)v);
    if (high)
        cell[high] = (uint32_t)(w.u >> 32);
}
static inline void schema_put_number(const struct table_schema *s, uint32_t *cells, uint32_t i,
                                     double v)
{
    schema_put_double(cells + i, schema_high_of(s, i), v);
}

/* Made from the job's columns and their given vocabularies. Errors: ERR_NOMEM. */
enum err schema_new(struct table_schema **s, const struct job_csv *csv,
                    struct errmsg *e) MUST_CHECK;
/* Add the lookups of the job's model. Errors: ERR_NOMEM. */
enum err schema_look_up(struct table_schema *s, const struct job *job, struct errmsg *e) MUST_CHECK;
/* Both. Errors: ERR_NOMEM. */
enum err schema_of_job(struct table_schema **s, const struct job *job, struct errmsg *e) MUST_CHECK;
/* Numbers with a scale or buckets become floats before they are scaled, as in release 0.1.0 (encoding.json without
 * `arithmetic`). Call before the first row. */
static inline void schema_round(struct table_schema *s)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        s->input[i].wide = 0;
        s->input[i].missing_value = (double)(float)s->input[i].missing_value;
        buckets_round(&s->input[i].buckets);
    }
    s->wide = 0;
}
/* Whether the number for missing ones is in another bucket if it is rounded to float32. */
bool schema_fill_moves(const struct schema_input *in);
struct table_schema *schema_ref(struct table_schema *s);
void schema_unref(struct table_schema *s);

/* Number the features, once all words and buckets are known. Errors: ERR_INPUT: too many. */
enum err schema_place_features(struct table_schema *s, struct errmsg *e) MUST_CHECK;
/* Of the numbers of an input that are there. */
struct number_moments {
    double count, sum, offset, squares; /* offset and squares: sums of x - mean and of its square */
    double min, max;
    double rounding; /* the most that one of them changes if it becomes a float */
};
/* Set its shift, divisor, fill and width by the moments of all rows. If it has only one value, it is shifted to 0 and not
 * divided. Pure. */
void schema_learn_number(struct schema_input *in, const struct number_moments *m, double mean);
/* The cell of a number: its feature, or its bucket. NaN: it is missing. */
uint32_t schema_scaled_cell(const struct schema_input *in, double v);
/* Apply fills and scales to the cells of a packed row, once; the second cells of doubles stay behind it. Thread: any. */
void schema_scale_row(const struct table_schema *s, uint32_t *cells);

/* The keys of a row in a key column, from table_key_cells: key and weight (table_key_width). A place without a key has
 * key 0 and weight 0. weight NULL: not wanted. Thread: any. */
void schema_row_keys(const struct table_key *k, const uint32_t *cells, uint64_t *key,
                     float *weight);

/* True if its features are one-hot: a category, or a number in buckets. */
bool schema_input_is_id(const struct schema_input *in);
/* True if more rows of the training part can add features to it. */
bool schema_input_grows(const struct schema_input *in);
/* Convert a row's cells to features. x: (features). Thread: any. */
void table_features(const struct table_schema *s, const uint32_t *cells, float *x);

/* ---- numbers.c ---- */

/* Many numbers of a row at a time, by the processor's vectors: sums, and scales. Each number goes through the same operations in the
 * same order, so the bits are the same with vectors of any width. */

/* Inputs next to each other that are numbers, all doubles (schema_input.wide) or none. */
struct numbers_run {
    uint32_t first, n;
    uint32_t wide;   /* of its first input; 0: floats */
    bool is_divided; /* they are shifted and divided: no logarithms, no buckets */
};

/* The moments of a row's numbers are arrays of numbers_padded(inputs), so that no vector is a part of one. */
enum numbers_moment {
    MOMENT_COUNT,
    MOMENT_SUM,
    MOMENT_OFFSET,
    MOMENT_SQUARES,
    MOMENT_MIN,
    MOMENT_MAX,
    MOMENT_ROUNDING,
    MOMENTS
};

/* Set by numbers_init, and not changed: threads share it. */
struct numbers {
    uint32_t inputs, runs;
    struct numbers_run *run;
    double *fill, *shift, *divisor; /* (inputs) */
};
uint32_t numbers_padded(uint32_t inputs);

/* As the schema is now: scales are learned later. The schema must outlive *x. Owns: numbers_close. Errors: ERR_NOMEM. */
enum err numbers_init(struct numbers *x, const struct table_schema *s) MUST_CHECK;
void numbers_close(struct numbers *x);

/* The numbers of a row that is not scaled; high: its second cells. v: (inputs); what is no number is left as it was. */
void numbers_read(const struct numbers *x, const uint32_t *cells, const uint32_t *high, double *v);
/* v: (padded); what is no number is NaN. Set moments, (MOMENTS, padded), to those of no row. */
void numbers_begin(double *moments, uint32_t inputs);
/* Its offsets and squares alone. */
void numbers_begin_squares(double *moments, uint32_t inputs);
/* Those of one input. */
struct number_moments numbers_moments(const double *moments, uint32_t inputs, uint32_t input);
/* Add a row to its counts, sums, minima, maxima and roundings. NaN adds nothing. */
void numbers_add(double *moments, const double *v, uint32_t inputs);
/* Add a row to its offsets and squares. mean: (padded) */
void numbers_add_squares(double *moments, const double *mean, const double *v, uint32_t inputs);
/* As schema_scale_row. v: room for (inputs). */
void numbers_scale(const struct numbers *x, const struct table_schema *s, uint32_t *cells,
                   double *v);
