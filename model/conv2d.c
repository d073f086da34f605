/* Conv2D: keras.layers.Conv2D, channels last: y[i, j, o] = act(b[o] + sum over k, l, c of x[i stride + k dilation -
 * pad, j stride + l dilation - pad, c] W[k, l, c, o]), and 0 outside of the image. W is (height, width, in, out) as
 * in Keras.
 *
 * This file computes the shapes that conv2d_direct.c does not support, one block of output rows at a time: the input
 * of each output is copied to one row of a matrix ("im2col"; Chellapilla, Puri, Simard 2006), small enough to stay
 * in the cache, and OpenBLAS multiplies. Blocks depend only on the layer and the number of examples, and so do the
 * bits. */
#include "model/layers.h"

#include <cblas.h>
#include <string.h>

#include "common/math/kernels.h"

enum { COLUMNS_ELEMS = 1 << 15 }; /* of a block, or one output row if that is larger */

/* Number of inputs of one output. */
static size_t taps_elems(const struct op *op)
{
    return (size_t)op->conv2d.window.y.size * op->conv2d.window.x.size * op->conv2d.window.channels;
}

/* With a kernel of one pixel and no stride, the matrix is the input itself. */
static bool is_pointwise(const struct window *w)
{
    return w->y.size == 1 && w->x.size == 1 && w->y.stride == 1 && w->x.stride == 1;
}

static size_t block_rows(const struct op *op)
{
    size_t rows = COLUMNS_ELEMS / (taps_elems(op) * op->conv2d.window.x.out);
    return rows ? rows : 1;
}

static size_t conv2d_work_elems(const struct op *op)
{
    if (op->conv2d.direct)
        return conv2d_direct_work_elems(op);
    return block_rows(op) * op->conv2d.window.x.out * taps_elems(op);
}

static size_t conv2d_state_bytes(const struct op *op, size_t n)
{
    return op->conv2d.pooled ? n * op_out_elems(op) : 0; /* indices of the largest pixels */
}

static enum err add_tensors(struct model *m, struct op *op, struct errmsg *e)
{
    const struct window *w = &op->conv2d.window;
    struct tensor kernel = {.rank = 4,
                            .shape = {w->y.size, w->x.size, w->channels, op->conv2d.channels}};
    enum err code = weights_add_kernel_and_bias(m, op, &kernel, e);
    if (!code && (uint64_t)taps_elems(op) * w->x.out > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: its kernel is too large", op->layer->name);
    return code;
}

enum err conv2d_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    const uint32_t *strides = l->conv2d.strides, *dilation = l->conv2d.dilation_rate;
    bool relu = l->conv2d.activation == ACT_RELU;
    struct op op = {.type = &conv2d_op,
                    .layer = l,
                    .outer = 1,
                    .conv2d.channels = l->conv2d.filters,
                    .activation = relu ? ACT_RELU : ACT_LINEAR,
                    .reads_x = true,
                    .reads_y = relu};
    if ((strides[0] > 1 || strides[1] > 1) && (dilation[0] > 1 || dilation[1] > 1))
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: strides and dilation_rate cannot both be above 1",
                       l->name);
    enum err code = window_init(&op.conv2d.window, &m->shape, l->name, l->conv2d.kernel_size,
                                strides, dilation, l->conv2d.padding, e);
    if (!code)
        code = window_elems(&op.conv2d.window, op.conv2d.channels, &op.out, l->name, e);
    if (!code)
        code = add_tensors(m, &op, e);
    if (code)
        return code;
    op.in = op.conv2d.window.y.in * op.conv2d.window.x.in * op.conv2d.window.channels;
    op_append(m, &op);
    m->shape = (struct shape){
        .rank = 3, .dim = {op.conv2d.window.y.out, op.conv2d.window.x.out, op.conv2d.channels}};
    if (!relu)
        activation_append(m, l, l->conv2d.activation);
    return ERR_OK;
}

/* ---- images to matrices, and back ---- */

