/* The job file's keys: data. */
#include <float.h>

#include "common/job/table.h"

static const struct job_word format_words[] = {
    {"idx", DATA_IDX, NULL},
    {"synthetic", DATA_SYNTHETIC, NULL},
    {"cifar10", DATA_CIFAR10, NULL},
    {"csv", DATA_CSV, NULL},
    {"libsvm", DATA_LIBSVM, NULL},
    {"npy", DATA_NPY, NULL},
    {"npz", DATA_NPY, NULL},
    LATER("tfrecord"),
    LAST_WORD,
};

static const struct job_word column_words[] = {
    {"number", COLUMN_NUMBER, "name"},
    {"category", COLUMN_CATEGORY, "name"},
    {"label", COLUMN_LABEL, "name"},
    {"ignore", COLUMN_IGNORE, "name"},
    {"key", COLUMN_KEY, "name"},
    {"keys", COLUMN_KEYS, "name"},
    {"cross", COLUMN_CROSS, NULL},
    {"weight", COLUMN_WEIGHT, "name"},
    LAST_WORD,
};

static const struct job_word scale_words[] = {
    {"none", SCALE_NONE, NULL},       {"standard", SCALE_STANDARD, NULL},
    {"min_max", SCALE_MIN_MAX, NULL}, {"log1p", SCALE_LOG1P, NULL},
    {"log2", SCALE_LOG2, NULL},       LAST_WORD,
};

static const struct job_word missing_words[] = {
    {"mean", MISSING_MEAN, NULL},
    {"value", MISSING_VALUE, "value"},
    {"refuse", MISSING_REFUSE, NULL},
    LAST_WORD,
};

static const struct job_word buckets_words[] = {
    {"none", BUCKETS_NONE, NULL},
    {"log_squared", BUCKETS_LOG_SQUARED, NULL},
    {"quantiles", BUCKETS_QUANTILES, "count"},
    {"borders", BUCKETS_BORDERS, "at"},
    LAST_WORD,
};

static const struct job_word encode_words[] = {
    {"one_hot", ENCODE_ONE_HOT, NULL},
    {"id", ENCODE_ID, NULL},
    LAST_WORD,
};

static const struct job_word key_missing_words[] = {
    {"empty", KEY_MISSING_EMPTY, NULL},
    {"none", KEY_MISSING_NONE, NULL},
    {"key", KEY_MISSING_KEY, "key"},
    LAST_WORD,
};

static const struct job_word header_words[] = {
    {"none", HEADER_NONE, NULL},
    {"skip", HEADER_SKIP, NULL},
    {"names", HEADER_NAMES, NULL},
    LAST_WORD,
};

static const struct job_word delimiter_words[] = {
    {"comma", DELIMITER_COMMA, NULL},         {"tab", DELIMITER_TAB, NULL},
    {"semicolon", DELIMITER_SEMICOLON, NULL}, {"pipe", DELIMITER_PIPE, NULL},
    {"space", DELIMITER_SPACE, NULL},         LAST_WORD,
};

/* The characters themselves. "\t" in double quotes is a tab; without double quotes it is the two characters \t,
 * and means a tab, too. */
static const struct job_word delimiter_spellings[] = {
    {",", DELIMITER_COMMA, NULL},
    {"\t", DELIMITER_TAB, NULL},
    {"\\t", DELIMITER_TAB, NULL},
    {";", DELIMITER_SEMICOLON, NULL},
    {"|", DELIMITER_PIPE, NULL},
    {" ", DELIMITER_SPACE, NULL},
    LAST_WORD,
};

static const struct job_word bad_rows_words[] = {
    {"stop", BAD_ROWS_STOP, NULL},
    {"skip", BAD_ROWS_SKIP, NULL},
    LAST_WORD,
};

static const struct job_word encoding_words[] = {
    {"extend", ENCODING_EXTEND, NULL},
    {"keep", ENCODING_KEEP, NULL},
    {"learn", ENCODING_LEARN, NULL},
    LAST_WORD,
};

static const struct job_word synthetic_words[] = {
    {"digits", SYNTHETIC_DIGITS, NULL},
    {"census", SYNTHETIC_CENSUS, NULL},
    {"clicks", SYNTHETIC_CLICKS, NULL},
    LAST_WORD,
};

static const struct job_word flip_words[] = {
    {"none", FLIP_NONE, NULL},
    {"horizontal", FLIP_HORIZONTAL, NULL},
    LAST_WORD,
};

