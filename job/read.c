/* Reads values: a function for each type parses a node into the key's member; the functions for maps, choices and their options call
 * these as the table of keys says. A value that is not allowed is refused with what is allowed; a name that no key has, with the key
 * that it may mean. */
#include "job/read.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/words.h"

enum { ALLOWED_BYTES = 400, SHOWN_BYTES = 48 };

/* ---- refusals ---- */

void job_path_shown(const struct job_reader *r, const char *path, char *out, size_t bytes)
{
    size_t layer = strlen(JOB_LAYER_PREFIX), column = strlen(JOB_COLUMN_PREFIX);
    size_t table = strlen(JOB_TABLE_PREFIX);
    if (strncmp(path, JOB_LAYER_PREFIX, layer) == 0)
        (void)snprintf(out, bytes, "model.layers[%u]%s", r->layer, path + layer);
    else if (strncmp(path, JOB_COLUMN_PREFIX, column) == 0)
        (void)snprintf(out, bytes, "data.columns[%u]%s", r->item, path + column);
    else if (strncmp(path, JOB_TABLE_PREFIX, table) == 0)
        (void)snprintf(out, bytes, "tables.%s%s", r->job->model.table[r->table].name, path + table);
    else
        (void)snprintf(out, bytes, "%s", path);
}

enum err job_refuse(struct job_reader *r, const struct job_node *at, const char *path,
                    const char *fmt, ...)
{
    if (!r->e)
        return ERR_INPUT;
    char where[200], shown[JOB_PATH_MAX + 32], why[sizeof r->e->text];
    if (!at)
        at = job_given(r, path);
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(why, sizeof why, fmt, args);
    va_end(args);
    job_tree_where(where, sizeof where, at, r->name);
    job_path_shown(r, path, shown, sizeof shown);
    size_t set_bytes = at->set ? strcspn(at->set, "=") : 0;
    if (!*path ||
        (at->set && strlen(shown) == set_bytes && strncmp(at->set, shown, set_bytes) == 0))
        (void)err_set(r->e, ERR_INPUT, "%s: %s", where, why);
    else
        (void)err_set(r->e, ERR_INPUT, "%s: %s: %s", where, shown, why);
    return ERR_INPUT;
}

enum err job_check_rules(struct job_reader *r, const struct job_node *at,
                         const struct job_rule *rule)
{
    while (rule->key && !rule->broken)
        rule++;
    if (!rule->key)
        return ERR_OK;
    const char *gap = strstr(rule->why, "%s");
    return job_refuse(r, at, rule->key, "%.*s%s%s",
                      (int)(gap ? (size_t)(gap - rule->why) : strlen(rule->why)), rule->why,
                      gap ? rule->word : "", gap ? gap + 2 : "");
}

/* Describes a value for a message: its text in quotes, or its kind. */
static const char *written(const struct job_node *node, char out[SHOWN_BYTES + 8])
{
    if (node->kind == NODE_LIST)
        return "a list";
    if (node->kind == NODE_MAP)
        return "a map";
    if (job_tree_is_null(node))
        return "no value";
    const char quote = node->quoted ? '"' : '\'';
    size_t n = printable_visible(out + 1, SHOWN_BYTES + 4, node->text, strlen(node->text));
    out[0] = out[n + 1] = quote;
    out[n + 2] = '\0';
    return out;
}

/* Why a key of texts has no value though something is written there; "": nothing is to be said. */
static const char *null_hint(const struct job_key *key, const struct job_node *node,
                             char out[static 100])
{
    out[0] = '\0';
    if (!job_tree_is_null(node) ||
        (key->type != KEY_TEXT && key->type != KEY_TEXTS && key->type != KEY_COLUMN_TEXT))
        return out;
    if (node->text && *node->text)
        (void)snprintf(out, 100, "; for the text %s write \"%s\": without quotes YAML has no value",
                       node->text, node->text);
    else if (!node->set)
        (void)snprintf(out, 100, "; write a # in quotes: without them it begins a comment");
    return out;
}

enum err job_refuse_value(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node)
{
    char allowed[ALLOWED_BYTES], shown[SHOWN_BYTES + 8], hint[100];
    job_key_allowed(key, allowed, sizeof allowed);
    return job_refuse(r, node, key->path, "%s is not allowed; allowed: %s%s", written(node, shown),
                      allowed, null_hint(key, node, hint));
}

