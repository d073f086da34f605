/* The job file's keys: data. */
#include <float.h>

#include "common/job/table.h"

static const struct job_word format_words[] = {
    {"idx", DATA_IDX, NULL},
    {"synthetic", DATA_SYNTHETIC, NULL},
    {"cifar10", DATA_CIFAR10, NULL},
    {"csv", DATA_CSV, NULL},
    LATER("libsvm"),
    LATER("npy"),
    LATER("tfrecord"),
    LAST_WORD,
};

static const struct job_word column_words[] = {
    {"number", COLUMN_NUMBER, "name"},
    {"category", COLUMN_CATEGORY, "name"},
    {"label", COLUMN_LABEL, "name"},
    {"ignore", COLUMN_IGNORE, "name"},
    LAST_WORD,
};

static const struct job_word scale_words[] = {
    {"none", SCALE_NONE, NULL},
    {"standard", SCALE_STANDARD, NULL},
    {"min_max", SCALE_MIN_MAX, NULL},
    LAST_WORD,
};

static const struct job_word missing_words[] = {
    {"mean", MISSING_MEAN, NULL},
    {"value", MISSING_VALUE, "value"},
    {"refuse", MISSING_REFUSE, NULL},
    LAST_WORD,
};

static const struct job_word encode_words[] = {
    {"one_hot", ENCODE_ONE_HOT, NULL},
    {"id", ENCODE_ID, NULL},
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

static const struct job_word bad_rows_words[] = {
    {"stop", BAD_ROWS_STOP, NULL},
    {"skip", BAD_ROWS_SKIP, NULL},
    LAST_WORD,
};

static const struct job_word synthetic_words[] = {
    {"digits", SYNTHETIC_DIGITS, NULL},
    {"census", SYNTHETIC_CENSUS, NULL},
    LAST_WORD,
};

static const struct job_word flip_words[] = {
    {"none", FLIP_NONE, NULL},
    {"horizontal", FLIP_HORIZONTAL, NULL},
    LAST_WORD,
};

#define IN_COLUMN(member) .offset = offsetof(struct job_column, member)
#define COLUMN_NAME(word)                                                                          \
    {                                                                                              \
        .path = JOB_COLUMN_PREFIX "." word ".name", .type = KEY_TEXT, IN_COLUMN(name),             \
        .identity = true, .fallback_doc = "none",                                                  \
        .doc = "names it in messages; with `data.header: names` the header has it"                 \
    }

#define OF_CSV                                                                                     \
    HEEDED(                                                                                        \
        job_reads_csv,                                                                             \
        "it is of csv: data.format: csv, or synthetic with data.synthetic: census; leave it out")

static const struct job_key keys[] = {
    {.path = "data.format",
     .type = KEY_WORD,
     IN_JOB(data.format),
     .required = true,
     .words = format_words,
     .doc = "`idx`: files as of MNIST; `cifar10`: CIFAR-10's binary batches, shape [32, 32, 3]; "
            "`csv`: text, a row a line, as `data.columns` describes it; `synthetic`: rows drawn "
            "by code. Files may be plain, .gz or .zst"},
    {.path = "data.train",
     .type = KEY_PATHS,
     IN_JOB(data.train),
     .fallback_doc = "none; required by all but `synthetic`",
     .doc = "files to train on: a path, a glob, or a list of these; relative to the job file, "
            "by --set to the current folder; images and labels may match together"},
    {.path = "data.eval",
     .type = KEY_PATHS,
     IN_JOB(data.eval),
     .fallback_doc = "none",
     .doc = "files to evaluate on, in the same way"},
    {.path = "data.scale",
     .type = KEY_REAL,
     IN_JOB(data.scale),
     POSITIVE,
     .identity = true,
     .fallback = "1",
     .doc = "inputs are divided by it"},
    {.path = "data.synthetic",
     .type = KEY_WORD,
     IN_JOB(data.synthetic),
     .identity = true,
     .words = synthetic_words,
     .fallback = "digits",
     .doc =
         "what is drawn: `digits`: images [28, 28]; `census`: csv text as of UCI's Adult, read by "
         "`data.columns`"},
    {.path = "data.synthetic_train_rows",
     .type = KEY_U32,
     IN_JOB(data.synthetic_train_rows),
     RANGE(1, 10000000),
     .identity = true,
     .fallback = "60000",
     .doc = "`synthetic`: rows to train on"},
    {.path = "data.synthetic_eval_rows",
     .type = KEY_U32,
     IN_JOB(data.synthetic_eval_rows),
     RANGE(1, 10000000),
     .identity = true,
     .fallback = "10000",
     .doc = "`synthetic`: rows to evaluate on"},
    {.path = "data.columns",
     .type = KEY_COLUMNS,
     IN_JOB(data.csv.columns),
     .identity = true,
     .fallback_doc = "none; required by `csv`",
     OF_CSV,
     .doc = "`csv`: the columns in the order of the file, each `kind`, `kind: name` or `kind: "
            "{option: value}`; their features make a row in this order"},
    {.path = JOB_COLUMN_PREFIX,
     .type = KEY_CHOICE,
     IN_COLUMN(kind),
     .identity = true,
     .words = column_words,
     .doc = "one column; one of them is the label"},
    COLUMN_NAME("number"),
    {.path = JOB_COLUMN_PREFIX ".number.scale",
     .type = KEY_WORD,
     IN_COLUMN(scale),
     .identity = true,
     .words = scale_words,
     .fallback = "none",
     .doc =
         "by the training part: `standard`: (x - mean) / standard deviation; `min_max`: to 0..1"},
    {.path = JOB_COLUMN_PREFIX ".number.missing",
     .type = KEY_CHOICE,
     IN_COLUMN(missing),
     .identity = true,
     .words = missing_words,
     .fallback = "mean",
     .doc = "what stands for a missing one: the training part's mean, `{value: 0}`, or the row is "
            "bad"},
    {.path = JOB_COLUMN_PREFIX ".number.missing.value.value",
     .type = KEY_REAL,
     IN_COLUMN(missing_value),
     ANY_REAL,
     .identity = true,
     .fallback = "0",
     .doc = "the number, as in the file: it is scaled too"},
    COLUMN_NAME("category"),
    {.path = JOB_COLUMN_PREFIX ".category.encode",
     .type = KEY_WORD,
     IN_COLUMN(encode),
     .identity = true,
     .words = encode_words,
     .fallback = "one_hot",
     .doc = "`one_hot`: a feature for each word, 1 or 0; `id`: one feature, the word's number from "
            "1. A word that is not in the vocabulary is all 0"},
    {.path = JOB_COLUMN_PREFIX ".category.vocabulary",
     .type = KEY_TEXTS,
     IN_COLUMN(words),
     .identity = true,
     .fallback_doc = "the words of the training part, in the order in which they first occur",
     .doc = "its words; a missing value is one more, behind them (learned: one like any other)"},
    COLUMN_NAME("label"),
    {.path = JOB_COLUMN_PREFIX ".label.classes",
     .type = KEY_TEXTS,
     IN_COLUMN(words),
     .identity = true,
     .fallback_doc = "labels are numbers",
     .doc = "the names of classes 0, 1, ..: `a|b` takes both for one class, `*` all others"},
    COLUMN_NAME("ignore"),
    {.path = "data.header",
     .type = KEY_WORD,
     IN_JOB(data.csv.header),
     .identity = true,
     .words = header_words,
     .fallback = "none",
     OF_CSV,
     .doc = "`csv`: the first line of each file: `skip`: is left out; `names`: names the columns, "
            "of which those in data.columns are read, in any order"},
    {.path = "data.delimiter",
     .type = KEY_WORD,
     IN_JOB(data.csv.delimiter),
     .identity = true,
     .words = delimiter_words,
     .fallback = "comma",
     OF_CSV,
     .doc = "`csv`: what stands between fields"},
    {.path = "data.quotes",
     .type = KEY_BOOL,
     IN_JOB(data.csv.quotes),
     .identity = true,
     .fallback = "true",
     OF_CSV,
     .doc = "`csv`: fields may be in double quotes, as in RFC 4180"},
    {.path = "data.trim",
     .type = KEY_BOOL,
     IN_JOB(data.csv.trim),
     .identity = true,
     .fallback = "false",
     OF_CSV,
     .doc = "`csv`: spaces and tabs around a field do not belong to it"},
    {.path = "data.comment",
     .type = KEY_TEXT,
     IN_JOB(data.csv.comment),
     .identity = true,
     .fallback_doc = "none",
     OF_CSV,
     .doc = "`csv`: lines that begin so are left out, as empty ones are"},
    {.path = "data.missing",
     .type = KEY_TEXTS,
     IN_JOB(data.csv.missing),
     .identity = true,
     .fallback = "",
     OF_CSV,
     .doc = "`csv`: the fields that mean a missing value: a text or a list"},
    {.path = "data.bad_rows",
     .type = KEY_WORD,
     IN_JOB(data.csv.bad_rows),
     .words = bad_rows_words,
     .fallback = "stop",
     OF_CSV,
     .doc = "`csv`: a row that cannot be read ends the job, or keeps its place with weight 0"},
    {.path = "data.bad_rows_max",
     .type = KEY_U32,
     IN_JOB(data.csv.bad_rows_max),
     RANGE(0, UINT32_MAX),
     .fallback = "1000",
     OF_CSV,
     .doc = "`csv`: more bad rows than that, of `skip`, in a part end the job all the same"},
    {.path = "data.memory_mb",
     .type = KEY_U32,
     IN_JOB(data.memory_mb),
     RANGE(0, UINT32_MAX),
     .fallback = "0",
     OF_CSV,
     .doc = "`csv`: MiB of rows that a process keeps in memory, of both parts; the rest is in a "
            "file of "
            "its own in `data.spill`. 0: a quarter of the memory that it may use (by the cgroup, "
            "too), "
            "which processes of one host share out"},
    {.path = "data.spill",
     .type = KEY_FOLDER,
     IN_JOB(data.spill),
     .fallback_doc = "TMPDIR, or /tmp",
     OF_CSV,
     .doc = "`csv`: the folder of that file, which has no name and is gone with its process; "
            "relative to the job file, by --set to the current folder"},
    {.path = "data.augment.flip",
     .type = KEY_WORD,
     IN_JOB(data.augment.flip),
     .identity = true,
     .words = flip_words,
     .fallback = "none",
     .doc = "images, in training: half of them mirrored, left to right"},
    {.path = "data.augment.crop",
     .type = KEY_U32,
     IN_JOB(data.augment.crop),
     RANGE(0, 1024),
     .identity = true,
     .fallback = "0",
     .doc = "images, in training: a window of their size, anywhere in them with so many pixels of "
            "zeros around"},
    {.path = "data.augment.shift",
     .type = KEY_U32,
     IN_JOB(data.augment.shift),
     RANGE(0, 1024),
     .identity = true,
     .fallback = "0",
     .doc = "images, in training: moved by up to so many pixels each way, the border repeated"},
};
const struct job_table job_table_data = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
