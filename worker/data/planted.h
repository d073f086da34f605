/* How well the planted model of data.synthetic: clicks does on the rows of data.eval: no other does better, but by chance. */
#ifndef GRADWIRE_WORKER_DATA_PLANTED_H
#define GRADWIRE_WORKER_DATA_PLANTED_H

#include "common/job/job.h"

/* Draw the rows once more, about 2 us each, and score them by the probabilities that they were drawn with.
 * auc: NAN where all are of one class; ties of 1 / 2048 of a logit are not told apart, which is less than 1e-6 of 100,000 rows. Errors: ERR_NOMEM. Thread: any. */
enum err planted_measure(const struct job *job, double *auc, double *logloss,
                         struct errmsg *e) MUST_CHECK;

#endif
