#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/math/optimizer.h"
#include "common/base/rng.h"
#include "tests/lib/models.h"
#include "tests/lib/trial.h"
#include "model/model.h"

enum { ROWS = 24 };

/* ---- refusals ---- */

static void a_loss_and_a_last_activation_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct job job;
    models_start(&job, 4, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false);
    models_dense(&job, 3, ACT_LINEAR);
    trial_assert_refused(&job, "dense_0",
                         "from_logits: true with a linear last layer, or a last softmax");
    job.model.layer[0].dense.activation = ACT_SIGMOID;
    trial_assert_refused(&job, "sigmoid", "or a last softmax");
    job.model.layer[0].dense.activation = ACT_SOFTMAX;
    job.model.head[0].from_logits = true;
    trial_assert_refused(&job, "dense_0 has softmax", "from_logits or the activation");
    job.model.layer[0].dense.activation = ACT_RELU;
    trial_assert_refused(&job, "dense_0 has relu", "remove the activation");
    job.model.layer[0].dense.activation = ACT_SOFTMAX;
    job.model.head[0].from_logits = false;
    models_dropout(&job, 0.5f);
    trial_assert_refused(&job, "dropout_1", "or a last softmax");

    models_start(&job, 4, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_dense(&job, 1, ACT_TANH);
    trial_assert_refused(&job, "tanh", "or a last sigmoid");
    models_start(&job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 1, ACT_SOFTMAX);
    trial_assert_refused(&job, "softmax", "linear, relu, sigmoid or tanh");
}

