/* Scores from a trained model's files are those of training's own forward pass, for models of each kind; one row agrees with
 * a batch, threads share a model, and an evaluation of the files equals that of training to the bit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "predict/folder.h"
#include "tests/lib/trained.h"
#include "evaluate/evaluate.h"
#include "tests/lib/gathered.h"

enum { ROWS = 200, OUTPUTS_MAX = 10, THREADS = 4 };

/* ---- models ---- */

#define DIGITS                                                                                     \
    "data: {format: synthetic, synthetic_train_rows: 50, synthetic_eval_rows: 200, scale: 255}\n"

static const char mlp[] =
    "model: {input: {shape: [28, 28]}, loss: sparse_categorical_crossentropy, metrics: "
    "[accuracy],\n"
    "  layers: [flatten, dense: {units: 32, activation: relu}, dropout: 0.3,\n"
    "    dense: {units: 10, activation: softmax}]}\n"
    "optimizer: adam\n" DIGITS;

static const char cnn[] =
    "model: {input: {shape: [28, 28, 1]}, loss: {sparse_categorical_crossentropy: {from_logits: "
    "true}},\n"
    "  metrics: [accuracy], layers: [conv2d: {filters: 16, kernel_size: 3}, batch_normalization,\n"
    "    activation: relu, max_pooling2d: 2, conv2d: {filters: 8, kernel_size: 3, strides: 2},\n"
    "    batch_normalization, flatten, dense: {units: 10}]}\n"
    "optimizer: adam\n" DIGITS;

static const char wide_deep[] =
    "model:\n"
    "  input: {shape: auto}\n"
    "  loss: binary_crossentropy\n"
    "  metrics: [auc, logloss]\n"
    "  layers:\n"
    "    - linear: {inputs: 'C{1..5}', name: wide}\n"
    "    - embedding: {inputs: 'C{1..5}', output_dim: 6, name: e}\n"
    "    - dense: {inputs: [e, 'I{1..13}'], units: 20, activation: relu}\n"
    "    - dense: {units: 1, name: deep}\n"
    "    - add: [wide, deep]\n"
    "    - sigmoid\n"
    "optimizer: adam\n"
    "tables: {e: {min_count: 2}}\n"
    "data:\n"
    "  format: synthetic\n"
    "  synthetic: clicks\n"
    "  synthetic_keys: 3000\n"
    "  synthetic_fields: 5\n"
    "  synthetic_train_rows: 500\n"
    "  synthetic_eval_rows: 200\n"
    "  columns: [label: clicked, number: {name: 'I{1..13}', scale: standard},\n"
    "    key: {name: 'C{1..5}', missing: none}]\n";

static const char regression[] =
    "model: {input: {shape: auto}, loss: mean_squared_error, metrics: [mean_absolute_error],\n"
    "  layers: [dense: {units: 8, activation: tanh}, dense: {units: 1}]}\n"
    "optimizer: sgd\n"
    "data: {format: csv, train: train.txt, eval: eval.txt, columns: [number: {name: 'x{1..3}', "
    "scale: standard},\n"
    "  category: c, label: y]}\n";

static const char linear[] =
    "model: {input: {shape: auto}, loss: binary_crossentropy, metrics: [auc],\n"
    "  layers: [linear: {inputs: f, name: keys, use_bias: true}, sigmoid]}\n"
    "optimizer: sgd\n"
    "data: {format: libsvm, train: train.txt, eval: eval.txt, columns: [label: y,\n"
    "  keys: {name: f, max_values: 12}]}\n";

static void csv_row(char *out, uint64_t row, uint64_t seed)
{
    uint64_t d = rng_u64(seed, row);
    (void)sprintf(out, "%.3f,%u,%g,w%u,%.2f\n", (double)rng_unit(d, 1), (unsigned)(d % 100),
                  (double)rng_unit(d, 2) * 1e4, (unsigned)(d >> 8 & 3), (double)rng_unit(d, 3));
}

static void libsvm_line(char *out, uint64_t row, uint64_t seed)
{
    uint64_t d = rng_u64(seed, row);
    out += sprintf(out, "%s", d & 1 ? "+1" : "-1");
    for (uint64_t i = 0, at = 0; i < d / 2 % 12; i++) {
        at += 1 + rng_u64(d, i) % 30;
        out += sprintf(out, " %u:%.3g", (unsigned)at, (double)rng_unit(d, 50 + i));
    }
    strcpy(out, "\n");
}

