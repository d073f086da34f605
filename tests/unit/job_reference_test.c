#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"
#include "job/keys.h"

enum { SETS_OF_ONE = 3, SETS_MAX = 12, PATH_BYTES = 512, PREFIXES_MAX = 4 };

static const char plain[] = "model: {input: {shape: [4]}, layers: [dense: 1], loss: mse}\n"
                            "data: {format: synthetic}\n"
                            "optimizer: sgd\n";

static const char csv[] = "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
                          "optimizer: sgd\n"
                          "data: {format: csv, train: a.csv, columns: [label: y, number: x]}\n";

static const char table[] = "model:\n"
                            "  input: {shape: auto}\n"
                            "  layers:\n"
                            "    - embedding: {inputs: [user], output_dim: 4, table: ids}\n"
                            "    - dense: 1\n"
                            "  loss: mse\n"
                            "optimizer: sgd\n"
                            "data: {format: csv, train: a.csv, columns: [label: y, key: user]}\n";

static const char keyed[] =
    "model: {input: {shape: auto}, layers: [linear: {inputs: C9}, sigmoid], "
    "loss: binary_crossentropy, metrics: [auc]}\n"
    "optimizer: sgd\n"
    "data: {format: csv, train: a.csv, columns: [label: y, key: C9]}\n";

/* The job that a key's example goes into, by the beginning of its path: the last text, and all that is set. X stands for
 * one name, %s is that name. */
