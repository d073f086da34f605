/* An evaluation reads rows of tables: whichever process reads them, in however many windows and threads, the numbers equal
 * those of a plain loop over the examples. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/idx_files.h"
#include "evaluate/evaluate.h"
#include "tests/lib/gathered.h"

enum { ROWS = 20000, BYTES_A_ROW = 40, MEMBERS = 700 };
static const float BIAS = 0.25f;

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d;
    struct dataset_source source;
    struct model *model;
    struct errmsg e;
    float *w;
    /* the reader's */
    uint32_t reads, keys; /* keys: of the largest read */
    uint32_t fail_at;     /* which read fails; 0: none */
    struct evaluator *stops;
};

static void write_csv(struct fixture *f)
{
    char *text = mem_zalloc(ROWS, BYTES_A_ROW), *at = text;
    assert_non_null(text);
    for (uint32_t i = 0; i < ROWS; i++) {
        uint64_t draw = rng_u64(9, i);
        at += sprintf(at, "%u,m%u,%s%s%s\n", (unsigned)(draw & 1), (unsigned)(draw / 2 % MEMBERS),
                      draw & 1 << 20 ? "a" : "", (draw & 3 << 20) == 3 << 20 ? ";" : "",
                      draw & 2 << 20 ? "b" : "");
    }
    idx_files_write(&f->files, "a.csv", (struct bytes){(uint8_t *)text, (size_t)(at - text)});
    mem_free(text);
}

static void setup(struct fixture *f)
{
    char text[4096];
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    write_csv(f);
    snprintf(text, sizeof text,
             "model: {input: {shape: auto}, loss: binary_crossentropy, metrics: [auc], layers: [\n"
             "  linear: {inputs: [member, tags], use_bias: true}, sigmoid]}\n"
             "optimizer: sgd\nworker: {threads: 2}\n"
             "data: {format: csv, train: '%s/a.csv', columns: [label: y, key: member,\n"
             "  keys: {name: tags, separator: ';', max_values: 3}]}\n",
             f->files.dir);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e) ||
        dataset_load(&f->d, &f->job, 0, 2, &f->e))
        fail_msg("%s", f->e.text);
    dataset_tell(&f->d, &f->job);
    if (model_new(&f->model, &f->job, &f->e))
        fail_msg("%s", f->e.text);
    f->w = mem_floats(model_layout(f->model)->elems);
    assert_non_null(f->w);
    f->w[0] = BIAS;
}

static void teardown(struct fixture *f)
{
    mem_free(f->w);
    model_free(f->model);
    dataset_close(&f->d);
    job_close(&f->job);
    idx_files_close(&f->files);
}

/* ---- rows ---- */

static float weight_of(uint64_t mixed)
{
    return 4.0f * rng_unit(mixed, 0) - 2.0f;
}

static enum err read_rows(void *ctx, struct row_values *v, struct errmsg *e)
{
    struct fixture *f = ctx;
    uint32_t keys = 0;
    if (++f->reads == f->fail_at)
        return err_set(e, ERR_STATE, "a new generation");
    if (f->stops)
        evaluator_stop(f->stops);
    for (uint32_t t = 0; t < v->layout->tables; t++)
        for (uint32_t k = 0; k < v->list[v->layout->table[t].list].keys; k++, keys++) {
            v->w[t][k] = weight_of(v->list[v->layout->table[t].list].mixed[k]);
            v->absent[v->layout->table[t].list][k] = 0;
        }
    f->keys = keys > f->keys ? keys : f->keys;
    return ERR_OK;
}

static enum err run(struct fixture *f, uint32_t threads, bool in_one_pass, struct sums *out)
{
    struct pool *pool;
    struct evaluator *v = NULL;
    f->reads = f->keys = 0;
    if (pool_new(&pool, threads, &f->e) ||
        evaluator_new(&v, &f->job, f->model, source_over(&f->source, &f->d, NULL), pool, &f->e))
        fail_msg("%s", f->e.text);
    if (f->stops)
        f->stops = v;
    const struct row_reader reader = {read_rows, f, in_one_pass, false};
    enum err err = evaluator_run(v, f->w, &reader, out, &f->e);
    evaluator_free(v);
    pool_free(pool);
    return err;
}

/* ---- by example ---- */

