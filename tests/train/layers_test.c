/* Layers against real Keras 3 (3.15 on jax, floatx float64; the numbers are its outputs), and what
 * finite differences do not see: statistics, evaluation, data that cannot be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "tests/lib/models.h"
#include "model/layers.h"
#include "model/metric.h"
#include "model/model.h"

static void assert_near(const float *got, const double *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fabs((double)got[i] - wanted[i]) > 3e-6 * (1 + fabs(wanted[i])))
            fail_msg("element %zu is %.9g, should be %.9g", i, (double)got[i], wanted[i]);
}

/* ---- activations ---- */

enum { POINTS = 8 };
static const float POINT[POINTS] = {-5, -2, -1, -0.3f, 0.1f, 0.7f, 2, 6};

static void assert_activation(enum activation a, float alpha, const double *wanted)
{
    float y[POINTS];
    const struct op op = {.activation = a, .in = POINTS, .alpha = alpha};
    activation_op.forward(&op, &(struct op_pass){.rows = 1, .x = {POINT}, .y = y});
    assert_near(y, wanted, POINTS);
}

static void activations_are_those_of_keras(void **state)
{
    (void)state;
    static const double leaky_layer[POINTS] = {-1.5, -0.6, -0.3, -0.09, 0.1, 0.7, 2, 6};
    static const double elu[POINTS] = {
        -0.993262053001, -0.864664716763, -0.632120558829, -0.259181779318, 0.1, 0.7, 2, 6};
    static const double gelu[POINTS] = {-1.4332578594e-06, -0.0455002638964, -0.158655253931,
                                        -0.114626573343,   0.0539827837277,  0.530625443444,
                                        1.9544997361,      5.99999999408};
    static const double gelu_tanh[POINTS] = {-2.29179619449e-07, -0.0454023059122, -0.158808009392,
                                             -0.114629076457,    0.0539827510454,  0.530570134705,
                                             1.95459769409,      5.99999999992};
    static const double selu[POINTS] = {-1.74625336067,  -1.5201664686,  -1.11133073781,
                                        -0.455667315379, 0.105070098736, 0.735490691149,
                                        2.10140197471,   6.30420592413};
    static const double silu[POINTS] = {-0.0334642546214, -0.238405844044, -0.26894142137,
                                        -0.127667244957,  0.0524979187479, 0.467731440518,
                                        1.76159415596,    5.98516426106};
    static const double softplus[POINTS] = {0.00671534848912, 0.126928011043, 0.313261687518,
                                            0.554355244469,   0.744396660074, 1.10318604889,
                                            2.12692801104,    6.00247568514};
    assert_activation(ACT_LEAKY_RELU, 0.3f, leaky_layer);
    assert_activation(ACT_ELU, 1.0f, elu);
    assert_activation(ACT_GELU, 0, gelu);
    assert_activation(ACT_GELU_TANH, 0, gelu_tanh);
    assert_activation(ACT_SELU, 1.6732632423543772f, selu);
    assert_activation(ACT_SILU, 0, silu);
    assert_activation(ACT_SOFTPLUS, 0, softplus);
}

/* As an activation leaky_relu's slope is 0.2; Keras's layer LeakyReLU has 0.3 of its own. */
static void leaky_relu_by_name_has_the_slope_of_the_function(void **state)
{
    (void)state;
    struct job job;
    struct model *m = NULL;
    struct errmsg e;
    models_start(&job, 2, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 1, ACT_LEAKY_RELU);
    assert_int_equal(model_new(&m, &job, &e), ERR_OK);
    assert_true(m->op[1].activation == ACT_LEAKY_RELU && m->op[1].alpha == 0.2f);
    model_free(m);
}

static void assert_blas(struct job *job, bool needs)
{
    struct model *m = NULL;
    struct errmsg e;
    assert_int_equal(model_new(&m, job, &e), ERR_OK);
    if (!needs)
        assert_string_equal(model_blas(m), "");
    else
        assert_true(
            strncmp(model_blas(m), openblas_get_corename(), strlen(openblas_get_corename())) == 0 &&
            strstr(model_blas(m), " (OpenBLAS 0."));
    model_free(m);
    models_close(job);
}

