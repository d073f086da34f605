/* Gradients against finite differences of an independent forward pass: plain loops in double, libm,
 * no fusing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/models.h"
#include "tests/lib/trial.h"
#include "tests/lib/reference.h"
#include "model/model.h"

enum { ROWS = 6, ELEMS_MAX = 4096 };

/* ---- the models: every layer, activation and loss ---- */

static void linear_mse(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 1, ACT_LINEAR);
}
static void no_bias(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 7, ACT_RELU);
    models_dense(j, 1, ACT_TANH);
    j->model.layer[0].use_bias = j->model.layer[1].use_bias = false;
}
static void mlp(struct job *j)
{
    models_start(j, 4, 5, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_flatten(j);
    models_dense(j, 33, ACT_RELU);
    models_dense(j, 10, ACT_LINEAR);
}
static void mlp_softmax(struct job *j)
{
    models_start(j, 9, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false);
    models_dense(j, 17, ACT_SIGMOID);
    models_dense(j, 11, ACT_TANH);
    models_dense(j, 3, ACT_SOFTMAX);
}
static void softmax_in_the_middle(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 8, ACT_SOFTMAX);
    models_dense(j, 1, ACT_SIGMOID);
}
static void wide_softmax(struct job *j)
{
    models_start(j, 6, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false);
    models_dense(j, 100, ACT_SOFTMAX);
}
static void activation_layers(struct job *j)
{
    models_start(j, 6, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_dense(j, 8, ACT_LINEAR);
    models_activation(j, ACT_TANH);
    models_activation(j, ACT_RELU);
    models_dense(j, 6, ACT_RELU);
    models_activation(j, ACT_SIGMOID);
    models_dense(j, 4, ACT_TANH);
    models_activation(j, ACT_SOFTMAX);
    models_dense(j, 1, ACT_LINEAR);
    models_activation(j, ACT_SIGMOID);
}
static void activation_first(struct job *j)
{
    models_start(j, 6, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_activation(j, ACT_SIGMOID);
    models_dense(j, 1, ACT_LINEAR);
}
static void over_the_last_axis(struct job *j)
{
    models_start(j, 3, 4, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_dense(j, 5, ACT_RELU);
    models_dense(j, 3, ACT_SOFTMAX);
    models_flatten(j);
    models_dense(j, 4, ACT_LINEAR);
}
static void mae_linear(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_ABSOLUTE_ERROR, false);
    models_dense(j, 6, ACT_TANH);
    models_dense(j, 1, ACT_LINEAR);
}
static void mae_sigmoid(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_ABSOLUTE_ERROR, false);
    models_dense(j, 1, ACT_SIGMOID);
}
static void mse_relu(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 9, ACT_RELU);
    models_dense(j, 1, ACT_RELU);
}

