/* The job file's keys: how a job is run; mostly not what it learns. */
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

/* The codecs' words: of pushes all; of replies, and of what `auto` may choose, those of some kinds. */
#define CODEC_WORD(name, word) {#word, CODEC_##name, NULL},
#define NO_WORD(name, word)
#define REPLY_EXACT CODEC_WORD
#define REPLY_ROUNDED CODEC_WORD
#define REPLY_DIFFERENCE CODEC_WORD
#define REPLY_PARTIAL NO_WORD
#define ALLOW_EXACT NO_WORD /* it may in any case */
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

static bool in_sync(const struct job *job)
{
    return job->training.update == UPDATE_SYNC;
}

static bool chooses(const struct job *job)
{
    return job->compression.push == CODEC_AUTO || job->compression.reply == CODEC_AUTO;
}

static const struct job_key keys[] = {
    {.path = "sync.replicas_to_aggregate",
     .type = KEY_U32,
     IN_JOB(sync.replicas_to_aggregate),
     RANGE(0, WORKERS_MAX),
     .fallback = "0",
     HEEDED(in_sync, "it is of training.update: sync, which is %s here; leave it out"),
     .doc =
         "backup workers: a step is made of the leaves of so many workers, whose come first; the "
         "others' are dropped. 0: of all workers'"},
    {.path = "sync.dropped",
     .type = KEY_WORD,
     IN_JOB(sync.dropped),
     .words = dropped_words,
     .fallback = "lost",
     HEEDED(in_sync, "redo is of training.update: sync, which is %s here; leave it out"),
     .doc = "what becomes of dropped microbatches: `lost`, they are counted; `redo`, they are "
            "trained in "
            "extra steps at the epoch's end"},

    {.path = "compression.push",
     .type = KEY_CHOICE,
     IN_JOB(compression.push),
     .words = push_words,
     .fallback = "none",
     .setting = "push_codec",
     .doc =
         "how gradients travel; `zstd` loses nothing; `top_k` sends the largest elements and adds "
         "the rest to later gradients, with sgd alone; `auto` measures and chooses"},
    {.path = "compression.push.top_k.ratio",
     .type = KEY_REAL,
     IN_JOB(compression.push_ratio),
     .low = 0,
     .low_open = true,
     .high = JOB_TOP_K_RATIO_MAX,
     .fallback = "0.01",
     .setting = "push_ratio",
     .doc =
         "the share of the elements of each chunk that travels, at least one; each is eight bytes"},
    {.path = "compression.reply",
     .type = KEY_WORD,
     IN_JOB(compression.reply),
     .words = reply_words,
     .fallback = "none",
     .setting = "reply_codec",
     .doc = "how parameters travel; in async and ssp neither int8 nor int8_zstd, in geo none"},
    {.path = "compression.allow",
     .type = KEY_CODECS,
     IN_JOB(compression.allow),
     .words = allow_words,
     .fallback_doc = "`[]`",
     HEEDED(chooses, "it is what `auto` may choose; give compression.push: auto or "
                     "compression.reply: auto, or leave it out"),
     .setting = "codecs_allowed",
     .doc = "what `auto` may choose beside none and zstd, which lose nothing: a list, like "
            "`[int8]`"},

    {.path = "checkpoint.every_steps",
     .type = KEY_U32,
     IN_JOB(checkpoint.every_steps),
     RANGE(0, UINT32_MAX),
     .fallback = "500",
     .doc = "steps between checkpoints; due when both have passed; 0 leaves this one out, "
            "both 0: only at the start, on SIGTERM and at the end"},
    {.path = "checkpoint.every_seconds",
     .type = KEY_U32,
     IN_JOB(checkpoint.every_seconds),
     RANGE(0, UINT32_MAX),
     .fallback = "60",
     .doc = "seconds between checkpoints"},
    {.path = "checkpoint.keep",
     .type = KEY_U32,
     IN_JOB(checkpoint.keep),
     RANGE(1, 1000000),
     .fallback = "3",
     .doc = "checkpoints that stay on disk"},
    {.path = "checkpoint.store",
     .type = KEY_WORD,
     IN_JOB(checkpoint.store),
     .words = store_words,
     .fallback = "auto",
     .doc = "who writes checkpoints: `shared`: each ps, all on one storage; `chief`: each ps sends "
            "its part to the "
            "chief; `auto`: a ps that does not see the chief's storage sends"},
    {.path = "checkpoint.run",
     .type = KEY_TEXT,
     IN_JOB(checkpoint.run),
     .fallback_doc = "none",
     .doc = "this run's name, like the night's: where the job in DIR is done, and was of a run of "
            "another name, a new job begins with the weights of its final checkpoint; one that is "
            "not done goes on"},

    {.path = "timeouts.start_s",
     .type = KEY_U32,
     IN_JOB(timeouts.start_s),
     RANGE(1, 604800),
     .fallback = "300",
     .doc = "seconds for the cluster to come together before the job fails"},
    {.path = "timeouts.worker_rejoin_s",
     .type = KEY_U32,
     IN_JOB(timeouts.worker_rejoin_s),
     RANGE(1, 604800),
     .fallback = "30",
     .doc = "seconds before the others take over the work of a worker that is gone"},
    {.path = "timeouts.ps_rejoin_s",
     .type = KEY_U32,
     IN_JOB(timeouts.ps_rejoin_s),
     RANGE(1, 604800),
     .fallback = "600",
     .doc = "seconds without a ps before the job fails"},
    {.path = "timeouts.grace_s",
     .type = KEY_U32,
     IN_JOB(timeouts.grace_s),
     RANGE(1, 604800),
     .fallback = "30",
     .doc = "seconds for a last checkpoint after SIGTERM"},
    {.path = "timeouts.evaluator_s",
     .type = KEY_U32,
     IN_JOB(timeouts.evaluator_s),
     RANGE(1, 604800),
     .fallback = "300",
     .doc =
         "seconds for the evaluator's word on the final checkpoint, before the job ends without"},

    {.path = "logs.tensorboard",
     .type = KEY_BOOL,
     IN_JOB(logs.tensorboard),
     .fallback = "true",
     .doc = "write TensorBoard's event files"},
    {.path = "logs.histograms",
     .type = KEY_BOOL,
     IN_JOB(logs.histograms),
     .fallback = "true",
     .doc = "of each tensor of the weights, and of its gradient at the chief, at each epoch's end, "
            "into "
            "these"},

    {.path = "ps.threads",
     .type = KEY_U32,
     IN_JOB(ps.threads),
     RANGE(0, 1024),
     .fallback = "0",
     .doc = "shards of a ps, a thread each; 0: the cores it may use"},
    NOT_YET("ps.replicas", "0", "copies of each shard on another ps"),
    NOT_YET("ps.memory", NULL, "memory for embedding rows"),

    {.path = "worker.threads",
     .type = KEY_U32,
     IN_JOB(worker.threads),
     RANGE(0, 1024),
     .fallback = "0",
     .doc = "compute threads of a worker; 0: the cores it may use"},

    NOT_YET("recovery", NULL, "restore a lost shard alone (partial)"),
};
const struct job_table job_table_run = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
