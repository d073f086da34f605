/* encoding.json: how a row of a csv becomes features and keys, and which rows of tables a layer looks up by them. A
 * server of the model needs neither the training part nor the job file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/texts.h"
#include "job/keys.h"
#include "common/process/files.h"
#include "data/meaning/encoding_given.h"
#include "export/export.h"

/* Digits that read a double back to the same bits. */
enum { REAL_DIGITS = 17 };

/* Add to an object that may have failed before; on failure *ok becomes 0. */
static void encoding_put(json_t *object, const char *key, json_t *take_value, int *ok)
{
    if (json_object_set_new(object, key, take_value) != 0)
        *ok = 0;
}

/* Text; bytes that are not UTF-8 become {"hex": "..."}. */
static json_t *text(const char *bytes, size_t n, int *ok)
{
    static const char digits[] = "0123456789abcdef";
    json_t *json = json_stringn(bytes, n);
    if (json)
        return json;
    json = json_object();
    char *hex = malloc(2 * n + 1);
    for (size_t i = 0; hex && i < n; i++) {
        hex[2 * i] = digits[(unsigned char)bytes[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)bytes[i] & 15];
    }
    encoding_put(json, "hex", hex ? json_stringn(hex, 2 * n) : NULL, ok);
    free(hex);
    return json;
}

static json_t *words(const struct vocabulary *v, int *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->count; i++) {
        size_t n;
        const char *word = vocabulary_text(v, i, &n);
        if (json_array_append_new(list, text(word, n, ok)) != 0)
            *ok = 0;
    }
    return list;
}

static json_t *texts(const char *joined, int *ok)
{
    json_t *list = json_array();
    for (const char *p = joined, *next; p; p = next) {
        size_t n;
        next = texts_next(p, &n);
        if (json_array_append_new(list, text(p, n, ok)) != 0)
            *ok = 0;
    }
    return list;
}

static const char *encode_of(const struct schema_input *in)
{
    return in->encode == ENCODE_ID ? "id" : "one_hot";
}

static json_t *borders(const struct buckets *b, int *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i + 1 < b->count; i++)
        if (json_array_append_new(list, json_real(b->border[i])) != 0)
            *ok = 0;
    return list;
}

static void put_input(json_t *o, const struct schema_input *in, int *ok)
{
    if (in->needs_double)
        encoding_put(o, "input", json_string("float64"), ok);
}

/* Describe a number in buckets. */
static json_t *of_buckets(const struct schema_input *in, int *ok)
{
    const struct buckets *b = &in->buckets;
    json_t *o = json_object();
    encoding_put(o, "encode", json_string(encode_of(in)), ok);
    encoding_put(o, "missing",
                 in->missing == MISSING_VALUE ? json_real(in->missing_value) : json_null(), ok);
    if (in->missing == MISSING_REFUSE) /* without it null stands for features of 0 */
        encoding_put(o, "refuses_missing", json_true(), ok);
    put_input(o, in, ok);
    encoding_put(o, "count", json_integer((json_int_t)b->count), ok);
    if (in->bucketing == BUCKETS_LOG_SQUARED)
        encoding_put(o, "log_squared", json_integer((json_int_t)b->first), ok);
    else
        encoding_put(o, "borders", borders(b, ok), ok);
    return o;
}

static json_t *of_number(const struct schema_input *in, int *ok)
{
    static const char *const functions[] = {[SCALE_LOG1P] = "log1p", [SCALE_LOG2] = "log2"};
    json_t *o = json_object();
    if (in->scale == SCALE_LOG1P || in->scale == SCALE_LOG2)
        encoding_put(o, "function", json_string(functions[in->scale]), ok);
    encoding_put(o, "shift", json_real(in->shift), ok);
    encoding_put(o, "divisor", json_real(in->divisor), ok);
    encoding_put(o, "missing", in->missing == MISSING_REFUSE ? json_null() : json_real(in->fill),
                 ok);
    put_input(o, in, ok);
    return o;
}