static void a_model_needs_openblas_for_dense_layers_and_most_convolutions(void **state)
{
    (void)state;
    for (uint32_t channels = 15; channels <= 16; channels++) {
        struct job job;
        models_start(&job, 6, 6, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
        models_reshape(&job, 6, 6, 1);
        (void)models_conv2d(&job, channels, 3, 3, ACT_RELU);
        (void)models_pooling(&job, LAYER_GLOBAL_AVERAGE_POOLING2D, 0, 0);
        assert_blas(&job, channels % 16 != 0);
    }
    struct job job;
    models_start(&job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 1, ACT_LINEAR);
    assert_blas(&job, true);
}

/* ---- normalization ---- */

enum { ROWS = 4, COLS = 3 };
static const float X[ROWS * COLS] = {1, -2, 0.5f, 3, 0.25f, -1, -0.5f, 4, 2, 2, 1, 7};
static const float GAMMA[COLS] = {1.5f, -0.5f, 2.0f}, BETA[COLS] = {0.1f, 0.2f, -0.3f};

/* A batch normalization alone under a dense layer that makes it a model. */
struct fixture {
    struct job job;
    struct model *m;
    struct model_run *run;
    float *w, *dw, y[ROWS];
};

static void fixture_init(struct fixture *f, enum layer_kind kind)
{
    struct errmsg e;
    memset(f->y, 0, sizeof f->y);
    models_start(&f->job, COLS, 0, LOSS_MEAN_SQUARED_ERROR, false);
    (void)models_normalization(&f->job, kind);
    models_dense(&f->job, 1, ACT_LINEAR);
    assert_int_equal(model_new(&f->m, &f->job, &e), ERR_OK);
    assert_int_equal(model_run_new(&f->run, f->m, ROWS, &e), ERR_OK);
    f->w = mem_floats(model_layout(f->m)->elems);
    f->dw = mem_floats(model_layout(f->m)->elems);
    layout_init_values(model_layout(f->m), 1, 0, model_layout(f->m)->elems, f->w);
    memcpy(f->w + f->m->op[0].normalization.gamma_offset, GAMMA, sizeof GAMMA);
    memcpy(f->w + f->m->op[0].normalization.beta_offset, BETA, sizeof BETA);
}

static void fixture_close(struct fixture *f)
{
    model_run_free(f->run);
    model_free(f->m);
    mem_free(f->w);
    mem_free(f->dw);
}

static void batch_normalization_is_that_of_keras(void **state)
{
    (void)state;
    static const double trained[] = {-0.334901332855, 0.855206906796,  -1.38046348095,
                                     1.98457252979,   0.331041365862,  -2.37781429291,
                                     -2.07450675964,  -0.542567849159, -0.383112668991,
                                     0.824835658073,  0.156319528818,  2.94138979912};
    static const double moving_mean[] = {0.01375, 0.008125, 0.02125};
    static const double moving_variance[] = {1.00671875, 1.0360546875, 1.08046875};
    static const double evaluated[] = {1.57369828224,   1.1859613657,    0.620728909969,
                                       4.56218624115,   0.0812427550554, -2.26406145096,
                                       -0.667667925358, -1.75995492935,  3.50551939011,
                                       3.06794238091,   -0.286996781826, 13.1214866638};
    struct fixture f;
    fixture_init(&f, LAYER_BATCH_NORMALIZATION);
    const struct op *op = &f.m->op[0];
    float y[ROWS * COLS], statistics[2 * COLS];
    void *room = mem_floats(op->type->state_bytes(op, ROWS) / sizeof(float));
    struct op_pass pass = {.rows = ROWS, .train = true, .w = f.w, .x = {X}, .y = y, .state = room};
    op->type->forward(op, &pass);
    assert_near(y, trained, ROWS * COLS);

    /* The shard's update by the push: r = m r + (1 - m) s / n. */
    struct sums sums = {0};
    model_train(f.run, f.w, &(struct leaf){.n = ROWS, .x = X, .y = f.y}, 0, f.dw, &sums, NULL,
                NULL);
    for (int c = 0; c < COLS; c++) {
        float *r[2] = {f.w + op->normalization.mean_offset + c,
                       f.w + op->normalization.variance_offset + c};
        const float s[2] = {f.dw[op->normalization.mean_offset + (uint64_t)c],
                            f.dw[op->normalization.variance_offset + (uint64_t)c]};
        for (int i = 0; i < 2; i++)
            statistics[i * COLS + c] = *r[i] = 0.99f * *r[i] + 0.01f * (s[i] / ROWS);
    }
    assert_near(statistics, moving_mean, COLS);
    assert_near(statistics + COLS, moving_variance, COLS);
    pass.train = false;
    op->type->forward(op, &pass);
    assert_near(y, evaluated, ROWS * COLS);
    mem_free(room);
    fixture_close(&f);
}

static void moving_statistics_are_tensors_of_their_own_role(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, LAYER_BATCH_NORMALIZATION);
    const struct layout *l = model_layout(f.m);
    static const char *const names[] = {"normalization_0/gamma", "normalization_0/beta",
                                        "normalization_0/moving_mean",
                                        "normalization_0/moving_variance", "dense_1/kernel"};
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(l->tensor[i].name, names[i]);
        assert_int_equal(l->tensor[i].role, i == 2 || i == 3 ? TENSOR_STATISTIC : TENSOR_WEIGHT);
    }
    assert_true(l->tensor[2].momentum == 0.99f && f.w[l->tensor[3].offset_elems] == 1.0f);

    /* No examples: nothing to average. */
    struct sums sums = {0};
    model_train(f.run, f.w, &(struct leaf){.n = ROWS, .x = X, .y = f.y}, 0, f.dw, &sums, NULL,
                NULL);
    model_train(f.run, f.w, &(struct leaf){.n = 0, .x = X, .y = f.y}, 0, f.dw, &sums, NULL, NULL);
    for (uint64_t i = 0; i < l->elems; i++)
        assert_true(f.dw[i] == 0.0f);
    fixture_close(&f);
}

