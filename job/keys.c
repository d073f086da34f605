/* The table of keys, which table_*.c have in parts, as one list: finding a key, its allowed values as text, suggestions for a wrong
 * name, defaults, and the keys that are active in a job. */
#include "job/keys.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "job/table.h"
#include "common/base/words.h"

/* In the order of docs/reference/job-file.md. */
static const struct job_key_table *const tables[JOB_TABLES] = {
    &job_table_model, &job_table_tables, &job_table_data, &job_table_training, &job_table_run};

static size_t table_of(const struct job_key *key)
{
    size_t t = 0;
    while (key < tables[t]->key || key >= tables[t]->key + tables[t]->count)
        t++;
    return t;
}

const struct job_key *job_key_next(const struct job_key *key)
{
    if (!key)
        return tables[0]->key;
    size_t t = table_of(key);
    if (++key < tables[t]->key + tables[t]->count)
        return key;
    return ++t < JOB_TABLES ? tables[t]->key : NULL;
}

size_t job_key_index(const struct job_key *key)
{
    size_t t = table_of(key);
    return t * JOB_TABLE_KEYS + (size_t)(key - tables[t]->key);
}

/* ---- lookup ---- */

const struct job_key *job_key_find(const char *path)
{
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (strcmp(key->path, path) == 0)
            return key;
    return NULL;
}

static bool starts_with_group(const char *path, const char *group)
{
    size_t n = strlen(group);
    return n == 0 || (strncmp(path, group, n) == 0 && path[n] == '.');
}

bool job_key_is_group(const char *path)
{
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (starts_with_group(key->path, path))
            return true;
    return false;
}

bool job_key_of_layer(const struct job_key *key)
{
    return strncmp(key->path, JOB_LAYER_PREFIX, strlen(JOB_LAYER_PREFIX)) == 0;
}

bool job_key_of_column(const struct job_key *key)
{
    return strncmp(key->path, JOB_COLUMN_PREFIX, strlen(JOB_COLUMN_PREFIX)) == 0;
}

bool job_key_of_table(const struct job_key *key)
{
    return strncmp(key->path, JOB_TABLE_PREFIX, strlen(JOB_TABLE_PREFIX)) == 0;
}

bool job_key_of_element(const struct job_key *key)
{
    return job_key_of_layer(key) || job_key_of_column(key) || job_key_of_table(key);
}

const void *job_key_at(const struct job_key *key, const struct job *job, const void *element)
{
    const char *base = job_key_of_element(key) ? element : (const char *)job;
    return base + key->offset;
}

/* ---- words ---- */

const struct job_word *job_word_find(const struct job_word *words, const char *word)
{
    for (; words->word; words++)
        if (strcmp(words->word, word) == 0)
            return words;
    return NULL;
}

const char *job_word_of(const struct job_word *words, int value)
{
    for (; words->word; words++)
        if (words->value == value)
            return words->word;
    return "?";
}

int job_words_list(const struct job_word *words, bool supported, char *out, size_t bytes)
{
    int n = 0;
    out[0] = 0;
    for (; words->word && n >= 0 && (size_t)n < bytes; words++)
        if ((words->value != JOB_WORD_LATER) == supported)
            n += snprintf(out + n, bytes - (size_t)n, "%s%s", n ? ", " : "", words->word);
    return n;
}

/* ---- allowed values as text ---- */

static int real_allowed(const struct job_key *key, char *out, size_t bytes)
{
    if (key->low <= -FLT_MAX && key->high >= FLT_MAX)
        return snprintf(out, bytes, "number");
    if (key->low <= -FLT_MAX)
        return snprintf(out, bytes, "number up to %g", (double)key->high);
    if (key->high >= FLT_MAX)
        return snprintf(out, bytes, "number %s %g", key->low_open ? "above" : "from",
                        (double)key->low);
    return snprintf(out, bytes, "number %s %g %s %g", key->low_open ? "above" : "from",
                    (double)key->low,
                    key->high_open  ? "to below"
                    : key->low_open ? "and up to"
                                    : "to",
                    (double)key->high);
}

