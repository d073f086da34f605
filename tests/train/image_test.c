/* Layers over images: gradients against finite differences of an independent forward pass (plain
 * loops in double, straight from the definitions), shapes, refusals, and Keras's own numbers. */
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
#include "tests/lib/reference.h"
#include "tests/lib/trial.h"
#include "model/model.h"

enum { ROWS = 3, ELEMS_MAX = 4096 };

/* ---- the reference: one row ---- */

struct image {
    int h, w, c;
    double at[ELEMS_MAX];
};

static double pixel(const struct image *x, int i, int j, int c)
{
    return i < 0 || j < 0 || i >= x->h || j >= x->w ? 0 : x->at[(i * x->w + j) * x->c + c];
}

/* How many windows, and how far before the image the first begins: TensorFlow's rules. */
static int places(int in, int size, int stride, int dilation, enum padding padding, int *before)
{
    int span = (size - 1) * dilation + 1;
    *before = 0;
    if (padding == PADDING_VALID)
        return (in - span) / stride + 1;
    int out = (in + stride - 1) / stride, missing = (out - 1) * stride + span - in;
    *before = missing > 0 ? missing / 2 : 0;
    return out;
}

static double activated(enum activation a, double v)
{
    return a == ACT_RELU ? fmax(v, 0) : a == ACT_TANH ? tanh(v) : v;
}

static void conv2d(const struct job_layer *l, const struct layout *lay, const double *w,
                   struct image *x)
{
    static struct image y;
    const double *kernel = reference_tensor(lay, w, l->name, "kernel"),
                 *bias = reference_tensor(lay, w, l->name, "bias");
    int kh = (int)l->conv2d.kernel_size[0], kw = (int)l->conv2d.kernel_size[1],
        out = (int)l->conv2d.filters;
    int sy = (int)l->conv2d.strides[0], sx = (int)l->conv2d.strides[1],
        dy = (int)l->conv2d.dilation_rate[0], dx = (int)l->conv2d.dilation_rate[1], top, left;
    y.h = places(x->h, kh, sy, dy, l->conv2d.padding, &top);
    y.w = places(x->w, kw, sx, dx, l->conv2d.padding, &left);
    y.c = out;
    for (int i = 0; i < y.h; i++)
        for (int j = 0; j < y.w; j++)
            for (int o = 0; o < out; o++) {
                double sum = bias ? bias[o] : 0;
                for (int k = 0; k < kh; k++)
                    for (int m = 0; m < kw; m++)
                        for (int c = 0; c < x->c; c++)
                            sum += pixel(x, i * sy + k * dy - top, j * sx + m * dx - left, c) *
                                   kernel[((k * kw + m) * x->c + c) * out + o];
                y.at[(i * y.w + j) * out + o] = activated(l->conv2d.activation, sum);
            }
    *x = y;
}

static void pool(struct image *x, bool max, const int size[2], const int stride[2],
                 enum padding padding)
{
    static struct image y;
    int top, left;
    y.h = places(x->h, size[0], stride[0], 1, padding, &top);
    y.w = places(x->w, size[1], stride[1], 1, padding, &left);
    y.c = x->c;
    for (int i = 0; i < y.h; i++)
        for (int j = 0; j < y.w; j++)
            for (int c = 0; c < y.c; c++) {
                double sum = 0, most = -INFINITY;
                int n = 0;
                for (int k = i * stride[0] - top; k < i * stride[0] - top + size[0]; k++)
                    for (int m = j * stride[1] - left; m < j * stride[1] - left + size[1]; m++)
                        if (k >= 0 && m >= 0 && k < x->h && m < x->w) {
                            sum += pixel(x, k, m, c);
                            most = fmax(most, pixel(x, k, m, c));
                            n++;
                        }
                y.at[(i * y.w + j) * y.c + c] = max ? most : sum / n;
            }
    *x = y;
}

static void dense(const struct job_layer *l, const struct layout *lay, const double *w,
                  struct image *x)
{
    static struct image y;
    const double *kernel = reference_tensor(lay, w, l->name, "kernel"),
                 *bias = reference_tensor(lay, w, l->name, "bias");
    int rows = x->h * x->w, out = (int)l->dense.units;
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < out; o++) {
            double sum = bias[o];
            for (int i = 0; i < x->c; i++)
                sum += x->at[r * x->c + i] * kernel[i * out + o];
            y.at[r * out + o] = activated(l->dense.activation, sum);
        }
    y.h = x->h, y.w = x->w, y.c = out;
    *x = y;
}