static const struct context {
    const char *path, *job, *set[SETS_OF_ONE];
} contexts[] = {
    /* clang-format off */
    {"", plain, {NULL}},
    {"metrics.progressive", NULL, {"model.metrics=[auc]"}},
    {"metrics.by", keyed, {"metrics={progressive: true, values: [a]}"}},
    {"metrics.values", keyed, {"metrics={progressive: true, by: C9}"}},
    {"model.layers[].flatten.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[flatten: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].activation.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[activation: {activation: relu}, flatten, dense: 1]"}},
    {"model.layers[].relu.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[relu: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].sigmoid.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[sigmoid: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].tanh.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[tanh: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].softmax.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[softmax: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].selu.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[selu: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].silu.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[silu: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].softplus.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[softplus: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].leaky_relu.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[leaky_relu: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].elu.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[elu: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].gelu.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[gelu: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].max_pooling2d.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[max_pooling2d: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].average_pooling2d.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[average_pooling2d: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].global_max_pooling2d.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[global_max_pooling2d: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].global_average_pooling2d.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[global_average_pooling2d: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].batch_normalization.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[batch_normalization: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].layer_normalization.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[layer_normalization: {name: it}, flatten, dense: 1]"}},
    {"model.layers[].dense.", NULL, {"model.input.shape=[4]", "model.layers=[dense: {units: 1}, dense: 1]"}},
    {"model.layers[].dropout.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[dropout: {rate: 0.1}, flatten, dense: 1]"}},
    {"model.layers[].conv2d.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[conv2d: {filters: 2, kernel_size: 3}, flatten, dense: 1]"}},
    {"model.layers[].reshape.", NULL, {"model.input.shape=[28, 28, 1]", "model.layers=[reshape: {target_shape: [784]}, flatten, dense: 1]"}},
    {"model.layers[].add.", NULL, {"model.input.shape=[4]", "model.layers=[dense: {units: 4, name: trunk}, add: {inputs: [input, trunk]}, dense: 1]"}},
    {"model.layers[].concatenate.", NULL, {"model.input.shape=[4]", "model.layers=[dense: {units: 4, name: trunk}, concatenate: {inputs: [input, trunk]}, dense: 1]"}},
    {"model.layers[].add.name", NULL, {"model.layers=[dense: {units: 4, name: a}, add: {inputs: [input, a]}, dense: 1]"}},
    {"model.layers[].concatenate.name", NULL, {"model.layers=[dense: {units: 4, name: a}, concatenate: {inputs: [input, a]}, dense: 1]"}},
    {"model.layers[].embedding.", table, {NULL}},
    {"model.layers[].embedding.input_dim", csv, {"model.layers=[embedding: {output_dim: 4}, flatten, dense: 1]"}},
    {"model.layers[].embedding.trainable", csv, {"model.layers=[embedding: {input_dim: 4, output_dim: 4}, flatten, dense: 1]"}},
    {"model.layers[].embedding_bag.", table, {"model.layers=[embedding_bag: {inputs: [user], output_dim: 4}, dense: 1]"}},
    {"model.layers[].linear.", table, {"model.layers=[linear: {inputs: [user]}, dense: 1]"}},
    {"model.loss.binary_crossentropy", NULL, {"model.loss=binary_crossentropy"}},
    {"model.loss.sparse_categorical_crossentropy", NULL, {"model.loss=sparse_categorical_crossentropy", "model.layers=[dense: 3]"}},
    {"model.metrics", NULL, {"model.loss=binary_crossentropy"}},
    {"tables", table, {NULL}},
    {"tables[].learning_rate_schedule.X.", NULL, {"tables.ids.learning_rate_schedule=%s"}},
    {"tables[].optimizer.X.", NULL, {"tables.ids.optimizer=%s"}},
    {"tables[].optimizer.sgd.nesterov", NULL, {"tables.ids.optimizer.sgd.momentum=0.9"}},
    {"tables[].unadmitted", NULL, {"tables.ids.min_count=2"}},
    {"tables[].sketch_mb", NULL, {"tables.ids.min_count=2"}},
    {"tables[].unseen_days", NULL, {"checkpoint.run=a"}},
    {"data.validation.column", NULL, {"data.validation.share=0.1"}},
    {"data.", csv, {NULL}},
    {"data.columns[]", NULL, {"data.columns=[number: n, label: y]"}},
    {"data.columns[].X.", NULL, {"data.columns[0]={%s: {}}"}},
    {"data.columns[].label.", NULL, {"data.columns=[label: {}, number: n]"}},
    {"data.columns[].weight.", NULL, {"data.columns=[weight: {}, label: y, number: n]"}},
    {"data.columns[].ignore.", NULL, {"data.columns=[ignore: {}, label: y, number: n]"}},
    {"data.columns[].key", NULL, {"model.layers=[embedding_bag: {inputs: [user], output_dim: 4}, dense: 1]"}},
    {"data.columns[].key.", NULL, {"data.columns[0].key.name=user"}},
    {"data.columns[].key.hash", NULL, {"data.columns[0].key.missing=none"}},
    {"data.columns[].key.missing.key", NULL, {"data.columns[0].key.hash=false"}},
    {"data.columns[].keys.", NULL, {"data.columns[0].keys={name: user, max_values: 3}"}},
    {"data.columns[].keys.missing.key", NULL, {"data.columns[0].keys.hash=false"}},
    {"data.columns[].cross.", NULL, {"model.layers=[linear: [user, site, both], dense: 1]", "data.columns=[cross: {name: both, of: [site, user]}, label: y, key: {name: user}, key: {name: site}]"}},
    {"data.columns[].cross.name", NULL, {"model.layers=[linear: [user, site, user_site], dense: 1]"}},
    {"data.columns[].number.encode", NULL, {"data.columns[0].number.buckets=log_squared"}},
    {"data.synthetic", plain, {"data.synthetic=clicks", "data.columns=[number: n, label: y]", "model.input.shape=auto"}},
    {"data.bad_rows_max", NULL, {"data.bad_rows=skip"}},
    {"data.absent_columns", NULL, {"data.format=parquet"}},
    {"data.window", NULL, {"data.order=stream"}},
    {"data.mix", NULL, {"data.order=stream"}},
    {"data.scale", plain, {NULL}},
    {"data.augment", plain, {"model.input.shape=[28, 28]", "model.layers=[flatten, dense: 1]"}},
    {"optimizer.X.", NULL, {"optimizer=%s"}},
    {"optimizer.X.ema_", NULL, {"optimizer.%s.use_ema=true"}},
    {"optimizer.X.exclude", NULL, {"optimizer.%s.weight_decay=0.1"}},
    {"optimizer.sgd.nesterov", NULL, {"optimizer.sgd.momentum=0.9"}},
    {"optimizer.adagrad.rowwise", table, {NULL}},
    {"training.learning_rate_schedule.X.", NULL, {"training.learning_rate_schedule=%s"}},
    {"training.class_weight", NULL, {"model.loss=binary_crossentropy"}},
    {"training.staleness", NULL, {"training.update=ssp"}},
    {"training.delay_compensation", NULL, {"training.update=async"}},
    {"training.geo_", NULL, {"training.update=geo"}},
    {"training.max_re", NULL, {"training.nan_guard=rollback"}},
    {"early_stopping", NULL, {"training.monitor=loss", "early_stopping.patience=2"}},
    {"compression.allow", NULL, {"compression.push=auto"}},
    {"compression.push.top_k", NULL, {"compression.push=top_k"}},
    {"ps.memory", table, {NULL}},
    {"ps.when_full", table, {"ps.memory=100"}},
    {"training.learning_rate_schedule.exponential_decay.", NULL, {"training.learning_rate_schedule.exponential_decay={decay_steps: 9, decay_rate: 0.5}"}},
    {"tables[].learning_rate_schedule.exponential_decay.", NULL, {"tables.ids.learning_rate_schedule.exponential_decay={decay_steps: 9, decay_rate: 0.5}"}},
    {"training.learning_rate_schedule.cosine_decay.", NULL, {"training.learning_rate_schedule.cosine_decay={decay_steps: 9, warmup_steps: 3, warmup_target: 0.5}"}},
    {"tables[].learning_rate_schedule.cosine_decay.", NULL, {"tables.ids.learning_rate_schedule.cosine_decay={decay_steps: 9, warmup_steps: 3, warmup_target: 0.5}"}},
    {"training.learning_rate_schedule.polynomial_decay.", NULL, {"training.learning_rate_schedule.polynomial_decay={decay_steps: 9}"}},
    {"tables[].learning_rate_schedule.polynomial_decay.", NULL, {"tables.ids.learning_rate_schedule.polynomial_decay={decay_steps: 9}"}},
    {"training.learning_rate_schedule.piecewise_constant_decay.", NULL, {"training.learning_rate_schedule.piecewise_constant_decay={boundaries: [1, 2], values: [1, 2, 3]}"}},
    {"tables[].learning_rate_schedule.piecewise_constant_decay.", NULL, {"tables.ids.learning_rate_schedule.piecewise_constant_decay={boundaries: [1, 2], values: [1, 2, 3]}"}},
    {"training.learning_rate_schedule.inverse_time_decay.", NULL, {"training.learning_rate_schedule.inverse_time_decay={decay_steps: 9, decay_rate: 0.5}"}},
    {"tables[].learning_rate_schedule.inverse_time_decay.", NULL, {"tables.ids.learning_rate_schedule.inverse_time_decay={decay_steps: 9, decay_rate: 0.5}"}},
    /* clang-format on */
};