int job_key_allowed(const struct job_key *key, char *out, size_t bytes)
{
    int n;
    switch (key->type) {
    case KEY_NAME:
        return snprintf(out, bytes, "name of 1 to %d letters, digits, . _ or -", JOB_NAME_MAX - 1);
    case KEY_U32:
    case KEY_U64:
        return snprintf(out, bytes, "integer from %llu to %llu%s%s", (unsigned long long)key->min,
                        (unsigned long long)key->max, key->or_null ? ", or null" : "",
                        key->or_auto ? ", or auto" : "");
    case KEY_REAL:
    case KEY_DOUBLE:
        return real_allowed(key, out, bytes);
    case KEY_BOOL:
        return snprintf(out, bytes, "true or false");
    case KEY_INTEGERS:
        return snprintf(out, bytes, "list of integers from %llu to %llu",
                        (unsigned long long)key->min, (unsigned long long)key->max);
    case KEY_REALS:
        n = snprintf(out, bytes, "list, each a ");
        return n + real_allowed(key, out + n, bytes - (size_t)n);
    case KEY_NAMES:
        return snprintf(out, bytes, "list of words of letters, digits, . _ - or /, like [bias]");
    case KEY_WORD:
    case KEY_CHOICE:
    case KEY_METRICS:
    case KEY_CODECS:
        return job_words_list(key->words, true, out, bytes);
    case KEY_SHAPE:
        return snprintf(out, bytes, "list of 1 to %d integers from 1, like [28, 28]%s",
                        TENSOR_RANK_MAX, key->or_auto ? ", or auto" : "");
    case KEY_TEXT:
        return snprintf(out, bytes, "text of one line, at most %d bytes", JOB_NAME_MAX - 1);
    case KEY_COLUMN_TEXT:
        return snprintf(out, bytes, "text in UTF-8 of at most %d bytes", JOB_TEXT_MAX);
    case KEY_TEXTS:
        return snprintf(out, bytes, "text in UTF-8 of at most %d bytes, or a list of such texts",
                        JOB_TEXT_MAX);
    case KEY_COLUMNS:
        return snprintf(out, bytes, "list of 2 to %d columns", JOB_COLUMNS_MAX);
    case KEY_PAIR:
        return snprintf(out, bytes, "integer from %llu to %llu, or two as [height, width]",
                        (unsigned long long)key->min, (unsigned long long)key->max);
    case KEY_PATHS:
        return snprintf(out, bytes, "path, glob, or a list of them");
    case KEY_FOLDER:
        return snprintf(out, bytes, "path of a directory");
    case KEY_FILE:
        return snprintf(out, bytes, "path of a file");
    case KEY_LAYERS:
        return snprintf(out, bytes, "list of 1 to %d layers", JOB_LAYERS_MAX);
    case KEY_CLASS_WEIGHTS:
        return snprintf(out, bytes,
                        "map from up to %d classes to numbers from 0, like {0: 1, 1: 5}",
                        JOB_CLASS_WEIGHTS_MAX);
    case KEY_INPUTS:
        return snprintf(out, bytes,
                        "list of 1 to %d names: layers before this one, input, or columns",
                        JOB_INPUTS_MAX);
    case KEY_TABLES:
        return snprintf(out, bytes, "map from names of tables to their options");
    case KEY_LATER:
        return snprintf(out, bytes, "%s", key->fallback ? key->fallback : "nothing yet");
    }
    return -1;
}

/* ---- suggestions ---- */

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The first name of `path` after the group; it gives the entries of a group, such as "training" and "data" for "". */
static bool entry_of_group(const char *path, const char *group, char *out, size_t bytes)
{
    if (!starts_with_group(path, group))
        return false;
    size_t skip = strlen(group) ? strlen(group) + 1 : 0;
    size_t n = strcspn(path + skip, ".[");
    if (n == 0 || n >= bytes)
        return false;
    memcpy(out, path + skip, n);
    out[n] = 0;
    return true;
}