static double logit_of(const struct leaf_keys *keys)
{
    double z = (double)BIAS;
    for (uint32_t i = 0; i < keys->columns; i++) {
        const struct lookup_column *c = &keys->column[i];
        uint32_t places = c->count ? c->count[0] : c->width;
        uint32_t list = 0; /* both are looked up in one table */
        for (uint32_t k = 0; k < places; k++)
            if (c->at[k] != LOOKUP_NONE)
                z += (double)weight_of(keys->list[list].mixed[c->at[k]]);
    }
    return z;
}

/* -log of the probability of the label */
static double loss_of(double z, float label)
{
    return log1p(exp(label > 0.5f ? -z : z));
}

static double plain_loss(struct fixture *f, uint32_t *distinct)
{
    struct leaf_buffer *one, *all;
    const struct leaf_keys *keys = NULL;
    double loss = 0;
    float label;
    uint32_t there;
    uint64_t *rows = mem_zalloc(ROWS, sizeof *rows);
    assert_int_equal(gathered_buffer(&one, f->d.table.schema, 1, &f->e), ERR_OK);
    assert_int_equal(gathered_buffer(&all, f->d.table.schema, ROWS, &f->e), ERR_OK);
    for (uint64_t row = 0; row < ROWS; row++) {
        rows[row] = row;
        if (gathered_rows(&f->d, &row, 1, NULL, &label, &there, &f->e) ||
            gathered_keys(&f->d, &row, 1, one, &keys, &f->e))
            fail_msg("%s", f->e.text);
        loss += loss_of(logit_of(keys), label);
    }
    assert_int_equal(gathered_keys(&f->d, rows, ROWS, all, &keys, &f->e), ERR_OK);
    *distinct = keys->list[0].keys;
    leaf_buffer_free(one);
    leaf_buffer_free(all);
    mem_free(rows);
    return loss / ROWS;
}

static void an_evaluation_is_that_of_each_example_with_its_own_rows(void **state)
{
    (void)state;
    struct fixture f;
    struct sums sums;
    uint32_t distinct;
    setup(&f);
    double loss = plain_loss(&f, &distinct);
    assert_int_equal(run(&f, 2, true, &sums), ERR_OK);
    assert_true(sums.examples == ROWS && fabs(sums.loss - loss) < 1e-6);
    assert_int_equal(f.reads, 1);
    assert_int_equal(f.keys, distinct);
    teardown(&f);
}

/* Of 1200 lookups in the first column. */
static bool are_misses_said(const struct fixture *f, const struct row_layout *layout,
                            uint64_t missed, const char *words)
{
    const struct table_schema *schema = f->d.table.schema;
    struct row_misses misses[2] = {{.lookups = 1200, .missed = missed, .kept = ROW_MISSES_KEPT}};
    char said[400];
    assert_int_equal(schema->lookups, 2);
    log_init("test", LOG_WARN);
    log_warn("nothing");
    evaluator_say_misses(&f->job, schema, layout, misses, NULL);
    log_last_words(false, said, sizeof said);
    log_init("test", LOG_ERROR);
    return strstr(said, words) != NULL;
}

static void keys_that_a_table_need_not_admit_are_not_said(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    struct row_layout layout = *model_layout(f.model)->rows;
    assert_int_equal(layout.tables, 1);
    assert_true(are_misses_said(&f, &layout, 1200, "1200 lookups in table linear, 0 find a row"));
    layout.table[0].admission.probability = 0.5f;
    assert_true(are_misses_said(&f, &layout, 1200, "nothing"));
    layout.table[0].admission = (struct row_admission){.min_count = 2};
    assert_true(are_misses_said(&f, &layout, 1200, "nothing"));
    layout.table[layout.tables++] = (struct row_table_spec){.name = "all"}; /* of the same list */
    assert_true(are_misses_said(&f, &layout, 1200, "1200 lookups in table all, 0 find a row"));
    teardown(&f);
}

static void a_few_rows_are_found_of_pairs_alone(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    const struct row_layout *layout = model_layout(f.model)->rows;
    struct table_key *key = &f.d.table.schema->key[f.d.table.schema->lookup[0].key];
    const enum column_kind kind = key->kind;
    assert_true(are_misses_said(&f, layout, 1188, "nothing"));
    assert_true(are_misses_said(&f, layout, 1189, "1200 lookups in table linear, 11 find a row"));
    key->kind = COLUMN_CROSS; /* of values that are known, a pair may be new */
    assert_true(are_misses_said(&f, layout, 1189, "nothing"));
    assert_true(are_misses_said(&f, layout, 1200, "1200 lookups in table linear, 0 find a row"));
    key->kind = kind;
    teardown(&f);
}

