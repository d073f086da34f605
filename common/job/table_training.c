/* The job file's keys: optimizer, training, early stopping. */
#include "common/job/table_optimizer.h"

static const struct job_word monitor_words[] = {
    {"none", MONITOR_NONE, NULL},
    {"loss", MONITOR_LOSS, NULL},
    {"accuracy", MONITOR_METRIC + METRIC_ACCURACY, NULL},
    {"mean_absolute_error", MONITOR_METRIC + METRIC_MEAN_ABSOLUTE_ERROR, NULL},
    {"mae", MONITOR_METRIC + METRIC_MEAN_ABSOLUTE_ERROR, NULL},
    {"mean_squared_error", MONITOR_METRIC + METRIC_MEAN_SQUARED_ERROR, NULL},
    {"mse", MONITOR_METRIC + METRIC_MEAN_SQUARED_ERROR, NULL},
    {"auc", MONITOR_METRIC + METRIC_AUC, NULL},
    {"precision", MONITOR_METRIC + METRIC_PRECISION, NULL},
    {"recall", MONITOR_METRIC + METRIC_RECALL, NULL},
    {"logloss", MONITOR_METRIC + METRIC_LOGLOSS, NULL},
    {"normalized_entropy", MONITOR_METRIC + METRIC_NORMALIZED_ENTROPY, NULL},
    LAST_WORD,
};

static const struct job_word optimizer_words[] = {
    LAZY_OPTIMIZER_WORDS,
    {"lamb", OPT_LAMB, NULL},
    LAST_WORD,
};

static const struct job_word schedule_words[] = {SCHEDULE_WORDS, LAST_WORD};

static const struct job_word nan_guard_words[] = {
    {"check", NAN_GUARD_CHECK, NULL},       {"off", NAN_GUARD_OFF, NULL},
    {"skip", NAN_GUARD_SKIP, NULL},         {"stop", NAN_GUARD_STOP, NULL},
    {"rollback", NAN_GUARD_ROLLBACK, NULL}, LAST_WORD,
};

static const struct job_word geo_merge_words[] = {
    {"auto", GEO_MERGE_AUTO, NULL},
    {"average", GEO_MERGE_AVERAGE, NULL},
    {"paddle", GEO_MERGE_PADDLE, NULL},
    LAST_WORD,
};

static const struct job_word update_words[] = {
    {"sync", UPDATE_SYNC, NULL},
    {"async", UPDATE_ASYNC, NULL},
    {"ssp", UPDATE_SSP, NULL},
    {"geo", UPDATE_GEO, NULL},
    LAST_WORD,
};

/* ---- conditions under which keys have an effect ---- */

static bool in_ssp(const struct job *job)
{
    return job->training.update == UPDATE_SSP;
}

static bool in_geo(const struct job *job)
{
    return job->training.update == UPDATE_GEO;
}

static bool has_stale_gradients(const struct job *job)
{
    return job->training.update == UPDATE_ASYNC || in_ssp(job);
}

static bool keeps_average(const struct job *job)
{
    return job->optimizer.use_ema;
}

static bool has_momentum(const struct job *job)
{
    return job->optimizer.momentum > 0;
}

static bool rejects(const struct job *job)
{
    return job->training.nan_guard == NAN_GUARD_SKIP ||
           job->training.nan_guard == NAN_GUARD_ROLLBACK;
}

static bool rolls_back(const struct job *job)
{
    return job->training.nan_guard == NAN_GUARD_ROLLBACK;
}

#define OF_AVERAGE                                                                                 \
    HEEDED(keeps_average,                                                                          \
           "it is of the average that use_ema: true keeps; add that, or leave it out")
#define OF_STALE(value)                                                                            \
    HEEDED(has_stale_gradients, "with this training.update no gradient is stale; allowed: " value  \
                                ", or training.update: async or ssp")

/* ---- the rows ---- */

#define OPTIMIZER_KEY(name, type, member, text, ...)                                               \
    JOB_KEY("optimizer." name, type, optimizer.member, text, __VA_ARGS__)
#define SCHEDULE_KEY(name, type, member, text, ...)                                                \
    JOB_KEY("training.learning_rate_schedule." name, type, optimizer.schedule.member, text,        \
            __VA_ARGS__)
#define NESTEROV_HEEDED                                                                            \
    HEEDED(has_momentum, "it is a kind of momentum, which is 0; give that, or leave it out")
#define ROWWISE_HEEDED                                                                             \
    HEEDED(job_has_tables, "it is of rows of tables by key, and no layer looks up in one; leave "  \
                           "it out")
