/* The job file's keys: optimizer, training, early stopping. */
#include "job/table_optimizer.h"

static const struct job_word optimizer_words[] = {
    LAZY_OPTIMIZER_WORDS,
    {"lamb", OPT_LAMB, NULL, "`adam` with a learning rate for each tensor, for large batches."},
    LAST_WORD,
};

static const struct job_word schedule_words[] = {SCHEDULE_WORDS, LAST_WORD};

static const struct job_word nan_guard_words[] = {
    {"check", NAN_GUARD_CHECK, NULL,
     "End the job if a loss, or a weight in a checkpoint, is not finite."},
    {"off", NAN_GUARD_OFF, NULL,
     "Continue training. The job fails at its end if the last loss or a final weight is not "
     "finite."},
    {"skip", NAN_GUARD_SKIP, NULL, "Make no update from a bad gradient."},
    {"stop", NAN_GUARD_STOP, NULL, "End the job at a bad gradient."},
    {"rollback", NAN_GUARD_ROLLBACK, NULL,
     "At a bad gradient, return to the last checkpoint. Then skip that batch."},
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
    HEEDED(keeps_average, "it has no effect without use_ema: true; set that, or remove it")
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
    HEEDED(has_momentum, "it has no effect while momentum is 0; set momentum, or remove it")
#define ROWWISE_HEEDED                                                                             \
    HEEDED(job_has_tables,                                                                         \
           "it is for rows of tables by key, and no layer looks up in a table; remove it")
#define UP_TO_ONE_OF_AVERAGE UP_TO_ONE, OF_AVERAGE
#define OPTIMIZER_KEYS(word, rate, decay)                                                          \
    RATE_AND_DECAY(word, rate, decay),                                                             \
        OPTIMIZER_BOOL(word ".use_ema", use_ema,                                                   \
                       "Keep a moving average of the weights. Evaluations and the exported model " \
                       "use this average."),                                                       \
        OPTIMIZER_REAL(word ".ema_momentum", ema_momentum, UP_TO_ONE_OF_AVERAGE, "0.99",           \
                       "After each update, `average = ema_momentum * average + (1 - "              \
                       "ema_momentum) * w`.",                                                      \
                       EXAMPLE("0.999")),                                                          \
        OPTIMIZER_KEY(                                                                             \
            word ".ema_overwrite_frequency", U32, ema_overwrite_frequency,                         \
            "N: every N updates, replace the weights by their average. 0 or null: never.",         \
            EXAMPLE("100"), RANGE(0, UINT32_MAX), OF_AVERAGE, .or_null = true, .identity = true,   \
            .fallback = "0"),                                                                      \
        JOB_KEY(                                                                                   \
            "optimizer." word ".exclude_from_weight_decay", NAMES, decay_exclude,                  \
            "A list of texts. Weight decay skips each tensor and each table whose name contains "  \
            "one of these texts. (Tables with their own optimizer are not affected.)",             \
            EXAMPLE("[bias]"), .identity = true, .fallback_doc = "`[]`")

static const struct job_key keys[] = {
    JOB_KEY("optimizer", CHOICE, optimizer.kind, "The rule that updates the weights.",
            EXAMPLE("{adam: {beta_1: 0.95}}"), .identity = true, .required = true,
            .words = optimizer_words),
    LAZY_OPTIMIZER_KEYS,
    OPTIMIZER_KEYS("lamb", "0.001", "0"),
    ADAM_KEYS("lamb"),

    JOB_KEY(
        "training.epochs", U32, training.epochs,
        "The number of passes over the training data. A higher number continues a finished job.",
        EXAMPLE("10"), RANGE(1, 1000000), .fallback = "1", .setting = "epochs"),
    JOB_KEY("training.batch_size", U32, training.batch_size,
            "The number of examples in a step of all workers (sync), or in a batch of one worker "
            "(async, ssp, geo).",
            EXAMPLE("256"), RANGE(1, 1048576), .identity = true, .fallback = "32",
            .setting = "batch_size"),
    JOB_KEY("training.microbatches", U32, training.microbatches,
            "The number of microbatches: the parts of a batch, which are divided among workers and "
            "threads. A power of two, at most `batch_size`.",
            EXAMPLE("8"), RANGE(1, JOB_MICROBATCHES_MAX), .identity = true,
            .fallback_doc = "`batch_size / 32`, rounded down to a power of two, from 1 to 8",
            .setting = "microbatches"),
    JOB_KEY("training.learning_rate", REAL, optimizer.learning_rate,
            "The learning rate. With a schedule, the initial rate of the schedule.",
            EXAMPLE("0.002"), POSITIVE, .fallback_doc = "the optimizer's"),
    JOB_KEY("training.learning_rate_schedule", CHOICE, optimizer.schedule.kind,
            "How the rate changes with the number of updates.",
            EXAMPLE("{cosine_decay: {decay_steps: 10000}}"), .words = schedule_words,
            .fallback = "constant"),
    SCHEDULE_KEYS,
    JOB_KEY("training.gradient_accumulation_steps", U32, optimizer.accumulation_steps,
            "Make one update from the mean gradient of this many steps (async: batches).",
            EXAMPLE("4"), RANGE(1, 65536), .identity = true, .fallback = "1"),
    JOB_KEY(
        "training.warmup_steps", U32, optimizer.schedule.warmup_steps,
        "The number of updates at the start in which the rate rises. The rate of update t is then "
        "the schedule's rate, times t / warmup_steps.",
        EXAMPLE("100"), RANGE(0, UINT32_MAX), .fallback = "0"),
    JOB_KEY(
        "training.update", WORD, training.update,
        "How gradients become updates. `sync`: one update from the gradients of all workers. "
        "`async`: one update from each batch. `ssp`: like async, but no worker is more than "
        "`training.staleness` batches ahead. `geo`: each worker trains by itself and pushes the "
        "change of its weights every `training.geo_every` batches.",
        EXAMPLE("async"), .identity = true,
        WORDS(WORD("sync", UPDATE_SYNC), WORD("async", UPDATE_ASYNC), WORD("ssp", UPDATE_SSP),
              WORD("geo", UPDATE_GEO)),
        .fallback = "sync", .setting = "update"),
    JOB_KEY("training.class_weight", CLASS_WEIGHTS, model.head[0].class_weights,
            "The weight of each class in the loss and its gradient. Metrics and evaluations ignore "
            "it.",
            EXAMPLE("{0: 1, 1: 5}"), .identity = true, .fallback_doc = "1 for each class"),
    JOB_KEY("training.seed", U64, training.seed, "The seed of all random numbers.", EXAMPLE("7"),
            RANGE(0, UINT64_MAX), .identity = true, .fallback = "1", .setting = "seed"),
    JOB_KEY("training.clip_norm", REAL, training.clip_norm,
            "Scale the mean gradient down if its global norm, over all tensors, is above this "
            "number. In the modes other than sync, each worker does this with the gradient of its "
            "own batch. 0: off.",
            EXAMPLE("1"), NOT_NEGATIVE, .fallback = "0", .setting = "clip_norm"),
    JOB_KEY("training.nan_guard", WORD, training.nan_guard,
            "The check for numbers that are not finite, and the action if the check finds one.",
            EXAMPLE("skip"), .words = nan_guard_words, .fallback = "check", .setting = "nan_guard"),
    JOB_KEY("training.max_rejected", U32, training.max_rejected,
            "The job fails after this many consecutive batches that `nan_guard: skip` rejects. In "
            "sync, this key also limits the batches that `rollback` rejects.",
            EXAMPLE("3"), RANGE(1, 1000000), .fallback = "10",
            HEEDED(rejects, "it has no effect without training.nan_guard: skip (or rollback in "
                            "sync); set that, or remove it")),
    JOB_KEY(
        "training.max_recoveries", U32, training.max_recoveries,
        "The job fails if `nan_guard: rollback` returns more often than this to the same "
        "checkpoint.",
        EXAMPLE("5"), RANGE(0, 1000000), .fallback = "3",
        HEEDED(rolls_back,
               "it has no effect without training.nan_guard: rollback; set that, or remove it")),
    JOB_KEY("training.monitor", WORD, training.monitor,
            "The evaluation result that decides which epoch is best: `loss`, or one of "
            "`model.metrics`. The weights of the best epoch are kept in `DIR/best`. `calibration` "
            "is not allowed: neither a higher nor a lower value is always better.",
            EXAMPLE("loss"), .words = job_monitor_words, .fallback = "none"),
    JOB_KEY("early_stopping.patience", U32, early_stopping.patience,
            "End training after this many epochs without a better evaluation. 0: never.",
            EXAMPLE("3"), RANGE(0, 1000000), .fallback = "0"),
    JOB_KEY("early_stopping.min_delta", REAL, early_stopping.min_delta,
            "An evaluation counts as better only if it is better by more than this difference.",
            EXAMPLE("0.001"), NOT_NEGATIVE, .fallback = "0"),
    JOB_KEY("early_stopping.start_from_epoch", U32, early_stopping.start_from_epoch,
            "The number of epochs at the start to ignore.", EXAMPLE("2"), RANGE(0, 1000000),
            .fallback = "0"),
    JOB_KEY("early_stopping.restore_best_weights", BOOL, early_stopping.restore_best_weights,
            "Export the weights of the best epoch to `model/` instead of the last weights.",
            EXAMPLE("true"), .fallback = "false"),
    JOB_KEY("evaluate.every_steps", U32, evaluate.every_steps,
            "Evaluate each time that so many steps were made, too, and not only at the ends of "
            "epochs. 0: only there.",
            EXAMPLE("1000"), RANGE(0, UINT32_MAX), .fallback = "0",
            HEEDED(job_evaluates, "there is nothing to evaluate on; set data.eval or "
                                  "data.validation, or remove it")),
    JOB_KEY("metrics.progressive", BOOL, metrics.progressive,
            "Compute the `auc` of training, too: of rows as they are predicted before they are "
            "trained on.",
            EXAMPLE("true"), .identity = true, .fallback = "false"),
    JOB_KEY("metrics.by", TEXT, metrics.by,
            "Show the progressive metrics also by the value of this `key` column: for the rows "
            "that have each of `metrics.values`, and for all others together.",
            EXAMPLE("C9"), .identity = true, .fallback_doc = "none"),
    JOB_KEY("metrics.values", TEXTS, metrics.values,
            "The values of `metrics.by`, at most 63, as the data have them.",
            EXAMPLE("[a73ee510, 7cc72ec2]"), .identity = true, .fallback_doc = "none"),
    JOB_KEY("training.staleness", U32, training.staleness,
            "`ssp`: the most batches by which a worker may be ahead of the slowest worker when it "
            "begins a batch. 0: workers wait for each other after each batch.",
            EXAMPLE("5"), RANGE(0, 1000000), .fallback = "3",
            HEEDED(in_ssp, "it is for training.update: ssp, and the job has %s; remove it"),
            .setting = "staleness"),
    JOB_KEY("training.geo_every", U32, training.geo_every,
            "`geo`: how many batches a worker trains by itself between two pushes.", EXAMPLE("16"),
            RANGE(1, 4096), .fallback = "8",
            HEEDED(in_geo, "it is for training.update: geo, and the job has %s; remove it"),
            .setting = "geo_every"),
    JOB_KEY(
        "training.geo_merge", WORD, training.geo_merge,
        "`geo`: how the changes of the workers merge. `average`: each worker pushes its change "
        "times "
        "min(1, 1.5 / workers), then takes the parameters of the ps. `paddle`: a worker keeps its "
        "own parameters "
        "and adds the changes of the others. `auto`: `average` in a new job; a job that resumes "
        "keeps the value of its checkpoint (`paddle` in a checkpoint of release 0.1.0).",
        EXAMPLE("average"), .identity = true,
        WORDS(WORD("auto", GEO_MERGE_AUTO), WORD("average", GEO_MERGE_AVERAGE),
              WORD("paddle", GEO_MERGE_PADDLE)),
        .fallback = "auto", .former = "paddle",
        HEEDED(in_geo, "it is for training.update: geo, and the job has %s; remove it"),
        .setting = "geo_merge"),
    JOB_KEY("training.delay_compensation", REAL, training.delay_compensation,
            "`async`, `ssp`: the lambda of DC-ASGD, `g + lambda * g * g * (w - w_pulled)`, where "
            "`w_pulled` is the weight that the worker computed with. Each ps keeps a copy of its "
            "parameters for each worker.",
            EXAMPLE("0.04"), NOT_NEGATIVE, .fallback = "0", OF_STALE("0"),
            .setting = "delay_compensation",
            .without_tables = "it does not work with tables of rows by key; remove it"),
    JOB_KEY(
        "training.staleness_rate", BOOL, training.staleness_rate,
        "`async`, `ssp`: divide the learning rate of an update by the staleness of its gradient.",
        EXAMPLE("true"), .fallback = "false", OF_STALE("false"), .setting = "staleness_rate"),
};

const char *job_geo_merge_word(enum geo_merge merge)
{
    return job_word_of(job_key_find("training.geo_merge")->words, (int)merge);
}

const struct job_key_table job_table_training = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