static json_t *of_category(const struct schema_input *in, int *ok)
{
    json_t *o = json_object();
    encoding_put(o, "encode", json_string(encode_of(in)), ok);
    encoding_put(o, "words", words(&in->words, ok), ok);
    return o;
}

/* 64 bits as decimal text, because JSON's numbers may not hold them. */
static json_t *integer_text(uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return json_string(digits);
}

static json_t *of_key(const struct job_column *c, int *ok)
{
    static const char *const missing[] = {
        [KEY_MISSING_EMPTY] = "empty", [KEY_MISSING_NONE] = "none", [KEY_MISSING_KEY] = "key"};
    const struct job_key_column *k = &c->key;
    json_t *o = json_object();
    encoding_put(o, "hash", json_boolean(k->hash), ok);
    encoding_put(o, "space", k->hash ? text(k->space, strlen(k->space), ok) : json_null(), ok);
    encoding_put(o, "buckets", k->buckets ? integer_text(k->buckets) : json_null(), ok);
    encoding_put(o, "missing", json_string(missing[k->missing]), ok);
    if (k->missing == KEY_MISSING_KEY)
        encoding_put(o, "missing_key", integer_text(k->missing_key), ok);
    if (c->kind == COLUMN_CROSS)
        encoding_put(o, "of", texts(c->words, ok), ok);
    if (c->kind != COLUMN_KEYS)
        return o;
    encoding_put(o, "separator", text(k->separator, strlen(k->separator), ok), ok);
    encoding_put(o, "max_values", json_integer(k->max_values), ok);
    encoding_put(o, "weights", json_boolean(k->weights), ok);
    return o;
}

/* The job's columns in their order; inputs also have their index among the features. */
static json_t *encoding_columns(const struct job_csv *csv, const struct table_schema *s, int *ok)
{
    json_t *list = json_array();
    const struct schema_input *in = s->input;
    for (uint32_t i = 0; i < csv->columns; i++) {
        const struct job_column *c = &csv->column[i];
        json_t *o = json_object();
        static const char *const kinds[] = {
            [COLUMN_NUMBER] = "number", [COLUMN_CATEGORY] = "category", [COLUMN_LABEL] = "label",
            [COLUMN_IGNORE] = "ignore", [COLUMN_WEIGHT] = "weight",     [COLUMN_KEY] = "key",
            [COLUMN_KEYS] = "keys",     [COLUMN_CROSS] = "cross"};
        encoding_put(o, "name", *c->name ? text(c->name, strlen(c->name), ok) : json_null(), ok);
        encoding_put(o, "kind", json_string(kinds[c->kind]), ok);
        if (c->kind == COLUMN_NUMBER || c->kind == COLUMN_CATEGORY) {
            encoding_put(o, "feature", json_integer((json_int_t)in->feature), ok);
            encoding_put(o, "width", json_integer((json_int_t)in->width), ok);
            bool number = c->kind == COLUMN_NUMBER;
            if (number && schema_input_is_id(in))
                encoding_put(o, "buckets", of_buckets(in, ok), ok);
            else
                encoding_put(o, number ? "number" : "category",
                             (number ? of_number : of_category)(in, ok), ok);
            in++;
        } else if (job_column_has_keys(c)) {
            encoding_put(o, "key", of_key(c, ok), ok);
        } else if (c->kind == COLUMN_LABEL && c->words) {
            encoding_put(o, "classes", texts(c->words, ok), ok);
        }
        if (json_array_append_new(list, o) != 0)
            *ok = 0;
    }
    return list;
}

/* ---- rows of tables ---- */

