/* The learning-rate finder [Smith 2015, "Cyclical learning rates", 3.3]: a short training in this process alone,
 * without ps, with a rate that grows from step to step; the rate at which the loss falls fastest is a good one to
 * begin with. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"
#include "data/source.h"
#include "model/model.h"

enum { LR_FINDER_STEPS = 200 };

struct lr_point {
    double rate;
    double loss;   /* of this step's batch, before its update */
    double smooth; /* running mean over the steps so far */
};

struct lr_found {
    uint32_t points;
    struct lr_point point[LR_FINDER_STEPS];
    double steepest;       /* the rate at which `smooth` falls fastest; NAN: it never fell */
    double tenth_of_least; /* a tenth of the rate with the least `smooth` */
};

/* Train with growing rates until the running mean of the loss is four times its least value, until the loss is not
 * finite, or until the last step, and report that (lr_finder_report). Batches are as in training. Errors: ERR_INPUT: the
 * model has tables; those of gradient_compute. Thread: main; uses worker.threads threads of its own. */
enum err lr_finder_run(const struct job *job, const struct model *model, struct source *source,
                       const char *output, struct errmsg *e) MUST_CHECK;

/* Compute `smooth`, and the two rates, from rate and loss of the points. Pure. */
void lr_finder_judge(struct lr_found *found);

/* Print the result to stdout, and write DIR/learning-rates.csv. Errors: ERR_IO. */
enum err lr_finder_report(const struct lr_found *found, const char *output,
                          struct errmsg *e) MUST_CHECK;
