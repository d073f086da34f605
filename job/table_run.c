/* The job file's keys: how a job runs; most of them do not affect what it learns. */
#include "common/parameters/limits.h"
#include "job/table.h"

/* The codecs' words. Pushes allow all of them; replies, and the choices of `auto`, allow only some kinds. */
#define CODEC_WORD(name, word) {#word, CODEC_##name, NULL, NULL},
#define NO_WORD(name, word)
#define REPLY_EXACT CODEC_WORD
#define REPLY_ROUNDED CODEC_WORD
#define REPLY_DIFFERENCE CODEC_WORD
#define REPLY_PARTIAL NO_WORD
#define ALLOW_EXACT NO_WORD /* always allowed */
#define ALLOW_ROUNDED CODEC_WORD
#define ALLOW_DIFFERENCE CODEC_WORD
#define ALLOW_PARTIAL NO_WORD

static const struct job_word push_words[] = {
#define X(name, word, number, kind) CODEC_WORD(name, word)
    CODEC_MAP(X)
#undef X
        {"auto", CODEC_AUTO, NULL, NULL},
    LAST_WORD,
};

static const struct job_word reply_words[] = {
#define X(name, word, number, kind) REPLY_##kind(name, word)
    CODEC_MAP(X)
#undef X
        {"auto", CODEC_AUTO, NULL, NULL},
    LAST_WORD,
};

static const struct job_word allow_words[] = {
#define X(name, word, number, kind) ALLOW_##kind(name, word)
    CODEC_MAP(X)
#undef X
        LAST_WORD,
};

static const struct job_word export_words[] = {
    {"onnx", EXPORT_ONNX, NULL, "[ONNX](../guides/export.md), for onnxruntime: `model.onnx`"},
    {"savedmodel", EXPORT_SAVEDMODEL, NULL,
     "a [SavedModel](../guides/savedmodel.md) of TensorFlow: the directory `savedmodel`"},
    {"keras", EXPORT_KERAS, NULL, "a Keras model: `model.keras`"},
    {"safetensors", EXPORT_SAFETENSORS, NULL,
     "a copy of [`model/`](files.md#model): the directory `safetensors`"},
    LAST_WORD,
};

static bool has_tables(const struct job *job)
{
    return job_has_tables(job);
}

static bool has_row_memory(const struct job *job)
{
    return job->ps.memory > 0;
}

static bool in_sync(const struct job *job)
{
    return job->training.update == UPDATE_SYNC;
}

static bool chooses(const struct job *job)
{
    return job->compression.push == CODEC_AUTO || job->compression.reply == CODEC_AUTO;
}

