/* Writes docs/reference/job-file.md from the table of keys. */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "job/keys.h"

enum { CELL_BYTES = 1024, PREFIXES_MAX = 4, ROWS_MAX = 64, CONTENTS_COLUMNS = 110 };

/* A heading with what follows it. In patterns a name in capitals stands for any name. */
struct section {
    const char *title;                /* "## name": with its level */
    const char *prefix[PREFIXES_MAX]; /* rows show their keys without it; NULL: in full */
    /* patterns of the rows, joined by blanks, behind a prefix; NULL: all of them */
    const char *rows;
    bool shared;        /* its keys are in no other section */
    bool keras_names;   /* says which layers Keras names differently */
    const char *words;  /* the key whose words are listed, with what each means; NULL: none */
    const char *column; /* the heading of that list's first column */
    const char *text;
};

#define LAYER(name) .title = "### " name, .prefix = {JOB_LAYER_PREFIX "." name}
#define COLUMN(name) .title = "### " name, .prefix = {JOB_COLUMN_PREFIX "." name}
#define OPTIMIZER(name)                                                                            \
    .title = "### " name, .prefix = {"optimizer." name, JOB_TABLE_PREFIX ".optimizer." name}

static const struct section sections[] = {
    {.title = "## name", .rows = "name"},
    {.title = "## model",
     .rows = "",
     .text = "`model` describes the model to train. Layers, losses, metrics and optimizers have "
             "the names,\n"
             "formulas and defaults of Keras 3."},
    {.title = "### Input", .rows = "model.input.shape"},
    {.title = "### Layers",
     .rows = "model.layers model.layers[]",
     .words = JOB_LAYER_PREFIX,
     .column = "Layer",
     .text = "Each layer reads the previous layer. To read other layers, name them in `inputs`: "
             "any earlier\n"
             "layers, or `input`, the model's input. The last layer is the model's output. Every "
             "other\n"
             "layer must be read by a later one. This is a residual block:\n"
             "\n"
             "```yaml\n"
             "layers:\n"
             "  - dense: {units: 64, activation: relu, name: trunk}\n"
             "  - dense: {units: 64, activation: relu}\n"
             "  - dense: {units: 64, name: branch}\n"
             "  - add: [trunk, branch]           # or add: {inputs: [trunk, branch], name: sum}\n"
             "  - relu\n"
             "  - dense: {units: 10, activation: softmax}\n"
             "```\n"
             "\n"
             "With csv data, `inputs` can also name columns, and ranges of columns such as "
             "`I{1..13}`. The name of\n"
             "a `number` or `category` column stands for the features of that column. Three kinds "
             "of layers can\n"
             "name [key](#key) columns, whose keys they look up in a [table](#tables): `embedding` "
             "without\n"
             "`input_dim`, `embedding_bag` and `linear`. If a layer and a column have the same "
             "name, the name means\n"
             "the layer. This is a wide and deep model:\n"
             "\n"
             "```yaml\n"
             "layers:\n"
             "  - linear: {inputs: \"C{1..26}\", name: wide}\n"
             "  - embedding: {inputs: \"C{1..26}\", output_dim: 10, name: e}\n"
             "  - dense: {inputs: [e, \"I{1..13}\"], units: 400, activation: relu}\n"
             "  - dense: {units: 1, name: deep}\n"
             "  - add: [wide, deep]\n"
             "  - sigmoid\n"
             "```"},
    {.title = "### Options of every layer",
     .prefix = {JOB_LAYER_PREFIX ".LAYER"},
     .rows = "name inputs",
     .shared = true,
     .keras_names = true},
    {.title = "### Options of every layer with weights",
     .prefix = {JOB_LAYER_PREFIX ".LAYER"},
     .rows = "trainable",
     .shared = true,
     .text = "[fine-tune.md](../guides/fine-tune.md) shows how to train only a part of a model."},
    {LAYER("dense")},
    {LAYER("activation")},
    {LAYER("leaky_relu")},
    {LAYER("elu")},
    {LAYER("gelu")},
    {LAYER("dropout")},
    {LAYER("reshape")},
    {LAYER("conv2d")},
    {.title = "### max_pooling2d and average_pooling2d",
     .prefix = {JOB_LAYER_PREFIX ".max_pooling2d", JOB_LAYER_PREFIX ".average_pooling2d"}},
    {.title = "### global_max_pooling2d and global_average_pooling2d",
     .prefix = {JOB_LAYER_PREFIX ".global_max_pooling2d",
                JOB_LAYER_PREFIX ".global_average_pooling2d"}},
    {LAYER("batch_normalization")},
    {LAYER("layer_normalization")},
    {LAYER("embedding")},
    {LAYER("embedding_bag")},
    {LAYER("linear"), .text = "The table of a `linear` layer has one weight for each key."},
    {.title = "### Activations",
     .words = JOB_LAYER_PREFIX ".dense.activation",
     .column = "Activation"},
    {.title = "### Initializers",
     .prefix = {JOB_LAYER_PREFIX ".LAYER.WEIGHTS_initializer", JOB_TABLE_PREFIX ".initializer"},
     .shared = true,
     .words = JOB_LAYER_PREFIX ".dense.kernel_initializer",
     .column = "Initializer",
     .text = "An initializer sets the first values of weights. Write its name, or the name with "
             "options:\n"
             "`kernel_initializer: {random_normal: {stddev: 0.01}}`. `fan_in` and `fan_out` are "
             "the numbers of inputs\n"
             "and outputs of a weight matrix. A truncated normal distribution has no values "
             "further than two\n"
             "standard deviations from its mean: such values are drawn again."},
    {.title = "### Regularizers",
     .prefix = {JOB_LAYER_PREFIX ".LAYER.WEIGHTS_regularizer", JOB_TABLE_PREFIX ".regularizer"},
     .shared = true,
     .words = JOB_LAYER_PREFIX ".dense.kernel_regularizer",
     .column = "Regularizer",
     .text = "A regularizer keeps weights small: it adds a term to the loss that grows with the "
             "weights."},
    {.title = "### First weights",
     .rows = "model.weights",
     .text = "[fine-tune.md](../guides/fine-tune.md) shows how to continue from the weights of "
             "another model."},
    {.title = "### Loss",
     .rows = "model.loss model.loss.LOSS.OPTION",
     .words = "model.loss",
     .column = "Loss"},
    {.title = "### Metrics", .rows = "model.metrics", .words = "model.metrics", .column = "Metric"},
    {.title = "## tables",
     .rows = "tables",
     .text = "A table has one row, a vector of weights, for each key, and grows as new keys "
             "arrive. The layers\n"
             "`embedding` (without `input_dim`), `embedding_bag` and `linear` look up keys in a "
             "table. Their option\n"
             "`table` names it. [data.md](data.md#keys) describes how a value becomes a key, and\n"
             "[tables.md](../explanation/tables.md) how rows are made, updated and removed.\n"
             "\n"
             "```yaml\n"
             "tables:\n"
             "  wide: {optimizer: {adam: {learning_rate: 0.01, beta_2: 0.99}}}\n"
             "  ids: {initializer: zeros, learning_rate: 0.05}   # the job's optimizer, at another "
             "rate\n"
             "```"},
    {.title = "### Options of a table", .prefix = {JOB_TABLE_PREFIX}},
    {.title = "## data",
     .rows = "data.format data.train data.eval data.scale data.memory_mb data.spill data.bad_rows "
             "data.bad_rows_max data.absent_columns data.encoding",
     .words = "data.format",
     .column = "Format",
     .text = "[data.md](data.md) describes each format and each kind of column, with examples.\n"
             "[large-data.md](../guides/large-data.md) explains `memory_mb` and `spill`."},
    {.title = "### Rows to evaluate on",
     .rows = "data.validation.last data.validation.share data.validation.column "
             "data.validation.files",
     .text = "One of `last`, `share` and `files`, in place of `data.eval`. The rows that are held "
             "out keep\n"
             "their numbers in the order of data, and teach no words, scales or buckets.\n"
             "[data.md](data.md#hold-rows-out) describes which rows these are."},
    {.title = "### The order of rows",
     .rows = "data.order data.window data.mix",
     .text =
         "[large-data.md](../guides/large-data.md#stream-the-data) shows when to stream rows, and\n"
         "[semantics.md](../explanation/semantics.md#the-order-of-a-stream) which rows make which\n"
         "batch."},
    {.title = "### csv files",
     .rows =
         "data.columns data.header data.delimiter data.quotes data.escape data.trim data.comment "
         "data.missing"},
    {.title = "### Columns",
     .rows = "data.columns[]",
     .words = JOB_COLUMN_PREFIX,
     .column = "Kind"},
    {COLUMN("number")},
    {COLUMN("category")},
    {COLUMN("label")},
    {.title = "### weight and ignore",
     .prefix = {JOB_COLUMN_PREFIX ".weight", JOB_COLUMN_PREFIX ".ignore"}},
    {COLUMN("key")},
    {COLUMN("keys")},
    {COLUMN("cross")},
    {.title = "### Generated data",
     .rows = "data.synthetic data.synthetic_train_rows data.synthetic_eval_rows "
             "data.synthetic_fields data.synthetic_keys data.synthetic_interaction",
     .text = "These keys are for `data.format: synthetic`. The first three are also accepted with "
             "other formats,\n"
             "so that a job file can switch between files and generated data."},
    {.title = "### Augmentation",
     .rows = "data.augment.flip data.augment.crop data.augment.shift",
     .text = "Augmentation changes training images; evaluations read them unchanged. It needs rows "
             "of shape\n"
             "`[height, width]` or `[height, width, channels]`, with a byte for each value."},
    {.title = "## optimizer",
     .rows = "optimizer",
     .words = "optimizer",
     .column = "Optimizer",
     .text = "Write `optimizer: adam`, or with options `optimizer: {adam: {beta_1: 0.95}}`. The "
             "same options hold\n"
             "for the optimizer of a [table](#options-of-a-table), which cannot be `lamb`."},
    {.title = "### Options of every optimizer",
     .prefix = {"optimizer.OPTIMIZER", JOB_TABLE_PREFIX ".optimizer.OPTIMIZER"},
     .rows = "learning_rate weight_decay use_ema ema_momentum ema_overwrite_frequency "
             "exclude_from_weight_decay",
     .shared = true,
     .text = "The optimizer of a table has only the first two of these options.\n"
             "[averaged-weights.md](../guides/averaged-weights.md) explains the three options of "
             "the moving average."},
    {OPTIMIZER("sgd")},
    {.title = "### adam and adamw",
     .prefix = {"optimizer.adam", "optimizer.adamw", JOB_TABLE_PREFIX ".optimizer.adam",
                JOB_TABLE_PREFIX ".optimizer.adamw"}},
    {.title = "### lamb", .prefix = {"optimizer.lamb"}},
    {OPTIMIZER("adagrad")},
    {OPTIMIZER("rmsprop")},
    {OPTIMIZER("ftrl")},
    {.title = "## training",
     .rows = "training.epochs training.batch_size training.microbatches training.learning_rate "
             "training.learning_rate_schedule training.warmup_steps "
             "training.gradient_accumulation_steps training.class_weight training.seed "
             "training.clip_norm training.monitor"},
    {.title = "### Learning-rate schedules",
     .prefix = {"training.learning_rate_schedule", JOB_TABLE_PREFIX ".learning_rate_schedule"},
     .words = "training.learning_rate_schedule",
     .column = "Schedule",
     .text = "Write the name, or the name with options:\n"
             "`learning_rate_schedule: {cosine_decay: {decay_steps: 10000}}`."},
    {.title = "### Update modes",
     .rows = "training.update training.staleness training.staleness_rate "
             "training.delay_compensation training.geo_every training.geo_merge",
     .text = "[semantics.md](../explanation/semantics.md) defines the modes exactly."},
    {.title = "### Numbers that are not finite",
     .rows = "training.nan_guard training.max_rejected training.max_recoveries",
     .words = "training.nan_guard",
     .column = "`nan_guard`",
     .text = "[nan.md](../guides/nan.md) explains which value to choose.\n"
             "\n"
             "`skip`, `stop` and `rollback` check each gradient before it is applied. A gradient "
             "is bad if it is\n"
             "not finite, or if the optimizer state that it updates is beyond 1e30."},
    {.title = "## evaluate",
     .text =
         "The chief evaluates at the end of each epoch. A pass over many rows has one such end: "
         "`every_steps` evaluates\n"
         "within it, too "
         "([early-stopping.md](../guides/early-stopping.md#evaluate-within-an-epoch))."},
    {.title = "## metrics",
     .text = "In one pass over a log in the order of time, each row tests the model before the "
             "model learns from it.\n"
             "`loss`, `logloss`, `normalized_entropy` and `calibration` of training are always "
             "those of such predictions.\n"
             "`progressive: true` adds `auc`: "
             "[semantics.md](../explanation/semantics.md#loss-and-metrics).\n"
             "\n"
             "```yaml\n"
             "metrics: {progressive: true, by: C9, values: [a73ee510, 7cc72ec2]}\n"
             "```"},
    {.title = "## early_stopping",
     .rows = "early_stopping.patience early_stopping.min_delta early_stopping.start_from_epoch "
             "early_stopping.restore_best_weights",
     .text = "Early stopping ends training when evaluations stop getting better: see\n"
             "[early-stopping.md](../guides/early-stopping.md). It needs `training.monitor`, which "
             "names the\n"
             "evaluation result to compare:\n"
             "\n"
             "```yaml\n"
             "training: {epochs: 100, monitor: loss}\n"
             "early_stopping: {patience: 3, restore_best_weights: true}\n"
             "```"},
    {.title = "## sync",
     .text = "These keys are for `training.update: sync`. They turn on backup workers: a step does "
             "not wait for the\n"
             "slowest workers. [semantics.md](../explanation/semantics.md#backup-workers) defines "
             "which microbatches a\n"
             "step is made of."},
    {.title = "## compression",
     .text = "Compression makes gradients and parameters smaller on the network. All encodings but "
             "`zstd` lose\n"
             "precision. [semantics.md](../explanation/semantics.md#9-compression) defines each "
             "encoding."},
    {.title = "## checkpoint",
     .text = "[checkpoints.md](../guides/checkpoints.md) explains when checkpoints are written and "
             "where. To train again every\n"
             "night, see [nightly.md](../guides/nightly.md)."},
    {.title = "### Automatic checkpoints",
     .rows = "",
     .text =
         "If `every_steps` and `every_seconds` are both `auto`, a checkpoint is due in either "
         "of two cases:\n"
         "\n"
         "- 500 steps and 60 s have passed since the last checkpoint.\n"
         "- At least 1 s has passed since the last checkpoint began, and at least 100 times the "
         "duration of\n"
         "  that checkpoint. So checkpoints take at most 1 % of the time.\n"
         "\n"
         "If only one of the two keys is `auto`, it means 500 steps or 60 s."},
    {.title = "## timeouts",
     .text = "[timeouts.md](timeouts.md) lists these and all other timeouts."},
    {.title = "## export",
     .rows = "export",
     .words = "export",
     .column = "Format",
     .text =
         "[export.md](export.md) lists the layers and columns that each format can express. If a "
         "format cannot\n"
         "express the model, the job is refused (2). If an export fails, the job is still done "
         "(0): the error is\n"
         "in the log and in `export` of [`summary.json`](files.md#summaryjson). To export "
         "again, run the job\n"
         "again: a finished job trains nothing."},
    {.title = "## logs",
     .text = "A job writes files for TensorBoard to `DIR/logs`: see "
             "[tensorboard.md](../guides/tensorboard.md)."},
    {.title = "## ps"},
    {.title = "## worker"},
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

static const char head[] =
    "# The job file\n"
    "\n"
    "<!-- Generated from job/table_*.c by `worker --print_job_reference`. Edit those files "
    "instead. -->\n"
    "\n"
    "A job file tells gradwire what to train, on which data, and how. This page is for its "
    "authors: it\n"
    "lists every key. [The glossary](glossary.md) explains words such as chief, ps and "
    "microbatch.\n"
    "\n"
    "A job file is YAML. This one is complete:\n"
    "\n"
    "```yaml\n"
    "name: mnist-mlp\n"
    "model:\n"
    "  input: {shape: [28, 28]}\n"
    "  layers:\n"
    "    - flatten\n"
    "    - dense: {units: 128, activation: relu}\n"
    "    - dropout: 0.2\n"
    "    - dense: {units: 10, activation: softmax}\n"
    "  loss: sparse_categorical_crossentropy\n"
    "  metrics: [accuracy]\n"
    "data:\n"
    "  format: synthetic\n"
    "  scale: 255\n"
    "optimizer: adam\n"
    "training:\n"
    "  epochs: 10\n"
    "  batch_size: 64\n"
    "  learning_rate: 0.002\n"
    "```\n"
    "\n"
    "## How to write keys\n"
    "\n"
    "- **In the file**, a key such as `training.epochs` is a map in a map: `training: {epochs: "
    "3}`. The\n"
    "  examples on this page show it in this form.\n"
    "- **On the command line**, write `--set training.epochs=3`. `--set` can be repeated; the last "
    "value\n"
    "  of a key wins over earlier ones and over the file.\n"
    "- **An element of a list**: write its index, from 0: `--set model.layers[1].dense.units=64`.\n"
    "- **A value of `--set`** is plain text, unless it begins with `[`, `{` or a quote: then it is "
    "YAML.\n"
    "- **Numbers** are decimal: `64`, `0.5`, `1e-3`. `nan` and `inf` are not allowed, nor numbers "
    "beyond\n"
    "  float32: above 3.4e38, and above 0 but below 1.2e-38.\n"
    "- **Errors**: an unknown key is an error, and so is a key that is given twice. The message "
    "names the\n"
    "  line. A key that has no effect together with the other keys, such as `nesterov` without "
    "`momentum`,\n"
    "  is an error too, unless it has its default value.\n"
    "- **In capitals**: DIR is the job's output directory, `--output` or `runs/NAME`. Other words "
    "in\n"
    "  capitals, such as LAYER or WEIGHTS, stand for any name. `[]` stands for any element.\n"
    "\n"
    "## Identity and run-time keys\n"
    "\n"
    "**Identity keys** define what is trained. When a job resumes, they must have the same values "
    "as\n"
    "before. The contents of the data belong to the identity too; the paths and the format of the "
    "files\n"
    "do not.\n"
    "\n"
    "**Run-time keys** define how a job is run. They can change each time the job resumes.\n"
    "\n"
    "All processes of a job must have the same `name` and the same identity keys. Of run-time "
    "keys, the\n"
    "chief's values hold for all processes, with these exceptions. Each process uses the values of "
    "its\n"
    "own job file for:\n";

/* ---- which keys are in which section ---- */

static bool is_wild(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* How much of `path` the first `n` bytes of `pattern` match at its beginning, up to the end or a dot; 0: they do not. */
static size_t match(const char *pattern, size_t n, const char *path)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_wild(pattern[i])) {
            if (path[at++] != pattern[i])
                return 0;
            continue;
        }
        while (i + 1 < n && is_wild(pattern[i + 1]))
            i++;
        size_t most = strcspn(path + at, ".["), least = 1;
        if (i + 1 == n)
            return path[at] ? at + most : 0;
        for (; least <= most; least++) {
            size_t rest = match(pattern + i + 1, n - i - 1, path + at + least);
            if (rest)
                return at + least + rest;
        }
        return 0;
    }
    return path[at] == 0 || path[at] == '.' ? at : 0;
}

