/* Windows over an image (height, width, channels) of one row, for conv2d and pooling. */
#ifndef GRADWIRE_MODEL_WINDOW_H
#define GRADWIRE_MODEL_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"

struct shape;

struct window_axis {
    uint32_t in, out; /* number of pixels, of windows */
    /* taps of a window; the distances between windows and between taps, in pixels */
    uint32_t size, stride, dilation;
    uint32_t pad; /* number of pixels by which the first window begins before the image */
};

struct window {
    struct window_axis y, x;
    uint32_t channels; /* of the input */
};

/* Pixels from the first tap to the last, both included. */
static inline uint32_t window_span(const struct window_axis *a)
{
    return (a->size - 1) * a->dilation + 1;
}

/* The first pixel of window i, which may be before the image. */
static inline int64_t window_first(const struct window_axis *a, uint32_t i)
{
    return (int64_t)i * a->stride - a->pad;
}

/* The taps [from, to) of window i that are inside the image. */
static inline void window_taps(const struct window_axis *a, uint32_t i, uint32_t *from,
                               uint32_t *to)
{
    int64_t first = window_first(a, i), behind = (int64_t)a->in - first;
    *from = first >= 0 ? 0 : (uint32_t)((-first + a->dilation - 1) / a->dilation);
    *to = behind >= window_span(a) ? a->size : (uint32_t)((behind + a->dilation - 1) / a->dilation);
}

/* True if no pixel is in two windows, and no window has padding. */
bool window_is_tiled(const struct window *w);

/* Errors: ERR_INPUT: `in` is not an image, or not even one window fits; the layer is named. */
enum err window_init(struct window *w, const struct shape *in, const char *layer,
                     const uint32_t size[2], const uint32_t stride[2], const uint32_t dilation[2],
                     enum padding padding, struct errmsg *e) MUST_CHECK;

/* Elements of one row of output. Errors: ERR_INPUT: more than BLAS can count. */
enum err window_elems(const struct window *w, uint32_t channels, uint32_t *elems, const char *layer,
                      struct errmsg *e) MUST_CHECK;

#endif