static void layer(const struct job_layer *l, const struct layout *lay, const double *w,
                  struct image *x)
{
    const int size[2] = {(int)l->pooling2d.pool_size[0], (int)l->pooling2d.pool_size[1]},
              stride[2] = {(int)l->pooling2d.strides[0], (int)l->pooling2d.strides[1]},
              whole[2] = {x->h, x->w}, once[2] = {1, 1};
    switch (l->kind) {
    case LAYER_CONV2D:
        conv2d(l, lay, w, x);
        break;
    case LAYER_MAX_POOLING2D:
    case LAYER_AVERAGE_POOLING2D:
        pool(x, l->kind == LAYER_MAX_POOLING2D, size, stride, l->pooling2d.padding);
        break;
    case LAYER_GLOBAL_MAX_POOLING2D:
    case LAYER_GLOBAL_AVERAGE_POOLING2D:
        pool(x, l->kind == LAYER_GLOBAL_MAX_POOLING2D, whole, once, PADDING_VALID);
        break;
    case LAYER_FLATTEN:
        x->c *= x->h * x->w;
        x->h = x->w = 1;
        break;
    case LAYER_RESHAPE:
        x->h = (int)l->reshape.shape[0], x->w = (int)l->reshape.shape[1];
        x->c = (int)l->reshape.shape[2];
        break;
    case LAYER_DENSE:
        dense(l, lay, w, x);
        break;
    default:
        fail();
    }
}

/* Of one pixel each. */
static void concatenate(struct image *x, const struct image *other)
{
    assert_true(x->h * x->w * other->h * other->w == 1);
    memcpy(x->at + x->c, other->at, (size_t)other->c * sizeof *x->at);
    x->c += other->c;
}

/* The sum over the rows of -log softmax[label]. */
static double image_loss(const struct job *job, const struct model *m, const double *w,
                         const float *x, const float *y, uint32_t n)
{
    static struct image image, given[JOB_LAYERS_MAX + 1]; /* by each layer; 0: not used */
    double loss = 0;
    for (uint32_t r = 0; r < n; r++) {
        image.h = (int)job->model.shape[0];
        image.w = job->model.rank > 1 ? (int)job->model.shape[1] : 1;
        image.c = job->model.rank > 2 ? (int)job->model.shape[2] : 1;
        for (uint32_t i = 0; i < model_features(m); i++)
            image.at[i] = (double)x[r * model_features(m) + i];
        for (uint32_t i = 0; i < job->model.layers; i++) {
            const struct job_layer *l = &job->model.layer[i];
            if (l->inputs)
                image = given[l->input[0]];
            if (l->kind == LAYER_CONCATENATE)
                concatenate(&image, &given[l->input[1]]);
            else
                layer(l, model_layout(m), w, &image);
            given[i + 1] = image;
        }
        double sum = 0;
        for (int i = 0; i < image.c; i++)
            sum += exp(image.at[i]);
        loss += log(sum) - image.at[(int)y[r]];
    }
    return loss;
}

/* ---- the models ---- */