static bool is_among(const char *patterns, const char *name)
{
    for (size_t n; *patterns; patterns += n) {
        patterns += strspn(patterns, " ");
        n = strcspn(patterns, " ");
        size_t matched = n ? match(patterns, n, name) : 0;
        if (matched && !name[matched])
            return true;
    }
    return false;
}

/* The key's name in the section behind prefix `i`, or NULL: it has no row there. */
static const char *row_name(const struct section *s, size_t i, const struct job_key *key)
{
    const char *prefix = s->prefix[i];
    if (prefix) {
        size_t n = match(prefix, strlen(prefix), key->path);
        const char *name = key->path + n + 1;
        return n && key->path[n] == '.' && (!s->rows || is_among(s->rows, name)) ? name : NULL;
    }
    if (i > 0)
        return NULL;
    if (s->rows)
        return is_among(s->rows, key->path) ? key->path : NULL;
    const char *group = s->title + strspn(s->title, "# ");
    size_t n = match(group, strlen(group), key->path);
    return n && key->path[n] == '.' ? key->path : NULL;
}

static bool is_elsewhere(const struct section *s, const struct job_key *key)
{
    if (s->shared)
        return false;
    for (size_t i = 0; i < SECTIONS; i++)
        for (size_t j = 0; j < PREFIXES_MAX && sections[i].shared; j++)
            if (row_name(&sections[i], j, key))
                return true;
    /* The options of what a table chooses are those of the job's choice. */
    return s->prefix[0] && strcmp(s->prefix[0], JOB_TABLE_PREFIX) == 0 && key->as_job;
}