#define UP_TO_ONE_OF_AVERAGE UP_TO_ONE, OF_AVERAGE
#define OPTIMIZER_KEYS(word, rate, decay)                                                          \
    RATE_AND_DECAY(word, rate, decay),                                                             \
        OPTIMIZER_BOOL(word ".use_ema", use_ema,                                                   \
                       "a moving average of the weights is kept; it is what is evaluated and "     \
                       "exported"),                                                                \
        OPTIMIZER_REAL(word ".ema_momentum", ema_momentum, UP_TO_ONE_OF_AVERAGE, "0.99",           \
                       "after each update `average = ema_momentum * average + (1 - "               \
                       "ema_momentum) * w`"),                                                      \
        OPTIMIZER_KEY(word ".ema_overwrite_frequency", U32, ema_overwrite_frequency,               \
                      "every so many updates the weights become their average; 0 or null: never",  \
                      RANGE(0, UINT32_MAX), OF_AVERAGE, .or_null = true, .identity = true,         \
                      .fallback = "0"),                                                            \
        JOB_KEY(                                                                                   \
            "optimizer." word ".exclude_from_weight_decay", NAMES, decay_exclude,                  \
            "parts of names, like `[bias]`: a tensor whose name has one is not decayed, nor is "   \
            "a table that has no optimizer of its own",                                            \
            .identity = true, .fallback_doc = "`[]`")