static const struct kind {
    const char *name, *job;
    void (*row)(char *out, uint64_t row, uint64_t seed); /* of its files; NULL: none */
} kinds[] = {
    {"mlp", mlp, NULL},
    {"cnn", cnn, NULL},
    {"wide and deep", wide_deep, NULL},
    {"regression", regression, csv_row},
    {"linear", linear, libsvm_line},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- a trained model, and its files opened ---- */

struct fixture {
    struct trained t;
    struct folder folder;
    float *x;
    struct leaf_buffer *room;
    const struct leaf_keys *keys;
    float wanted[ROWS * OUTPUTS_MAX];
    struct errmsg e;
};

static void must(const struct fixture *f, enum err err)
{
    if (err)
        fail_msg("%s", f->e.text);
}

static char *text_of(const struct kind *k, uint64_t seed)
{
    enum { ROW_BYTES = 256 };
    char *text = k->row ? mem_zalloc(ROWS, ROW_BYTES) : NULL;
    for (uint64_t row = 0; text && row < ROWS; row++)
        k->row(text + strlen(text), row, seed);
    return text;
}

static const struct leaf_keys *gather(struct fixture *f, uint32_t first, uint32_t n)
{
    uint64_t row[ROWS];
    float y[ROWS];
    uint32_t there;
    for (uint32_t i = 0; i < n; i++)
        row[i] = first + i;
    must(f, gathered_rows(&f->t.eval, row, n, f->x, y, &there, &f->e));
    assert_int_equal(there, n);
    if (f->room)
        must(f, gathered_keys(&f->t.eval, row, n, f->room, &f->keys, &f->e));
    return f->keys;
}

/* The scores of what training's forward pass leaves. */
static void want_scores(struct fixture *f)
{
    size_t outputs = model_outputs(f->t.model), n = ROWS * outputs;
    trained_outputs(&f->t, 0, ROWS, f->wanted);
    if (f->t.job.model.head[0].from_logits)
        return;
    if (f->t.job.model.head[0].loss == LOSS_BINARY_CROSSENTROPY)
        kernels()->sigmoid(f->wanted, f->wanted, n);
    for (size_t r = 0;
         f->t.job.model.head[0].loss == LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && r < ROWS; r++) {
        double sum = 0, most = -INFINITY;
        float *z = f->wanted + r * outputs;
        for (size_t c = 0; c < outputs; c++)
            most = fmax(most, (double)z[c]);
        for (size_t c = 0; c < outputs; c++)
            sum += exp((double)z[c] - most);
        for (size_t c = 0; c < outputs; c++)
            z[c] = (float)(exp((double)z[c] - most) / sum);
    }
}

static void setup(struct fixture *f, const struct kind *k)
{
    char *train = text_of(k, 21), *eval = text_of(k, 22);
    *f = (struct fixture){.e = {""}};
    trained_init(&f->t, k->job, train, eval);
    mem_free(train);
    mem_free(eval);
    must(f, folder_open(&f->folder, f->t.model_dir, &f->e));
    f->x = mem_floats((size_t)ROWS * f->t.eval.features);
    assert_non_null(f->x);
    if (model_layout(f->t.model)->rows)
        must(f, gathered_buffer(&f->room, f->t.eval.table.schema, ROWS, &f->e));
    assert_int_equal(f->t.eval.rows, ROWS);
    want_scores(f);
}

static void teardown(struct fixture *f)
{
    leaf_buffer_free(f->room);
    mem_free(f->x);
    folder_close(&f->folder);
    trained_close(&f->t);
}

/* ---- scores ---- */

static void check_scores(const struct fixture *f, const float *is, uint32_t first, uint32_t n,
                         const char *name)
{
    size_t outputs = model_outputs(f->folder.model);
    for (size_t i = 0; i < n * outputs; i++) {
        float wanted = f->wanted[first * outputs + i];
        if (!(fabsf(is[i] - wanted) <= 1e-6f * fmaxf(1, fabsf(wanted))))
            fail_msg("%s: output %zu of row %u is %.9g, not %.9g", name, i, first, (double)is[i],
                     (double)wanted);
    }
}

static void scores_are_those_of_trainings_forward_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct fixture f;
        struct scorer *s;
        float out[ROWS * OUTPUTS_MAX];
        setup(&f, &kinds[i]);
        must(&f, scorer_new(&s, &f.folder, ROWS, &f.e));
        const struct leaf_keys *keys = gather(&f, 0, ROWS);
        must(&f, scorer_run(s, ROWS, f.x, keys, out, &f.e));
        check_scores(&f, out, 0, ROWS, kinds[i].name);
        scorer_free(s);
        teardown(&f);
    }
}

