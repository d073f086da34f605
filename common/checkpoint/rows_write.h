/* Writes the rows of a shard's file: the frames, and their description in the head. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_ROWS_WRITE_H
#define GRADWIRE_COMMON_CHECKPOINT_ROWS_WRITE_H

#include "common/checkpoint/frame_file.h"
#include "common/checkpoint/row_frame.h"
#include "proto/checkpoint.pb-c.h"

struct rows_writer {
    const struct checkpoint_rows *rows;
    struct frame_file *out;
    uint8_t *plain; /* (ROW_FRAME_BYTES) the frame being filled */
    size_t used;
    struct row_place at;
    struct sha256 *hash; /* of the bucket and table of `at` */
    Checkpoint__Rows head;
    Checkpoint__RowTable table[ROW_TABLES_MAX], *tables[ROW_TABLES_MAX];
};

/* Appends all rows to `out`. w->head then describes them for the file's head, valid until rows_writer_close, which
 * the caller must call also after an error. Errors: ERR_IO, ERR_NOMEM; ERR_STATE rows are out of order; errors of
 * rows->next. */
enum err rows_writer_run(struct rows_writer *w, const struct checkpoint_rows *rows,
                         struct frame_file *out, struct errmsg *e) MUST_CHECK;
void rows_writer_close(struct rows_writer *w);
uint64_t rows_writer_rows(const struct rows_writer *w); /* over all tables */

#endif