static void more_activations(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 9, ACT_LEAKY_RELU);
    models_dense(j, 9, ACT_ELU);
    models_dense(j, 9, ACT_GELU);
    models_dense(j, 9, ACT_SELU);
    models_dense(j, 9, ACT_SILU);
    models_dense(j, 9, ACT_SOFTPLUS);
    models_dense(j, 1, ACT_GELU);
}
static void activations_with_options(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 17, ACT_LINEAR);
    (void)models_slope(j, LAYER_LEAKY_RELU, 0.3f);
    models_dense(j, 17, ACT_LINEAR);
    (void)models_slope(j, LAYER_ELU, 0.7f);
    models_dense(j, 17, ACT_LINEAR);
    models_slope(j, LAYER_GELU, 0)->gelu.approximate = true;
    models_activation(j, ACT_SILU);
    models_dense(j, 1, ACT_LINEAR);
    (void)models_slope(j, LAYER_GELU, 0);
}
static void batch_normalized(struct job *j)
{
    models_start(j, 5, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    (void)models_normalization(j, LAYER_BATCH_NORMALIZATION); /* of the input */
    models_dense(j, 19, ACT_LINEAR);
    (void)models_normalization(j, LAYER_BATCH_NORMALIZATION);
    models_activation(j, ACT_RELU);
    models_dense(j, 6, ACT_TANH);
    models_normalization(j, LAYER_BATCH_NORMALIZATION)->normalization.scale = false;
    models_normalization(j, LAYER_BATCH_NORMALIZATION)->normalization.center = false;
    models_dense(j, 3, ACT_LINEAR);
}
static void layer_normalized(struct job *j)
{
    models_start(j, 3, 4, LOSS_MEAN_SQUARED_ERROR, false);
    (void)models_normalization(j, LAYER_LAYER_NORMALIZATION);
    models_dense(j, 6, ACT_LINEAR);
    (void)models_normalization(j, LAYER_LAYER_NORMALIZATION);
    (void)models_normalization(j, LAYER_BATCH_NORMALIZATION); /* over rows and 3 positions */
    models_activation(j, ACT_GELU);
    models_normalization(j, LAYER_LAYER_NORMALIZATION)->normalization.scale = false;
    models_normalization(j, LAYER_LAYER_NORMALIZATION)->normalization.center = false;
    models_flatten(j);
    models_dense(j, 1, ACT_LINEAR);
}
static void residual_normalized(struct job *j)
{
    models_start(j, 5, 0, LOSS_BINARY_CROSSENTROPY, true);
    models_dense(j, 8, ACT_LINEAR);
    (void)models_normalization(j, LAYER_BATCH_NORMALIZATION);
    models_activation(j, ACT_GELU); /* 3 */
    models_dense(j, 8, ACT_LINEAR);
    (void)models_normalization(j, LAYER_BATCH_NORMALIZATION);
    models_merge(j, LAYER_ADD, 3, 5);
    (void)models_normalization(j, LAYER_LAYER_NORMALIZATION);
    models_merge(j, LAYER_ADD, 7, 6);
    models_dense(j, 1, ACT_LINEAR);
}
/* Ids 0 to 4, some twice in a row of data. */
static void embedded(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_embedding(j, 5, 4);
    models_dense(j, 3, ACT_TANH);
    models_flatten(j);
    models_dense(j, 1, ACT_LINEAR);
}

/* ---- tables: rows by key ---- */

/* Logistic regression on keys alone. */
static void linear_of_keys(struct job *j)
{
    models_start(j, 0, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_lookup(j, LAYER_LINEAR, models_table(j, 1, 0), 4)->use_bias = true;
    models_activation(j, ACT_SIGMOID);
}
static void embedded_keys(struct job *j)
{
    models_start(j, 0, 0, LOSS_MEAN_SQUARED_ERROR, false);
    (void)models_lookup(j, LAYER_EMBEDDING, models_table(j, 3, 0), 3);
    models_dense(j, 4, ACT_TANH);
    models_dense(j, 1, ACT_LINEAR);
}
/* One table for all three modes, each with three lookups: counted or full, weighted or not. */
static void bags(struct job *j)
{
    models_start(j, 0, 0, LOSS_MEAN_SQUARED_ERROR, false);
    uint32_t table = models_table(j, 4, 0);
    for (uint32_t mode = BAG_SUM; mode <= BAG_SQRTN; mode++)
        models_lookup(j, LAYER_EMBEDDING_BAG, table, 3)->embedding_bag.mode = (enum bag_mode)mode;
    models_merge(j, LAYER_CONCATENATE, 1, 2);
    models_merge(j, LAYER_CONCATENATE, 4, 3);
    models_dense(j, 3, ACT_TANH);
    models_dense(j, 1, ACT_LINEAR);
}
/* The output of an op over a table is read twice, and written over by nobody. */
static void rows_in_a_graph(struct job *j)
{
    models_start(j, 0, 0, LOSS_MEAN_SQUARED_ERROR, false);
    (void)models_lookup(j, LAYER_EMBEDDING, models_table(j, 2, 0), 2);
    models_activation(j, ACT_RELU);
    models_dense(j, 4, ACT_RELU);
    models_merge(j, LAYER_ADD, 1, 3);
    (void)models_lookup(j, LAYER_EMBEDDING, models_table(j, 4, 1), 1);
    models_merge(j, LAYER_ADD, 5, 4);
    models_merge(j, LAYER_ADD, 6, 6);
    models_dense(j, 1, ACT_LINEAR);
}
/* Two tables share a list; keys and a number are inputs of the same layer. */
static void wide_and_deep(struct job *j)
{
    models_start(j, 6, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_columns(j, 3, 2);
    uint32_t wide = models_table(j, 1, 0), deep = models_table(j, 3, 0);
    (void)models_lookup(j, LAYER_LINEAR, wide, 3);
    (void)models_lookup(j, LAYER_EMBEDDING, deep, 3);
    models_dense(j, 5, ACT_RELU);
    j->model.layer[2].inputs = 1;
    j->model.layer[2].input[0] = 2;
    models_select(j, 2, (const uint32_t[]){2, 0});
    models_dense(j, 1, ACT_LINEAR);
    models_merge(j, LAYER_ADD, 1, 4);
    models_activation(j, ACT_SIGMOID);
}

static void regularized_rows(struct job *j)
{
    wide_and_deep(j);
    j->model.table[0].init.l2 = 0.3f;
    j->model.table[1].init.l1 = 0.02f;
    j->model.table[1].init.l2 = 0.05f;
}

static void regularized(struct job *j)
{
    models_start(j, 6, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_dense(j, 5, ACT_TANH);
    models_dense(j, 4, ACT_RELU);
    models_dense(j, 1, ACT_SIGMOID);
    j->model.layer[0].kernel.l1 = 0.02f;
    j->model.layer[0].bias.l2 = 0.3f;
    j->model.layer[1].kernel.l1 = 0.01f;
    j->model.layer[1].kernel.l2 = 0.05f;
    j->model.layer[1].bias.l1 = 0.03f;
}
static void weighted(struct job *j)
{
    mlp_softmax(j);
    j->model.head[0].class_weights = 2;
    j->model.head[0].class_weight[0] = (struct class_weight){2, 3.5f};
    j->model.head[0].class_weight[1] = (struct class_weight){0, 0.25f};
}
static void weighted_binary(struct job *j)
{
    activation_first(j);
    j->model.head[0].class_weights = 1;
    j->model.head[0].class_weight[0] = (struct class_weight){1, 5};
}

/* ---- graphs: values that are read more than once ---- */

static void residual(struct job *j)
{
    models_start(j, 5, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_dense(j, 8, ACT_TANH);
    models_dense(j, 8, ACT_RELU);
    models_dense(j, 8, ACT_LINEAR);
    models_merge(j, LAYER_ADD, 1, 3); /* around two */
    models_activation(j, ACT_RELU);
    models_dense(j, 8, ACT_SIGMOID);
    models_merge(j, LAYER_ADD, 6, 5);
    models_dense(j, 3, ACT_LINEAR);
}
/* The first dense layer's output is read four times, by elementwise layers and others. */
static void read_often(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 6, ACT_LINEAR); /* 1 */
    models_activation(j, ACT_TANH);
    models_activation(j, ACT_SIGMOID);
    models_read(j, 1, 0);
    models_dense(j, 6, ACT_RELU);
    models_read(j, 1, 0);
    models_merge(j, LAYER_ADD, 2, 3);
    models_merge(j, LAYER_ADD, 1, 5);
    models_merge(j, LAYER_ADD, 4, 6);
    models_dense(j, 1, ACT_LINEAR);
}
/* By layers that could write over it, and do not need it in backward. */
static void read_often_by_elements(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 6, ACT_LINEAR); /* 1 */
    models_activation(j, ACT_TANH);
    models_activation(j, ACT_SIGMOID);
    models_read(j, 1, 0);
    models_merge(j, LAYER_ADD, 2, 3);
    models_merge(j, LAYER_ADD, 1, 4);
    models_dense(j, 1, ACT_LINEAR);
}
static void added_to_itself(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 6, ACT_LINEAR);
    models_dense(j, 6, ACT_TANH);
    models_merge(j, LAYER_ADD, 1, 1);
    j->model.layer[2].inputs = 3;
    j->model.layer[2].input[2] = 2;
    models_dense(j, 4, ACT_LINEAR);
    models_merge(j, LAYER_ADD, 4, 4);
    models_dense(j, 1, ACT_LINEAR);
}
static void side_by_side(struct job *j)
{
    models_start(j, 3, 4, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 5, ACT_RELU);
    models_dense(j, 2, ACT_TANH);
    models_merge(j, LAYER_CONCATENATE, 2, 0); /* the input has no gradient */
    models_merge(j, LAYER_CONCATENATE, 3, 1);
    models_activation(j, ACT_SIGMOID);
    models_merge(j, LAYER_CONCATENATE, 5, 5);
    models_flatten(j);
    models_dense(j, 1, ACT_LINEAR);
}
/* A flatten stands between: the same value in two shapes. */
static void two_heads_into_one(struct job *j)
{
    models_start(j, 2, 3, LOSS_BINARY_CROSSENTROPY, false);
    models_flatten(j);
    models_dense(j, 6, ACT_TANH);
    models_merge(j, LAYER_ADD, 2, 1); /* an input of the model and a layer */
    models_dense(j, 4, ACT_SOFTMAX);
    models_dense(j, 4, ACT_RELU);
    models_read(j, 3, 0);
    models_merge(j, LAYER_ADD, 4, 5);
    models_dense(j, 1, ACT_SIGMOID);
}

/* One trunk, two heads; the labels of the second one can be absent. */
static void two_heads_one_masked(struct job *j)
{
    models_start(j, 5, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false);
    models_dense(j, 7, ACT_TANH);
    models_dense(j, 3, ACT_SOFTMAX);
    models_head_reads(j, 1, (const uint32_t[]){2});
    models_dense(j, 1, ACT_SIGMOID);
    models_read(j, 1, 0);
    struct job_head *masked = models_head(j, LOSS_BINARY_CROSSENTROPY);
    masked->masked = true;
    masked->weight = 2.5f;
    masked->class_weights = 1;
    masked->class_weight[0] = (struct class_weight){1, 3};
}
/* The softmax that is part of the first head's loss is read by a layer and by the third head, and stays. */
static void heads_on_the_way(struct job *j)
{
    models_start(j, 5, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false);
    models_dense(j, 4, ACT_SOFTMAX);
    models_head_reads(j, 1, (const uint32_t[]){1});
    models_dense(j, 3, ACT_RELU);
    models_dense(j, 1, ACT_LINEAR);
    models_head(j, LOSS_MEAN_ABSOLUTE_ERROR)->weight = 0.25f;
    models_head(j, LOSS_MEAN_SQUARED_ERROR)->labels = 3;
    models_head_reads(j, 1, (const uint32_t[]){2});
}
/* Two heads read one value, which a layer could overwrite; one of them reads another, too. */
static void heads_of_one_value(struct job *j)
{
    models_start(j, 5, 0, LOSS_MEAN_SQUARED_ERROR, false);
    j->model.head[0].masked = true;
    models_dense(j, 1, ACT_RELU);
    models_head_reads(j, 1, (const uint32_t[]){1});
    models_activation(j, ACT_TANH);
    struct job_head *both = models_head(j, LOSS_MEAN_SQUARED_ERROR);
    both->labels = 2;
    both->masked = true;
    models_head_reads(j, 2, (const uint32_t[]){1, 2});
    models_head(j, LOSS_MEAN_ABSOLUTE_ERROR)->weight = 0.5f;
    models_head_reads(j, 1, (const uint32_t[]){1});
}
static void labels_of_two_classes(struct job *j)
{
    models_start(j, 5, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_dense(j, 3, ACT_SIGMOID);
    j->model.head[0].labels = 3;
    j->model.head[0].masked = true;
}

static void (*const MODELS[])(struct job *) = {
    linear_mse,
    no_bias,
    mlp,
    mlp_softmax,
    wide_softmax,
    softmax_in_the_middle,
    activation_layers,
    activation_first,
    over_the_last_axis,
    mae_linear,
    mae_sigmoid,
    mse_relu,
    residual,
    read_often,
    read_often_by_elements,
    added_to_itself,
    side_by_side,
    two_heads_into_one,
    regularized,
    weighted,
    weighted_binary,
    more_activations,
    activations_with_options,
    batch_normalized,
    layer_normalized,
    residual_normalized,
    embedded,
    linear_of_keys,
    embedded_keys,
    bags,
    rows_in_a_graph,
    wide_and_deep,
    regularized_rows,
    two_heads_one_masked,
    heads_on_the_way,
    heads_of_one_value,
    labels_of_two_classes,
};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

/* ---- one model and its gradient ---- */

/* A model's largest |gradient|: what rounding is relative to. */
static double scale_of(const float *g, uint64_t n)
{
    double most = 1e-3;
    for (uint64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)g[i]));
    return most;
}

static bool is_weight(const struct trial *f, uint64_t element)
{
    const struct layout *l = model_layout(f->m);
    return l->tensor[layout_find(l, element)].role == TENSOR_WEIGHT;
}

/* The rows of tables as reference_loss takes them. */
static const struct reference_rows *rows_of(const struct trial *f)
{
    static struct reference_rows rows;
    static double w[LEAF_TABLES][LEAF_ELEMS];
    for (uint32_t t = 0; t < LEAF_TABLES; t++) {
        for (uint32_t i = 0; i < LEAF_ELEMS; i++)
            w[t][i] = (double)f->leaf.w[t][i];
        rows.w[t] = w[t];
    }
    rows.keys = &f->leaf.keys;
    return &rows;
}

static double loss_at(const struct trial *f, const double *w, const struct reference_rows *rows)
{
    return reference_loss(&f->job, model_layout(f->m), w, rows, f->x, f->y, f->present, ROWS);
}

static void assert_row_gradients(const struct trial *f, int number, const double *w, double slack)
{
    const double step = 1e-6;
    const struct reference_rows *rows = rows_of(f);
    for (uint32_t t = 0; t < f->job.model.tables; t++)
        for (uint32_t i = 0; i < LEAF_KEYS * f->job.model.table[t].dim; i++) {
            double *at = (double *)rows->w[t] + i, keep = *at;
            *at = keep + step;
            double up = loss_at(f, w, rows);
            *at = keep - step;
            double slope = (up - loss_at(f, w, rows)) / (2 * step);
            *at = keep;
            if (fabs((double)f->leaf.dw[t][i] - slope) > slack)
                fail_msg("model %d, table %u, element %u: gradient %.9g, slope %.9g", number, t, i,
                         (double)f->leaf.dw[t][i], slope);
        }
}

static void assert_gradient(struct trial *f, int number)
{
    const double step = 1e-6;
    static double w[ELEMS_MAX];
    assert_true(f->elems <= ELEMS_MAX);
    for (uint64_t i = 0; i < f->elems; i++)
        w[i] = (double)f->w[i];
    double loss = trial_train_rows(f, 0, ROWS, 0).loss;
    double truth = loss_at(f, w, rows_of(f));
    if (fabs(loss - truth) > 2e-6 * (1 + fabs(truth)))
        fail_msg("model %d: loss %.9g, should be %.9g", number, loss, truth);
    double slack = 2e-6 * scale_of(f->dw, f->elems) + 1e-8;
    assert_row_gradients(f, number, w, slack);
    for (uint64_t i = 0; i < f->elems; i++) {
        if (!is_weight(f, i))
            continue;
        double keep = w[i];
        w[i] = keep + step;
        double up = loss_at(f, w, rows_of(f));
        w[i] = keep - step;
        double down = loss_at(f, w, rows_of(f));
        w[i] = keep;
        double slope = (up - down) / (2 * step);
        if (fabs((double)f->dw[i] - slope) > slack)
            fail_msg("model %d, element %u: gradient %.9g, slope %.9g", number, (unsigned)i,
                     (double)f->dw[i], slope);
    }
}

static void gradients_are_the_slopes_of_the_loss(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct trial f;
            trial_init(&f, MODELS[i], ROWS, seed);
            assert_gradient(&f, i);
            trial_close(&f);
        }
}