/* The rows of a section, each with the first key that it is of. Those of the first prefix come first. */
struct rows {
    size_t n;
    struct {
        const struct job_key *key;
        const char *name;
    } row[ROWS_MAX];
};

static size_t row_find(const struct rows *rows, const char *name)
{
    size_t r = 0;
    while (r < rows->n && strcmp(rows->row[r].name, name) != 0)
        r++;
    return r;
}

static void section_rows(const struct section *s, struct rows *rows)
{
    rows->n = 0;
    for (size_t i = 0; i < PREFIXES_MAX; i++)
        for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
            const char *name = key->type == KEY_LATER ? NULL : row_name(s, i, key);
            if (!name || is_elsewhere(s, key) || row_find(rows, name) < rows->n)
                continue;
            assert(rows->n < ROWS_MAX);
            rows->row[rows->n].key = key;
            rows->row[rows->n++].name = name;
        }
}

/* ---- cells ---- */

/* A cell's text; a | would end the cell. */
static void write_cell(FILE *out, const char *text)
{
    fputs(" ", out);
    for (; *text; text++)
        fprintf(out, *text == '|' ? "\\|" : "%c", *text);
    fputs(" |", out);
}

static void anchor(char *out, size_t bytes, const char *title)
{
    size_t n = 0;
    for (title += strspn(title, "# "); *title && n + 1 < bytes; title++)
        if (isalnum((unsigned char)*title) || *title == '_' || *title == '-' || *title == ' ')
            out[n++] = (char)(*title == ' ' ? '-' : tolower((unsigned char)*title));
    out[n] = 0;
}