/* Has an earlier key the same entry? The keys of a group are not always consecutive. */
static bool entry_before(const struct job_key *key, const char *group, const char *name)
{
    char other[JOB_PATH_MAX];
    for (const struct job_key *k = job_key_next(NULL); k != key; k = job_key_next(k))
        if (k->type != KEY_LATER && entry_of_group(k->path, group, other, sizeof other) &&
            strcmp(other, name) == 0)
            return true;
    return false;
}

static void hint_list(const char *group, char *out, size_t bytes)
{
    char name[JOB_PATH_MAX];
    size_t n = (size_t)snprintf(out, bytes, "allowed: ");
    bool first = true;
    for (const struct job_key *key = job_key_next(NULL); key && n < bytes;
         key = job_key_next(key)) {
        if (key->type == KEY_LATER || !entry_of_group(key->path, group, name, sizeof name) ||
            entry_before(key, group, name))
            continue;
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", first ? "" : ", ", name);
        first = false;
    }
    if (first)
        (void)snprintf(out, bytes, "no options are allowed here");
}

/* Finds the nearest entry of the group and suggests its complete path. */
static bool hint_sibling(const char *group, const char *wrong, char *out, size_t bytes)
{
    struct words near;
    words_init(&near, wrong);
    char name[JOB_PATH_MAX], best[JOB_PATH_MAX] = "";
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        if (!entry_of_group(key->path, group, name, sizeof name))
            continue;
        near.best = NULL;
        words_try(&near, name);
        if (near.best)
            memcpy(best, name, sizeof best);
    }
    if (!*best)
        return false;
    (void)snprintf(out, bytes, "did you mean %s%s%s?", group, *group ? "." : "", best);
    return true;
}

/* Finds a key of the same or a similar name in another group. */
static bool hint_elsewhere(const char *path, char *out, size_t bytes)
{
    struct words whole;
    words_init(&whole, path);
    const char *same = NULL;
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        if (job_key_of_element(key))
            continue;
        words_try(&whole, key->path);
        if (!key->alias && strcmp(last_name(key->path), last_name(path)) == 0 && !same)
            same = key->path;
    }
    if (!same)
        same = whole.best;
    if (!same)
        return false;
    (void)snprintf(out, bytes, "did you mean %s?", same);
    return true;
}

void job_key_hint(const char *path, char *out, size_t bytes)
{
    const char *wrong = last_name(path);
    char group[JOB_PATH_MAX];
    (void)snprintf(group, sizeof group, "%.*s", (int)(wrong > path ? wrong - path - 1 : 0), path);
    char meant[JOB_PATH_MAX];
    const char *other = job_meaning_other(wrong);
    other = other ? other : job_meaning_other(path);
    if (other) {
        (void)snprintf(out, bytes, "%s", other);
        return;
    }
    if (job_meaning_key(group, wrong, meant)) {
        (void)snprintf(out, bytes, "did you mean %s?", meant);
        return;
    }
    if (hint_sibling(group, wrong, out, bytes) ||
        (strncmp(path, "model.layers", 12) != 0 && strncmp(path, "data.columns", 12) != 0 &&
         strncmp(path, "tables", 6) != 0 && hint_elsewhere(path, out, bytes)))
        return;
    hint_list(group, out, bytes);
}

/* ---- defaults ---- */

bool job_key_is_default(const struct job_key *key, const struct job *job)
{
    const char *usual = key->fallback ? key->fallback : "0", *text;
    const void *at = job_key_at(key, job, NULL);
    int word;
    switch (key->type) {
    case KEY_REAL:
        return *(const float *)at == strtof(usual, NULL);
    case KEY_DOUBLE:
        return *(const double *)at == strtod(usual, NULL);
    case KEY_BOOL:
        return *(const bool *)at == (strcmp(usual, "true") == 0);
    case KEY_WORD:
        memcpy(&word, at, sizeof word);
        return word == job_word_find(key->words, usual)->value;
    case KEY_TEXT:
        return !*(const char *)at;
    case KEY_TEXTS:
    case KEY_PATHS:
    case KEY_FOLDER:
    case KEY_FILE:
        text = *(char *const *)at;
        return !text || !*text;
    default: /* a number, or the length of a list */
        return *(const uint32_t *)at == strtoul(usual, NULL, 10);
    }
}

