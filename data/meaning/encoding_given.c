#include "data/meaning/encoding_given.h"

#include <jansson.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/texts.h"

enum { LOG_SQUARED_MOST = 1 << 16 };

/* One input and its entry in the file. */
struct taking {
    const struct encoding_given *given;
    struct schema_input *in;
    json_t *from; /* its object in `columns` */
    uint32_t number;
    const char *missing;        /* the job's list */
    const json_t *missing_word; /* the first text of the file's list; NULL: there is none */
};

static enum err damaged(const struct taking *t, struct errmsg *e)
{
    return err_set(e, ERR_CORRUPT, "%s: the entry of input column %u (%s) is not valid",
                   t->given->from, t->number, t->in->name[0] ? SHOWN(t->in->name) : "no name");
}

static enum err differs(const struct taking *t, const char *what, struct errmsg *e)
{
    return err_set(
        e, ERR_INPUT,
        "input column %u (%s): %s differs from that of %s, with which the weights were learned: "
        "restore it, or start from scratch with another --output",
        t->number, t->in->name[0] ? SHOWN(t->in->name) : "no name", what, t->given->from);
}

/* ---- words ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* {"hex": "..."}: bytes that are not UTF-8. */
static enum err add_hex(struct vocabulary *v, const json_t *hex)
{
    const char *digits = json_string_value(hex);
    size_t n = digits ? json_string_length(hex) : 1;
    uint32_t number;
    char *bytes = n % 2 ? NULL : mem_zalloc(n / 2 + 1, 1);
    if (!bytes)
        return n % 2 ? ERR_CORRUPT : ERR_NOMEM;
    enum err err = ERR_OK;
    for (size_t i = 0; i < n && !err; i += 2) {
        int high = hex_digit(digits[i]), low = hex_digit(digits[i + 1]);
        bytes[i / 2] = (char)(high * 16 + low);
        err = high < 0 || low < 0 ? ERR_CORRUPT : ERR_OK;
    }
    if (!err)
        err = vocabulary_add(v, bytes, n / 2, &number);
    mem_free(bytes);
    return err;
}

static enum err read_words(struct vocabulary *v, const json_t *list)
{
    enum err err = json_is_array(list) ? ERR_OK : ERR_CORRUPT;
    for (size_t i = 0; i < json_array_size(list) && !err; i++) {
        const json_t *word = json_array_get(list, i);
        uint32_t number;
        err = json_is_string(word)
                  ? vocabulary_add(v, json_string_value(word), json_string_length(word), &number)
                  : add_hex(v, json_object_get(word, "hex"));
        if (!err && v->count != i + 1) /* a duplicate word */
            err = ERR_CORRUPT;
    }
    return err;
}

static bool same_words(const struct vocabulary *a, const struct vocabulary *b)
{
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        size_t n, m;
        const char *x = vocabulary_text(a, i, &n), *y = vocabulary_text(b, i, &m);
        if (n != m || memcmp(x, y, n) != 0)
            return false;
    }
    return a->count == b->count;
}

static bool same_encode(const struct taking *t, const json_t *o)
{
    const char *word = json_string_value(json_object_get(o, "encode"));
    return word && strcmp(word, t->in->encode == ENCODE_ID ? "id" : "one_hot") == 0;
}

/* All markers of a missing value are one word, the first of them. Another one would be unknown, or a new word, where the
 * weights know the missing value. A text of a job is UTF-8. */
static enum err check_missing_word(const struct taking *t, struct errmsg *e)
{
    const char *was = json_string_value(t->missing_word);
    size_t n;
    if (!was || !t->missing)
        return ERR_OK;
    (void)texts_next(t->missing, &n);
    if (n == json_string_length(t->missing_word) && memcmp(was, t->missing, n) == 0)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "input column %u (%s): a missing value is the word \"%s\", the first text of "
                   "data.missing, but the word \"%s\" in %s, with which the weights were learned: "
                   "write that text first in data.missing",
                   t->number, t->in->name[0] ? SHOWN(t->in->name) : "no name",
                   printable_name((char[PRINTABLE_NAME_BYTES]){""}, t->missing, n), SHOWN(was),
                   t->given->from);
}

