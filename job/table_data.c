/* The job file's keys: data. */

#include "job/table.h"

/* float32's 1 / scale is a number, and not 0. */
#define INSIDE_ONE .low = 0, .high = 1, .low_open = true, .high_open = true
#define SCALES .low = 0, .high = 8e37F, .low_open = true
#define FORMAT_WORD(kind, word, rows, meaning) {#word, DATA_##kind, NULL, meaning},
#define FORMAT_ALIAS(kind, word, alias) {#alias, DATA_##kind, NULL, "Another name of `" #word "`."},
static const struct job_word format_words[] = {
    JOB_FORMATS(FORMAT_WORD, FORMAT_ALIAS) LATER("tfrecord"),
    LAST_WORD,
};

static const struct job_word column_words[] = {
    {"number", COLUMN_NUMBER, "name", "A number: one feature, or several with `buckets`."},
    {"category", COLUMN_CATEGORY, "name",
     "A word of a vocabulary: one feature for each word of the vocabulary, or one feature with the "
     "word's number."},
    {"label", COLUMN_LABEL, "name", "The value to predict. Exactly one column is a label."},
    {"ignore", COLUMN_IGNORE, "name", "A column that is not read."},
    {"key", COLUMN_KEY, "name", "A word that looks up one row of a [table](#tables)."},
    {"keys", COLUMN_KEYS, "name", "Several words that look up rows of a table."},
    {"cross", COLUMN_CROSS, NULL,
     "A key that is made from the keys of other columns. It is not a column of the file."},
    {"weight", COLUMN_WEIGHT, "name",
     "A number, 0 or more, that multiplies the loss, gradient and metrics of the row."},
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

#define COLUMN_KEY(name, type, member, text, ...)                                                  \
    ROW(JOB_COLUMN_PREFIX name, type, job_column, member, text, .identity = true, __VA_ARGS__)
#define COLUMN_NAME(word, example_)                                                                \
    COLUMN_KEY("." word ".name", COLUMN_TEXT, name,                                                \
               "The column's name, for messages, for `inputs` of layers, and with `data.header: "  \
               "names` for the names in the header. `x{1..9}` makes nine columns, x1 to x9.",      \
               EXAMPLE(example_), .fallback_doc = "none")
#define KEY_NAME(text, name)                                                                       \
    text " Layers name it in their `inputs`.", EXAMPLE(name), .required = true
#define KEY_BUCKETS                                                                                \
    "Take the key modulo this number (the hashing trick). 0: use the whole key.",                  \
        EXAMPLE("1000000"), RANGE(0, UINT64_MAX), .fallback = "0"

/* The options of key and keys. */
#define KEY_OPTIONS(word, if_missing)                                                              \
    COLUMN_KEY("." word ".name", COLUMN_TEXT, name,                                                \
               KEY_NAME("The column's name. `C{1..26}` makes 26 columns.", "user")),               \
        COLUMN_KEY("." word ".hash", BOOL, key.hash,                                               \
                   "Make the key by hashing the word. `false`: the word itself is the key, an "    \
                   "integer from 0 to 2^64 - 1.",                                                  \
                   EXAMPLE("false"), .fallback = "true"),                                          \
        COLUMN_KEY("." word ".space", COLUMN_TEXT, key.space,                                      \
                   "A name that is hashed together with the word. In columns with the same "       \
                   "space, the same word has the same key.",                                       \
                   EXAMPLE("people"), .fallback_doc = "the column's name"),                        \
        COLUMN_KEY("." word ".buckets", U64, key.buckets, KEY_BUCKETS),                            \
        COLUMN_KEY(                                                                                \
            "." word ".missing", CHOICE, key.missing,                                              \
            "The key of a missing value. `empty`: the key of the empty word. `none`: no key, so "  \
            "nothing is looked up. `{key: 0}`: the key 0; only with `hash: false`.",               \
            EXAMPLE("none"), .words = key_missing_words, .fallback = if_missing),                  \
        COLUMN_KEY("." word ".missing.key.key", U64, key.missing_key,                              \
                   "The key of a missing value.", EXAMPLE("0"), RANGE(0, UINT64_MAX),              \
                   .fallback = "0")

/* These keys can stay when data.format changes. */
static bool is_of_clicks(const struct job *job)
{
    return job->data.synthetic == SYNTHETIC_CLICKS;
}

static bool is_of_stream(const struct job *job)
{
    return job_streams(job);
}

#define OF_STREAM HEEDED(is_of_stream, "it has no effect without data.order: stream; remove it")

static bool reads_parquet(const struct job *job)
{
    return job->data.format == DATA_PARQUET;
}

#define OF_CLICKS HEEDED(is_of_clicks, "it has no effect without data.synthetic: clicks; remove it")
#define OF_CSV                                                                                     \
    HEEDED(job_reads_csv, "it is for csv data: data.format: csv, or synthetic with "               \
                          "data.synthetic: census or clicks; remove it")
#define OF_VALUES                                                                                  \
    HEEDED(job_reads_values, "it is for data.format: csv or parquet, or synthetic with "           \
                             "data.synthetic: census or clicks; remove it")
#define OF_PARQUET HEEDED(reads_parquet, "it is for data.format: parquet; remove it")
#define OF_COLUMNS                                                                                 \
    HEEDED(job_reads_columns, "it is for data.format: csv, libsvm or parquet, or synthetic with "  \
                              "data.synthetic: census or clicks; remove it")

static const struct job_key keys[] = {
    JOB_KEY("data.format", WORD, data.format,
            "The format of the files. Each file is plain, gzip or zstd.", PER_PROCESS,
            EXAMPLE("csv"), .required = true, .words = format_words),
    JOB_KEY("data.train", PATHS, data.train,
            "The files to train on. A relative path is relative to the job file's directory or, "
            "with `--set`, to the current directory. One pattern can match images and labels "
            "together. `set.npz:x` is the array x of an archive.",
            PER_PROCESS, EXAMPLE("train-*.csv.gz"),
            .fallback_doc = "required, except with `format: synthetic`"),
    JOB_KEY("data.eval", PATHS, data.eval, "The files to evaluate on.", PER_PROCESS,
            EXAMPLE("eval.csv.gz"), .fallback_doc = "no evaluation"),
    JOB_KEY("data.validation.last", DOUBLE, data.validation.last,
            "Hold out the last rows of `data.train`, this share of all rows, and evaluate on them. "
            "For logs in the order of time.",
            EXAMPLE("0.1"), INSIDE_ONE, .identity = true, .fallback_doc = "none"),
    JOB_KEY("data.validation.share", DOUBLE, data.validation.share,
            "Hold out this share of the rows of `data.train`, chosen by a hash of the row's number "
            "and `training.seed`.",
            EXAMPLE("0.1"), INSIDE_ONE, .identity = true, .fallback_doc = "none"),
    JOB_KEY("data.validation.column", TEXT, data.validation.column,
            "`csv`, `parquet`, with `share`: hold out this share of the keys of the column, and "
            "all rows that "
            "have them, so that a user is in one part alone. The column need not be in "
            "`data.columns`.",
            EXAMPLE("user"), .identity = true, .fallback_doc = "none: `share` is of the rows"),
    JOB_KEY("data.validation.files", PATHS, data.validation.files,
            "Hold out these files of `data.train`, and evaluate on them.", PER_PROCESS,
            EXAMPLE("train-09.csv.gz"), .fallback_doc = "none"),
    JOB_KEY("data.scale", REAL, data.scale,
            "Divide all inputs by this number: each is rounded to float32, and multiplied by the "
            "float32 1 / scale. Not for `libsvm`, and not for `csv` and `parquet`, whose columns "
            "have a "
            "`scale`.",
            EXAMPLE("255"), SCALES, .identity = true, .fallback = "1"),
    JOB_KEY("data.synthetic", WORD, data.synthetic,
            "The rows to generate. `digits`: images of shape [28, 28]. `census`: csv text like "
            "UCI's Adult. `clicks`: csv text like Criteo's logs, with a label, 13 numbers and key "
            "columns.",
            EXAMPLE("clicks"), .identity = true,
            WORDS(WORD("digits", SYNTHETIC_DIGITS), WORD("census", SYNTHETIC_CENSUS),
                  WORD("clicks", SYNTHETIC_CLICKS)),
            .fallback = "digits"),
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
            "`clicks`: the number of different keys of all key columns together, at least one for "
            "each column.",
            EXAMPLE("100000"), RANGE(1, 1000000000), .identity = true, .fallback = "1000000",
            OF_CLICKS),
    JOB_KEY("data.synthetic_interaction", U32, data.synthetic_interaction,
            "`clicks`: the rank of the interaction of keys in the model that generates the labels. "
            "0: no interaction, so a logistic regression can learn everything.",
            EXAMPLE("2"), RANGE(0, 4), .identity = true, .fallback = "0", OF_CLICKS),
    JOB_KEY(
        "data.columns", COLUMNS, data.csv.columns,
        "The columns in the order of the file. Write each as `KIND`, `KIND: NAME` or `KIND: "
        "{option: value}`. Each column gives features: the numbers of the model's input, in this "
        "order. `libsvm` has two columns: `[label, keys: {name: features, max_values: 64}]`. "
        "`parquet` finds the columns of its files by name, in any order, and reads no others.",
        EXAMPLE("[{number: age}, {label: income}]"), .identity = true,
        .fallback_doc = "required by `csv`, `libsvm` and `parquet`", OF_COLUMNS),
    COLUMN_KEY("", CHOICE, kind, "One column.", EXAMPLE("{number: age}"), .words = column_words),
    COLUMN_NAME("number", "age"),
    COLUMN_KEY(".number.scale", WORD, scale,
               "How the number x is scaled. `standard`: (x - mean) / standard deviation. "
               "`min_max`: from 0 to 1. Both use the numbers of the training files. `log1p`: ln(1 "
               "+ x), or 0 if x < 0. `log2`: log2(x), or 0 if x < 1.",
               EXAMPLE("standard"),
               WORDS(WORD("none", SCALE_NONE), WORD("standard", SCALE_STANDARD),
                     WORD("min_max", SCALE_MIN_MAX), WORD("log1p", SCALE_LOG1P),
                     WORD("log2", SCALE_LOG2)),
               .fallback = "none"),
    COLUMN_KEY(".number.missing", CHOICE, missing,
               "The value of a missing number. `mean`: the mean of the training files. `{value: "
               "0}`: the number 0. `refuse`: the row is bad.",
               EXAMPLE("{value: 0}"),
               WORDS(WORD("mean", MISSING_MEAN), LONE_WORD("value", MISSING_VALUE, "value"),
                     WORD("refuse", MISSING_REFUSE)),
               .fallback = "mean"),
    COLUMN_KEY(".number.missing.value.value", DOUBLE, missing_value,
               "The number to use. `scale` applies to it as to a number in the file.",
               EXAMPLE("-1"), ANY_REAL, .fallback = "0"),
    COLUMN_KEY(
        ".number.buckets", CHOICE, buckets,
        "Turn the number x into a category. `{quantiles: 10}`: ten buckets, each with the same "
        "number of training rows. `{borders: [0, 10]}`: three buckets: below 0, from 0, from 10. "
        "`log_squared`: if x > 2, a bucket for each value of floor(ln(x)^2), otherwise one for "
        "each integer. A missing number has no bucket, unless `missing` is a value.",
        EXAMPLE("{quantiles: 10}"),
        WORDS(WORD("none", BUCKETS_NONE), WORD("log_squared", BUCKETS_LOG_SQUARED),
              LONE_WORD("quantiles", BUCKETS_QUANTILES, "count"),
              LONE_WORD("borders", BUCKETS_BORDERS, "at")),
        .fallback = "none"),
    COLUMN_KEY(".number.buckets.quantiles.count", U32, quantiles,
               "The number of buckets. Equal borders count once, so there can be fewer.",
               EXAMPLE("10"), RANGE(2, JOB_QUANTILES_MAX), .fallback = "10"),
    COLUMN_KEY(".number.buckets.borders.at", TEXTS, words,
               "The numbers at which buckets begin, in rising order.", EXAMPLE("[18, 30, 65]"),
               .fallback_doc = "required"),
    COLUMN_KEY(".number.encode", WORD, encode,
               "The features of a bucket. `one_hot`: one feature for each bucket, 1 or 0. `id`: "
               "one feature, the bucket's number from 1.",
               EXAMPLE("id"), .words = encode_words, .fallback = "one_hot"),
    COLUMN_NAME("category", "town"),
    COLUMN_KEY(
        ".category.encode", WORD, encode,
        "The features of a word. `one_hot`: one feature for each word, 1 or 0. `id`: one feature, "
        "the word's number from 1. If the word is not in the vocabulary, all features are 0.",
        EXAMPLE("id"), .words = encode_words, .fallback = "one_hot"),
    COLUMN_KEY(
        ".category.vocabulary", TEXTS, words,
        "The words in order. gradwire adds one more word at the end, for missing values. (In "
        "a learned vocabulary, a missing value is a word like any other.)",
        EXAMPLE("[S, M, L]"),
        .fallback_doc = "the words of the training files, in the order of their first occurrence"),
    COLUMN_NAME("label", "income"),
    COLUMN_KEY(".label.classes", TEXTS, words,
               "The names of classes 0, 1, and so on. `a|b`: both names are the same class. `*`: "
               "all other names.",
               EXAMPLE("[\"<=50K\", \">50K\"]"), .fallback_doc = "labels are numbers"),
    COLUMN_NAME("weight", "importance"),
    COLUMN_NAME("ignore", "note"),
    KEY_OPTIONS("key", "empty"),
    KEY_OPTIONS("keys", "none"),
    COLUMN_KEY(".cross.name", COLUMN_TEXT, name, KEY_NAME("The cross's name.", "user_site")),
    COLUMN_KEY(".cross.of", TEXTS, words,
               "The names of the key columns to combine. [data.md](data.md#keys) describes how.",
               EXAMPLE("[user, site]"), .required = true),
    COLUMN_KEY(".cross.space", COLUMN_TEXT, key.space,
               "A name that is hashed together with the keys.", EXAMPLE("pairs"),
               .fallback_doc = "the column's name"),
    COLUMN_KEY(".cross.buckets", U64, key.buckets, KEY_BUCKETS),
    COLUMN_KEY(".keys.separator", TEXT, key.separator, "The text between the values of a field.",
               EXAMPLE("\" \""), .fallback = ","),
    COLUMN_KEY(
        ".keys.max_values", U32, key.max_values,
        "The largest number of values in a field. A row with more values is bad. A row takes "
        "memory for the values that it has.",
        EXAMPLE("20"), RANGE(1, 4096), .required = true),
    COLUMN_KEY(
        ".keys.weights", BOOL, key.weights,
        "A value can end with `:` and a weight, as in `a:0.5`. The weight of other values is 1.",
        EXAMPLE("true"), .fallback = "false"),
    JOB_KEY(
        "data.header", WORD, data.csv.header,
        "`csv`: the meaning of each file's first line. `none`: it is a row. `skip`: ignore it. "
        "`names`: it names the file's columns. gradwire then finds the columns of "
        "`data.columns` by name, in any order, and ignores others.",
        EXAMPLE("names"), .identity = true,
        WORDS(WORD("none", HEADER_NONE), WORD("skip", HEADER_SKIP), WORD("names", HEADER_NAMES)),
        .fallback = "none", OF_CSV),
    /* "\t" in double quotes is a tab; without double quotes it is the two characters \t, and means a tab, too */
    JOB_KEY("data.delimiter", WORD, data.csv.delimiter,
            "`csv`: the character between fields. You can also write the character, in quotes: "
            "`\"\\t\"`.",
            EXAMPLE("tab"), .identity = true,
            WORDS(WORD("comma", DELIMITER_COMMA), WORD("tab", DELIMITER_TAB),
                  WORD("semicolon", DELIMITER_SEMICOLON), WORD("pipe", DELIMITER_PIPE),
                  WORD("space", DELIMITER_SPACE)),
            SPELLINGS(WORD(",", DELIMITER_COMMA), WORD("\t", DELIMITER_TAB),
                      WORD("\\t", DELIMITER_TAB), WORD(";", DELIMITER_SEMICOLON),
                      WORD("|", DELIMITER_PIPE), WORD(" ", DELIMITER_SPACE)),
            .fallback = "comma", OF_CSV),
    JOB_KEY("data.quotes", BOOL, data.csv.quotes,
            "`csv`: fields can be in double quotes, as in RFC 4180. A quote counts only at the "
            "start of a field.",
            EXAMPLE("false"), .identity = true, .fallback = "true", OF_CSV),
    JOB_KEY("data.escape", WORD, data.csv.escape,
            "`csv`: the character after a backslash stands for itself, as in files of MySQL and "
            "Spark. You can also write the character: `\\`.",
            EXAMPLE("backslash"), .identity = true,
            WORDS(WORD("none", ESCAPE_NONE), WORD("backslash", ESCAPE_BACKSLASH)),
            SPELLINGS(WORD("\\", ESCAPE_BACKSLASH), WORD("\\\\", ESCAPE_BACKSLASH)),
            .fallback = "none", OF_CSV),
    JOB_KEY("data.trim", BOOL, data.csv.trim, "`csv`: remove spaces and tabs around each field.",
            EXAMPLE("true"), .identity = true, .fallback = "false", OF_CSV),
    JOB_KEY("data.comment", TEXT, data.csv.comment,
            "`csv`: ignore the lines that begin with this text. Empty lines are always ignored.",
            EXAMPLE("\"#\""), .identity = true, .fallback_doc = "none", OF_CSV),
    JOB_KEY("data.missing", TEXTS, data.csv.missing,
            "`csv`, `parquet`: the texts that mark a missing value: one text or a list. A null of "
            "Parquet is missing, too.",
            EXAMPLE("[\"\", \"?\"]"), .identity = true, .fallback = "", OF_VALUES),
    JOB_KEY("data.bad_rows", WORD, data.csv.bad_rows,
            "`csv`, `libsvm`, `parquet`: the effect of a row that cannot be read. `stop`: it ends "
            "the job. "
            "`skip`: the row keeps its index but has weight 0.",
            PER_PROCESS, EXAMPLE("skip"),
            WORDS(WORD("stop", BAD_ROWS_STOP), WORD("skip", BAD_ROWS_SKIP)), .fallback = "stop",
            OF_COLUMNS),
    JOB_KEY("data.bad_rows_max", U32, data.csv.bad_rows_max,
            "`csv`, `libsvm`, `parquet`, with `bad_rows: skip`: the job ends if the training files "
            "or the "
            "evaluation files have more bad rows than this. Of a stream, each process compares the "
            "bad rows of the windows that it reads, so together they can leave out more.",
            PER_PROCESS, EXAMPLE("100"), RANGE(0, UINT32_MAX), .fallback = "1000", OF_COLUMNS),
    JOB_KEY("data.absent_columns", WORD, data.csv.absent_columns,
            "`parquet`: the effect of a column that the first file has and another one lacks. "
            "`stop`: it ends the job. `missing`: it is missing in all rows of that file, unless it "
            "is the label or the weight.",
            PER_PROCESS, EXAMPLE("missing"),
            WORDS(WORD("stop", ABSENT_STOP), WORD("missing", ABSENT_MISSING)), .fallback = "stop",
            OF_PARQUET),
    JOB_KEY("data.encoding", WORD, data.csv.encoding,
            "`csv`, `libsvm`, `parquet`: the words, scales and buckets to use when "
            "[checkpoint.run](#checkpoint) "
            "begins a new run. "
            "`extend`: those of the last checkpoint, with new words appended. `keep`: those of the "
            "last checkpoint; new words are unknown. `learn`: only those of the new data. "
            "[next-run-data.md](next-run-data.md) says when each is right.",
            PER_PROCESS, EXAMPLE("keep"),
            WORDS(WORD("extend", ENCODING_EXTEND), WORD("keep", ENCODING_KEEP),
                  WORD("learn", ENCODING_LEARN)),
            .fallback = "extend", OF_COLUMNS),
    JOB_KEY(
        "data.order", WORD, data.order,
        "`shuffled`: each process reads all training rows before the first step, and an epoch is "
        "a permutation of them. `stream`: for `csv` and `parquet`, not in `training.update: geo`, "
        "rows stay in their files, and each process reads those that it trains on.",
        EXAMPLE("stream"), .identity = true,
        WORDS(WORD("shuffled", ORDER_SHUFFLED), WORD("stream", ORDER_STREAM)),
        .fallback = "shuffled"),
    JOB_KEY(
        "data.window", U32, data.window,
        "`stream`: the number of neighboring rows that are read at a time, at most. Of few rows a "
        "window has fewer, and more than 4096 are rounded down to a multiple of 4096. In "
        "`training.update: async` and `ssp` a window has `data.window` x `data.mix` rows, as many "
        "whole batches as that is, and at most 64.",
        EXAMPLE("8192"), RANGE(1, 1 << 24), .identity = true, .fallback = "32768", OF_STREAM),
    JOB_KEY("data.mix", U32, data.mix,
            "`stream`: the number of windows of a microbatch whose rows are shuffled together.",
            EXAMPLE("4"), RANGE(1, 256), .identity = true, .fallback = "2", OF_STREAM),
    JOB_KEY(
        "data.memory_mb", U32, data.memory_mb,
        "`csv`, `libsvm`, `parquet`: how many MiB of training and evaluation rows a process keeps "
        "in memory. "
        "The other rows are in a file in `data.spill`. Of a stream: of its windows and of the "
        "evaluation rows. 0: a quarter of the memory of the host or "
        "the cgroup. All processes that the launcher starts on one host share this quarter.",
        PER_PROCESS, EXAMPLE("4096"), RANGE(0, UINT32_MAX), .fallback = "0", OF_COLUMNS),
    JOB_KEY("data.spill", FOLDER, data.spill,
            "`csv`, `libsvm`, `parquet`: the directory of the file for rows beyond "
            "`data.memory_mb`. The file "
            "has no name and disappears with its process. A relative path is relative to the job "
            "file's directory or, with `--set`, to the current directory.",
            PER_PROCESS, EXAMPLE("/var/tmp"), .fallback_doc = "TMPDIR, or /tmp", OF_COLUMNS),
    JOB_KEY("data.augment.flip", WORD, data.augment.flip,
            "Mirror half of the training images, left to right.", EXAMPLE("horizontal"),
            .identity = true, WORDS(WORD("none", FLIP_NONE), WORD("horizontal", FLIP_HORIZONTAL)),
            .fallback = "none"),
    JOB_KEY("data.augment.crop", U32, data.augment.crop,
            "Add this many pixels of zeros on each side of a training image, then cut out a window "
            "of the original size at a random position.",
            EXAMPLE("4"), RANGE(0, 1024), .identity = true, .fallback = "0"),
    JOB_KEY(
        "data.augment.shift", U32, data.augment.shift,
        "Move a training image by up to this many pixels in each direction, and repeat its border.",
        EXAMPLE("2"), RANGE(0, 1024), .identity = true, .fallback = "0"),
};
const struct job_key_table job_table_data = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
