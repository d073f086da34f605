/* Activations: keras.activations relu, sigmoid, tanh, softmax (over the last axis), leaky_relu, elu,
 * selu, gelu, silu, softplus. */
#include "worker/model/layers.h"

#include "common/math/kernels.h"

/* From here on a row is worth a call for its maximum and its sum. */
enum { WIDE_COLS = 64 };

const char *activation_name(enum activation a)
{
    static const char *const names[] = {"linear",  "relu",       "sigmoid", "tanh",
                                        "softmax", "leaky_relu", "elu",     "gelu",
                                        "gelu",    "selu",       "silu",    "softplus"};
    return names[a];
}

/* keras/src/activations/activations.py, selu */
static const float SELU_ALPHA = 1.6732632423543772f, SELU_SCALE = 1.0507009873554805f;

static bool needs_input(enum activation a)
{
    return a == ACT_GELU || a == ACT_GELU_TANH || a == ACT_SILU;
}

void activation_append(struct model *m, const struct job_layer *l, enum activation activation,
                       float alpha)
{
    if (activation == ACT_LINEAR)
        return;
    uint32_t last = m->shape.rank - 1, outer = 1;
    for (uint32_t i = 0; i < last; i++)
        outer *= m->shape.dim[i];
    const struct op op = {.type = &activation_op,
                          .layer = l,
                          .outer = outer,
                          .in = m->shape.dim[last],
                          .out = m->shape.dim[last],
                          .activation = activation,
                          .alpha = alpha,
                          .reads_x = needs_input(activation),
                          .reads_y = !needs_input(activation),
                          .elementwise = true};
    (void)op_append(m, &op);
}

/* leaky_relu as an activation has 0.2, the layer LeakyReLU 0.3 */
void activation_append_plain(struct model *m, const struct job_layer *l, enum activation activation)
{
    float alpha = activation == ACT_LEAKY_RELU ? 0.2f : activation == ACT_SELU ? SELU_ALPHA : 1.0f;
    activation_append(m, l, activation, alpha);
}

enum err activation_add(struct model *m, const struct job_layer *l, const struct tap *from,
                        struct errmsg *e)
{
    (void)from;
    (void)e;
    activation_append_plain(m, l, l->activation.activation);
    return ERR_OK;
}

enum err leaky_relu_add(struct model *m, const struct job_layer *l, const struct tap *from,
                        struct errmsg *e)
{
    (void)from;
    (void)e;
    activation_append(m, l, ACT_LEAKY_RELU, l->leaky_relu.negative_slope);
    return ERR_OK;
}

enum err elu_add(struct model *m, const struct job_layer *l, const struct tap *from,
                 struct errmsg *e)
{
    (void)from;
    (void)e;
    activation_append(m, l, ACT_ELU, l->elu.alpha);
    return ERR_OK;
}

enum err gelu_add(struct model *m, const struct job_layer *l, const struct tap *from,
                  struct errmsg *e)
{
    (void)from;
    (void)e;
    activation_append(m, l, l->gelu.approximate ? ACT_GELU_TANH : ACT_GELU, 1.0f);
    return ERR_OK;
}

static float row_max(const float *z, size_t cols)
{
    if (cols >= WIDE_COLS)
        return kernels()->max(z, cols);
    float max = z[0];
    for (size_t c = 1; c < cols; c++)
        max = z[c] > max ? z[c] : max;
    return max;
}

static float row_sum(const float *z, size_t cols)
{
    if (cols >= WIDE_COLS)
        return (float)kernels()->sum(z, cols);
    float sum = 0.0f;
    for (size_t c = 0; c < cols; c++)
        sum += z[c];
    return sum;
}

void softmax_rows(float *p, float *max, float *sum, const float *z, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        float largest = row_max(z + r * cols, cols);
        for (size_t c = 0; c < cols; c++)
            p[r * cols + c] = z[r * cols + c] - largest;
        if (max)
            max[r] = largest;
    }
    kernels()->exp(p, p, rows * cols);
    for (size_t r = 0; r < rows; r++) {
        float total = row_sum(p + r * cols, cols), inverse = 1.0f / total;
        for (size_t c = 0; c < cols; c++)
            p[r * cols + c] *= inverse;
        if (sum)
            sum[r] = total;
    }
}