static enum err take_category(const struct taking *t, struct errmsg *e)
{
    const json_t *o = json_object_get(t->from, "category");
    struct vocabulary words = {0};
    if (!o)
        return differs(t, "its kind", e);
    if (!same_encode(t, o))
        return differs(t, "its encode", e);
    enum err err = read_words(&words, json_object_get(o, "words"));
    if (!err && !t->in->learns && !same_words(&words, &t->in->words))
        err = differs(t, "its vocabulary", e);
    else if (!err)
        err = check_missing_word(t, e);
    else
        err = err == ERR_NOMEM ? err_set(e, err, "out of memory for words") : damaged(t, e);
    if (err) {
        vocabulary_close(&words);
        return err;
    }
    vocabulary_close(&t->in->words);
    t->in->words = words;
    t->in->known = words.count;
    t->in->complete = json_is_true(json_object_get(o, "complete"));
    return ERR_OK;
}

/* ---- numbers ---- */

static enum err read_borders(struct buckets *b, const json_t *list)
{
    size_t n = json_array_size(list);
    double *value =
        n > JOB_QUANTILES_MAX || !json_is_array(list) ? NULL : mem_zalloc(n + 1, sizeof *value);
    if (!value)
        return ERR_CORRUPT;
    bool rises = true;
    for (size_t i = 0; i < n; i++) {
        value[i] = json_number_value(json_array_get(list, i));
        rises &= json_is_number(json_array_get(list, i)) && (i == 0 || value[i] > value[i - 1]);
    }
    enum err err = rises ? buckets_learn_borders(b, value, (uint32_t)n) : ERR_CORRUPT;
    mem_free(value);
    return err;
}

static enum err read_steps(struct buckets *b, const json_t *o)
{
    const json_t *first = json_object_get(o, "log_squared"), *count = json_object_get(o, "count");
    json_int_t from = json_integer_value(first), n = json_integer_value(count);
    if (!json_is_integer(first) || !json_is_integer(count) || n < 1 || n > LOG_SQUARED_MOST ||
        from < -LOG_SQUARED_MOST || from > LOG_SQUARED_MOST)
        return ERR_CORRUPT;
    *b = (struct buckets){.count = (uint32_t)n, .log_squared = true, .first = (int32_t)from};
    return ERR_OK;
}

static bool same_borders(const struct buckets *a, const struct buckets *b)
{
    return a->count == b->count &&
           (a->count == 1 || memcmp(a->border, b->border, (a->count - 1) * sizeof *a->border) == 0);
}

static bool is_double(const struct taking *t, const json_t *o)
{
    return t->in->wide && json_object_get(o, "input") != NULL;
}

static enum err take_buckets(const struct taking *t, struct errmsg *e)
{
    const json_t *o = json_object_get(t->from, "buckets");
    bool steps = t->in->bucketing == BUCKETS_LOG_SQUARED;
    struct buckets b = {.count = 1};
    if (!o || steps != (json_object_get(o, "log_squared") != NULL))
        return differs(t, "its kind of buckets", e);
    if (!same_encode(t, o))
        return differs(t, "its encode", e);
    enum err err = steps ? read_steps(&b, o) : read_borders(&b, json_object_get(o, "borders"));
    if (err)
        err = damaged(t, e);
    else if (t->in->bucketing == BUCKETS_BORDERS && !same_borders(&b, &t->in->buckets))
        err = differs(t, "its list of borders", e);
    if (err) {
        buckets_close(&b);
        return err;
    }
    buckets_close(&t->in->buckets);
    t->in->buckets = b;
    /* a new run can have another number for missing ones */
    t->in->needs_double = is_double(t, o) || schema_fill_moves(t->in);
    return ERR_OK;
}

static const char *function_of(const struct schema_input *in)
{
    return in->scale == SCALE_LOG1P ? "log1p" : in->scale == SCALE_LOG2 ? "log2" : "";
}

/* The file does not name the scale, and needs not: it has a shift and a divisor. */
static enum err take_number(const struct taking *t, struct errmsg *e)
{
    const json_t *o = json_object_get(t->from, "number"), *shift = json_object_get(o, "shift");
    const json_t *divisor = json_object_get(o, "divisor"), *fill = json_object_get(o, "missing");
    const char *function = json_string_value(json_object_get(o, "function"));
    struct schema_input *in = t->in;
    if (!o)
        return differs(t, "its kind of buckets", e);
    double by = json_number_value(divisor);
    if (!json_is_number(shift) || !json_is_number(divisor) || !(by > 0 || by < 0))
        return damaged(t, e);
    bool scales = json_number_value(shift) != 0 || by != 1;
    bool learns = in->scale == SCALE_STANDARD || in->scale == SCALE_MIN_MAX;
    if (strcmp(function ? function : "", function_of(in)) != 0 || (scales && !learns))
        return differs(t, "its scale", e);
    if (in->missing == MISSING_MEAN && !json_is_number(fill))
        return differs(t, "its value for a missing number", e);
    in->shift = json_number_value(shift);
    in->divisor = by;
    in->fill = in->missing == MISSING_VALUE ? in->missing_value : json_number_value(fill);
    in->needs_double = is_double(t, o);
    return ERR_OK;
}

