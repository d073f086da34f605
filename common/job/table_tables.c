/* The job file's keys: tables of rows by key. A table has the same update keys as the rest of the model; a key
 * that it does not give has the job's value. */
#include "common/job/table_optimizer.h"

/* Rows are created one by one, so initializers that depend on the tensor's shape are missing. */
static const struct job_word initializer_words[] = {
    {"zeros", INIT_ZEROS, NULL},
    {"ones", INIT_ONES, NULL},
    {"constant", INIT_CONSTANT, "value"},
    {"random_normal", INIT_RANDOM_NORMAL, NULL},
    {"random_uniform", INIT_RANDOM_UNIFORM, NULL},
    {"truncated_normal", INIT_TRUNCATED_NORMAL, NULL},
    LAST_WORD,
};

static const struct job_word unadmitted_words[] = {
    {"zeros", UNADMITTED_ZEROS, NULL},
    {"initial", UNADMITTED_INITIAL, NULL},
    LAST_WORD,
};

static const struct job_word row_push_words[] = {
    {"none", ROW_CODEC_NONE, NULL},
    {"fp16", ROW_CODEC_FP16, NULL},
    {"bf16", ROW_CODEC_BF16, NULL},
    {"int8", ROW_CODEC_INT8, NULL},
    LAST_WORD,
};

/* No int8: rows in replies are not rounded stochastically, so its rounding error would not average out. */
static const struct job_word row_reply_words[] = {
    {"none", ROW_CODEC_NONE, NULL},
    {"fp16", ROW_CODEC_FP16, NULL},
    {"bf16", ROW_CODEC_BF16, NULL},
    LAST_WORD,
};

static const struct job_word optimizer_words[] = {LAZY_OPTIMIZER_WORDS, LAST_WORD};

static const struct job_word schedule_words[] = {SCHEDULE_WORDS, LAST_WORD};

#define TABLE_KEY(name, type, member, text, ...)                                                   \
    ROW(JOB_TABLE_PREFIX name, type, job_table, member, text, __VA_ARGS__)
#define INITIALIZER_REAL(option, member, range, by_default, text)                                  \
    TABLE_KEY(".initializer." option, REAL, init.member, text, range, .identity = true,            \
              .fallback = by_default)
#define REGULARIZER_REAL(option, member, by_default, text)                                         \
    TABLE_KEY(".regularizer." option, REAL, init.member, text, NOT_NEGATIVE, .identity = true,     \
              .fallback = by_default)
#define OWN(what) .own = offsetof(struct job_table, own_##what)
#define OPTIMIZER_KEY(name, type, member, text, ...)                                               \
    TABLE_KEY(".optimizer." name, type, optimizer.member, text, OWN(optimizer), .as_job = true,    \
              __VA_ARGS__)
#define OPTIMIZER_KEYS(word, rate, decay) RATE_AND_DECAY(word, rate, decay)
#define SCHEDULE_KEY(name, type, member, text, ...)                                                \
    TABLE_KEY(".learning_rate_schedule." name, type, optimizer.schedule.member, text,              \
              OWN(schedule), .as_job = true, __VA_ARGS__)
#define NESTEROV_HEEDED .heeded = NULL /* tables_training.c checks it */
#define ROWWISE_HEEDED .heeded = NULL

