/* The rows of tables that blocks of examples look up. All compute threads collect the keys; the rows are read for a
 * window of blocks at a time, and each thread copies those of its block. */
#ifndef GRADWIRE_EVALUATE_EVAL_ROWS_H
#define GRADWIRE_EVALUATE_EVAL_ROWS_H

#include "common/math/pool.h"
#include "common/rows/row_values.h"
#include "data/dataset.h"
#include "model/model.h"

struct eval_rows;

/* Blocks of `rows` rows of the set. All arguments must outlive it. Errors: ERR_NOMEM. */
enum err eval_rows_new(struct eval_rows **r, const struct row_layout *layout,
                       const struct dataset *data, struct pool *pool, uint32_t rows,
                       struct errmsg *e) MUST_CHECK;
void eval_rows_free(struct eval_rows *r);

/* How many of `blocks` blocks are read at a time: all of them if the reader passes over all rows (in_one_pass). */
uint64_t eval_rows_window(const struct row_reader *reader, uint64_t blocks);
/* Collect the keys of blocks [first, end), and read their rows. Errors: ERR_NOMEM, ERR_DISK; the reader's. Thread:
 * the pool's owner; the reader is called on it. */
enum err eval_rows_read(struct eval_rows *r, const struct row_reader *reader, uint64_t first,
                        uint64_t end, struct errmsg *e) MUST_CHECK;
/* Set the keys and rows of *x for a block of that window; valid until the thread's next call. Errors: ERR_NOMEM,
 * ERR_DISK. Thread: the pool's thread `thread`. */
enum err eval_rows_take(struct eval_rows *r, uint32_t thread, uint64_t block, struct examples *x,
                        struct errmsg *e) MUST_CHECK;

#endif