static enum err refuse_word(struct job_reader *r, const struct job_key *key,
                            const struct job_node *at, const char *word)
{
    char allowed[ALLOWED_BYTES];
    const char *meant = job_meaning_word(key->words, word);
    bool later = job_word_find(key->words, word);
    if (!meant && strncmp(word, "val_", 4) == 0) { /* Keras's names of what is evaluated */
        const struct job_word *of = job_word_find(key->words, word + 4);
        meant = of ? of->word : job_meaning_word(key->words, word + 4);
    }
    job_words_list(key->words, true, allowed, sizeof allowed);
    if (later && !meant)
        return job_refuse(r, at, key->path, "'%s' is not supported yet; allowed: %s", word,
                          allowed);
    struct words near;
    words_init(&near, word);
    for (const struct job_word *w = key->words; w->word; w++)
        words_try(&near, w->word);
    meant = meant ? meant : near.best;
    if (meant)
        return job_refuse(r, at, key->path, "'%.*s' is %s, did you mean %s? allowed: %s",
                          SHOWN_BYTES, word, later ? "not supported yet" : "unknown", meant,
                          allowed);
    return job_refuse(r, at, key->path, "'%.*s' is unknown; allowed: %s", SHOWN_BYTES, word,
                      allowed);
}

/* ---- single values ---- */

static bool has_text(const struct job_node *node)
{
    return node->kind == NODE_SCALAR && !job_tree_is_null(node);
}

static enum err find_word(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node, const struct job_word **word)
{
    *word = NULL;
    if (!has_text(node))
        return job_refuse_value(r, key, node);
    *word = job_word_find(key->words, node->text);
    if (!*word && key->spellings)
        *word = job_word_find(key->spellings, node->text);
    return *word && (*word)->value != JOB_WORD_LATER ? ERR_OK
                                                     : refuse_word(r, key, node, node->text);
}

void *job_read_at(struct job_reader *r, const struct job_key *key)
{
    char *base = job_key_of_layer(key)    ? (char *)&r->job->model.layer[r->layer]
                 : job_key_of_column(key) ? (char *)&r->job->data.csv.column[r->column]
                 : job_key_of_table(key)  ? (char *)&r->job->model.table[r->table]
                                          : (char *)r->job;
    return base + key->offset;
}

static bool integer_parse(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* [+-] digits [. digits] [e [+-] digits]: so no hexadecimal numbers, nan or inf. */
static bool real_is_written_well(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    const char *whole = skip_digits(p), *end = whole;
    size_t digits = (size_t)(whole - p);
    if (*whole == '.') {
        end = skip_digits(whole + 1);
        digits += (size_t)(end - whole - 1);
    }
    if (digits == 0)
        return false;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1 + (end[1] == '-' || end[1] == '+');
        end = skip_digits(exponent);
        if (end == exponent)
            return false;
    }
    return *end == 0;
}

/* Not 0 as written, but 0 in float32, where threads that compute flush denormals, too. */
static bool real_vanishes(const char *text)
{
    size_t digits = strcspn(text, "eE");
    return strcspn(text, "123456789") < digits && fabsf(strtof(text, NULL)) < FLT_MIN;
}

static bool real_parse(const struct job_key *key, const char *text, float *out)
{
    if (!real_is_written_well(text) || real_vanishes(text))
        return false;
    float v = strtof(text, NULL);
    if (!isfinite(v) || v < key->low || v > key->high || (key->low_open && v <= key->low) ||
        (key->high_open && v >= key->high))
        return false;
    *out = v;
    return true;
}

/* Refuse a number; if float32 has no such number, say this. */
static enum err refuse_real(struct job_reader *r, const struct job_key *key,
                            const struct job_node *node)
{
    bool written_well = node->kind == NODE_SCALAR && node->text && !node->quoted &&
                        real_is_written_well(node->text);
    if (written_well && real_vanishes(node->text))
        return job_refuse(r, node, key->path,
                          "%.*s is too near 0 for float32, whose smallest number above 0 is "
                          "1.2e-38; it would be 0",
                          SHOWN_BYTES, node->text);
    if (written_well && key->high_open && strtof(node->text, NULL) == key->high &&
        strtod(node->text, NULL) < (double)key->high)
        return job_refuse(r, node, key->path,
                          "%.*s is %g in float32, and must be below %g; the number before it is "
                          "%.8g",
                          SHOWN_BYTES, node->text, (double)key->high, (double)key->high,
                          (double)nextafterf(key->high, 0));
    if (written_well && !isfinite(strtof(node->text, NULL)))
        return job_refuse(r, node, key->path, "%.*s is too large for float32, which ends at 3.4e38",
                          SHOWN_BYTES, node->text);
    return job_refuse_value(r, key, node);
}

