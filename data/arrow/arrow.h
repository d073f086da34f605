/* Columns as Apache Arrow has them: its C data interface (https://arrow.apache.org/docs/format/CDataInterface.html), which types of
 * them are read, and their values as texts and numbers. And the table of functions of the module gradwire-arrow, which alone links
 * Arrow: its threads and exceptions stay inside. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

/* ---- the module ---- */

enum arrow_answer { ARROW_DONE, ARROW_WRONG /* the file */, ARROW_NO_MEMORY };
struct arrow_why {
    char text[400];
};
struct arrow_span {
    uint64_t at, bytes; /* of the file */
};
struct arrow_writer;
struct arrow_file; /* a Parquet file; of one thread, except `rows`, `groups`, `chunk` and `held` */

struct arrow_module {
    /* The descriptor stays the caller's. */
    enum arrow_answer (*open)(struct arrow_file **out, int fd, struct arrow_why *why);
    void (*close)(struct arrow_file *f);
    /* The columns of the file are its children. The caller releases it. */
    enum arrow_answer (*schema)(struct arrow_file *f, struct ArrowSchema *out,
                                struct arrow_why *why);
    uint32_t (*groups)(const struct arrow_file *f);
    uint64_t (*rows)(const struct arrow_file *f, uint32_t group);
    /* Where a column of a row group is in the file; a column of lists has one, too. */
    struct arrow_span (*chunk)(const struct arrow_file *f, uint32_t group, uint32_t column);
    /* Read these columns of a row group: `next` has their rows, in this order, as the children of arrays of at most `rows` rows.
     * out->release is NULL at the end. coded: (columns) if all pages of the column in this group have a dictionary, its values come
     * as indices of 4 bytes in it, whatever its type is, and it is the same in all arrays. An error names the column. */
    enum arrow_answer (*begin)(struct arrow_file *f, uint32_t group, const uint32_t *column,
                               uint32_t columns, const bool *coded, uint32_t rows,
                               struct arrow_why *why);
    enum arrow_answer (*next)(struct arrow_file *f, struct ArrowArray *out, struct arrow_why *why);
    /* The bytes of memory that it holds, of its pages and of arrays that are not released. */
    uint64_t (*held)(const struct arrow_file *f);
    /* Begin to make a file. names: a line of csv; types: of each column s: text, i: int64, d: double, f: float32; codec: "zstd" or
     * "snappy". */
    enum arrow_answer (*write_new)(struct arrow_writer **out, const char *names, size_t bytes,
                                   const char *types, const char *codec, struct arrow_why *why);
    /* Add rows as lines of csv, in which an empty field is null, or NULL behind the last, and have the next bytes of the file, until
     * the next call; there can be none yet. */
    enum arrow_answer (*write)(struct arrow_writer *w, const char *lines, size_t bytes,
                               const char **out, size_t *out_bytes, struct arrow_why *why);
    /* The same of rows as columns, the children of *take_rows: they become a row group. */
    enum arrow_answer (*write_group)(struct arrow_writer *w, struct ArrowArray *take_rows,
                                     const char **out, size_t *out_bytes, struct arrow_why *why);
    void (*write_free)(struct arrow_writer *w);
};

/* The table is the one symbol of the module. Its name has a number, which changes with the table. */
#define ARROW_MODULE gradwire_arrow_3

#ifdef __cplusplus
}
#else

#include "data/core/column_batch.h"

/* ---- types ---- */

enum arrow_kind {
    ARROW_OTHER, /* none of those that are read */
    ARROW_NULL,  /* no row has a value */
    ARROW_INTEGER,
    ARROW_UNSIGNED,
    ARROW_FLOAT,
    ARROW_BOOLEAN,
    ARROW_TEXT,
    ARROW_DECIMAL,
    ARROW_DATE,
    ARROW_TIMESTAMP,
    ARROW_LIST
};
struct arrow_type {
    enum arrow_kind kind;
    uint8_t bytes; /* of a value; of an offset of texts or lists, 0: views, or lists of one size */
    uint8_t index_bytes; /* of an index in a dictionary, which has the values; 0: there is none */
    bool index_signed;
    bool zone;          /* a timestamp is in UTC */
    int32_t size;       /* of lists of one size; of a decimal: digits behind the point */
    int64_t per_second; /* of a timestamp, and of a date in ms */
    char name[40];      /* for messages; equal if values with equal texts are equal */
};
struct arrow_type arrow_type_of(const struct ArrowSchema *s);

/* ---- values ---- */

/* Find the value of row i, from 0, and in *a and *at its place in the array that has it, a dictionary's perhaps. False: it is null. */
bool arrow_find(const struct arrow_type *t, const struct ArrowArray **a, int64_t i, int64_t *at);

/* The number at a place, of integers, floats and booleans. */
double arrow_double(const struct arrow_type *t, const struct ArrowArray *a, int64_t at);
/* The numbers of `rows` rows from `first` on, from 0; any number where one is null, whose bit of `valid` is cleared. Returns whether one is.
 * floats: an integer that is no double becomes the float nearest to it. */
bool arrow_doubles(const struct arrow_type *t, const struct ArrowArray *a, int64_t first,
                   uint32_t rows, bool floats, double *out, uint8_t *valid);
/* Clear the bits of rows, from `first` on, that are null. Returns whether one is. Not of indices whose words can be null. */
bool arrow_nulls(const struct ArrowArray *a, int64_t first, uint32_t rows, uint8_t *valid);
/* The same of integers and booleans. Those of 8 bytes without a sign keep their bits. */
bool arrow_integers(const struct arrow_type *t, const struct ArrowArray *a, int64_t first,
                    uint32_t rows, int64_t *out, uint8_t *valid);
/* The text at a place: a view of the array, or of `out`. Not of lists. A boolean is 1 or 0. */
enum { ARROW_TEXT_BYTES = 64 };
struct batch_text arrow_text(const struct arrow_type *t, const struct ArrowArray *a, int64_t at,
                             char out[static ARROW_TEXT_BYTES]);
/* The shortest decimal number that a double reads as. Returns its length. */
size_t arrow_shortest(double v, char out[static ARROW_TEXT_BYTES]);
/* The values [*begin, *end) of children[0] that are the list at a place, each found as a row. */
void arrow_list(const struct arrow_type *t, const struct ArrowArray *a, int64_t at, int64_t *begin,
                int64_t *end);

#endif
