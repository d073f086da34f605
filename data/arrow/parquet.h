/* Parquet files, one after the other, in pieces of a few rows as Arrow has them. The module gradwire-arrow decodes them (arrow.h). */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "common/base/err.h"
#include "data/arrow/arrow.h"

/* A column that is read. */
struct parquet_column {
    uint32_t of;                  /* the file's; PARQUET_OF_PATH: none */
    uint32_t child;               /* of the rows of a batch */
    struct arrow_type type, item; /* item: of a list's values */
    struct parquet_known {        /* of the first file's: of the first that is more than nulls */
        struct arrow_type type, item;
        const char *path; /* NULL: none is yet */
    } known;
    bool coded; /* its values may come as indices in a dictionary */
    const char *name;
    const char *value; /* of a path: a text, the same in all rows; NULL: null */
};
#define PARQUET_OF_PATH UINT32_MAX

/* A directory of the path, as NAME=VALUE. */
struct parquet_part {
    char *name, *value; /* value: NULL: null */
    bool absent;        /* none of the path, but a column that the file lacks, of nulls */
};

/* A file, as long as a piece of it is in use. */
struct parquet_file {
    atomic_uint refs;
    const struct arrow_module *module;
    struct arrow_file *arrow;
    struct ArrowSchema schema; /* its children are the columns of the file */
    int fd;
    struct stat opened;            /* when it was */
    const char *path;              /* the caller's */
    struct parquet_column *column; /* (columns) those that are read */
    uint32_t columns, children;    /* children: those that are not of the path */
    struct parquet_part *part;     /* (parts) */
    uint32_t parts;
};

/* Keys of the words of the columns of a row group that come as indices: whoever needs those of a column first makes them. */
struct parquet_codes {
    atomic_uint refs;
    pthread_mutex_t lock;
    uint32_t columns;
    struct batch_codes *of; /* (columns) key NULL: they are not made yet */
};

struct parquet_batch {
    atomic_uint refs;
    struct parquet_codes *codes;
    struct parquet_file *file;
    struct ArrowArray rows; /* its children are the columns that are read */
};

/* The files of a load. */
struct parquet {
    const struct arrow_module *module;
    struct parquet_file *first;  /* of all */
    struct parquet_file *file;   /* NULL: none is open */
    struct parquet_batch *batch; /* NULL: the next one is not read */
    int64_t at;                  /* its next row */
    struct parquet_codes *codes; /* of the group */
    bool begun;                  /* the group is */
    bool fresh;                  /* no piece has a row of the file yet */
    uint32_t group;
    uint64_t row;        /* of the group */
    uint64_t rows, left; /* of the file; left: that no piece has */
    uint64_t left_bytes; /* their share of its bytes */
};

/* Errors: ERR_INPUT: the module is not there; ERR_NOMEM. */
enum err parquet_new(struct parquet **out, struct errmsg *e) MUST_CHECK;
void parquet_free(struct parquet *p);

/* Open a file. Errors: ERR_INPUT: it cannot be read; ERR_NOMEM. */
enum err parquet_open(struct parquet *p, const char *path, struct errmsg *e) MUST_CHECK;
/* Read this column of the open file, too, or behind them, of its path: before its first piece. The caller sets the types of a
 * file's. */
struct parquet_column *parquet_read(struct parquet *p, uint32_t column);
/* The open file, and no column of its is read yet, lacks this column: it is one of nulls, behind those of the path. Errors:
 * ERR_NOMEM. */
enum err parquet_lacks(struct parquet *p, const char *name, struct errmsg *e) MUST_CHECK;
void parquet_close(struct parquet *p); /* pieces keep what they need of it */
/* The next piece is the first of this row group of the open file. */
void parquet_seek(struct parquet *p, uint32_t group);
/* The bytes of memory that the open file and pieces of it hold in the module. */
uint64_t parquet_held(const struct parquet *p);

/* Make a Parquet file of lines of csv, or of columns, as struct arrow_module says. Errors: ERR_INPUT: the module is not there; ERR_NOMEM.
 */
