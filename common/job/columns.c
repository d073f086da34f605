/* What a job says of csv data: the list of columns, and the texts in it. */
#include <stdlib.h>
#include <string.h>

#include "common/job/read.h"
#include "common/base/mem.h"

enum { TEXT_BYTES_MAX = 4096 };

/* ---- texts ---- */

/* A scalar of one line without control characters; what is quoted may be empty. */
static bool is_text(const struct job_node *node, size_t most)
{
    if (node->kind != NODE_SCALAR || job_tree_is_null(node) || strlen(node->text) > most)
        return false;
    for (const char *p = node->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return true;
}

enum err job_read_text(struct job_reader *r, const struct job_key *key, const struct job_node *node)
{
    if (!is_text(node, JOB_NAME_MAX - 1))
        return job_refuse_value(r, key, node);
    (void)snprintf(job_read_at(r, key), JOB_NAME_MAX, "%s", node->text);
    return ERR_OK;
}

/* Append a line to *lines, which has *bytes of them, ends included. */
static enum err append(struct job_reader *r, char **lines, size_t *bytes, const char *text)
{
    size_t n = strlen(text);
    char *grown = mem_resize(*lines, *bytes + n + 1, 1);
    if (!grown)
        return err_set(r->e, ERR_NOMEM, "out of memory");
    if (*bytes)
        grown[*bytes - 1] = '\n';
    memcpy(grown + *bytes, text, n + 1);
    *lines = grown;
    *bytes += n + 1;
    return ERR_OK;
}

enum err job_read_texts(struct job_reader *r, const struct job_key *key,
                        const struct job_node *node)
{
    const struct job_node *c = node->kind == NODE_LIST ? node->child : node;
    char *lines = NULL, **out = job_read_at(r, key);
    size_t bytes = 0;
    enum err err = c ? ERR_OK : job_refuse_value(r, key, node);
    for (; c && !err; c = node->kind == NODE_LIST ? c->next : NULL)
        err = is_text(c, TEXT_BYTES_MAX) ? append(r, &lines, &bytes, c->text)
                                         : job_refuse_value(r, key, c);
    if (err) {
        mem_free(lines);
        return err;
    }
    mem_free(*out);
    *out = lines;
    return ERR_OK;
}

/* ---- a word that stands twice ---- */

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

/* The words of `lines`, between the characters of `ends`; with `out` NULL how many. */
static size_t slices_of(const char *lines, const char *ends, struct slice *out)
{
    size_t n = 0;
    for (const char *at = lines;; n++) {
        size_t bytes = strcspn(at, ends);
        if (out)
            out[n] = (struct slice){at, bytes};
        if (!at[bytes])
            return n + 1;
        at += bytes + 1;
    }
}

/* Of two equal words the second would be a class, or a feature, that no row has. */
static enum err refuse_twin_word(struct job_reader *r, const struct job_node *node)
{
    const struct job_column *c = &r->job->data.csv.column[r->column];
    const char *ends = c->kind == COLUMN_LABEL ? "\n|" : "\n";
    if (!c->words)
        return ERR_OK;
    size_t n = slices_of(c->words, ends, NULL);
    struct slice *word = mem_zalloc(n, sizeof *word);
    if (!word)
        return err_set(r->e, ERR_NOMEM, "out of memory");
    (void)slices_of(c->words, ends, word);
    qsort(word, n, sizeof *word, slice_order);
    enum err err = ERR_OK;
    for (size_t i = 1; i < n && !err; i++)
        if (slice_order(&word[i - 1], &word[i]) == 0)
            err = job_refuse(r, node, JOB_COLUMN_PREFIX, "'%.*s' stands twice in its %s",
                             (int)word[i].bytes, word[i].text,
                             c->kind == COLUMN_LABEL ? "classes" : "vocabulary");
    mem_free(word);
    return err;
}

/* ---- the list ---- */

void job_columns_free(struct job_csv *csv)
{
    for (uint32_t i = 0; i < csv->columns; i++)
        mem_free(csv->column[i].words);
    mem_free(csv->column);
    csv->column = NULL;
    csv->columns = 0;
}

static enum err refuse_twin(struct job_reader *r, const struct job_node *node)
{
    const struct job_column *column = r->job->data.csv.column, *last = &column[r->column];
    for (uint32_t i = 0; i < r->column; i++) {
        if (last->name[0] && strcmp(column[i].name, last->name) == 0)
            return job_refuse(r, node, JOB_COLUMN_PREFIX,
                              "its name, %s, is that of data.columns[%u] too", last->name, i);
        if (last->kind == COLUMN_LABEL && column[i].kind == COLUMN_LABEL)
            return job_refuse(r, node, JOB_COLUMN_PREFIX,
                              "data.columns[%u] is the label already: there is one", i);
    }
    return ERR_OK;
}

enum err job_read_columns(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node)
{
    struct job_csv *csv = &r->job->data.csv;
    size_t n = 0;
    if (node->kind != NODE_LIST)
        return job_refuse(r, node, key->path, "a list of columns is meant, like - number: age");
    for (const struct job_node *c = node->child; c; c = c->next)
        n++;
    if (n < 2 || n > JOB_COLUMNS_MAX)
        return job_refuse(r, node, key->path, "%zu columns are not allowed; allowed: 2 to %d", n,
                          JOB_COLUMNS_MAX);
    job_columns_free(csv);
    csv->column = mem_zalloc(n, sizeof *csv->column);
    if (!csv->column)
        return err_set(r->e, ERR_NOMEM, "out of memory");
    csv->columns = (uint32_t)n;
    r->column = 0;
    enum err err = ERR_OK;
    for (const struct job_node *c = node->child; c && !err; c = c->next, r->column++) {
        job_read_forget(r, JOB_COLUMN_PREFIX);
        err = job_read_choice(r, job_key_find(JOB_COLUMN_PREFIX), c);
        if (!err)
            err = refuse_twin(r, c);
        if (!err)
            err = refuse_twin_word(r, c);
    }
    return err;
}

/* ---- what holds between keys ---- */

static enum err check_columns(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    bool label = false, features = false;
    for (uint32_t i = 0; i < csv->columns; i++) {
        enum column_kind kind = csv->column[i].kind;
        label |= kind == COLUMN_LABEL;
        features |= kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY;
        if (csv->header == HEADER_NAMES && !csv->column[i].name[0])
            return job_refuse(r, NULL, "data.columns",
                              "column %u has no name; data.header: names finds columns by theirs",
                              i);
    }
    if (!label)
        return job_refuse(r, NULL, "data.columns", "no column is the label, like - label: income");
    if (!features)
        return job_refuse(r, NULL, "data.columns",
                          "no column is a number or a category: there is nothing to learn from");
    return ERR_OK;
}

bool job_reads_csv(const struct job *job)
{
    return job->data.format == DATA_CSV ||
           (job->data.format == DATA_SYNTHETIC && job->data.synthetic == SYNTHETIC_CENSUS);
}

enum err job_check_csv(struct job_reader *r)
{
    const struct job *job = r->job;
    if (!job_reads_csv(job))
        return ERR_OK;
    if (!job->data.csv.columns)
        return job_refuse(r, job_given(r, "data.format"), "data.columns",
                          "it is missing; csv needs the list of columns");
    if (job->model.rank > 1)
        return job_refuse(r, NULL, "model.input.shape",
                          "rows of csv data have one dimension: [features], or auto");
    if (job->data.scale != 1)
        return job_refuse(r, NULL, "data.scale",
                          "csv columns have a scale of their own: - number: {scale: standard}");
    return check_columns(r);
}