static void words_cell(const struct section *s, const struct job_key *key, char *out, size_t bytes)
{
    char name[CELL_BYTES / 4];
    bool list = key->type == KEY_METRICS || key->type == KEY_CODECS;
    size_t n = (size_t)snprintf(out, bytes, "%s", list ? "list of: " : "");
    for (size_t i = 0; i < SECTIONS; i++) {
        const struct section *of = &sections[i];
        if (!of->words || job_key_find(of->words)->words != key->words)
            continue;
        const char *title = of->title + strspn(of->title, "# ");
        anchor(name, sizeof name, of->title);
        if (of == s)
            (void)snprintf(out, bytes, "%ssee below", list ? "list; " : "");
        else
            (void)snprintf(out + n, bytes - n, "see [%s](#%s)", title, name);
        return;
    }
    const char *comma = "";
    for (const struct job_word *w = key->words; w->word && n < bytes; w++)
        if (w->value != JOB_WORD_LATER) {
            n += (size_t)snprintf(out + n, bytes - n, "%s`%s`", comma, w->word);
            comma = ", ";
        }
}

static void value_cell(const struct section *s, const struct job_key *key, char *out, size_t bytes)
{
    if (key->words)
        words_cell(s, key, out, bytes);
    else
        job_key_allowed(key, out, bytes);
}