static void start(struct job *j, uint32_t h, uint32_t w, uint32_t c)
{
    models_start(j, h, w, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    j->model.rank = 3;
    j->model.shape[2] = c;
}
static void end(struct job *j)
{
    models_flatten(j);
    models_dense(j, 3, ACT_LINEAR);
}

static void one_channel(struct job *j)
{
    start(j, 6, 7, 1);
    models_conv2d(j, 5, 3, 3, ACT_RELU);
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    end(j);
}
static void one_channel_in_wide_vectors(struct job *j)
{
    start(j, 6, 6, 1);
    models_conv2d(j, 32, 3, 3, ACT_RELU);
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    end(j);
}
static void two_convolutions(struct job *j)
{
    start(j, 9, 8, 2);
    models_conv2d(j, 4, 3, 2, ACT_RELU);
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    models_conv2d(j, 17, 2, 3, ACT_TANH);
    end(j);
}
static void same_padding(struct job *j)
{
    start(j, 5, 6, 3);
    models_conv2d(j, 4, 3, 3, ACT_RELU)->conv2d.padding = PADDING_SAME;
    models_conv2d(j, 3, 2, 4, ACT_LINEAR)->conv2d.padding =
        PADDING_SAME; /* more behind than before */
    models_pooling(j, LAYER_MAX_POOLING2D, 3, 2)->pooling2d.padding = PADDING_SAME;
    end(j);
}
static void strides(struct job *j)
{
    start(j, 9, 10, 2);
    struct job_layer *l = models_conv2d(j, 3, 3, 2, ACT_RELU);
    l->conv2d.strides[0] = 2;
    l->conv2d.strides[1] = 3;
    l = models_conv2d(j, 4, 2, 2, ACT_LINEAR);
    l->conv2d.padding = PADDING_SAME;
    l->conv2d.strides[0] = l->conv2d.strides[1] = 2;
    end(j);
}
static void strides_beyond_the_kernel(struct job *j)
{
    start(j, 8, 8, 2);
    struct job_layer *l = models_conv2d(j, 3, 1, 2, ACT_RELU);
    l->conv2d.strides[0] = l->conv2d.strides[1] = 3;
    l = models_pooling(j, LAYER_AVERAGE_POOLING2D, 1, 1);
    l->pooling2d.strides[0] = l->pooling2d.strides[1] = 2;
    l->pooling2d.padding = PADDING_SAME;
    end(j);
}
static void dilated(struct job *j)
{
    start(j, 9, 8, 2);
    struct job_layer *l = models_conv2d(j, 3, 3, 2, ACT_RELU);
    l->conv2d.dilation_rate[0] = 2;
    l->conv2d.dilation_rate[1] = 3;
    l = models_conv2d(j, 2, 3, 3, ACT_LINEAR);
    l->conv2d.dilation_rate[0] = l->conv2d.dilation_rate[1] = 3;
    l->conv2d.padding = PADDING_SAME;
    end(j);
}
static void pointwise(struct job *j)
{
    start(j, 4, 5, 3);
    models_conv2d(j, 4, 1, 1, ACT_RELU);
    models_conv2d(j, 2, 1, 1, ACT_TANH)->use_bias = false;
    end(j);
}
static void one_pixel(struct job *j)
{
    start(j, 1, 1, 2);
    models_conv2d(j, 3, 3, 3, ACT_RELU)->conv2d.padding = PADDING_SAME;
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2)->pooling2d.padding = PADDING_SAME;
    end(j);
}
static void overlapping_pools(struct job *j)
{
    start(j, 7, 7, 2);
    models_conv2d(j, 3, 2, 2, ACT_RELU);
    models_pooling(j, LAYER_MAX_POOLING2D, 3, 1);
    models_pooling(j, LAYER_AVERAGE_POOLING2D, 2, 1);
    end(j);
}
static void averages_of_what_is_there(struct job *j)
{
    start(j, 5, 7, 2);
    models_conv2d(j, 3, 1, 1, ACT_TANH);
    models_pooling(j, LAYER_AVERAGE_POOLING2D, 3, 2)->pooling2d.padding = PADDING_SAME;
    end(j);
}
static void pools_that_leave_a_rest(struct job *j)
{
    start(j, 8, 7, 1);
    models_conv2d(j, 16, 2, 3, ACT_RELU);
    models_pooling(j, LAYER_MAX_POOLING2D, 3, 3);
    end(j);
}
static void pools_behind_no_activation(struct job *j)
{
    start(j, 7, 8, 2);
    models_conv2d(j, 16, 2, 3, ACT_LINEAR)->use_bias = false;
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    models_conv2d(j, 5, 2, 2, ACT_RELU);
    models_pooling(j, LAYER_AVERAGE_POOLING2D, 2, 2);
    end(j);
}
static void global_average(struct job *j)
{
    start(j, 6, 5, 2);
    models_conv2d(j, 4, 3, 3, ACT_RELU);
    models_pooling(j, LAYER_GLOBAL_AVERAGE_POOLING2D, 0, 0);
    models_dense(j, 3, ACT_LINEAR);
}
static void global_max(struct job *j)
{
    start(j, 6, 5, 2);
    models_conv2d(j, 6, 3, 3, ACT_TANH);
    models_pooling(j, LAYER_GLOBAL_MAX_POOLING2D, 0, 0)->global_pooling2d.keepdims = true;
    end(j);
}
static void reshaped(struct job *j)
{
    models_start(j, 6, 8, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_reshape(j, 4, 4, 3);
    models_conv2d(j, 4, 2, 2, ACT_RELU);
    models_dense(j, 2, ACT_TANH); /* over the channels */
    end(j);
}

/* Channels by 16 go without a matrix, and take a pooling of windows apart along. */
static void wide_behind_wide(struct job *j)
{
    start(j, 5, 6, 1);
    models_conv2d(j, 16, 3, 3, ACT_RELU)->conv2d.padding = PADDING_SAME;
    models_conv2d(j, 16, 3, 2, ACT_RELU)->conv2d.padding = PADDING_SAME;
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    end(j);
}
static void wide_pooled_twice(struct job *j)
{
    start(j, 9, 10, 2);
    models_conv2d(j, 16, 2, 2, ACT_RELU);
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    struct job_layer *l = models_conv2d(j, 32, 2, 2, ACT_LINEAR);
    l->conv2d.dilation_rate[0] = 2;
    l = models_pooling(j, LAYER_MAX_POOLING2D, 1, 2);
    l->pooling2d.pool_size[1] = 2;
    end(j);
}
static void wide_not_pooled(struct job *j)
{
    start(j, 6, 6, 3);
    models_conv2d(j, 48, 2, 3, ACT_RELU);
    struct job_layer *l = models_conv2d(j, 16, 1, 2, ACT_TANH);
    l->use_bias = false;
    end(j);
}
static void wide_with_strides(struct job *j)
{
    start(j, 9, 8, 2);
    struct job_layer *l = models_conv2d(j, 16, 3, 2, ACT_RELU);
    l->conv2d.strides[0] = 2;
    l->conv2d.padding = PADDING_SAME;
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 3);
    l = models_conv2d(j, 16, 2, 2, ACT_RELU); /* with a stride and wanted below: a matrix */
    l->conv2d.strides[1] = 2;
    l->conv2d.padding = PADDING_SAME;
    end(j);
}
/* A convolution read by a pooling and by another: its output must be there. */
static void wide_read_twice(struct job *j)
{
    start(j, 5, 5, 2);
    models_conv2d(j, 16, 2, 2, ACT_RELU);
    models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    models_pooling(j, LAYER_GLOBAL_AVERAGE_POOLING2D, 0, 0);
    struct job_layer *l = models_pooling(j, LAYER_GLOBAL_MAX_POOLING2D, 0, 0);
    l->inputs = 1;
    l->input[0] = 1;
    models_merge(j, LAYER_CONCATENATE, 3, 4);
    models_dense(j, 3, ACT_LINEAR);
}

