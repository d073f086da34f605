/* The functions of gradwire-predict.h: the library's types around folder, rows and scorer. */
#include "predict/gradwire-predict.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "common/base/texts.h"
#include "common/base/mem.h"
#include "common/base/version.h"
#include "predict/rows.h"
#include "predict/folder.h"

struct gradwire_model {
    struct folder folder;
    struct columns columns;
    /* of the label column: (names) the names of each class, in `text`; NULL: none */
    uint32_t names;
    const char **name;
    char *text;
};

struct gradwire_scorer {
    const struct gradwire_model *model;
    uint32_t rows_max;
    struct rows *rows;
    struct scorer *scorer;
};

/* ---- errors ---- */

static enum gradwire_status status_of(enum err err)
{
    switch (err) {
    case ERR_OK:
        return GRADWIRE_OK;
    case ERR_INPUT:
    case ERR_NOTFOUND:
        return GRADWIRE_INPUT;
    case ERR_NOMEM:
        return GRADWIRE_MEMORY;
    case ERR_CORRUPT:
    case ERR_NEWER:
    case ERR_TOOBIG:
        return GRADWIRE_DAMAGED;
    default:
        return GRADWIRE_IO;
    }
}

/* Write the error of a column (GRADWIRE_NONE: of none); returns its status. */
static enum gradwire_status report(struct gradwire_error *out, enum err err, uint32_t column,
                                   const struct errmsg *e)
{
    if (err && out) {
        out->column = column == GRADWIRE_NONE ? -1 : (int32_t)column;
        (void)snprintf(out->text, sizeof out->text, "%.*s", (int)sizeof out->text - 1, e->text);
    }
    return status_of(err);
}

static enum gradwire_status refuse_call(struct gradwire_error *out, const char *why)
{
    struct errmsg e;
    (void)snprintf(e.text, sizeof e.text, "%s", why);
    return report(out, ERR_INPUT, GRADWIRE_NONE, &e);
}

const char *gradwire_version(void)
{
    return GRADWIRE_VERSION;
}

/* ---- the model ---- */

/* Split the names of the label's classes. */
static enum err name_classes(struct gradwire_model *m, struct errmsg *e)
{
    const char *names = job_class_names(&m->folder.job.data.csv);
    if (!names)
        return ERR_OK;
    size_t most = strlen(names) + 1;
    m->text = mem_strdup(names);
    m->name = mem_zalloc(most, sizeof *m->name);
    if (!m->text || !m->name)
        return err_memory_for(e, "the names of classes");
    for (char *at = m->text; at;) {
        char *end = strchr(at, *TEXTS_JOINT);
        m->name[m->names++] = at;
        if (end)
            *end++ = '\0';
        at = end;
    }
    return ERR_OK;
}

enum gradwire_status gradwire_model_open(struct gradwire_model **model, const char *path,
                                         struct gradwire_error *error)
{
    struct errmsg e = {""};
    struct gradwire_model *m = mem_zalloc(1, sizeof *m);
    enum err err = m ? folder_open(&m->folder, path, &e) : err_memory_for(&e, "a model");
    if (!err)
        err = columns_init(&m->columns, &m->folder, &e);
    if (!err)
        err = name_classes(m, &e);
    if (err) {
        gradwire_model_close(m);
        return report(error, err, GRADWIRE_NONE, &e);
    }
    openblas_set_num_threads(1);
    *model = m;
    return GRADWIRE_OK;
}

void gradwire_model_close(struct gradwire_model *m)
{
    if (!m)
        return;
    columns_close(&m->columns);
    folder_close(&m->folder);
    mem_free(m->name);
    mem_free(m->text);
    mem_free(m);
}

/* ---- columns ---- */

uint32_t gradwire_model_columns(const struct gradwire_model *m)
{
    return m->columns.values;
}

uint32_t gradwire_model_crosses(const struct gradwire_model *m)
{
    return m->columns.crosses;
}

/* NULL: there is no such column. */
static const struct meaning_field *field_of(const struct gradwire_model *m, uint32_t column)
{
    return column < m->columns.values + m->columns.crosses ? &m->columns.of[column] : NULL;
}

static const struct schema_input *input_of(const struct gradwire_model *m, uint32_t column)
{
    const struct meaning_field *f = field_of(m, column);
    bool input = f && (f->kind == COLUMN_NUMBER || f->kind == COLUMN_CATEGORY);
    return input ? &m->folder.schema->input[f->cell] : NULL;
}

