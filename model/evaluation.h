/* The results of a model on some examples. One list of names and values goes to every log, page and file. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/parameters/limits.h"
#include "job/job.h"

/* Of the parameters of one step. */
struct evaluation {
    uint64_t step;
    double loss, metric[METRICS_MAX]; /* the job's metrics in their order; NAN: not defined */
    double
        auc_error; /* metrics.progressive: the exact auc differs from auc by this at most; 0: auc is exact, or not known */
};

/* The result of the model that drew the rows (data.synthetic: clicks): no evaluation can be better, except by
 * chance. */
struct planted {
    bool known;          /* such a model exists */
    double auc, logloss; /* auc: NAN if all rows have one class */
};

struct result {
    const char *name; /* valid as long as the job */
    double value;
};

/* The loss, then the job's metrics in their order. */
struct results {
    uint32_t n;
    struct result of[1 + METRICS_MAX];
};

/* found NULL: all values are NAN. */
struct results results_of(const struct job *job, const struct evaluation *found);

/* The means over the examples of these sums (struct sums); NAN: not a sum, or no examples. */
struct evaluation evaluation_of_sums(const struct job *job, double examples, double loss,
                                     const double *metric);

/* The evaluation with the values that number(from, NAME) gives. */
struct evaluation evaluation_read(const struct job *job, const json_t *from,
                                  double (*number)(const json_t *from, const char *name));

/* Returns a new reference: {"loss": .., "accuracy": ..}. Values that are not finite are null; all are if `found` is NULL. NULL: no
 * memory. */
json_t *evaluation_json(const struct job *job, const struct evaluation *found);
/* Add the same to an object, which is returned. NULL: it is NULL, or no memory is left; the object is freed. */
json_t *evaluation_add_json(json_t *take_object, const struct job *job,
                            const struct evaluation *found);
