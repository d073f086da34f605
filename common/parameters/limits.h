/* What a job may have at most, as all processes know it. */
#ifndef GRADWIRE_COMMON_PARAMETERS_LIMITS_H
#define GRADWIRE_COMMON_PARAMETERS_LIMITS_H

enum {
    WORKERS_MAX = 1024, /* worker ids are below it */
    WORKER_RANGES_MAX =
        64, /* ranges of batch ids that a worker keeps of its own; a hello may list one more */
    METRICS_MAX = 8,                /* of a model */
    SUMS_MAX = 2 * METRICS_MAX + 1, /* that its metrics are made of */
};

#endif