/* Of rows from `first` on. */
static uint64_t count_missed(struct fixture *f, struct scorer *s, uint32_t first, uint32_t n,
                             const struct row_misses *misses)
{
    float out[ROWS * OUTPUTS_MAX];
    uint64_t missed = 0, lookups = 0;
    const struct leaf_keys *keys = gather(f, first, n);
    must(f, scorer_run(s, n, f->x, keys, out, &f->e));
    for (uint32_t i = 0; i < f->folder.schema->lookups; i++) {
        lookups += misses[i].lookups;
        missed += misses[i].missed;
    }
    assert_true(missed > 0 && missed < lookups);
    return missed;
}

static void lookups_without_a_row_are_counted_by_each_run(void **state)
{
    (void)state;
    enum { HALF = ROWS / 2, MOST = 16 };
    struct fixture f;
    struct scorer *s[2];
    struct row_misses misses[2][MOST] = {{{0}}};
    setup(&f, &kinds[2]);
    assert_true(f.folder.schema->lookups <= MOST);
    for (int i = 0; i < 2; i++) {
        must(&f, scorer_new(&s[i], &f.folder, ROWS, &f.e));
        must(&f, scorer_watch(s[i], misses[i], &f.e));
    }
    uint64_t first = count_missed(&f, s[0], 0, HALF, misses[0]);
    uint64_t second = count_missed(&f, s[1], HALF, HALF, misses[1]);
    assert_int_equal(count_missed(&f, s[0], HALF, HALF, misses[0]), first + second);
    for (int i = 0; i < 2; i++)
        scorer_free(s[i]);
    teardown(&f);
}

static void one_row_agrees_with_a_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct fixture f;
        struct scorer *s;
        float out[OUTPUTS_MAX];
        setup(&f, &kinds[i]);
        must(&f, scorer_new(&s, &f.folder, 1, &f.e));
        for (uint32_t row = 0; row < ROWS; row++) {
            const struct leaf_keys *keys = gather(&f, row, 1);
            must(&f, scorer_run(s, 1, f.x, keys, out, &f.e));
            check_scores(&f, out, row, 1, kinds[i].name);
        }
        scorer_free(s);
        teardown(&f);
    }
}

static float value_of(const struct fixture *f, const char *tensor)
{
    const struct layout *l = model_layout(f->folder.model);
    uint32_t i = 0;
    while (strcmp(l->tensor[i].name, tensor))
        i++;
    return f->folder.w[l->tensor[i].offset_elems];
}

/* The wide part is the bias plus the sum of the keys' rows. */
static void a_layers_vectors_are_those_of_its_table(void **state)
{
    (void)state;
    enum { WIDE = 0, DEEP = 1, FIELDS = 5, DIM = 6 };
    struct fixture f;
    struct scorer *s;
    float wide[ROWS], deep[ROWS * FIELDS * DIM];
    setup(&f, &kinds[2]);
    must(&f, scorer_new(&s, &f.folder, ROWS, &f.e));
    assert_int_equal(model_lookups(f.folder.model), 2);
    assert_string_equal(model_lookup(f.folder.model, WIDE).layer, "wide");
    assert_int_equal(model_lookup(f.folder.model, DEEP).width, FIELDS * DIM);
    const struct leaf_keys *keys = gather(&f, 0, ROWS);
    scorer_lookup(s, ROWS, keys, WIDE, wide);
    scorer_lookup(s, ROWS, keys, DEEP, deep);
    for (uint32_t row = 0; row < ROWS; row++) {
        float sum = value_of(&f, "wide/bias"), one, w[DIM];
        for (uint32_t k = 0; k < FIELDS; k++) {
            uint32_t at = keys->column[k].at[row];
            const uint64_t *mixed = &keys->list[0].mixed[at];
            if (at == LOOKUP_NONE)
                continue;
            trained_rows(&f.t, 0, mixed, 1, &one);
            trained_rows(&f.t, 1, mixed, 1, w);
            sum += one;
            assert_memory_equal(w, deep + (row * FIELDS + k) * DIM, sizeof w);
        }
        assert_true(wide[row] == sum);
    }
    scorer_free(s);
    teardown(&f);
}

/* ---- threads ---- */

struct share {
    const struct fixture *f;
    const struct leaf_keys *keys;
    float out[ROWS * OUTPUTS_MAX];
    enum err err;
    struct errmsg e;
};

static void *score_all(void *arg)
{
    struct share *sh = arg;
    struct scorer *s;
    sh->err = scorer_new(&s, &sh->f->folder, ROWS, &sh->e);
    for (int i = 0; i < 5 && !sh->err; i++)
        sh->err = scorer_run(s, ROWS, sh->f->x, sh->keys, sh->out, &sh->e);
    if (!sh->err)
        scorer_free(s);
    return NULL;
}