/* ---- frozen layers ---- */

static int frozen_model;
static uint32_t frozen_layer;

static void frozen(struct job *j)
{
    MODELS[frozen_model](j);
    j->model.layer[frozen_layer].trainable = false;
}

/* False: the layer has no weights, or the model has no others. */
static bool can_freeze(void)
{
    struct job job;
    struct model *m = NULL;
    struct errmsg e;
    frozen(&job);
    bool can = model_new(&m, &job, &e) == ERR_OK && job.model.layer[frozen_layer].lookups == 0;
    bool has = false;
    char begin[JOB_NAME_MAX + 1];
    (void)snprintf(begin, sizeof begin, "%s/", job.model.layer[frozen_layer].name);
    for (uint32_t i = 0; can && i < model_layout(m)->tensors; i++)
        has = has || strstr(model_layout(m)->tensor[i].name, begin);
    model_free(m);
    models_close(&job);
    return has;
}

/* The gradient by all other weights does not change, that by a frozen layer's is 0, whatever was in its memory. */
static void the_gradient_by_a_frozen_layer_is_zero_and_the_others_are_slopes(void **state)
{
    (void)state;
    int tried = 0;
    for (frozen_model = 0; frozen_model < N_MODELS; frozen_model++)
        for (frozen_layer = 0; frozen_layer < JOB_LAYERS_MAX; frozen_layer++) {
            struct trial f;
            if (!can_freeze())
                continue;
            tried++;
            trial_init(&f, frozen, ROWS, 1);
            const struct layout *l = model_layout(f.m);
            for (uint64_t i = 0; i < f.elems; i++)
                f.dw[i] = NAN;
            for (uint32_t i = 0; i < l->tensors; i++)
                memset(f.dw + l->tensor[i].offset_elems + l->tensor[i].elems, 0,
                       (layout_end(l, i) - l->tensor[i].offset_elems - l->tensor[i].elems) *
                           sizeof *f.dw);
            assert_gradient(&f, frozen_model);
            for (uint32_t i = 0; i < l->tensors; i++)
                for (uint64_t k = 0; l->tensor[i].momentum == 1.0f && k < l->tensor[i].elems; k++)
                    assert_true(f.dw[l->tensor[i].offset_elems + k] == 0.0f);
            trial_close(&f);
        }
    assert_true(tried > 40);
}