/* How `path` begins as `with` says; *name is X there. */
static bool begins(const char *path, const char *with, char name[PATH_BYTES])
{
    for (; *with; with++) {
        if (*with != 'X') {
            if (*path++ != *with)
                return false;
            continue;
        }
        size_t n = strcspn(path, ".");
        (void)snprintf(name, PATH_BYTES, "%.*s", (int)n, path);
        path += n;
    }
    return true;
}

/* The path of the first element: model.layers[0], or the second where the first is another layer's input. */
static void path_of_one(const char *path, char out[PATH_BYTES])
{
    const char *list = strstr(path, "[]");
    bool joins = strstr(path, ".add.") || strstr(path, ".concatenate.");
    if (!list)
        (void)snprintf(out, PATH_BYTES, "%s", path);
    else
        (void)snprintf(out, PATH_BYTES, "%.*s%s%.*s", (int)(list - path), path,
                       *path == 't' ? ".ids"
                       : joins      ? "[1]"
                                    : "[0]",
                       JOB_PATH_MAX, list + 2);
}

static void the_example_is_accepted(const struct job_key *key)
{
    static char text[SETS_MAX][PATH_BYTES];
    const char *sets[SETS_MAX], *base = NULL;
    char name[PATH_BYTES] = "", path[PATH_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        if (!begins(key->path, contexts[i].path, name))
            continue;
        base = contexts[i].job ? contexts[i].job : base;
        for (size_t j = 0; j < SETS_OF_ONE && contexts[i].set[j]; j++) {
            const char *set = contexts[i].set[j], *at = strstr(set, "%s");
            assert_true(n + 1 < SETS_MAX);
            (void)snprintf(text[n], PATH_BYTES, "%.*s%.*s%.*s",
                           (int)(at ? (size_t)(at - set) : strlen(set)), set, JOB_PATH_MAX,
                           at ? name : "", JOB_PATH_MAX, at ? at + 2 : "");
            sets[n] = text[n];
            n++;
        }
    }
    path_of_one(key->path, path);
    (void)snprintf(text[n], sizeof text[n], "%.*s=%s", JOB_PATH_MAX, path, key->example);
    sets[n] = text[n];
    struct job job;
    struct errmsg e = {""};
    if (job_parse(&job, base, strlen(base), "j.yaml", "/jobs", sets, n + 1, &e))
        fail_msg("%s: %s", text[n], e.text);
    job_close(&job);
}

static void every_key_has_an_example_that_a_job_file_takes(void **state)
{
    (void)state;
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        if ((key->type == KEY_LATER) != !key->example)
            fail_msg("%s: give it an EXAMPLE in job/table_*.c", key->path);
        if (key->example)
            the_example_is_accepted(key);
    }
}