/* ---- all columns ---- */

static bool is_input(const json_t *column)
{
    return json_object_get(column, "feature") != NULL;
}

static enum err take_input(const struct taking *t, struct errmsg *e)
{
    const char *name = json_string_value(json_object_get(t->from, "name"));
    const char *kind = json_string_value(json_object_get(t->from, "kind"));
    bool number = t->in->kind == COLUMN_NUMBER;
    if (strcmp(name ? name : "", t->in->name) != 0)
        return differs(t, "its name", e);
    if (!kind || strcmp(kind, number ? "number" : "category") != 0)
        return differs(t, "its kind", e);
    if (!number)
        return take_category(t, e);
    return t->in->bucketing == BUCKETS_NONE ? take_number(t, e) : take_buckets(t, e);
}

/* Keys are learned from no rows, except that none lacks one. */
static void read_key(struct table_schema *s, const json_t *column)
{
    const json_t *complete = json_object_get(json_object_get(column, "key"), "complete");
    const char *name = json_string_value(json_object_get(column, "name"));
    for (uint32_t i = 0; i < s->keys && name; i++)
        if (strcmp(s->key[i].name, name) == 0)
            s->key[i].complete = json_is_true(complete);
}

static enum err take_columns(struct table_schema *s, const struct encoding_given *g,
                             const json_t *columns, const json_t *missing, struct errmsg *e)
{
    uint32_t inputs = 0;
    enum err err = ERR_OK;
    for (size_t i = 0; i < json_array_size(columns) && !err; i++) {
        json_t *column = json_array_get(columns, i);
        if (!is_input(column)) {
            read_key(s, column);
            continue;
        }
        const struct taking t = {.given = g,
                                 .in = &s->input[inputs],
                                 .from = column,
                                 .number = inputs + 1,
                                 .missing = s->missing,
                                 .missing_word = json_array_get(missing, 0)};
        if (inputs++ < s->inputs)
            err = take_input(&t, e);
    }
    if (!err && inputs != s->inputs)
        err = err_set(e, ERR_INPUT,
                      "data.columns has %u input columns, but %s, with which the weights were "
                      "learned, has %u: restore them, or start from scratch with another --output",
                      s->inputs, g->from, inputs);
    return err;
}

static enum err take_arithmetic(struct table_schema *s, const struct encoding_given *g,
                                const json_t *arithmetic, struct errmsg *e)
{
    const char *word = json_string_value(arithmetic);
    if (arithmetic && !(word && strcmp(word, ENCODING_ARITHMETIC) == 0))
        return err_set(e, ERR_CORRUPT, "%s: its arithmetic is not " ENCODING_ARITHMETIC, g->from);
    if (!arithmetic)
        schema_round(s);
    return ERR_OK;
}

bool encoding_given_teaches(const struct encoding_given *g)
{
    return g && g->text;
}

enum err encoding_given_take(struct table_schema *s, const struct encoding_given *g,
                             struct errmsg *e)
{
    json_error_t why;
    if (!g->text) {
        schema_round(s);
        return ERR_OK;
    }
    json_t *all = json_loadb(g->text, g->bytes, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (!all)
        return err_set(e, ERR_CORRUPT, "%s: not a valid encoding.json: line %d: %s", g->from,
                       why.line, why.text);
    const json_t *columns = json_object_get(all, "columns");
    enum err err = take_arithmetic(s, g, json_object_get(all, "arithmetic"), e);
    if (!err)
        err = json_is_array(columns)
                  ? take_columns(s, g, columns, json_object_get(all, "missing"), e)
                  : err_set(e, ERR_CORRUPT, "%s: not a valid encoding.json: it has no columns",
                            g->from);
    json_decref(all);
    s->taught = err == ERR_OK;
    return err;
}
