/* Rows as columns that grow: numbers and texts in Arrow's layout, on their way into a Parquet file. Of one thread. */
#pragma once

#include "common/base/err.h"
#include "data/arrow/parquet.h"

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
