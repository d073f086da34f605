/* conv2d without a matrix: kernels that hold the output's channels in vectors (kernels()->conv), one example at a
 * time, with a following max_pooling2d applied to rows that are still in the first-level cache. Backward for the
 * input is also a convolution: of the gradient, within a border of zeros, with the rotated kernel. */
#include "model/layers.h"

#include <string.h>

#include "common/math/kernels.h"

enum { TAPS_MAX = 1152, CHANNELS_STEP = 16 };

/* The scratch memory of one call. */
struct direct {
    uint32_t *tap, *tap_back; /* offsets of the kernel's taps, and of the rotated kernel's */
    float *image;             /* (image_y, image_x, in channels): the input within its padding */
    /* rows of output before the pooling; if dx is wanted, an example's gradient by them, within a border: (border_y,
     * border_x, channels) */
    float *z;
    float *turned; /* (y.size, x.size, channels, in channels) */
    size_t image_y, image_x, border_y, border_x;
    size_t cols; /* used columns of the output before the pooling */
};

bool conv2d_may_be_direct(const struct op *op, bool wants_dx)
{
    const struct window *w = &op->conv2d.window;
    size_t taps = (size_t)w->y.size * w->x.size * w->channels;
    if (op->conv2d.channels % CHANNELS_STEP || taps > TAPS_MAX)
        return false;
    return !wants_dx || (w->channels % CHANNELS_STEP == 0 && w->y.stride == 1 && w->x.stride == 1 &&
                         taps / w->channels * op->conv2d.channels <= TAPS_MAX);
}

/* ---- scratch memory ---- */

/* Pixels from the first to the last that a window covers, padding included. */
static size_t reach(const struct window_axis *a)
{
    size_t windows = (size_t)(a->out - 1) * a->stride + window_span(a), all = a->in + a->pad;
    return windows > all ? windows : all;
}

static bool is_padded(const struct window *w)
{
    return reach(&w->y) > w->y.in || reach(&w->x) > w->x.in;
}

static size_t used(const struct window_axis *pool, const struct window_axis *conv, bool pooled)
{
    return pooled ? (size_t)(pool->out - 1) * pool->stride + pool->size : conv->out;
}

/* Reserve `elems` floats of the memory, in whole cache lines. */
static float *direct_part(float *work, size_t *at, size_t elems)
{
    float *p = work ? work + *at : NULL;
    *at += (elems + 15) / 16 * 16;
    return p;
}

/* Divide up the memory; returns its size. work == NULL: only compute the size. */
static size_t direct_init(struct direct *d, const struct op *op, float *work)
{
    const struct window *w = &op->conv2d.window;
    const size_t taps = (size_t)w->y.size * w->x.size;
    size_t at = 0, rows = op->conv2d.pooled ? op->conv2d.pool.y.size : 0;
    *d = (struct direct){.image_y = reach(&w->y),
                         .image_x = reach(&w->x),
                         .border_y = w->y.in + window_span(&w->y) - 1,
                         .border_x = w->x.in + window_span(&w->x) - 1,
                         .cols = used(&op->conv2d.pool.x, &w->x, op->conv2d.pooled)};
    size_t z = rows * d->cols, border = op->conv2d.direct_dx ? d->border_y * d->border_x : 0;
    d->tap = (uint32_t *)direct_part(work, &at, taps * w->channels);
    d->image = direct_part(work, &at, is_padded(w) ? d->image_y * d->image_x * w->channels : 0);
    d->z = direct_part(work, &at, (z > border ? z : border) * op->conv2d.channels);
    if (op->conv2d.direct_dx) {
        d->tap_back = (uint32_t *)direct_part(work, &at, taps * op->conv2d.channels);
        d->turned = direct_part(work, &at, taps * op->conv2d.channels * w->channels);
    }
    return at;
}

size_t conv2d_direct_work_elems(const struct op *op)
{
    struct direct d;
    return direct_init(&d, op, NULL);
}

/* Offsets of a pixel's taps in an image of `width` pixels with so many channels. */
static void fill_taps(uint32_t *tap, const struct window *w, size_t width, size_t channels)
{
    for (uint32_t i = 0; i < w->y.size; i++)
        for (uint32_t j = 0; j < w->x.size; j++)
            for (size_t c = 0; c < channels; c++)
                *tap++ = (uint32_t)((i * w->y.dilation * width + j * w->x.dilation) * channels + c);
}

/* Begin a pass: set the taps, and the zeros around the image. */
static void direct_begin(struct direct *d, const struct op *op, float *work)
{
    const struct window *w = &op->conv2d.window;
    (void)direct_init(d, op, work);
    fill_taps(d->tap, w, d->image_x, w->channels);
    if (is_padded(w))
        memset(d->image, 0, d->image_y * d->image_x * w->channels * sizeof *d->image);
}