static const struct table_key *column_key(const struct gradwire_model *m, uint32_t column)
{
    const struct meaning_field *f = field_of(m, column);
    return f && !input_of(m, column) ? &m->folder.schema->key[f->cell] : NULL;
}

const char *gradwire_column_name(const struct gradwire_model *m, uint32_t column)
{
    const struct meaning_field *f = field_of(m, column);
    return f ? m->folder.job.data.csv.column[f->column].name : NULL;
}

uint32_t gradwire_column_find(const struct gradwire_model *m, const char *name)
{
    for (uint32_t i = 0; field_of(m, i); i++)
        if (strcmp(gradwire_column_name(m, i), name) == 0)
            return i;
    return GRADWIRE_NONE;
}

enum gradwire_kind gradwire_column_kind(const struct gradwire_model *m, uint32_t column)
{
    const struct meaning_field *f = field_of(m, column);
    switch (f ? f->kind : COLUMN_IGNORE) {
    case COLUMN_NUMBER:
        return GRADWIRE_NUMBER;
    case COLUMN_CATEGORY:
        return GRADWIRE_CATEGORY;
    case COLUMN_KEY:
        return GRADWIRE_KEY;
    case COLUMN_KEYS:
        return GRADWIRE_KEYS;
    case COLUMN_CROSS:
        return GRADWIRE_CROSS;
    default:
        return GRADWIRE_NO_COLUMN;
    }
}

uint32_t gradwire_column_features(const struct gradwire_model *m, uint32_t column, uint32_t *first)
{
    const struct schema_input *in = input_of(m, column);
    if (!in)
        return 0;
    *first = in->feature;
    return in->width;
}

uint32_t gradwire_column_max_values(const struct gradwire_model *m, uint32_t column)
{
    const struct table_key *k = column_key(m, column);
    return k ? table_key_width(k) : 0;
}

/* ---- inputs and outputs ---- */

uint32_t gradwire_model_features(const struct gradwire_model *m)
{
    return model_features(m->folder.model);
}

uint32_t gradwire_model_shape(const struct gradwire_model *m, uint32_t shape[GRADWIRE_RANK_MAX])
{
    _Static_assert((int)GRADWIRE_RANK_MAX == (int)TENSOR_RANK_MAX, "a job has no more");
    uint32_t rank = gradwire_model_features(m) ? m->folder.job.model.rank : 0;
    memcpy(shape, m->folder.job.model.shape, rank * sizeof *shape);
    return rank;
}

uint32_t gradwire_model_outputs(const struct gradwire_model *m)
{
    return model_outputs(m->folder.model);
}

const char *gradwire_model_output_name(const struct gradwire_model *m)
{
    return m->folder.job.model.layer[m->folder.job.model.layers - 1].name;
}

uint32_t gradwire_model_classes(const struct gradwire_model *m)
{
    return model_classes(m->folder.model);
}

const char *gradwire_class_name(const struct gradwire_model *m, uint32_t label)
{
    return label < m->names ? m->name[label] : NULL;
}

uint32_t gradwire_model_layers(const struct gradwire_model *m)
{
    return model_lookups(m->folder.model);
}

const char *gradwire_layer_name(const struct gradwire_model *m, uint32_t layer)
{
    return layer < gradwire_model_layers(m) ? model_lookup(m->folder.model, layer).layer : NULL;
}

uint32_t gradwire_layer_width(const struct gradwire_model *m, uint32_t layer)
{
    return layer < gradwire_model_layers(m) ? model_lookup(m->folder.model, layer).width : 0;
}

/* ---- a scorer ---- */

enum gradwire_status gradwire_scorer_new(struct gradwire_scorer **scorer,
                                         const struct gradwire_model *model, uint32_t rows_max,
                                         struct gradwire_error *error)
{
    struct errmsg e = {""};
    if (rows_max == 0)
        return refuse_call(error, "rows_max is 0: a scorer has at least one row");
    struct gradwire_scorer *s = mem_zalloc(1, sizeof *s);
    enum err err =
        s ? scorer_new(&s->scorer, &model->folder, rows_max, &e) : err_memory_for(&e, "a scorer");
    if (!err)
        err = rows_new(&s->rows, &model->folder, rows_max, &e);
    if (err) {
        gradwire_scorer_free(s);
        return report(error, err, GRADWIRE_NONE, &e);
    }
    s->model = model;
    s->rows_max = rows_max;
    *scorer = s;
    return GRADWIRE_OK;
}

