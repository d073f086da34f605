/* The job file: YAML, read into a struct by one table of keys (keys.h). The same table makes
 * docs/reference/job-file.md, --set, the identity hash and the suggestions for unknown keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/codec/codec.h"
#include "common/math/optimizer.h"
#include "common/parameters/limits.h"
#include "common/parameters/tree.h"
#include "common/rows/row_layout.h"
#include "job/layer.h"

enum {
    JOB_LAYERS_MAX = 128,
    JOB_COLUMNS_MAX = 65536,
    JOB_HEADS_MAX = 8,
    JOB_CLASS_WEIGHTS_MAX = 64,
    JOB_MICROBATCHES_MAX = TREE_LEAVES_MAX,
    JOB_AUGMENT_SIDE_MAX = 4096, /* pixels */
    JOB_NAMES_BYTES = 256,
    JOB_CLICK_FIELDS_MAX = 64, /* for data.synthetic: clicks */
    JOB_LOOKUPS_MAX = 65536,
    JOB_UNSEEN_DAYS_MAX = 36500,
    JOB_CROSS_MAX = 8,           /* columns of a cross */
    JOB_ROW_CELLS_MAX = 1 << 18, /* in units of four bytes: the largest row of csv data in memory */
    /* bytes of a column's name, of a word, and of the names of a class */
    JOB_TEXT_MAX = 4096,
    JOB_SELECTIONS_MAX = JOB_LAYERS_MAX * JOB_INPUTS_MAX
};
#define CHECKPOINT_AUTO UINT32_MAX /* for a KEY_U32 that is `auto` */
#define JOB_TOP_K_RATIO_MAX 0.25f  /* a top_k entry has the size of two floats */

/* ---- losses and metrics, a row each: their words, and what is known of them without a model. The formulas are in model/, in a
 * loss_type and a metric_type of the same name. ---- */

/* The meaning of a label for a loss. */
enum job_labels {
    LABELS_CLASSES,     /* the number of a class; the model has one output for each class */
    LABELS_TWO_CLASSES, /* 0 or 1; one output */
    LABELS_VALUES       /* a number; one output */
};

/* X(kind, word, labels, meaning). ALIAS(kind, word, another word). In the order of their list on the reference page. */
#define JOB_LOSSES(X, ALIAS)                                                                       \
    X(SPARSE_CATEGORICAL_CROSSENTROPY, sparse_categorical_crossentropy, CLASSES,                   \
      "For labels that are class numbers, with one output for each class.")                        \
    X(BINARY_CROSSENTROPY, binary_crossentropy, TWO_CLASSES,                                       \
      "For labels 0 and 1, with one output: the probability of 1.")                                \
    X(MEAN_SQUARED_ERROR, mean_squared_error, VALUES, "For labels that are numbers.")              \
    X(MEAN_ABSOLUTE_ERROR, mean_absolute_error, VALUES,                                            \
      "For labels that are numbers. Outliers have less weight than in `mean_squared_error`.")      \
    ALIAS(MEAN_SQUARED_ERROR, mean_squared_error, mse)                                             \
    ALIAS(MEAN_ABSOLUTE_ERROR, mean_absolute_error, mae)

/* X(kind, word, which values are better, meaning). training.monitor allows those of HIGHER and LOWER. */
#define JOB_METRICS(X, ALIAS)                                                                      \
    X(ACCURACY, accuracy, HIGHER, "The share of examples with the right class.")                   \
    X(MEAN_ABSOLUTE_ERROR, mean_absolute_error, LOWER,                                             \
      "The mean of the absolute differences between outputs and labels.")                          \
    ALIAS(MEAN_ABSOLUTE_ERROR, mean_absolute_error, mae)                                           \
    X(MEAN_SQUARED_ERROR, mean_squared_error, LOWER,                                               \
      "The mean of the squared differences between outputs and labels.")                           \
    ALIAS(MEAN_SQUARED_ERROR, mean_squared_error, mse)                                             \
    X(AUC, auc, HIGHER,                                                                            \
      "The area under the ROC curve. It is computed exactly, over all rows of an evaluation. "     \
      "Training reports it only with `metrics.progressive`.")                                      \
    X(PRECISION, precision, HIGHER,                                                                \
      "Of the examples predicted to be positive, the share that are positive.")                    \
    X(RECALL, recall, HIGHER,                                                                      \
      "Of the positive examples, the share that are predicted to be positive.")                    \
    X(LOGLOSS, logloss, LOWER, "The mean binary crossentropy, without regularizers.")              \
    X(NORMALIZED_ENTROPY, normalized_entropy, LOWER,                                               \
      "`logloss`, divided by the `logloss` of always predicting the mean label. A value below 1 "  \
      "is better than that constant prediction.")                                                  \
    X(CALIBRATION, calibration, NEITHER,                                                           \
      "The sum of the predictions, divided by the sum of the labels. 1 is best.")

