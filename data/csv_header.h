/* The meaning of the fields of a csv file: by the order of the job's columns, or by the file's header. */
#pragma once

#include "data/csv_rows.h"

enum { CSV_UNREAD_BYTES = 200 };

/* The names of the job's columns that a line has, though the job's order counts. */
struct csv_names {
    bool all; /* the names of all columns that have one */
    /* moved: the job's column + 1 whose name is in the field `at` in place of `belongs`, both from 1; 0: none */
    uint32_t moved, at, belongs;
    uint64_t hash; /* of its texts, without quotes; 0: the number of its fields is another one */
    char shown[CSV_UNREAD_BYTES]; /* its beginning */
};

struct csv_file {
    const char *path;            /* a view */
    struct meaning_field *field; /* (fields) */
    uint32_t *kept_as;           /* (fields) as in struct csv_piece */
    uint32_t *field_of; /* (job's columns) the number of the column's field, + 1; 0: it has none */
    uint32_t fields;
    struct csv_labels labels;
    struct csv_header_line header; /* with data.header: skip or names */
    bool begun;                    /* its first row, or its header, has been found */
    uint64_t rows, pairs;          /* that were joined; pairs: libsvm */
    struct csv_names names;        /* of the first line, without data.header: names */
    /* with data.header: skip: the line that was left out, and whether it could be a row */
    uint64_t skipped_line; /* 0: none */
    bool skipped_row;
    uint64_t names_line; /* the first row, if it has the names, and the skipped line has not; 0 */
    /* unlabeled rows: the names in the header that nothing reads, printable, as "id, note" and their number */
    uint32_t unread;
    char unread_names[CSV_UNREAD_BYTES];
    /* unlabeled rows, found by their order: the columns of label and weight that they are taken to lack, where others could be
     * absent as well; 0: none */
    uint32_t guessed;
};

/* Remove a UTF-8 byte order mark, of *mark_bytes, from the beginning of a file's text. Errors: ERR_INPUT: it is UTF-16 or
 * UTF-32. */
enum err csv_file_skip_mark(struct csv_piece *p, size_t *mark_bytes, struct errmsg *e) MUST_CHECK;

/* Find the fields of a file whose first rows are in `p`, and remove the header, if there is one, from the piece. If the
 * piece has no row, it becomes empty, and the file has not begun. Owns: csv_file_close. Errors: ERR_INPUT: a column
 * that the header does not name, or names twice; a header that cannot be read; ERR_NOMEM. */
enum err csv_file_begin(struct csv_file *file, struct csv_piece *p, const struct csv_format *f,
                        struct errmsg *e) MUST_CHECK;
/* Find the fields of a file of another format, whose columns have these names: all are fields, in their order. Errors: as
 * csv_file_begin. */
enum err csv_file_columns(struct csv_file *file, const struct csv_format *f,
                          const char *const *name, uint32_t columns, struct errmsg *e) MUST_CHECK;
void csv_file_close(struct csv_file *file);

/* ---- parquet_rows.c ---- */
struct parquet;
/* Open a Parquet file, and find its fields: those that are read. Errors name the file. ERR_INPUT: it cannot be read, lacks a
 * column, or has one of a type that does not fit, or that the first file has with another type; ERR_NOMEM. */
enum err parquet_rows_begin(struct csv_file *file, const struct csv_format *f, struct parquet *p,
                            struct errmsg *e) MUST_CHECK;