/* Copy the taps of one kernel row: (size, channels); taps outside of the image are 0. */
static void gather_taps(float *out, const struct window *w, const float *image_row, uint32_t ox)
{
    const uint32_t c = w->channels;
    uint32_t from, to;
    window_taps(&w->x, ox, &from, &to);
    int64_t first = window_first(&w->x, ox);
    memset(out, 0, (size_t)from * c * sizeof *out);
    for (uint32_t t = from; t < to; t++)
        memcpy(out + (size_t)t * c, image_row + (first + (int64_t)t * w->x.dilation) * c,
               c * sizeof *out);
    memset(out + (size_t)to * c, 0, (size_t)(w->x.size - to) * c * sizeof *out);
}

static void scatter_taps(float *image_row, const struct window *w, const float *d, uint32_t ox)
{
    const uint32_t c = w->channels;
    uint32_t from, to;
    window_taps(&w->x, ox, &from, &to);
    int64_t first = window_first(&w->x, ox);
    for (uint32_t t = from; t < to; t++) {
        float *pixel = image_row + (first + (int64_t)t * w->x.dilation) * c;
        for (uint32_t i = 0; i < c; i++)
            pixel[i] += d[(size_t)t * c + i];
    }
}

/* Copy the taps of one output row of one example: columns (x.out, y.size, x.size, channels). */
static void gather_row(float *columns, const struct window *w, const float *image, uint32_t oy)
{
    const size_t run = (size_t)w->x.size * w->channels, stride = w->y.size * run;
    uint32_t from, to;
    window_taps(&w->y, oy, &from, &to);
    for (uint32_t t = 0; t < w->y.size; t++) {
        float *out = columns + t * run;
        int64_t row = window_first(&w->y, oy) + (int64_t)t * w->y.dilation;
        const float *image_row = image + row * w->x.in * w->channels;
        for (uint32_t ox = 0; ox < w->x.out; ox++, out += stride)
            if (t < from || t >= to)
                memset(out, 0, run * sizeof *out);
            else
                gather_taps(out, w, image_row, ox);
    }
}

/* The reverse of gather_row: image += columns. */
static void scatter_row(float *image, const struct window *w, const float *columns, uint32_t oy)
{
    const size_t run = (size_t)w->x.size * w->channels, stride = w->y.size * run;
    uint32_t from, to;
    window_taps(&w->y, oy, &from, &to);
    for (uint32_t t = from; t < to; t++) {
        int64_t row = window_first(&w->y, oy) + (int64_t)t * w->y.dilation;
        float *image_row = image + row * w->x.in * w->channels;
        for (uint32_t ox = 0; ox < w->x.out; ox++)
            scatter_taps(image_row, w, columns + t * run + ox * stride, ox);
    }
}

/* Gather output rows [first, first + rows), counted over the examples. Returns the matrix. */
static const float *gather(const struct op *op, float *work, const float *x, size_t first,
                           size_t rows)
{
    const struct window *w = &op->conv2d.window;
    if (is_pointwise(w))
        return x + first * w->x.in * w->channels;
    const size_t row_elems = w->x.out * taps_elems(op);
    for (size_t r = 0; r < rows; r++)
        gather_row(work + r * row_elems, w, x + (first + r) / w->y.out * op->in,
                   (uint32_t)((first + r) % w->y.out));
    return work;
}

static void scatter(const struct op *op, float *dx, const float *work, size_t first, size_t rows)
{
    const struct window *w = &op->conv2d.window;
    const size_t row_elems = w->x.out * taps_elems(op);
    for (size_t r = 0; r < rows; r++)
        scatter_row(dx + (first + r) / w->y.out * op->in, w, work + r * row_elems,
                    (uint32_t)((first + r) % w->y.out));
}

/* ---- forward, backward ---- */

static void matrix_forward(const struct op *op, const struct op_pass *p)
{
    const size_t rows = p->n * op->conv2d.window.y.out, step = block_rows(op),
                 width = op->conv2d.window.x.out;
    const int out = (int)op->conv2d.channels, taps = (int)taps_elems(op);
    for (size_t first = 0; first < rows; first += step) {
        size_t count = rows - first < step ? rows - first : step;
        float *to = p->y + first * width * op->conv2d.channels;
        const float *columns = gather(op, p->work, p->x[0], first, count);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)(count * width), out, taps,
                    1.0f, columns, taps, p->w + op->kernel_offset, out, 0.0f, to, out);
        if (op->layer->use_bias)
            kernels()->bias_act(to, to, p->w + op->bias_offset, op->activation == ACT_RELU,
                                count * width, op->conv2d.channels);
        else if (op->activation == ACT_RELU)
            kernels()->relu_backward(to, to, count * width * op->conv2d.channels);
    }
}