/* X(format, word, what its rows are, meaning). The rows are ARRAYS: numbers with a shape; or COLUMNS: data.columns describes
 * them; or the job MAKES them. A reader of each is in data/ (data/readers.h). */
#define JOB_FORMATS(X, ALIAS)                                                                      \
    X(IDX, idx, ARRAYS, "MNIST's files, with any of the format's number types.")                   \
    X(SYNTHETIC, synthetic, MAKES, "Rows that gradwire generates; see `data.synthetic`.")          \
    X(CIFAR10, cifar10, ARRAYS, "The binary batches of CIFAR-10, of shape `[32, 32, 3]`.")         \
    X(CSV, csv, COLUMNS, "Text with one row per line; `data.columns` describes its columns.")      \
    X(LIBSVM, libsvm, COLUMNS, "Text with one row per line: `label index:value index:value ...`.") \
    X(PARQUET, parquet, COLUMNS,                                                                   \
      "Columns of Apache Parquet files, which `data.columns` names. Needs the module of "          \
      "`./gradwire setup arrow`.")                                                                 \
    X(NPY, npy, ARRAYS, "NumPy arrays, in `.npy` or `.npz` files.")                                \
    ALIAS(NPY, npy, npz)

#define JOB_NO_ALIAS(kind, word, alias)
#define JOB_LOSS_KIND(kind, word, labels, meaning) LOSS_##kind,
#define JOB_METRIC_KIND(kind, word, better, meaning) METRIC_##kind,
enum loss_kind { JOB_LOSSES(JOB_LOSS_KIND, JOB_NO_ALIAS) };
#define JOB_FORMAT_KIND(kind, word, rows, meaning) DATA_##kind,
enum metric_kind { JOB_METRICS(JOB_METRIC_KIND, JOB_NO_ALIAS) };
/* Training has it with metrics.progressive. */
#define METRIC_PROGRESSIVE METRIC_AUC
static inline bool metric_needs_both_classes(enum metric_kind kind)
{
    return kind == METRIC_AUC || kind == METRIC_NORMALIZED_ENTROPY;
}
enum data_format { JOB_FORMATS(JOB_FORMAT_KIND, JOB_NO_ALIAS) };
#undef JOB_LOSS_KIND
#undef JOB_METRIC_KIND
#undef JOB_FORMAT_KIND

/* One of the job's metrics. */
struct job_metric {
    enum metric_kind kind;
    const char *name; /* of its value, in every report; static */
    uint32_t head;
};

/* The value that training.monitor watches: the loss, or MONITOR_METRIC + a metric_kind. */
enum { MONITOR_NONE, MONITOR_LOSS, MONITOR_METRIC };

struct class_weight {
    uint32_t label;
    float weight;
};

/* A loss, and what it reads. Training minimizes the weighted sum of the heads' losses. Job files describe one head, of the last
 * layer and one label. */