static void layer_normalization_is_that_of_keras(void **state)
{
    (void)state;
    static const double wanted[] = {1.43311429024,   0.898297965527,  0.715706110001,
                                    2.11959457397,   0.349599629641,  -2.39439463615,
                                    -1.80097019672,  -0.388395488262, -0.118955373764,
                                    -0.661945462227, 0.644468188286,  2.49379992485};
    struct fixture f;
    fixture_init(&f, LAYER_LAYER_NORMALIZATION);
    float y[ROWS * COLS], room[2 * ROWS];
    struct op_pass pass = {.rows = ROWS, .w = f.w, .x = {X}, .y = y, .state = room};
    f.m->op[0].type->forward(&f.m->op[0], &pass);
    assert_near(y, wanted, ROWS * COLS);
    memcpy(y, X, sizeof y); /* and in place */
    pass.x[0] = y;
    f.m->op[0].type->forward(&f.m->op[0], &pass);
    assert_near(y, wanted, ROWS * COLS);
    fixture_close(&f);
}

/* ---- embedding ---- */

static void an_id_that_is_not_in_the_table_is_an_error_of_the_data(void **state)
{
    (void)state;
    static const float bad[] = {5, -1, 4.0e9f, NAN, -INFINITY, 1.5f, 1e-30f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct job job;
        struct model *m = NULL;
        struct model_run *run = NULL;
        struct errmsg e;
        models_start(&job, 2, 0, LOSS_MEAN_SQUARED_ERROR, false);
        models_embedding(&job, 5, 3);
        models_flatten(&job);
        models_dense(&job, 1, ACT_LINEAR);
        assert_int_equal(model_new(&m, &job, &e), ERR_OK);
        assert_int_equal(model_run_new(&run, m, 2, &e), ERR_OK);
        float *w = mem_floats(model_layout(m)->elems), *dw = mem_floats(model_layout(m)->elems);
        const float x[] = {0, 4, 3, bad[i]}, y[] = {0, 1};
        struct sums sums = {0};
        model_train(run, w, &(struct leaf){.n = 1, .x = x, .y = y}, 0, dw, &sums, NULL, NULL);
        assert_int_equal(model_run_fault(run, &e), ERR_OK);
        model_train(run, w, &(struct leaf){.n = 2, .x = x, .y = y}, 0, dw, &sums, NULL, NULL);
        assert_int_equal(model_run_fault(run, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "embedding_0"));
        assert_non_null(strstr(e.text, i < 5 ? "rows 0 to 4" : "which is not a whole number"));
        mem_free(w);
        mem_free(dw);
        model_run_free(run);
        model_free(m);
    }
}

