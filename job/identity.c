/* The identity of a job: its canonical text, the lines of its identity keys, and their hash. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/texts.h"
#include "job/keys.h"
#include "job/range.h"
#include "job/read.h"
#include "job/tree.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"

/* ---- a value as text ---- */

enum { VALUE_BYTES = 32 + JOB_CLASS_WEIGHTS_MAX * 32 + JOB_NAMES_BYTES };

static void integers_write(FILE *out, const uint32_t *number, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(out, "%s%u", i ? ", " : "[", number[i]);
    (void)fputs(count ? "]" : "[]", out);
}

static void reals_write(FILE *out, const struct schedule_reals *reals)
{
    char one[DIGITS_REAL_BYTES];
    for (uint32_t i = 0; i < reals->n; i++)
        (void)fprintf(out, "%s%s", i ? ", " : "[", digits_float((double)reals->value[i], one));
    (void)fputs(reals->n ? "]" : "[]", out);
}

static void metrics_write(FILE *out, const struct job_key *key, const struct job *job)
{
    for (uint32_t i = 0; i < job->model.metrics; i++)
        (void)fprintf(out, "%s%s", i ? ", " : "[",
                      job_word_of(key->words, (int)job->model.metric[i].kind));
    (void)fputs(job->model.metrics ? "]" : "[]", out);
}

/* Calls `visit` with the names of a layer's inputs, in order. Stops at the first error. */
static enum err inputs_each(const struct job *job, const struct job_layer *layer,
                            enum err (*visit)(void *ctx, const char *name), void *ctx)
{
    const struct job_column *column = job->data.csv.column;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < layer->lookups && !err; i++)
        err = visit(ctx, column[job->model.lookup[layer->first_lookup + i].column].name);
    for (uint32_t i = 0; i < layer->inputs && !err; i++) {
        uint32_t at = layer->input[i];
        if (at < JOB_INPUT_SELECTION) {
            err = visit(ctx, at ? job->model.layer[at - 1].name : JOB_INPUT_NAME);
            continue;
        }
        const struct job_selection *s = &job->model.selection[at - JOB_INPUT_SELECTION];
        for (uint32_t k = 0; k < s->columns && !err; k++)
            err = visit(ctx, column[job->model.selected[s->first + k]].name);
    }
    return err;
}

/* Writes `bytes` bytes of a text into a line of the identity: a line that begins with a tab continues the one before it. */
static void text_write(FILE *out, const char *text, size_t bytes)
{
    for (const char *end = text + bytes; text < end; text++) {
        (void)fputc(*text, out);
        if (*text == '\n')
            (void)fputc('\t', out);
    }
}

struct inputs_line {
    FILE *out;
    uint32_t written;
};

static enum err input_write(void *ctx, const char *name)
{
    struct inputs_line *line = ctx;
    (void)fputs(line->written++ ? ", " : "[", line->out);
    text_write(line->out, name, strlen(name));
    return ERR_OK;
}

static void inputs_write(FILE *out, const struct job *job, const struct job_layer *layer)
{
    struct inputs_line line = {.out = out};
    (void)inputs_each(job, layer, input_write, &line);
    (void)fputs(line.written ? "]" : "[]", out);
}

static void codecs_write(FILE *out, const struct job_key *key, uint32_t bits)
{
    const char *before = "[";
    for (const struct job_word *w = key->words; w->word; w++)
        if (w->value != JOB_WORD_LATER && bits >> w->value & 1) {
            (void)fprintf(out, "%s%s", before, w->word);
            before = ", ";
        }
    (void)fputs(bits ? "]" : "[]", out);
}

static void class_weights_write(FILE *out, const struct job *job)
{
    const struct job_head *head = &job->model.head[0];
    char number[DIGITS_REAL_BYTES];
    for (uint32_t i = 0; i < head->class_weights; i++)
        (void)fprintf(out, "%s%u: %s", i ? ", " : "{", head->class_weight[i].label,
                      digits_float((double)head->class_weight[i].weight, number));
    (void)fputs(head->class_weights ? "}" : "{}", out);
}

/* Keys that are omitted because their value is the default: the layer is trainable, reads only the one before it, or
 * names no table; no class has a weight; the table uses the job's own value; csv without escapes, as jobs were before
 * data.escape, none of the rows is held out, they are no stream, and training has no metrics of its own. */
