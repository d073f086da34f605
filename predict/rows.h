/* Raw rows on their way to the model: features, and keys of tables, with the bits that training gives them. The memory
 * belongs to one thread, and rows_new allocates all of it.
 *
 * Happy path: rows_new -> rows_clear, rows_add_.., rows_add_.., then rows_leaf for scorer_run -> rows_free.
 * Failure modes: a value does not fit its column: ERR_INPUT; the row is not added, and the others stay. */
#pragma once

#include "common/base/mem.h"
#include "data/csv_rows.h"
#include "predict/folder.h"
#include "predict/gradwire-predict.h"

/* The columns of a raw row: the number, category, key and keys columns of the job's data.columns, in their order. Crosses come
 * after them: a row has no values for these. */
struct columns {
    uint32_t values, crosses;
    struct meaning_field
        *of; /* (values + crosses); `cell` of a cross is the index of the schema's key */
};

/* All zero for a folder whose rows have no columns. Owns: columns_close. Errors: ERR_NOMEM. */
enum err columns_init(struct columns *c, const struct folder *f, struct errmsg *e) MUST_CHECK;
static inline void columns_close(struct columns *c)
{
    mem_free(c->of);
    *c = (struct columns){0};
}

struct rows;

/* For up to rows_max rows. The folder is borrowed. Errors: ERR_INPUT: too many rows for the columns; ERR_NOMEM. */
enum err rows_new(struct rows **r, const struct folder *f, uint32_t rows_max,
                  struct errmsg *e) MUST_CHECK;
void rows_free(struct rows *r);

void rows_clear(struct rows *r);
uint32_t rows_count(const struct rows *r);
/* Add a row. field or, if it is NULL, value: one for each column (struct columns). numbers: (model_features), raw, for data without columns.
 * *column: if a value does not fit its column, the column's index; otherwise unchanged. Allocates nothing. Errors: ERR_INPUT.
 * Thread: one at a time. */
enum err rows_add(struct rows *r, const struct gradwire_text *field,
                  const struct gradwire_value *value, uint32_t *column,
                  struct errmsg *e) MUST_CHECK;
enum err rows_add_numbers(struct rows *r, const float *numbers, struct errmsg *e) MUST_CHECK;

/* A text file begins; a new `rows` is at the beginning of one. name: of the file, for errors; a view; NULL: "input". */
void rows_begin_file(struct rows *r, const char *name);
/* The bytes of the first record of the text: a row, a header, a comment or an empty line, with its line end; 0: the text ends
 * before the record does. `text` follows the record that was added last. */
size_t rows_record_bytes(const struct rows *r, const char *text, size_t bytes);
/* Add the row of one record, with or without its line end. No row is added for a header, a comment or an empty line.
 * Allocates memory for the first record alone. The rest as rows_add. Errors: ERR_INPUT, with the line; ERR_NOMEM. */
enum err rows_add_record(struct rows *r, const char *record, size_t bytes, uint32_t *column,
                         struct errmsg *e) MUST_CHECK;

/* The rows, encoded: their features (rows_count, model_features), and the keys that they look up. Valid until the next row is
 * added, or all rows are cleared. */
const struct leaf *rows_leaf(struct rows *r);
/* Write the keys of column i, which is a key column or a cross. key, weight: (rows_count, table_key_width). A position without
 * a key gets key 0 and weight 0. weight: optional. */
void rows_column_keys(const struct rows *r, uint32_t i, uint64_t *key, float *weight);