/* minval can equal maxval: then all values are equal. The sums are those of model/model.c; a drawn number is less than ten standard
 * deviations from the mean. */
enum err job_check_initializer(struct job_reader *r, const struct job_node *node, const char *path,
                               const char *what, const struct job_weights *w)
{
    const enum init_kind kind = w->initializer;
    const double low = (double)w->init_other, high = (double)w->init_value;
    const bool uniform = kind == INIT_RANDOM_UNIFORM;
    const double sum = fabs(low) + (uniform ? fabs(high) : 10 * high);
    if (!uniform && kind != INIT_RANDOM_NORMAL && kind != INIT_TRUNCATED_NORMAL)
        return ERR_OK;
    if (uniform && low > high)
        return job_refuse(r, node, path, "its %s is from %g to %g; minval must not be above maxval",
                          what, low, high);
    if (sum > (double)FLT_MAX)
        return job_refuse(r, node, path,
                          "the numbers of its %s are too large for float32, which ends at 3.4e38: "
                          "%s is %g",
                          what, uniform ? "|minval| + |maxval|" : "|mean| + 10 stddev", sum);
    return ERR_OK;
}

static bool double_parse(const struct job_key *key, const char *text, double *out)
{
    float nearest;
    if (!real_parse(key, text, &nearest))
        return false;
    *out = strtod(text, NULL);
    return true;
}

static bool bool_parse(const char *text, bool *out)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "TRUE") == 0)
        *out = true;
    else if (strcmp(text, "false") == 0 || strcmp(text, "False") == 0 || strcmp(text, "FALSE") == 0)
        *out = false;
    else
        return false;
    return true;
}

static bool name_is_well(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strlen(text);
    return n > 0 && n < JOB_NAME_MAX && strspn(text, allowed) == n && text[0] != '.' &&
           text[0] != '-';
}

/* Reads an integer in the key's range, without quotes. */
static bool integer_read(const struct job_key *key, const struct job_node *node, uint64_t *out)
{
    return has_text(node) && !node->quoted && integer_parse(node->text, out) && *out >= key->min &&
           *out <= key->max;
}

static bool is_auto(const struct job_key *key, const struct job_node *node)
{
    return key->or_auto && has_text(node) && strcmp(node->text, "auto") == 0;
}

/* Reads a number or a bool, without quotes. */
static enum err read_plain(struct job_reader *r, const struct job_key *key,
                           const struct job_node *node)
{
    void *at = job_read_at(r, key);
    if (key->or_null && job_tree_is_null(node)) {
        memset(at, 0, sizeof(uint32_t));
        return ERR_OK;
    }
    if (is_auto(key, node)) {
        *(uint32_t *)at = UINT32_MAX;
        return ERR_OK;
    }
    uint64_t integer = 0;
    bool number = key->type == KEY_U32 || key->type == KEY_U64;
    if (number ? !integer_read(key, node, &integer) : !has_text(node) || node->quoted)
        return job_refuse_value(r, key, node);
    if (key->type == KEY_REAL)
        return real_parse(key, node->text, at) ? ERR_OK : refuse_real(r, key, node);
    if (key->type == KEY_DOUBLE)
        return double_parse(key, node->text, at) ? ERR_OK : refuse_real(r, key, node);
    if (key->type == KEY_BOOL)
        return bool_parse(node->text, at) ? ERR_OK : job_refuse_value(r, key, node);
    if (key->type == KEY_U64)
        *(uint64_t *)at = integer;
    else
        *(uint32_t *)at = (uint32_t)integer;
    return ERR_OK;
}

static enum err read_name(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node)
{
    if (!has_text(node) || !name_is_well(node->text))
        return job_refuse_value(r, key, node);
    (void)snprintf(job_read_at(r, key), JOB_NAME_MAX, "%s", node->text);
    return ERR_OK;
}

