/* The columns of csv and libsvm: the list in the job file, the texts in it, and checks of columns against each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/texts.h"
#include "job/keys.h"
#include "job/range.h"
#include "job/read.h"

/* ---- texts ---- */

/* A scalar of UTF-8, which a text of --set need not be; a quoted one can be empty. */
static bool is_text(const struct job_node *node, size_t most)
{
    return node->kind == NODE_SCALAR && !job_tree_is_null(node) && strlen(node->text) <= most &&
           printable_is_utf8(node->text);
}

/* A scalar of one line without control characters other than tabs. */
static bool is_line(const struct job_node *node, size_t most)
{
    if (!is_text(node, most))
        return false;
    for (const char *p = node->text; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

enum err job_read_text(struct job_reader *r, const struct job_key *key, const struct job_node *node)
{
    if (!is_line(node, JOB_NAME_MAX - 1))
        return job_refuse_value(r, key, node);
    (void)snprintf(job_read_at(r, key), JOB_NAME_MAX, "%s", node->text);
    return ERR_OK;
}

/* Copies a text into the job. */
static enum err job_keep_text(struct job_reader *r, const char *text, const char **kept)
{
    size_t bytes = strlen(text) + 1;
    struct job_text *made = mem_zalloc(sizeof *made + bytes, 1);
    if (!made)
        return err_memory(r->e);
    memcpy(made->text, text, bytes);
    made->before = r->job->texts;
    r->job->texts = made;
    *kept = made->text;
    return ERR_OK;
}

enum err job_read_column_text(struct job_reader *r, const struct job_key *key,
                              const struct job_node *node)
{
    if (!is_text(node, JOB_TEXT_MAX))
        return job_refuse_value(r, key, node);
    return job_keep_text(r, node->text, job_read_at(r, key));
}

/* Appends a text to the list *texts, which has *bytes bytes including joints. */
static enum err texts_append(struct job_reader *r, char **texts, size_t *bytes, const char *text)
{
    size_t n = strlen(text);
    char *grown = mem_resize(*texts, *bytes + n + 1, 1);
    if (!grown)
        return err_memory(r->e);
    if (*bytes)
        grown[*bytes - 1] = *TEXTS_JOINT;
    memcpy(grown + *bytes, text, n + 1);
    *texts = grown;
    *bytes += n + 1;
    return ERR_OK;
}

enum err job_read_texts(struct job_reader *r, const struct job_key *key,
                        const struct job_node *node)
{
    const struct job_node *c = node->kind == NODE_LIST ? node->child : node;
    char *texts = NULL, **out = job_read_at(r, key);
    size_t bytes = 0;
    enum err err =
        c ? ERR_OK : job_refuse(r, node, key->path, "the list is empty; fill it, or remove it");
    for (; c && !err; c = node->kind == NODE_LIST ? c->next : NULL)
        err = is_text(c, JOB_TEXT_MAX) ? texts_append(r, &texts, &bytes, c->text)
                                       : job_refuse_value(r, key, c);
    if (err) {
        mem_free(texts);
        return err;
    }
    mem_free(*out);
    *out = texts;
    return ERR_OK;
}

/* ---- duplicate words ---- */

struct slice {
    const char *text;
    size_t bytes;
};

static int slice_order(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Splits `texts`, and for a label its texts into names of classes. Returns the number of words; `out` can be NULL. */
static size_t slices_of(const char *texts, bool label, struct slice *out)
{
    size_t n = 0;
    for (const char *at = texts;; n++) {
        size_t bytes;
        (void)texts_next(at, &bytes);
        bytes = label ? job_class_name_bytes(at, bytes) : bytes;
        if (out)
            out[n] = (struct slice){at, bytes};
        if (!at[bytes])
            return n + 1;
        at += bytes + 1;
    }
}

/* The second of two equal words would be a class, or a feature, that no row has. */
static enum err refuse_twin_word(struct job_reader *r, const struct job_node *node)
{
    const struct job_column *c = &r->job->data.csv.column[r->column];
    const bool label = c->kind == COLUMN_LABEL;
    char shown[PRINTABLE_NAME_BYTES];
    if (!c->words)
        return ERR_OK;
    size_t n = slices_of(c->words, label, NULL);
    struct slice *word = mem_zalloc(n, sizeof *word);
    if (!word)
        return err_memory(r->e);
    (void)slices_of(c->words, label, word);
    qsort(word, n, sizeof *word, slice_order);
    enum err err = ERR_OK;
    for (size_t i = 1; i < n && !err; i++)
        if (slice_order(&word[i - 1], &word[i]) == 0)
            err = REFUSE_COLUMN(r, node, "'%s' occurs twice in its %s",
                                printable_name(shown, word[i].text, word[i].bytes),
                                c->kind == COLUMN_LABEL   ? "classes"
                                : c->kind == COLUMN_CROSS ? "of"
                                                          : "vocabulary");
    mem_free(word);
    return err;
}

/* ---- libsvm: the format itself determines most options of its two columns, a label and keys ---- */

#define OF_KEYS JOB_COLUMN_PREFIX ".keys."

/* Notes options of the keys column just read that libsvm does not allow. */
static void job_note_otherwise(struct job_reader *r)
{
    const struct job_column *c = &r->job->data.csv.column[r->column];
    const struct {
        const char *path;
        bool otherwise;
    } options[] = {
        {OF_KEYS "hash", c->key.hash},
        {OF_KEYS "space", true},
        {OF_KEYS "separator", strcmp(c->key.separator, " ") != 0},
        {OF_KEYS "missing", c->key.missing != KEY_MISSING_NONE},
        {OF_KEYS "weights", !c->key.weights},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options && c->kind == COLUMN_KEYS; i++) {
        const struct job_node *node = job_given(r, options[i].path);
        if (node && options[i].otherwise && !r->otherwise.path)
            r->otherwise = (struct job_otherwise){options[i].path, node, r->item};
    }
}

/* Returns the keys column if the columns are a label and keys, in any order; otherwise NULL. */
static struct job_column *libsvm_keys_of(const struct job_csv *csv)
{
    struct job_column *a = &csv->column[0], *b = &csv->column[1];
    if (csv->columns == 2 && a->kind == COLUMN_LABEL && b->kind == COLUMN_KEYS)
        return b;
    return csv->columns == 2 && a->kind == COLUMN_KEYS && b->kind == COLUMN_LABEL ? a : NULL;
}

/* A line is read up to its comment, so no label has the text of such a class. */
static enum err check_classes_of_libsvm(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    for (uint32_t i = 0; i < csv->columns; i++)
        if (csv->column[i].words && strchr(csv->column[i].words, '#'))
            return REFUSE_COLUMN(r, job_column_node(r, i),
                                 "its classes have a #, with which a comment begins in libsvm: "
                                 "write other labels, or use csv");
    return ERR_OK;
}

/* Checks the columns, and sets the options that the format determines. */
static enum err job_check_libsvm(struct job_reader *r)
{
    struct job_column *keys = libsvm_keys_of(&r->job->data.csv);
    if (!keys)
        return job_refuse(r, NULL, "data.columns",
                          "a row of libsvm is a label and index:value pairs; write [label, keys: "
                          "{name: features, max_values: 64}]");
    if (r->otherwise.path) {
        r->item = r->otherwise.item;
        return job_refuse(
            r, r->otherwise.node, r->otherwise.path,
            "in libsvm the index is the key, and the value its weight; remove this option");
    }
    keys->key.hash = false;
    keys->key.weights = true;
    keys->key.missing = KEY_MISSING_NONE;
    keys->key.space = "";
    memcpy(keys->key.separator, " ", 2);
    return check_classes_of_libsvm(r);
}

/* ---- the list ---- */

void job_columns_free(struct job_csv *csv)
{
    for (uint32_t i = 0; i < csv->columns; i++)
        mem_free(csv->column[i].words);
    mem_free(csv->column);
    mem_free(csv->named);
    csv->column = NULL;
    csv->named = NULL;
    csv->columns = csv->places = 0;
}

/* The place of the name among `named`, or the free place for it. */
static uint32_t *place_of(const struct job_csv *csv, const char *name, size_t bytes)
{
    uint32_t at = (uint32_t)XXH3_64bits(name, bytes) & (csv->places - 1);
    for (; csv->named[at]; at = (at + 1) & (csv->places - 1)) {
        const char *other = csv->column[csv->named[at] - 1].name;
        if (strlen(other) == bytes && memcmp(other, name, bytes) == 0)
            break;
    }
    return &csv->named[at];
}

uint32_t job_column_named(const struct job_csv *csv, const char *name, size_t bytes)
{
    const uint32_t number = csv->places ? *place_of(csv, name, bytes) : 0;
    return number ? number - 1 : csv->columns;
}

/* The column has its name now; of several without one, the first counts. */
static enum err note_name(struct job_csv *csv, uint32_t column, struct errmsg *e)
{
    if (2 * column >= csv->places) {
        struct job_csv more = *csv;
        more.places = csv->places ? 2 * csv->places : 64;
        more.named = mem_zalloc(more.places, sizeof *more.named);
        if (!more.named)
            return err_memory(e);
        for (uint32_t i = 0; i < csv->places; i++)
            if (csv->named[i]) {
                const char *name = csv->column[csv->named[i] - 1].name;
                *place_of(&more, name, strlen(name)) = csv->named[i];
            }
        mem_free(csv->named);
        *csv = more;
    }
    const char *name = csv->column[column].name;
    uint32_t *place = place_of(csv, name, strlen(name));
    *place = *place ? *place : column + 1;
    return ERR_OK;
}

static enum err refuse_twin(struct job_reader *r, const struct job_node *node)
{
    const struct job_csv *csv = &r->job->data.csv;
    const struct job_column *column = csv->column, *last = &column[r->column];
    const bool one = last->kind == COLUMN_LABEL || last->kind == COLUMN_WEIGHT;
    uint32_t i = one ? 0 : r->column, named = r->column;
    while (i < r->column && column[i].kind != last->kind)
        i++;
    if (last->name[0])
        named = job_column_named(csv, last->name, strlen(last->name));
    if (named < r->column && named <= i)
        return REFUSE_COLUMN(
            r, node, "its name, %s, is also the name of data.columns[%u]; rename one of them",
            SHOWN(last->name), column[named].item);
    if (i < r->column)
        return REFUSE_COLUMN(r, node, "data.columns[%u] is already the %s; only one column can be",
                             column[i].item, last->kind == COLUMN_LABEL ? "label" : "weight");
    return ERR_OK;
}

/* data.delimiter takes the word tab, and a separator the text itself. */
bool job_doubts_separators(const struct job *job, struct errmsg *text)
{
    for (uint32_t i = 0; i < job->data.csv.columns; i++) {
        const struct job_column *c = &job->data.csv.column[i];
        const struct job_word *w = job_key_find("data.delimiter")->words;
        if (c->kind != COLUMN_KEYS)
            continue;
        while (w->word && strcmp(w->word, c->key.separator) != 0)
            w++;
        if (!w->word)
            continue;
        const char is[] = {
            job_delimiter_char(&(struct job_csv){.delimiter = (enum csv_delimiter)w->value}), '\0'};
        (void)err_set(text, ERR_INPUT,
                      "data.columns[%u]: its separator is the text %s, and not the character; for "
                      "that write separator: \"%s\"",
                      c->item, w->word, *is == '\t' ? "\\t" : is);
        return true;
    }
    return false;
}

/* Report the key that the user probably meant: "hash: false" alone leaves a missing value without a key. */
static enum err check_key(struct job_reader *r, const struct job_node *node)
{
    const struct job_column *c = &r->job->data.csv.column[r->column];
    const struct job_key_column *k = &c->key;
    const struct job_rule rules[] = {
        {!k->hash && k->missing == KEY_MISSING_EMPTY, JOB_COLUMN_PREFIX, NULL,
         "with hash: false a missing value has no key; write missing: none, or missing: {key: 0}"},
        {k->hash && k->missing == KEY_MISSING_KEY, JOB_COLUMN_PREFIX, NULL,
         "missing: {key: ...} needs hash: false; allowed with hash: true: empty, none"},
        {!k->hash && k->space[0], JOB_COLUMN_PREFIX, NULL,
         "its space is part of the hash, and hash is false; remove space"},
        {c->kind == COLUMN_KEYS && !k->separator[0], JOB_COLUMN_PREFIX, NULL,
         "its separator is empty"},
        {k->weights && strcmp(k->separator, ":") == 0, JOB_COLUMN_PREFIX, NULL,
         "its separator is :, which marks a value's weight; choose another, or remove weights"},
        {0},
    };
    return c->kind == COLUMN_KEY || c->kind == COLUMN_KEYS ? job_check_rules(r, node, rules)
                                                           : ERR_OK;
}

static enum err check_borders(struct job_reader *r, const struct job_node *node,
                              const struct job_column *c)
{
    double before = -INFINITY;
    for (const char *p = c->words, *next; p; p = next) {
        size_t n;
        char *end, shown[PRINTABLE_NAME_BYTES];
        next = texts_next(p, &n);
        (void)printable_name(shown, p, n);
        double border = strtod(p, &end);
        bool decimal = n > 0 && !memchr(p, 'x', n) && !memchr(p, 'X', n);
        if (!decimal || end != p + n || !isfinite((float)border))
            return REFUSE_COLUMN(r, node, "its border '%s' is not a number", shown);
        if (border <= before)
            return REFUSE_COLUMN(r, node, "its border %s is not above the border before it", shown);
        before = border;
    }
    return ERR_OK;
}

static enum err check_number(struct job_reader *r, const struct job_node *node)
{
    const struct job_column *c = &r->job->data.csv.column[r->column];
    const struct job_rule rules[] = {
        {c->buckets == BUCKETS_NONE && c->encode != ENCODE_ONE_HOT, JOB_COLUMN_PREFIX, NULL,
         "its encode is for buckets, and it has none; add buckets, such as {quantiles: 10}, or "
         "remove encode"},
        {c->buckets != BUCKETS_NONE && c->scale != SCALE_NONE, JOB_COLUMN_PREFIX, NULL,
         "a number with buckets has no scale; remove scale or buckets"},
        {c->buckets == BUCKETS_BORDERS && !c->words, JOB_COLUMN_PREFIX, NULL,
         "its borders are missing; write buckets: {borders: [0, 10]}"},
        {0},
    };
    if (c->kind != COLUMN_NUMBER)
        return ERR_OK;
    enum err err = job_check_rules(r, node, rules);
    return err ? err : check_borders(r, node, c);
}

static enum err columns_add(struct job_reader *r)
{
    struct job_csv *csv = &r->job->data.csv;
    struct job_column *grown = mem_extend(csv->column, csv->columns, 1, sizeof *grown);
    if (!grown)
        return err_memory(r->e);
    csv->column = grown;
    grown[csv->columns++] = (struct job_column){.item = r->item, .name = "", .key.space = ""};
    return ERR_OK;
}

/* Names the column that was read last: the range's name with `number`. */
static enum err columns_name(struct job_reader *r, const struct job_node *node,
                             const struct job_range *range, uint32_t number)
{
    struct job_column *c = &r->job->data.csv.column[r->column];
    char name[JOB_TEXT_MAX + 1];
    if (job_range_name(range, number, name, sizeof name))
        return REFUSE_COLUMN(r, node, "a name in its range has more than %d bytes", JOB_TEXT_MAX);
    enum err err = strcmp(name, c->name) != 0 ? job_keep_text(r, name, &c->name) : ERR_OK;
    if (err)
        return err;
    if (job_column_has_keys(c) && c->key.hash && !c->key.space[0])
        c->key.space = c->name;
    err = refuse_twin(r, node);
    return err ? err : note_name(&r->job->data.csv, r->column, r->e);
}

/* Adds a copy of `like`, for another name of its range. */
static enum err copy_column(struct job_reader *r, const struct job_column *like)
{
    enum err err = columns_add(r);
    if (err)
        return err;
    struct job_column *c = &r->job->data.csv.column[r->column];
    *c = *like;
    c->words = like->words ? mem_strdup(like->words) : NULL;
    return like->words && !c->words ? err_memory(r->e) : ERR_OK;
}

/* Replaces the column just read with one column for each name of its range. */
static enum err expand(struct job_reader *r, const struct job_node *node)
{
    const struct job_csv *csv = &r->job->data.csv;
    struct job_column like = csv->column[r->column];
    struct job_range range;
    uint32_t first = r->column;
    if (job_range_parse(&range, like.name))
        return REFUSE_COLUMN(r, node,
                             "its name, %s, is not a valid range; write a range like C{1..26}, or "
                             "\\{ for a { of the name",
                             SHOWN(like.name));
    if (first + job_range_count(&range) > JOB_COLUMNS_MAX)
        return REFUSE_COLUMN(r, node, "more than %d columns", JOB_COLUMNS_MAX);
    enum err err = ERR_OK;
    for (uint32_t i = range.first; i <= range.last && !err; i++, r->column++) {
        like.words = csv->column[first].words;
        if (i > range.first)
            err = copy_column(r, &like);
        if (!err)
            err = columns_name(r, node, &range, i);
    }
    return err;
}

static enum err read_column(struct job_reader *r, const struct job_node *node)
{
    enum err err = columns_add(r);
    if (err)
        return err;
    job_read_forget(r, JOB_COLUMN_PREFIX);
    err = job_read_choice(r, job_key_find(JOB_COLUMN_PREFIX), node);
    struct job_column *c = &r->job->data.csv.column[r->column];
    if (c->kind == COLUMN_CROSS) { /* a missing value in one of its columns is part of the cross */
        c->key.hash = true;
        c->key.missing = KEY_MISSING_NONE;
    }
    if (!err)
        err = check_number(r, node);
    if (!err)
        err = refuse_twin_word(r, node);
    if (!err)
        err = check_key(r, node);
    job_note_otherwise(r);
    return err ? err : expand(r, node);
}

enum err job_read_columns(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node)
{
    struct job_csv *csv = &r->job->data.csv;
    if (node->kind != NODE_LIST)
        return job_refuse(r, node, key->path, "it must be a list of columns, like - number: age");
    job_columns_free(csv);
    r->column = r->item = 0;
    r->otherwise.path = NULL;
    enum err err = ERR_OK;
    for (const struct job_node *c = node->child; c && !err; c = c->next, r->item++)
        err = read_column(r, c);
    if (!err && csv->columns < 2)
        return job_refuse(r, node, key->path, "%u columns are not allowed; allowed: 2 to %d",
                          csv->columns, JOB_COLUMNS_MAX);
    return err;
}

/* ---- checks across keys ---- */

const struct job_node *job_column_node(struct job_reader *r, uint32_t column)
{
    const struct job_node *c = job_given(r, "data.columns")->child;
    r->item = r->job->data.csv.column[column].item;
    for (uint32_t i = 0; i < r->item; i++)
        c = c->next;
    return c;
}

/* ---- crosses ---- */

/* Returns the key column with this name; csv->columns if there is none. */
static uint32_t find_key(const struct job_csv *csv, const char *name, size_t bytes)
{
    const uint32_t i = job_column_named(csv, name, bytes);
    return i < csv->columns && csv->column[i].kind == COLUMN_KEY ? i : csv->columns;
}

uint32_t job_cross_columns(const struct job_csv *csv, const struct job_column *cross,
                           uint32_t of[JOB_CROSS_MAX])
{
    uint32_t n = 0;
    for (const char *at = cross->words, *next; at; at = next) {
        size_t bytes;
        next = texts_next(at, &bytes);
        uint32_t column = find_key(csv, at, bytes);
        if (n == JOB_CROSS_MAX || column == csv->columns)
            return 0;
        of[n++] = column;
    }
    return n < 2 ? 0 : n;
}

/* Reports why job_cross_columns returned 0. */
static enum err refuse_cross(struct job_reader *r, uint32_t cross)
{
    const struct job_csv *csv = &r->job->data.csv;
    const struct job_node *node = job_column_node(r, cross);
    char shown[PRINTABLE_NAME_BYTES];
    for (const char *at = csv->column[cross].words, *next; at; at = next) {
        size_t bytes;
        next = texts_next(at, &bytes);
        (void)printable_name(shown, at, bytes);
        if (find_key(csv, at, bytes) == csv->columns)
            return REFUSE_COLUMN(r, node, "its of names %s, and there is no column - key: %s",
                                 shown, shown);
    }
    return REFUSE_COLUMN(r, node, "its of must name 2 to %d key columns, like of: [C1, C2]",
                         JOB_CROSS_MAX);
}

static enum err job_check_crosses(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    uint32_t of[JOB_CROSS_MAX];
    for (uint32_t i = 0; i < csv->columns; i++)
        if (csv->column[i].kind == COLUMN_CROSS && job_cross_columns(csv, &csv->column[i], of) == 0)
            return refuse_cross(r, i);
    return ERR_OK;
}

/* ---- csv ---- */

/* The memory of a column's value, in units of four bytes; a key takes two. */
static uint64_t cells_of(const struct job_column *c)
{
    uint64_t value = 2 + c->key.weights;
    return c->kind == COLUMN_KEYS ? 1 + c->key.max_values * value : job_column_has_keys(c) ? 3 : 1;
}

static enum err check_row_cells(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    uint64_t cells = 0;
    for (uint32_t i = 0; i < csv->columns; i++)
        cells += cells_of(&csv->column[i]);
    if (cells <= JOB_ROW_CELLS_MAX)
        return ERR_OK;
    return job_refuse(
        r, NULL, "data.columns",
        "a row has room for %llu values of 4 bytes; allowed: up to %d; reduce max_values",
        (unsigned long long)cells, JOB_ROW_CELLS_MAX);
}

/* Without quotes and escapes, a field cannot contain the delimiter. */
static enum err check_separators(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    if (csv->quotes || csv->escape != ESCAPE_NONE)
        return ERR_OK;
    for (uint32_t i = 0; i < csv->columns; i++)
        if (csv->column[i].kind == COLUMN_KEYS &&
            strchr(csv->column[i].key.separator, job_delimiter_char(csv)))
            return REFUSE_COLUMN(r, job_column_node(r, i),
                                 "its separator contains data.delimiter, which no field can "
                                 "contain with data.quotes: false; choose another");
    return ERR_OK;
}

/* Rows whose first field is empty, or in quotes, are no comments. */
static enum err check_comment(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    const struct job_rule rules[] = {
        {csv->comment[0] && csv->comment[0] == job_delimiter_char(csv), "data.comment", NULL,
         "it begins with data.delimiter, so rows whose first field is empty would be comments; "
         "choose another"},
        {csv->comment[0] == '"' && csv->quotes, "data.comment", NULL,
         "it begins with a quote, so rows whose first field is in quotes would be comments; choose "
         "another, or data.quotes: false"},
        {0},
    };
    return job_check_rules(r, NULL, rules);
}

static enum err csv_check_columns(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    bool label = false, features = false;
    for (uint32_t i = 0; i < csv->columns; i++) {
        enum column_kind kind = csv->column[i].kind;
        label |= kind == COLUMN_LABEL;
        features |= kind != COLUMN_LABEL && kind != COLUMN_WEIGHT && kind != COLUMN_IGNORE;
        if (!csv->column[i].name[0] &&
            (csv->header == HEADER_NAMES || r->job->data.format == DATA_PARQUET))
            return job_refuse(
                r, NULL, "data.columns", "column %u has no name; %s needs a name for every column",
                i, csv->header == HEADER_NAMES ? "data.header: names" : "data.format: parquet");
    }
    const struct job_rule rules[] = {
        {!label, "data.columns", NULL, "no column is the label; add one, like - label: income"},
        {!features, "data.columns", NULL,
         "no column is a number, a category or a key, so there is nothing to learn from"},
        {0},
    };
    return job_check_rules(r, NULL, rules);
}

const char *job_class_names(const struct job_csv *csv)
{
    for (uint32_t i = 0; i < csv->columns; i++)
        if (csv->column[i].kind == COLUMN_LABEL)
            return csv->column[i].words;
    return NULL;
}

char job_delimiter_char(const struct job_csv *csv)
{
    static const char delimiters[] = {',', '\t', ';', '|', ' '};
    return delimiters[csv->delimiter];
}

char job_escape_char(const struct job_csv *csv)
{
    return csv->escape == ESCAPE_BACKSLASH ? '\\' : '\0';
}

bool job_reads_csv(const struct job *job)
{
    return job->data.format == DATA_CSV ||
           (job->data.format == DATA_SYNTHETIC && job->data.synthetic != SYNTHETIC_DIGITS);
}

bool job_reads_values(const struct job *job)
{
    return job_reads_csv(job) || job->data.format == DATA_PARQUET;
}

#define FORMAT_ROWS(kind, word, rows, meaning) [DATA_##kind] = rows,
bool job_reads_columns(const struct job *job)
{
    enum { ARRAYS, COLUMNS, MAKES };
    static const int rows[] = {JOB_FORMATS(FORMAT_ROWS, JOB_NO_ALIAS)};
    return rows[job->data.format] == COLUMNS || job_reads_csv(job);
}

bool job_draws_clicks(const struct job *job)
{
    return job->data.format == DATA_SYNTHETIC && job->data.synthetic == SYNTHETIC_CLICKS;
}

bool job_has_weights(const struct job *job)
{
    const struct job_csv *csv = &job->data.csv;
    for (uint32_t i = 0; i < csv->columns; i++)
        if (csv->column[i].kind == COLUMN_WEIGHT)
            return true;
    return false;
}

enum err job_check_csv(struct job_reader *r)
{
    const struct job *job = r->job;
    const bool libsvm = job->data.format == DATA_LIBSVM, parquet = job->data.format == DATA_PARQUET;
    const char *format = libsvm ? "libsvm" : parquet ? "parquet" : "csv";
    if (!job_reads_columns(job))
        return ERR_OK;
    if (!job->data.csv.columns)
        return job_refuse(
            r, job_given(r, "data.format"), "data.columns", "it is missing; %s needs %s", format,
            libsvm ? "[label, keys: {name: features, max_values: 64}]" : "the list of columns");
    if (job->model.rank > 1)
        return job_refuse(r, NULL, "model.input.shape",
                          "rows of %s data have one dimension: [features], or auto", format);
    if (job->data.scale != 1)
        return libsvm
                   ? job_refuse(r, NULL, "data.scale", "libsvm's values are not scaled; remove it")
                   : job_refuse(r, NULL, "data.scale",
                                "%s columns have a scale of their own; write - number: {scale: "
                                "standard}",
                                format);
    enum err err = libsvm ? job_check_libsvm(r) : csv_check_columns(r);
    if (!err && !libsvm)
        err = check_separators(r);
    if (!err)
        err = check_comment(r);
    if (!err)
        err = job_check_crosses(r);
    return err ? err : check_row_cells(r);
}
