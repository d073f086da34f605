/* The job file's keys: tables of rows by key. A table has the same update keys as the rest of the model; a key
 * that it does not give has the job's value. */
#include "job/table_optimizer.h"

/* Rows are created one by one, so initializers that depend on the tensor's shape are missing. */
static const struct job_word initializer_words[] = {
    {"zeros", INIT_ZEROS, NULL, NULL},
    {"ones", INIT_ONES, NULL, NULL},
    {"constant", INIT_CONSTANT, "value", NULL},
    {"random_normal", INIT_RANDOM_NORMAL, NULL, NULL},
    {"random_uniform", INIT_RANDOM_UNIFORM, NULL, NULL},
    {"truncated_normal", INIT_TRUNCATED_NORMAL, NULL, NULL},
    LAST_WORD,
};

static const struct job_word optimizer_words[] = {LAZY_OPTIMIZER_WORDS, LAST_WORD};

static const struct job_word schedule_words[] = {SCHEDULE_WORDS, LAST_WORD};

#define TABLE_KEY(name, type, member, text, ...)                                                   \
    ROW(JOB_TABLE_PREFIX name, type, job_table, member, text, __VA_ARGS__)
#define IDENTITY_KEY(name, type, member, text, ...)                                                \
    TABLE_KEY(name, type, member, text, .identity = true, __VA_ARGS__)
#define OWN(what) .own = offsetof(struct job_table, own_##what)
#define OPTIMIZER_KEY(name, type, member, text, ...)                                               \
    TABLE_KEY(".optimizer." name, type, optimizer.member, text, OWN(optimizer), .as_job = true,    \
              __VA_ARGS__)
#define OPTIMIZER_KEYS(word, rate, decay) RATE_AND_DECAY(word, rate, decay)
#define SCHEDULE_KEY(name, type, member, text, ...)                                                \
    TABLE_KEY(".learning_rate_schedule." name, type, optimizer.schedule.member, text,              \
              OWN(schedule), .as_job = true, __VA_ARGS__)
#define NESTEROV_HEEDED .heeded = NULL /* tables.c checks it */
#define ROWWISE_HEEDED .heeded = NULL