static void relu_rows(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] <= 0.0f ? 0.0f : x[i]; /* NaN stays */
}

static void leaky_relu_rows(float *y, const float *x, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > 0.0f ? x[i] : x[i] * slope;
}

static void forward(const struct op *op, const struct op_pass *p)
{
    const float *x = p->x[0];
    float *y = p->y;
    size_t n = p->rows * op->in;
    switch (op->activation) {
    case ACT_LINEAR:
        break;
    case ACT_RELU:
        relu_rows(y, x, n);
        break;
    case ACT_SIGMOID:
        kernels()->sigmoid(y, x, n);
        break;
    case ACT_TANH:
        kernels()->tanh(y, x, n);
        break;
    case ACT_SOFTMAX:
        softmax_rows(y, NULL, NULL, x, p->rows, op->in);
        break;
    case ACT_LEAKY_RELU:
        leaky_relu_rows(y, x, op->alpha, n);
        break;
    case ACT_ELU:
        kernels()->elu(y, x, op->alpha, n);
        break;
    case ACT_SELU:
        kernels()->elu(y, x, op->alpha, n);
        kernels()->scale(y, y, SELU_SCALE, n);
        break;
    case ACT_GELU:
        kernels()->gelu(y, x, n);
        break;
    case ACT_GELU_TANH:
        kernels()->gelu_tanh(y, x, n);
        break;
    case ACT_SILU:
        kernels()->silu(y, x, n);
        break;
    case ACT_SOFTPLUS:
        kernels()->softplus(y, x, n);
        break;
    }
}

/* dx_i = y_i (dy_i - sum_j dy_j y_j) */
static void softmax_backward(float *dy, const float *y, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, dy += cols, y += cols) {
        double dot = 0.0;
        for (size_t c = 0; c < cols; c++)
            dot += (double)dy[c] * (double)y[c];
        for (size_t c = 0; c < cols; c++)
            dy[c] = y[c] * (dy[c] - (float)dot);
    }
}

static void leaky_relu_backward(float *dy, const float *y, float slope, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dy[i] *= y[i] > 0.0f ? 1.0f : slope;
}

/* elu's slope by its output below 0: alpha exp(x) = y + alpha; `scale` is selu's, 1 in elu. */
static void elu_backward(float *dy, const float *y, float alpha, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dy[i] *= y[i] > 0.0f ? scale : y[i] + scale * alpha;
}

/* By the output y or, where needs_input, by the input x. */
static void backward(const struct op *op, const struct op_pass *p)
{
    const float *x = p->x[0], *y = p->y;
    float *dy = p->dy;
    size_t n = p->rows * op->in;
    switch (op->activation) {
    case ACT_LINEAR:
        break;
    case ACT_RELU:
        kernels()->relu_backward(dy, y, n);
        break;
    case ACT_SIGMOID:
        for (size_t i = 0; i < n; i++)
            dy[i] *= y[i] * (1.0f - y[i]);
        break;
    case ACT_TANH:
        for (size_t i = 0; i < n; i++)
            dy[i] *= 1.0f - y[i] * y[i];
        break;
    case ACT_SOFTMAX:
        softmax_backward(dy, y, p->rows, op->in);
        break;
    case ACT_LEAKY_RELU:
        leaky_relu_backward(dy, y, op->alpha, n);
        break;
    case ACT_ELU:
        elu_backward(dy, y, op->alpha, 1.0f, n);
        break;
    case ACT_SELU:
        elu_backward(dy, y, op->alpha, SELU_SCALE, n);
        break;
    case ACT_GELU:
        kernels()->gelu_backward(dy, x, n);
        break;
    case ACT_GELU_TANH:
        kernels()->gelu_tanh_backward(dy, x, n);
        break;
    case ACT_SILU:
        kernels()->silu_backward(dy, x, n);
        break;
    case ACT_SOFTPLUS:
        kernels()->softplus_backward(dy, y, n);
        break;
    }
}

const struct op_type activation_op = {.forward = forward, .backward = backward};