static void default_of(const struct job_key *key, char *out, size_t bytes)
{
    if (key->fallback)
        (void)snprintf(out, bytes, "`%s`", *key->fallback ? key->fallback : "\"\"");
    else
        (void)snprintf(out, bytes, "%s",
                       key->fallback_doc ? key->fallback_doc
                       : key->required   ? "required"
                                         : "");
}

/* How many keys of the row have this default. */
static size_t times_default(const struct section *s, const char *name, const char *wanted)
{
    char text[CELL_BYTES];
    size_t n = 0;
    for (const struct job_key *k = job_key_next(NULL); k; k = job_key_next(k)) {
        const char *same = row_name(s, 0, k);
        if (!same || strcmp(same, name) != 0)
            continue;
        default_of(k, text, sizeof text);
        n += strcmp(text, wanted) == 0 ? 1 : 0;
    }
    return n;
}

/* The default that most keys of the row have, and by name those that differ: "`0`; `adamw`: `0.004`". */
static void default_cell(const struct section *s, const struct job_key *key, const char *name,
                         char *out, size_t bytes)
{
    char usual[CELL_BYTES], other[CELL_BYTES];
    default_of(key, usual, sizeof usual);
    for (int pass = 0; pass < 2; pass++) {
        size_t n = pass ? (size_t)snprintf(out, bytes, "%s", usual) : 0;
        for (const struct job_key *k = job_key_next(NULL); k && n < bytes; k = job_key_next(k)) {
            const char *same = row_name(s, 0, k);
            if (!same || strcmp(same, name) != 0)
                continue;
            default_of(k, other, sizeof other);
            if (!pass && times_default(s, name, other) > times_default(s, name, usual))
                memcpy(usual, other, sizeof usual);
            if (!pass || strcmp(usual, other) == 0)
                continue;
            const char *end = same - 1, *of = end;
            while (of > k->path && of[-1] != '.')
                of--;
            n += (size_t)snprintf(out + n, bytes - n, "; `%.*s`: %s", (int)(end - of), of, other);
        }
    }
}