static enum err read_word(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node)
{
    const struct job_word *w;
    enum err err = find_word(r, key, node, &w);
    if (!err)
        memcpy(job_read_at(r, key), &w->value, sizeof w->value);
    return err;
}

static enum err read_later(struct job_reader *r, const struct job_key *key,
                           const struct job_node *node)
{
    if (key->fallback && node->kind == NODE_SCALAR &&
        (strcmp(node->text ? node->text : "", key->fallback) == 0 ||
         (strcmp(key->fallback, "null") == 0 && job_tree_is_null(node))))
        return ERR_OK;
    return job_refuse(r, node, key->path, "not supported yet (%s); remove it%s%s", key->doc,
                      key->fallback ? " or say " : "", key->fallback ? key->fallback : "");
}

/* ---- lists ---- */

static enum err read_metrics(struct job_reader *r, const struct job_key *key,
                             const struct job_node *node)
{
    struct job *job = r->job;
    if (node->kind != NODE_LIST)
        return job_refuse(r, node, key->path, "it must be a list, like [accuracy]");
    job->model.metrics = 0;
    for (const struct job_node *c = node->child; c; c = c->next) {
        const struct job_word *w;
        enum err err = find_word(r, key, c, &w);
        if (err)
            return err;
        for (uint32_t i = 0; i < job->model.metrics; i++)
            if (job->model.metric[i].kind == (enum metric_kind)w->value)
                return job_refuse(r, c, key->path, "%s occurs twice", c->text);
        if (job->model.metrics == METRICS_MAX)
            return job_refuse(r, c, key->path, "at most %d metrics are allowed", METRICS_MAX);
        job->model.metric[job->model.metrics++] = job_metric_of((enum metric_kind)w->value);
    }
    return ERR_OK;
}

static enum err read_class_weights(struct job_reader *r, const struct job_key *key,
                                   const struct job_node *node)
{
    static const struct job_key from_0 = {.low = 0, .high = FLT_MAX};
    struct job_head *head = &r->job->model.head[0];
    uint64_t label;
    if (node->kind != NODE_MAP)
        return job_refuse_value(r, key, node);
    head->class_weights = 0;
    for (const struct job_node *c = node->child; c; c = c->next) {
        if (!integer_parse(c->key, &label) || label > UINT32_MAX)
            return job_refuse(r, c, key->path, "%.*s is not a class; a class is an integer from 0",
                              SHOWN_BYTES, c->key);
        if (head->class_weights == JOB_CLASS_WEIGHTS_MAX || !has_text(c) || c->quoted)
            return job_refuse_value(r, key, c);
        float weight;
        if (!real_parse(&from_0, c->text, &weight))
            return refuse_real(r, key, c);
        head->class_weight[head->class_weights++] = (struct class_weight){(uint32_t)label, weight};
    }
    return ERR_OK;
}

static enum err read_numbers(struct job_reader *r, const struct job_key *key,
                             const struct job_node *node)
{
    struct schedule_integers integers = {.n = 0};
    struct schedule_reals reals = {.n = 0};
    uint64_t integer = 0;
    if (node->kind != NODE_LIST)
        return job_refuse_value(r, key, node);
    for (const struct job_node *c = node->child; c; c = c->next) {
        if (!has_text(c) || c->quoted)
            return job_refuse_value(r, key, c);
        if (integers.n + reals.n == SCHEDULE_LIST_MAX)
            return job_refuse(r, c, key->path, "at most %d numbers are allowed", SCHEDULE_LIST_MAX);
        if (key->type == KEY_REALS) {
            if (!real_parse(key, c->text, &reals.value[reals.n]))
                return refuse_real(r, key, c);
            reals.n++;
        } else {
            if (!integer_read(key, c, &integer))
                return job_refuse_value(r, key, c);
            integers.value[integers.n++] = (uint32_t)integer;
        }
    }
    if (key->type == KEY_REALS)
        *(struct schedule_reals *)job_read_at(r, key) = reals;
    else
        *(struct schedule_integers *)job_read_at(r, key) = integers;
    return ERR_OK;
}

