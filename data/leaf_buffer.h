/* The memory of a leaf: features, labels and weights, and the keys that the rows look up. It is filled row by row; then the keys
 * are made into lists of distinct ones in ascending order, with the index of each row's keys in them. It is reused for
 * the next leaf. Thread: one at a time. */
#pragma once

#include "common/base/err.h"
#include "common/rows/lookups.h"
#include "data/table.h"

struct leaf_buffer;

/* The form of rows. */
struct leaf_form {
    uint32_t features; /* 0: they only look up keys */
    bool weighted;
    const struct table_schema
        *schema; /* of the cells that rows are made of; NULL: they are numbers */
};
struct leaf_form leaf_form_of_cells(const struct table_schema *s);
static inline bool leaf_form_has_keys(const struct leaf_form *f)
{
    return f->schema && f->schema->lookups > 0;
}

/* The parts of them that a buffer holds. */
enum leaf_parts {
    LEAF_VALUES = 1, /* features, labels and weights */
    LEAF_LOOKUPS = 2,
    LEAF_ALL = LEAF_VALUES | LEAF_LOOKUPS,
    /* For scores: the lists have the keys as they come, repeated ones too. All memory is allocated at first, so
     * leaf_buffer_add and leaf_buffer_finish do not fail. */
    LEAF_REPEATED = 4
};

/* For up to `rows` rows of this form, which is copied; its schema is borrowed. Errors: ERR_NOMEM; ERR_INPUT: LEAF_REPEATED, and too
 * many keys for one list. */
enum err leaf_buffer_new(struct leaf_buffer **b, const struct leaf_form *form, uint32_t rows,
                         enum leaf_parts parts, struct errmsg *e) MUST_CHECK;
void leaf_buffer_free(struct leaf_buffer *b);

void leaf_buffer_clear(struct leaf_buffer *b);
uint32_t leaf_buffer_rows(const struct leaf_buffer *b); /* that were added */
/* Add a row, given its cells, which are scaled; one without a label (NaN) is absent, and left out. Errors: ERR_NOMEM. */
enum err leaf_buffer_add(struct leaf_buffer *b, const uint32_t *cells, struct errmsg *e) MUST_CHECK;
/* Add a row of numbers. The caller writes its features to the result. */
float *leaf_buffer_add_numbers(struct leaf_buffer *b, float label);
/* All rows are added: make the lists. Sets all of *leaf but its name, id and leaf; it is valid until the buffer is cleared or
 * freed. Errors: ERR_NOMEM. */
enum err leaf_buffer_finish(struct leaf_buffer *b, struct leaf *leaf, struct errmsg *e) MUST_CHECK;

/* (rows) for the numbers of the rows to gather: whoever fills the buffer uses it. */
uint64_t *leaf_buffer_numbers(struct leaf_buffer *b);
