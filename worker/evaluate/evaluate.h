/* Loss and metrics over an eval set, on all compute threads; blocks of rows are summed in their order, so the threads
 * change nothing but speed. */
#ifndef GRADWIRE_WORKER_EVALUATE_EVALUATE_H
#define GRADWIRE_WORKER_EVALUATE_EVALUATE_H

#include "common/rows/row_values.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "common/math/pool.h"

struct evaluator;

enum err evaluator_new(struct evaluator **v, const struct job *job, const struct model *model,
                       const struct dataset *data, struct pool *pool, struct errmsg *e) MUST_CHECK;
void evaluator_free(struct evaluator *v);

/* Over the set: out->loss, the mean with the regularizers' penalty; out->metric, the job's metrics in their order
 * (not their sums), auc exact; out->examples is the number of rows. w: (elems of the flat block). rows: where those of
 * tables are read, on the caller's thread, for some blocks of examples at a time; NULL: the model has no tables.
 * Errors: ERR_DISK the data cannot be read any more; ERR_INPUT they cannot be (model_run_fault), or the scores have no
 * room in data.spill; ERR_NOMEM; the reader's. */
enum err evaluator_run(struct evaluator *v, const float *w, const struct row_reader *rows,
                       struct sums *out, struct errmsg *e) MUST_CHECK;

/* What runs ends soon, with results that are worth nothing. Thread: any, in a signal's handler too. */
void evaluator_stop(struct evaluator *v);

#endif
