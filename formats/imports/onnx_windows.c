/* Convolutions and pools. */
#include "formats/imports/onnx_step.h"

#include <string.h>

enum { SIDE_MAX = 65536 };

/* An option that is a pair, with the comma after it; "" if it has its default. */
static const char *pair_text(char out[48], const char *option, const uint32_t pair[2],
                             uint32_t otherwise)
{
    out[0] = 0;
    if (pair[0] == pair[1] && pair[0] != otherwise)
        (void)snprintf(out, 48, ", %s: %u", option, pair[0]);
    else if (pair[0] != pair[1])
        (void)snprintf(out, 48, ", %s: [%u, %u]", option, pair[0], pair[1]);
    return out;
}

/* ---- windows ---- */

struct windows {
    uint32_t size[2], stride[2], dilation[2];
    bool same;
    uint32_t out[2];
};

static bool take_pair(const struct step *s, const char *attribute, int64_t otherwise,
                      uint32_t out[2])
{
    int64_t given[2] = {otherwise, otherwise};
    size_t n = onnx_ints(s->n, attribute, given, 2);
    if ((n != 0 && n != 2) || given[0] < 1 || given[1] < 1 || given[0] > SIDE_MAX ||
        given[1] > SIDE_MAX)
        return false;
    out[0] = (uint32_t)given[0];
    out[1] = (uint32_t)given[1];
    return true;
}

/* The sum of the padding that `same` has along one axis. */
static uint64_t same_padding(const struct windows *w, int axis, uint64_t in)
{
    uint64_t span = (uint64_t)(w->size[axis] - 1) * w->dilation[axis] + 1;
    uint64_t out = (in + w->stride[axis] - 1) / w->stride[axis];
    uint64_t needs = (out - 1) * w->stride[axis] + span;
    return needs > in ? needs - in : 0;
}

/* The padding as `valid` or `same`. False: it is neither. */
static bool take_padding(const struct step *s, struct windows *w)
{
    int64_t pad[4] = {0};
    size_t n = onnx_ints(s->n, "pads", pad, 4);
    w->same = onnx_attribute(s->n, "auto_pad") && onnx_text_is(s->n, "auto_pad", "SAME_UPPER");
    if (w->same || (onnx_attribute(s->n, "auto_pad") && onnx_text_is(s->n, "auto_pad", "VALID")))
        return true;
    if (!onnx_text_is(s->n, "auto_pad", "NOTSET") || (n != 0 && n != 4))
        return false;
    if (!pad[0] && !pad[1] && !pad[2] && !pad[3])
        return true;
    w->same = true;
    for (int axis = 0; axis < 2; axis++) {
        int64_t sum = (int64_t)same_padding(w, axis, s->x.dim[axis]);
        if (pad[axis] != sum / 2 || pad[axis + 2] != sum - sum / 2)
            return false;
    }
    return true;
}

/* size: 0 if the attribute kernel_shape gives it. */
static bool take_windows(const struct step *s, const uint32_t size[2], struct windows *w)
{
    bool fits = take_pair(s, "strides", 1, w->stride) && take_pair(s, "dilations", 1, w->dilation);
    if (size)
        memcpy(w->size, size, sizeof w->size);
    else
        fits = fits && onnx_attribute(s->n, "kernel_shape") &&
               take_pair(s, "kernel_shape", 1, w->size);
    if (!fits) {
        step_refuse(s, "its kernel, strides or dilations are not two numbers from 1 to %d",
                    SIDE_MAX);
        return false;
    }
    if (!take_padding(s, w)) {
        step_refuse(
            s, "its padding is neither `valid` nor `same` (as many zeros at both ends; an odd one "
               "at the end)");
        return false;
    }
    for (int axis = 0; axis < 2; axis++) {
        uint64_t span = (uint64_t)(w->size[axis] - 1) * w->dilation[axis] + 1;
        uint32_t in = s->x.dim[axis];
        if (!w->same && span > in) {
            step_refuse(s, "its window is larger than its input");
            return false;
        }
        w->out[axis] =
            w->same ? (in - 1) / w->stride[axis] + 1 : (uint32_t)(in - span) / w->stride[axis] + 1;
    }
    return true;
}

static struct walk_value after_windows(const struct step *s, const struct windows *w,
                                       uint32_t channels)
{
    struct walk_value v = s->x;
    v.dim[0] = w->out[0];
    v.dim[1] = w->out[1];
    v.dim[2] = channels;
    return v;
}

/* ---- convolutions and pools ---- */

/* (out, in, height, width) -> (height, width, in, out) */
static void fill_convolution(float *kernel, const Onnx__Tensor *t)
{
    uint64_t out = (uint64_t)t->dims[0], in = (uint64_t)t->dims[1];
    uint64_t taps = (uint64_t)t->dims[2] * (uint64_t)t->dims[3];
    for (uint64_t k = 0; k < taps; k++)
        for (uint64_t i = 0; i < in; i++)
            for (uint64_t o = 0; o < out; o++)
                kernel[(k * in + i) * out + o] = (float)onnx_tensor_at(t, (o * in + i) * taps + k);
}