/* ---- visiting ---- */

static const char *chosen_word(const struct job_key *choice, const struct job *job,
                               const void *element)
{
    int value;
    memcpy(&value, job_key_at(choice, job, element), sizeof value);
    return job_word_of(choice->words, value);
}

/* Returns whether the key is an option of a word that the choice does not have. */
static bool is_of_another_word(const struct job_key *key, const struct job_key *choice,
                               const struct job *job, const void *element)
{
    if (choice == key || !starts_with_group(key->path, choice->path))
        return false;
    const char *option = key->path + strlen(choice->path) + 1;
    const char *word = chosen_word(choice, job, element);
    return strncmp(option, word, strlen(word)) != 0 || option[strlen(word)] != '.';
}

/* It is called for each key of each layer and column, and most keys are no choices. */
bool job_key_active(const struct job_key *key, const struct job *job, const void *element)
{
    for (size_t t = 0; t < JOB_TABLES; t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (tables[t]->key[i].type == KEY_CHOICE &&
                is_of_another_word(key, &tables[t]->key[i], job, element))
                return false;
    return true;
}

/* Visits the keys with `prefix` for one element, whose name is `name`: "model.layers[1]". */
static enum err visit_element(const struct job *job, const char *prefix, const char *name,
                              const void *element, job_key_visit *visit, void *ctx)
{
    char path[2 * JOB_PATH_MAX];
    size_t n = strlen(prefix);
    enum err err = ERR_OK;
    for (const struct job_key *key = job_key_next(NULL); key && !err; key = job_key_next(key)) {
        if (key->type == KEY_LATER || strncmp(key->path, prefix, n) != 0 ||
            !job_key_active(key, job, element))
            continue;
        (void)snprintf(path, sizeof path, "%s%s", name, key->path + n);
        err = visit(ctx, key, job, element, path);
    }
    return err;
}

static enum err visit_layers(const struct job *job, job_key_visit *visit, void *ctx)
{
    char name[JOB_PATH_MAX];
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < job->model.layers && !err; i++) {
        (void)snprintf(name, sizeof name, "model.layers[%u]", i);
        err = visit_element(job, JOB_LAYER_PREFIX, name, &job->model.layer[i], visit, ctx);
    }
    return err;
}

static enum err visit_columns(const struct job *job, job_key_visit *visit, void *ctx)
{
    char name[JOB_PATH_MAX];
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < job->data.csv.columns && !err; i++) {
        (void)snprintf(name, sizeof name, "data.columns[%u]", i);
        err = visit_element(job, JOB_COLUMN_PREFIX, name, &job->data.csv.column[i], visit, ctx);
    }
    return err;
}

static enum err visit_tables(const struct job *job, job_key_visit *visit, void *ctx)
{
    char name[JOB_PATH_MAX];
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < job->model.tables && !err; i++) {
        (void)snprintf(name, sizeof name, "tables.%s", job->model.table[i].name);
        err = visit_element(job, JOB_TABLE_PREFIX, name, &job->model.table[i], visit, ctx);
    }
    return err;
}

enum err job_keys_each(const struct job *job, job_key_visit *visit, void *ctx)
{
    enum err err = ERR_OK;
    for (const struct job_key *key = job_key_next(NULL); key && !err; key = job_key_next(key)) {
        if (key->type == KEY_LAYERS)
            err = visit_layers(job, visit, ctx);
        else if (key->type == KEY_COLUMNS)
            err = visit_columns(job, visit, ctx);
        else if (key->type == KEY_TABLES)
            err = visit_tables(job, visit, ctx);
        else if (key->type != KEY_LATER && !job_key_of_element(key) &&
                 job_key_active(key, job, NULL))
            err = visit(ctx, key, job, NULL, key->path);
    }
    return err;
}