/* Reads a list of words that can be part of a name, and joins them with commas. */
static enum err read_names(struct job_reader *r, const struct job_key *key,
                           const struct job_node *node)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    char joined[JOB_NAMES_BYTES] = "";
    size_t at = 0;
    if (node->kind != NODE_LIST)
        return job_refuse_value(r, key, node);
    for (const struct job_node *c = node->child; c; c = c->next) {
        size_t n = has_text(c) ? strlen(c->text) : 0;
        if (n == 0 || strspn(c->text, allowed) != n)
            return job_refuse_value(r, key, c);
        if (n + 2 > sizeof joined - at)
            return job_refuse(r, c, key->path, "more than %zu characters in total",
                              sizeof joined - 1);
        at += (size_t)snprintf(joined + at, sizeof joined - at, "%s%s", at ? "," : "", c->text);
    }
    memcpy(job_read_at(r, key), joined, sizeof joined);
    return ERR_OK;
}

static enum err read_codecs(struct job_reader *r, const struct job_key *key,
                            const struct job_node *node)
{
    uint32_t bits = 0;
    if (node->kind != NODE_LIST)
        return job_refuse(r, node, key->path, "it must be a list, like %s", key->example);
    for (const struct job_node *c = node->child; c; c = c->next) {
        const struct job_word *w;
        enum err err = find_word(r, key, c, &w);
        if (err)
            return err;
        if (bits >> w->value & 1)
            return job_refuse(r, c, key->path, "%s occurs twice", c->text);
        bits |= 1u << w->value;
    }
    *(uint32_t *)job_read_at(r, key) = bits;
    return ERR_OK;
}

enum { SHAPE_DIM_MAX = 1 << 24, SHAPE_ELEMS_MAX = 1 << 28 };

static enum err read_model_shape(struct job_reader *r, const struct job_key *key,
                                 const struct job_node *node)
{
    uint64_t elems = 1, dim;
    uint32_t rank = 0, *at = job_read_at(r, key);
    at[0] = 0;
    if (is_auto(key, node))
        return ERR_OK;
    if (node->kind != NODE_LIST || !node->child)
        return job_refuse_value(r, key, node);
    for (const struct job_node *c = node->child; c; c = c->next) {
        if (c->kind != NODE_SCALAR || c->quoted || !integer_parse(c->text ? c->text : "", &dim) ||
            dim < 1 || dim > SHAPE_DIM_MAX || rank == TENSOR_RANK_MAX)
            return job_refuse_value(r, key, c);
        elems *= dim;
        if (elems > SHAPE_ELEMS_MAX)
            return job_refuse(r, c, key->path, "more than %d elements in one example",
                              SHAPE_ELEMS_MAX);
        at[++rank] = (uint32_t)dim;
    }
    at[0] = rank;
    return ERR_OK;
}

static enum err read_two_integers(struct job_reader *r, const struct job_key *key,
                                  const struct job_node *node)
{
    uint32_t *at = job_read_at(r, key);
    uint64_t height, width;
    const struct job_node *first = node->kind == NODE_LIST ? node->child : node;
    const struct job_node *second = node->kind == NODE_LIST && first ? first->next : first;
    if (!second || !integer_read(key, first, &height) || !integer_read(key, second, &width) ||
        (first != second && second->next))
        return job_refuse_value(r, key, node);
    at[0] = (uint32_t)height;
    at[1] = (uint32_t)width;
    return ERR_OK;
}

/* ---- paths ---- */

static bool is_path(const struct job_node *node)
{
    return has_text(node) && *node->text && strlen(node->text) <= 4096 &&
           !strpbrk(node->text, "\n\r");
}

/* Writes the absolute directory in which a relative path starts. */
static enum err path_folder(const struct job_reader *r, const struct job_node *at, char *out,
                            size_t bytes)
{
    char here[4096] = "";
    const char *dir = at->set || !r->dir ? "" : r->dir;
    if (dir[0] != '/' && !getcwd(here, sizeof here))
        return err_set(r->e, ERR_INPUT, "cannot get the path of the current directory: %s",
                       strerror(errno));
    (void)snprintf(out, bytes, "%s%s%s", here, *here && *dir ? "/" : "", dir);
    return ERR_OK;
}

/* Same, with the special characters of a glob escaped. */
static enum err path_base(const struct job_reader *r, const struct job_node *at, char *out,
                          size_t bytes)
{
    char folder[8192];
    enum err err = path_folder(r, at, folder, sizeof folder);
    if (err)
        return err;
    size_t n = 0;
    for (const char *p = folder; *p && n + 3 < bytes; p++) {
        if (strchr("*?[\\", *p))
            out[n++] = '\\';
        out[n++] = *p;
    }
    out[n] = 0;
    return ERR_OK;
}