struct job_head {
    uint32_t inputs, input[JOB_INPUTS_MAX]; /* as of a layer, side by side; none: the last layer */
    uint32_t labels; /* columns of them; the outputs are shared out among them */
    bool masked;     /* examples can lack labels */
    float weight;
    enum loss_kind loss;
    bool from_logits;
    uint32_t class_weights; /* other classes have weight 1 */
    struct class_weight class_weight[JOB_CLASS_WEIGHTS_MAX];
};
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
enum synthetic_kind { SYNTHETIC_DIGITS, SYNTHETIC_CENSUS, SYNTHETIC_CLICKS };
enum flip_kind { FLIP_NONE, FLIP_HORIZONTAL };
enum column_kind {
    COLUMN_NUMBER,
    COLUMN_CATEGORY,
    COLUMN_LABEL,
    COLUMN_IGNORE,
    COLUMN_KEY,  /* a word is the key of a table row */
    COLUMN_KEYS, /* several keys */
    COLUMN_WEIGHT,
    COLUMN_CROSS /* not a field: a key made from several key columns */
};
enum column_scale { SCALE_NONE, SCALE_STANDARD, SCALE_MIN_MAX, SCALE_LOG1P, SCALE_LOG2 };
enum column_buckets { BUCKETS_NONE, BUCKETS_LOG_SQUARED, BUCKETS_QUANTILES, BUCKETS_BORDERS };
enum { JOB_QUANTILES_MAX = 1024 };
enum column_missing { MISSING_MEAN, MISSING_VALUE, MISSING_REFUSE };
enum column_encode { ENCODE_ONE_HOT, ENCODE_ID };
enum key_missing {
    KEY_MISSING_EMPTY, /* the key of the empty word */
    KEY_MISSING_NONE,  /* no lookup */
    KEY_MISSING_KEY    /* a given key */
};
enum csv_header { HEADER_NONE, HEADER_SKIP, HEADER_NAMES };
enum csv_escape { ESCAPE_NONE, ESCAPE_BACKSLASH };
enum csv_delimiter {
    DELIMITER_COMMA,
    DELIMITER_TAB,
    DELIMITER_SEMICOLON,
    DELIMITER_PIPE,
    DELIMITER_SPACE
};
enum bad_rows { BAD_ROWS_STOP, BAD_ROWS_SKIP };
enum absent_columns { ABSENT_STOP, ABSENT_MISSING };
/* geo: the share of the change of its parameters that a worker pushes in a push round. AUTO is never on the wire: the
 * chief replaces it (job_settle_merge). */
enum geo_merge { GEO_MERGE_PADDLE, GEO_MERGE_AVERAGE, GEO_MERGE_AUTO };
/* The effect of a new run (checkpoint.run) on the vocabularies and scales of the run before it. */
enum data_encoding { ENCODING_EXTEND, ENCODING_KEEP, ENCODING_LEARN };
enum data_order { ORDER_SHUFFLED, ORDER_STREAM };

/* A text that a job keeps until job_close. */
struct job_text {
    struct job_text *before;
    char text[];
};

/* One column of a csv file. Its texts belong to the job. */
struct job_column {
    enum column_kind kind;
    uint32_t item;    /* index in data.columns as written; a range is one item */
    const char *name; /* "": none; up to JOB_TEXT_MAX bytes, any but NUL */
    /* for number */
    enum column_scale scale;
    enum column_missing missing;
    double missing_value;
    enum column_buckets buckets;
    uint32_t quantiles; /* number of buckets */
    /* an embedding reads the number as one of its rows 0 to ids - 1; 0: the number is no id */
    uint32_t ids;
    /* for category, and number with buckets */
    enum column_encode encode;
    /* a list of texts (common/base/texts.h); NULL: not given. category: vocabulary; label: classes; number: borders; cross: its columns */
    char *words;
    /* for number and category: the column's features are [feature, feature + width) of the model's input; known
     * only when the data are */
    uint32_t feature, width;
    struct job_key_column { /* for key, keys, cross */
        const char *space;  /* as name */
        bool hash;          /* false: words are integers and are used as keys */
        uint64_t buckets;   /* keys are reduced modulo this; 0: not reduced */
        enum key_missing missing;
        uint64_t missing_key;
        /* for keys */
        char separator[JOB_NAME_MAX];
        uint32_t max_values;
        bool weights; /* a value can end with :WEIGHT */
    } key;
};

/* Returns whether the number is one of the ids of a column with `ids` > 0. */
static inline bool job_is_id(float number, uint32_t ids)
{
    return number >= 0 && number < (float)ids && (float)(uint32_t)number == number;
}

/* Returns whether layers can look the column up. */
static inline bool job_column_has_keys(const struct job_column *c)
{
    return c->kind == COLUMN_KEY || c->kind == COLUMN_KEYS || c->kind == COLUMN_CROSS;
}

/* Columns of the model's input that form one input of a layer. */
struct job_selection {
    uint32_t first, columns; /* range of model.selected */
};

/* A key column that a layer looks up, and the list with its keys. Tables that are looked up by the same columns
 * share a list; lists are numbered in the order of the tables. */
struct job_lookup {
    uint32_t list, column; /* column: index in data.csv.column */
};

/* The value of a row that is not admitted yet. */
enum row_unadmitted { UNADMITTED_ZEROS, UNADMITTED_INITIAL };