static const struct job_key keys[] = {
    JOB_KEY("tables", TABLES, model.tables, "by the names that layers give them",
            .fallback_doc = "none"),
    TABLE_KEY(".initializer", CHOICE, init.initializer,
              "a row's first values, a function of seed, table and key", .identity = true,
              .words = initializer_words,
              .fallback_doc = "`random_uniform` from -0.05 to 0.05; of `linear`: `zeros`"),
    INITIALIZER_REAL("constant.value", init_value, ANY_REAL, "0", "the number"),
    INITIALIZER_REAL("random_normal.mean", init_other, ANY_REAL, "0", "mean"),
    INITIALIZER_REAL("random_normal.stddev", init_value, NOT_NEGATIVE, "0.05",
                     "standard deviation"),
    INITIALIZER_REAL("random_uniform.minval", init_other, ANY_REAL, "-0.05", "from"),
    INITIALIZER_REAL("random_uniform.maxval", init_value, ANY_REAL, "0.05", "to"),
    INITIALIZER_REAL("truncated_normal.mean", init_other, ANY_REAL, "0", "mean"),
    INITIALIZER_REAL("truncated_normal.stddev", init_value, NOT_NEGATIVE, "0.05",
                     "standard deviation; redrawn beyond two of them"),
    TABLE_KEY(".regularizer", CHOICE, init.regularizer,
              "added to the loss of training for each row that a microbatch looks up, once: `{l2: "
              "0.01}`",
              .identity = true, .words = job_regularizer_words, .fallback = "none"),
    REGULARIZER_REAL("l1.l1", l1, "0.01", "times the sum of |w|"),
    REGULARIZER_REAL("l2.l2", l2, "0.01", "times the sum of squares"),
    REGULARIZER_REAL("l1_l2.l1", l1, "0", "times the sum of |w|"),
    REGULARIZER_REAL("l1_l2.l2", l2, "0", "times the sum of squares"),
    TABLE_KEY(".optimizer", CHOICE, optimizer.kind,
              "what updates its rows, with the options that `optimizer` has there but use_ema, "
              "ema_momentum, ema_overwrite_frequency and exclude_from_weight_decay",
              .identity = true, OWN(optimizer), .words = optimizer_words,
              .fallback_doc = "the job's"),
    LAZY_OPTIMIZER_KEYS,
    TABLE_KEY(".learning_rate", REAL, optimizer.learning_rate,
              "the rate of its rows; also `tables[].optimizer.NAME.learning_rate`", POSITIVE,
              OWN(rate),
              .fallback_doc = "`training.learning_rate`; of an optimizer of its own: that one's"),
    TABLE_KEY(".learning_rate_schedule", CHOICE, optimizer.schedule.kind,
              "how that rate moves, with the options of `training.learning_rate_schedule`",
              OWN(schedule), .words = schedule_words,
              .fallback_doc = "`training.learning_rate_schedule`"),
    SCHEDULE_KEYS,
    TABLE_KEY(".warmup_steps", U32, optimizer.schedule.warmup_steps,
              "the first so many updates have t / warmup_steps of the schedule's rate",
              RANGE(0, UINT32_MAX), OWN(warmup), .fallback_doc = "`training.warmup_steps`"),
    TABLE_KEY(".min_count", U32, min_count,
              "a row is made by the touch with this number, counted in a sketch; a touch is a step "
              "(in async a batch) that looks the row up",
              RANGE(1, ROW_MIN_COUNT_MAX), .identity = true, .fallback = "1"),
    TABLE_KEY(".probability", REAL, probability,
              "each touch makes the row with this probability; not together with `min_count`",
              .low = 0, .low_open = true, .high = 1, .identity = true, .fallback = "1"),
    TABLE_KEY(
        ".unadmitted", WORD, unadmitted,
        "what a row reads as until it is admitted by `min_count` or `probability`: `zeros`, or "
        "its first value",
        .identity = true, .words = unadmitted_words, .fallback = "zeros"),
    TABLE_KEY(".sketch_mb", U32, sketch_mb,
              "MiB of counts for `min_count`, for all ps together, 4 bytes for each key that is "
              "expected; "
              "with more keys some counts come out too high, and rows are made too early",
              RANGE(1, ROW_SKETCH_MB_MAX), .identity = true, .fallback = "16"),
    TABLE_KEY(
        ".unseen_steps", U32, unseen_steps,
        "a row is gone so many steps (in async, batches) after its last touch: it is not read, "
        "saved or exported any more, and a touch makes a new one; 0: rows stay",
        RANGE(0, ROW_UNSEEN_STEPS_MAX), .identity = true, .fallback = "0"),
    TABLE_KEY(".unseen_days", U32, unseen_days,
              "when `checkpoint.run` begins a run, rows go that were not touched since the newest "
              "run that began at least so many days ago; 0: rows stay",
              RANGE(0, JOB_UNSEEN_DAYS_MAX), .fallback = "0"),
    TABLE_KEY(".compression.push", WORD, push,
              "how gradients of its rows travel; `int8` has a scale for each row. `compression` "
              "is that of the rest of the model",
              .words = row_push_words, .fallback = "none"),
    TABLE_KEY(".compression.reply", WORD, reply,
              "how its rows travel to workers; an evaluation's are not compressed",
              .words = row_reply_words, .fallback = "none"),
};
const struct job_key_table job_table_tables = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
