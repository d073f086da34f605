/* Weights of examples: a row of weight k is as k rows, in the loss, the gradient, the metrics and the auc. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/idx_files.h"
#include "tests/lib/models.h"
#include "evaluate/evaluate.h"
#include "model/metric.h"
#include "worker/step/gradient.h"
#include "tests/lib/gathered.h"

enum { ROWS = 6, COLS = 3, ELEMS_MAX = 64 };

static const float X[ROWS * COLS] = {0.5f, -1, 2,    1.5f, 0.25f, -0.75f, -2, 1,  0.125f,
                                     3,    1,  0.5f, -1,   -1,    1,      2,  -2, 0.75f};
static const float WEIGHT[ROWS] = {0.5f, 2, 0, 3.25f, 1, 0.125f};

struct trained {
    float dw[ELEMS_MAX];
    struct sums sums;
    uint64_t elems;
};

static struct trained train(const struct job *job, const float *x, const float *y,
                            const float *weight, uint32_t n)
{
    struct trained t = {.sums = {0}};
    struct model *m;
    struct model_run *run = NULL;
    struct errmsg e;
    float w[ELEMS_MAX];
    if (model_new(&m, job, &e) || model_run_new(&run, m, ROWS, &e))
        fail_msg("%s", e.text);
    t.elems = model_layout(m)->elems;
    assert_in_range(t.elems, 1, ELEMS_MAX);
    layout_init_values(model_layout(m), 1, 0, t.elems, w);
    const struct leaf of = {.n = n, .x = x, .y = y, .weight = weight};
    model_train(run, w, &of, 0, t.dw, &t.sums, NULL, NULL);
    model_run_free(run);
    model_free(m);
    return t;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * (1 + fabs(b));
}

static void is_the_weighted_sum(const struct job *job, const float *y)
{
    struct trained all = train(job, X, y, WEIGHT, ROWS);
    double loss = 0, dw[ELEMS_MAX] = {0};
    for (uint32_t i = 0; i < ROWS; i++) {
        struct trained one = train(job, X + (size_t)i * COLS, y + i, NULL, 1);
        loss += (double)WEIGHT[i] * one.sums.loss;
        for (uint64_t k = 0; k < all.elems; k++)
            dw[k] += (double)WEIGHT[i] * (double)one.dw[k];
    }
    assert_true(all.sums.examples == ROWS);
    assert_true(near(all.sums.loss, loss));
    for (uint64_t k = 0; k < all.elems; k++)
        assert_true(near((double)all.dw[k], dw[k]));
}

static void loss_and_gradient_are_multiplied_by_the_weight(void **state)
{
    (void)state;
    static const float classes[ROWS] = {0, 1, 2, 1, 0, 2}, two[ROWS] = {0, 1, 1, 0, 1, 0};
    static const enum loss_kind kinds[] = {LOSS_MEAN_SQUARED_ERROR, LOSS_MEAN_ABSOLUTE_ERROR,
                                           LOSS_BINARY_CROSSENTROPY,
                                           LOSS_SPARSE_CATEGORICAL_CROSSENTROPY};
    for (int i = 0; i < 4; i++) {
        struct job job;
        bool many = kinds[i] == LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
        models_start(&job, COLS, 0, kinds[i], i > 1);
        models_dense(&job, 4, ACT_TANH);
        models_dense(&job, many ? 3 : 1, ACT_LINEAR);
        is_the_weighted_sum(&job, many ? classes : two);
        if (i < 2)
            continue;
        job.model.head[0].class_weights = 1; /* the one row has its class's weight, too */
        job.model.head[0].class_weight[0] = (struct class_weight){1, 5};
        is_the_weighted_sum(&job, many ? classes : two);
    }
}

static void an_example_of_weight_zero_touches_nothing(void **state)
{
    (void)state;
    const float x[] = {3e38f, 3e38f, 2, 1}, y[] = {0, 1},
                weight[] = {0, 1}; /* it scores INFINITY */
    static const enum loss_kind kinds[] = {LOSS_MEAN_SQUARED_ERROR, LOSS_BINARY_CROSSENTROPY};
    for (int i = 0; i < 2; i++) {
        struct job job;
        models_start(&job, 2, 0, kinds[i], i > 0);
        models_dense(&job, 1, ACT_LINEAR);
        job.model.layer[0].kernel.initializer = INIT_ONES;
        models_metric(&job, METRIC_MEAN_SQUARED_ERROR);
        struct job_column column = {.kind = COLUMN_WEIGHT};
        job.data.csv.columns = 1;
        job.data.csv.column = &column;
        struct trained both = train(&job, x, y, weight, 2),
                       one = train(&job, x + 2, y + 1, NULL, 1);
        assert_true(both.sums.examples == 2 && both.sums.loss == one.sums.loss);
        assert_memory_equal(both.dw, one.dw, both.elems * sizeof(float));
        assert_true(isfinite(both.sums.metric[0]));
        assert_true(metric_value(&job, 0, both.sums.metric, 2) ==
                    metric_value(&job, 0, one.sums.metric, 1));
        const double none[SUMS_MAX] = {0};
        assert_true(isnan(metric_value(&job, 0, none, 2)));
    }
}

/* ---- from a csv ---- */

enum { FILE_ROWS = 700, LEAVES = 4 };