/* ---- dropout: differences of the model's own loss under a fixed key, so in float ---- */

static void dropout_everywhere(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dropout(j, 0.3f);
    models_dense(j, 12, ACT_RELU);
    models_dropout(j, 0.5f); /* in place */
    models_activation(j, ACT_SIGMOID);
    models_dropout(j, 0.25f);
    models_dense(j, 7, ACT_LINEAR);
    models_dropout(j, 0.1f);
    models_dropout(j, 0.2f);
    models_dense(j, 1, ACT_LINEAR);
}

/* In place behind a relu, and over a value that is read twice. */
static void dropout_in_a_graph(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 8, ACT_RELU);
    models_dropout(j, 0.3f);
    models_dropout(j, 0.25f);
    models_dense(j, 8, ACT_RELU);
    models_dropout(j, 0.5f);
    models_merge(j, LAYER_ADD, 5, 2);
    models_dropout(j, 0.2f);
    models_merge(j, LAYER_ADD, 7, 3);
    models_dense(j, 1, ACT_LINEAR);
}

/* A dropout may write over a relu, but not if a head reads it. */
static void dropout_after_a_head(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(j, 3, ACT_RELU);
    j->model.head[0].labels = 3;
    models_head_reads(j, 1, (const uint32_t[]){1});
    models_dropout(j, 0.4f);
    models_dense(j, 1, ACT_LINEAR);
    (void)models_head(j, LOSS_MEAN_SQUARED_ERROR);
}