/* A table of rows by key, shared by the layers that name it. */
struct job_table {
    char name[JOB_NAME_MAX];
    uint32_t dim, list;
    struct job_weights init;    /* initializer (no kind with fans) and regularizer of rows */
    struct optimizer optimizer; /* complete settings; taken from the job if the table has none */
    bool own_optimizer, own_rate, own_schedule, own_warmup;
    uint32_t min_count, sketch_mb, unseen_steps, unseen_days;
    float probability;
    enum row_unadmitted unadmitted;
    enum row_codec push, reply; /* encoding of its gradients and its rows on the wire */
};

/* Returns whether some keys get no row. */
static inline bool job_table_admits(const struct job_table *t)
{
    return t->min_count > 1 || t->probability < 1;
}

/* The format of csv files. */
struct job_csv {
    uint32_t columns;
    struct job_column *column; /* (columns) */
    uint32_t *named,
        places; /* (places) numbers of columns + 1 by their names (job_column_named); 0: free */
    enum csv_header header;
    enum csv_delimiter delimiter;
    enum csv_escape escape;
    bool quotes, trim;
    char comment[JOB_NAME_MAX]; /* lines that start with this are skipped; "": none */
    char *missing;              /* a list of texts: markers of missing values */
    enum bad_rows bad_rows;
    uint32_t bad_rows_max;
    enum absent_columns absent_columns;
    enum data_encoding encoding;
};

/* The random changes to a training image, made each time it is read. */
struct job_augment {
    enum flip_kind flip;
    uint32_t crop, shift; /* pixels; 0: none */
};

/* Formats in which a trained model can be written for other programs (common/formats/export.h). */
enum export_format {
    EXPORT_ONNX,
    EXPORT_SAVEDMODEL,
    EXPORT_KERAS,
    EXPORT_SAFETENSORS,
    EXPORT_FORMATS
};

/* Keys whose values are checked again later, when the model, the data or the cluster are known. */
enum job_place {
    PLACE_INPUT_SHAPE,
    PLACE_LAYERS,
    PLACE_LOSS,
    PLACE_METRICS,
    PLACE_CLASS_WEIGHT,
    PLACE_MONITOR,
    PLACE_REPLICAS,
    PLACE_DROPPED,
    PLACE_EXPORT,
    PLACE_OPTIMIZER,
    JOB_PLACES
};
enum { JOB_FILE_SHOWN = 160, JOB_LINE_SET = INT32_MAX };

static inline struct job_head job_head_of_one_label(void)
{
    return (struct job_head){.labels = 1, .weight = 1};
}

