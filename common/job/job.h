/* The job file: YAML -> struct, from one table of keys (keys.h) that also makes docs/reference/job-file.md,
 * --set, the identity hash and the "nearest known key" hints. */
#ifndef GRADWIRE_COMMON_JOB_JOB_H
#define GRADWIRE_COMMON_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/codec/codec.h"
#include "common/base/err.h"
#include "common/parameters/limits.h"
#include "common/job/layer.h"
#include "common/math/optimizer.h"
#include "common/parameters/tree.h"
#include "common/rows/row_layout.h"

enum {
    JOB_LAYERS_MAX = 128,
    JOB_COLUMNS_MAX = 4096,
    JOB_CLASS_WEIGHTS_MAX = 64,
    JOB_MICROBATCHES_MAX = TREE_LEAVES_MAX,
    JOB_AUGMENT_SIDE_MAX = 4096, /* pixels */
    JOB_NAMES_BYTES = 256,
    JOB_CLICK_FIELDS_MAX = 64, /* data.synthetic: clicks */
    JOB_LOOKUPS_MAX = 65536,
    JOB_UNSEEN_DAYS_MAX = 36500,
    JOB_CROSS_MAX = 8,           /* columns of a cross */
    JOB_ROW_CELLS_MAX = 1 << 15, /* of four bytes, that a row of csv has in memory */
    JOB_SELECTIONS_MAX = JOB_LAYERS_MAX * JOB_INPUTS_MAX
};
#define CHECKPOINT_AUTO UINT32_MAX /* a KEY_U32 that is `auto` */
#define JOB_TOP_K_RATIO_MAX 0.25f  /* an entry is two floats long */

enum loss_kind {
    LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    LOSS_BINARY_CROSSENTROPY,
    LOSS_MEAN_SQUARED_ERROR,
    LOSS_MEAN_ABSOLUTE_ERROR
};
enum metric_kind {
    METRIC_ACCURACY,
    METRIC_MEAN_ABSOLUTE_ERROR,
    METRIC_MEAN_SQUARED_ERROR,
    METRIC_AUC,
    METRIC_PRECISION,
    METRIC_RECALL,
    METRIC_LOGLOSS,
    METRIC_NORMALIZED_ENTROPY,
    METRIC_CALIBRATION
};
struct class_weight {
    uint32_t label;
    float weight;
};
/* What training.monitor looks at: the loss, or MONITOR_METRIC + a metric_kind. */
enum { MONITOR_NONE, MONITOR_LOSS, MONITOR_METRIC };
enum checkpoint_store { STORE_AUTO, STORE_SHARED, STORE_CHIEF };
enum nan_guard {
    NAN_GUARD_OFF,
    NAN_GUARD_SKIP,
    NAN_GUARD_STOP,
    NAN_GUARD_ROLLBACK,
    NAN_GUARD_CHECK,
    NAN_GUARDS
};
enum sync_dropped { DROPPED_LOST, DROPPED_REDO };
enum update_mode { UPDATE_SYNC, UPDATE_ASYNC, UPDATE_SSP, UPDATE_GEO };
enum data_format { DATA_IDX, DATA_SYNTHETIC, DATA_CIFAR10, DATA_CSV, DATA_LIBSVM, DATA_NPY };
enum synthetic_kind { SYNTHETIC_DIGITS, SYNTHETIC_CENSUS, SYNTHETIC_CLICKS };
enum flip_kind { FLIP_NONE, FLIP_HORIZONTAL };
enum column_kind {
    COLUMN_NUMBER,
    COLUMN_CATEGORY,
    COLUMN_LABEL,
    COLUMN_IGNORE,
    COLUMN_KEY,  /* a word is the key of a row of a table */
    COLUMN_KEYS, /* several of them */
    COLUMN_WEIGHT,
    COLUMN_CROSS /* no field: a key made of those of key columns */
};
enum column_scale { SCALE_NONE, SCALE_STANDARD, SCALE_MIN_MAX, SCALE_LOG1P, SCALE_LOG2 };
enum column_buckets { BUCKETS_NONE, BUCKETS_LOG_SQUARED, BUCKETS_QUANTILES, BUCKETS_BORDERS };
enum { JOB_QUANTILES_MAX = 1024 };
enum column_missing { MISSING_MEAN, MISSING_VALUE, MISSING_REFUSE };
enum column_encode { ENCODE_ONE_HOT, ENCODE_ID };
enum key_missing {
    KEY_MISSING_EMPTY, /* the empty word's key */
    KEY_MISSING_NONE,  /* it looks nothing up */
    KEY_MISSING_KEY    /* the key that is given */
};
enum csv_header { HEADER_NONE, HEADER_SKIP, HEADER_NAMES };
enum csv_delimiter {
    DELIMITER_COMMA,
    DELIMITER_TAB,
    DELIMITER_SEMICOLON,
    DELIMITER_PIPE,
    DELIMITER_SPACE
};
enum bad_rows { BAD_ROWS_STOP, BAD_ROWS_SKIP };
/* What a new run (checkpoint.run) takes of the words and scales of the one before it. */
/* How much of its move a worker pushes in a round of geo. AUTO is never on the wire: the chief replaces it (job_settle_merge). */
enum geo_merge { GEO_MERGE_PADDLE, GEO_MERGE_AVERAGE, GEO_MERGE_AUTO };
enum data_encoding { ENCODING_EXTEND, ENCODING_KEEP, ENCODING_LEARN };

