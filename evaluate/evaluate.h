/* Computes loss and metrics over an eval set, on all compute threads. Blocks of rows are summed in their order, so
 * the number of threads affects only the speed. */
#ifndef GRADWIRE_EVALUATE_EVALUATE_H
#define GRADWIRE_EVALUATE_EVALUATE_H

#include "common/rows/row_values.h"
#include "data/dataset.h"
#include "model/model.h"
#include "common/math/pool.h"

struct evaluator;

/* All arguments must outlive *v. Errors: ERR_NOMEM; those of ranking_new. */
enum err evaluator_new(struct evaluator **v, const struct job *job, const struct model *model,
                       const struct dataset *data, struct pool *pool, struct errmsg *e) MUST_CHECK;
void evaluator_free(struct evaluator *v);

/* Evaluate the set. out->loss: the mean, with the regularizers' penalty; out->metric: the job's metrics in their
 * order (not their sums), auc exact; out->examples: the number of rows. w: (elems of the flat block). rows: reads
 * rows of tables, on the caller's thread, for some blocks of examples at a time; NULL: the model has no tables.
 * Errors: ERR_DISK: the data cannot be read any more; ERR_INPUT: invalid data (model_run_fault), or the scores have
 * no room in data.spill; ERR_NOMEM; the reader's. */
enum err evaluator_run(struct evaluator *v, const float *w, const struct row_reader *rows,
                       struct sums *out, struct errmsg *e) MUST_CHECK;

/* A running evaluation ends soon, with meaningless results. Thread: any, also in a signal handler. */
void evaluator_stop(struct evaluator *v);

#endif