/* A checkpoint has the job with its paths, as YAML. */
static enum err check_utf8(struct job_reader *r, const struct job_key *key,
                           const struct job_node *at, const char *path)
{
    return printable_is_utf8(path)
               ? ERR_OK
               : job_refuse(r, at, key->path,
                            "%.300s: the path must be UTF-8; rename its directory, or link to it",
                            path);
}

/* Appends a path, made absolute, to the list in *paths (joined by newlines). */
static enum err path_append(struct job_reader *r, const struct job_key *key,
                            const struct job_node *node, char **paths)
{
    char base[16384] = "";
    if (!is_path(node))
        return job_refuse_value(r, key, node);
    bool relative = node->text[0] != '/';
    enum err err = relative ? path_base(r, node, base, sizeof base) : ERR_OK;
    if (err)
        return err;
    size_t old = *paths ? strlen(*paths) + 1 : 0;
    size_t room = old + strlen(base) + strlen(node->text) + 2;
    char *grown = mem_resize(*paths, room, 1);
    if (!grown)
        return err_memory(r->e);
    if (old)
        grown[old - 1] = '\n';
    (void)snprintf(grown + old, room - old, "%s%s%s", base, relative ? "/" : "", node->text);
    *paths = grown;
    return check_utf8(r, key, node, grown + old);
}

static enum err read_paths(struct job_reader *r, const struct job_key *key,
                           const struct job_node *node)
{
    char *paths = NULL, **at = job_read_at(r, key);
    enum err err = ERR_OK;
    if (node->kind == NODE_LIST)
        for (const struct job_node *c = node->child; c && !err; c = c->next)
            err = path_append(r, key, c, &paths);
    else if (!job_tree_is_null(node)) /* no value: removes the paths that the file gives */
        err = path_append(r, key, node, &paths);
    if (err) {
        mem_free(paths);
        return err;
    }
    mem_free(*at);
    *at = paths;
    return ERR_OK;
}

static enum err read_path(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node)
{
    char base[8192] = "", path[sizeof base + 4100], **at = job_read_at(r, key), *copy = NULL;
    bool none = job_tree_is_null(node); /* as for paths: removes the value that the file gives */
    if (!none && !is_path(node))
        return job_refuse_value(r, key, node);
    bool relative = !none && node->text[0] != '/';
    enum err err = relative ? path_folder(r, node, base, sizeof base) : ERR_OK;
    if (err)
        return err;
    (void)snprintf(path, sizeof path, "%s%s%s", base, relative ? "/" : "", none ? "" : node->text);
    if ((err = check_utf8(r, key, node, path)))
        return err;
    if (!none && !(copy = mem_strdup(path)))
        return err_memory(r->e);
    mem_free(*at);
    *at = copy;
    return ERR_OK;
}

/* ---- choices and maps ---- */

static enum err read_map(struct job_reader *r, const struct job_node *map, const char *group);

/* Checks that every required key under `group` was given; `at` is the group's position. */
static enum err read_required(struct job_reader *r, const struct job_node *at, const char *group)
{
    size_t n = strlen(group);
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        bool within =
            n ? strncmp(key->path, group, n) == 0 && key->path[n] == '.' : !job_key_of_element(key);
        if (!key->required || !within || r->given[job_key_index(key)] ||
            (!n && !job_key_active(key, r->job, NULL)))
            continue;
        char allowed[ALLOWED_BYTES];
        job_key_allowed(key, allowed, sizeof allowed);
        return job_refuse(r, at, key->path, "it is missing; allowed: %s", allowed);
    }
    return ERR_OK;
}

/* With --set ..number.scale=log the tree has {x: null, scale: log} for "number: x". Make it {name: x, scale: log}. If the
 * map has the name, too, a --set has given it, and that counts. */
static enum err name_lone(struct job_reader *r, const char *lone, struct job_node *map)
{
    struct job_node *text = map->child;
    if (!text || !text->was_text)
        return ERR_OK;
    const struct job_node *given = job_tree_child(map, lone);
    if (given && given != text) { /* the text can be the same word */
        job_tree_remove(map, text);
        return ERR_OK;
    }
    char *key = mem_strdup(lone);
    if (!key)
        return err_memory(r->e);
    mem_free(text->text);
    text->text = text->key;
    text->key = key;
    text->was_text = false;
    return ERR_OK;
}