/* One column of a csv file. */
struct job_column {
    enum column_kind kind;
    uint32_t item;           /* its place in data.columns as written, where a range is one */
    char name[JOB_NAME_MAX]; /* "": none */
    /* number */
    enum column_scale scale;
    enum column_missing missing;
    float missing_value;
    enum column_buckets buckets;
    uint32_t quantiles; /* how many buckets are wanted */
    /* category, number in buckets */
    enum column_encode encode;
    char *
        words; /* category: its vocabulary; label: its classes; number: its borders; cross: the columns that it is of; joined by '\n'; NULL:
                 * none given */
    /* number, category: where its features stand in the model's input: [feature, feature + width). They are known when
     * the data are. */
    uint32_t feature, width;
    struct job_key_column { /* key, keys, cross */
        char space[JOB_NAME_MAX];
        bool hash;        /* false: words are integers, the keys themselves */
        uint64_t buckets; /* a key is taken modulo it; 0: as it is */
        enum key_missing missing;
        uint64_t missing_key;
        /* keys */
        char separator[JOB_NAME_MAX];
        uint32_t max_values;
        bool weights; /* each may end with :WEIGHT */
    } key;
};

/* A layer can look it up. */
static inline bool job_column_has_keys(const struct job_column *c)
{
    return c->kind == COLUMN_KEY || c->kind == COLUMN_KEYS || c->kind == COLUMN_CROSS;
}

/* Columns of the model's input that a layer reads. */
struct job_selection {
    uint32_t first, columns; /* of model.selected */
};

/* A key column that a layer looks up, and the list that its keys are in. Tables that the same columns look up have one
 * list; lists are numbered in the order of the tables. */
struct job_lookup {
    uint32_t list, column; /* column: of data.csv.column */
};

/* What a row reads as until it is admitted. */
enum row_unadmitted { UNADMITTED_ZEROS, UNADMITTED_INITIAL };

/* Rows by key, shared by the layers that name it. */
struct job_table {
    char name[JOB_NAME_MAX];
    uint32_t dim, list;
    struct job_weights init;    /* of a kind that looks at no fans; and the regularizer of rows */
    struct optimizer optimizer; /* of its rows, whole: the job's where it has none of its own */
    bool own_optimizer, own_rate, own_schedule, own_warmup;
    uint32_t min_count, sketch_mb, unseen_steps, unseen_days;
    float probability;
    enum row_unadmitted unadmitted;
    enum row_codec push, reply; /* how its gradients and its rows travel */
};

/* Not each key that comes has a row. */
static inline bool job_table_admits(const struct job_table *t)
{
    return t->min_count > 1 || t->probability < 1;
}

/* How csv files are read. */
struct job_csv {
    uint32_t columns;
    struct job_column *column; /* (columns) */
    enum csv_header header;
    enum csv_delimiter delimiter;
    bool quotes, trim;
    char comment[JOB_NAME_MAX]; /* lines that begin with it are left out; "": none */
    char *missing;              /* markers of a missing value, joined by '\n' */
    enum bad_rows bad_rows;
    uint32_t bad_rows_max;
    enum data_encoding encoding;
};

/* What is done to a training image each time it is drawn. */
struct job_augment {
    enum flip_kind flip;
    uint32_t crop, shift; /* pixels; 0: none */
};