/* Uses the job file's words. */
static json_t *of_initializer(const struct job_weights *init, int *ok)
{
    double value = (double)init->init_value, other = (double)init->init_other;
    json_t *o = json_object(), *numbers = json_object();
    const char *word =
        job_word_of(job_key_find(JOB_TABLE_PREFIX ".initializer")->words, (int)init->initializer);
    if (init->initializer == INIT_CONSTANT) {
        encoding_put(numbers, "value", json_real(value), ok);
    } else if (init->initializer == INIT_RANDOM_UNIFORM) {
        encoding_put(numbers, "minval", json_real(other), ok);
        encoding_put(numbers, "maxval", json_real(value), ok);
    } else if (init->initializer != INIT_ZEROS && init->initializer != INIT_ONES) {
        encoding_put(numbers, "mean", json_real(other), ok);
        encoding_put(numbers, "stddev", json_real(value), ok);
    }
    encoding_put(o, word, numbers, ok);
    return o;
}

static json_t *encoding_tables(const struct job *job, int *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < job->model.tables; i++) {
        const struct job_table *t = &job->model.table[i];
        json_t *o = json_object();
        encoding_put(o, "name", text(t->name, strlen(t->name), ok), ok);
        encoding_put(o, "dim", json_integer((json_int_t)t->dim), ok);
        encoding_put(o, "seed", integer_text(job->training.seed), ok);
        bool zeros = job_table_admits(t) && t->unadmitted == UNADMITTED_ZEROS;
        encoding_put(o, "absent", json_string(zeros ? "zeros" : "initial"), ok);
        encoding_put(o, "initializer", of_initializer(&t->init, ok), ok);
        if (json_array_append_new(list, o) != 0)
            *ok = 0;
    }
    return list;
}

static const char *combine_of(const struct job_layer *l)
{
    static const char *const modes[] = {
        [BAG_SUM] = "sum", [BAG_MEAN] = "mean", [BAG_SQRTN] = "sqrtn"};
    return l->kind == LAYER_EMBEDDING_BAG ? modes[l->embedding_bag.mode] : "sum";
}

static json_t *columns_of(const struct job *job, const struct job_layer *l, int *ok)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < l->lookups; k++) {
        uint32_t column = job->model.lookup[l->first_lookup + k].column;
        const char *name = job->data.csv.column[column].name;
        if (json_array_append_new(list, text(name, strlen(name), ok)) != 0)
            *ok = 0;
    }
    return list;
}

static json_t *encoding_lookups(const struct job *job, int *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        if (!job_layer_looks_up(l))
            continue;
        json_t *o = json_object();
        encoding_put(o, "layer", text(l->name, strlen(l->name), ok), ok);
        encoding_put(o, "table", text(l->table_name, strlen(l->table_name), ok), ok);
        encoding_put(o, "columns", columns_of(job, l, ok), ok);
        encoding_put(o, "combine", json_string(combine_of(l)), ok);
        encoding_put(o, "output", json_string(l->kind == LAYER_LINEAR ? "sum" : "concat"), ok);
        encoding_put(o, "bias", json_boolean(l->use_bias), ok);
        if (json_array_append_new(list, o) != 0)
            *ok = 0;
    }
    return list;
}

enum err export_encoding_text(const struct job *job, const struct table_schema *s, char **text,
                              struct errmsg *e)
{
    int ok = 1;
    json_t *all = json_object();
    if (s->wide)
        encoding_put(all, "arithmetic", json_string(ENCODING_ARITHMETIC), &ok);
    encoding_put(all, "features", json_integer((json_int_t)s->features), &ok);
    encoding_put(all, "missing", texts(job->data.csv.missing, &ok), &ok);
    encoding_put(all, "columns", encoding_columns(&job->data.csv, s, &ok), &ok);
    if (job_has_tables(job)) {
        encoding_put(all, "lookups", encoding_lookups(job, &ok), &ok);
        encoding_put(all, "tables", encoding_tables(job, &ok), &ok);
    }
    char *written = ok ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
    json_decref(all);
    if (!written)
        return err_memory_of(e, "encoding.json");
    *text = written;
    return ERR_OK;
}

enum err export_encoding(const char *path, const struct job *job, const struct table_schema *s,
                         struct errmsg *e)
{
    char *text;
    enum err err = export_encoding_text(job, s, &text, e);
    if (err)
        return err;
    err = files_write(path, text, strlen(text), e);
    free(text);
    return err;
}
