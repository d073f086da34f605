/* The job file's keys: data. */
#include <float.h>

#include "common/job/table.h"

static const struct job_word format_words[] = {
    {"idx", DATA_IDX, NULL, "MNIST's files, with any of the format's number types."},
    {"synthetic", DATA_SYNTHETIC, NULL, "Rows that gradwire generates; see `data.synthetic`."},
    {"cifar10", DATA_CIFAR10, NULL, "The binary batches of CIFAR-10, of shape `[32, 32, 3]`."},
    {"csv", DATA_CSV, NULL, "Text with one row a line; `data.columns` describes its columns."},
    {"libsvm", DATA_LIBSVM, NULL, "Text with one row a line: `label index:value index:value ...`."},
    {"npy", DATA_NPY, NULL, "NumPy arrays; `.npy` and `.npz` files."},
    {"npz", DATA_NPY, NULL, "Another name of `npy`."},
    LATER("tfrecord"),
    LAST_WORD,
};

static const struct job_word column_words[] = {
    {"number", COLUMN_NUMBER, "name", "A number: one feature, or several with `buckets`."},
    {"category", COLUMN_CATEGORY, "name",
     "A word of a vocabulary: one feature for each, or its id."},
    {"label", COLUMN_LABEL, "name", "The value to predict. A file has exactly one."},
    {"ignore", COLUMN_IGNORE, "name", "A column that is not read."},
    {"key", COLUMN_KEY, "name", "A word that looks up one row of a [table](#tables)."},
    {"keys", COLUMN_KEYS, "name", "Several words that look up rows of a table."},
    {"cross", COLUMN_CROSS, NULL,
     "A key made of the keys of other columns. It is not a column of the file."},
    {"weight", COLUMN_WEIGHT, "name",
     "A number from 0 that multiplies the loss, gradient and metrics of the row."},
    LAST_WORD,
};

static const struct job_word scale_words[] = {
    {"none", SCALE_NONE, NULL, NULL},       {"standard", SCALE_STANDARD, NULL, NULL},
    {"min_max", SCALE_MIN_MAX, NULL, NULL}, {"log1p", SCALE_LOG1P, NULL, NULL},
    {"log2", SCALE_LOG2, NULL, NULL},       LAST_WORD,
};

static const struct job_word missing_words[] = {
    {"mean", MISSING_MEAN, NULL, NULL},
    {"value", MISSING_VALUE, "value", NULL},
    {"refuse", MISSING_REFUSE, NULL, NULL},
    LAST_WORD,
};

static const struct job_word buckets_words[] = {
    {"none", BUCKETS_NONE, NULL, NULL},
    {"log_squared", BUCKETS_LOG_SQUARED, NULL, NULL},
    {"quantiles", BUCKETS_QUANTILES, "count", NULL},
    {"borders", BUCKETS_BORDERS, "at", NULL},
    LAST_WORD,
};

static const struct job_word encode_words[] = {
    {"one_hot", ENCODE_ONE_HOT, NULL, NULL},
    {"id", ENCODE_ID, NULL, NULL},
    LAST_WORD,
};

static const struct job_word key_missing_words[] = {
    {"empty", KEY_MISSING_EMPTY, NULL, NULL},
    {"none", KEY_MISSING_NONE, NULL, NULL},
    {"key", KEY_MISSING_KEY, "key", NULL},
    LAST_WORD,
};

static const struct job_word header_words[] = {
    {"none", HEADER_NONE, NULL, NULL},
    {"skip", HEADER_SKIP, NULL, NULL},
    {"names", HEADER_NAMES, NULL, NULL},
    LAST_WORD,
};

static const struct job_word delimiter_words[] = {
    {"comma", DELIMITER_COMMA, NULL, NULL},         {"tab", DELIMITER_TAB, NULL, NULL},
    {"semicolon", DELIMITER_SEMICOLON, NULL, NULL}, {"pipe", DELIMITER_PIPE, NULL, NULL},
    {"space", DELIMITER_SPACE, NULL, NULL},         LAST_WORD,
};

/* The characters themselves. "\t" in double quotes is a tab; without double quotes it is the two characters \t,
 * and means a tab, too. */
