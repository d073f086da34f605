/* The geometry of windows that move over an image, shared by conv2d and pooling. Names are Keras's, and the formulas
 * for padding are TensorFlow's (tensorflow.org/api_docs/python/tf/nn, "Notes on padding"). */
#include "model/layers.h"

/* Compute one dimension's windows. False: not even one fits. */
static bool fit(struct window_axis *a, enum padding padding)
{
    uint32_t span = window_span(a);
    if (padding == PADDING_VALID) {
        a->out = a->in < span ? 0 : (a->in - span) / a->stride + 1;
        a->pad = 0;
        return a->out > 0;
    }
    a->out = (a->in - 1) / a->stride + 1;
    uint64_t reach = (uint64_t)(a->out - 1) * a->stride + span;
    a->pad = reach > a->in ? (uint32_t)((reach - a->in) / 2) : 0;
    return true;
}

static bool is_tiled(const struct window_axis *a)
{
    uint64_t reach = (uint64_t)(a->out - 1) * a->stride + window_span(a);
    return a->pad == 0 && reach <= a->in && a->size <= a->stride;
}

bool window_is_tiled(const struct window *w)
{
    return is_tiled(&w->y) && is_tiled(&w->x);
}

enum err window_init(struct window *w, const struct shape *in, const char *layer,
                     const uint32_t size[2], const uint32_t stride[2], const uint32_t dilation[2],
                     enum padding padding, struct errmsg *e)
{
    if (in->rank != 3)
        return err_set(
            e, ERR_INPUT,
            "model.layers: %s needs rows of 3 dimensions, (height, width, channels), but gets %u: "
            "use a model.input.shape with a channel, like [28, 28, 1], or a reshape before it",
            layer, in->rank);
    *w = (struct window){.channels = in->dim[2]};
    for (int i = 0; i < 2; i++) {
        struct window_axis *a = i ? &w->x : &w->y;
        *a = (struct window_axis){
            .in = in->dim[i], .size = size[i], .stride = stride[i], .dilation = dilation[i]};
        if (!fit(a, padding))
            return err_set(e, ERR_INPUT,
                           "model.layers: %s: its %s of %u is larger than the %u of its input: use "
                           "a smaller one, or padding: same",
                           layer, i ? "width" : "height", window_span(a), a->in);
    }
    return ERR_OK;
}

enum err window_elems(const struct window *w, uint32_t channels, uint32_t *elems, const char *layer,
                      struct errmsg *e)
{
    uint64_t n = (uint64_t)w->y.out * w->x.out;
    if (__builtin_mul_overflow(n, channels, &n) || n > INT32_MAX)
        return err_set(e, ERR_INPUT, "model.layers: %s: its output is too large", layer);
    *elems = (uint32_t)n;
    return ERR_OK;
}
