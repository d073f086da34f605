/* Writes docs/reference/job-file.md from the table of keys. */
#include <string.h>

#include "common/job/keys.h"

enum { CELL_BYTES = 512 };

static const struct section {
    const char *group, *text;
} sections[] = {
    {"name", NULL},
    {"model",
     "What is trained. Names, formulas and defaults of layers, losses, metrics and optimizers are\n"
     "those of Keras 3.\n"
     "\n"
     "Layers stand in a list, and each reads the one before it. Where that is not so, its "
     "`inputs`\n"
     "name what it reads: layers before it, or `input`, the model's. A layer may be read more "
     "than\n"
     "once, every one but the last must be; the last one is the model's output. A residual block:\n"
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
     "`inputs` may name columns of csv data, too, also by ranges like `I{1..13}`: numbers and\n"
     "categories are those features of the model's input, keys are looked up in a table (layers\n"
     "`embedding` without `input_dim`, `embedding_bag`, `linear`). A name means a layer before a\n"
     "column. `dense` reads several inputs side by side:\n"
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
    {"tables",
     "Rows by key, which grow as keys come. There is a table for each name that the layers' "
     "`table`\n"
     "gives. docs/reference/data.md, \"Keys\", says what a key is; docs/explanation/tables.md, how rows are updated.\n"
     "\n"
     "```yaml\n"
     "tables:\n"
     "  wide: {optimizer: {adam: {learning_rate: 0.01, beta_2: 0.99}}}\n"
     "  ids: {initializer: zeros, learning_rate: 0.05}   # the job's optimizer, at another rate\n"
     "```\n"
     "\n"
     "An optimizer of a table has the options of `optimizer`, and a schedule those of\n"
     "`training.learning_rate_schedule`; which of them are identity stands there, too."},
    {"data", NULL},
    {"optimizer", "`optimizer: adam`, or with options `optimizer: {adam: {beta_1: 0.9}}`."},
    {"training", NULL},
    {"sync", "Backup workers. docs/explanation/semantics.md, \"Backup workers\", says what a step is made of."},
    {"compression",
     "What travels less precisely or packed. docs/explanation/semantics.md, \"Compression\", says what it "
     "means."},
    {"checkpoint", NULL},
    {"timeouts", NULL},
    {"logs", "What goes to DIR/logs; docs/guides/tensorboard.md says what is there."},
    {"ps", NULL},
    {"worker", NULL},
};

static const char head[] =
    "# The job file\n"
    "\n"
    "<!-- Made from the tables in common/job/table_*.c by `worker --print_job_reference`; edit "
    "that. "
    "-->\n"
    "\n"
    "A job file is YAML. Every key may be set on the command line too: `--set training.epochs=3`,\n"
    "as often as wanted; the last one wins. Elements of lists are named by their number:\n"
    "`--set model.layers[1].dense.units=64`. The value is plain text unless it starts with `[`, "
    "`{`\n"
    "or a quote; then it is YAML. Numbers are decimal (`64`, `0.5`, `1e-3`); neither `nan` nor "
    "`inf`\n"
    "is one. A key that is not listed here, or stands twice, is refused with its line; so is one\n"
    "of which nothing would come beside the others, like `nesterov` without momentum, unless it\n"
    "has its default. `data.synthetic` and its rows may stand beside another `data.format`.\n"
    "\n"
    "**Identity** keys say what is trained: a job that is resumed must have the same values. All\n"
    "others are **run-time** keys and may change from one run to the next. The contents of the "
    "data\n"
    "belong to the identity; their paths and format do not.\n";

static bool in_group(const char *path, const char *group)
{
    size_t n = strlen(group);
    return strncmp(path, group, n) == 0 && (path[n] == 0 || path[n] == '.' || path[n] == '[');
}

static void allowed_cell(const struct job_key *key, char *out, size_t bytes)
{
    char later[CELL_BYTES / 2];
    job_key_allowed(key, out, bytes);
    if (!key->words)
        return;
    job_words_list(key->words, false, later, sizeof later);
    size_t n = strlen(out);
    if (*later)
        (void)snprintf(out + n, bytes - n, " (not yet: %s)", later);
}

static void default_cell(const struct job_key *key, char *out, size_t bytes)
{
    if (key->fallback)
        (void)snprintf(out, bytes, "`%s`", *key->fallback ? key->fallback : "\"\"");
    else
        (void)snprintf(out, bytes, "%s",
                       key->fallback_doc ? key->fallback_doc
                       : key->required   ? "required"
                                         : "");
}

static void write_key(FILE *out, const struct job_key *key)
{
    char allowed[CELL_BYTES], by_default[CELL_BYTES];
    allowed_cell(key, allowed, sizeof allowed);
    default_cell(key, by_default, sizeof by_default);
    fprintf(out, "| `%s` | %s | %s | %s | %s |\n", key->path, allowed, by_default,
            key->identity ? "identity" : "run-time", key->doc);
}

static void write_section(FILE *out, const struct section *s)
{
    fprintf(out, "\n## %s\n", s->group);
    if (s->text)
        fprintf(out, "\n%s\n", s->text);
    fputs("\n| Key | Allowed | Default | | Meaning |\n|---|---|---|---|---|\n", out);
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->type != KEY_LATER && !key->as_job && in_group(key->path, s->group))
            write_key(out, key);
}

static void write_later(FILE *out)
{
    fputs("\n## Not supported yet\n"
          "\n"
          "These keys are known and refused, unless they have the value that changes nothing.\n"
          "\n"
          "| Key | May say | Meaning |\n|---|---|---|\n",
          out);
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        if (key->type == KEY_LATER)
            fprintf(out, "| `%s` | %s%s%s | %s |\n", key->path, key->fallback ? "`" : "",
                    key->fallback ? key->fallback : "", key->fallback ? "`" : "", key->doc);
    }
}

void job_reference_write(FILE *out)
{
    fputs(head, out);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        write_section(out, &sections[i]);
    write_later(out);
}
