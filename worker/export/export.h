/* What a trained model leaves behind in DIR/model. */
#ifndef GRADWIRE_WORKER_EXPORT_EXPORT_H
#define GRADWIRE_WORKER_EXPORT_EXPORT_H

#include "common/base/err.h"
#include "common/job/job.h"
#include "common/parameters/layout.h"
#include "common/parameters/staleness.h"

/* A line of the header's "__metadata__". */
struct export_note {
    const char *key;
    char value[JOB_NAME_MAX];
};

/* weights.safetensors: the tensors in the order of the layout, F32, shapes as in the layout.
 * Atomic. w: (l->elems). Format: https://github.com/huggingface/safetensors#format Errors: ERR_IO,
 * ERR_NOMEM; ERR_STATE where two tensors have one name. */
enum err export_safetensors(const char *path, const struct layout *l, const float *w,
                            const struct export_note *notes, size_t n_notes,
                            struct errmsg *e) MUST_CHECK;

/* safetensors_read.c: such a file, whoever wrote it, in whatever order its tensors stand: are all of the layout's
 * there, F32, with their shapes and bytes? Others may be there too.
 * Errors: ERR_NOTFOUND, ERR_IO, ERR_NOMEM; ERR_CORRUPT naming the file and the tensor. */
enum err export_check_safetensors(const char *path, const struct layout *l,
                                  struct errmsg *e) MUST_CHECK;
/* The same, and their values into w (l->elems, gaps zero). */
enum err export_read_safetensors(const char *path, const struct layout *l, float *w,
                                 struct errmsg *e) MUST_CHECK;
/* The note `key` of the file. Errors: ERR_NOTFOUND and those above; where it does not fit, ERR_TOOBIG. */
enum err export_note(const char *path, const char *key, char *out, size_t bytes) MUST_CHECK;

/* SHA-256 over name (without a NUL), shape (u32 rank then u32 dims, little-endian) and
 * little-endian bytes of each tensor in the order of weights.safetensors; hex, 64 characters and a
 * NUL; empty where OpenSSL has no memory. w: (l->elems). */
void export_digest(const struct layout *l, const float *w, char hex[65]);

/* The end of an epoch: seconds since this run's first step, without evaluation. */
struct summary_epoch {
    uint64_t epoch;
    double seconds, eval_loss, eval_metric[METRICS_MAX];
};

/* What one worker's process did since it began. Idle share: waited_s / (computed_s + waited_s). */
struct summary_worker {
    uint32_t worker;
    uint64_t tasks, bytes_out, bytes_in, dropped; /* dropped: microbatches */
    double examples, computed_s, waited_s;
};

/* How stale one worker's pushes were. */
struct summary_staleness {
    uint32_t worker;
    struct staleness counted;
};

struct summary {
    const char *status, *error, *job, *update; /* error NULL: none */
    int exit_code;
    uint32_t ps, workers, microbatches;
    uint64_t steps, epochs;
    double train_loss, eval_loss; /* NAN or infinite, here and below: null, as JSON has neither */
    uint32_t metrics;
    const char *metric_name[METRICS_MAX];
    double train_metric[METRICS_MAX], eval_metric[METRICS_MAX];
    double examples_per_s, seconds, first_step_s;
    double learning_rate; /* of the last update */
    uint64_t restarts, dealt, applied_min, applied_max, duplicates, lost, clipped, rejected,
        recoveries, dropped, redone;
    int exact;
    int has_evaluator, evaluated,
        evaluated_final; /* its last result, and whether it is the final cut's */
    uint64_t evaluated_cut, evaluated_step;
    int averaged;       /* eval, history and the model are of the weights' moving averages */
    const char *digest; /* NULL or "": none */
    size_t history_epochs, accounts;
    const struct summary_epoch *history; /* of this run */
    const struct summary_worker *account;
    struct summary_codec {
        const char *codec;
        uint64_t raw_bytes, bytes;
        double encode_s, decode_s, error; /* error: relative, L2; NAN: not measured */
        bool feedback;
        uint64_t residuals_lost; /* feedback: workers whose withheld part was lost */
    } push, reply;
    size_t stales; /* 0: staleness is null */
    const struct summary_staleness *stale;
};
/* summary.json as docs/design.md lists it, atomic; doubles read back to the same bits. peak_rss_bytes is
 * {} here: a launcher completes it. Text that is no UTF-8 is written with '?'. Errors: ERR_IO,
 * ERR_NOMEM. */
enum err export_summary(const char *path, const struct summary *s, struct errmsg *e) MUST_CHECK;

#endif