static void matrix_backward(const struct op *op, const struct op_pass *p)
{
    const size_t rows = p->n * op->conv2d.window.y.out, step = block_rows(op),
                 width = op->conv2d.window.x.out;
    const int out = (int)op->conv2d.channels, taps = (int)taps_elems(op);
    if (op->activation == ACT_RELU)
        kernels()->relu_backward(p->dy, p->y, p->n * op->out);
    if (p->dx)
        memset(p->dx, 0, p->n * op->in * sizeof *p->dx);
    for (size_t first = 0; first < rows; first += step) {
        size_t count = rows - first < step ? rows - first : step;
        int pixels = (int)(count * width);
        const float *d = p->dy + first * width * op->conv2d.channels;
        if (p->dw)
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, taps, out, pixels, 1.0f,
                        gather(op, p->work, p->x[0], first, count), taps, d, out,
                        first ? 1.0f : 0.0f, p->dw + op->kernel_offset, out);
        if (!p->dx)
            continue;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, pixels, taps, out, 1.0f, d, out,
                    p->w + op->kernel_offset, out, 0.0f, p->work, taps);
        scatter(op, p->dx, p->work, first, count);
    }
    if (p->dw && op->layer->use_bias)
        kernels()->column_sums(p->dw + op->bias_offset, p->dy, rows * width, op->conv2d.channels);
}

static void conv2d_forward(const struct op *op, const struct op_pass *p)
{
    (op->conv2d.direct ? conv2d_direct_forward : matrix_forward)(op, p);
}

static void conv2d_backward(const struct op *op, const struct op_pass *p)
{
    (op->conv2d.direct ? conv2d_direct_backward : matrix_backward)(op, p);
}

const struct op_type conv2d_op = {.forward = conv2d_forward,
                                  .backward = conv2d_backward,
                                  .state_bytes = conv2d_state_bytes,
                                  .work_elems = conv2d_work_elems};

/* ---- before flow.c, when all ops are appended: which convolutions are computed without a matrix, and which of these include
 * the max_pooling2d that follows, so that their output is never written as a whole ---- */

enum { POOL_TAPS_MAX = 255 }; /* 255 means none */

/* trained[v] = an op before value v has parameters. */
static void find_trained(bool trained[OPS_MAX + 1], const struct model *m)
{
    trained[0] = false;
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op *op = &m->op[i];
        trained[i + 1] = op_learns(op);
        for (uint32_t k = 0; k < op->inputs; k++)
            trained[i + 1] = trained[i + 1] || trained[op->input[k]];
    }
}

/* True if op i is a pooling of disjoint windows directly after a convolution that nothing else reads. */
static bool may_join(const struct model *m, uint32_t i)
{
    const struct op *pool = &m->op[i];
    return i > 0 && pool->type == &pooling_op && pool->pooling.kind == POOLING_MAX &&
           pool->input[0] == i && m->op[i - 1].type == &conv2d_op && m->op[i - 1].conv2d.direct &&
           value_readers(m, i) == 1 && window_is_tiled(&pool->pooling.window) &&
           pool->pooling.window.y.size * pool->pooling.window.x.size <= POOL_TAPS_MAX;
}

/* Make op i a part of the op before it. */
static void join(struct model *m, uint32_t i)
{
    struct op *conv = &m->op[i - 1];
    conv->conv2d.pooled = true;
    conv->reads_y = false;
    conv->conv2d.pool = m->op[i].pooling.window;
    conv->out = m->op[i].out;
    op_remove(m, i);
}

void conv2d_fuse(struct model *m)
{
    bool trained[OPS_MAX + 1];
    find_trained(trained, m);
    for (uint32_t i = 0; i < m->ops; i++) {
        struct op *op = &m->op[i];
        if (op->type != &conv2d_op)
            continue;
        bool wants_dx = trained[op->input[0]];
        op->conv2d.direct = conv2d_may_be_direct(op, wants_dx);
        op->conv2d.direct_dx = op->conv2d.direct && wants_dx;
        op->blas = !op->conv2d.direct;
    }
    for (uint32_t i = 0; i < m->ops; i++)
        if (may_join(m, i))
            join(m, i--);
}