/* The example's input with its padding. */
static const float *padded(const struct direct *d, const struct window *w, const float *x)
{
    const size_t row = (size_t)w->x.in * w->channels;
    if (!is_padded(w))
        return x;
    for (uint32_t i = 0; i < w->y.in; i++)
        memcpy(d->image + ((i + w->y.pad) * d->image_x + w->x.pad) * w->channels, x + i * row,
               row * sizeof *x);
    return d->image;
}

/* The convolution of `rows` rows of output, `z_row` elements apart. */
static struct kernel_conv conv_of(const struct direct *d, const struct op *op, size_t rows,
                                  size_t z_row)
{
    const struct window *w = &op->conv2d.window;
    return (struct kernel_conv){.tap = d->tap,
                                .taps = (size_t)w->y.size * w->x.size * w->channels,
                                .stride = (size_t)w->x.stride * w->channels,
                                .x_row = w->y.stride * d->image_x * w->channels,
                                .z_row = z_row,
                                .rows = rows,
                                .pixels = d->cols,
                                .channels = op->conv2d.channels};
}

static struct kernel_pool pool_of(const struct op *op, size_t width)
{
    return (struct kernel_pool){.size_y = op->conv2d.pool.y.size,
                                .size_x = op->conv2d.pool.x.size,
                                .stride_x = op->conv2d.pool.x.stride,
                                .width = width,
                                .windows = op->conv2d.pool.x.out,
                                .channels = op->conv2d.channels,
                                .relu = op->activation == ACT_RELU};
}

/* ---- forward ---- */

/* One example: for each row of windows compute its rows, then their maxima. */
static void forward_pooled(const struct direct *d, const struct op *op, float *y, uint8_t *arg,
                           const float *kernel, const float *bias, const float *image)
{
    const size_t out_row = (size_t)op->conv2d.pool.x.out * op->conv2d.channels;
    const struct kernel_conv conv =
        conv_of(d, op, op->conv2d.pool.y.size, d->cols * op->conv2d.channels);
    const struct kernel_pool pool = pool_of(op, d->cols);
    for (size_t r = 0; r < op->conv2d.pool.y.out; r++) {
        kernels()->conv(d->z, image + r * op->conv2d.pool.y.stride * conv.x_row, kernel, bias,
                        &conv);
        kernels()->max_pool(y + r * out_row, arg + r * out_row, d->z, NULL, &pool);
    }
}

static bool pools_2x2(const struct op *op)
{
    return op->conv2d.pool.y.size == 2 && op->conv2d.pool.x.size == 2 &&
           op->conv2d.pool.x.stride == 2;
}

/* The same without z. arg: NULL: there is no backward. */
static void forward_pooled_2x2(const struct direct *d, const struct op *op, float *y, uint8_t *arg,
                               const float *kernel, const float *bias, const float *image)
{
    const size_t out_row = (size_t)op->conv2d.pool.x.out * op->conv2d.channels;
    const struct kernel_conv conv = conv_of(d, op, 2, 0);
    for (size_t r = 0; r < op->conv2d.pool.y.out; r++)
        kernels()->conv_pool(y + r * out_row, arg ? arg + r * out_row : NULL,
                             image + r * op->conv2d.pool.y.stride * conv.x_row, kernel, bias,
                             op->activation == ACT_RELU, &conv);
}

void conv2d_direct_forward(const struct op *op, const struct op_pass *p)
{
    struct direct d;
    const float *x = p->x[0];
    float *y = p->y;
    uint8_t *arg = p->state;
    direct_begin(&d, op, p->work);
    const struct kernel_conv conv =
        conv_of(&d, op, op->conv2d.window.y.out, d.cols * op->conv2d.channels);
    const float *kernel = p->w + op->kernel_offset,
                *bias = op->layer->use_bias ? p->w + op->bias_offset : NULL;
    for (size_t b = 0; b < p->n; b++, x += op->in, y += op->out) {
        const float *image = padded(&d, &op->conv2d.window, x);
        if (op->conv2d.pooled && pools_2x2(op))
            forward_pooled_2x2(&d, op, y, p->train ? arg + b * op->out : NULL, kernel, bias, image);
        else if (op->conv2d.pooled)
            forward_pooled(&d, op, y, arg + b * op->out, kernel, bias, image);
        else
            kernels()->conv(y, image, kernel, bias, &conv);
        if (!op->conv2d.pooled && op->activation == ACT_RELU)
            kernels()->relu_backward(y, y, op->out); /* y = 0 where y <= 0 */
    }
}

/* ---- backward ---- */

/* Make the rotated kernel for backward: taps in reverse, in and out exchanged. */
static void turn(const struct direct *d, const struct op *op, const float *kernel)
{
    const size_t taps = (size_t)op->conv2d.window.y.size * op->conv2d.window.x.size,
                 in = op->conv2d.window.channels, out = op->conv2d.channels;
    fill_taps(d->tap_back, &op->conv2d.window, d->border_x, out);
    for (size_t t = 0; t < taps; t++)
        for (size_t c = 0; c < in; c++)
            for (size_t o = 0; o < out; o++)
                d->turned[(t * out + o) * in + c] = kernel[((taps - 1 - t) * in + c) * out + o];
}