struct job {
    char name[JOB_NAME_MAX];
    char no_value[500]; /* the warning about a key of the file that has no value; "": none */
    struct {
        /* of the input, without the batch dimension; rank 0: from the data */
        uint32_t rank, shape[TENSOR_RANK_MAX];
        uint32_t layers;
        struct job_layer layer[JOB_LAYERS_MAX];
        uint32_t selections, lookups, lists, tables;
        struct job_selection selection[JOB_SELECTIONS_MAX];
        uint32_t *selected;                     /* indices of columns of data.csv, by selection */
        struct job_lookup *lookup;              /* (lookups); those of one layer are consecutive */
        struct job_table table[ROW_TABLES_MAX]; /* in the order of the layers that first use them */
        uint32_t heads;
        struct job_head head[JOB_HEADS_MAX];
        uint32_t metrics;
        struct job_metric metric[METRICS_MAX];
        char *weights; /* an absolute path: a safetensors file with first values; NULL: none */
    } model;
    struct {
        enum data_format format;
        /* Absolute paths or globs, joined by '\n'; NULL: none. In the job file they are relative to its directory, in a
         * --set to the current directory. */
        char *train, *eval;
        bool eval_named; /* a command's arguments name the files of `eval`: messages name no key */
        struct job_validation { /* the part of `train` that is held out, to be evaluated on */
            double last, share; /* of the rows; 0: none by their numbers */
            char column[JOB_NAME_MAX]; /* `share` is of its keys; "": of the rows */
            char *files;               /* as `train`; NULL: none */
        } validation;
        enum data_order order;
        uint32_t window, mix; /* of a stream */
        char *spill;          /* an absolute directory; NULL: TMPDIR, or /tmp */
        uint32_t memory_mb;   /* 0: a quarter of the memory that this process can use */
        float scale;          /* inputs are divided by it */
        enum synthetic_kind synthetic;
        uint32_t synthetic_train_rows, synthetic_eval_rows; /* default 60000, 10000 */
        /* for clicks: the number of fields, of keys in all fields together, and the rank of the interaction */
        uint32_t synthetic_fields, synthetic_keys, synthetic_interaction;
        struct job_augment augment;
        struct job_csv csv;
    } data;
    struct optimizer optimizer;
    char decay_exclude[JOB_NAMES_BYTES]; /* parts of tensor names, separated by commas */
    struct job_training {
        uint32_t epochs, batch_size, microbatches; /* microbatches: resolved, never 0 */
        enum update_mode update;
        uint64_t seed;
        float clip_norm;          /* 0: no clipping */
        uint32_t monitor;         /* MONITOR_.. */
        uint32_t geo_every;       /* geo */
        enum geo_merge geo_merge; /* geo */
        uint32_t staleness;       /* ssp */
        float delay_compensation; /* lambda; 0: off */
        bool staleness_rate;
        enum nan_guard nan_guard;
        uint32_t max_recoveries, max_rejected;
    } training;
    struct {
        uint32_t replicas_to_aggregate; /* 0: all workers */
        uint32_t dropped;               /* enum sync_dropped */
    } sync;
    struct {
        uint32_t patience; /* in epochs; 0: off */
        uint32_t start_from_epoch;
        float min_delta;
        bool restore_best_weights;
    } early_stopping;
    struct {
        uint32_t every_steps; /* 0: at the ends of epochs alone */
    } evaluate;
    struct {
        bool progressive;
        char by[JOB_NAME_MAX]; /* a column; "": none */
        char *values;          /* a list of texts, of that column; NULL: none */
    } metrics;
    struct {
        enum codec push, reply;
        float push_ratio; /* for top_k */
        uint32_t allow;   /* bit i: `auto` can choose codec i in addition to the lossless ones */
    } compression;
    struct job_checkpoint {
        uint32_t every_steps, every_seconds; /* can be CHECKPOINT_AUTO */
        uint32_t keep;
        enum checkpoint_store store;
        char run[JOB_NAME_MAX];
    } checkpoint;
    struct job_timeouts {
        uint32_t start_s, worker_rejoin_s, ps_rejoin_s, grace_s, evaluator_s, export_s;
    } timeouts;
    struct {
        bool tensorboard, histograms;
    } logs;
    uint32_t exports; /* bit i: the job writes its model in enum export_format i when it ends */
    struct {
        uint32_t threads;        /* 0: all cores that it can use */
        uint32_t memory;         /* MiB of rows; 0: no limit */
        enum row_full when_full; /* the action at the limit */
    } ps;
    struct {
        uint32_t threads; /* 0: all cores that it can use */
    } worker;
    /* where the values that are checked later were given, for job_blame */
    char file[JOB_FILE_SHOWN];
    uint32_t line[JOB_PLACES],
        layer_line[JOB_LAYERS_MAX]; /* 0: not given; JOB_LINE_SET: with --set */
    uint8_t identity[32];   /* SHA-256 of the identity keys' canonical text, without data paths */
    bool encoded;           /* the data's encoding is known, and `encoding` is set */
    uint8_t encoding[32];   /* SHA-256 of encoding.json; must be equal in all processes */
    struct job_text *texts; /* of its columns; NULL: none */
    char *canonical;        /* the complete job as YAML, with every key resolved: model/job.yaml */
    char *identity_text;    /* "key = value\n" lines of the identity keys, to name a difference */
};

/* Reads `path`, then applies `sets` ("key=value", in order). On error, e->text is one line with file, line, key,
 * the allowed values and the nearest known name. The caller owns *job (job_close); *job is unchanged on error.
 * Errors: ERR_INPUT, ERR_NOMEM. Thread: any. */
enum err job_load(struct job *job, const char *path, const char *const *sets, size_t n_sets,
                  struct errmsg *e) MUST_CHECK;

/* Same from memory; `name` is the file's name in messages, `dir` the directory of relative paths. */
enum err job_parse(struct job *job, const char *text, size_t bytes, const char *name,
                   const char *dir, const char *const *sets, size_t n_sets,
                   struct errmsg *e) MUST_CHECK;

void job_close(struct job *job); /* zeros are allowed; *job is then zeroed */

/* Writes the path of the output directory: `given` (--output), or runs/NAME if `given` is NULL or "". `out` is
 * unchanged on error. Errors: ERR_INPUT the path is too long. */
