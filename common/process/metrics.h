/* Metrics for Prometheus: the text exposition format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats), and histograms that one thread updates while others
 * read them.
 * To write a page, call metrics_family for each metric, then add its samples. If memory runs out, `failed` is set;
 * check it once, at the end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <event2/buffer.h>

#include "common/base/err.h"

/* Upper bounds of the METRICS_BOUNDS buckets in seconds, 0.1 ms to 100 s. One more bucket counts the samples above
 * them. */
enum { METRICS_BOUNDS = 19 };
extern const double metrics_bound_s[METRICS_BOUNDS];

/* One thread writes it, any thread reads it. A reader can see a sample in its bucket before the sum includes it. */
struct metrics_seconds {
    _Atomic uint64_t bucket[METRICS_BOUNDS + 1];
    _Atomic double sum_s;
};

/* Counts a sample; seconds below 0 count as 0. Never blocks. Thread: the histogram's writer. */
void metrics_observe(struct metrics_seconds *h, double seconds);

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

struct metrics {
    struct evbuffer *out; /* owned by the caller */
    const char *name;     /* of the current family; borrowed */
    bool failed;          /* a line could not be added: out of memory */
};

/* The variable arguments are the sample's labels: name, value, name, value, ..., NULL, all of them strings. Values
 * are escaped; a value is truncated if the labels exceed 1 KiB. */
#define METRICS_LABELS __attribute__((sentinel))

/* metrics_family begins a metric; the others add a sample to it. `name` must stay valid while samples are added. */
void metrics_family(struct metrics *m, const char *name, enum metrics_type type, const char *help);
void metrics_put(struct metrics *m, double value, ...) METRICS_LABELS;
void metrics_put_count(struct metrics *m, uint64_t value, ...) METRICS_LABELS;
void metrics_put_seconds(struct metrics *m, const struct metrics_seconds *h, ...) METRICS_LABELS;
/* A histogram of integers with `n` buckets: bucket[i] counts the samples x with bound[i - 1] < x <= bound[i];
 * `sum` is the sum of all samples. */
void metrics_put_counts(struct metrics *m, uint32_t n, const double *bound, const uint64_t *bucket,
                        uint64_t sum, ...) METRICS_LABELS;

/* A family with a single sample and no labels. */
void metrics_counter(struct metrics *m, const char *name, const char *help, uint64_t value);
void metrics_gauge(struct metrics *m, const char *name, const char *help, double value);

/* A number as a label's value. The text is valid until the end of the full expression. */
struct metrics_number {
    char text[24];
};
struct metrics_number metrics_number(uint64_t n);
#define METRICS_NUMBER(n) (metrics_number(n).text)