/* One example's gradient before the pooling, from z on, `width` pixels a row. dy becomes 0 where relu was inactive. */
static void unpool(const struct op *op, float *z, float *dy, const uint8_t *arg, size_t width)
{
    const size_t out_row = (size_t)op->conv2d.pool.x.out * op->conv2d.channels;
    const struct kernel_pool pool = pool_of(op, width);
    for (size_t r = 0; r < op->conv2d.pool.y.out; r++)
        kernels()->max_unpool(z + r * op->conv2d.pool.y.stride * width * op->conv2d.channels,
                              dy + r * out_row, arg + r * out_row, &pool);
}

/* One example without dx: one row of windows at a time, while it is in the cache. */
static void backward_pooled(const struct direct *d, const struct op *op, float *dw, float *dy,
                            const uint8_t *arg, const float *image)
{
    const size_t out_row = (size_t)op->conv2d.pool.x.out * op->conv2d.channels;
    const struct kernel_conv conv =
        conv_of(d, op, op->conv2d.pool.y.size, d->cols * op->conv2d.channels);
    const struct kernel_pool pool = pool_of(op, d->cols);
    for (size_t r = 0; r < op->conv2d.pool.y.out; r++) {
        kernels()->max_unpool(d->z, dy + r * out_row, arg + r * out_row, &pool);
        kernels()->conv_dw(dw, image + r * op->conv2d.pool.y.stride * conv.x_row, d->z, &conv);
    }
}

/* One example with dx. dw: NULL if it is not needed. */
static void backward_both(const struct direct *d, const struct op *op, float *dx, float *dw,
                          float *dy, const uint8_t *arg, const float *image)
{
    const struct window *w = &op->conv2d.window;
    const size_t channels = op->conv2d.channels, row = d->border_x * channels;
    float *z = d->z + (window_span(&w->y) - 1 - w->y.pad) * row +
               (window_span(&w->x) - 1 - w->x.pad) * channels;
    size_t rows = used(&op->conv2d.pool.y, &w->y, op->conv2d.pooled);
    if (op->conv2d.pooled)
        unpool(op, z, dy, arg, d->border_x);
    else
        for (size_t r = 0; r < rows; r++)
            memcpy(z + r * row, dy + r * d->cols * channels, d->cols * channels * sizeof *z);
    const struct kernel_conv forth = conv_of(d, op, rows, row);
    if (dw)
        kernels()->conv_dw(dw, image, z, &forth);
    const struct kernel_conv back = {.tap = d->tap_back,
                                     .taps = (size_t)w->y.size * w->x.size * channels,
                                     .stride = channels,
                                     .x_row = row,
                                     .z_row = (size_t)w->x.in * w->channels,
                                     .rows = w->y.in,
                                     .pixels = w->x.in,
                                     .channels = w->channels};
    kernels()->conv(dx, d->z, d->turned, NULL, &back);
}

void conv2d_direct_backward(const struct op *op, const struct op_pass *p)
{
    struct direct d;
    const struct window *win = &op->conv2d.window;
    float *dx = p->dx, *dy = p->dy, *dkernel = p->dw ? p->dw + op->kernel_offset : NULL;
    direct_begin(&d, op, p->work);
    const struct kernel_conv conv = conv_of(&d, op, win->y.out, d.cols * op->conv2d.channels);
    if (dkernel)
        memset(dkernel, 0, conv.taps * op->conv2d.channels * sizeof *dkernel);
    if (dx)
        turn(&d, op, p->w + op->kernel_offset);
    /* Elements that no window covers stay 0: the border, and gaps between windows. */
    if (dx)
        memset(d.z, 0, d.border_y * d.border_x * op->conv2d.channels * sizeof *d.z);
    else if (op->conv2d.pooled)
        memset(d.z, 0, op->conv2d.pool.y.size * d.cols * op->conv2d.channels * sizeof *d.z);
    if (!op->conv2d.pooled && op->activation == ACT_RELU)
        kernels()->relu_backward(dy, p->y, p->n * op->out);
    for (size_t b = 0; b < p->n; b++) {
        const float *image = padded(&d, win, p->x[0] + b * op->in);
        const uint8_t *which = op->conv2d.pooled ? (const uint8_t *)p->state + b * op->out : NULL;
        float *d_out = dy + b * op->out;
        if (dx)
            backward_both(&d, op, dx + b * op->in, dkernel, d_out, which, image);
        else if (op->conv2d.pooled)
            backward_pooled(&d, op, dkernel, d_out, which, image);
        else
            kernels()->conv_dw(dkernel, image, d_out, &conv);
    }
    if (p->dw && op->layer->use_bias)
        kernels()->column_sums(p->dw + op->bias_offset, dy, p->n * (op->out / op->conv2d.channels),
                               op->conv2d.channels);
}