static bool is_default(const struct job_key *key, const struct job *job, const void *element)
{
    static const char *const later[] = {"data.escape", "data.order",       "data.window",
                                        "data.mix",    "data.validation.", "metrics."};
    const struct job_layer *layer = element;
    if (job_key_of_layer(key) && key->offset == offsetof(struct job_layer, trainable))
        return layer->trainable;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strncmp(key->path, later[i], strlen(later[i])) == 0)
            return job_key_is_default(key, job);
    if (key->own)
        return !*(const bool *)((const char *)element + key->own);
    if (key->type == KEY_CLASS_WEIGHTS)
        return job->model.head[0].class_weights == 0;
    if (key->type == KEY_NAME && job_key_of_layer(key))
        return !*(const char *)job_key_at(key, job, element);
    if (key->type == KEY_COLUMN_TEXT && strstr(key->path, ".space"))
        return !**(const char *const *)job_key_at(key, job, element);
    return key->type == KEY_INPUTS && layer->inputs == 1 &&
           layer->input[0] == (uint32_t)(layer - job->model.layer);
}

/* Writes the value of any key except lists of paths and of layers. */
static void value_write(FILE *out, const struct job_key *key, const struct job *job,
                        const void *element)
{
    const void *at = job_key_at(key, job, element);
    const uint32_t *number = at;
    char real[32];
    int word;
    switch (key->type) {
    case KEY_NAME:
    case KEY_TEXT:
        (void)fputs(at, out);
        break;
    case KEY_COLUMN_TEXT:
        text_write(out, *(const char *const *)at, strlen(*(const char *const *)at));
        break;
    case KEY_U32:
        if (key->or_auto && *number == UINT32_MAX)
            (void)fputs("auto", out);
        else
            (void)fprintf(out, "%u", *number);
        break;
    case KEY_U64:
        (void)fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case KEY_REAL:
        (void)fputs(digits_float((double)*(const float *)at, real), out);
        break;
    case KEY_DOUBLE:
        (void)fputs(digits_double(*(const double *)at, real), out);
        break;
    case KEY_BOOL:
        (void)fputs(*(const bool *)at ? "true" : "false", out);
        break;
    case KEY_WORD:
    case KEY_CHOICE:
        memcpy(&word, at, sizeof word);
        (void)fputs(job_word_of(key->words, word), out);
        break;
    case KEY_INTEGERS:
        integers_write(out, number + 1, *number);
        break;
    case KEY_REALS:
        reals_write(out, at);
        break;
    case KEY_NAMES:
        (void)fprintf(out, "[%s]", (const char *)at);
        break;
    case KEY_METRICS:
        metrics_write(out, key, job);
        break;
    case KEY_CODECS:
        codecs_write(out, key, *number);
        break;
    case KEY_SHAPE:
        if (*number == 0)
            (void)fputs("auto", out);
        else
            integers_write(out, number + 1, *number);
        break;
    case KEY_PAIR:
        integers_write(out, number, 2);
        break;
    case KEY_CLASS_WEIGHTS:
        class_weights_write(out, job);
        break;
    case KEY_INPUTS:
        inputs_write(out, job, element);
        break;
    default:
        break;
    }
}

/* A text in quotes. A quote of its own that could end it, as others follow, has JOB_TEXTS_ESCAPE before it. */
static void quoted_write(FILE *out, const char *text, size_t bytes)
{
    for (const char *end = text + bytes; text < end; text++) {
        const size_t left = (size_t)(end - text);
        if (*text == JOB_TEXTS_ESCAPE ||
            (left >= 3 && memcmp(text, "\", ", 3) == 0 && (left == 3 || text[3] == '"')))
            (void)fputc(JOB_TEXTS_ESCAPE, out);
        text_write(out, text, 1);
    }
}

/* Writes texts with quotes: `"a", "b"`. */
static void write_texts(FILE *out, const char *texts)
{
    for (const char *next; texts; texts = next) {
        size_t bytes;
        next = texts_next(texts, &bytes);
        (void)fputc('"', out);
        quoted_write(out, texts, bytes);
        (void)fputs(next ? "\", " : "\"", out);
    }
}

/* ---- the lines of the identity ---- */