static const struct job_key keys[] = {
    JOB_KEY("tables", TABLES, model.tables,
            "The options of each table: a map with the name of the table as its key. Layers name "
            "tables in their option `table`.",
            EXAMPLE("{ids: {initializer: zeros}}"), .fallback_doc = "none"),
    TABLE_KEY(".initializer", CHOICE, init.initializer,
              "The first values of a row. They depend only on the seed, the table and the key.",
              EXAMPLE("{random_normal: {stddev: 0.01}}"), .identity = true,
              .words = initializer_words,
              .fallback_doc = "`random_uniform`; with layer `linear`: `zeros`"),
    INITIALIZER_OPTIONS(IDENTITY_KEY, ".initializer", init),
    TABLE_KEY(".regularizer", CHOICE, init.regularizer,
              "The term that a row adds to the training loss. A microbatch adds this term once for "
              "each row that it looks up.",
              EXAMPLE("{l2: 0.01}"), .identity = true, .words = job_regularizer_words,
              .fallback = "none"),
    REGULARIZER_OPTIONS(IDENTITY_KEY, ".regularizer", init),
    TABLE_KEY(".optimizer", CHOICE, optimizer.kind,
              "The optimizer of the table's rows. Its options are those of "
              "[optimizer](#optimizer), without `use_ema`, `ema_momentum`, "
              "`ema_overwrite_frequency` and `exclude_from_weight_decay`.",
              EXAMPLE("{adagrad: {rowwise: true}}"), .identity = true, OWN(optimizer),
              .words = optimizer_words, .fallback_doc = "the job's"),
    LAZY_OPTIMIZER_KEYS,
    TABLE_KEY(".learning_rate", REAL, optimizer.learning_rate,
              "The learning rate of the table's rows. You can also write this key as an option of "
              "the table's optimizer.",
              EXAMPLE("0.05"), POSITIVE, OWN(rate),
              .fallback_doc = "`training.learning_rate`; if the table has its own optimizer, the "
                              "default of that optimizer"),
    TABLE_KEY(".learning_rate_schedule", CHOICE, optimizer.schedule.kind,
              "How the table's learning rate changes, with the options of [Learning-rate "
              "schedules](#learning-rate-schedules).",
              EXAMPLE("{cosine_decay: {decay_steps: 1000}}"), OWN(schedule),
              .words = schedule_words, .fallback_doc = "`training.learning_rate_schedule`"),
    SCHEDULE_KEYS,
    TABLE_KEY(".warmup_steps", U32, optimizer.schedule.warmup_steps,
              "The number of updates at the start in which the rate rises. The rate of update t is "
              "then the schedule's rate, times t / warmup_steps.",
              EXAMPLE("100"), RANGE(0, UINT32_MAX), OWN(warmup),
              .fallback_doc = "`training.warmup_steps`"),
    TABLE_KEY(
        ".min_count", U32, min_count,
        "The touch at which a key gets a row: with 3, at its third touch. A touch of a key is a "
        "step (in async: a batch) that looks the key up. A sketch, an approximate counter, "
        "counts the touches.",
        EXAMPLE("3"), RANGE(1, ROW_MIN_COUNT_MAX), .identity = true, .fallback = "1"),
    TABLE_KEY(".probability", REAL, probability,
              "At each touch of a key without a row, make the row with this probability. Cannot be "
              "combined with `min_count`.",
              EXAMPLE("0.1"), .low = 0, .low_open = true, .high = 1, .identity = true,
              .fallback = "1"),
    TABLE_KEY(".unadmitted", WORD, unadmitted,
              "With `min_count` or `probability`: the values that a lookup gets for a key without "
              "a row. `zeros`: all values are 0. `initial`: the first values of a row of this key.",
              EXAMPLE("initial"), .identity = true,
              WORDS(WORD("zeros", UNADMITTED_ZEROS), WORD("initial", UNADMITTED_INITIAL)),
              .fallback = "zeros"),
    TABLE_KEY(".sketch_mb", U32, sketch_mb,
              "The size in MiB of the sketch that counts touches for `min_count`, over all ps. "
              "Allow 4 bytes for each expected key. With more keys than that, some counts are too "
              "high and some rows are made too early.",
              EXAMPLE("64"), RANGE(1, ROW_SKETCH_MB_MAX), .identity = true, .fallback = "16"),
    TABLE_KEY(
        ".unseen_steps", U32, unseen_steps,
        "Remove a row this many steps (in async: batches) after its last touch. A removed row is "
        "not read, saved or exported. The next touch makes a new row. 0: keep all rows.",
        EXAMPLE("100000"), RANGE(0, ROW_UNSEEN_STEPS_MAX), .identity = true, .fallback = "0"),
    TABLE_KEY(".unseen_days", U32, unseen_days,
              "When `checkpoint.run` begins a run, remove the rows that were not touched for this "
              "many days. Some rows can stay longer: see "
              "[Eviction](../explanation/tables.md#eviction). 0: keep all rows.",
              EXAMPLE("30"), RANGE(0, JOB_UNSEEN_DAYS_MAX), .fallback = "0"),
    TABLE_KEY(".compression.push", WORD, push,
              "The encoding of the gradients of the table's rows. `int8` has one scale for each "
              "row. The rest of the model uses the job's [compression](#compression).",
              EXAMPLE("int8"),
              WORDS(WORD("none", ROW_CODEC_NONE), WORD("fp16", ROW_CODEC_FP16),
                    WORD("bf16", ROW_CODEC_BF16), WORD("int8", ROW_CODEC_INT8)),
              .fallback = "none"),
    /* no int8: rows in replies are not rounded stochastically, so its rounding error would not average out */
    TABLE_KEY(".compression.reply", WORD, reply,
              "The encoding of the rows that a ps sends to workers. Rows for an evaluation are not "
              "encoded.",
              EXAMPLE("fp16"),
              WORDS(WORD("none", ROW_CODEC_NONE), WORD("fp16", ROW_CODEC_FP16),
                    WORD("bf16", ROW_CODEC_BF16)),
              .fallback = "none"),
};
const struct job_key_table job_table_tables = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