static void gradients_are_slopes_under_dropout(void **state)
{
    static void (*const models[])(struct job *) = {dropout_everywhere, dropout_in_a_graph,
                                                   dropout_after_a_head};
    (void)state;
    const float step =
        1e-2f; /* the loss is quadratic in each weight, except for relu and sigmoid */
    for (uint64_t key = 1; key <= 12; key++) {
        struct trial f;
        trial_init(&f, models[key % 3], ROWS, key);
        (void)trial_train_rows(&f, 0, ROWS, key).loss;
        float *g = mem_floats(f.elems);
        memcpy(g, f.dw, f.elems * sizeof *g);
        double slack = 2e-3 * scale_of(g, f.elems);
        int off = 0;
        for (uint64_t i = 0; i < f.elems; i++) {
            float keep = f.w[i];
            f.w[i] = keep + step;
            double up = trial_train_rows(&f, 0, ROWS, key).loss;
            f.w[i] = keep - step;
            double down = trial_train_rows(&f, 0, ROWS, key).loss;
            f.w[i] = keep;
            off += fabs((double)g[i] - (up - down) / (2.0 * (double)step)) > slack;
        }
        assert_true(off <= 6); /* a relu that turns within the step */
        mem_free(g);
        trial_close(&f);
    }
}

/* ---- sums, not means ---- */

