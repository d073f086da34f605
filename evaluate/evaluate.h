/* Computes loss and metrics over the rows of a source, on all compute threads. Blocks of rows are summed in their order, so
 * the number of threads affects only the speed. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "common/math/pool.h"
#include "common/rows/row_values.h"
#include "data/source.h"
#include "model/model.h"

struct evaluator;

/* All arguments must outlive *v. Errors: ERR_NOMEM; those of ranking_new. */
enum err evaluator_new(struct evaluator **v, const struct job *job, const struct model *model,
                       struct source *source, struct pool *pool, struct errmsg *e) MUST_CHECK;
void evaluator_free(struct evaluator *v);

/* Evaluate the rows. out->loss: the mean, with the regularizers' penalty; out->metric: the job's metrics in their
 * order (not their sums), auc exact; out->examples: the number of rows. w: (elems of the flat block). rows: reads
 * rows of tables, on the caller's thread, for some blocks of examples at a time; NULL: the model has no tables.
 * Errors: ERR_DISK: the data cannot be read any more; ERR_INPUT: invalid data (model_run_fault), or the scores have
 * no room in data.spill; ERR_NOMEM; the reader's. */
enum err evaluator_run(struct evaluator *v, const float *w, const struct row_reader *rows,
                       struct sums *out, struct errmsg *e) MUST_CHECK;

/* Warn of each column that looks up at least ROW_MISSES_KEPT different keys without a row, while fewer than one lookup in 100
 * finds one; of a cross none, because two values that occur in training can make a new pair. Of libsvm: also if indices seem to
 * count from another number than in training. schema, layout: of the model with the tables; misses: (lookups of the schema);
 * rows: reads its tables, on the caller's thread. */
void evaluator_say_misses(const struct job *job, const struct table_schema *schema,
                          const struct row_layout *layout, const struct row_misses *misses,
                          const struct row_reader *rows);

/* A running evaluation ends soon, with meaningless results. Thread: any, also in a signal handler. */
void evaluator_stop(struct evaluator *v);

/* Reads rows of tables from a checkpoint for an evaluation, in one pass over its files for all keys. */
struct cut_rows {
    const struct place *place; /* of the cuts */
    const struct manifest *manifest;
    uint64_t seed; /* the job's: a row that the cut lacks has its first value */
};

/* A reader's `read`, with a struct cut_rows. The caller holds the cut. Errors: as checkpoint_read_rows; ERR_INPUT:
 * the cut lacks a table, or its rows have another length. */
enum err cut_rows_read(void *cut_rows, struct row_values *v, struct errmsg *e) MUST_CHECK;