/* Rows of weight 0 to 3; or each as often, without a weight. A bad row now and then. */
static void put_rows(struct idx_files *files, const char *name, bool weights)
{
    static char text[FILE_ROWS * 3 * 32];
    size_t n = 0;
    for (uint64_t row = 0; row < FILE_ROWS; row++) {
        uint64_t key = rng_key(5, RNG_TEST, row, 0);
        int x = (int)(rng_u64(key, 0) % 100), weight = (int)(rng_u64(key, 1) % 4);
        int y = (int)(rng_u64(key, 2) % 150) < x;
        if (weights && row % 50 == 7)
            n += (size_t)sprintf(text + n, "%d,%d,-1\n", x, y);
        if (weights)
            n += (size_t)sprintf(text + n, "%d,%d,%d\n", x, y, weight);
        for (int i = 0; i < weight && !weights; i++)
            n += (size_t)sprintf(text + n, "%d,%d\n", x, y);
    }
    idx_files_write(files, name, (struct bytes){(uint8_t *)text, n});
}

struct found {
    struct sums eval, train;
    float dw[ELEMS_MAX];
    uint64_t rows;
};

static void nobody_waits(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to)
{
    (void)ctx, (void)n, (void)from, (void)to;
}

/* The evaluation, and the gradient of a batch of all rows, at the first weights. */
static void find(struct found *f, const struct idx_files *files, const char *name, bool weights)
{
    char text[1024];
    struct job job = {0};
    struct dataset data, eval;
    struct model *model;
    struct pool *pool;
    struct dataset_source source;
    struct loader *l;
    struct gradient *g = NULL;
    struct dataset_source eval_source;
    struct evaluator *v = NULL;
    struct errmsg e;
    int n = snprintf(text, sizeof text,
                     "model: {input: {shape: [1]}, layers: [dense: {units: 1, activation: sigmoid}]"
                     ", loss: binary_crossentropy, metrics: [auc, accuracy, precision, recall, "
                     "logloss, mse, normalized_entropy, calibration]}\noptimizer: sgd\n"
                     "data: {format: csv, train: '%s/%s', eval: '%s/%s', bad_rows: skip, "
                     "columns: [number: {name: x, scale: min_max}, label: y%s]}\n",
                     files->dir, name, files->dir, name, weights ? ", weight: w" : "");
    if (job_parse(&job, text, (size_t)n, "j.yaml", "/", NULL, 0, &e) ||
        dataset_load(&data, &job, 0, 2, &e) || dataset_load_eval(&eval, &job, &data, 2, &e) ||
        model_new(&model, &job, &e) || pool_new(&pool, 2, &e) ||
        evaluator_new(&v, &job, model, source_over(&eval_source, &eval, NULL), pool, &e))
        fail_msg("%s", e.text);
    const struct order order = {
        .rows = data.rows, .batch_size = data.rows, .seed = 1, .microbatches = LEAVES};
    const struct session_task task = {.kind = TASK_COMPUTE, .count = {LEAVES}, .runs = 1};
    if (loader_new(&l, source_over(&source, &data, &order), 8, &e) ||
        gradient_new(&g, model, pool, l, NULL, (uint32_t)data.rows / LEAVES + 1, 1, &e))
        fail_msg("%s", e.text);
    float *w = mem_floats(model_layout(model)->elems);
    assert_non_null(w);
    layout_init_values(model_layout(model), 1, 0, model_layout(model)->elems, w);
    assert_int_equal(evaluator_run(v, w, NULL, &f->eval, &e), ERR_OK);
    assert_int_equal(gradient_compute(g, &task, w, NULL, nobody_waits, NULL, &e), ERR_OK);
    f->train = gradient_sums(g);
    f->rows = data.rows;
    uint32_t nodes;
    memcpy(f->dw, gradient_nodes(g, &nodes)->value, model_layout(model)->elems * sizeof *f->dw);
    assert_int_equal(nodes, 1);
    double means[METRICS_MAX];
    for (uint32_t i = 0; i < job.model.metrics; i++)
        means[i] = metric_value(&job, i, f->train.metric, f->train.examples);
    memcpy(f->train.metric, means, sizeof means);
    mem_free(w);
    gradient_free(g);
    loader_free(l);
    evaluator_free(v);
    pool_free(pool);
    model_free(model);
    dataset_close(&eval);
    dataset_close(&data);
    job_close(&job);
}

static void a_row_of_weight_k_is_as_k_rows(void **state)
{
    (void)state;
    struct idx_files files;
    struct found weighted = {.rows = 0}, repeated = weighted;
    idx_files_init(&files);
    put_rows(&files, "weighted.csv", true);
    put_rows(&files, "repeated.csv", false);
    find(&weighted, &files, "weighted.csv", true);
    find(&repeated, &files, "repeated.csv", false);
    assert_int_equal(weighted.rows, FILE_ROWS + FILE_ROWS / 50);
    assert_true(weighted.eval.examples == FILE_ROWS && weighted.train.examples == FILE_ROWS);
    assert_true(repeated.eval.examples > FILE_ROWS);
    double more = repeated.eval.examples / FILE_ROWS; /* the mean stays over the rows */
    assert_true(near(weighted.eval.loss, repeated.eval.loss * more));
    assert_true(near(weighted.train.loss, repeated.train.loss));
    for (int i = 0; i < METRICS_MAX; i++) {
        assert_true(near(weighted.eval.metric[i], repeated.eval.metric[i]));
        assert_true(i == 0 ? isnan(weighted.train.metric[i])
                           : near(weighted.train.metric[i], repeated.train.metric[i]));
    }
    assert_true(weighted.eval.metric[0] == repeated.eval.metric[0]); /* sums of small integers */
    for (int i = 0; i < ELEMS_MAX; i++)
        assert_true(near((double)weighted.dw[i], (double)repeated.dw[i]));
    idx_files_close(&files);
}

int main(void)
{
    openblas_set_num_threads(1);
    log_init("weight_test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradient_are_multiplied_by_the_weight),
        cmocka_unit_test(an_example_of_weight_zero_touches_nothing),
        cmocka_unit_test(a_row_of_weight_k_is_as_k_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
