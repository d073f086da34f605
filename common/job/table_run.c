/* The job file's keys: how a job runs; most of them do not affect what it learns. */
#include "common/parameters/limits.h"
#include "common/job/table.h"

static const struct job_word store_words[] = {
    {"auto", STORE_AUTO, NULL},
    {"shared", STORE_SHARED, NULL},
    {"chief", STORE_CHIEF, NULL},
    LAST_WORD,
};

static const struct job_word dropped_words[] = {
    {"lost", DROPPED_LOST, NULL},
    {"redo", DROPPED_REDO, NULL},
    LAST_WORD,
};

/* The codecs' words. Pushes allow all of them; replies, and the choices of `auto`, allow only some kinds. */
#define CODEC_WORD(name, word) {#word, CODEC_##name, NULL},
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
        {"auto", CODEC_AUTO, NULL},
    LAST_WORD,
};

static const struct job_word reply_words[] = {
#define X(name, word, number, kind) REPLY_##kind(name, word)
    CODEC_MAP(X)
#undef X
        {"auto", CODEC_AUTO, NULL},
    LAST_WORD,
};

static const struct job_word allow_words[] = {
#define X(name, word, number, kind) ALLOW_##kind(name, word)
    CODEC_MAP(X)
#undef X
        LAST_WORD,
};

