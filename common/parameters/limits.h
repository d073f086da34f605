/* Limits of a job, known to all processes. */
#pragma once

enum {
    WORKERS_MAX = 1024, /* worker ids are below this */
    WORKER_RANGES_MAX =
        64, /* separate ranges of batch ids that a worker can hold; a hello can list one more */
    METRICS_MAX = 8,                /* metrics of a model */
    SUMS_MAX = 2 * METRICS_MAX + 1, /* sums from which the metrics are computed */
};
