/* BatchNormalization and LayerNormalization: keras.layers, over the last axis.
 * y = (x - mean) / sqrt(variance + epsilon) gamma + beta; the variance is that of the values themselves (divided by
 * their number).
 *
 * Batch normalization uses mean and variance of each column: in training over the rows of the microbatch; in
 * evaluation, and if the layer is frozen, the moving ones. Layer normalization uses those of each row. Sums are in
 * double, in row order.
 * Gradients: Ioffe and Szegedy 2015, section 3; with a = gamma / sqrt(...), N values: dx = a (dy - mean(dy) - xhat
 * mean(dy xhat)). */
#include "model/layers.h"

#include <math.h>
#include <string.h>

#include "common/math/kernels.h"

/* ---- tensors ---- */

static const struct job_weights zeros = {.initializer = INIT_ZEROS};
static const struct job_weights ones = {.initializer = INIT_ONES};

static enum err add_gamma_and_beta(struct model *m, struct op *op, struct errmsg *e)
{
    struct tensor gamma = {.rank = 1, .shape = {op->in}}, beta = gamma;
    enum err code = ERR_OK;
    if (op->layer->normalization.scale)
        code = weights_add(m, op, &op->normalization.gamma_offset, &gamma, "gamma", &ones, e);
    if (!code && op->layer->normalization.center)
        code = weights_add(m, op, &op->normalization.beta_offset, &beta, "beta", &zeros, e);
    return code;
}

static const struct op_type batch_normalization_op, frozen_batch_normalization_op,
    layer_normalization_op;

static struct op make(const struct model *m, const struct job_layer *l, const struct op_type *type)
{
    uint32_t cols = m->shape.dim[m->shape.rank - 1];
    return (struct op){.type = type,
                       .layer = l,
                       .outer = shape_elems(&m->shape) / cols,
                       .in = cols,
                       .out = cols,
                       .reads_x = true,
                       .elementwise = true};
}

enum err batch_normalization_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    struct op op =
        make(m, l, l->trainable ? &batch_normalization_op : &frozen_batch_normalization_op);
    op.reads_x = l->trainable;
    struct tensor mean = {.rank = 1,
                          .shape = {op.in},
                          .role = TENSOR_STATISTIC,
                          .momentum = l->normalization.momentum};
    struct tensor variance = mean;
    enum err code = add_gamma_and_beta(m, &op, e);
    if (!code)
        code = weights_add(m, &op, &op.normalization.mean_offset, &mean, "moving_mean", &zeros, e);
    if (!code)
        code = weights_add(m, &op, &op.normalization.variance_offset, &variance, "moving_variance",
                           &ones, e);
    if (!code)
        op_append(m, &op);
    return code;
}

enum err layer_normalization_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    struct op op = make(m, l, &layer_normalization_op);
    enum err code = add_gamma_and_beta(m, &op, e);
    if (!code)
        op_append(m, &op);
    return code;
}

/* ---- state from forward to backward ---- */

/* Batch: two rows of doubles, then mean, variance, 1 / sqrt(variance + epsilon) and two rows of scratch; layer: mean
 * and inverse of each row. */
enum { BATCH_ROWS = 5, BATCH_DOUBLE_ROWS = 2 };

static size_t batch_state_bytes(const struct op *op, size_t n)
{
    (void)n;
    return op->in * (BATCH_ROWS * sizeof(float) + BATCH_DOUBLE_ROWS * sizeof(double));
}

static size_t layer_state_bytes(const struct op *op, size_t n)
{
    return 2 * n * op->outer * sizeof(float);
}

struct batch_state {
    double *sum[BATCH_DOUBLE_ROWS];
    float *mean, *variance, *inverse, *work, *more;
};

static struct batch_state batch_state(const struct op *op, void *state)
{
    double *sums = state;
    float *rows = (float *)(sums + (size_t)BATCH_DOUBLE_ROWS * op->in);
    return (struct batch_state){.sum = {sums, sums + op->in},
                                .mean = rows,
                                .variance = rows + op->in,
                                .inverse = rows + 2 * (size_t)op->in,
                                .work = rows + 3 * (size_t)op->in,
                                .more = rows + 4 * (size_t)op->in};
}

static float inverse_of(float variance, float epsilon)
{
    return 1.0f / sqrtf(variance + epsilon);
}

