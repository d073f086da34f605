/* Pooling: keras.layers.MaxPooling2D, AveragePooling2D and their Global variants, which use one window over the
 * whole image. Padding is not an element: the maximum and the mean are over pixels of the image. A maximum's
 * gradient goes to the first of the largest pixels, in row order. */
#include "model/layers.h"

#include <string.h>

#include "common/math/kernels.h"

static enum err append_pooling(struct model *m, const struct job_layer *l, enum pooling pooling,
                               const uint32_t size[2], const uint32_t stride[2],
                               enum padding padding, struct errmsg *e)
{
    static const uint32_t close_by[2] = {1, 1};
    struct op op = {.type = &pooling_op,
                    .layer = l,
                    .outer = 1,
                    .pooling.kind = pooling,
                    .reads_x = pooling == POOLING_MAX};
    enum err code =
        window_init(&op.pooling.window, &m->shape, l->name, size, stride, close_by, padding, e);
    if (!code)
        code = window_elems(&op.pooling.window, op.pooling.window.channels, &op.out, l->name, e);
    if (code)
        return code;
    op.pooling.channels = op.pooling.window.channels;
    op.in = op.pooling.window.y.in * op.pooling.window.x.in * op.pooling.channels;
    op_append(m, &op);
    m->shape = (struct shape){
        .rank = 3, .dim = {op.pooling.window.y.out, op.pooling.window.x.out, op.pooling.channels}};
    return ERR_OK;
}

static enum err append_global(struct model *m, const struct job_layer *l, enum pooling pooling,
                              struct errmsg *e)
{
    static const uint32_t once[2] = {1, 1};
    const uint32_t whole[2] = {m->shape.dim[0], m->shape.dim[1]};
    enum err code = append_pooling(m, l, pooling, whole, once, PADDING_VALID, e);
    if (!code && !l->global_pooling2d.keepdims)
        m->shape = (struct shape){.rank = 1, .dim = {m->shape.dim[2]}};
    return code;
}

enum err max_pooling2d_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    return append_pooling(m, l, POOLING_MAX, l->pooling2d.pool_size, l->pooling2d.strides,
                          l->pooling2d.padding, e);
}

enum err average_pooling2d_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    return append_pooling(m, l, POOLING_AVERAGE, l->pooling2d.pool_size, l->pooling2d.strides,
                          l->pooling2d.padding, e);
}

enum err global_max_pooling2d_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    return append_global(m, l, POOLING_MAX, e);
}

enum err global_average_pooling2d_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    return append_global(m, l, POOLING_AVERAGE, e);
}

/* ---- one window ---- */

struct taps {     /* the taps inside the image */
    size_t first; /* index of the first element */
    uint32_t rows, cols;
};

static struct taps taps_of(const struct window *w, uint32_t oy, uint32_t ox)
{
    uint32_t top, bottom, left, right;
    window_taps(&w->y, oy, &top, &bottom);
    window_taps(&w->x, ox, &left, &right);
    int64_t y = window_first(&w->y, oy) + top, x = window_first(&w->x, ox) + left;
    return (struct taps){.first = ((size_t)y * w->x.in + (size_t)x) * w->channels,
                         .rows = bottom - top,
                         .cols = right - left};
}

/* Index of the first channel of a tap. */
static size_t tap_at(const struct window *w, const struct taps *t, uint32_t row, uint32_t col)
{
    return t->first + ((size_t)row * w->x.in + col) * w->channels;
}

/* NaN counts as larger than all, so that a guard sees it. */
static inline bool larger(float a, float b)
{
    return a > b || (a != a && b == b);
}

static void max_forward(float *y, const struct window *w, const float *x, const struct taps *t)
{
    memcpy(y, x + t->first, w->channels * sizeof *y);
    for (uint32_t i = 0; i < t->rows; i++)
        for (uint32_t j = 0; j < t->cols; j++) {
            const float *pixel = x + tap_at(w, t, i, j);
            for (uint32_t c = 0; c < w->channels; c++)
                y[c] = larger(pixel[c], y[c]) ? pixel[c] : y[c];
        }
}

static void max_backward(float *dx, const struct window *w, const float *dy, const float *x,
                         const struct taps *t)
{
    for (uint32_t c = 0; c < w->channels; c++) {
        size_t best = t->first + c;
        for (uint32_t i = 0; i < t->rows; i++)
            for (uint32_t j = 0; j < t->cols; j++) {
                size_t at = tap_at(w, t, i, j) + c;
                best = larger(x[at], x[best]) ? at : best;
            }
        dx[best] += dy[c];
    }
}

static void average_forward(float *y, const struct window *w, const float *x, const struct taps *t)
{
    const float share = 1.0f / ((float)t->rows * (float)t->cols);
    memset(y, 0, w->channels * sizeof *y);
    for (uint32_t i = 0; i < t->rows; i++)
        for (uint32_t j = 0; j < t->cols; j++) {
            const float *pixel = x + tap_at(w, t, i, j);
            for (uint32_t c = 0; c < w->channels; c++)
                y[c] += pixel[c];
        }
    for (uint32_t c = 0; c < w->channels; c++)
        y[c] *= share;
}