/* Reads the value of {word: value}: a map of options, or the value of the `lone` option (dense: 10). */
static enum err read_options(struct job_reader *r, const struct job_word *w, const char *group,
                             struct job_node *value)
{
    if (value->kind == NODE_MAP) {
        enum err named = w->lone ? name_lone(r, w->lone, value) : ERR_OK;
        return named ? named : read_map(r, value, group);
    }
    if (job_tree_is_null(value))
        return ERR_OK;
    if (!w->lone)
        return job_refuse(r, value, group, "its options must be a map, like {option: value}");
    char path[2 * JOB_PATH_MAX];
    (void)snprintf(path, sizeof path, "%.*s.%s", JOB_PATH_MAX, group, w->lone);
    struct job_node *option = mem_zalloc(1, sizeof *option);
    if (!option)
        return err_memory(r->e);
    *option = *value;
    option->next = NULL;
    option->key = (char *)(uintptr_t)w->lone;
    const struct job_node map = {
        .kind = NODE_MAP, .line = value->line, .set = value->set, .child = option};
    enum err err = read_map(r, &map, group);
    const struct job_key *key = job_key_find(path);
    if (key)
        r->given[job_key_index(key)] = value; /* `value` outlives `option` */
    if (key && key->type == KEY_INPUTS)
        r->inputs = value;
    mem_free(option);
    return err;
}

static enum err refuse_two(struct job_reader *r, const struct job_key *key,
                           const struct job_node *map)
{
    return job_refuse(r, map, key->path,
                      "only one name is allowed, and there are two: %.*s and %.*s", SHOWN_BYTES,
                      map->child->key, SHOWN_BYTES, map->child->next->key);
}

static enum err options_defaults(struct job_reader *r, const char *group)
{
    enum err err = ERR_OK;
    for (const struct job_key *key = job_key_next(NULL); key && !err; key = job_key_next(key))
        if (strncmp(key->path, group, strlen(group)) == 0 && key->path[strlen(group)] == '.')
            err = job_read_default(r, key);
    return err;
}

enum err job_read_choice(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node)
{
    struct job_node *options = NULL;
    const char *name = node->text;
    if (node->kind == NODE_LIST || job_tree_is_null(node) ||
        (node->kind == NODE_MAP && !node->child))
        return job_refuse_value(r, key, node);
    if (node->kind == NODE_MAP) {
        options = node->child;
        name = options->key;
        if (options->next)
            return refuse_two(r, key, node);
    }
    const struct job_word *w = job_word_find(key->words, name);
    if (!w || w->value == JOB_WORD_LATER)
        return refuse_word(r, key, options ? options : node, name);
    memcpy(job_read_at(r, key), &w->value, sizeof w->value);
    char group[2 * JOB_PATH_MAX];
    (void)snprintf(group, sizeof group, "%s.%s", key->path, w->word);
    enum err err = options_defaults(r, group);
    if (!err && options)
        err = read_options(r, w, group, options);
    if (!err)
        err = read_required(r, options ? options : node, group);
    r->word = w;
    return err;
}

enum err job_read_element(struct job_reader *r, const char *group, const struct job_node *node)
{
    enum err err = options_defaults(r, group);
    if (!err && node)
        err = read_map(r, node, group);
    return err;
}

/* Inputs are resolved later, when all layers have names. */
static enum err read_inputs(struct job_reader *r, const struct job_key *key,
                            const struct job_node *node)
{
    (void)key;
    r->inputs = node;
    return ERR_OK;
}