/* A key without meaning for this job's data.format. */
static bool of_another_format(const struct job_key *key, const struct job *job)
{
    if (key->heeded == job_reads_csv || key->heeded == job_reads_values ||
        key->heeded == job_reads_columns)
        return !key->heeded(job);
    return strncmp(key->path, "data.synthetic", strlen("data.synthetic")) == 0 &&
           (job->data.format != DATA_SYNTHETIC || (key->heeded && !key->heeded(job)));
}

static bool is_identity(const struct job_key *key, const struct job *job)
{
    return key->identity && !of_another_format(key, job);
}

static enum err identity_line(void *ctx, const struct job_key *key, const struct job *job,
                              const void *element, const char *path)
{
    if (!is_identity(key, job) || is_default(key, job, element))
        return ERR_OK;
    (void)fprintf(ctx, "%s = ", path);
    if (key->type == KEY_TEXTS)
        write_texts(ctx, *(char *const *)job_key_at(key, job, element));
    else
        value_write(ctx, key, job, element);
    return fputc('\n', ctx) == EOF || ferror(ctx) ? ERR_NOMEM : ERR_OK;
}

static enum err identity_text(struct job *job)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return ERR_NOMEM;
    enum err err = job_keys_each(job, identity_line, out);
    if (fclose(out) != 0)
        err = ERR_NOMEM;
    job->identity_text = text;
    return err;
}

/* ---- the job as YAML ---- */

struct canonical {
    struct job_node *root;
    struct errmsg *e;
};

/* Puts a list of texts into the tree as a list, or lines: as a list, or as one text if there are not several. */
static enum err put_lines(struct canonical *c, const char *path, const char *lines, bool texts)
{
    char element[JOB_PATH_MAX + 16];
    enum err err = ERR_OK;
    char *copy = mem_strdup(lines), *rest = copy;
    if (!copy)
        return err_memory(c->e);
    bool many = texts || strchr(lines, '\n');
    for (unsigned i = 0; rest && !err; i++) {
        const char *one = strsep(&rest, texts ? TEXTS_JOINT : "\n");
        if (many)
            (void)snprintf(element, sizeof element, "%s[%u]", path, i);
        err = job_tree_put(c->root, many ? element : path, one, true, c->e);
    }
    mem_free(copy);
    return err;
}

struct inputs_list {
    struct canonical *canonical;
    const char *path;
    uint32_t count;
};

/* Whether a name in a list is not the same text without quotes. */
static bool needs_quotes(const char *name)
{
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f || strchr(" ,:[]{}\"'#", *p))
            return true;
    return job_tree_is_null(&(const struct job_node){.kind = NODE_SCALAR, .text = (char *)name});
}

static enum err put_input(void *ctx, const char *name)
{
    struct inputs_list *list = ctx;
    char element[JOB_PATH_MAX + 16], text[2 * JOB_TEXT_MAX + 1];
    job_range_write(text, name);
    (void)snprintf(element, sizeof element, "%s[%u]", list->path, list->count++);
    return job_tree_put(list->canonical->root, element, text, needs_quotes(text),
                        list->canonical->e);
}

/* A name, a space or a separator: only names can have ranges. */
static enum err put_column_text(struct canonical *c, const struct job_key *key, const char *path,
                                const char *text)
{
    char name[2 * JOB_TEXT_MAX + 1];
    if (strstr(key->path, ".name"))
        job_range_write(name, text);
    return job_tree_put(c->root, path, strstr(key->path, ".name") ? name : text, true, c->e);
}

static enum err put_choice(struct canonical *c, const struct job_key *key, const char *path,
                           const char *word)
{
    char option[VALUE_BYTES + JOB_PATH_MAX], group[VALUE_BYTES + JOB_PATH_MAX];
    (void)snprintf(option, sizeof option, "%s.%s", path, word);
    (void)snprintf(group, sizeof group, "%s.%s", key->path, word);
    return job_key_is_group(group) ? job_tree_put_map(c->root, option, c->e)
                                   : job_tree_put(c->root, path, word, false, c->e);
}

static enum err put_list(struct canonical *c, const char *path, const char *list)
{
    char set[VALUE_BYTES + JOB_PATH_MAX];
    (void)snprintf(set, sizeof set, "%s=%s", path, list);
    return job_tree_set(c->root, set, c->e);
}