static const struct job_key keys[] = {
    JOB_KEY("sync.replicas_to_aggregate", U32, sync.replicas_to_aggregate,
            "Make each step from the microbatches of this many workers: those that finish first. "
            "The microbatches of the others are dropped. 0: wait for all workers.",
            EXAMPLE("3"), RANGE(0, WORKERS_MAX), .fallback = "0",
            HEEDED(in_sync, "it is for training.update: sync, and the job has %s; remove it")),
    JOB_KEY("sync.dropped", WORD, sync.dropped,
            "The treatment of dropped microbatches. `lost`: only count them. `redo`: train on them "
            "in extra steps at the end of the epoch.",
            EXAMPLE("redo"), WORDS(WORD("lost", DROPPED_LOST), WORD("redo", DROPPED_REDO)),
            .fallback = "lost",
            HEEDED(in_sync, "redo is for training.update: sync, and the job has %s; remove it")),

    JOB_KEY("compression.push", CHOICE, compression.push,
            "The encoding of gradients on their way to a ps. `zstd` loses nothing. `top_k` sends "
            "the elements with the largest absolute values and adds the rest to later gradients; "
            "it needs the optimizer sgd. `auto` measures and chooses.",
            EXAMPLE("int8"), .words = push_words, .fallback = "none", .setting = "push_codec"),
    JOB_KEY("compression.push.top_k.ratio", REAL, compression.push_ratio,
            "The share of the elements that is sent from each chunk (a piece of the parameters, at "
            "most 1 MiB). At least one element is sent. Each takes eight bytes.",
            EXAMPLE("0.05"), .low = 0, .low_open = true, .high = JOB_TOP_K_RATIO_MAX,
            .fallback = "0.01", .setting = "push_ratio"),
    JOB_KEY(
        "compression.reply", WORD, compression.reply,
        "The encoding of parameters on their way to workers. `async` and `ssp` exclude int8 and "
        "int8_zstd; `geo` excludes all but none.",
        EXAMPLE("fp16"), .words = reply_words, .fallback = "none", .setting = "reply_codec"),
    JOB_KEY("compression.allow", CODECS, compression.allow,
            "The encodings that lose precision but that `auto` can choose, in addition to none and "
            "zstd.",
            EXAMPLE("[int8]"), .words = allow_words, .fallback_doc = "`[]`",
            HEEDED(chooses, "it has no effect without compression.push: auto or compression.reply: "
                            "auto; set one, or remove it"),
            .setting = "codecs_allowed"),

    JOB_KEY("checkpoint.every_steps", U32, checkpoint.every_steps,
            "The number of steps between checkpoints. A checkpoint is due when both `every_steps` "
            "and `every_seconds` have passed. 0: do not count steps. If both keys are 0, "
            "checkpoints are written only at the start, on SIGTERM and at the end. `auto`: see "
            "[below](#automatic-checkpoints).",
            EXAMPLE("1000"), RANGE(0, CHECKPOINT_AUTO - 1), .or_auto = true, .fallback = "auto"),
    JOB_KEY("checkpoint.every_seconds", U32, checkpoint.every_seconds,
            "The number of seconds between checkpoints, with the same rules.", EXAMPLE("300"),
            RANGE(0, CHECKPOINT_AUTO - 1), .or_auto = true, .fallback = "auto"),
    JOB_KEY("checkpoint.keep", U32, checkpoint.keep,
            "The number of checkpoints to keep on disk. With 3 or more, one of them is at least 60 "
            "s older than the newest, as soon as the job has run that long.",
            EXAMPLE("5"), RANGE(1, 1000000), .fallback = "3"),
    JOB_KEY(
        "checkpoint.store", WORD, checkpoint.store,
        "The process that writes checkpoints. `shared`: each ps writes its part to storage "
        "that all processes share. The job fails if a ps does not see the chief's storage. "
        "`chief`: each ps sends its part to the chief, which writes "
        "all parts. `auto`: a ps that sees the chief's storage writes its part to that "
        "storage. Any other ps sends its part to the chief.",
        EXAMPLE("chief"),
        WORDS(WORD("auto", STORE_AUTO), WORD("shared", STORE_SHARED), WORD("chief", STORE_CHIEF)),
        .fallback = "auto"),
    JOB_KEY("checkpoint.run", TEXT, checkpoint.run,
            "The name of this run, such as a date. If the job in the output directory is done and "
            "had another run name, a new run begins with the weights of its final checkpoint. If "
            "that job is not done, it resumes.",
            PER_PROCESS, EXAMPLE("2026-01-31"), .fallback_doc = "none"),

    JOB_KEY("timeouts.start_s", U32, timeouts.start_s,
            "The job fails if the processes have not found each other after this many seconds.",
            PER_PROCESS, EXAMPLE("600"), RANGE(1, 604800), .fallback = "300"),
    JOB_KEY("timeouts.worker_rejoin_s", U32, timeouts.worker_rejoin_s,
            "If a lost worker has not returned after this many seconds, the other workers take "
            "over its work.",
            EXAMPLE("60"), RANGE(1, 604800), .fallback = "30"),
    JOB_KEY("timeouts.ps_rejoin_s", U32, timeouts.ps_rejoin_s,
            "The job fails if a lost ps has not returned after this many seconds.", PER_PROCESS,
            EXAMPLE("1200"), RANGE(1, 604800), .fallback = "600"),
    JOB_KEY("timeouts.grace_s", U32, timeouts.grace_s,
            "The number of seconds that a job can take for a last checkpoint after SIGTERM.",
            PER_PROCESS, EXAMPLE("60"), RANGE(1, 604800), .fallback = "30"),
    JOB_KEY("timeouts.evaluator_s", U32, timeouts.evaluator_s,
            "If the evaluator has not evaluated the final checkpoint after this many seconds, the "
            "job ends without that evaluation.",
            EXAMPLE("600"), RANGE(1, 604800), .fallback = "300"),
    JOB_KEY("timeouts.export_s", U32, timeouts.export_s,
            "An [export](#export) that takes longer than this many seconds fails.", EXAMPLE("3600"),
            RANGE(1, 604800), .fallback = "600"),

    JOB_KEY("export", CODECS, exports,
            "The formats in which the chief writes the trained model for other programs, to "
            "`DIR/export`, when the job ends.",
            EXAMPLE("[onnx, keras]"), .words = export_words, .fallback_doc = "`[]`"),

    JOB_KEY("logs.tensorboard", BOOL, logs.tensorboard, "Write TensorBoard's event files.",
            EXAMPLE("false"), .fallback = "true"),
    JOB_KEY("logs.histograms", BOOL, logs.histograms,
            "At the end of each epoch, add two histograms for each weight tensor to the event "
            "files: one of the weights, and one of the chief's gradient.",
            EXAMPLE("false"), .fallback = "true"),

    JOB_KEY("ps.threads", U32, ps.threads,
            "The number of threads of a ps. Each keeps one shard: a part of the parameters. 0: one "
            "thread for each core that the ps can use.",
            PER_PROCESS, EXAMPLE("4"), RANGE(0, 1024), .fallback = "0"),
    NOT_YET("ps.replicas", "0", "copies of each shard on another ps"),
    JOB_KEY("ps.memory", U32, ps.memory,
            "A limit in MiB for the rows of tables on each ps, including their index and the "
            "sketches of `min_count`. Each shard of the ps gets an equal part. 0: no limit.",
            EXAMPLE("8192"), RANGE(0, 1 << 30), .fallback = "0",
            HEEDED(has_tables,
                   "it is for tables of rows by key, and no layer looks up in a table; remove it"),
            .setting = "row_memory"),
    JOB_KEY("ps.when_full", WORD, ps.when_full,
            "The action when `ps.memory` is used up. `stop`: end the job. `evict`: remove the 5 % "
            "of rows that were not touched for the longest time. `refuse`: make no new rows until "
            "memory is free. If rows are removed or refused, `summary.json` has `exact: false`.",
            EXAMPLE("evict"),
            WORDS(WORD("stop", ROW_FULL_STOP), WORD("evict", ROW_FULL_EVICT),
                  WORD("refuse", ROW_FULL_REFUSE)),
            .fallback = "stop",
            HEEDED(has_row_memory, "it has no effect without ps.memory; set that, or remove it"),
            .setting = "row_full"),

    JOB_KEY("worker.threads", U32, worker.threads,
            "The number of compute threads of a worker. 0: one thread for each core that the "
            "worker can use.",
            PER_PROCESS, EXAMPLE("4"), RANGE(0, 1024), .fallback = "0"),

    NOT_YET("recovery", NULL, "restoring only a lost shard (partial)"),
};
const struct job_key_table job_table_run = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