/* The key with its example as a piece of YAML: "training: {epochs: 3}", of a layer "dense: {units: 64}". */
static void example_cell(const struct job_key *key, char *out, size_t bytes)
{
    const char *path = key->path, *value = key->example;
    size_t skip = 0, depth = 0, n = 0;
    if (strncmp(path, JOB_LAYER_PREFIX, strlen(JOB_LAYER_PREFIX)) == 0)
        skip = strlen(JOB_LAYER_PREFIX);
    else if (strncmp(path, JOB_COLUMN_PREFIX, strlen(JOB_COLUMN_PREFIX)) == 0)
        skip = strlen(JOB_COLUMN_PREFIX);
    path += skip;
    if (!*path) { /* one layer, one column */
        (void)snprintf(out, bytes, "`- %.*s`", (int)strlen(value) - 2, value + 1);
        return;
    }
    path += skip ? 1 : 0;
    n = (size_t)snprintf(out, bytes, "`");
    while (*path && n < bytes) {
        size_t name = strcspn(path, ".");
        bool table = strncmp(path, JOB_TABLE_PREFIX, strlen(JOB_TABLE_PREFIX)) == 0;
        if (table)
            n += (size_t)snprintf(out + n, bytes - n, "tables: {ids: ");
        else
            n += (size_t)snprintf(out + n, bytes - n, "%.*s: ", (int)name, path);
        depth += table ? 1 : 0;
        path += name;
        if (*path++ != '.')
            break;
        n += (size_t)snprintf(out + n, bytes - n, "{");
        depth++;
    }
    n += (size_t)snprintf(out + n, bytes - n, "%s", value);
    for (; depth > 0 && n < bytes; depth--)
        n += (size_t)snprintf(out + n, bytes - n, "}");
    (void)snprintf(out + n, bytes - n, "`");
}