/* The learning rate is unused if the schedule has its own rates. */
static bool is_unused_rate(const struct job_key *key, const struct job *job, const void *element)
{
    const struct job_table *t = element;
    const char *rate =
        job_key_of_table(key) ? JOB_TABLE_PREFIX ".learning_rate" : "training.learning_rate";
    return strcmp(key->path, rate) == 0 && (t ? &t->optimizer : &job->optimizer)->schedule.kind ==
                                               SCHEDULE_PIECEWISE_CONSTANT_DECAY;
}

static enum err canonical_key(void *ctx, const struct job_key *key, const struct job *job,
                              const void *element, const char *path)
{
    struct canonical *c = ctx;
    char value[VALUE_BYTES];
    if (key->alias || is_default(key, job, element) || is_unused_rate(key, job, element))
        return ERR_OK;
    if (key->type == KEY_PATHS || key->type == KEY_FOLDER || key->type == KEY_FILE ||
        key->type == KEY_TEXTS) {
        const char *lines = *(char *const *)job_key_at(key, job, element);
        return lines ? put_lines(c, path, lines, key->type == KEY_TEXTS) : ERR_OK;
    }
    if (key->type == KEY_INPUTS) {
        struct inputs_list list = {.canonical = c, .path = path};
        return inputs_each(job, element, put_input, &list);
    }
    if (key->type == KEY_COLUMN_TEXT)
        return put_column_text(c, key, path, *(const char *const *)job_key_at(key, job, element));
    value[0] = 0; /* if nothing is written to the stream, the text must be empty */
    FILE *out = fmemopen(value, sizeof value, "w");
    if (!out)
        return err_memory(c->e);
    value_write(out, key, job, element);
    (void)fclose(out);
    if (key->type == KEY_CHOICE)
        return put_choice(c, key, path, value);
    if (key->type == KEY_SHAPE || key->type == KEY_PAIR || key->type == KEY_METRICS ||
        key->type == KEY_NAMES || key->type == KEY_CLASS_WEIGHTS || key->type == KEY_INTEGERS ||
        key->type == KEY_REALS || key->type == KEY_CODECS)
        return put_list(c, path, value);
    return job_tree_put(c->root, path, value, key->type == KEY_TEXT, c->e);
}

static enum err canonical_text(struct job *job, struct errmsg *e)
{
    struct canonical c = {.e = e};
    enum err err = job_tree_new(&c.root, e);
    if (err)
        return err;
    err = job_keys_each(job, canonical_key, &c);
    if (!err)
        err = job_tree_emit(c.root, &job->canonical, e);
    if (!err && strlen(job->canonical) > JOB_TREE_BYTES_MAX)
        err =
            err_set(e, ERR_INPUT,
                    "the job with all of its keys is longer than 128 MiB: shorten the names of its "
                    "columns, or its lists of words");
    job_tree_free(c.root);
    return err;
}

static enum err identity_hash(struct job *job)
{
    struct sha256 *h = sha256_new();
    if (!h)
        return ERR_NOMEM;
    sha256_add(h, job->identity_text, strlen(job->identity_text));
    enum err err = sha256_final(h, job->identity) ? ERR_NOMEM : ERR_OK;
    sha256_free(h);
    return err;
}

enum err job_identify(struct job *job, struct errmsg *e)
{
    enum err err = canonical_text(job, e);
    if (!err && (identity_text(job) || identity_hash(job)))
        err = err_memory(e);
    return err;
}

/* ---- comparison ---- */

struct line { /* a line of an identity text: key and value, with their lengths */
    const char *key, *value;
    int key_bytes, value_bytes;
};

size_t job_identity_line_bytes(const char *text)
{
    size_t n = strcspn(text, "\n");
    while (text[n] == '\n' && text[n + 1] == '\t')
        n += 1 + strcspn(text + n + 1, "\n");
    return n;
}

static bool line_next(const char **at, struct line *l)
{
    const char *p = *at;
    if (!*p)
        return false;
    size_t n = job_identity_line_bytes(p);
    const char *equals = memmem(p, n, " = ", 3);
    const char *key_end = equals ? equals : p + n, *value = equals ? equals + 3 : p + n;
    *l = (struct line){.key = p,
                       .key_bytes = (int)(key_end - p),
                       .value = value,
                       .value_bytes = (int)(p + n - value)};
    *at = p + n + (p[n] == '\n');
    return true;
}

static bool same_key(const struct line *a, const struct line *b)
{
    return a->key_bytes == b->key_bytes && memcmp(a->key, b->key, (size_t)a->key_bytes) == 0;
}