static void outputs_that_do_not_fit_the_loss_are_refused(void **state)
{
    (void)state;
    struct job job;
    models_start(&job, 4, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_dense(&job, 3, ACT_LINEAR);
    trial_assert_refused(&job, "3 outputs", "units: 1, or sparse_categorical_crossentropy");
    job.model.head[0].loss = LOSS_MEAN_ABSOLUTE_ERROR;
    trial_assert_refused(&job, "mean_absolute_error", "units: 1");
    models_start(&job, 4, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_dense(&job, 1, ACT_LINEAR);
    trial_assert_refused(&job, "1 output", "binary_crossentropy");
    models_start(&job, 4, 5, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_dense(&job, 10, ACT_LINEAR);
    trial_assert_refused(&job, "dense_0 gives 2 dimensions", "flatten");
}

static void a_model_without_a_layer_to_train_is_refused(void **state)
{
    (void)state;
    struct job job;
    models_start(&job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 3, ACT_RELU);
    models_dense(&job, 1, ACT_LINEAR);
    job.model.layer[0].trainable = job.model.layer[1].trainable = false;
    trial_assert_refused(&job, "every layer with weights has trainable: false", "remove it");
}

static void metrics_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct job job;
    models_start(&job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 1, ACT_LINEAR);
    models_metric(&job, METRIC_ACCURACY);
    trial_assert_refused(&job, "accuracy does not fit mean_squared_error", "mean_absolute_error");
    models_start(&job, 4, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_dense(&job, 3, ACT_LINEAR);
    models_metric(&job, METRIC_MEAN_ABSOLUTE_ERROR);
    trial_assert_refused(&job, "mean_absolute_error does not fit 3 outputs", "accuracy");
}

static void models_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct job job;
    models_start(&job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_flatten(&job);
    trial_assert_refused(&job, "nothing to train", "dense");
    models_start(&job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 2, ACT_LINEAR);
    models_dense(&job, 1, ACT_LINEAR);
    memcpy(job.model.layer[1].name, "dense_0", 8);
    trial_assert_refused(&job, "two layers", "dense_0");
    job.model.layer[0].dense.units = 0;
    trial_assert_refused(&job, "dense_0", "units");
    models_start(&job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dropout(&job, 1.0f);
    trial_assert_refused(&job, "dropout_0", "[0, 1)");
    models_start(&job, 1u << 20, 1u << 20, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&job, 1, ACT_LINEAR);
    trial_assert_refused(&job, "model.input.shape", "too large");
}

static void refused_at(const char *set, const char *where)
{
    static const char text[] = "model:\n"
                               "  input: {shape: [4]}\n"
                               "  layers:\n"
                               "    - reshape: {target_shape: [4], name: first}\n"
                               "    - dense: {units: 2, name: last}\n"
                               "  loss:\n"
                               "    sparse_categorical_crossentropy: {from_logits: true}\n"
                               "  metrics: [accuracy]\n"
                               "data: {format: synthetic}\n"
                               "optimizer: sgd\n"
                               "training: {class_weight: {1: 2.0}}\n";
    struct errmsg e = {""};
    struct job job;
    struct model *m = NULL;
    if (job_parse(&job, text, strlen(text), "a.yaml", "/", &set, set != NULL, &e))
        fail_msg("%s", e.text);
    enum err err = model_new(&m, &job, &e);
    assert_int_equal(err, where ? ERR_INPUT : ERR_OK);
    if (where && strncmp(e.text, where, strlen(where)) != 0)
        fail_msg("%s, not %s", e.text, where);
    model_free(m);
    job_close(&job);
}

static void what_a_model_refuses_is_told_with_its_line(void **state)
{
    (void)state;
    refused_at(NULL, NULL);
    refused_at("model.input.shape=[5]", "a.yaml:4: model.layers: first");
    refused_at("model.layers[1]={max_pooling2d: 2}", "--set model.layers: ");
    refused_at("model.layers[1].dense.activation=relu", "a.yaml:6: model.loss: ");
    refused_at("model.loss=mean_squared_error", "--set model.loss: ");
    refused_at("model.metrics=[auc]", "--set model.metrics: auc does not fit");
    refused_at("model.layers[1].dense.units=1", "a.yaml:6: model.loss: ");
    refused_at("training.class_weight={2: 2.0}",
               "--set training.class_weight: there is no class 2");
}

/* ---- one model, its data and its gradient ---- */

static void mlp(struct trial *f)
{
    models_start(&f->job, 5, 7, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_flatten(&f->job);
    models_dense(&f->job, 37, ACT_RELU);
    models_dropout(&f->job, 0.2f);
    models_dense(&f->job, 10, ACT_LINEAR);
    models_metric(&f->job, METRIC_ACCURACY);
    trial_init(f, NULL, ROWS, 1);
}

static struct sums train(struct trial *f, uint64_t key)
{
    return trial_train_rows(f, 0, ROWS, key);
}

static struct sums eval(struct trial *f)
{
    struct sums sums = {0};
    model_eval(f->run, f->w, &(struct leaf){.n = ROWS, .x = f->x, .y = f->y}, &sums);
    return sums;
}

static void step(struct trial *f, float *m, float *v, uint64_t t)
{
    const struct optimizer adam = {.kind = OPT_ADAM,
                                   .learning_rate = 0.01f,
                                   .beta_1 = 0.9f,
                                   .beta_2 = 0.999f,
                                   .epsilon = 1e-7f};
    float *slots[OPTIMIZER_SLOTS_MAX] = {m, v};
    optimizer_apply(&adam, t, (struct optimizer_factors){1.0f / ROWS, 1, 1}, f->w, f->w, slots,
                    f->dw, f->elems);
}

/* ---- what a model is ---- */

static void tensors_are_named_shaped_and_placed_as_documented(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    const struct layout *l = model_layout(f.m);
    static const char *const names[] = {"dense_1/kernel", "dense_1/bias", "dense_3/kernel",
                                        "dense_3/bias"};
    assert_int_equal(l->tensors, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(l->tensor[i].name, names[i]);
        assert_int_equal(l->tensor[i].offset_elems % 16, 0);
    }
    assert_true(l->tensor[0].shape[0] == 35 && l->tensor[0].shape[1] == 37);
    assert_true(fabsf(l->tensor[0].init_value - sqrtf(6.0f / (35 + 37))) < 1e-7f);
    assert_true(l->tensor[3].rank == 1 && l->tensor[3].shape[0] == 10);
    assert_int_equal(model_features(f.m), 35);
    assert_int_equal(model_classes(f.m), 10);
    trial_close(&f);
}

static void labels_are_classes_or_values_by_the_loss(void **state)
{
    (void)state;
    struct trial f;
    models_start(&f.job, 4, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_dense(&f.job, 1, ACT_LINEAR);
    trial_init(&f, NULL, ROWS, 1);
    assert_int_equal(model_classes(f.m), 2);
    trial_close(&f);
    models_start(&f.job, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&f.job, 1, ACT_LINEAR);
    trial_init(&f, NULL, ROWS, 1);
    assert_int_equal(model_classes(f.m), 0);
    trial_close(&f);
}

/* ---- ready ---- */

struct told {
    struct trial *f;
    uint32_t calls;
    uint64_t next_end; /* ranges come from the block's end downwards */
    float *seen;
};

static void on_ready(void *ctx, uint64_t first, uint64_t n)
{
    struct told *t = ctx;
    t->calls++;
    assert_int_equal(first + n, t->next_end);
    t->next_end = first;
    memcpy(t->seen + first, t->f->dw + first, n * sizeof(float));
}

static void ready_tells_final_ranges_last_layer_first(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    struct told t = {.f = &f, .next_end = f.elems, .seen = mem_floats(f.elems)};
    struct sums sums = {0};
    model_train(f.run, f.w, &(struct leaf){.n = ROWS, .x = f.x, .y = f.y}, 3, f.dw, &sums, on_ready,
                &t);
    assert_int_equal(t.calls, 2);
    assert_int_equal(t.next_end, 0);
    assert_memory_equal(t.seen, f.dw, f.elems * sizeof(float));

    t.next_end = f.elems;
    model_train(f.run, f.w, &(struct leaf){.n = 0, .x = f.x, .y = f.y}, 3, f.dw, &sums, on_ready,
                &t);
    assert_int_equal(t.next_end, 0);
    mem_free(t.seen);
    trial_close(&f);
}

static void gaps_between_tensors_are_left_alone(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    (void)train(&f, 1);
    const struct layout *l = model_layout(f.m);
    for (uint32_t i = 0; i < l->tensors; i++)
        for (uint64_t k = l->tensor[i].offset_elems + l->tensor[i].elems; k < layout_end(l, i); k++)
            assert_true(f.dw[k] == 0.0f);
    trial_close(&f);
}

/* ---- randomness ---- */

static void a_gradient_is_a_function_of_its_key(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    (void)train(&f, 5);
    float *first = mem_floats(f.elems);
    memcpy(first, f.dw, f.elems * sizeof *first);
    (void)train(&f, 6);
    assert_memory_not_equal(first, f.dw, f.elems * sizeof *first);
    (void)train(&f, 5);
    assert_memory_equal(first, f.dw, f.elems * sizeof *first);
    mem_free(first);
    trial_close(&f);
}

static void two_dropouts_of_a_model_drop_different_elements(void **state)
{
    (void)state;
    struct trial f; /* w = 1: the output is the sum of what both kept, times 4 */
    models_start(&f.job, 64, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dropout(&f.job, 0.5f);
    models_dropout(&f.job, 0.5f);
    models_dense(&f.job, 1, ACT_LINEAR);
    trial_init(&f, NULL, ROWS, 1);
    for (int i = 0; i < ROWS * 64; i++)
        f.x[i] = 1.0f;
    for (uint64_t i = 0; i < 64; i++)
        f.w[i] = 1.0f;
    memset(f.y, 0, ROWS * sizeof(float));
    /* dw = 2 (sum) x, summed over rows: by how many elements live through both, 1/4 of them, or 1/2
     * if equal */
    (void)train(&f, 9);
    double lives = 0;
    for (int key = 0; key < 20; key++) {
        struct sums s = train(&f, rng_u64(9, (uint64_t)key));
        lives += sqrt(s.loss / ROWS) / 4.0 / 64.0;
    }
    assert_true(fabs(lives / 20 - 0.25) < 0.05);
    trial_close(&f);
}

static void evaluation_does_not_drop(void **state)
{
    (void)state;
    struct trial with, without;
    mlp(&with);
    mlp(&without);
    trial_close(&without);
    without.job.model.layer[2].dropout.rate = 0.0f;
    trial_init(&without, NULL, ROWS, 1);
    struct sums a = eval(&with), b = eval(&without), c = train(&without, 1);
    assert_true(a.loss == b.loss && a.metric[0] == b.metric[0] && b.loss == c.loss);
    assert_true(a.loss != train(&with, 1).loss);
    trial_close(&with);
    trial_close(&without);
}

/* ---- fused = unfused ---- */

static void assert_fused_is_from_logits(enum loss_kind loss, uint32_t units, enum activation last,
                                        int as_layer)
{
    struct trial fused, logits;
    models_start(&fused.job, 9, 0, loss, false);
    models_dense(&fused.job, 8, ACT_TANH);
    models_dense(&fused.job, units, as_layer ? ACT_LINEAR : last);
    if (as_layer)
        models_activation(&fused.job, last);
    models_start(&logits.job, 9, 0, loss, true);
    models_dense(&logits.job, 8, ACT_TANH);
    models_dense(&logits.job, units, ACT_LINEAR);
    models_metric(&fused.job, METRIC_ACCURACY);
    models_metric(&logits.job, METRIC_ACCURACY);
    trial_init(&fused, NULL, ROWS, 1);
    trial_init(&logits, NULL, ROWS, 1);
    struct sums a = train(&fused, 1), b = train(&logits, 1);
    assert_memory_equal(fused.dw, logits.dw, fused.elems * sizeof(float));
    assert_memory_equal(&a, &b, sizeof a);
    trial_close(&fused);
    trial_close(&logits);
}

static void a_fused_activation_is_from_logits_to_the_bit(void **state)
{
    (void)state;
    for (int as_layer = 0; as_layer < 2; as_layer++) {
        assert_fused_is_from_logits(LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, 5, ACT_SOFTMAX, as_layer);
        assert_fused_is_from_logits(LOSS_BINARY_CROSSENTROPY, 1, ACT_SIGMOID, as_layer);
    }
}

/* ---- losses and metrics by hand: one weight of 1, so that outputs are inputs ---- */

static struct sums by_hand(enum loss_kind loss, bool from_logits, enum activation last,
                           enum metric_kind metric, const float *x, const float *y)
{
    struct trial f;
    models_start(&f.job, 1, 0, loss, from_logits);
    models_dense(&f.job, 1, last);
    models_metric(&f.job, metric);
    trial_init(&f, NULL, ROWS, 1);
    memset(f.w, 0, f.elems * sizeof *f.w);
    f.w[0] = 1.0f;
    struct sums sums = {0};
    model_eval(f.run, f.w, &(struct leaf){.n = 4, .x = x, .y = y}, &sums);
    trial_close(&f);
    return sums;
}

static void losses_and_metrics_are_sums_of_kerass_formulas(void **state)
{
    (void)state;
    const float x[] = {2.0f, -1.0f, 0.25f, -0.25f}, y[] = {1.0f, 0.0f, 0.0f, 1.0f};
    struct sums s =
        by_hand(LOSS_MEAN_SQUARED_ERROR, false, ACT_LINEAR, METRIC_MEAN_ABSOLUTE_ERROR, x, y);
    assert_true(s.examples == 4 && s.loss == 1 + 1 + 0.0625 + 1.5625 && s.metric[0] == 3.5);
    s = by_hand(LOSS_MEAN_ABSOLUTE_ERROR, false, ACT_RELU, METRIC_MEAN_ABSOLUTE_ERROR, x, y);
    assert_true(s.loss == 1 + 0 + 0.25 + 1 && s.metric[0] == s.loss);
    double bce = log1p(exp(-2)) + log1p(exp(-1)) + 2 * log1p(exp(0.25));
    s = by_hand(LOSS_BINARY_CROSSENTROPY, true, ACT_LINEAR, METRIC_ACCURACY, x, y);
    assert_true(fabs(s.loss - bce) < 1e-6 && s.metric[0] == 2);
    s = by_hand(LOSS_BINARY_CROSSENTROPY, false, ACT_SIGMOID, METRIC_MEAN_ABSOLUTE_ERROR, x, y);
    double p = 1 / (1 + exp(-2)), q = 1 / (1 + exp(1)), r = 1 / (1 + exp(-0.25));
    assert_true(fabs(s.loss - bce) < 1e-6);
    assert_true(fabs(s.metric[0] - ((1 - p) + q + r + r)) < 1e-6);
}

/* Where exp would overflow, or 1 + e lose e. */
static void cross_entropies_hold_for_extreme_logits(void **state)
{
    (void)state;
    const float x[] = {500.0f, -500.0f, 30.0f, -30.0f};
    const float right[] = {1.0f, 0.0f, 1.0f, 0.0f}, wrong[] = {0.0f, 1.0f, 0.0f, 1.0f};
    struct sums s = by_hand(LOSS_BINARY_CROSSENTROPY, true, ACT_LINEAR, METRIC_ACCURACY, x, right);
    assert_true(s.metric[0] == 4 && fabs(s.loss / (2 * exp(-30)) - 1) < 1e-6);
    s = by_hand(LOSS_BINARY_CROSSENTROPY, true, ACT_LINEAR, METRIC_ACCURACY, x, wrong);
    assert_true(s.metric[0] == 0 && fabs(s.loss - 1060) < 1e-3);

    struct trial f;
    models_start(&f.job, 1, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_dense(&f.job, 2, ACT_LINEAR);
    trial_init(&f, NULL, ROWS, 1);
    memset(f.w, 0, f.elems * sizeof *f.w);
    f.w[0] = 1.0f, f.w[1] = -1.0f;
    struct sums sums = {0};
    model_train(f.run, f.w, &(struct leaf){.n = 4, .x = x, .y = right}, 0, f.dw, &sums, NULL, NULL);
    assert_true(fabs(sums.loss - (1000 + 1000 + 60 + 60)) < 1e-3);
    for (uint64_t i = 0; i < f.elems; i++)
        assert_true(isfinite(f.dw[i]));
    trial_close(&f);
}

static void a_nan_in_the_input_reaches_loss_and_gradient(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    f.x[3] = NAN;
    struct sums s = train(&f, 1);
    assert_true(isnan(s.loss));
    int found = 0;
    for (uint64_t i = 0; i < f.elems; i++)
        found += isnan(f.dw[i]) != 0;
    assert_true(found > 0);
    trial_close(&f);
}

/* ---- training ---- */

static void assert_learns(struct trial *f, double share)
{
    float *m = mem_floats(f->elems), *v = mem_floats(f->elems);
    double before = eval(f).loss;
    for (uint64_t t = 1; t <= 300; t++) {
        (void)train(f, t);
        step(f, m, v, t);
    }
    double after = eval(f).loss;
    if (!(after < share * before))
        fail_msg("the loss was %g and is %g", before, after);
    mem_free(m);
    mem_free(v);
    trial_close(f);
}

static void training_reduces_every_loss(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    assert_learns(&f, 0.05);
    static const struct {
        enum loss_kind loss;
        enum activation last;
        bool from_logits;
    } pairs[] = {
        {LOSS_BINARY_CROSSENTROPY, ACT_SIGMOID, false},
        {LOSS_BINARY_CROSSENTROPY, ACT_LINEAR, true},
        {LOSS_MEAN_SQUARED_ERROR, ACT_LINEAR, false},
        {LOSS_MEAN_ABSOLUTE_ERROR, ACT_LINEAR, false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        models_start(&f.job, 20, 0, pairs[i].loss, pairs[i].from_logits);
        models_dense(&f.job, 32, ACT_TANH);
        models_dense(&f.job, 1, pairs[i].last);
        trial_init(&f, NULL, ROWS, 1);
        assert_learns(&f, 0.2);
    }
}

/* ---- the same bits ---- */

/* Each kind of layer and of activation with arithmetic of its own. */
static void varied(struct trial *f)
{
    models_start(&f->job, 21, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_dense(&f->job, 37, ACT_LINEAR);
    (void)models_normalization(&f->job, LAYER_BATCH_NORMALIZATION);
    models_activation(&f->job, ACT_GELU); /* 3 */
    models_dense(&f->job, 37, ACT_ELU);
    f->job.model.layer[3].kernel.l2 = 0.01f;
    f->job.model.layer[3].bias.l1 = 0.01f;
    models_merge(&f->job, LAYER_ADD, 3, 4);
    (void)models_normalization(&f->job, LAYER_LAYER_NORMALIZATION);
    models_dense(&f->job, 19, ACT_SELU);
    models_slope(&f->job, LAYER_GELU, 0)->gelu.approximate = true;
    models_merge(&f->job, LAYER_CONCATENATE, 8, 6);
    models_activation(&f->job, ACT_SILU);
    models_dense(&f->job, 11, ACT_SOFTPLUS);
    models_dense(&f->job, 9, ACT_LEAKY_RELU);
    models_dense(&f->job, 1, ACT_SIGMOID);
    models_metric(&f->job, METRIC_LOGLOSS);
    f->job.model.head[0].class_weights = 1;
    f->job.model.head[0].class_weight[0] = (struct class_weight){1, 1.7f};
    trial_init(f, NULL, ROWS, 1);
}

static void assert_same_at_every_level(void (*make)(struct trial *))
{
    float *expected = NULL;
    struct sums sums[KERNELS_AVX512 + 1];
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        struct trial f;
        make(&f);
        float *m = mem_floats(f.elems), *v = mem_floats(f.elems);
        for (uint64_t t = 1; t <= 20; t++) {
            sums[level] = train(&f, t);
            step(&f, m, v, t);
        }
        assert_memory_equal(&sums[level], &sums[KERNELS_BASE], sizeof *sums);
        if (expected)
            assert_memory_equal(f.w, expected, f.elems * sizeof(float));
        else
            expected = f.w, f.w = NULL;
        mem_free(m);
        mem_free(v);
        trial_close(&f);
    }
    mem_free(expected);
}

static void every_simd_level_trains_to_the_same_bits(void **state)
{
    (void)state;
    assert_same_at_every_level(mlp);
    assert_same_at_every_level(varied);
}

struct trainer {
    const struct trial *f;
    float *dw;
    int failed;
};

static void *train_on_a_thread(void *arg)
{
    struct trainer *t = arg;
    struct model_run *run;
    kernels_flush_denormals();
    t->failed = model_run_new(&run, t->f->m, ROWS, NULL) != ERR_OK;
    if (t->failed)
        return NULL;
    struct sums sums = {0};
    for (uint64_t key = 0; key < 20; key++)
        model_train(run, t->f->w, &(struct leaf){.n = ROWS, .x = t->f->x, .y = t->f->y}, key, t->dw,
                    &sums, NULL, NULL);
    model_run_free(run);
    return NULL;
}

static void threads_share_a_model_and_get_the_same_bits(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    struct trainer t[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        t[i] = (struct trainer){&f, mem_floats(f.elems), 0};
        assert_int_equal(pthread_create(&thread[i], NULL, train_on_a_thread, &t[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_false(t[0].failed || t[1].failed);
    assert_memory_equal(t[0].dw, t[1].dw, f.elems * sizeof(float));
    mem_free(t[0].dw);
    mem_free(t[1].dw);
    trial_close(&f);
}

/* ---- memory ---- */

static void every_failing_allocation_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    struct trial f;
    mlp(&f);
    long n = 0;
    int fired = 1;
    for (; fired; n++) {
        struct errmsg e;
        struct model *m = NULL;
        struct model_run *run = NULL;
        mem_fail_at(n);
        enum err code = model_new(&m, &f.job, &e);
        if (!code)
            code = model_run_new(&run, m, ROWS, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(code, fired ? ERR_NOMEM : ERR_OK);
        model_run_free(run);
        model_free(m);
    }
    assert_true(n > 10);
    trial_close(&f);
}

int main(void)
{
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_and_a_last_activation_that_do_not_fit_are_refused),
        cmocka_unit_test(outputs_that_do_not_fit_the_loss_are_refused),
        cmocka_unit_test(a_model_without_a_layer_to_train_is_refused),
        cmocka_unit_test(metrics_that_do_not_fit_are_refused),
        cmocka_unit_test(models_that_cannot_be_are_refused),
        cmocka_unit_test(what_a_model_refuses_is_told_with_its_line),
        cmocka_unit_test(tensors_are_named_shaped_and_placed_as_documented),
        cmocka_unit_test(labels_are_classes_or_values_by_the_loss),
        cmocka_unit_test(ready_tells_final_ranges_last_layer_first),
        cmocka_unit_test(gaps_between_tensors_are_left_alone),
        cmocka_unit_test(a_gradient_is_a_function_of_its_key),
        cmocka_unit_test(two_dropouts_of_a_model_drop_different_elements),
        cmocka_unit_test(evaluation_does_not_drop),
        cmocka_unit_test(a_fused_activation_is_from_logits_to_the_bit),
        cmocka_unit_test(losses_and_metrics_are_sums_of_kerass_formulas),
        cmocka_unit_test(cross_entropies_hold_for_extreme_logits),
        cmocka_unit_test(a_nan_in_the_input_reaches_loss_and_gradient),
        cmocka_unit_test(training_reduces_every_loss),
        cmocka_unit_test(every_simd_level_trains_to_the_same_bits),
        cmocka_unit_test(threads_share_a_model_and_get_the_same_bits),
        cmocka_unit_test(every_failing_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