static void average_backward(float *dx, const struct window *w, const float *dy,
                             const struct taps *t)
{
    const float share = 1.0f / ((float)t->rows * (float)t->cols);
    for (uint32_t i = 0; i < t->rows; i++)
        for (uint32_t j = 0; j < t->cols; j++) {
            float *pixel = dx + tap_at(w, t, i, j);
            for (uint32_t c = 0; c < w->channels; c++)
                pixel[c] += dy[c] * share;
        }
}

/* ---- maxima of disjoint windows: one row of them at a time ---- */

/* The most pixels of a window whose index fits a byte; 255 means none. */
enum { KERNEL_TAPS_MAX = 255 };

static bool by_kernel(const struct op *op)
{
    const struct window *w = &op->pooling.window;
    return op->pooling.kind == POOLING_MAX && window_is_tiled(w) &&
           (uint64_t)w->y.size * w->x.size <= KERNEL_TAPS_MAX;
}

static size_t row_elems(const struct op *op)
{
    return (size_t)op->pooling.window.x.out * op->pooling.channels;
}

/* Memory for a row of maxima, and for the indices of their pixels. */
static size_t work_elems(const struct op *op)
{
    return by_kernel(op) ? 2 * row_elems(op) : 0;
}

static struct kernel_pool kernel_of(const struct op *op)
{
    const struct window *w = &op->pooling.window;
    return (struct kernel_pool){.size_y = w->y.size,
                                .size_x = w->x.size,
                                .stride_x = w->x.stride,
                                .width = w->x.in,
                                .windows = w->x.out,
                                .channels = op->pooling.channels};
}

static void rows_forward(const struct op *op, const struct op_pass *p)
{
    const struct kernel_pool k = kernel_of(op);
    const size_t out = row_elems(op),
                 in = (size_t)op->pooling.window.y.stride * k.width * k.channels;
    float *y = p->y;
    for (size_t b = 0; b < p->n; b++)
        for (size_t r = 0; r < op->pooling.window.y.out; r++, y += out)
            kernels()->max_pool(y, (uint8_t *)p->work, p->x[0] + b * op->in + r * in, NULL, &k);
}

/* The indices of the largest pixels are computed again, which is cheaper than keeping them. */
static void rows_backward(const struct op *op, const struct op_pass *p)
{
    const struct kernel_pool k = kernel_of(op);
    const size_t out = row_elems(op),
                 in = (size_t)op->pooling.window.y.stride * k.width * k.channels;
    uint8_t *which = (uint8_t *)(p->work + out);
    float *dy = p->dy;
    for (size_t b = 0; b < p->n; b++)
        for (size_t r = 0; r < op->pooling.window.y.out; r++, dy += out) {
            size_t at = b * op->in + r * in;
            kernels()->max_pool(p->work, which, p->x[0] + at, NULL, &k);
            kernels()->max_unpool(p->dx + at, dy, which, &k);
        }
}

/* ---- forward, backward ---- */

static void pooling_forward(const struct op *op, const struct op_pass *p)
{
    const struct window *w = &op->pooling.window;
    const float *x = p->x[0];
    float *y = p->y;
    if (by_kernel(op)) {
        rows_forward(op, p);
        return;
    }
    for (size_t b = 0; b < p->n; b++, x += op->in)
        for (uint32_t oy = 0; oy < w->y.out; oy++)
            for (uint32_t ox = 0; ox < w->x.out; ox++, y += op->pooling.channels) {
                const struct taps t = taps_of(w, oy, ox);
                if (op->pooling.kind == POOLING_MAX)
                    max_forward(y, w, x, &t);
                else
                    average_forward(y, w, x, &t);
            }
}

/* dy is changed temporarily, and restored. */
static void pooling_backward(const struct op *op, const struct op_pass *p)
{
    const struct window *w = &op->pooling.window;
    const float *x = p->x[0];
    float *dx = p->dx, *dy = p->dy;
    memset(dx, 0, p->n * op->in * sizeof *dx);
    if (by_kernel(op)) {
        rows_backward(op, p);
        return;
    }
    for (size_t b = 0; b < p->n; b++, x += op->in, dx += op->in)
        for (uint32_t oy = 0; oy < w->y.out; oy++)
            for (uint32_t ox = 0; ox < w->x.out; ox++, dy += op->pooling.channels) {
                const struct taps t = taps_of(w, oy, ox);
                if (op->pooling.kind == POOLING_MAX)
                    max_backward(dx, w, dy, x, &t);
                else
                    average_backward(dx, w, dy, &t);
            }
}

const struct op_type pooling_op = {
    .forward = pooling_forward, .backward = pooling_backward, .work_elems = work_elems};