static const struct job_word full_words[] = {
    {"stop", ROW_FULL_STOP, NULL},
    {"evict", ROW_FULL_EVICT, NULL},
    {"refuse", ROW_FULL_REFUSE, NULL},
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
            "backup workers: a step is made of the leaves of so many workers, whose come first; "
            "the others' are dropped. 0: of all workers'",
            RANGE(0, WORKERS_MAX), .fallback = "0",
            HEEDED(in_sync, "it is of training.update: sync, which is %s here; leave it out")),
    JOB_KEY("sync.dropped", WORD, sync.dropped,
            "what becomes of dropped microbatches: `lost`, they are counted; `redo`, they are "
            "trained in extra steps at the epoch's end",
            .words = dropped_words, .fallback = "lost",
            HEEDED(in_sync, "redo is of training.update: sync, which is %s here; leave it out")),

    JOB_KEY("compression.push", CHOICE, compression.push,
            "how gradients travel; `zstd` loses nothing; `top_k` sends the largest elements and "
            "adds the rest to later gradients, with sgd alone; `auto` measures and chooses",
            .words = push_words, .fallback = "none", .setting = "push_codec"),
    JOB_KEY(
        "compression.push.top_k.ratio", REAL, compression.push_ratio,
        "the share of the elements of each chunk that travels, at least one; each is eight bytes",
        .low = 0, .low_open = true, .high = JOB_TOP_K_RATIO_MAX, .fallback = "0.01",
        .setting = "push_ratio"),
    JOB_KEY("compression.reply", WORD, compression.reply,
            "how parameters travel; in async and ssp neither int8 nor int8_zstd, in geo none",
            .words = reply_words, .fallback = "none", .setting = "reply_codec"),
    JOB_KEY(
        "compression.allow", CODECS, compression.allow,
        "what `auto` may choose beside none and zstd, which lose nothing: a list, like `[int8]`",
        .words = allow_words, .fallback_doc = "`[]`",
        HEEDED(chooses, "it is what `auto` may choose; give compression.push: auto or "
                        "compression.reply: auto, or leave it out"),
        .setting = "codecs_allowed"),

    JOB_KEY("checkpoint.every_steps", U32, checkpoint.every_steps,
            "steps between checkpoints; a checkpoint is due when these and `every_seconds` have "
            "passed; 0 leaves this one out, both 0: only at the start, on SIGTERM and at the end. "
            "Both `auto`: a checkpoint is due when the last one took at most 1 % of the time since "
            "it began, and at least each 500 steps and 60 s; one of them `auto`: 500",
            RANGE(0, CHECKPOINT_AUTO - 1), .or_auto = true, .fallback = "auto"),
    JOB_KEY("checkpoint.every_seconds", U32, checkpoint.every_seconds,
            "seconds between checkpoints; `auto` beside a number of steps: 60",
            RANGE(0, CHECKPOINT_AUTO - 1), .or_auto = true, .fallback = "auto"),
    JOB_KEY(
        "checkpoint.keep", U32, checkpoint.keep,
        "checkpoints that stay on disk; of 3 or more one is at least 60 s older than the newest, "
        "once the job is that old",
        RANGE(1, 1000000), .fallback = "3"),
    JOB_KEY("checkpoint.store", WORD, checkpoint.store,
            "who writes checkpoints: `shared`: each ps, all on one storage; `chief`: each ps sends "
            "its part to the chief; `auto`: a ps that does not see the chief's storage sends",
            .words = store_words, .fallback = "auto"),
    JOB_KEY("checkpoint.run", TEXT, checkpoint.run,
            "this run's name, like the night's: where the job in DIR is done, and was of a run of "
            "another name, a new job begins with the weights of its final checkpoint; one that is "
            "not done goes on",
            .fallback_doc = "none"),

    JOB_KEY("timeouts.start_s", U32, timeouts.start_s,
            "seconds for the cluster to come together before the job fails", RANGE(1, 604800),
            .fallback = "300"),
    JOB_KEY("timeouts.worker_rejoin_s", U32, timeouts.worker_rejoin_s,
            "seconds before the others take over the work of a worker that is gone",
            RANGE(1, 604800), .fallback = "30"),
    JOB_KEY("timeouts.ps_rejoin_s", U32, timeouts.ps_rejoin_s,
            "seconds without a ps before the job fails", RANGE(1, 604800), .fallback = "600"),
    JOB_KEY("timeouts.grace_s", U32, timeouts.grace_s,
            "seconds for a last checkpoint after SIGTERM", RANGE(1, 604800), .fallback = "30"),
    JOB_KEY("timeouts.evaluator_s", U32, timeouts.evaluator_s,
            "seconds for the evaluator's word on the final checkpoint, before the job ends without",
            RANGE(1, 604800), .fallback = "300"),

    JOB_KEY("logs.tensorboard", BOOL, logs.tensorboard, "write TensorBoard's event files",
            .fallback = "true"),
    JOB_KEY("logs.histograms", BOOL, logs.histograms,
            "of each tensor of the weights, and of its gradient at the chief, at each epoch's end, "
            "into these",
            .fallback = "true"),

    JOB_KEY("ps.threads", U32, ps.threads, "shards of a ps, a thread each; 0: the cores it may use",
            RANGE(0, 1024), .fallback = "0"),
    NOT_YET("ps.replicas", "0", "copies of each shard on another ps"),
    JOB_KEY("ps.memory", U32, ps.memory,
            "MiB that the rows of tables may take on a ps, with their index and sketches, in equal "
            "parts of its shards; 0: no bound",
            RANGE(0, 1 << 30), .fallback = "0",
            HEEDED(has_tables,
                   "it is of tables of rows by key, and no layer looks up in one; leave "
                   "it out"),
            .setting = "row_memory"),
    JOB_KEY("ps.when_full", WORD, ps.when_full,
            "what is done when they take that: `stop`, the job ends; `evict`, the rows whose last "
            "touch is the oldest go, 5 % at a time; `refuse`, no row is made until there is room. "
            "With rows that are gone or refused `exact` is false in the summary",
            .words = full_words, .fallback = "stop",
            HEEDED(has_row_memory, "it is of ps.memory; give that, too, or leave it out"),
            .setting = "row_full"),

    JOB_KEY("worker.threads", U32, worker.threads,
            "compute threads of a worker; 0: the cores it may use", RANGE(0, 1024),
            .fallback = "0"),

    NOT_YET("recovery", NULL, "restore a lost shard alone (partial)"),
};
const struct job_key_table job_table_run = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