/* False: it is refused. */
static bool check_kernel(const struct step *s, const Onnx__Tensor *t)
{
    if (!t || t->n_dims != 4)
        step_refuse(s, "its kernel must be a constant of four dimensions");
    else if (onnx_int(s->n, "group", 1) != 1)
        step_refuse(s, "group is %lld; a job's conv2d has no groups",
                    (long long)onnx_int(s->n, "group", 1));
    else if (t->dims[1] != s->x.dim[2] || t->dims[0] < 1 || t->dims[2] < 1 || t->dims[3] < 1 ||
             t->dims[2] > SIDE_MAX || t->dims[3] > SIDE_MAX || t->dims[0] > INT32_MAX)
        step_refuse(s, "its kernel does not fit its input");
    else
        return true;
    return false;
}

static void take_conv(const struct step *s)
{
    uint64_t elems, n = 0;
    struct windows w;
    const Onnx__Tensor *t = step_constant(s, 1, &elems), *bias = step_constant(s, 2, &n);
    if (!step_is_image(s) || !check_kernel(s, t))
        return;
    const uint32_t size[2] = {(uint32_t)t->dims[2], (uint32_t)t->dims[3]};
    uint32_t filters = (uint32_t)t->dims[0];
    if (!take_windows(s, size, &w))
        return;
    if (walk_input(s->n, 2)[0] && (!bias || n != filters)) {
        step_refuse(s, "its bias must be a vector of %u numbers", filters);
        return;
    }
    if (!bias)
        bias = step_bias_after(s, filters);
    char wanted[STEP_NAME_BYTES];
    step_layer_name(wanted, t);
    char sizes[48], strides[48], dilations[48];
    const char *layer = STEP_LAYER(
        s, "conv2d", wanted, "filters: %u%s%s%s%s%s", filters,
        pair_text(sizes, "kernel_size", w.size, 0), pair_text(strides, "strides", w.stride, 1),
        pair_text(dilations, "dilation_rate", w.dilation, 1), w.same ? ", padding: same" : "",
        bias ? "" : ", use_bias: false");
    float *kernel = layer ? sketch_part(&s->w->s, layer, "kernel", elems) : NULL;
    float *b = kernel && bias ? sketch_part(&s->w->s, layer, "bias", filters) : NULL;
    if (kernel)
        fill_convolution(kernel, t);
    if (b)
        step_fill(b, bias, filters);
    step_put(s, after_windows(s, &w, filters), "conv2d", layer);
}

static void take_pool(const struct step *s)
{
    struct windows w;
    if (!step_is_image(s) || !take_windows(s, NULL, &w))
        return;
    if (w.dilation[0] != 1 || w.dilation[1] != 1 || onnx_int(s->n, "ceil_mode", 0) ||
        (w.same && onnx_int(s->n, "count_include_pad", 0))) {
        step_refuse(s, "a job's pools have neither dilations nor ceil_mode nor count_include_pad");
        return;
    }
    char sizes[48], strides[48];
    bool tiled = memcmp(w.size, w.stride, sizeof w.size) == 0;
    const char *layer = STEP_LAYER(
        s, s->as, "", "%s%s%s", pair_text(sizes, "pool_size", w.size, 0) + 2,
        tiled ? "" : pair_text(strides, "strides", w.stride, 0), w.same ? ", padding: same" : "");
    step_put(s, after_windows(s, &w, s->x.dim[2]), s->as, layer);
}

static void pool_all(const struct step *s, bool keeps)
{
    struct walk_value v = s->x;
    if (keeps) {
        v.dim[0] = v.dim[1] = 1;
    } else {
        v.rank = 1;
        v.dim[0] = v.dim[2];
        v.first = false;
    }
    step_put(s, v, s->as, STEP_LAYER(s, s->as, "", "keepdims: %s", keeps ? "true" : "false"));
}

static void take_global_pool(const struct step *s)
{
    if (step_is_image(s))
        pool_all(s, true);
}

static void take_reduce(const struct step *s)
{
    int64_t axis[3];
    if (step_axes(s, axis, 3) == 2 && step_are_sides(s, axis))
        pool_all(s, onnx_int(s->n, "keepdims", 1) != 0);
    else
        step_refuse(s, "only over height and width");
}

#define WINDOWS "auto_pad dilations kernel_shape pads strides"
const struct operator operators_of_windows[] = {
    {"AveragePool", take_pool, WINDOWS " ceil_mode count_include_pad", "average_pooling2d"},
    {"Conv", take_conv, WINDOWS " group", NULL},
    {"GlobalAveragePool", take_global_pool, "", "global_average_pooling2d"},
    {"GlobalMaxPool", take_global_pool, "", "global_max_pooling2d"},
    {"MaxPool", take_pool, WINDOWS " ceil_mode storage_order", "max_pooling2d"},
    {"ReduceMax", take_reduce, "axes keepdims noop_with_empty_axes", "global_max_pooling2d"},
    {"ReduceMean", take_reduce, "axes keepdims noop_with_empty_axes", "global_average_pooling2d"},
    {.op = NULL},
};