/* ---- sections ---- */

static void write_row(FILE *out, const struct section *s, const struct job_key *key,
                      const char *name, bool kinds)
{
    char cell[CELL_BYTES];
    fprintf(out, "| `%s` |", name);
    value_cell(s, key, cell, sizeof cell);
    write_cell(out, cell);
    default_cell(s, key, name, cell, sizeof cell);
    write_cell(out, cell);
    if (kinds)
        write_cell(out, key->identity ? "identity" : "run-time");
    example_cell(key, cell, sizeof cell);
    write_cell(out, cell);
    write_cell(out, key->doc);
    fputs("\n", out);
}

static void write_rows(FILE *out, const struct section *s)
{
    struct rows rows;
    section_rows(s, &rows);
    size_t identity = 0;
    for (size_t r = 0; r < rows.n; r++)
        identity += rows.row[r].key->identity ? 1 : 0;
    if (!rows.n)
        return;
    bool kinds = identity > 0 && identity < rows.n, one = rows.n == 1;
    for (size_t i = 0; i < PREFIXES_MAX && s->prefix[i]; i++) {
        bool last = i + 1 == PREFIXES_MAX || !s->prefix[i + 1];
        fprintf(out, "%s`%s`", !i ? "\nOptions of " : last ? " and " : ", ", s->prefix[i]);
    }
    if (s->prefix[0])
        fputs(kinds ? ".\n" : ": ", out);
    else if (!kinds)
        fprintf(out, "\n%s ", one ? "This is" : "These are");
    if (!kinds)
        fprintf(out, "%s%s key%s.\n",
                !one       ? ""
                : identity ? "an "
                           : "a ",
                identity ? "identity" : "run-time", one ? "" : "s");
    fprintf(out, "\n| Key | Value | Default |%s Example | Meaning |\n|---|---|---|%s---|---|\n",
            kinds ? " Kind |" : "", kinds ? "---|" : "");
    for (size_t r = 0; r < rows.n; r++)
        write_row(out, s, rows.row[r].key, rows.row[r].name, kinds);
}