#define COLUMN_KEY(name, type, member, text, ...)                                                  \
    ROW(JOB_COLUMN_PREFIX name, type, job_column, member, text, .identity = true, __VA_ARGS__)
#define COLUMN_NAME(word)                                                                          \
    COLUMN_KEY("." word ".name", TEXT, name,                                                       \
               "names it in messages; with `data.header: names` the header has it; `x{1..9}` is "  \
               "nine columns, x1 to x9",                                                           \
               .fallback_doc = "none")

/* The options of key and keys. */
#define KEY_OPTIONS(word, if_missing)                                                              \
    COLUMN_KEY("." word ".name", TEXT, name,                                                       \
               "layers name it in their `inputs`; `C{1..26}` is 26 columns", .required = true),    \
        COLUMN_KEY(                                                                                \
            "." word ".hash", BOOL, key.hash,                                                      \
            "a word's key is its hash; `false`: words are integers from 0 to 2^64 - 1, the "       \
            "keys themselves",                                                                     \
            .fallback = "true"),                                                                   \
        COLUMN_KEY("." word ".space", TEXT, key.space,                                             \
                   "columns of one space have the same key for the same word",                     \
                   .fallback_doc = "the column's name"),                                           \
        COLUMN_KEY("." word ".buckets", U64, key.buckets,                                          \
                   "keys are taken modulo it (the hashing trick); 0: as they are",                 \
                   RANGE(0, UINT64_MAX), .fallback = "0"),                                         \
        COLUMN_KEY("." word ".missing", CHOICE, key.missing,                                       \
                   "the key of a missing value: that of the empty word, `none` (it looks nothing " \
                   "up), or with `hash: false` `{key: 0}`",                                        \
                   .words = key_missing_words, .fallback = if_missing),                            \
        COLUMN_KEY("." word ".missing.key.key", U64, key.missing_key, "the key",                   \
                   RANGE(0, UINT64_MAX), .fallback = "0")

/* These keys can stay when data.format changes. */
static bool is_of_clicks(const struct job *job)
{
    return job->data.synthetic == SYNTHETIC_CLICKS;
}

#define OF_CLICKS HEEDED(is_of_clicks, "it is of data.synthetic: clicks; leave it out")
#define OF_CSV                                                                                     \
    HEEDED(job_reads_csv,                                                                          \
           "it is of csv: data.format: csv, or synthetic with data.synthetic: census or clicks; "  \
           "leave it out")
#define OF_COLUMNS                                                                                 \
    HEEDED(job_reads_columns,                                                                      \
           "it is of data.format: csv or libsvm, or synthetic with data.synthetic: census or "     \
           "clicks; leave it out")