static const struct job_word delimiter_spellings[] = {
    {",", DELIMITER_COMMA, NULL, NULL},
    {"\t", DELIMITER_TAB, NULL, NULL},
    {"\\t", DELIMITER_TAB, NULL, NULL},
    {";", DELIMITER_SEMICOLON, NULL, NULL},
    {"|", DELIMITER_PIPE, NULL, NULL},
    {" ", DELIMITER_SPACE, NULL, NULL},
    LAST_WORD,
};

static const struct job_word bad_rows_words[] = {
    {"stop", BAD_ROWS_STOP, NULL, NULL},
    {"skip", BAD_ROWS_SKIP, NULL, NULL},
    LAST_WORD,
};

static const struct job_word encoding_words[] = {
    {"extend", ENCODING_EXTEND, NULL, NULL},
    {"keep", ENCODING_KEEP, NULL, NULL},
    {"learn", ENCODING_LEARN, NULL, NULL},
    LAST_WORD,
};

static const struct job_word synthetic_words[] = {
    {"digits", SYNTHETIC_DIGITS, NULL, NULL},
    {"census", SYNTHETIC_CENSUS, NULL, NULL},
    {"clicks", SYNTHETIC_CLICKS, NULL, NULL},
    LAST_WORD,
};

static const struct job_word flip_words[] = {
    {"none", FLIP_NONE, NULL, NULL},
    {"horizontal", FLIP_HORIZONTAL, NULL, NULL},
    LAST_WORD,
};

#define COLUMN_KEY(name, type, member, text, ...)                                                  \
    ROW(JOB_COLUMN_PREFIX name, type, job_column, member, text, .identity = true, __VA_ARGS__)
#define COLUMN_NAME(word)                                                                          \
    COLUMN_KEY("." word ".name", TEXT, name,                                                       \
               "The column's name, in messages and for `inputs` of layers. With `data.header: "    \
               "names`, the header has it. `x{1..9}` makes nine columns, x1 to x9.",               \
               EXAMPLE("age"), .fallback_doc = "none")
#define KEY_NAME(text, name)                                                                       \
    text " Layers have it in their `inputs`.", EXAMPLE(name), .required = true
#define KEY_BUCKETS                                                                                \
    "Take the key modulo this number (the hashing trick). 0: use the whole key.",                  \
        EXAMPLE("1000000"), RANGE(0, UINT64_MAX), .fallback = "0"

/* The options of key and keys. */
#define KEY_OPTIONS(word, if_missing)                                                              \
    COLUMN_KEY("." word ".name", TEXT, name,                                                       \
               KEY_NAME("The column's name. `C{1..26}` makes 26 columns.", "user")),               \
        COLUMN_KEY("." word ".hash", BOOL, key.hash,                                               \
                   "Hash the word to make its key. `false`: words are the keys, integers from 0 "  \
                   "to 2^64 - 1.",                                                                 \
                   EXAMPLE("false"), .fallback = "true"),                                          \
        COLUMN_KEY("." word ".space", TEXT, key.space,                                             \
                   "The name that is hashed with the word. Columns with the same space have the "  \
                   "same key for the same word.",                                                  \
                   EXAMPLE("people"), .fallback_doc = "the column's name"),                        \
        COLUMN_KEY("." word ".buckets", U64, key.buckets, KEY_BUCKETS),                            \
        COLUMN_KEY("." word ".missing", CHOICE, key.missing,                                       \
                   "The key of a missing value. `empty`: that of the empty word. `none`: no key, " \
                   "so nothing is looked up. `{key: 0}`: that key, with `hash: false`.",           \
                   EXAMPLE("none"), .words = key_missing_words, .fallback = if_missing),           \
        COLUMN_KEY("." word ".missing.key.key", U64, key.missing_key,                              \
                   "The key of a missing value.", EXAMPLE("0"), RANGE(0, UINT64_MAX),              \
                   .fallback = "0")

/* These keys can stay when data.format changes. */
static bool is_of_clicks(const struct job *job)
{
    return job->data.synthetic == SYNTHETIC_CLICKS;
}

#define OF_CLICKS HEEDED(is_of_clicks, "it has no effect without data.synthetic: clicks; remove it")
#define OF_CSV                                                                                     \
    HEEDED(job_reads_csv, "it is for csv data: data.format: csv, or synthetic with "               \
                          "data.synthetic: census or clicks; remove it")