static void (*const MODELS[])(struct job *) = {
    wide_behind_wide,
    wide_pooled_twice,
    wide_not_pooled,
    wide_with_strides,
    wide_read_twice,
    one_channel,
    one_channel_in_wide_vectors,
    two_convolutions,
    same_padding,
    strides,
    strides_beyond_the_kernel,
    dilated,
    pointwise,
    one_pixel,
    overlapping_pools,
    averages_of_what_is_there,
    pools_that_leave_a_rest,
    pools_behind_no_activation,
    global_average,
    global_max,
    reshaped,
};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

/* ---- gradients ---- */

static double slope_at(struct trial *f, double *w, uint64_t i)
{
    const double step = 1e-6, keep = w[i];
    w[i] = keep + step;
    double up = image_loss(&f->job, f->m, w, f->x, f->y, ROWS);
    w[i] = keep - step;
    double down = image_loss(&f->job, f->m, w, f->x, f->y, ROWS);
    w[i] = keep;
    return (up - down) / (2 * step);
}

static void assert_gradient(struct trial *f, int number)
{
    static double w[ELEMS_MAX];
    assert_true(f->elems <= ELEMS_MAX);
    double most = 1e-3;
    for (uint64_t i = 0; i < f->elems; i++)
        w[i] = (double)f->w[i];
    double loss = trial_loss(f), truth = image_loss(&f->job, f->m, w, f->x, f->y, ROWS);
    if (fabs(loss - truth) > 2e-6 * (1 + fabs(truth)))
        fail_msg("model %d: loss %.9g, should be %.9g", number, loss, truth);
    for (uint64_t i = 0; i < f->elems; i++)
        most = fmax(most, fabs((double)f->dw[i]));
    const struct layout *l = model_layout(f->m);
    for (uint64_t i = 0; i < f->elems; i++) {
        bool frozen = l->tensor[layout_find(l, i)].role != TENSOR_WEIGHT;
        double slope = frozen ? 0 : slope_at(f, w, i);
        if (fabs((double)f->dw[i] - slope) > 3e-6 * most + 1e-8)
            fail_msg("model %d, element %u: gradient %.9g, slope %.9g", number, (unsigned)i,
                     (double)f->dw[i], slope);
    }
}

static void gradients_are_the_slopes_of_the_loss(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        for (uint64_t seed = 1; seed <= 2; seed++) {
            struct trial f;
            trial_init(&f, MODELS[i], ROWS, seed);
            assert_gradient(&f, i);
            trial_close(&f);
        }
}

static int frozen_model;
static uint32_t frozen_layer;

static void frozen(struct job *j)
{
    MODELS[frozen_model](j);
    j->model.layer[frozen_layer].trainable = false;
}