/* ---- batch normalization ---- */

static void measure(const struct op *op, const struct batch_state *s, const float *x, size_t rows)
{
    const size_t cols = op->in;
    double *restrict sum = s->sum[0];
    memset(sum, 0, cols * sizeof *sum);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            sum[c] += (double)x[r * cols + c];
    for (size_t c = 0; c < cols; c++)
        s->mean[c] = (float)(sum[c] / (double)rows);
    memset(sum, 0, cols * sizeof *sum);
    const float *restrict mean = s->mean;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double d = (double)(x[r * cols + c] - mean[c]);
            sum[c] += d * d;
        }
    for (size_t c = 0; c < cols; c++) {
        s->variance[c] = (float)(sum[c] / (double)rows);
        s->inverse[c] = inverse_of(s->variance[c], op->layer->normalization.epsilon);
    }
}

/* a[c] = gamma[c] inverse[c] */
static void slopes(const struct op *op, float *a, const float *w, const float *inverse)
{
    for (size_t c = 0; c < op->in; c++)
        a[c] = op->layer->normalization.scale ? w[op->normalization.gamma_offset + c] * inverse[c]
                                              : inverse[c];
}

static void scale_normalized(float *y, const float *x, const float *mean, const float *a,
                             const float *beta, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            y[r * cols + c] = (x[r * cols + c] - mean[c]) * a[c] + (beta ? beta[c] : 0.0f);
}

/* Uses the rows' own mean and variance in training, otherwise the moving ones, as Keras does. */
static void batch_forward(const struct op *op, const struct op_pass *p)
{
    const struct batch_state s = batch_state(op, p->state);
    const float *w = p->w;
    const float *mean = s.mean;
    if (p->train && op->layer->trainable) {
        measure(op, &s, p->x[0], p->rows);
    } else {
        mean = w + op->normalization.mean_offset;
        for (size_t c = 0; c < op->in; c++)
            s.inverse[c] = inverse_of(w[op->normalization.variance_offset + c],
                                      op->layer->normalization.epsilon);
    }
    slopes(op, s.work, w, s.inverse);
    scale_normalized(p->y, p->x[0], mean, s.work,
                     op->layer->normalization.center ? w + op->normalization.beta_offset : NULL,
                     p->rows, op->in);
}

/* sum[0] = column sums of dy, sum[1] = of dy xhat */
static void sum_gradients(const struct op *op, const struct batch_state *s, const float *dy,
                          const float *x, size_t rows)
{
    const size_t cols = op->in;
    double *restrict plain = s->sum[0], *restrict dot = s->sum[1];
    const float *restrict mean = s->mean, *restrict inverse = s->inverse;
    memset(plain, 0, cols * sizeof *plain);
    memset(dot, 0, cols * sizeof *dot);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            float d = dy[r * cols + c], centered = x[r * cols + c] - mean[c];
            plain[c] += (double)d;
            dot[c] += (double)d * (double)(centered * inverse[c]);
        }
}

/* dx of a frozen layer, whose mean and variance are constants: dx = dy gamma / sqrt(variance + epsilon) */
static void frozen_backward(const struct op *op, const struct op_pass *p)
{
    const struct batch_state s = batch_state(op, p->state);
    slopes(op, s.work, p->w, s.inverse);
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < op->in; c++)
            p->dx[r * op->in + c] = p->dy[r * op->in + c] * s.work[c];
}

/* In place of gradients by the moving mean and variance, this returns the values that the shard averages: the rows'
 * own mean and variance, times the n examples. */
static void batch_backward(const struct op *op, const struct op_pass *p)
{
    const struct batch_state s = batch_state(op, p->state);
    const size_t cols = op->in, rows = p->rows, n = p->n;
    const float *x = p->x[0], *dy = p->dy;
    float *dx = p->dx, *dw = p->dw;
    sum_gradients(op, &s, dy, x, rows);
    for (size_t c = 0; c < cols; c++) {
        if (op->layer->normalization.scale)
            dw[op->normalization.gamma_offset + c] = (float)s.sum[1][c];
        if (op->layer->normalization.center)
            dw[op->normalization.beta_offset + c] = (float)s.sum[0][c];
        dw[op->normalization.mean_offset + c] = s.mean[c] * (float)n;
        dw[op->normalization.variance_offset + c] = s.variance[c] * (float)n;
    }
    if (!dx)
        return;
    slopes(op, s.work, p->w, s.inverse);
    float *mean_dy = s.variance, *mean_dot = s.more; /* the variance is no longer needed */
    for (size_t c = 0; c < cols; c++) {
        mean_dy[c] = (float)(s.sum[0][c] / (double)rows);
        mean_dot[c] = (float)(s.sum[1][c] / (double)rows) * s.inverse[c];
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            float centered = x[r * cols + c] - s.mean[c];
            dx[r * cols + c] = s.work[c] * (dy[r * cols + c] - mean_dy[c] - centered * mean_dot[c]);
        }
}

