/* encoding.json: how a row of a csv becomes features and keys, and which rows of tables a layer looks up by them. A
 * server of the model needs neither the training part nor the job file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/json.h"
#include "common/base/texts.h"
#include "job/keys.h"
#include "data/meaning/encoding_given.h"
#include "export/export.h"

/* Digits that read a double back to the same bits. */
enum { REAL_DIGITS = 17 };

/* Text; bytes that are not UTF-8 become {"hex": "..."}. */
static json_t *text(const char *bytes, size_t n, bool *ok)
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
    json_put(json, "hex", hex ? json_stringn(hex, 2 * n) : NULL, ok);
    free(hex);
    return json;
}

static json_t *words(const struct vocabulary *v, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->count; i++) {
        size_t n;
        const char *word = vocabulary_text(v, i, &n);
        json_push(list, text(word, n, ok), ok);
    }
    return list;
}

static json_t *texts(const char *joined, bool *ok)
{
    json_t *list = json_array();
    for (const char *p = joined, *next; p; p = next) {
        size_t n;
        next = texts_next(p, &n);
        json_push(list, text(p, n, ok), ok);
    }
    return list;
}

static const char *encode_of(const struct schema_input *in)
{
    return in->encode == ENCODE_ID ? "id" : "one_hot";
}

static json_t *borders(const struct buckets *b, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i + 1 < b->count; i++)
        json_push(list, json_real(b->border[i]), ok);
    return list;
}

static void put_input(json_t *o, const struct schema_input *in, bool *ok)
{
    if (in->needs_double)
        json_put(o, "input", json_string("float64"), ok);
}

/* Describe a number in buckets. */
static json_t *of_buckets(const struct schema_input *in, bool *ok)
{
    const struct buckets *b = &in->buckets;
    json_t *o = json_object();
    json_put(o, "encode", json_string(encode_of(in)), ok);
    json_put(o, "missing",
             in->missing == MISSING_VALUE ? json_real(in->missing_value) : json_null(), ok);
    if (in->missing == MISSING_REFUSE) /* without it null stands for features of 0 */
        json_put(o, "refuses_missing", json_true(), ok);
    put_input(o, in, ok);
    json_put(o, "count", json_integer((json_int_t)b->count), ok);
    if (in->bucketing == BUCKETS_LOG_SQUARED)
        json_put(o, "log_squared", json_integer((json_int_t)b->first), ok);
    else
        json_put(o, "borders", borders(b, ok), ok);
    return o;
}

static json_t *of_number(const struct schema_input *in, bool *ok)
{
    static const char *const functions[] = {[SCALE_LOG1P] = "log1p", [SCALE_LOG2] = "log2"};
    json_t *o = json_object();
    if (in->scale == SCALE_LOG1P || in->scale == SCALE_LOG2)
        json_put(o, "function", json_string(functions[in->scale]), ok);
    json_put(o, "shift", json_real(in->shift), ok);
    json_put(o, "divisor", json_real(in->divisor), ok);
    json_put(o, "missing", in->missing == MISSING_REFUSE ? json_null() : json_real(in->fill), ok);
    put_input(o, in, ok);
    return o;
}

static json_t *of_category(const struct schema_input *in, bool *ok)
{
    json_t *o = json_object();
    json_put(o, "encode", json_string(encode_of(in)), ok);
    json_put(o, "words", words(&in->words, ok), ok);
    if (in->complete && !in->learns)
        json_put(o, "complete", json_true(), ok);
    return o;
}

/* 64 bits as decimal text, because JSON's numbers may not hold them. */
static json_t *integer_text(uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return json_string(digits);
}

static json_t *of_key(const struct job_column *c, bool complete, bool *ok)
{
    static const char *const missing[] = {
        [KEY_MISSING_EMPTY] = "empty", [KEY_MISSING_NONE] = "none", [KEY_MISSING_KEY] = "key"};
    const struct job_key_column *k = &c->key;
    json_t *o = json_object();
    json_put(o, "hash", json_boolean(k->hash), ok);
    json_put(o, "space", k->hash ? text(k->space, strlen(k->space), ok) : json_null(), ok);
    json_put(o, "buckets", k->buckets ? integer_text(k->buckets) : json_null(), ok);
    json_put(o, "missing", json_string(missing[k->missing]), ok);
    if (k->missing == KEY_MISSING_KEY)
        json_put(o, "missing_key", integer_text(k->missing_key), ok);
    if (complete && k->missing == KEY_MISSING_NONE && c->kind != COLUMN_CROSS)
        json_put(o, "complete", json_true(), ok);
    if (c->kind == COLUMN_CROSS)
        json_put(o, "of", texts(c->words, ok), ok);
    if (c->kind != COLUMN_KEYS)
        return o;
    json_put(o, "separator", text(k->separator, strlen(k->separator), ok), ok);
    json_put(o, "max_values", json_integer(k->max_values), ok);
    json_put(o, "weights", json_boolean(k->weights), ok);
    return o;
}

