/* Limits of a job, known to all processes. */
#pragma once

enum {
    WORKERS_MAX = 1024, /* worker ids are below this */
    WORKER_RANGES_MAX =
        64, /* separate ranges of batch ids that a worker can hold; a hello can list one more */
    METRICS_MAX = 8, /* metrics of a model */
    SLICES_MAX = 64, /* of rows, by metrics.by; with the one of other values */
    /* of each slice: its rows, positive rows, mean logloss, sum of predictions, auc, error of the auc */
    SLICE_NUMBERS = 6,
    SUMS_MAX = 2 * METRICS_MAX + 1, /* sums from which the metrics are computed */
};