static const struct op_type frozen_batch_normalization_op = {
    .forward = batch_forward, .backward = frozen_backward, .state_bytes = batch_state_bytes};

static const struct op_type batch_normalization_op = {
    .forward = batch_forward, .backward = batch_backward, .state_bytes = batch_state_bytes};

/* ---- layer normalization ---- */

static void measure_row(const float *x, size_t cols, float epsilon, float *mean, float *inverse)
{
    double sum = 0.0, squares = 0.0;
    for (size_t c = 0; c < cols; c++)
        sum += (double)x[c];
    *mean = (float)(sum / (double)cols);
    for (size_t c = 0; c < cols; c++) {
        double d = (double)(x[c] - *mean);
        squares += d * d;
    }
    *inverse = inverse_of((float)(squares / (double)cols), epsilon);
}

static void layer_forward(const struct op *op, const struct op_pass *p)
{
    const size_t cols = op->in, rows = p->rows;
    const float *w = p->w, *x = p->x[0];
    float *y = p->y, *mean = p->state, *inverse = mean + rows;
    const float *gamma = op->layer->normalization.scale ? w + op->normalization.gamma_offset : NULL;
    const float *beta = op->layer->normalization.center ? w + op->normalization.beta_offset : NULL;
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        measure_row(x, cols, op->layer->normalization.epsilon, &mean[r], &inverse[r]);
        for (size_t c = 0; c < cols; c++) {
            float xhat = (x[c] - mean[r]) * inverse[r];
            y[c] = (gamma ? xhat * gamma[c] : xhat) + (beta ? beta[c] : 0.0f);
        }
    }
}

/* dgamma and dbeta: sums over rows, in their order. */
static void sum_rows(const struct op *op, float *dw, const float *dy, const float *x, size_t rows,
                     const float *mean, const float *inverse)
{
    const size_t cols = op->in;
    float *dgamma = op->layer->normalization.scale ? dw + op->normalization.gamma_offset : NULL;
    if (op->layer->normalization.center)
        kernels()->column_sums(dw + op->normalization.beta_offset, dy, rows, cols);
    if (!dgamma)
        return;
    memset(dgamma, 0, cols * sizeof *dgamma);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            dgamma[c] += dy[r * cols + c] * ((x[r * cols + c] - mean[r]) * inverse[r]);
}

static void layer_backward(const struct op *op, const struct op_pass *p)
{
    const size_t cols = op->in, rows = p->rows;
    const float *w = p->w, *x = p->x[0], *dy = p->dy, *mean = p->state, *inverse = mean + rows;
    float *dx = p->dx;
    const float *gamma = op->layer->normalization.scale ? w + op->normalization.gamma_offset : NULL;
    if (p->dw)
        sum_rows(op, p->dw, dy, x, rows, mean, inverse);
    for (size_t r = 0; dx && r < rows; r++, x += cols, dx += cols, dy += cols) {
        double plain = 0.0, dot = 0.0;
        for (size_t c = 0; c < cols; c++) {
            double g = (double)(gamma ? dy[c] * gamma[c] : dy[c]);
            plain += g;
            dot += g * (double)((x[c] - mean[r]) * inverse[r]);
        }
        float mean_g = (float)(plain / (double)cols), mean_dot = (float)(dot / (double)cols);
        for (size_t c = 0; c < cols; c++) {
            float g = gamma ? dy[c] * gamma[c] : dy[c];
            float xhat = (x[c] - mean[r]) * inverse[r];
            dx[c] = inverse[r] * (g - mean_g - xhat * mean_dot);
        }
    }
}

static const struct op_type layer_normalization_op = {
    .forward = layer_forward, .backward = layer_backward, .state_bytes = layer_state_bytes};
