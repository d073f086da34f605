/* Histograms of atomic counters, which one thread writes without a lock; then the page as text, in libevent's buffer. */
#include "common/process/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/printable.h"

enum { LABELS_BYTES = 1024 };

const double metrics_bound_s[METRICS_BOUNDS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
                                                5,      10,      25,     50,    100};

/* ---- counting ---- */

/* Only one thread writes: a plain load and store is enough, without an atomic increment's bus lock. */
void metrics_observe(struct metrics_seconds *h, double seconds)
{
    uint32_t i = 0;
    seconds = seconds > 0 ? seconds : 0;
    while (i < METRICS_BOUNDS && seconds > metrics_bound_s[i])
        i++;
    _Atomic uint64_t *bucket = &h->bucket[i];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&h->sum_s,
                          atomic_load_explicit(&h->sum_s, memory_order_relaxed) + seconds,
                          memory_order_relaxed);
}

/* ---- text ---- */

static void add(struct metrics *m, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void add(struct metrics *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (evbuffer_add_vprintf(m->out, fmt, args) < 0)
        m->failed = true;
    va_end(args);
}

/* Writes name="value",name="value". */
static void write_labels(char out[LABELS_BYTES], va_list labels)
{
    size_t n = 0;
    const char *name;
    out[0] = 0;
    while ((name = va_arg(labels, const char *))) {
        const char *value = va_arg(labels, const char *);
        if (n + strlen(name) + 8 >= LABELS_BYTES)
            break; /* never: the names are ours and few */
        n += (size_t)snprintf(out + n, LABELS_BYTES - n, "%s%s=\"", n ? "," : "", name);
        n += printable_quoted(out + n, LABELS_BYTES - n - 1, value);
        out[n++] = '"';
        out[n] = 0;
    }
}

/* Defines `labels`, the text of the labels that follow the parameter `last`. */
#define TAKE_LABELS(last)                                                                          \
    char labels[LABELS_BYTES];                                                                     \
    va_list list;                                                                                  \
    va_start(list, last);                                                                          \
    write_labels(labels, list);                                                                    \
    va_end(list)

static const char *number_text(char out[32], double value)
{
    if (isnan(value))
        return "NaN";
    if (isinf(value))
        return value > 0 ? "+Inf" : "-Inf";
    (void)snprintf(out, 32, "%.17g", value);
    double back;
    char shorter[32]; /* prefer 0.1 to 0.10000000000000001 */
    (void)snprintf(shorter, sizeof shorter, "%.15g", value);
    if (sscanf(shorter, "%lf", &back) == 1 && back == value)
        memcpy(out, shorter, sizeof shorter);
    return out;
}

static void add_sample(struct metrics *m, const char *suffix, const char *labels, const char *value)
{
    if (labels[0])
        add(m, "%s%s{%s} %s\n", m->name, suffix, labels, value);
    else
        add(m, "%s%s %s\n", m->name, suffix, value);
}

static void add_count(struct metrics *m, const char *suffix, const char *labels, uint64_t value)
{
    add_sample(m, suffix, labels, METRICS_NUMBER(value));
}

static void add_number(struct metrics *m, const char *suffix, const char *labels, double value)
{
    char text[32];
    add_sample(m, suffix, labels, number_text(text, value));
}

/* Adds the bucket that counts all samples <= bound. */
static void add_bucket(struct metrics *m, const char *labels, double bound, uint64_t count)
{
    char text[32];
    add(m, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", m->name, labels, labels[0] ? "," : "",
        number_text(text, bound), count);
}

void metrics_family(struct metrics *m, const char *name, enum metrics_type type, const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    m->name = name;
    add(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

void metrics_put(struct metrics *m, double value, ...)
{
    TAKE_LABELS(value);
    add_number(m, "", labels, value);
}

void metrics_put_count(struct metrics *m, uint64_t value, ...)
{
    TAKE_LABELS(value);
    add_count(m, "", labels, value);
}

void metrics_put_seconds(struct metrics *m, const struct metrics_seconds *h, ...)
{
    TAKE_LABELS(h);
    uint64_t count = 0;
    for (uint32_t i = 0; i <= METRICS_BOUNDS; i++) {
        count += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        add_bucket(m, labels, i < METRICS_BOUNDS ? metrics_bound_s[i] : (double)INFINITY, count);
    }
    add_number(m, "_sum", labels, atomic_load_explicit(&h->sum_s, memory_order_relaxed));
    add_count(m, "_count", labels, count);
}

void metrics_put_counts(struct metrics *m, uint32_t n, const double *bound, const uint64_t *bucket,
                        uint64_t sum, ...)
{
    TAKE_LABELS(sum);
    uint64_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += bucket[i];
        add_bucket(m, labels, bound[i], count);
    }
    add_count(m, "_sum", labels, sum);
    add_count(m, "_count", labels, count);
}

void metrics_counter(struct metrics *m, const char *name, const char *help, uint64_t value)
{
    metrics_family(m, name, METRICS_COUNTER, help);
    metrics_put_count(m, value, NULL);
}

void metrics_gauge(struct metrics *m, const char *name, const char *help, double value)
{
    metrics_family(m, name, METRICS_GAUGE, help);
    metrics_put(m, value, NULL);
}

struct metrics_number metrics_number(uint64_t n)
{
    struct metrics_number number;
    (void)snprintf(number.text, sizeof number.text, "%" PRIu64, n);
    return number;
}