static void an_embedding_reads_the_data_and_nothing_else(void **state)
{
    (void)state;
    struct job job;
    struct model *m = NULL;
    struct errmsg e;
    models_start(&job, 2, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 2, ACT_LINEAR);
    models_embedding(&job, 5, 3);
    models_flatten(&job);
    models_dense(&job, 1, ACT_LINEAR);
    assert_int_equal(model_new(&m, &job, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "embedding_1"));
}

/* ---- metrics, class weights, regularizers ---- */

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

static double auc_of(struct scored *rows, size_t n)
{
    _Alignas(max_align_t) char auc[METRIC_RANKED_BYTES] = {0};
    qsort(rows, n, sizeof *rows, by_score);
    for (size_t i = 0; i < n; i++)
        metric_auc.add_scored(auc, &rows[i]);
    return metric_auc.value_of_scored(auc);
}

/* A dense layer of one weight, 1, and no bias: its outputs are the inputs. */
static void metrics_are_those_of_keras(void **state)
{
    (void)state;
    enum { N = 7 };
    static const float y[N] = {0, 1, 1, 0, 1, 0, 1};
    static const double p[N] = {0.1, 0.4, 0.8, 0.6, 0.5, 0.2, 0.9};
    enum { KINDS = 7 };
    static const enum metric_kind kinds[KINDS] = {METRIC_PRECISION,  METRIC_AUC,
                                                  METRIC_RECALL,     METRIC_NORMALIZED_ENTROPY,
                                                  METRIC_LOGLOSS,    METRIC_MEAN_SQUARED_ERROR,
                                                  METRIC_CALIBRATION};
    const double rate = 4.0 / N, entropy = -(rate * log(rate) + (1 - rate) * log(1 - rate));
    const double wanted[KINDS] = {
        2.0 / 3, NAN, 0.5, 0.45467671751976013 / entropy, 0.45467671751976013, 0.15285713970661163,
        3.5 / 4};
    struct job job;
    struct model *m = NULL;
    struct model_run *run = NULL;
    struct errmsg e;
    float x[N], one = 1;
    for (int i = 0; i < N; i++)
        x[i] = (float)log(p[i] / (1 - p[i]));
    models_start(&job, 1, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_dense(&job, 1, ACT_SIGMOID);
    job.model.layer[0].use_bias = false;
    for (int i = 0; i < KINDS; i++)
        models_metric(&job, kinds[i]);
    assert_int_equal(metric_sums(&job), KINDS + 4);
    assert_int_equal(model_new(&m, &job, &e), ERR_OK);
    assert_int_equal(model_run_new(&run, m, N, &e), ERR_OK);
    struct sums sums = {0};
    model_eval(run, &one, &(struct leaf){.n = 3, .x = x, .y = y}, &sums);
    model_eval(run, &one, &(struct leaf){.n = N - 3, .x = x + 3, .y = y + 3}, &sums);
    for (uint32_t i = 0; i < KINDS; i++) {
        double got = metric_value(&job, i, sums.metric, sums.examples);
        assert_true(isnan(wanted[i]) ? isnan(got) : fabs(got - wanted[i]) < 1e-6);
    }
    struct scored rows[N]; /* Keras's by 2,000 thresholds is 0.83333 */
    for (int i = 0; i < N; i++)
        rows[i] = (struct scored){x[i], 1, y[i] > 0.5f};
    assert_true(fabs(auc_of(rows, N) - 10.0 / 12) < 1e-12);
    model_run_free(run);
    model_free(m);
}

static void auc_counts_ties_as_half(void **state)
{
    (void)state;
    struct scored tied[] = {
        {1, 1, true}, {1, 1, false}, {1, 1, false}, {2, 1, true}, {0, 1, false}};
    assert_true(auc_of(tied, 5) == 5.0 / 6); /* pairs: 2 x 1/2 + 4 of 6 */
    struct scored zeros[] = {{0.0f, 1, true}, {-0.0f, 1, false}};
    assert_true(auc_of(zeros, 2) == 0.5);
    struct scored all[] = {{1, 1, true}, {1, 1, true}};
    assert_true(isnan(auc_of(all, 2)) && isnan(auc_of(all, 0)));
    struct scored ends[] = {
        {INFINITY, 1, true}, {-INFINITY, 1, false}, {0, 1, false}, {INFINITY, 1, false}};
    assert_true(auc_of(ends, 4) == 2.5 / 3);
}

static void metrics_of_nothing_are_what_keras_makes_them(void **state)
{
    (void)state;
    struct job job;
    const double none[SUMS_MAX] = {0};
    models_start(&job, 1, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_metric(&job, METRIC_RECALL);
    models_metric(&job, METRIC_LOGLOSS);
    assert_true(metric_value(&job, 0, none, 3) == 0.0);
    assert_true(isnan(metric_value(&job, 1, none, 0)));
    models_metric(&job, METRIC_AUC);
    job.metrics.progressive = true;
    assert_true(isnan(metric_value(&job, 2, none, 0)) && metric_value(&job, 2, none, 3) == 0.0);
}

static void labels_of_one_class_have_no_normalized_entropy(void **state)
{
    (void)state;
    struct job job;
    /* logloss and sum of probabilities; then positive labels for each */
    const double none[SUMS_MAX] = {2.5, 3.0, 0.0, 0.0}, all[SUMS_MAX] = {2.5, 3.0, 4.0, 4.0};
    models_start(&job, 1, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_metric(&job, METRIC_NORMALIZED_ENTROPY);
    models_metric(&job, METRIC_CALIBRATION);
    assert_true(isnan(metric_value(&job, 0, none, 4)) && isnan(metric_value(&job, 0, all, 4)));
    assert_true(isnan(metric_value(&job, 1, none, 4)) && metric_value(&job, 1, all, 4) == 0.75);
    assert_true(isnan(metric_value(&job, 0, all, 0)) && isnan(metric_value(&job, 1, all, 0)));
}

static void a_model_that_predicts_the_rate_has_a_normalized_entropy_of_one(void **state)
{
    (void)state;
    struct job job;
    struct model *m = NULL;
    struct model_run *run = NULL;
    struct errmsg e;
    const float w[32] = {[16] = logf(0.25f / 0.75f)}, x[4] = {0}, y[4] = {0, 1, 0, 0};
    models_start(&job, 1, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_dense(&job, 1, ACT_LINEAR);
    models_metric(&job, METRIC_NORMALIZED_ENTROPY);
    models_metric(&job, METRIC_CALIBRATION);
    assert_int_equal(model_new(&m, &job, &e), ERR_OK);
    assert_int_equal(model_run_new(&run, m, 4, &e), ERR_OK);
    struct sums sums = {0};
    model_eval(run, w, &(struct leaf){.n = 4, .x = x, .y = y}, &sums);
    assert_true(fabs(metric_value(&job, 0, sums.metric, 4) - 1.0) < 1e-6);
    assert_true(fabs(metric_value(&job, 1, sums.metric, 4) - 1.0) < 1e-6);
    model_run_free(run);
    model_free(m);
}

/* keras: fit of one batch with SGD(1.0), L2(0.01) on the kernel, class_weight {0: 1, 1: 5}. */
static void a_step_with_class_weights_and_l2_is_that_of_keras(void **state)
{
    (void)state;
    static const float y[ROWS] = {0, 1, 1, 0}, w[32] = {0.5f, -0.25f, 0.1f, [16] = 0.2f};
    static const double after[] = {0.101746277243, 3.49204381633, 0.0630722913655, 0.892784944125};
    struct job job;
    struct model *m = NULL;
    struct model_run *run = NULL;
    struct errmsg e;
    float dw[32] = {0}, got[4];
    models_start(&job, COLS, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_dense(&job, 1, ACT_SIGMOID);
    job.model.layer[0].kernel.l2 = 0.01f;
    job.model.head[0].class_weights = 1;
    job.model.head[0].class_weight[0] = (struct class_weight){1, 5};
    assert_int_equal(model_new(&m, &job, &e), ERR_OK);
    assert_int_equal(model_run_new(&run, m, ROWS, &e), ERR_OK);
    struct sums sums = {0};
    model_train(run, w, &(struct leaf){.n = ROWS, .x = X, .y = y}, 0, dw, &sums, NULL, NULL);
    assert_true(fabs(sums.loss / ROWS - 2.5858025898993016) < 1e-6);
    for (int i = 0; i < 4; i++)
        got[i] = w[i < 3 ? i : 16] - dw[i < 3 ? i : 16] / ROWS;
    assert_near(got, after, 4);

    /* Evaluation has no class weights, and the penalty once. */
    struct sums plain = {0};
    model_eval(run, w, &(struct leaf){.n = ROWS, .x = X, .y = y}, &plain);
    assert_true(plain.loss < sums.loss);
    double penalty = 0.01 * (0.25 + 0.0625 + 0.01);
    assert_true(fabs(model_penalty(m, w) - penalty) < 1e-8);
    model_run_free(run);
    model_free(m);
}

static void class_weights_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct job job;
    struct model *m = NULL;
    struct errmsg e;
    models_start(&job, 2, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_dense(&job, 1, ACT_LINEAR);
    job.model.head[0].class_weights = 1;
    job.model.head[0].class_weight[0] = (struct class_weight){2, 5};
    assert_int_equal(model_new(&m, &job, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "there is no class 2: the model has 2, 0 to 1"));
    job.model.head[0].loss = LOSS_MEAN_SQUARED_ERROR;
    assert_int_equal(model_new(&m, &job, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "mean_squared_error has no classes"));
    job.model.head[0].class_weights = 0;
    models_metric(&job, METRIC_AUC);
    assert_int_equal(model_new(&m, &job, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "auc does not fit mean_squared_error"));
}

/* ---- graphs ---- */

static void shapes_that_do_not_fit_are_both_named(void **state)
{
    (void)state;
    struct job job;
    struct model *m = NULL;
    struct errmsg e;
    models_start(&job, 3, 4, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 5, ACT_LINEAR);
    models_merge(&job, LAYER_ADD, 0, 1);
    assert_int_equal(model_new(&m, &job, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "add_1"));
    assert_non_null(strstr(e.text, "(3, 4)"));
    assert_non_null(strstr(e.text, "(3, 5)"));
    job.model.layer[1].kind = LAYER_CONCATENATE;
    models_flatten(&job);
    models_merge(&job, LAYER_CONCATENATE, 3, 2);
    assert_int_equal(model_new(&m, &job, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "(27)"));
    assert_non_null(strstr(e.text, "(3, 9)"));
}

/* Each of the blocks needs its values again in backward, but not room for gradients of its own. */
static void a_deeper_model_takes_no_more_room_for_gradients(void **state)
{
    (void)state;
    uint32_t slots[2];
    for (uint32_t deep = 0; deep < 2; deep++) {
        struct job job;
        struct model *m = NULL;
        struct errmsg e;
        models_start(&job, 8, 0, LOSS_MEAN_SQUARED_ERROR, false);
        models_dense(&job, 8, ACT_RELU);
        for (uint32_t i = 0; i < (deep ? 20 : 10); i++) {
            uint32_t trunk = job.model.layers;
            models_dense(&job, 8, ACT_LINEAR);
            models_merge(&job, LAYER_ADD, trunk, trunk + 1);
            models_activation(&job, ACT_RELU); /* in place: one value kept for each block */
        }
        models_dense(&job, 1, ACT_LINEAR);
        assert_int_equal(model_new(&m, &job, &e), ERR_OK);
        slots[deep] = m->slots;
        model_free(m);
    }
    assert_int_equal(slots[1] - slots[0], 10);
    assert_true(slots[0] <= 10 + 5);
}

int main(void)
{
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_those_of_keras),
        cmocka_unit_test(leaky_relu_by_name_has_the_slope_of_the_function),
        cmocka_unit_test(a_model_needs_openblas_for_dense_layers_and_most_convolutions),
        cmocka_unit_test(batch_normalization_is_that_of_keras),
        cmocka_unit_test(moving_statistics_are_tensors_of_their_own_role),
        cmocka_unit_test(layer_normalization_is_that_of_keras),
        cmocka_unit_test(an_id_that_is_not_in_the_table_is_an_error_of_the_data),
        cmocka_unit_test(an_embedding_reads_the_data_and_nothing_else),
        cmocka_unit_test(metrics_are_those_of_keras),
        cmocka_unit_test(auc_counts_ties_as_half),
        cmocka_unit_test(metrics_of_nothing_are_what_keras_makes_them),
        cmocka_unit_test(labels_of_one_class_have_no_normalized_entropy),
        cmocka_unit_test(a_model_that_predicts_the_rate_has_a_normalized_entropy_of_one),
        cmocka_unit_test(a_step_with_class_weights_and_l2_is_that_of_keras),
        cmocka_unit_test(class_weights_that_cannot_be_are_refused),
        cmocka_unit_test(shapes_that_do_not_fit_are_both_named),
        cmocka_unit_test(a_deeper_model_takes_no_more_room_for_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