enum err job_output(const struct job *job, const char *given, char *out, size_t bytes,
                    struct errmsg *e) MUST_CHECK;

/* Returns the job file's word, such as "sync". */
const char *job_update_word(enum update_mode update);
const char *job_nan_guard_word(enum nan_guard guard);
const char *job_loss_word(enum loss_kind kind);
enum job_labels job_loss_labels(enum loss_kind kind);
/* The metric of the first head, with its word as the name. */
struct job_metric job_metric_of(enum metric_kind kind);
/* Whether a learning rate is 0 for most of a job of so many training rows, or never rises to what was set; *text = why. */
bool job_doubts_rate(const struct job *job, uint64_t rows, struct errmsg *text);
/* Whether a separator of keys is a word of data.delimiter, at which values would be divided; *text = why. */
bool job_doubts_separators(const struct job *job, struct errmsg *text);
/* As Keras's mode "auto": false for errors and losses, and where neither is better. */
bool job_metric_larger_is_better(enum metric_kind kind);
/* Returns whether gradients are checked before they are applied and can be rejected. */
static inline bool nan_guard_refuses(uint32_t guard)
{
    return guard != NAN_GUARD_OFF && guard != NAN_GUARD_CHECK;
}

/* True if rows stay in their files, and each process reads those that it trains on. */
static inline bool job_streams(const struct job *job)
{
    return job->data.order == ORDER_STREAM;
}
/* True if they could. */
static inline bool job_can_stream(const struct job *job)
{
    return (job->data.format == DATA_CSV || job->data.format == DATA_PARQUET) &&
           job->training.update != UPDATE_GEO;
}
/* True if rows of data.train are held out, by their numbers or by the keys of a column. */
static inline bool job_holds_rows_out(const struct job *job)
{
    return job->data.validation.last > 0 || job->data.validation.share > 0;
}
/* The files to evaluate on, or NULL. */
static inline const char *job_eval_files(const struct job *job)
{
    return job->data.eval ? job->data.eval : job->data.validation.files;
}
/* metrics.by: the number of slices of rows: one for each of metrics.values, and the last for all other rows; 0: none. */
uint32_t job_slices(const struct job *job);
/* Index in model.lookup of the column metrics.by; UINT32_MAX: no layer looks up such a `key` column. */
uint32_t job_slices_lookup(const struct job *job);

/* Returns whether there is something to evaluate on. */
bool job_evaluates(const struct job *job);

/* Checks backup workers: each worker needs a microbatch, and sync.replicas_to_aggregate must not exceed the number
 * of workers. Errors: ERR_INPUT, with a value that works. */
enum err job_check_workers(const struct job *job, uint32_t workers, struct errmsg *e) MUST_CHECK;
/* For data without columns: the ids of the embeddings with input_dim that read the rows' numbers are 0 to this - 1; 0: no such
 * layer. */
uint32_t job_input_ids(const struct job *job);
/* The warning about a batch_normalization whose microbatches have one row; NULL: there is none. */
const char *job_one_row_warning(const struct job *job, char *out, size_t bytes);
/* The same about numbers and categories that no layer reads (key columns that no layer looks up are refused). */
const char *job_unread_warning(const struct job *job, char *out, size_t bytes);

/* Checks for settings that exclude an evaluator. Errors: ERR_INPUT, one line. */
enum err job_check_evaluator(const struct job *job, struct errmsg *e) MUST_CHECK;
/* Adds the origin of the key to the error in `e`, whose text must begin with the key's name ("model.loss: ..."): file
 * and line, or --set, or only the file if the key was not given. Returns `err`. Does nothing for ERR_OK and
 * ERR_NOMEM. */
enum err job_blame(const struct job *job, enum job_place place, enum err err, struct errmsg *e);
enum err job_blame_layer(const struct job *job, uint32_t layer, enum err err, struct errmsg *e);
/* Returns how many workers' leaves make a step; 0: all, because there are no backup workers. */
uint32_t job_replicas(const struct job *job, uint32_t workers);
/* Returns whether these keys, all of them run-time keys but training.update, keep the promise of equal bits. If not, `why` gets
 * the first that does not, as "compression.push: int8". */
enum { JOB_INEXACT_BYTES = 112 };
bool job_is_exact(const struct job *job, uint32_t workers, char why[JOB_INEXACT_BYTES]);

/* Returns whether examples have weights: a column of data.columns. */
bool job_has_weights(const struct job *job);

