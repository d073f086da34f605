/* Numbers for Prometheus: the text exposition format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats),
 * and histograms that one thread counts in while others read.
 *
 * A page is families, one behind the other: metrics_family, then its samples. Memory that runs out is noticed at the
 * end, once: metrics_text. */
#ifndef GRADWIRE_COMMON_PROCESS_METRICS_H
#define GRADWIRE_COMMON_PROCESS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/buffer.h>

#include "common/base/err.h"

/* Upper bounds of METRICS_BOUNDS buckets, in seconds: 0.1 ms to 100 s; what is above them has a bucket of its own. */
enum { METRICS_BOUNDS = 19 };
extern const double metrics_bound_s[METRICS_BOUNDS];

/* Written by one thread, read by any; a reader may see a sample in the bucket and not yet in the sum. */
struct metrics_seconds {
    _Atomic uint64_t bucket[METRICS_BOUNDS + 1];
    _Atomic double sum_s;
};

/* Thread: the one that writes it. Never blocks; seconds below 0 count as 0. */
void metrics_observe(struct metrics_seconds *h, double seconds);

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

struct metrics {
    struct evbuffer *out; /* the caller's */
    const char *name;     /* of the family at hand; static */
    bool failed;          /* a line could not be added */
};

/* The labels of a sample: name, value, name, value, ..., NULL, all strings; values are escaped. */
#define METRICS_LABELS __attribute__((sentinel))

void metrics_family(struct metrics *m, const char *name, enum metrics_type type, const char *help);
void metrics_put(struct metrics *m, double value, ...) METRICS_LABELS;
void metrics_put_count(struct metrics *m, uint64_t value, ...) METRICS_LABELS;
void metrics_put_seconds(struct metrics *m, const struct metrics_seconds *h, ...) METRICS_LABELS;
/* A histogram of whole numbers: bucket i of (n) has the samples up to bound[i] that bucket i - 1 has not; `sum` is
 * theirs. */
void metrics_put_counts(struct metrics *m, uint32_t n, const double *bound, const uint64_t *bucket,
                        uint64_t sum, ...) METRICS_LABELS;

/* A family with one sample and no labels. */
void metrics_counter(struct metrics *m, const char *name, const char *help, uint64_t value);
void metrics_gauge(struct metrics *m, const char *name, const char *help, double value);

/* A number as a label's value; valid until the end of the full expression. */
struct metrics_number {
    char text[24];
};
struct metrics_number metrics_number(uint64_t n);
#define METRICS_NUMBER(n) (metrics_number(n).text)

#endif