static bool line_find(const char *text, const char *key, struct line *found)
{
    const struct line wanted = {.key = key, .key_bytes = (int)strlen(key)};
    while (line_next(&text, found))
        if (same_key(found, &wanted))
            return true;
    return false;
}

/* Both texts usually list keys in the table's order. So it first tries the line at *next, which moves past the
 * line found. */
static bool line_find_next(const char *text, const char **next, const struct line *wanted,
                           struct line *found)
{
    const char *at = *next;
    bool there = line_next(&at, found) && same_key(found, wanted);
    for (at = there ? at : text; !there && line_next(&at, found);)
        there = same_key(found, wanted);
    *next = there ? at : *next;
    return there;
}

/* See job_settle_weights. */
static bool line_is_weights(const struct line *l)
{
    static const char key[] = "model.weights";
    return l->key_bytes == (int)sizeof key - 1 && memcmp(l->key, key, sizeof key - 1) == 0;
}

/* Weights that were learned later have replaced those of the file. */
static bool line_is_of(const struct line *l, const char *const *folders)
{
    if (folders && line_is_weights(l))
        return false;
    for (; folders && *folders; folders++)
        if (strncmp(l->key, *folders, strlen(*folders)) == 0)
            return true;
    return !folders;
}

static bool same_value(const struct line *a, const struct line *b)
{
    return a->value_bytes == b->value_bytes &&
           memcmp(a->value, b->value, (size_t)a->value_bytes) == 0;
}

/* Converts a line's key to a path of the table: "tables.ids.x" becomes "tables[].x", "data.columns[3].x" becomes
 * "data.columns[].x". */
static void path_of_line(const struct line *l, char path[JOB_PATH_MAX])
{
    static const char tables[] = "tables.";
    const int begin = (int)sizeof tables - 1;
    bool inside = false;
    int i = 0;
    path[0] = 0;
    if (l->key_bytes >= begin && strncmp(l->key, tables, sizeof tables - 1) == 0) {
        (void)snprintf(path, JOB_PATH_MAX, "%s", JOB_TABLE_PREFIX);
        for (i = begin; i < l->key_bytes && l->key[i] != '.';)
            i++;
    }
    size_t n = strlen(path);
    for (; i < l->key_bytes && n + 1 < JOB_PATH_MAX; i++) {
        inside = l->key[i] != ']' && (inside || (i > 0 && l->key[i - 1] == '['));
        if (!inside)
            path[n++] = l->key[i];
    }
    path[n] = 0;
}

static const struct job_key *key_of_line(const struct line *l)
{
    char path[JOB_PATH_MAX];
    path_of_line(l, path);
    return job_key_find(path);
}

static bool value_is(const struct line *l, const char *value)
{
    return value && strlen(value) == (size_t)l->value_bytes &&
           memcmp(value, l->value, (size_t)l->value_bytes) == 0;
}

/* A checkpoint of a release without the key behaves like the key's default. */
static bool line_is_default(const struct line *l)
{
    const struct job_key *key = key_of_line(l);
    return key && (value_is(l, key->fallback) || value_is(l, key->former));
}

/* The default `auto` accepts any value of the checkpoint. */
static bool line_takes_any(const struct line *l)
{
    const struct job_key *key = key_of_line(l);
    return key && key->former && value_is(l, key->fallback);
}

/* Release 0.1.0 wrote a number of KEY_DOUBLE as the float that it was. */
static bool line_was_float(const struct line *was, const struct line *is)
{
    const struct job_key *key = key_of_line(is);
    char number[2][32], nearest[DIGITS_REAL_BYTES];
    if (!key || key->type != KEY_DOUBLE || was->value_bytes >= 32 || is->value_bytes >= 32)
        return false;
    (void)snprintf(number[0], sizeof number[0], "%.*s", was->value_bytes, was->value);
    (void)snprintf(number[1], sizeof number[1], "%.*s", is->value_bytes, is->value);
    return strcmp(digits_float((double)strtof(number[1], NULL), nearest), number[0]) == 0;
}

/* Limits a long value, so that the rest of the message is readable, too. */
static int value_shown(const struct line *l)
{
    enum { SHOWN_BYTES = 60 };
    return l->value_bytes < SHOWN_BYTES ? l->value_bytes : SHOWN_BYTES;
}