#define OF_COLUMNS                                                                                 \
    HEEDED(job_reads_columns, "it is for data.format: csv or libsvm, or synthetic with "           \
                              "data.synthetic: census or clicks; remove it")

static const struct job_key keys[] = {
    JOB_KEY("data.format", WORD, data.format,
            "The format of the files. Each file is plain, gzip or zstd.", EXAMPLE("csv"),
            .required = true, .words = format_words),
    JOB_KEY("data.train", PATHS, data.train,
            "The files to train on. A relative path starts at the job file, or with --set at the "
            "current directory. One pattern can match images and labels together. `set.npz:x` is "
            "the array x of an archive.",
            EXAMPLE("train-*.csv.gz"), .fallback_doc = "required, except by `synthetic`"),
    JOB_KEY("data.eval", PATHS, data.eval, "The files to evaluate on.", EXAMPLE("eval.csv.gz"),
            .fallback_doc = "no evaluation"),
    JOB_KEY("data.scale", REAL, data.scale, "Divide all inputs by this number.", EXAMPLE("255"),
            POSITIVE, .identity = true, .fallback = "1"),
    JOB_KEY("data.synthetic", WORD, data.synthetic,
            "The rows to generate. `digits`: images of shape [28, 28]. `census`: csv text like "
            "UCI's Adult. `clicks`: csv text like Criteo's logs, with a label, 13 numbers and key "
            "columns.",
            EXAMPLE("clicks"), .identity = true, .words = synthetic_words, .fallback = "digits"),
    JOB_KEY("data.synthetic_train_rows", U32, data.synthetic_train_rows,
            "The number of generated rows to train on.", EXAMPLE("100000"), RANGE(1, 10000000),
            .identity = true, .fallback = "60000"),
    JOB_KEY("data.synthetic_eval_rows", U32, data.synthetic_eval_rows,
            "The number of generated rows to evaluate on.", EXAMPLE("5000"), RANGE(1, 10000000),
            .identity = true, .fallback = "10000"),
    JOB_KEY("data.synthetic_fields", U32, data.synthetic_fields,
            "`clicks`: the number of key columns.", EXAMPLE("8"), RANGE(1, JOB_CLICK_FIELDS_MAX),
            .identity = true, .fallback = "26", OF_CLICKS),
    JOB_KEY("data.synthetic_keys", U32, data.synthetic_keys,
            "`clicks`: the number of keys of all key columns together, at least one for each.",
            EXAMPLE("100000"), RANGE(1, 1000000000), .identity = true, .fallback = "1000000",
            OF_CLICKS),
    JOB_KEY("data.synthetic_interaction", U32, data.synthetic_interaction,
            "`clicks`: the rank of the term that pairs of keys add to the logit. 0: no such term, "
            "so a logistic regression can learn everything.",
            EXAMPLE("2"), RANGE(0, 4), .identity = true, .fallback = "0", OF_CLICKS),
    JOB_KEY("data.columns", COLUMNS, data.csv.columns,
            "The columns of the file in their order. Write each as `KIND`, `KIND: NAME` or `KIND: "
            "{option: value}`. Their features make the model's input, in this order. `libsvm` "
            "has two columns: `[label, keys: {name: features, max_values: 64}]`.",
            EXAMPLE("[{number: age}, {label: income}]"), .identity = true,
            .fallback_doc = "required by `csv` and `libsvm`", OF_COLUMNS),
    COLUMN_KEY("", CHOICE, kind, "One column.", EXAMPLE("{number: age}"), .words = column_words),
    COLUMN_NAME("number"),
    COLUMN_KEY(
        ".number.scale", WORD, scale,
        "How the number is scaled. `standard`: (x - mean) / standard deviation. `min_max`: from 0 "
        "to 1. Both use the training part's numbers. `log1p`: ln(1 + x), or 0 if x < 0. `log2`: "
        "log2(x), or 0 if x < 1.",
        EXAMPLE("standard"), .words = scale_words, .fallback = "none"),
    COLUMN_KEY(".number.missing", CHOICE, missing,
               "The value of a missing number. `mean`: the mean of the training part. `{value: "
               "0}`: that number. `refuse`: none; the row is bad.",
               EXAMPLE("{value: 0}"), .words = missing_words, .fallback = "mean"),
    COLUMN_KEY(".number.missing.value.value", REAL, missing_value,
               "The number, as it would be in the file: `scale` applies to it.", EXAMPLE("-1"),
               ANY_REAL, .fallback = "0"),
    COLUMN_KEY(".number.buckets", CHOICE, buckets,
               "Turn the number into a category. `{quantiles: 10}`: ten buckets with the same "
               "number of rows in the training part. `{borders: [0, 10]}`: below 0, from 0, from "
               "10. `log_squared`: floor(ln(x)^2) above 2, one bucket for each integer below. A "
               "missing number has no bucket, unless `missing` is a value.",
               EXAMPLE("{quantiles: 10}"), .words = buckets_words, .fallback = "none"),
    COLUMN_KEY(".number.buckets.quantiles.count", U32, quantiles,
               "The number of buckets. Equal borders count once, so there can be fewer.",
               EXAMPLE("10"), RANGE(2, JOB_QUANTILES_MAX), .fallback = "10"),
    COLUMN_KEY(".number.buckets.borders.at", TEXTS, words,
               "The numbers at which buckets begin, in rising order.", EXAMPLE("[18, 30, 65]"),
               .fallback_doc = "required"),
    COLUMN_KEY(".number.encode", WORD, encode,
               "The features of a bucket. `one_hot`: one for each bucket, 1 or 0. `id`: one "
               "feature, the bucket's number from 1.",
               EXAMPLE("id"), .words = encode_words, .fallback = "one_hot"),
    COLUMN_NAME("category"),
    COLUMN_KEY(".category.encode", WORD, encode,
               "The features of a word. `one_hot`: one for each word, 1 or 0. `id`: one feature, "
               "the word's number from 1. All are 0 if the vocabulary lacks the word.",
               EXAMPLE("id"), .words = encode_words, .fallback = "one_hot"),
    COLUMN_KEY(
        ".category.vocabulary", TEXTS, words,
        "The words in order. A missing value is one more word, after the last. (If words are "
        "learned, a missing value is a word like any other.)",
        EXAMPLE("[S, M, L]"),
        .fallback_doc = "the words of the training part, in the order of their first "
                        "occurrence"),
    COLUMN_NAME("label"),
    COLUMN_KEY(
        ".label.classes", TEXTS, words,
        "The names of classes 0, 1, and so on. `a|b` puts both names into one class, `*` all "
        "other names.",
        EXAMPLE("[\"<=50K\", \">50K\"]"), .fallback_doc = "labels are numbers"),
    COLUMN_NAME("weight"),
    COLUMN_NAME("ignore"),
    KEY_OPTIONS("key", "empty"),
    KEY_OPTIONS("keys", "none"),
    COLUMN_KEY(".cross.name", TEXT, name, KEY_NAME("The cross's name.", "user_site")),
    COLUMN_KEY(".cross.of", TEXTS, words,
               "The names of the key columns. [data.md](data.md#keys) says how their keys are "
               "combined.",
               EXAMPLE("[user, site]"), .required = true),
    COLUMN_KEY(".cross.space", TEXT, key.space, "The name that is hashed with the keys.",
               EXAMPLE("pairs"), .fallback_doc = "the column's name"),
    COLUMN_KEY(".cross.buckets", U64, key.buckets, KEY_BUCKETS),
    COLUMN_KEY(".keys.separator", TEXT, key.separator, "The text between the values of a field.",
               EXAMPLE("\" \""), .fallback = ","),
    COLUMN_KEY(".keys.max_values", U32, key.max_values,
               "The most values in a field. A row with more is bad.", EXAMPLE("20"), RANGE(1, 4096),
               .required = true),
    COLUMN_KEY(".keys.weights", BOOL, key.weights,
               "A value can end with `:` and a weight, as in `a:0.5`. Without one its weight is 1.",
               EXAMPLE("true"), .fallback = "false"),
    JOB_KEY("data.header", WORD, data.csv.header,
            "`csv`: the meaning of each file's first line. `none`: it is a row. `skip`: ignore it. "
            "`names`: it names the columns, and those in `data.columns` are read in any order.",
            EXAMPLE("names"), .identity = true, .words = header_words, .fallback = "none", OF_CSV),
    JOB_KEY("data.delimiter", WORD, data.csv.delimiter,
            "`csv`: the character between fields. It can also be written itself, in quotes: "
            "`\"\\t\"`.",
            EXAMPLE("tab"), .identity = true, .words = delimiter_words,
            .spellings = delimiter_spellings, .fallback = "comma", OF_CSV),
    JOB_KEY("data.quotes", BOOL, data.csv.quotes,
            "`csv`: fields can be in double quotes, as in RFC 4180.", EXAMPLE("false"),
            .identity = true, .fallback = "true", OF_CSV),
    JOB_KEY("data.trim", BOOL, data.csv.trim, "`csv`: remove spaces and tabs around each field.",
            EXAMPLE("true"), .identity = true, .fallback = "false", OF_CSV),
    JOB_KEY("data.comment", TEXT, data.csv.comment,
            "`csv`: ignore the lines that begin with this text. Empty lines are always ignored.",
            EXAMPLE("\"#\""), .identity = true, .fallback_doc = "none", OF_CSV),
    JOB_KEY("data.missing", TEXTS, data.csv.missing,
            "`csv`: the fields that mean a missing value, as one text or a list.",
            EXAMPLE("[\"\", \"?\"]"), .identity = true, .fallback = "", OF_CSV),
    JOB_KEY("data.bad_rows", WORD, data.csv.bad_rows,
            "`csv`, `libsvm`: the effect of a row that cannot be read. `stop`: it ends the job. "
            "`skip`: it keeps its index, with weight 0.",
            EXAMPLE("skip"), .words = bad_rows_words, .fallback = "stop", OF_COLUMNS),
    JOB_KEY("data.bad_rows_max", U32, data.csv.bad_rows_max,
            "`csv`, `libsvm`: with `bad_rows: skip`, more bad rows than this in one part end the "
            "job.",
            EXAMPLE("100"), RANGE(0, UINT32_MAX), .fallback = "1000", OF_COLUMNS),
    JOB_KEY("data.encoding", WORD, data.csv.encoding,
            "`csv`, `libsvm`: the use of the last checkpoint's words, scales and buckets by a run "
            "that `checkpoint.run` begins. `extend`: take them, and append new words. `keep`: take "
            "them, and treat new words as unknown. `learn`: learn them from this data alone, so "
            "the weights must fit them.",
            EXAMPLE("keep"), .words = encoding_words, .fallback = "extend", OF_COLUMNS),
    JOB_KEY("data.memory_mb", U32, data.memory_mb,
            "`csv`, `libsvm`: how many MiB of rows a process keeps in memory, of both parts. The "
            "rest is in a file in `data.spill`. 0: a quarter of the memory that the machine or the "
            "cgroup has, shared by the processes of one host.",
            EXAMPLE("4096"), RANGE(0, UINT32_MAX), .fallback = "0", OF_COLUMNS),
    JOB_KEY("data.spill", FOLDER, data.spill,
            "`csv`, `libsvm`: the directory of that file. The file has no name and disappears with "
            "its process. A relative path starts at the job file, or with --set at the current "
            "directory.",
            EXAMPLE("/var/tmp"), .fallback_doc = "TMPDIR, or /tmp", OF_COLUMNS),
    JOB_KEY("data.augment.flip", WORD, data.augment.flip,
            "Training images: mirror half of them, left to right.", EXAMPLE("horizontal"),
            .identity = true, .words = flip_words, .fallback = "none"),
    JOB_KEY("data.augment.crop", U32, data.augment.crop,
            "Training images: add this many pixels of zeros on each side, then cut out a window of "
            "the original size at a random position.",
            EXAMPLE("4"), RANGE(0, 1024), .identity = true, .fallback = "0"),
    JOB_KEY("data.augment.shift", U32, data.augment.shift,
            "Training images: move them by up to this many pixels each way, and repeat the border.",
            EXAMPLE("2"), RANGE(0, 1024), .identity = true, .fallback = "0"),
};
const struct job_key_table job_table_data = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