/* Keys whose values are checked again when the model, the data or the cluster are known. */
enum job_place {
    PLACE_INPUT_SHAPE,
    PLACE_LAYERS,
    PLACE_LOSS,
    PLACE_METRICS,
    PLACE_CLASS_WEIGHT,
    PLACE_MONITOR,
    PLACE_REPLICAS,
    PLACE_DROPPED,
    JOB_PLACES
};
enum { JOB_FILE_SHOWN = 160, JOB_LINE_SET = INT32_MAX };

struct job {
    char name[JOB_NAME_MAX];
    struct {
        uint32_t rank,
            shape[TENSOR_RANK_MAX]; /* without the batch dimension; rank 0: as the data */
        uint32_t layers;
        struct job_layer layer[JOB_LAYERS_MAX];
        uint32_t selections, lookups, lists, tables;
        struct job_selection selection[JOB_SELECTIONS_MAX];
        uint32_t *selected;                     /* columns of data.csv, by selection */
        struct job_lookup *lookup;              /* (lookups) those of a layer side by side */
        struct job_table table[ROW_TABLES_MAX]; /* in the order of the layers */
        enum loss_kind loss;
        bool from_logits;
        uint32_t metrics;
        enum metric_kind metric[METRICS_MAX];
    } model;
    struct {
        enum data_format format;
        char *train,
            *eval;   /* resolved paths or globs (relative to the job file or, by --set, to the
                             * current folder), a YAML list joined by '\n'; NULL: none */
        char *spill; /* an absolute folder; NULL: TMPDIR, or /tmp */
        uint32_t memory_mb; /* 0: a quarter of what this process may use */
        float scale;        /* inputs are divided by it */
        enum synthetic_kind synthetic;
        uint32_t synthetic_train_rows, synthetic_eval_rows; /* default 60000, 10000 */
        uint32_t synthetic_fields, synthetic_keys,
            synthetic_interaction; /* clicks: keys of all fields; a rank */
        struct job_augment augment;
        struct job_csv csv;
    } data;
    struct optimizer optimizer;
    char decay_exclude[JOB_NAMES_BYTES]; /* parts of tensors' names, joined by commas */
    struct job_training {
        uint32_t epochs, batch_size, microbatches; /* microbatches: resolved, never 0 */
        uint32_t class_weights;                    /* others weigh 1 */
        struct class_weight class_weight[JOB_CLASS_WEIGHTS_MAX];
        enum update_mode update;
        uint64_t seed;
        float clip_norm;          /* 0: off */
        uint32_t monitor;         /* MONITOR_.. */
        uint32_t geo_every;       /* geo */
        enum geo_merge geo_merge; /* geo */
        uint32_t staleness;       /* ssp */
        float delay_compensation; /* lambda; 0: none */
        bool staleness_rate;
        enum nan_guard nan_guard;
        uint32_t max_recoveries, max_rejected;
    } training;
    struct {
        uint32_t replicas_to_aggregate; /* 0: all workers */
        uint32_t dropped;               /* enum sync_dropped */
    } sync;
    struct {
        uint32_t patience; /* epochs; 0: off */
        uint32_t start_from_epoch;
        float min_delta;
        bool restore_best_weights;
    } early_stopping;
    struct {
        enum codec push, reply;
        float push_ratio; /* top_k */
        uint32_t allow;   /* bit i: `auto` may choose codec i beside the lossless ones */
    } compression;
    struct job_checkpoint {
        uint32_t every_steps, every_seconds; /* CHECKPOINT_AUTO, too */
        uint32_t keep;
        enum checkpoint_store store;
        char run[JOB_NAME_MAX];
    } checkpoint;
    struct job_timeouts {
        uint32_t start_s, worker_rejoin_s, ps_rejoin_s, grace_s, evaluator_s;
    } timeouts;
    struct {
        bool tensorboard, histograms;
    } logs;
    struct {
        uint32_t threads;        /* 0: the cores it may use */
        uint32_t memory;         /* MiB of rows; 0: no bound */
        enum row_full when_full; /* what is done then */
    } ps;
    struct {
        uint32_t threads; /* 0: the cores it may use */
    } worker;
    /* where what is checked later was given, for job_blame */
    char file[JOB_FILE_SHOWN];
    uint32_t line[JOB_PLACES],
        layer_line[JOB_LAYERS_MAX]; /* 0: not given; JOB_LINE_SET: by --set */
    uint8_t identity
        [32];     /* SHA-256 over the canonical text of the identity keys, data paths excluded */
    bool encoded; /* the rows are read, and what they mean has the digest: */
    uint8_t encoding[32]; /* SHA-256 of encoding.json; all processes must have the same */
    char
        *canonical; /* the job as it is run, YAML with every key resolved: goes to model/job.yaml */
    char *
        identity_text; /* "key = value\n" lines of the identity keys: a mismatch is named from it */
};