enum err job_read_value(struct job_reader *r, const struct job_key *key,
                        const struct job_node *node)
{
    static enum err (*const readers[])(struct job_reader *, const struct job_key *,
                                       const struct job_node *) = {
        [KEY_NAME] = read_name,
        [KEY_U32] = read_plain,
        [KEY_U64] = read_plain,
        [KEY_REAL] = read_plain,
        [KEY_DOUBLE] = read_plain,
        [KEY_BOOL] = read_plain,
        [KEY_WORD] = read_word,
        [KEY_CHOICE] = job_read_choice,
        [KEY_METRICS] = read_metrics,
        [KEY_INTEGERS] = read_numbers,
        [KEY_REALS] = read_numbers,
        [KEY_NAMES] = read_names,
        [KEY_CODECS] = read_codecs,
        [KEY_SHAPE] = read_model_shape,
        [KEY_PAIR] = read_two_integers,
        [KEY_TEXT] = job_read_text,
        [KEY_TEXTS] = job_read_texts,
        [KEY_COLUMNS] = job_read_columns,
        [KEY_PATHS] = read_paths,
        [KEY_FOLDER] = read_path,
        [KEY_FILE] = read_path,
        [KEY_LAYERS] = job_read_layers,
        [KEY_CLASS_WEIGHTS] = read_class_weights,
        [KEY_INPUTS] = read_inputs,
        [KEY_TABLES] = job_read_tables,
        [KEY_LATER] = read_later,
        [KEY_COLUMN_TEXT] = job_read_column_text,
    };
    return readers[key->type](r, key, node);
}

/* "eval:" in the file; "eval: null" is meant so. */
static void note_no_value(struct job_reader *r, const struct job_node *node, const char *path)
{
    char where[200];
    if (node->set || !job_tree_is_null(node) || (node->text && *node->text) || *r->job->no_value)
        return;
    job_tree_where(where, sizeof where, node, r->name);
    (void)snprintf(
        r->job->no_value, sizeof r->job->no_value,
        "%s: %s: it has no value, and is as if it was not there: give it one, or remove it", where,
        path);
}

static enum err read_entry(struct job_reader *r, const struct job_node *node, const char *path)
{
    const struct job_key *key = job_key_find(path);
    if (key || job_key_is_group(path))
        note_no_value(r, node, path);
    if (key) {
        r->given[job_key_index(key)] = node;
        return job_read_value(r, key, node);
    }
    if (job_key_is_group(path)) {
        if (job_tree_is_null(node))
            return ERR_OK;
        if (node->kind == NODE_MAP)
            return read_map(r, node, path);
        char model[JOB_PATH_MAX];
        (void)snprintf(model, sizeof model, "model.%.100s", path);
        return job_refuse(r, node, path, "it must be a map of keys, like {key: value}%s%s%s",
                          job_key_find(model) ? "; did you mean " : "",
                          job_key_find(model) ? model : "", job_key_find(model) ? "?" : "");
    }
    char hint[ALLOWED_BYTES];
    job_key_hint(path, hint, sizeof hint);
    return job_refuse(r, node, path, "unknown key; %s", hint);
}

static enum err read_map(struct job_reader *r, const struct job_node *map, const char *group)
{
    char path[JOB_PATH_MAX];
    enum err err = ERR_OK;
    for (const struct job_node *c = map->child; c && !err; c = c->next) {
        int n = snprintf(path, sizeof path, "%s%s%s", group, *group ? "." : "", c->key);
        if (n >= JOB_PATH_MAX || strpbrk(c->key, ".[]"))
            err = job_refuse(r, c, group, "'%.*s' is not a key; a key is a name without . [ ]",
                             SHOWN_BYTES, c->key);
        else
            err = read_entry(r, c, path);
    }
    return err;
}

/* ---- defaults ---- */

enum err job_read_default(struct job_reader *r, const struct job_key *key)
{
    if (!key->fallback || key->type == KEY_LATER)
        return ERR_OK;
    char text[JOB_NAME_MAX];
    (void)snprintf(text, sizeof text, "%s", key->fallback);
    const struct job_node node = {.kind = NODE_SCALAR, .text = text, .quoted = !*text};
    return job_read_value(r, key, &node);
}

enum err job_read(struct job_reader *r, const struct job_node *root)
{
    enum err err = ERR_OK;
    for (const struct job_key *key = job_key_next(NULL); key && !err; key = job_key_next(key))
        if (!job_key_of_element(key))
            err = job_read_default(r, key);
    if (!err)
        err = read_map(r, root, "");
    return err ? err : read_required(r, root, "");
}

void job_read_forget(struct job_reader *r, const char *prefix)
{
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (strncmp(key->path, prefix, strlen(prefix)) == 0)
            r->given[job_key_index(key)] = NULL;
}

const struct job_node *job_given(const struct job_reader *r, const char *path)
{
    const struct job_key *key = job_key_find(path);
    return key ? r->given[job_key_index(key)] : NULL;
}
