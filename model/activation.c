/* Activations: keras.activations relu, sigmoid, tanh, softmax (over the last axis), leaky_relu, elu,
 * selu, gelu, silu, softplus. */
#include "model/layers.h"

#include "common/math/kernels.h"

/* From this width on, a call per row for its maximum and its sum pays off. */
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

/* Append the op with this slope. */
static enum err append_activation(struct model *m, const struct job_layer *l,
                                  enum activation activation, float alpha)
{
    uint32_t cols = m->shape.dim[m->shape.rank - 1];
    const struct op op = {.type = &activation_op,
                          .layer = l,
                          .outer = shape_elems(&m->shape) / cols,
                          .in = cols,
                          .out = cols,
                          .activation = activation,
                          .alpha = alpha,
                          .reads_x = needs_input(activation),
                          .reads_y = !needs_input(activation),
                          .elementwise = true};
    if (activation != ACT_LINEAR)
        op_append(m, &op);
    return ERR_OK;
}

/* leaky_relu as an activation has 0.2, the layer LeakyReLU 0.3 */
void activation_append(struct model *m, const struct job_layer *l, enum activation activation)
{
    float alpha = activation == ACT_LEAKY_RELU ? 0.2f : activation == ACT_SELU ? SELU_ALPHA : 1.0f;
    (void)append_activation(m, l, activation, alpha);
}

enum err activation_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    (void)e;
    activation_append(m, l, l->activation.activation);
    return ERR_OK;
}

enum err leaky_relu_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    (void)e;
    return append_activation(m, l, ACT_LEAKY_RELU, l->leaky_relu.negative_slope);
}

enum err elu_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    (void)e;
    return append_activation(m, l, ACT_ELU, l->elu.alpha);
}

enum err gelu_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    (void)e;
    return append_activation(m, l, l->gelu.approximate ? ACT_GELU_TANH : ACT_GELU, 1.0f);
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

/* The signature of passes that need two pointers and a number of elements. */
typedef void plain_rows(float *out, const float *a, size_t n);

static void activation_forward(const struct op *op, const struct op_pass *p)
{
    const struct kernels *k = kernels();
    plain_rows *const plain[] = {
        [ACT_RELU] = relu_rows,      [ACT_SIGMOID] = k->sigmoid,     [ACT_TANH] = k->tanh,
        [ACT_GELU] = k->gelu,        [ACT_GELU_TANH] = k->gelu_tanh, [ACT_SILU] = k->silu,
        [ACT_SOFTPLUS] = k->softplus};
    const float *x = p->x[0];
    float *y = p->y;
    size_t n = p->rows * op->in;
    if (op->activation == ACT_SOFTMAX)
        softmax_rows(y, NULL, NULL, x, p->rows, op->in);
    else if (op->activation == ACT_LEAKY_RELU)
        leaky_relu_rows(y, x, op->alpha, n);
    else if (op->activation == ACT_ELU || op->activation == ACT_SELU)
        k->elu(y, x, op->alpha, n);
    else
        plain[op->activation](y, x, n);
    if (op->activation == ACT_SELU)
        k->scale(y, y, SELU_SCALE, n);
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

/* elu's slope from its output below 0: alpha exp(x) = y + alpha; `scale` is selu's, 1 for elu. */
static void elu_backward(float *dy, const float *y, float alpha, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dy[i] *= y[i] > 0.0f ? scale : y[i] + scale * alpha;
}

static void sigmoid_backward(float *dy, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dy[i] *= y[i] * (1.0f - y[i]);
}

static void tanh_backward(float *dy, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dy[i] *= 1.0f - y[i] * y[i];
}

/* From the output y or, if needs_input, from the input x. */
static void activation_backward(const struct op *op, const struct op_pass *p)
{
    const struct kernels *k = kernels();
    plain_rows *const plain[] = {[ACT_RELU] = k->relu_backward,
                                 [ACT_SIGMOID] = sigmoid_backward,
                                 [ACT_TANH] = tanh_backward,
                                 [ACT_GELU] = k->gelu_backward,
                                 [ACT_GELU_TANH] = k->gelu_tanh_backward,
                                 [ACT_SILU] = k->silu_backward,
                                 [ACT_SOFTPLUS] = k->softplus_backward};
    const float *y = p->y;
    float *dy = p->dy;
    size_t n = p->rows * op->in;
    if (op->activation == ACT_SOFTMAX)
        softmax_backward(dy, y, p->rows, op->in);
    else if (op->activation == ACT_LEAKY_RELU)
        leaky_relu_backward(dy, y, op->alpha, n);
    else if (op->activation == ACT_ELU || op->activation == ACT_SELU)
        elu_backward(dy, y, op->alpha, op->activation == ACT_SELU ? SELU_SCALE : 1.0f, n);
    else
        plain[op->activation](dy, needs_input(op->activation) ? p->x[0] : y, n);
}

const struct op_type activation_op = {.forward = activation_forward,
                                      .backward = activation_backward};
