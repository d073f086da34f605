/* Reads rows of tables from a checkpoint for an evaluation, in one pass over its files for all keys. */
#ifndef GRADWIRE_EVALUATE_CUT_ROWS_H
#define GRADWIRE_EVALUATE_CUT_ROWS_H

#include "common/checkpoint/checkpoint.h"
#include "common/rows/row_values.h"

struct cut_rows {
    const char *dir; /* the directory of checkpoints */
    const struct manifest *manifest;
    uint64_t seed; /* the job's: a row that the cut lacks has its first value */
};

/* A reader's `read`, with a struct cut_rows. The caller holds the cut. Errors: as checkpoint_read_rows; ERR_INPUT:
 * the cut lacks a table, or its rows have another length. */
enum err cut_rows_read(void *cut_rows, struct row_values *v, struct errmsg *e) MUST_CHECK;

#endif