static void write_words(FILE *out, const struct section *s)
{
    if (!s->words)
        return;
    fprintf(out, "\n| %s | Meaning |\n|---|---|\n", s->column);
    for (const struct job_word *w = job_key_find(s->words)->words; w->word; w++)
        if (w->value != JOB_WORD_LATER)
            fprintf(out, "| `%s` | %s |\n", w->word, w->doc);
}

static void write_keras_names(FILE *out)
{
    fputs("\n"
          "Like Keras, gradwire numbers layers of the same kind: `dense`, `dense_1`, `dense_2`. "
          "These kinds of\n"
          "layers have another name in Keras:\n"
          "\n"
          "| Layer | Keras's name |\n"
          "|---|---|\n",
          out);
    for (const struct job_word *w = job_key_find(JOB_LAYER_PREFIX)->words; w->word; w++) {
        char path[JOB_PATH_MAX], name[JOB_NAME_MAX];
        (void)snprintf(path, sizeof path, JOB_LAYER_PREFIX ".%s.name", w->word);
        const struct job_key *key = w->value == JOB_WORD_LATER ? NULL : job_key_find(path);
        job_snake_case(key && key->keras ? key->keras : w->word, name, sizeof name);
        if (strcmp(name, w->word) != 0)
            fprintf(out, "| `%s` | `%s` |\n", w->word, name);
    }
}

static void write_later(FILE *out)
{
    fputs("\n"
          "## Not supported yet\n"
          "\n"
          "gradwire knows these keys, but accepts only the value in the second column, which "
          "changes nothing.\n"
          "\n"
          "| Key | Accepted value | Meaning |\n"
          "|---|---|---|\n",
          out);
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->type == KEY_LATER)
            fprintf(out, "| `%s` | %s%s%s | %s |\n", key->path,
                    key->fallback ? "`" : "none: refused", key->fallback ? key->fallback : "",
                    key->fallback ? "`" : "", key->doc);
    fputs("\n"
          "gradwire also knows these values, but refuses them:\n"
          "\n"
          "| Key | Values |\n"
          "|---|---|\n",
          out);
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        char later[CELL_BYTES] = "";
        if (key->words)
            job_words_list(key->words, false, later, sizeof later);
        if (*later)
            fprintf(out, "| `%s` | %s |\n", key->path, later);
    }
}

/* The sections with a link to each: one line for each of the first level, and those below it. */
static void write_contents(FILE *out)
{
    char name[CELL_BYTES];
    size_t column = 0;
    fputs("\n## Contents\n", out);
    for (size_t i = 0; i < SECTIONS; i++) {
        const char *title = sections[i].title, *text = title + strspn(title, "# ");
        bool top = title[2] == ' ', first = i > 0 && sections[i - 1].title[2] == ' ';
        anchor(name, sizeof name, title);
        size_t n = strlen(text) + strlen(name) + strlen(", []()");
        if (top)
            column = strlen("- ");
        else if (column + n > CONTENTS_COLUMNS)
            column = 0;
        fputs(top ? "\n- " : column ? first ? ": " : ", " : first ? ":\n  " : ",\n  ", out);
        fprintf(out, "[%s](#%s)", text, name);
        column += n;
    }
    fputs("\n- [Not supported yet](#not-supported-yet)\n", out);
}

/* The keys whose values do not come from the chief, in lines of the page's width. */
static void write_own(FILE *out)
{
    size_t column = 0;
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        size_t n = strlen(key->path) + strlen(" ``,");
        if (!key->per_process)
            continue;
        if (column)
            fputs(column + n > CONTENTS_COLUMNS ? ",\n" : ", ", out);
        column = column + n > CONTENTS_COLUMNS ? n : column + n;
        fprintf(out, "`%s`", key->path);
    }
    fputs(".\n", out);
}

void job_reference_write(FILE *out)
{
    fputs(head, out);
    write_own(out);
    write_contents(out);
    for (size_t i = 0; i < SECTIONS; i++) {
        const struct section *s = &sections[i];
        fprintf(out, "\n%s\n", s->title);
        if (s->text)
            fprintf(out, "\n%s\n", s->text);
        write_rows(out, s);
        write_words(out, s);
        if (s->keras_names)
            write_keras_names(out);
    }
    write_later(out);
}
