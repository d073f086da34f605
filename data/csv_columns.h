/* Rows of csv files as typed columns (arrow/parquet.h), for a file of another format: the names of the columns, their types by the job or by
 * all values, and the rows of each piece. */
#pragma once

#include <pthread.h>

#include "common/base/printable.h"
#include "common/process/paths.h"
#include "data/arrow/parquet.h"
#include "data/csv_rows.h"

#define CSV_COLUMNS_NO_LIBSVM                                                                      \
    "libsvm cannot be converted: gradwire reads no lists with weights of Parquet yet"

/* The values of a column, without a job: the first that is no integer, and the first that is no number. */
struct csv_columns_seen {
    bool any, large; /* large: an integer that no double has */
    struct csv_columns_place {
        bool is;
        uint32_t file;
        uint64_t line;
        char shown[CSV_SHOWN_BYTES];
    } fraction, text;
};

struct csv_columns {
    struct job *job;
    bool guesses;                /* there is no job: *job has no columns of the user */
    const struct paths *in;      /* the files */
    uint32_t first_file;         /* of `in`, that is read */
    struct table_schema *schema; /* of the job */
    struct csv_format format;    /* without files */

    struct vocabulary names;
    const char *first;             /* the file that has them */
    char *types;                   /* (names.count) as of struct columns */
    struct csv_columns_seen *seen; /* (names.count) without a job */

    bool looks; /* rows are read for their types */
    pthread_mutex_t lock;
    uint32_t **map; /* (in->count) of a file's fields the columns; NULL: not known yet */
    enum err err;   /* a file has other columns */
    struct errmsg e;
    struct csv_columns_received **received; /* (receivers) of the threads */
    uint32_t receivers;
};

/* Find the names, from the beginnings of the files, and with a job the types. job: without columns of the user it is changed. Owns:
 * csv_columns_close, also on error. Errors: ERR_INPUT: a file without names, or with one twice; ERR_NOMEM. */
enum err csv_columns_init(struct csv_columns *c, struct job *job, bool guesses,
                          const struct paths *in, struct errmsg *e) MUST_CHECK;
void csv_columns_close(struct csv_columns *c);

/* A view. */
const char *csv_columns_name(const struct csv_columns *c, uint32_t column, size_t *bytes);
const char *csv_columns_shown(const struct csv_columns *c, uint32_t column,
                              char out[PRINTABLE_NAME_BYTES]);

/* The function of struct csv_receiver. While it looks, rows are not kept. */
enum err csv_columns_receive(void *ctx, struct csv_piece *p, struct encoded_rows *out) MUST_CHECK;
/* The rows of a piece that was received, until the thread has the next one; NULL: none. Errors: ERR_INPUT: the file has other columns
 * than the first; ERR_NOMEM. Thread: any. */
enum err csv_columns_of(struct csv_columns *c, const struct csv_piece *p,
                        const struct columns **rows, struct errmsg *e) MUST_CHECK;
/* All rows have been looked at: the types follow. */
void csv_columns_looked(struct csv_columns *c);