/* Read `path`, then apply `sets` ("key=value", in order). On error e->text is one clear line: file, line,
 * key, what is allowed, the nearest known name.
 * Owns: *job is the caller's after ERR_OK; close with job_close. Unchanged on error.
 * Errors: ERR_INPUT, ERR_NOMEM. Thread: any. */
enum err job_load(struct job *job, const char *path, const char *const *sets, size_t n_sets,
                  struct errmsg *e) MUST_CHECK;

/* The same from memory; `name` stands for the file in messages, `dir` resolves relative paths. */
enum err job_parse(struct job *job, const char *text, size_t bytes, const char *name,
                   const char *dir, const char *const *sets, size_t n_sets,
                   struct errmsg *e) MUST_CHECK;

void job_close(struct job *job);

/* DIR: --output as it was given; runs/NAME where it was not (NULL, ""). Unchanged on error. Errors: ERR_INPUT too long. */
enum err job_output(const struct job *job, const char *given, char *out, size_t bytes,
                    struct errmsg *e) MUST_CHECK;

/* "sync" */
const char *job_update_word(enum update_mode update);
const char *job_nan_guard_word(enum nan_guard guard);
/* Gradients are looked at before they are applied, and refused. */
static inline bool nan_guard_refuses(uint32_t guard)
{
    return guard != NAN_GUARD_OFF && guard != NAN_GUARD_CHECK;
}

/* Backup workers: is there a microbatch for each of the workers, and are there not fewer than are waited for?
 * Errors: ERR_INPUT, with the value that would do. */
enum err job_check_workers(const struct job *job, uint32_t workers, struct errmsg *e) MUST_CHECK;
/* What a job with an evaluator cannot have. Errors: ERR_INPUT, one line. */
enum err job_check_evaluator(const struct job *job, struct errmsg *e) MUST_CHECK;
/* Say where in the job file it stands: e begins with the key's name, "model.loss: ...", and then with file and line,
 * or --set; with the file alone where it was not given. Hands the code back; ERR_OK and ERR_NOMEM stay as they are. */
enum err job_blame(const struct job *job, enum job_place place, enum err err, struct errmsg *e);
enum err job_blame_layer(const struct job *job, uint32_t layer, enum err err, struct errmsg *e);
/* How many workers' leaves make a step; 0: all, there are no backup workers. */
uint32_t job_replicas(const struct job *job, uint32_t workers);

/* Its examples have weights: a column of data.columns. */
bool job_has_weights(const struct job *job);

/* It has tables of rows by key. */
static inline bool job_has_tables(const struct job *job)
{
    return job->model.tables > 0;
}

/* What the model is, its shape or where columns stand in it, is known when the data are. */
static inline bool job_needs_data(const struct job *job)
{
    return job->model.rank == 0 || job->model.selections > 0;
}

/* The key columns that a cross is of, in its order: how many, at least 2. 0: a name of them is none, or they are too few or
 * too many. */
uint32_t job_cross_columns(const struct job_csv *csv, const struct job_column *cross,
                           uint32_t of[JOB_CROSS_MAX]);

/* What data.delimiter means. */
char job_delimiter_char(const struct job_csv *csv);
/* Its rows come from csv text, of files or drawn. */
bool job_reads_csv(const struct job *job);
/* The same, or from libsvm text: data.columns says what is in a row. */
bool job_reads_columns(const struct job *job);
/* Its rows are clicks that are drawn, so the best possible scores are known. */
bool job_draws_clicks(const struct job *job);

/* Compare two identity texts; names the first key that differs with its old and new value
 * ("training.batch_size was 64, is 128"). ERR_INPUT where they differ. */
enum err job_identity_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* geo: settle `geo_merge: auto` by the identity text of the checkpoint that the job goes on from; NULL: it is a new one.
 * The identity text says it from then on; the hash stays, as other processes see no checkpoint. Errors: ERR_NOMEM. */
enum err job_settle_merge(struct job *job, const char *was, struct errmsg *e) MUST_CHECK;
const char *job_geo_merge_word(enum geo_merge merge);
/* The same of what says what weights are, and how they are learned from: model, optimizer, how columns make keys. */
enum err job_identity_compare_model(const char *was, const char *is, struct errmsg *e) MUST_CHECK;

#endif