/* `folders`: prefixes of the keys to compare, ending with NULL; or NULL: all keys. */
static enum err identity_texts_compare(const char *was, const char *is, const char *const *folders,
                                       struct errmsg *e)
{
    const char *next = is;
    struct line a, b;
    for (const char *at = was; line_next(&at, &a);) {
        if (!line_is_of(&a, folders))
            continue;
        bool there = line_find_next(is, &next, &a, &b);
        if (!there && line_is_weights(&a))
            continue;
        if (!there)
            return err_set(e, ERR_INPUT, "%.*s was %.*s, is not there", a.key_bytes, a.key,
                           value_shown(&a), a.value);
        if (!same_value(&a, &b) && !line_takes_any(&b) && !line_was_float(&a, &b))
            return err_set(e, ERR_INPUT, "%.*s was %.*s, is %.*s", a.key_bytes, a.key,
                           value_shown(&a), a.value, value_shown(&b), b.value);
    }
    next = was;
    for (const char *at = is; line_next(&at, &b);)
        if (line_is_of(&b, folders) && !line_find_next(was, &next, &b, &a) && !line_is_default(&b))
            return err_set(e, ERR_INPUT, "%.*s was not there, is %.*s", b.key_bytes, b.key,
                           value_shown(&b), b.value);
    return ERR_OK;
}

enum err job_identity_compare(const char *was, const char *is, struct errmsg *e)
{
    return identity_texts_compare(was, is, NULL, e);
}

/* ---- values from a checkpoint ---- */

static const char merge[] = "training.geo_merge";

/* A release without the key merged as Paddle does. */
static enum geo_merge merge_that_was(const char *was)
{
    struct line found;
    if (was && !line_find(was, merge, &found))
        return GEO_MERGE_PADDLE;
    return was && value_is(&found, "paddle") ? GEO_MERGE_PADDLE : GEO_MERGE_AVERAGE;
}

/* Replaces only this key's value. The other lines must stay as they are: a shape that is `auto` and was since taken
 * from the data is not part of the job file. Returns NULL if memory runs out. */
static char *with_merge(const char *text, const char *value)
{
    struct line unsettled = {.value = text};
    bool found = line_find(text, merge, &unsettled);
    assert(found && value_is(&unsettled, "auto"));
    (void)found;
    size_t begin = (size_t)(unsettled.value - text), bytes = strlen(text) + strlen(value) + 1;
    char *out = mem_zalloc(bytes, 1);
    if (out)
        (void)snprintf(out, bytes, "%.*s%s%s", (int)begin, text, value,
                       unsettled.value + unsettled.value_bytes);
    return out;
}

enum err job_settle_merge(struct job *job, const char *was, struct errmsg *e)
{
    struct job_training *t = &job->training;
    if (t->update != UPDATE_GEO || t->geo_merge != GEO_MERGE_AUTO)
        return ERR_OK;
    enum geo_merge settled = merge_that_was(was);
    char *text = with_merge(job->identity_text, settled == GEO_MERGE_PADDLE ? "paddle" : "average");
    if (!text)
        return err_memory(e);
    mem_free(job->identity_text);
    job->identity_text = text;
    t->geo_merge = settled;
    return ERR_OK;
}

enum err job_settle_weights(struct job *job, const char *value, struct errmsg *e)
{
    size_t bytes = strlen(job->identity_text) + strlen(value) + 32;
    char *text = mem_zalloc(bytes, 1);
    if (!text)
        return err_memory(e);
    (void)snprintf(text, bytes, "%smodel.weights = %s\n", job->identity_text, value);
    mem_free(job->identity_text);
    job->identity_text = text;
    return ERR_OK;
}

bool job_weights_of(const char *text, char *out, size_t bytes)
{
    struct line l;
    while (line_next(&text, &l)) {
        if (!line_is_weights(&l) || (size_t)l.value_bytes >= bytes)
            continue;
        memcpy(out, l.value, (size_t)l.value_bytes);
        out[l.value_bytes] = 0;
        return true;
    }
    return false;
}

/* ---- keys of table rows ---- */

/* Matches "data.columns[3].key.name", and the same for the kinds keys and cross. */
static bool names_key_column(const struct line *l)
{
    static const char *const ends[] = {"].key.name", "].keys.name", "].cross.name"};
    static const char begin[] = "data.columns[";
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int n = (int)strlen(ends[i]);
        if (l->key_bytes >= n && memcmp(l->key + l->key_bytes - n, ends[i], (size_t)n) == 0)
            return strncmp(l->key, begin, sizeof begin - 1) == 0;
    }
    return false;
}