static const struct job_key keys[] = {
    JOB_KEY(
        "data.format", WORD, data.format,
        "`idx`: files as of MNIST, of any type of number; `npy`, or `npz`: numpy's arrays; "
        "`cifar10`: CIFAR-10's binary batches, shape [32, 32, 3]; "
        "`csv`: text, a row a line, as `data.columns` describes it; `libsvm`: text, a row a line: "
        "`label index:value index:value ..`; `synthetic`: rows drawn by code. Files may be "
        "plain, .gz or .zst",
        .required = true, .words = format_words),
    JOB_KEY("data.train", PATHS, data.train,
            "files to train on: a path, a glob, or a list of these; relative to the job file, by "
            "--set to the current folder; images and labels may match together; `set.npz:x` is the "
            "array "
            "x of an archive",
            .fallback_doc = "none; required by all but `synthetic`"),
    JOB_KEY("data.eval", PATHS, data.eval, "files to evaluate on, in the same way",
            .fallback_doc = "none"),
    JOB_KEY("data.scale", REAL, data.scale, "inputs are divided by it", POSITIVE, .identity = true,
            .fallback = "1"),
    JOB_KEY("data.synthetic", WORD, data.synthetic,
            "what is drawn: `digits`: images [28, 28]; `census`: csv text as of UCI's Adult, read "
            "by `data.columns`; `clicks`: csv text in the look of Criteo's logs: a label, 13 "
            "numbers, key columns",
            .identity = true, .words = synthetic_words, .fallback = "digits"),
    JOB_KEY("data.synthetic_train_rows", U32, data.synthetic_train_rows,
            "`synthetic`: rows to train on", RANGE(1, 10000000), .identity = true,
            .fallback = "60000"),
    JOB_KEY("data.synthetic_eval_rows", U32, data.synthetic_eval_rows,
            "`synthetic`: rows to evaluate on", RANGE(1, 10000000), .identity = true,
            .fallback = "10000"),
    JOB_KEY("data.synthetic_fields", U32, data.synthetic_fields, "`clicks`: key columns",
            RANGE(1, JOB_CLICK_FIELDS_MAX), .identity = true, .fallback = "26", OF_CLICKS),
    JOB_KEY("data.synthetic_keys", U32, data.synthetic_keys,
            "`clicks`: keys of all key columns together, at least one for each",
            RANGE(1, 1000000000), .identity = true, .fallback = "1000000", OF_CLICKS),
    JOB_KEY("data.synthetic_interaction", U32, data.synthetic_interaction,
            "`clicks`: the rank of what pairs of keys add to the logit; 0: keys count each alone, "
            "so a logistic regression can learn all that there is",
            RANGE(0, 4), .identity = true, .fallback = "0", OF_CLICKS),
    JOB_KEY("data.columns", COLUMNS, data.csv.columns,
            "`csv`: the columns in the order of the file, each `kind`, `kind: name` or `kind: "
            "{option: value}`; their features make a row in this order. `libsvm`: `[label, keys: "
            "{name: features, max_values: 64}]`",
            .identity = true, .fallback_doc = "none; required by `csv` and `libsvm`", OF_COLUMNS),
    COLUMN_KEY("", CHOICE, kind,
               "one column; one of them is the label. A `weight` is a number, at least 0, that the "
               "example's loss, gradient and metrics are multiplied by",
               .words = column_words),
    COLUMN_NAME("number"),
    COLUMN_KEY(
        ".number.scale", WORD, scale,
        "by the training part: `standard`: (x - mean) / standard deviation; `min_max`: to 0..1. "
        "`log1p`: ln(1 + x), of what is below 0 it is 0; `log2`: log2(x), of what is below 1 it is "
        "0",
        .words = scale_words, .fallback = "none"),
    COLUMN_KEY(
        ".number.missing", CHOICE, missing,
        "what stands for a missing one: the training part's mean, `{value: 0}`, or the row is bad",
        .words = missing_words, .fallback = "mean"),
    COLUMN_KEY(".number.missing.value.value", REAL, missing_value,
               "the number, as in the file: it is scaled too", ANY_REAL, .fallback = "0"),
    COLUMN_KEY(".number.buckets", CHOICE, buckets,
               "it becomes a category, of buckets: `log_squared`: floor(ln(x)^2) above 2, the "
               "integer below; `{quantiles: 10}`: as many, of the same number of rows of the "
               "training part; `{borders: [0, 10]}`: below 0, from 0, from 10. A missing one is in "
               "none, but for `missing: {value: 0}`",
               .words = buckets_words, .fallback = "none"),
    COLUMN_KEY(".number.buckets.quantiles.count", U32, quantiles,
               "how many; equal borders are one, so there may be fewer",
               RANGE(2, JOB_QUANTILES_MAX), .fallback = "10"),
    COLUMN_KEY(".number.buckets.borders.at", TEXTS, words, "where buckets begin: rising numbers",
               .fallback_doc = "required by `borders`"),
    COLUMN_KEY(".number.encode", WORD, encode,
               "of buckets: `one_hot`: a feature for each, 1 or 0; `id`: one feature, the bucket's "
               "number from 1",
               .words = encode_words, .fallback = "one_hot"),
    COLUMN_NAME("category"),
    COLUMN_KEY(".category.encode", WORD, encode,
               "`one_hot`: a feature for each word, 1 or 0; `id`: one feature, the word's number "
               "from 1. A word that is not in the vocabulary is all 0",
               .words = encode_words, .fallback = "one_hot"),
    COLUMN_KEY(".category.vocabulary", TEXTS, words,
               "its words; a missing value is one more, behind them (learned: one like any other)",
               .fallback_doc =
                   "the words of the training part, in the order in which they first occur"),
    COLUMN_NAME("label"),
    COLUMN_KEY(".label.classes", TEXTS, words,
               "the names of classes 0, 1, ..: `a|b` takes both for one class, `*` all others",
               .fallback_doc = "labels are numbers"),
    COLUMN_NAME("weight"),
    COLUMN_NAME("ignore"),
    KEY_OPTIONS("key", "empty"),
    KEY_OPTIONS("keys", "none"),
    COLUMN_KEY(".cross.name", TEXT, name, "layers name it in their `inputs`; it is no field",
               .required = true),
    COLUMN_KEY(".cross.of", TEXTS, words,
               "names of key columns; its key is made of theirs (docs/reference/data.md, \"Keys\")",
               .required = true),
    COLUMN_KEY(".cross.space", TEXT, key.space, "part of the hash",
               .fallback_doc = "the column's name"),
    COLUMN_KEY(".cross.buckets", U64, key.buckets, "keys are taken modulo it; 0: as they are",
               RANGE(0, UINT64_MAX), .fallback = "0"),
    COLUMN_KEY(".keys.separator", TEXT, key.separator, "stands between the values of a field",
               .fallback = ","),
    COLUMN_KEY(".keys.max_values", U32, key.max_values,
               "room for so many values; a row with more is bad", RANGE(1, 4096), .required = true),
    COLUMN_KEY(".keys.weights", BOOL, key.weights,
               "a value may end with `:` and a weight, as in `a:0.5`; without it weighs 1",
               .fallback = "false"),
    JOB_KEY("data.header", WORD, data.csv.header,
            "`csv`: the first line of each file: `skip`: is left out; `names`: names the columns, "
            "of which those in data.columns are read, in any order",
            .identity = true, .words = header_words, .fallback = "none", OF_CSV),
    JOB_KEY(
        "data.delimiter", WORD, data.csv.delimiter,
        "`csv`: what stands between fields; the character itself in quotes, `\"\\t\"`, means the "
        "same",
        .identity = true, .words = delimiter_words, .spellings = delimiter_spellings,
        .fallback = "comma", OF_CSV),
    JOB_KEY("data.quotes", BOOL, data.csv.quotes,
            "`csv`: fields may be in double quotes, as in RFC 4180", .identity = true,
            .fallback = "true", OF_CSV),
    JOB_KEY("data.trim", BOOL, data.csv.trim,
            "`csv`: spaces and tabs around a field do not belong to it", .identity = true,
            .fallback = "false", OF_CSV),
    JOB_KEY("data.comment", TEXT, data.csv.comment,
            "`csv`: lines that begin so are left out, as empty ones are", .identity = true,
            .fallback_doc = "none", OF_CSV),
    JOB_KEY("data.missing", TEXTS, data.csv.missing,
            "`csv`: the fields that mean a missing value: a text or a list", .identity = true,
            .fallback = "", OF_CSV),
    JOB_KEY("data.bad_rows", WORD, data.csv.bad_rows,
            "`csv`, `libsvm`: a row that cannot be read ends the job, or keeps its place with "
            "weight 0",
            .words = bad_rows_words, .fallback = "stop", OF_COLUMNS),
    JOB_KEY("data.bad_rows_max", U32, data.csv.bad_rows_max,
            "`csv`, `libsvm`: more bad rows than that, of `skip`, in a part end the job all the "
            "same",
            RANGE(0, UINT32_MAX), .fallback = "1000", OF_COLUMNS),
    JOB_KEY("data.encoding", WORD, data.csv.encoding,
            "`csv`, `libsvm`: what a run that `checkpoint.run` begins takes from the last "
            "checkpoint of the words, scales and buckets that were learned. `extend`: all of them; "
            "new words come behind those that are there. `keep`: all of them; a new word is "
            "unknown. `learn`: none, they are learned from this data alone, so the weights must "
            "fit them",
            .words = encoding_words, .fallback = "extend", OF_COLUMNS),
    JOB_KEY("data.memory_mb", U32, data.memory_mb,
            "`csv`, `libsvm`: MiB of rows that a process keeps in memory, of both parts; the rest "
            "is in a "
            "file of its own in `data.spill`. 0: a quarter of the memory that it may use (by the "
            "cgroup, too), which processes of one host share out",
            RANGE(0, UINT32_MAX), .fallback = "0", OF_COLUMNS),
    JOB_KEY(
        "data.spill", FOLDER, data.spill,
        "`csv`, `libsvm`: the folder of that file, which has no name and is gone with its process; "
        "relative to the job file, by --set to the current folder",
        .fallback_doc = "TMPDIR, or /tmp", OF_COLUMNS),
    JOB_KEY("data.augment.flip", WORD, data.augment.flip,
            "images, in training: half of them mirrored, left to right", .identity = true,
            .words = flip_words, .fallback = "none"),
    JOB_KEY("data.augment.crop", U32, data.augment.crop,
            "images, in training: a window of their size, anywhere in them with so many pixels of "
            "zeros around",
            RANGE(0, 1024), .identity = true, .fallback = "0"),
    JOB_KEY("data.augment.shift", U32, data.augment.shift,
            "images, in training: moved by up to so many pixels each way, the border repeated",
            RANGE(0, 1024), .identity = true, .fallback = "0"),
};
const struct job_key_table job_table_data = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