/* The first column's, of 1200 rows with one key each. */
static void missing_values_of_which_the_model_has_no_row_are_said(void **state)
{
    (void)state;
    static const struct {
        enum key_missing missing;
        uint64_t key, times;
        bool said;
    } of[] = {{KEY_MISSING_KEY, 7, 301, true},
              {KEY_MISSING_KEY, 7, 300, false}, /* a quarter */
              {KEY_MISSING_KEY, 8, 1200, false},
              {KEY_MISSING_NONE, 7, 1200, false}};
    struct fixture f;
    setup(&f);
    const struct table_schema *schema = f.d.table.schema;
    struct table_key *key = &f.d.table.schema->key[schema->lookup[0].key];
    const struct row_layout *layout = model_layout(f.model)->rows;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct row_misses misses[2] = {{.lookups = 1200,
                                        .rows = 1200,
                                        .missed = of[i].times + 1,
                                        .kept = 2,
                                        .mixed = {key_mix(3), key_mix(7)},
                                        .times = {1, of[i].times}}};
        char said[400];
        key->options.missing = of[i].missing;
        key->options.missing_key = of[i].key;
        log_init("test", LOG_WARN);
        log_warn("nothing");
        evaluator_say_misses(&f.job, schema, layout, misses, NULL);
        log_last_words(false, said, sizeof said);
        log_init("test", LOG_ERROR);
        const char *wanted = of[i].said ? "data.eval: column member: 301 of 1200 rows have no "
                                          "value, of which the model has learned nothing"
                                        : "nothing";
        if (!strstr(said, wanted))
            fail_msg("%zu: %s", i, said);
    }
    teardown(&f);
}

static void windows_and_threads_change_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct sums one, other;
    setup(&f);
    assert_int_equal(run(&f, 1, true, &one), ERR_OK);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        assert_int_equal(run(&f, threads, false, &other), ERR_OK);
        assert_int_equal(f.reads, 3); /* 80 blocks, 32 at a time */
        assert_memory_equal(&one, &other, sizeof one);
    }
    assert_int_equal(run(&f, 40, true, &other), ERR_OK); /* more threads than a window has blocks */
    assert_memory_equal(&one, &other, sizeof one);
    teardown(&f);
}

static void a_reader_that_fails_ends_the_evaluation_with_its_word(void **state)
{
    (void)state;
    struct fixture f;
    struct sums sums;
    setup(&f);
    f.fail_at = 2;
    assert_int_equal(run(&f, 2, false, &sums), ERR_STATE);
    assert_string_equal(f.e.text, "evaluation: a new generation");
    assert_int_equal(f.reads, 2);
    teardown(&f);
}

static void an_evaluation_that_is_stopped_reads_no_more(void **state)
{
    (void)state;
    struct fixture f;
    struct sums sums;
    setup(&f);
    f.stops = (struct evaluator *)&f; /* run knows which */
    assert_int_equal(run(&f, 2, false, &sums), ERR_OK);
    assert_int_equal(f.reads, 1);
    teardown(&f);
}

static void without_memory_an_evaluation_says_so(void **state)
{
    (void)state;
    struct fixture f;
    struct sums sums;
    struct pool *pool;
    struct evaluator *v = NULL;
    const struct row_reader reader = {read_rows, &f, false, false};
    bool fired = true;
    setup(&f);
    assert_int_equal(pool_new(&pool, 1, &f.e), ERR_OK);
    for (long n = 0; fired; n++) {
        mem_fail_at(n);
        enum err err =
            evaluator_new(&v, &f.job, f.model, source_over(&f.source, &f.d, NULL), pool, &f.e);
        if (!err)
            err = evaluator_run(v, f.w, &reader, &sums, &f.e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        evaluator_free(v);
        v = NULL;
    }
    pool_free(pool);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_evaluation_is_that_of_each_example_with_its_own_rows),
        cmocka_unit_test(keys_that_a_table_need_not_admit_are_not_said),
        cmocka_unit_test(a_few_rows_are_found_of_pairs_alone),
        cmocka_unit_test(missing_values_of_which_the_model_has_no_row_are_said),
        cmocka_unit_test(windows_and_threads_change_nothing),
        cmocka_unit_test(a_reader_that_fails_ends_the_evaluation_with_its_word),
        cmocka_unit_test(an_evaluation_that_is_stopped_reads_no_more),
        cmocka_unit_test(without_memory_an_evaluation_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