struct parquet_writer {
    const struct arrow_module *module;
    struct arrow_writer *arrow; /* NULL: not begun */
};
enum err parquet_write_begin(struct parquet_writer *w, const char *names, size_t bytes,
                             const char *types, const char *codec, struct errmsg *e) MUST_CHECK;
enum err parquet_write(struct parquet_writer *w, const char *lines, size_t bytes, const char **out,
                       size_t *out_bytes, struct errmsg *e) MUST_CHECK;
enum err parquet_write_group(struct parquet_writer *w, struct ArrowArray *take_rows,
                             const char **out, size_t *out_bytes, struct errmsg *e) MUST_CHECK;
void parquet_write_close(struct parquet_writer *w);

/* Rows of a batch, and bytes that are made of them. */
struct parquet_piece {
    struct parquet_batch *batch; /* NULL: of a file without rows */
    struct parquet_file *file;
    int64_t first; /* row of the batch */
    uint64_t row;  /* of the group */
    uint32_t rows, group;
    bool begins_group, begins_file;
    bool starved; /* memory ran out in parquet_hold */
    struct parquet_chunk *chunk;
};
/* *piece becomes the next rows of the open file: none of a file without rows. NULL: it is made. *last: none follow. Errors name
 * file, row group and column. */
enum err parquet_next(struct parquet *p, struct parquet_piece **piece, bool *last,
                      struct errmsg *e) MUST_CHECK;
void parquet_piece_free(struct parquet_piece *q);

/* The digest of what the piece is the first one of: the bytes of the columns of a row group, as they are in the file, and at its
 * beginning the footer. *bytes: their number; 0: it has no digest. Thread: any. */
enum err parquet_digest(const struct parquet_piece *q, uint8_t digest[static 32], size_t *bytes,
                        struct errmsg *e) MUST_CHECK;

/* Memory until parquet_let_go, aligned as a double; NULL: there is none. */
void *parquet_hold(struct parquet_piece *q, size_t bytes);
void parquet_let_go(struct parquet_piece *q);

/* ---- columns.c: rows as columns that grow: numbers and texts in Arrow's layout, on their way into a Parquet file. Of one thread. ---- */

struct columns {
    uint32_t count;
    const char *types; /* (count) 's', 'd' or 'i', as arrow.h has them; the caller's */
    uint64_t rows;
    size_t held;             /* rows that have memory */
    size_t bytes;            /* of the values */
    struct columns_one *one; /* (count) */
};

/* Errors: ERR_NOMEM. Owns: columns_free. */
enum err columns_new(struct columns **out, uint32_t count, const char *types) MUST_CHECK;
void columns_free(struct columns *c); /* NULL: nothing to do */
void columns_clear(struct columns *c);

/* Add `rows` rows, all null. Errors: ERR_NOMEM. */
enum err columns_extend(struct columns *c, uint32_t rows) MUST_CHECK;
/* Set a value of one of the rows that were added last. Those of a column of texts are set in their order, and a null one, too.
 * Errors: ERR_NOMEM. */
void columns_set_double(struct columns *c, uint32_t column, uint64_t row, double v);
void columns_set_integer(struct columns *c, uint32_t column, uint64_t row, int64_t v);
enum err columns_set_text(struct columns *c, uint32_t column, uint64_t row, const char *text,
                          size_t bytes) MUST_CHECK;
void columns_set_null_text(struct columns *c, uint32_t column, uint64_t row);
/* Of the last `rows` rows keep those whose bits are 1. */
void columns_keep(struct columns *c, uint32_t rows, const uint8_t *bits);
/* Add rows of other columns, of the same types. Errors: ERR_NOMEM. */
enum err columns_append(struct columns *to, const struct columns *from, uint64_t first,
                        uint32_t rows) MUST_CHECK;
/* All rows are there: rows can be written now, and none be added. */
void columns_finish(struct columns *c);
/* Write rows as a row group; as parquet_write_group. */
enum err columns_write(struct columns *c, uint64_t first, uint64_t rows, struct parquet_writer *w,
                       const char **out, size_t *out_bytes, struct errmsg *e) MUST_CHECK;