void gradwire_scorer_free(struct gradwire_scorer *s)
{
    if (!s)
        return;
    rows_free(s->rows);
    scorer_free(s->scorer);
    mem_free(s);
}

/* ---- rows ---- */

void gradwire_scorer_clear(struct gradwire_scorer *s)
{
    rows_clear(s->rows);
}

uint32_t gradwire_scorer_rows(const struct gradwire_scorer *s)
{
    return rows_count(s->rows);
}

enum gradwire_status gradwire_scorer_add_text(struct gradwire_scorer *s,
                                              const struct gradwire_text *fields,
                                              struct gradwire_error *error)
{
    struct errmsg e;
    uint32_t column = GRADWIRE_NONE;
    enum err err = rows_add(s->rows, fields, NULL, &column, &e);
    return report(error, err, column, &e);
}

enum gradwire_status gradwire_scorer_add_values(struct gradwire_scorer *s,
                                                const struct gradwire_value *values,
                                                struct gradwire_error *error)
{
    struct errmsg e;
    uint32_t column = GRADWIRE_NONE;
    enum err err = rows_add(s->rows, NULL, values, &column, &e);
    return report(error, err, column, &e);
}

void gradwire_scorer_begin_file(struct gradwire_scorer *s, const char *name)
{
    rows_begin_file(s->rows, name);
}

size_t gradwire_scorer_record_bytes(const struct gradwire_scorer *s, const char *text, size_t bytes)
{
    return rows_record_bytes(s->rows, text, bytes);
}

enum gradwire_status gradwire_scorer_add_record(struct gradwire_scorer *s, const char *record,
                                                size_t bytes, struct gradwire_error *error)
{
    struct errmsg e;
    uint32_t column = GRADWIRE_NONE;
    enum err err = rows_add_record(s->rows, record, bytes, &column, &e);
    return report(error, err, column, &e);
}

enum gradwire_status gradwire_scorer_add_numbers(struct gradwire_scorer *s, const float *numbers,
                                                 struct gradwire_error *error)
{
    struct errmsg e;
    return report(error, rows_add_numbers(s->rows, numbers, &e), GRADWIRE_NONE, &e);
}

/* ---- scores ---- */

enum gradwire_status gradwire_scorer_score(struct gradwire_scorer *s, float *outputs,
                                           struct gradwire_error *error)
{
    struct errmsg e;
    const struct leaf *leaf = rows_leaf(s->rows);
    enum err err = scorer_run(s->scorer, leaf->n, leaf->x, leaf->keys, outputs, &e);
    return report(error, err, GRADWIRE_NONE, &e);
}

enum gradwire_status gradwire_scorer_score_features(struct gradwire_scorer *s,
                                                    const float *features, uint32_t n,
                                                    float *outputs, struct gradwire_error *error)
{
    struct errmsg e;
    if (gradwire_model_layers(s->model) > 0)
        return refuse_call(error, "the model has tables: its rows need keys, not only features");
    if (n > s->rows_max)
        return refuse_call(error, "more rows than the scorer's rows_max");
    return report(error, scorer_run(s->scorer, n, features, NULL, outputs, &e), GRADWIRE_NONE, &e);
}

/* ---- the encoding ---- */

void gradwire_scorer_features(const struct gradwire_scorer *s, float *features)
{
    const struct leaf *leaf = rows_leaf(s->rows);
    memcpy(features, leaf->x,
           (size_t)leaf->n * gradwire_model_features(s->model) * sizeof *features);
}

enum gradwire_status gradwire_scorer_keys(const struct gradwire_scorer *s, uint32_t column,
                                          uint64_t *keys, float *weights,
                                          struct gradwire_error *error)
{
    if (!column_key(s->model, column))
        return refuse_call(error, "there is no such column, or it has no keys");
    rows_column_keys(s->rows, column, keys, weights);
    return GRADWIRE_OK;
}

enum gradwire_status gradwire_scorer_vectors(struct gradwire_scorer *s, uint32_t layer,
                                             float *vectors, struct gradwire_error *error)
{
    if (layer >= gradwire_model_layers(s->model))
        return refuse_call(error, "there is no such layer over a table");
    const struct leaf *leaf = rows_leaf(s->rows);
    scorer_lookup(s->scorer, leaf->n, leaf->keys, layer, vectors);
    return GRADWIRE_OK;
}
