/* The chief's messages to the launcher over --progress_fd: one JSON object per line. This file parses and formats these
 * messages. Pure.
 *   {"type":"progress","epoch":1,"epochs":10,"step":120,"steps":938,"total_steps":9380,"loss":0.31,
 *    "metric_name":"accuracy","metric":0.91,"examples_per_s":90000,
 *    "left_s":12.5,"early":false,"at_most":false}   "step" is within the epoch; "epoch" begins with 1;
 *                              worker/control/progress.h explains the time left
 *   {"type":"epoch","epoch":1,"epochs":10,"train_loss":..,"eval_loss":..,
 *    "metrics":[{"name":..,"train":..,"eval":..},..],"seconds":..,
 *    "best":{"epoch":1,"name":"loss","value":..,"waited":0,"patience":3}}     with training.monitor
 *   {"type":"first_step"}   {"type":"checkpoint","cut":3,"step":500}   {"type":"log","text":".."}
 *   {"type":"wait","text":"worker 1, ..","seconds":5.0}       training waits for this process; "": for none any more
 *   {"type":"loading","bytes":1e8,"of_bytes":4e8,"rows":500000,"left_s":3.5,
 *    "workers":[{"name":"worker 1","bytes":..,"of_bytes":..,"rows":..,"left_s":..},..],"more":3}
 *                              it reads its data, and these workers theirs, and 3 more; without "bytes": it has read its own
 *   {"type":"alive"}                                          every second, until the process ends
 *   {"type":"untrained","text":".."}                          the reason why there is nothing to train
 * A loss that is not finite is null; then "loss_shown", "train_loss_shown" or "eval_loss_shown" is "nan", "inf" or
 * "-inf". A number can be missing or null. Unknown types are skipped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    PROGRESS_LINE_BYTES = 8192,
    PROGRESS_TEXT_BYTES = 512,
    PROGRESS_NAME_BYTES = 48,
    PROGRESS_METRICS_MAX = 9,
    PROGRESS_LOADING_MAX = 17
};

enum progress_type {
    PROGRESS_STEP,
    PROGRESS_EPOCH,
    PROGRESS_FIRST_STEP,
    PROGRESS_CHECKPOINT,
    PROGRESS_LOG,
    PROGRESS_WAIT,
    PROGRESS_UNTRAINED,
    PROGRESS_LOADING,
    PROGRESS_ALIVE
};

struct progress_metric {
    char name[PROGRESS_NAME_BYTES];
    double train, eval; /* NAN: undefined or missing */
    bool of_training;   /* an evaluation does not have it */
};

/* The best epoch so far, if the job has training.monitor. */
struct progress_event_best {
    uint64_t epoch; /* 0: none yet */
    char name[PROGRESS_NAME_BYTES];
    double value;
    uint64_t waited, patience; /* epochs since the best; patience 0: no early stopping */
};

/* How far a process has read its data. */
struct progress_loading {
    char name[PROGRESS_NAME_BYTES]; /* "": the chief */
    uint64_t bytes, of_bytes, rows; /* of_bytes 0: not known */
    double left_s;                  /* NAN: missing */
};

struct progress_event {
    enum progress_type type;
    uint64_t epoch, epochs, step, steps;
    uint64_t cut;
    struct progress_loading loading[PROGRESS_LOADING_MAX]; /* the chief first */
    size_t n_loading;
    uint64_t more_loading;               /* workers that are left out */
    double left_s;                       /* until the job ends; NAN: missing */
    bool early, at_most;                 /* of left_s: a first guess; training can stop early */
    double loss, metric, examples_per_s; /* NAN: missing */
    double train_loss, eval_loss;        /* NAN: missing */
    char loss_shown[8], train_loss_shown[8], eval_loss_shown[8]; /* "": finite or missing */
    double seconds;                                              /* NAN: missing */
    char metric_name[PROGRESS_NAME_BYTES]; /* the metric of a step; "": none */
    struct progress_metric of_epoch[PROGRESS_METRICS_MAX];
    size_t n_of_epoch;
    struct progress_event_best best;
    char text[PROGRESS_TEXT_BYTES];
};

/* Parse one line. Errors: ERR_PROTO the line is not an object of a known type; *event is unchanged. */
enum err progress_parse(struct progress_event *event, const char *line, size_t bytes) MUST_CHECK;

/* The number of steps made so far, over all epochs. */
uint64_t progress_total_step(const struct progress_event *event);

/* out = "epoch 3/10  step 512/938  loss 0.1234  accuracy 0.9612  91200 examples/s  ETA 0:42"; "ETA about 0:42": it is early;
 * "ETA at most 0:42". */
void progress_format_step(char *out, size_t bytes, const struct progress_event *event);
/* The same in at most `width` columns, for the progress line of a terminal:
 * "epoch 3/10 [=====>     ] 512/938  loss 0.1234  accuracy 0.9612  91200 examples/s  ETA 0:42". If not all of it fits, it
 * leaves out, in this order: rate, metric, loss, ETA, bar. */
void progress_format_bar(char *out, size_t bytes, const struct progress_event *event, size_t width);
/* out = "reading the data: 100 of 400 MB, 500000 rows  ETA 0:04; worker 1 25 %  ETA 0:10; and 3 more", of these n processes (n > 0)
 * and `more`. For the progress line of a terminal in at most `width` columns, with "[===>            ]" for the first: if not all of
 * it fits, it leaves out the bar, and workers. width 0: without the bar. */
void progress_format_loading(char *out, size_t bytes, const struct progress_loading *of, size_t n,
                             uint64_t more, size_t width);
/* out = "epoch 3/10 done in 3.2 s: loss 0.1012, accuracy 0.9701; eval loss 0.0912, accuracy 0.9723, auc 0.9911; best so far"
 * or "..; best: epoch 2 (eval loss 0.0899), 1 of 3 epochs without a better one". A training metric that is undefined (auc)
 * is left out; an undefined evaluation metric is "-". */
void progress_format_epoch(char *out, size_t bytes, const struct progress_event *event);

/* Splits the bytes of a pipe into lines. A line longer than PROGRESS_LINE_BYTES is dropped. Begins as zeros. */
struct progress_lines {
    char bytes[PROGRESS_LINE_BYTES];
    size_t n;
    bool skipping;
};
/* Feed `n` bytes; each complete line goes to `on_line`, without its newline. */
void progress_lines_feed(struct progress_lines *l, const char *bytes, size_t n,
                         void (*on_line)(void *arg, const char *line, size_t bytes), void *arg);