static void threads_share_a_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct fixture f;
        struct share *share = mem_zalloc(THREADS, sizeof *share);
        pthread_t thread[THREADS];
        assert_non_null(share);
        setup(&f, &kinds[i]);
        const struct leaf_keys *keys = gather(&f, 0, ROWS);
        for (int k = 0; k < THREADS; k++) {
            share[k].f = &f;
            share[k].keys = keys;
            assert_int_equal(pthread_create(&thread[k], NULL, score_all, &share[k]), 0);
        }
        for (int k = 0; k < THREADS; k++) {
            pthread_join(thread[k], NULL);
            assert_int_equal(share[k].err, ERR_OK);
            check_scores(&f, share[k].out, 0, ROWS, kinds[i].name);
        }
        mem_free(share);
        teardown(&f);
    }
}

/* ---- evaluation ---- */

static enum err read_trained(void *ctx, struct row_values *v, struct errmsg *e)
{
    const struct trained *t = ctx;
    (void)e;
    for (uint32_t i = 0; i < v->layout->tables; i++) {
        const struct row_value_keys *of = &v->list[v->layout->table[i].list];
        trained_rows(t, i, of->mixed, of->keys, v->w[i]);
        memset(v->absent[v->layout->table[i].list], 0, of->keys);
    }
    return ERR_OK;
}

static struct sums evaluate(struct fixture *f, const struct job *job, const struct model *model,
                            const float *w, const struct row_reader *rows)
{
    struct pool *pool;
    struct evaluator *v;
    struct dataset_source source;
    struct sums sums;
    must(f, pool_new(&pool, 2, &f->e));
    must(f, evaluator_new(&v, job, model, source_over(&source, &f->t.eval, NULL), pool, &f->e));
    must(f, evaluator_run(v, w, rows, &sums, &f->e));
    evaluator_free(v);
    pool_free(pool);
    return sums;
}

static void an_evaluation_of_the_files_is_trainings_own_to_the_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct fixture f;
        setup(&f, &kinds[i]);
        const struct row_reader files = folder_rows(&f.folder),
                                own = {read_trained, &f.t, false, false};
        struct sums a = evaluate(&f, &f.folder.job, f.folder.model, f.folder.w, &files);
        struct sums b = evaluate(&f, &f.t.job, f.t.model, f.t.w, &own);
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(a.examples == ROWS && isfinite(a.loss));
        teardown(&f);
    }
}

/* ---- faults ---- */

static const char embedding[] =
    "model: {input: {shape: auto}, loss: mean_squared_error,\n"
    "  layers: [embedding: {inputs: id, input_dim: 100, output_dim: 2}, flatten, dense: {units: "
    "1}]}\n"
    "optimizer: sgd\n"
    "data: {format: csv, train: train.txt, eval: eval.txt, columns: [number: id, label: y]}\n";

static void an_invalid_row_is_an_error_of_its_own_call(void **state)
{
    (void)state;
    struct trained t;
    struct folder folder;
    struct scorer *s;
    struct errmsg e = {""};
    float out[2], bad[] = {5, 100}, good[] = {5, 99};
    trained_init(&t, embedding, "1,2\n99,3\n", "7,1\n");
    assert_int_equal(folder_open(&folder, t.dir, &e), ERR_OK);
    assert_int_equal(scorer_new(&s, &folder, 2, &e), ERR_OK);
    assert_int_equal(scorer_run(s, 2, bad, NULL, out, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "looks up row 100"));
    bad[1] = -NAN;
    assert_int_equal(scorer_run(s, 2, bad, NULL, out, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "looks up row nan"));
    assert_int_equal(scorer_run(s, 2, good, NULL, out, &e), ERR_OK);
    scorer_free(s);
    folder_close(&folder);
    trained_close(&t);
}

static void memory_that_fails_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    struct scorer *s = NULL;
    long n = 0;
    setup(&f, &kinds[2]);
    for (bool fired = true; fired; n++) {
        mem_fail_at(n);
        enum err err = scorer_new(&s, &f.folder, 3, &f.e);
        fired = mem_fail_fired() != 0;
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
    }
    assert_true(n > 5);
    scorer_free(s);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_trainings_forward_pass),
        cmocka_unit_test(lookups_without_a_row_are_counted_by_each_run),
        cmocka_unit_test(one_row_agrees_with_a_batch),
        cmocka_unit_test(a_layers_vectors_are_those_of_its_table),
        cmocka_unit_test(threads_share_a_model),
        cmocka_unit_test(an_evaluation_of_the_files_is_trainings_own_to_the_bit),
        cmocka_unit_test(an_invalid_row_is_an_error_of_its_own_call),
        cmocka_unit_test(memory_that_fails_is_an_error),
    };
    return cmocka_run_group_tests_name("scorer", tests, NULL, NULL);
}
