/* A batch: rows as columns, in the layout of Arrow's C data interface, so the buffers of an ArrowArray stand behind a column
 * without a copy: values, a validity bitmap and, of lists, offsets. A text of a file is a view of it, 8 bytes. The reader of a
 * format makes batches, and meaning/encode.h makes rows of cells of them. A batch owns nothing. Of Arrow's strings a reader makes
 * views; `values` and `list` begin at the batch's first row (Arrow has an offset). A value within a list cannot be null. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch_view {
    uint32_t at, bytes; /* of the column's base */
};

/* A text anywhere in memory. */
struct batch_text {
    const char *at;
    size_t bytes;
};

enum batch_type {
    BATCH_NOTHING, /* the column has no values, and nothing reads it */
    BATCH_VIEWS,   /* struct batch_view */
    BATCH_TEXTS,   /* struct batch_text */
    BATCH_DOUBLES,
    BATCH_INTEGERS, /* int64_t: keys that are hashed as their texts */
    BATCH_KEYS,     /* uint64_t */
    BATCH_CODES     /* int32_t: places of keys in struct batch_codes */
};

/* The keys of the words of a dictionary, of a column whose keys are hashed: mixed (common/rows/key.h), as cells have them. */
struct batch_codes {
    uint64_t *key; /* 0: the word is a missing value, which has none */
    uint8_t *none; /* bits of words, as `valid`: 1: of such a word; NULL: there is none */
};

/* Behind the text of a number, of a label or of a weight is one more byte, which continues no number (csv_number.h). */
struct batch_column {
    enum batch_type type;
    const void *values;              /* (rows), or of lists (list[rows]) */
    const struct batch_codes *codes; /* of BATCH_CODES */
    const char *base; /* of views; behind the last of them are 8 bytes that can be read */
    const uint8_t *
        valid; /* bits of rows, the lowest bit of a byte first: 0: the value is missing; NULL: none is */
    const int32_t *
        list; /* (rows + 1) the values of row i are list[i] up to list[i + 1]; NULL: a row has one */
    const float *weight; /* (list[rows]) of the values of lists; NULL: each has weight 1 */
    const uint8_t *
        unreadable; /* bits of rows: 1: the reader cannot make the value, a fault of the row; NULL: none */
};

struct column_batch {
    uint32_t rows, columns;
    const struct batch_column *column;
    const uint8_t *
        absent; /* bits as `valid`: 1: the row cannot be read, and has no values; NULL: all rows are there */
};

static inline bool batch_bit(const uint8_t *bits, uint32_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

static inline void batch_set_bit(uint8_t *bits, uint32_t i)
{
    bits[i / 8] |= (uint8_t)(1U << i % 8);
}

static inline void batch_clear_bit(uint8_t *bits, uint32_t i)
{
    bits[i / 8] &= (uint8_t) ~(1U << i % 8);
}

/* Whether row i of a column has a value. */
static inline bool batch_has(const struct batch_column *c, uint32_t i)
{
    return !c->valid || batch_bit(c->valid, i);
}

/* Text i of a column of views or texts. */
static inline struct batch_text batch_text(const struct batch_column *c, uint32_t i)
{
    if (c->type == BATCH_TEXTS)
        return ((const struct batch_text *)c->values)[i];
    const struct batch_view *v = (const struct batch_view *)c->values + i;
    return (struct batch_text){c->base + v->at, v->bytes};
}
