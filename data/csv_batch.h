/* The batch between the lines of a piece of text, csv or libsvm, and its rows of cells: which line is which row, lines that are
 * faulty or odd, and the message about the first bad row. */
#pragma once

#include "data/csv_rows.h"
#include "data/core/column_batch.h"
#include "data/meaning/encode.h"

/* Views of a column: a few more than rows, so that columns are not all in the same sets of the cache. */
enum { CSV_BATCH_VIEWS = ENCODE_ROWS + 8 };
#define CSV_NO_FIELD UINT32_MAX

struct csv_batch {
    struct column_batch of;
    const struct meaning_field *field; /* (of.columns) */
    uint32_t rows_max;
    struct batch_column *column;                               /* (of.columns) */
    struct batch_view *view;                                   /* (of.columns, CSV_BATCH_VIEWS) */
    uint8_t (*unreadable)[ENCODE_ROWS / 8];                    /* (of.columns) */
    uint8_t absent[ENCODE_ROWS / 8], present[ENCODE_ROWS / 8]; /* present: once it is encoded */
    uint64_t line[ENCODE_ROWS];                                /* of the row */
    uint32_t lines[ENCODE_ROWS]; /* their number; a field in quotes can have many */
    uint8_t odd[ENCODE_ROWS];    /* enum csv_odd of its first line; CSV_ODDS: none */
    /* the first fault of the text; CSV_NO_FIELD: of the row itself */
    struct {
        uint32_t row, field;
        char why[MEANING_WHY_BYTES];
    } fault;
    /* libsvm: the pairs, a list for each row, and the signs of labels */
    struct meaning_field pair_field[2];
    int32_t list[ENCODE_ROWS + 1];
    uint64_t *key;
    float *weight;
    enum libsvm_sign { SIGN_OTHER, SIGN_ZERO, SIGN_MINUS } sign[ENCODE_ROWS];
};

/* Begin the rows of the piece: its text, fields and header are set. Errors: ERR_NOMEM. Owns: csv_batch_free of p->batch. */
enum err csv_batch_begin(struct csv_piece *p, const struct csv_format *f) MUST_CHECK;
void csv_batch_free(struct csv_batch *b);

/* Add a row whose values are not there yet, of `lines` lines from `line` on, the text [text, bytes). There must be room (rows_max).
 * Returns its number. */
uint32_t csv_batch_add(struct csv_piece *p, const struct csv_format *f, const char *text,
                       size_t bytes, uint64_t line, uint32_t lines);
/* The text of the row that was added last is faulty: in one of its fields, or as a whole (CSV_NO_FIELD). The first such
 * fault of a row counts. */
void csv_batch_refuse(struct csv_piece *p, uint32_t field, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The likely mistake of the row's line as a whole, as "; .."; NULL: none. */
const char *csv_batch_odd_hint(const struct csv_batch *b, uint32_t row);

/* Encode the rows to `out`, whose cells have room; count those that are bad, and describe the first one of the piece. The batch
 * becomes empty. Errors: ERR_NOMEM. */
enum err csv_batch_encode(struct csv_piece *p, const struct csv_format *f,
                          struct encoded_rows *out) MUST_CHECK;
/* The same to the cells of the piece. */
enum err csv_batch_finish(struct csv_piece *p, const struct csv_format *f) MUST_CHECK;

/* A hint for a text that does not fit its column, by the text alone; NULL: none. */
const char *csv_batch_text_hint(const struct csv_format *f, const struct meaning_fault *fault);
/* Describe a bad row: `column "age": ...`, or for a column without a name `column 3: ...`. field: (fields) */
void csv_batch_describe(struct errmsg *e, const struct job_csv *job,
                        const struct meaning_field *field, uint32_t at, const char *why);

/* Whether a row of the batch is the first one of its file. */
static inline bool csv_batch_is_first(const struct csv_piece *p, const struct csv_format *f,
                                      uint32_t row)
{
    return p->begins_file && p->rows + row == 0 && !f->libsvm && !f->parquet;
}

/* The number of the next rows that are in the sample: the first ones of each piece, and more of a file's first piece. */
static inline uint32_t csv_batch_sampled(const struct csv_piece *p)
{
    enum { ROWS = 64, FIRST_ROWS = 4096 };
    const uint64_t most = p->begins_file ? FIRST_ROWS : ROWS;
    return p->rows >= most ? 0 : (uint32_t)(most - p->rows);
}
