/* Rows of numbers and categories: 4 bytes a cell (8 for a number that is still to be scaled), a category as its word's number. A batch gets them as features,
 * categories as one-hot. Rows are in chunks, each in memory or, if that is used up, in a file (spill.h); where a
 * chunk is affects only the speed. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "data/meaning/schema.h"
#include "data/spill.h"
#include "common/math/pool.h"

/* chunk_rows rows, packed: inputs, the label, the weight if there is one, and keys, and until table_scale also the second
 * cells of doubles. */
struct table_chunk {
    uint32_t *cells; /* NULL: the chunk is in the file, where each row has a checksum */
    size_t room;     /* of cells, in cells */
    uint64_t at;     /* offset in the file */
    /* (chunk_rows + 1) in cells: where each row begins; NULL: all rows have the same number of cells */
    uint32_t *begin;
};

struct table {
    struct table_schema *schema;
    struct spill *spill;
    uint64_t rows;
    uint64_t chunks;
    uint32_t chunk_rows; /* depends on the width of a row */
    bool scaled;         /* table_scale is done */
    /* (inputs) for table_scale: of a category, by a cell the cell that it gets; NULL, or NULL in it: cells stay */
    uint32_t **renumber;
    struct table_chunk *chunk;
    bool lent;           /* cells and begins of the chunks are not the table's (rows_lend) */
    uint64_t lent_bytes; /* of them, taken from the budget */
};
enum {
    TABLE_CHUNK_ROWS = 1 << 14, /* the most */
    /* with the second cells of doubles, and the checksum of a row in the file */
    TABLE_ROW_CELLS_MAX = JOB_ROW_CELLS_MAX + JOB_COLUMNS_MAX + 1,
};

/* Call once, when schema and spill are set, before the first row. */
void table_begin(struct table *t);
/* Add `rows` packed rows, one behind the other, not scaled. Errors: ERR_NOMEM; ERR_INPUT: no room in the file; ERR_DISK.
 */
enum err table_append(struct table *t, const uint32_t *cells, uint64_t rows,
                      struct errmsg *e) MUST_CHECK;

/* Return up to *n packed rows from `row` on, one behind the other (table_packed_cells, once they are scaled): a pointer
 * into memory, or to `buffer` of `room` cells, at least a row's and its checksum, into which they are read. *n becomes the number
 * of rows returned, at least 1. Errors: ERR_DISK: they cannot be read, or are not what was written. Thread: any. */
enum err table_look(const struct table *t, uint64_t row, uint64_t *n, uint32_t *buffer, size_t room,
                    const uint32_t **cells, struct errmsg *e) MUST_CHECK;
/* Visit the rows named, in this order. If some wait for the disk, all are prefetched first. Errors: ERR_DISK; the visitor's.
 * Thread: any. */
typedef enum err table_visitor(void *ctx, const uint32_t *cells, struct errmsg *e);
enum err table_visit(const struct table *t, const uint64_t *rows, uint32_t n, table_visitor *visit,
                     void *ctx, struct errmsg *e) MUST_CHECK;

/* All rows of the training part are added: learn shifts, divisors, fills and widths from them. held: bits of rows that teach
 * nothing; NULL: there are none. The order of sums does not depend on the pool. Errors: ERR_NOMEM; ERR_INPUT: too many features;
 * ERR_DISK. */
enum err table_learn(struct table *t, const uint8_t *held, struct pool *pool,
                     struct errmsg *e) MUST_CHECK;
/* Apply new numbers of words, fills and scales to the cells, once. Rows then have table_packed_cells. Errors: ERR_NOMEM;
 * ERR_DISK; ERR_INPUT: as table_append. */
enum err table_scale(struct table *t, struct pool *pool, struct errmsg *e) MUST_CHECK;
/* Bytes of its rows, and of those in the file without their checksums. */
uint64_t table_bytes(const struct table *t);
uint64_t table_spilled_bytes(const struct table *t);
/* Cells of a chunk. 0: they are in the file. */
size_t table_chunk_cells(const struct table *t, uint64_t chunk);
/* Cells and begins of all chunks in memory are now another's, who frees them after table_close. */
void rows_lend(struct table *t);
void table_close(struct table *t);