/* Returns whether the job has tables of rows by key. */
static inline bool job_has_tables(const struct job *job)
{
    return job->model.tables > 0;
}

/* Returns whether the model depends on the data: its input shape, or the positions of columns in its input. */
static inline bool job_needs_data(const struct job *job)
{
    return job->model.rank == 0 || job->model.selections > 0;
}

/* The number of the column with this name, also of a cross; csv->columns: there is none. */
uint32_t job_column_named(const struct job_csv *csv, const char *name, size_t bytes);

/* Writes the key columns of a cross to `of`, as indices of csv->column in the cross's order, and returns their number,
 * at least 2. Returns 0 if a name is no key column, or there are too few or too many. */
uint32_t job_cross_columns(const struct job_csv *csv, const struct job_column *cross,
                           uint32_t of[JOB_CROSS_MAX]);

/* Returns the names of the label's classes, a list (common/base/texts.h); NULL: the job names none. */
const char *job_class_names(const struct job_csv *csv);

/* Returns the character for data.delimiter. */
char job_delimiter_char(const struct job_csv *csv);
/* Returns the character for data.escape; '\0': none. */
char job_escape_char(const struct job_csv *csv);
/* Returns whether rows come from csv text, read or generated. */
bool job_reads_csv(const struct job *job);
/* Same, or from columns of Parquet: then data.columns describes values with names, which can be missing. */
bool job_reads_values(const struct job *job);
/* Same, or from libsvm text: then data.columns describes the rows. */
bool job_reads_columns(const struct job *job);
/* Returns whether the rows are generated clicks, for which the best possible scores are known. */
bool job_draws_clicks(const struct job *job);

/* In a list of texts of an identity text, `"a", "b"`: an odd number of them before a quote makes it one of the text. */
#define JOB_TEXTS_ESCAPE '\x1F'
/* The bytes of an identity text's first line without its end: the lines that follow it and begin with a tab are its own. */
size_t job_identity_line_bytes(const char *text);
/* Compares two identity texts. Errors: ERR_INPUT, naming the first different key with its old and new value
 * ("training.batch_size was 64, is 128"). */
enum err job_identity_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* For geo: replaces `geo_merge: auto` with the value in `was`, the identity text of the checkpoint from which the
 * job resumes; NULL: a new job. Updates job->identity_text, but not the hash, because other processes do not see
 * the checkpoint. Errors: ERR_NOMEM. */
enum err job_settle_merge(struct job *job, const char *was, struct errmsg *e) MUST_CHECK;
const char *job_geo_merge_word(enum geo_merge merge);
/* For model.weights: adds a line with `value`, which stands for the contents of the file. The chief alone reads the file,
 * so the hash does not change, and a text without the line has the same identity as an earlier text with one; the
 * reverse is a difference. Errors: ERR_NOMEM. */
enum err job_settle_weights(struct job *job, const char *value, struct errmsg *e) MUST_CHECK;
/* Copies the value of that line in an identity text. Returns false if there is none, or it does not fit. */
bool job_weights_of(const char *text, char *out, size_t bytes);
/* Same as job_identity_compare, but only for keys that determine what weights mean and how they are updated: model, tables, optimizer, and
 * how columns make keys. */
enum err job_identity_compare_model(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* The same for keys that determine how a field of a key column becomes words, such as data.trim, if both texts have such a
 * column. Files can change with them, so a difference is no error of a job. */
enum err job_identity_compare_fields(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* The same for the keys of data.columns alone. */
enum err job_identity_compare_columns(const char *was, const char *is, struct errmsg *e) MUST_CHECK;

/* Compares what a model's weights stand for, in two identity texts: the order and the scales of its input columns
 * (numbers and categories), and the order of its classes. Neither features nor classes have names in a model, so only
 * its position assigns a weight to a column or class. Pure. */

/* Checks that columns of the same name have the same position. A column that only one job has is not compared.
 * Errors: ERR_INPUT, naming the first column that moved. */
enum err column_order_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* Checks that numbers of the same name and position have the same scale. Errors: ERR_INPUT, naming the first column that
 * has another. */
enum err column_scale_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
/* Checks that a class of the same name has the same number; names can be new. A label without names has the numbers as names.
 * Errors: ERR_INPUT, naming the class. */
enum err class_order_compare(const char *was, const char *is, struct errmsg *e) MUST_CHECK;