static const struct job_key keys[] = {
    JOB_KEY("optimizer", CHOICE, optimizer.kind, "the optimizer, as Keras 3 defines it",
            .identity = true, .required = true, .words = optimizer_words),
    LAZY_OPTIMIZER_KEYS,
    OPTIMIZER_KEYS("lamb", "0.001", "0"),
    ADAM_KEYS("lamb"),

    JOB_KEY("training.epochs", U32, training.epochs,
            "times through the training data; more of them reopen a finished job",
            RANGE(1, 1000000), .fallback = "1", .setting = "epochs"),
    JOB_KEY("training.batch_size", U32, training.batch_size,
            "examples of a step over all workers (sync), of one worker's batch (async)",
            RANGE(1, 1048576), .identity = true, .fallback = "32", .setting = "batch_size"),
    JOB_KEY("training.microbatches", U32, training.microbatches,
            "parts of a batch that workers and threads share; a power of two, at most batch_size",
            RANGE(1, JOB_MICROBATCHES_MAX), .identity = true,
            .fallback_doc = "batch_size / 32 rounded down to a power of two, within 1 to 8",
            .setting = "microbatches"),
    JOB_KEY("training.learning_rate", REAL, optimizer.learning_rate,
            "the rate; where a schedule is on, its initial_learning_rate", POSITIVE,
            .fallback_doc = "the optimizer's"),
    JOB_KEY("training.learning_rate_schedule", CHOICE, optimizer.schedule.kind,
            "how the rate moves with the number of updates, as Keras's schedules of that name",
            .words = schedule_words, .fallback = "constant"),
    SCHEDULE_KEYS,
    JOB_KEY("training.gradient_accumulation_steps", U32, optimizer.accumulation_steps,
            "steps (async: batches) whose mean gradient makes one update", RANGE(1, 65536),
            .identity = true, .fallback = "1"),
    JOB_KEY("training.warmup_steps", U32, optimizer.schedule.warmup_steps,
            "the first so many updates have t / warmup_steps of the schedule's rate",
            RANGE(0, UINT32_MAX), .fallback = "0"),
    JOB_KEY(
        "training.update", WORD, training.update,
        "`sync`: one update from all workers' gradients; `async`: each batch on its own; `ssp`: "
        "the same, and nobody is further ahead than training.staleness; `geo`: each worker trains "
        "by itself, and pushes what it has moved every training.geo_every batches",
        .identity = true, .words = update_words, .fallback = "sync", .setting = "update"),
    JOB_KEY("training.class_weight", CLASS_WEIGHTS, training.class_weights,
            "what an example of a class counts in the loss and its gradient, not in metrics and "
            "evaluation: `{0: 1, 1: 5}`",
            .identity = true, .fallback_doc = "1 for all"),
    JOB_KEY("training.seed", U64, training.seed, "all randomness comes from it",
            RANGE(0, UINT64_MAX), .identity = true, .fallback = "1", .setting = "seed"),
    JOB_KEY("training.clip_norm", REAL, training.clip_norm,
            "a larger mean gradient is scaled down to this global norm, over all tensors; in async "
            "each batch's, at its worker; 0: off",
            NOT_NEGATIVE, .fallback = "0", .setting = "clip_norm"),
    JOB_KEY("training.nan_guard", WORD, training.nan_guard,
            "`check`: a loss, or a weight in a checkpoint, that is not finite ends the job; `off`: "
            "training goes on, and the job fails at its end. The others look at each gradient, "
            "before it is applied: if it is not finite, or optimizer state is beyond 1e30, `skip` "
            "makes no update of that batch, `stop` ends the job, `rollback` goes back to the last "
            "checkpoint and then skips the batch",
            .words = nan_guard_words, .fallback = "check", .setting = "nan_guard"),
    JOB_KEY("training.max_rejected", U32, training.max_rejected,
            "batches in a row that `nan_guard: skip` rejects (in sync rollback, too) before the "
            "job fails",
            RANGE(1, 1000000), .fallback = "10",
            HEEDED(rejects, "it is of batches that training.nan_guard: skip rejects (in sync "
                            "rollback, too); give that, or leave it out")),
    JOB_KEY(
        "training.max_recoveries", U32, training.max_recoveries,
        "times that `nan_guard: rollback` goes back to the same checkpoint before the job fails",
        RANGE(0, 1000000), .fallback = "3",
        HEEDED(rolls_back, "it is of training.nan_guard: rollback; give that, or leave it out")),
    JOB_KEY("training.monitor", WORD, training.monitor,
            "the best epoch's weights by this evaluation, the loss or one of model.metrics, are "
            "kept in `DIR/best`; calibration has no best side and is none of them",
            .words = monitor_words, .fallback = "none"),
    JOB_KEY(
        "early_stopping.patience", U32, early_stopping.patience,
        "epochs without a better evaluation (training.monitor) after which training ends; 0: never",
        RANGE(0, 1000000), .fallback = "0"),
    JOB_KEY("early_stopping.min_delta", REAL, early_stopping.min_delta,
            "what a better evaluation is better by, at least", NOT_NEGATIVE, .fallback = "0"),
    JOB_KEY("early_stopping.start_from_epoch", U32, early_stopping.start_from_epoch,
            "so many epochs are not looked at", RANGE(0, 1000000), .fallback = "0"),
    JOB_KEY("early_stopping.restore_best_weights", BOOL, early_stopping.restore_best_weights,
            "`model/` gets the best epoch's weights instead of the last ones", .fallback = "false"),
    JOB_KEY(
        "training.staleness", U32, training.staleness,
        "ssp: so many batches a worker may be ahead of the slowest; 0: all wait for each other",
        RANGE(0, 1000000), .fallback = "3",
        HEEDED(in_ssp, "it is the bound of training.update: ssp, which is %s here; leave it out"),
        .setting = "staleness"),
    JOB_KEY("training.geo_every", U32, training.geo_every,
            "geo: batches that a worker trains by itself between two pushes", RANGE(1, 4096),
            .fallback = "8",
            HEEDED(in_geo, "it is of training.update: geo, which is %s here; leave it out"),
            .setting = "geo_every"),
    JOB_KEY("training.geo_merge", WORD, training.geo_merge,
            "geo: `average`: a worker pushes its part of what it has moved, and goes on from the "
            "servers' parameters; `paddle`: it goes on from its own, moved by what the others "
            "pushed; `auto`: as the checkpoint that the job goes on from (one of 0.1.0: `paddle`), "
            "in a new job `average`",
            .identity = true, .words = geo_merge_words, .fallback = "auto", .former = "paddle",
            HEEDED(in_geo, "it is of training.update: geo, which is %s here; leave it out"),
            .setting = "geo_merge"),
    JOB_KEY("training.delay_compensation", REAL, training.delay_compensation,
            "async: lambda of DC-ASGD, g + lambda g g (w - w pulled); a copy of the parameters for "
            "each worker on the ps",
            NOT_NEGATIVE, .fallback = "0", OF_STALE("0"), .setting = "delay_compensation",
            .without_tables = "it does not go with tables of rows by key; leave it out"),
    JOB_KEY("training.staleness_rate", BOOL, training.staleness_rate,
            "async: the rate of an update is divided by its staleness", .fallback = "false",
            OF_STALE("false"), .setting = "staleness_rate"),
};

const char *job_geo_merge_word(enum geo_merge merge)
{
    return job_word_of(geo_merge_words, (int)merge);
}

const struct job_key_table job_table_training = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