/* Finds the line of an option of the key column that the line `name` belongs to. If there is none, the value is
 * "". */
static void find_option(const char *text, const struct line *name, const char *option,
                        struct line *found)
{
    char key[JOB_PATH_MAX];
    int n = snprintf(key, sizeof key, "%.*s%s", name->key_bytes - (int)strlen("name"), name->key,
                     option);
    if (n >= (int)sizeof key || !line_find(text, key, found))
        *found = (struct line){.key = name->key, .key_bytes = name->key_bytes, .value = ""};
}

/* Columns may have moved, so they are matched by name. */
static bool find_column(const char *text, const struct line *name, struct line *found)
{
    while (line_next(&text, found))
        if (names_key_column(found) && same_value(found, name))
            return true;
    return false;
}

/* Goes on in *at to a key column that is in the text `is`, too. */
static bool next_of_both(const char **at, const char *is, struct line *old, struct line *new)
{
    while (line_next(at, old))
        if (names_key_column(old) && find_column(is, old, new))
            return true;
    return false;
}

static enum err compare_keys(const char *was, const char *is, struct errmsg *e)
{
    enum { MISSING = 4 }; /* from here on, of missing values */
    static const char *const options[] = {"hash", "space",   "buckets",
                                          "of",   "missing", "missing.key.key"};
    struct line old, new, a, b;
    for (const char *at = was; next_of_both(&at, is, &old, &new);) {
        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
            find_option(was, &old, options[i], &a);
            find_option(is, &new, options[i], &b);
            if (!same_value(&a, &b))
                return err_set(
                    e, ERR_INPUT,
                    "the keys of column %.*s: %s was %.*s, is %.*s, so no row%s would be "
                    "found; restore the earlier value",
                    value_shown(&old), old.value, options[i], value_shown(&a), a.value,
                    value_shown(&b), b.value, i < MISSING ? "" : " of a missing value");
        }
    }
    return ERR_OK;
}

/* ---- how fields become the words of keys ---- */

static enum err compare_separators(const char *was, const char *is, const struct line *old,
                                   const struct line *new, struct errmsg *e)
{
    static const char *const options[] = {"separator", "weights"};
    struct line a, b;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        find_option(was, old, options[i], &a);
        find_option(is, new, options[i], &b);
        if (a.value_bytes && b.value_bytes && !same_value(&a, &b))
            return err_set(e, ERR_INPUT, "%s of column %.*s was \"%.*s\", is \"%.*s\"", options[i],
                           value_shown(old), old->value, value_shown(&a), a.value, value_shown(&b),
                           b.value);
    }
    return ERR_OK;
}

/* A text without the key has its default. */
static struct line value_of(const char *text, const char *key)
{
    const char *fallback = job_key_find(key)->fallback;
    struct line found;
    if (!line_find(text, key, &found))
        found = (struct line){.value = fallback, .value_bytes = (int)strlen(fallback)};
    return found;
}

enum err job_identity_compare_fields(const char *was, const char *is, struct errmsg *e)
{
    static const char *const keys[] = {"data.quotes", "data.escape", "data.trim"};
    struct line old, new;
    bool any = false;
    for (const char *at = was; next_of_both(&at, is, &old, &new);) {
        any = true;
        enum err err = compare_separators(was, is, &old, &new, e);
        if (err)
            return err;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && any; i++) {
        const struct line a = value_of(was, keys[i]), b = value_of(is, keys[i]);
        if (!same_value(&a, &b))
            return err_set(e, ERR_INPUT, "%s was %.*s, is %.*s", keys[i], a.value_bytes, a.value,
                           b.value_bytes, b.value);
    }
    return ERR_OK;
}

enum err job_identity_compare_model(const char *was, const char *is, struct errmsg *e)
{
    static const char *const folders[] = {"model", "tables", "optimizer", NULL};
    enum err err = identity_texts_compare(was, is, folders, e);
    return err ? err : compare_keys(was, is, e);
}

enum err job_identity_compare_columns(const char *was, const char *is, struct errmsg *e)
{
    static const char *const folders[] = {"data.columns", NULL};
    return identity_texts_compare(was, is, folders, e);
}