/* Where examples of a batch see each other, it is more than the sum. */
static bool has_batch_normalization(const struct job *job)
{
    for (uint32_t i = 0; i < job->model.layers; i++)
        if (job->model.layer[i].kind == LAYER_BATCH_NORMALIZATION)
            return true;
    return false;
}

static void the_gradient_of_a_joined_batch_is_the_sum(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct trial f;
        trial_init(&f, MODELS[i], ROWS, 4);
        if (has_batch_normalization(&f.job)) {
            trial_close(&f);
            continue;
        }
        float *sum = mem_floats(f.elems);
        double loss = 0;
        static const uint32_t cut[] = {0, 1, 4, 4, ROWS};
        for (int k = 0; k < 4; k++) {
            loss += trial_train_rows(&f, cut[k], cut[k + 1] - cut[k], 0).loss;
            kernels()->add(sum, sum, f.dw, f.elems);
        }
        assert_true(fabs(trial_train_rows(&f, 0, ROWS, 0).loss - loss) < 1e-5 * (1 + loss));
        double slack = 1e-5 * scale_of(f.dw, f.elems);
        for (uint64_t k = 0; k < f.elems; k++)
            assert_true(fabs((double)f.dw[k] - (double)sum[k]) <= slack);
        mem_free(sum);
        trial_close(&f);
    }
}