static void the_gradient_by_a_frozen_convolution_is_zero_and_the_others_are_slopes(void **state)
{
    (void)state;
    for (frozen_model = 0; frozen_model < N_MODELS; frozen_model++)
        for (frozen_layer = 0; frozen_layer < JOB_LAYERS_MAX; frozen_layer++) {
            struct job job;
            MODELS[frozen_model](&job);
            enum layer_kind kind = job.model.layer[frozen_layer].kind;
            bool last = frozen_layer + 1 >= job.model.layers;
            models_close(&job);
            if (kind != LAYER_CONV2D || last)
                continue;
            struct trial f;
            trial_init(&f, frozen, ROWS, 1);
            for (uint64_t i = 0; i < f.elems; i++)
                f.dw[i] = 7;
            const struct layout *l = model_layout(f.m);
            for (uint32_t i = 0; i < l->tensors; i++) {
                uint64_t gap = l->tensor[i].offset_elems + l->tensor[i].elems;
                memset(f.dw + gap, 0, (layout_end(l, i) - gap) * sizeof *f.dw);
            }
            assert_gradient(&f, frozen_model);
            trial_close(&f);
        }
}

static void every_simd_level_gives_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct trial f;
        trial_init(&f, MODELS[i], ROWS, 5);
        assert_non_null(kernels_use(KERNELS_BASE));
        double loss = trial_loss(&f);
        float *base = mem_floats(f.elems);
        memcpy(base, f.dw, f.elems * sizeof *base);
        for (int level = KERNELS_AVX2; level <= KERNELS_AVX512; level++) {
            if (!kernels_use((enum kernels_level)level))
                continue;
            memset(f.dw, 0, f.elems * sizeof *f.dw);
            assert_true(trial_loss(&f) == loss);
            assert_memory_equal(f.dw, base, f.elems * sizeof *base);
        }
        mem_free(base);
        trial_close(&f);
    }
}

/* ---- NaN ---- */

static void a_nan_passes_through_a_maximum(void **state)
{
    (void)state;
    static void (*const models[])(struct job *) = {one_channel, one_channel_in_wide_vectors};
    for (int i = 0; i < 2; i++)
        for (int corner = 0; corner < 4; corner++) { /* alone in one tap of one window */
            struct trial f;
            trial_init(&f, models[i], ROWS, 1);
            uint32_t width = f.job.model.shape[1], row = corner / 2 ? 5 : 0;
            f.x[row * width + (corner % 2 ? 5 : 0)] = NAN;
            assert_true(isnan(trial_loss(&f)));
            trial_close(&f);
        }
}

/* ---- refusals ---- */

static void images_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct job j;
    start(&j, 4, 3, 1);
    models_conv2d(&j, 2, 3, 4, ACT_RELU);
    end(&j);
    trial_assert_refused(&j, "conv2d_0: its width of 4 is larger than the 3", "padding: same");
    j.model.layer[0].conv2d.kernel_size[1] = 2;
    j.model.layer[0].conv2d.dilation_rate[0] = 2;
    trial_assert_refused(&j, "conv2d_0: its height of 5 is larger than the 4", "padding: same");
    j.model.layer[0].conv2d.padding = PADDING_SAME;
    j.model.layer[0].conv2d.strides[1] = 2;
    trial_assert_refused(&j, "conv2d_0: strides and dilation_rate", "both be above 1");

    models_start(&j, 4, 4, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_conv2d(&j, 2, 3, 3, ACT_RELU);
    end(&j);
    trial_assert_refused(&j, "conv2d_0 needs rows of 3 dimensions", "reshape");
    models_start(&j, 4, 4, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_pooling(&j, LAYER_GLOBAL_MAX_POOLING2D, 0, 0);
    end(&j);
    trial_assert_refused(&j, "pooling_0 needs rows of 3 dimensions", "reshape");
    models_start(&j, 4, 4, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_reshape(&j, 4, 4, 2);
    end(&j);
    trial_assert_refused(&j, "reshape_0: target_shape has 32 elements", "16");
    start(&j, 4000, 4000, 4);
    models_conv2d(&j, 1000, 1, 1, ACT_RELU);
    end(&j);
    trial_assert_refused(&j, "conv2d_0", "too large");
}

int main(void)
{
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_slopes_of_the_loss),
        cmocka_unit_test(the_gradient_by_a_frozen_convolution_is_zero_and_the_others_are_slopes),
        cmocka_unit_test(every_simd_level_gives_the_same_bits),
        cmocka_unit_test(a_nan_passes_through_a_maximum),
        cmocka_unit_test(images_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