/* The job's columns in their order; inputs also have their index among the features. */
static json_t *encoding_columns(const struct job_csv *csv, const struct table_schema *s, bool *ok)
{
    json_t *list = json_array();
    const struct schema_input *in = s->input;
    const struct table_key *key = s->key;
    for (uint32_t i = 0; i < csv->columns; i++) {
        const struct job_column *c = &csv->column[i];
        json_t *o = json_object();
        static const char *const kinds[] = {
            [COLUMN_NUMBER] = "number", [COLUMN_CATEGORY] = "category", [COLUMN_LABEL] = "label",
            [COLUMN_IGNORE] = "ignore", [COLUMN_WEIGHT] = "weight",     [COLUMN_KEY] = "key",
            [COLUMN_KEYS] = "keys",     [COLUMN_CROSS] = "cross"};
        json_put(o, "name", *c->name ? text(c->name, strlen(c->name), ok) : json_null(), ok);
        json_put(o, "kind", json_string(kinds[c->kind]), ok);
        if (c->kind == COLUMN_NUMBER || c->kind == COLUMN_CATEGORY) {
            json_put(o, "feature", json_integer((json_int_t)in->feature), ok);
            json_put(o, "width", json_integer((json_int_t)in->width), ok);
            bool number = c->kind == COLUMN_NUMBER;
            if (number && schema_input_is_id(in))
                json_put(o, "buckets", of_buckets(in, ok), ok);
            else
                json_put(o, number ? "number" : "category",
                         (number ? of_number : of_category)(in, ok), ok);
            in++;
        } else if (job_column_has_keys(c)) {
            json_put(o, "key", of_key(c, key++->complete, ok), ok);
        } else if (c->kind == COLUMN_LABEL && c->words) {
            json_put(o, "classes", texts(c->words, ok), ok);
        }
        json_push(list, o, ok);
    }
    return list;
}

/* ---- rows of tables ---- */

/* Uses the job file's words. */
static json_t *of_initializer(const struct job_weights *init, bool *ok)
{
    double value = (double)init->init_value, other = (double)init->init_other;
    json_t *o = json_object(), *numbers = json_object();
    const char *word =
        job_word_of(job_key_find(JOB_TABLE_PREFIX ".initializer")->words, (int)init->initializer);
    if (init->initializer == INIT_CONSTANT) {
        json_put(numbers, "value", json_real(value), ok);
    } else if (init->initializer == INIT_RANDOM_UNIFORM) {
        json_put(numbers, "minval", json_real(other), ok);
        json_put(numbers, "maxval", json_real(value), ok);
    } else if (init->initializer != INIT_ZEROS && init->initializer != INIT_ONES) {
        json_put(numbers, "mean", json_real(other), ok);
        json_put(numbers, "stddev", json_real(value), ok);
    }
    json_put(o, word, numbers, ok);
    return o;
}

static json_t *encoding_tables(const struct job *job, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < job->model.tables; i++) {
        const struct job_table *t = &job->model.table[i];
        json_t *o = json_object();
        json_put(o, "name", text(t->name, strlen(t->name), ok), ok);
        json_put(o, "dim", json_integer((json_int_t)t->dim), ok);
        json_put(o, "seed", integer_text(job->training.seed), ok);
        bool zeros = job_table_admits(t) && t->unadmitted == UNADMITTED_ZEROS;
        json_put(o, "absent", json_string(zeros ? "zeros" : "initial"), ok);
        json_put(o, "initializer", of_initializer(&t->init, ok), ok);
        json_push(list, o, ok);
    }
    return list;
}

static const char *combine_of(const struct job_layer *l)
{
    static const char *const modes[] = {
        [BAG_SUM] = "sum", [BAG_MEAN] = "mean", [BAG_SQRTN] = "sqrtn"};
    return l->kind == LAYER_EMBEDDING_BAG ? modes[l->embedding_bag.mode] : "sum";
}

static json_t *columns_of(const struct job *job, const struct job_layer *l, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < l->lookups; k++) {
        uint32_t column = job->model.lookup[l->first_lookup + k].column;
        const char *name = job->data.csv.column[column].name;
        json_push(list, text(name, strlen(name), ok), ok);
    }
    return list;
}

static json_t *encoding_lookups(const struct job *job, bool *ok)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        if (!job_layer_looks_up(l))
            continue;
        json_t *o = json_object();
        json_put(o, "layer", text(l->name, strlen(l->name), ok), ok);
        json_put(o, "table", text(l->table_name, strlen(l->table_name), ok), ok);
        json_put(o, "columns", columns_of(job, l, ok), ok);
        json_put(o, "combine", json_string(combine_of(l)), ok);
        json_put(o, "output", json_string(l->kind == LAYER_LINEAR ? "sum" : "concat"), ok);
        json_put(o, "bias", json_boolean(l->use_bias), ok);
        json_push(list, o, ok);
    }
    return list;
}

enum err export_encoding_text(const struct job *job, const struct table_schema *s, char **text,
                              struct errmsg *e)
{
    bool ok = true;
    json_t *all = json_object();
    if (s->wide)
        json_put(all, "arithmetic", json_string(ENCODING_ARITHMETIC), &ok);
    json_put(all, "features", json_integer((json_int_t)s->features), &ok);
    json_put(all, "missing", texts(job->data.csv.missing, &ok), &ok);
    json_put(all, "columns", encoding_columns(&job->data.csv, s, &ok), &ok);
    if (job_has_tables(job)) {
        json_put(all, "lookups", encoding_lookups(job, &ok), &ok);
        json_put(all, "tables", encoding_tables(job, &ok), &ok);
    }
    char *written = ok ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
    json_decref(all);
    if (!written)
        return err_memory_of(e, "encoding.json");
    *text = written;
    return ERR_OK;
}

enum err export_encoding(const struct place *model, const struct job *job,
                         const struct table_schema *s, struct errmsg *e)
{
    char *text;
    enum err err = export_encoding_text(job, s, &text, e);
    if (err)
        return err;
    err = place_put(model, "encoding.json", text, strlen(text), e);
    free(text);
    return err;
}