static void no_examples_give_a_gradient_of_zero(void **state)
{
    (void)state;
    struct trial f;
    trial_init(&f, mlp, ROWS, 1);
    (void)trial_train_rows(&f, 0, ROWS, 0).loss;
    assert_true(trial_train_rows(&f, 0, 0, 0).loss == 0.0);
    for (uint64_t i = 0; i < f.elems; i++)
        assert_true(f.dw[i] == 0.0f);
    trial_close(&f);
}

static void the_gradient_of_an_absolute_error_is_zero_where_there_is_none(void **state)
{
    (void)state;
    struct trial f;
    trial_init(&f, mae_linear, ROWS, 1);
    memset(f.w, 0, f.elems * sizeof *f.w);
    memset(f.y, 0, ROWS * sizeof *f.y);
    assert_true(trial_train_rows(&f, 0, ROWS, 0).loss == 0.0);
    for (uint64_t i = 0; i < f.elems; i++)
        assert_true(f.dw[i] == 0.0f);
    trial_close(&f);
}

int main(void)
{
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_slopes_of_the_loss),
        cmocka_unit_test(the_gradient_by_a_frozen_layer_is_zero_and_the_others_are_slopes),
        cmocka_unit_test(gradients_are_slopes_under_dropout),
        cmocka_unit_test(the_gradient_of_a_joined_batch_is_the_sum),
        cmocka_unit_test(no_examples_give_a_gradient_of_zero),
        cmocka_unit_test(the_gradient_of_an_absolute_error_is_zero_where_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