/* ---- the page ---- */

static char *page(void)
{
    static char *text;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    job_reference_write(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* `path` is what `shown` says, in which a name in capitals is any name. */
static bool is_shown(const char *shown, const char *path)
{
    if (!isupper((unsigned char)*shown))
        return *shown == *path && (!*shown || is_shown(shown + 1, path + 1));
    while (isupper((unsigned char)*shown))
        shown++;
    while (*path && !strchr(".[", *path++))
        if (is_shown(shown, path))
            return true;
    return false;
}

/* The keys that have been found; those that `shown` stands for are added. Returns how many these are. */
static size_t keys_of(const char *shown, bool *found)
{
    size_t n = 0;
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (is_shown(shown, key->path)) {
            found[job_key_index(key)] = true;
            n++;
        }
    return n;
}

/* The next text in backticks from *at on; false: none on this line. */
static bool next_code(const char **at, char out[PATH_BYTES])
{
    *at += strcspn(*at, "`\n");
    if (**at != '`')
        return false;
    size_t n = strcspn(++*at, "`");
    (void)snprintf(out, PATH_BYTES, "%.*s", (int)n, *at);
    *at += n + 1;
    return true;
}

static void the_page_has_every_key_and_no_other(void **state)
{
    (void)state;
    static bool found[JOB_KEYS_MAX];
    char *text = page(), prefix[PREFIXES_MAX][PATH_BYTES], name[PATH_BYTES], path[2 * PATH_BYTES];
    size_t prefixes = 0, rows = 0;
    bool keys = false;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *at = line;
        if (*line == '#') {
            prefixes = 0;
        } else if (strncmp(line, "Options of `", 12) == 0) {
            for (prefixes = 0; next_code(&at, name); prefixes++) {
                assert_true(prefixes < PREFIXES_MAX);
                memcpy(prefix[prefixes], name, PATH_BYTES);
            }
        } else if (strncmp(line, "| Key |", 7) == 0) {
            keys = true;
        } else if (*line != '|') {
            keys = false;
        } else if (keys && next_code(&at, name)) {
            size_t n = prefixes ? 0 : keys_of(name, found);
            for (size_t i = 0; i < prefixes; i++) {
                assert_true((size_t)snprintf(path, sizeof path, "%s.%s", prefix[i], name) <
                            sizeof path);
                n += keys_of(path, found);
            }
            if (!n)
                fail_msg("the page has a key that the table lacks: %s", name);
            rows++;
        }
    }
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (!found[job_key_index(key)])
            fail_msg("the page lacks %s: add it to a section of job/reference.c", key->path);
    assert_true(rows > 200);
    free(text);
}

/* A row is of all keys that it stands for: they differ in nothing that it shows but the default. */
static void keys_that_share_a_row_mean_the_same(void **state)
{
    (void)state;
    static const char *const shared[] = {
        "model.layers[].LAYER.name",
        "model.layers[].LAYER.inputs",
        "model.layers[].LAYER.WEIGHTS_initializer.constant.value",
        "model.layers[].LAYER.WEIGHTS_initializer.NAMED_normal.mean",
        "model.layers[].LAYER.WEIGHTS_initializer.random_uniform.maxval",
        "model.layers[].LAYER.WEIGHTS_regularizer.NAME.l2",
        "optimizer.OPTIMIZER.learning_rate",
        "optimizer.OPTIMIZER.weight_decay",
        "optimizer.OPTIMIZER.ema_momentum"};
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        const struct job_key *first = NULL;
        for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
            if (!is_shown(shared[i], key->path))
                continue;
            first = first ? first : key;
            assert_string_equal(key->doc, first->doc);
            assert_int_equal(key->type, first->type);
            assert_int_equal(key->identity, first->identity);
            assert_true(key->low == first->low && key->high == first->high);
        }
        assert_non_null(first);
    }
}

static void the_pages_first_job_file_is_one(void **state)
{
    (void)state;
    char *text = page(), *from = strstr(text, "```yaml\n");
    assert_non_null(from);
    from += strlen("```yaml\n");
    struct job job;
    struct errmsg e = {""};
    if (job_parse(&job, from, (size_t)(strstr(from, "```") - from), "j.yaml", "/jobs", NULL, 0, &e))
        fail_msg("%s", e.text);
    job_close(&job);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_has_an_example_that_a_job_file_takes),
        cmocka_unit_test(the_page_has_every_key_and_no_other),
        cmocka_unit_test(keys_that_share_a_row_mean_the_same),
        cmocka_unit_test(the_pages_first_job_file_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
