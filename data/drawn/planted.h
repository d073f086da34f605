/* Measures the planted model of data.synthetic: clicks on the rows of data.eval: no other model is better, except by
 * chance. */
#ifndef GRADWIRE_DATA_DRAWN_PLANTED_H
#define GRADWIRE_DATA_DRAWN_PLANTED_H

#include "job/job.h"

/* Draw the rows again, about 2 us each, and score them by the probabilities that they were drawn with. auc: NAN if
 * all rows have one class; scores closer than 1 / 2048 of a logit count as ties, which changes it by less than 1e-6
 * for 100,000 rows. Errors: ERR_NOMEM. Thread: any. */
enum err planted_measure(const struct job *job, double *auc, double *logloss,
                         struct errmsg *e) MUST_CHECK;

#endif
