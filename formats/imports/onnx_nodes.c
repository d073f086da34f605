/* The operators of ONNX (https://onnx.ai/onnx/operators/) that our layers have. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "formats/imports/onnx_walk.h"

enum { NAME_BYTES = 64, SIDE_MAX = 65536 };

/* A node that is taken over. */
struct step {
    struct walk *w;
    const Onnx__Node *n;
    size_t at;           /* index of the node */
    struct walk_value x; /* input 0, which depends on the model's input */
};

/* ---- helpers ---- */

#define REFUSE(s, ...) refuse((s), "" __VA_ARGS__)

static void refuse(const struct step *s, const char *format, ...) PRINTF_LIKE(2, 3);
static void refuse(const struct step *s, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = s->n->name[0] ? s->n->name : s->n->n_output ? s->n->output[0] : "";
    sketch_refuse(&s->w->s, "%.40s (%.80s): %s", s->n->op_type, name, text);
}

/* Input i as a constant with its number of elements; NULL: it is missing, is no constant, or cannot be read. */
static const Onnx__Tensor *constant(const struct step *s, size_t i, uint64_t *elems)
{
    const struct walk_value *v = walk_find(s->w, walk_input(s->n, i));
    return v && v->data && onnx_tensor_elems(v->data, elems) ? v->data : NULL;
}

/* The name of a layer, from that of its tensor: "block.conv1.weight" -> "block.conv1"; "" if it has none. */
static void layer_name(char out[NAME_BYTES], const Onnx__Tensor *t)
{
    const char *end = strrchr(t->name, '/'), *dot = strrchr(t->name, '.');
    if (!end || (dot && dot > end))
        end = dot;
    size_t n = end ? (size_t)(end - t->name) : 0;
    (void)snprintf(out, NAME_BYTES, "%.*s", n < NAME_BYTES ? (int)n : NAME_BYTES - 1, t->name);
    for (char *slash; (slash = strrchr(out, '/'));)
        memmove(out, slash + 1, strlen(slash));
}

/* Add a layer with one input. */
#define LAYER(s, word, wanted, ...)                                                                \
    sketch_layer(&(s)->w->s, (word), (wanted), &(s)->x.layer, 1, "" __VA_ARGS__)

/* The node's output is the output of the layer; NULL: the layer was refused. */
static void put(const struct step *s, struct walk_value v, const char *word, const char *layer)
{
    if (!layer || s->n->n_output == 0)
        return;
    v.layer = layer;
    v.word = word;
    v.gamma = v.beta = NULL;
    walk_put(s->w, s->n->output[0], v);
}

/* The node changes nothing. */
static void pass(const struct step *s)
{
    struct walk_value v = s->x;
    v.gamma = v.beta = NULL;
    if (!v.word[0] && walk_uses(s->w, walk_input(s->n, 0)) != 1)
        v.word = JOB_INPUT_NAME; /* not every reader sees a scale that follows */
    if (s->n->n_output)
        walk_put(s->w, s->n->output[0], v);
}

static uint32_t elems_of(const struct walk_value *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++)
        n = n * v->dim[i] > UINT32_MAX ? UINT32_MAX : n * v->dim[i];
    return (uint32_t)n;
}

/* The last axis as the job has it. */
static uint32_t width_of(const struct walk_value *v)
{
    return v->dim[v->rank - 1];
}

/* The place in the file of element i of a vector that was flattened with channels first. */
static uint64_t place_of(const struct walk_value *v, uint64_t i)
{
    uint64_t pixels = v->channels ? v->dim[0] / v->channels : 0;
    return v->channels ? i % v->channels * pixels + i / v->channels : i;
}

static bool is_image(const struct step *s)
{
    if (s->x.rank == 3 && s->x.first)
        return true;
    REFUSE(s, "its input must be an image (n, channels, height, width)");
    return false;
}

/* The shortest decimal number that reads back as the float. */
static const char *short_text(char out[24], double x)
{
    for (int digits = 1; digits <= 9; digits++) {
        (void)snprintf(out, 24, "%.*g", digits, (double)(float)x);
        if (strtof(out, NULL) == (float)x)
            break;
    }
    return out;
}

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

/* ---- dense ---- */

/* The bias of a product, from a node that only adds it: then that node is taken along. */
static const Onnx__Tensor *bias_after(const struct step *s, uint64_t units)
{
    size_t at;
    uint64_t elems;
    const Onnx__Node *next = s->n->n_output ? walk_only_reader(s->w, s->n->output[0], &at) : NULL;
    if (!next || strcmp(next->op_type, "Add") != 0 || next->n_input != 2 || next->n_output != 1)
        return NULL;
    size_t other = strcmp(next->input[0], s->n->output[0]) == 0;
    const struct walk_value *v = walk_find(s->w, next->input[other]);
    bool fits = v && v->data && onnx_tensor_elems(v->data, &elems) && elems == units;
    const Onnx__Tensor *t = fits ? v->data : NULL;
    bool images = s->x.rank == 3 && s->x.first;
    size_t axis = images ? 3 : 1; /* from the end */
    fits = fits && t->n_dims >= axis && t->dims[t->n_dims - axis] == (int64_t)units;
    if (!fits)
        return NULL;
    s->w->alias[at] = s->n->output[0];
    return t;
}

static void fill_kernel(const struct step *s, float *kernel, const Onnx__Tensor *t, uint64_t in,
                        uint64_t units, bool transposed)
{
    for (uint64_t i = 0; i < in; i++) {
        uint64_t from = place_of(&s->x, i);
        for (uint64_t o = 0; o < units; o++)
            kernel[i * units + o] =
                (float)onnx_tensor_at(t, transposed ? o * in + from : from * units + o);
    }
}

static void fill_all(float *to, const Onnx__Tensor *t, uint64_t n, double factor)
{
    uint64_t elems = 0;
    bool one = onnx_tensor_elems(t, &elems) && elems == 1;
    for (uint64_t i = 0; i < n; i++)
        to[i] = (float)(factor * onnx_tensor_at(t, one ? 0 : i));
}

static void dense(const struct step *s, bool transposed, const Onnx__Tensor *bias)
{
    uint64_t elems;
    const Onnx__Tensor *t = constant(s, 1, &elems);
    if (!t || t->n_dims != 2 || elems == 0) {
        REFUSE(s, "its second input must be a constant matrix of numbers");
        return;
    }
    uint64_t in = (uint64_t)t->dims[transposed], units = (uint64_t)t->dims[!transposed], n;
    if (in != width_of(&s->x) || s->x.first) {
        REFUSE(s, "its matrix does not fit its input");
        return;
    }
    bool gemm = bias != NULL;
    if (!bias)
        bias = bias_after(s, units);
    if (bias && (!onnx_tensor_elems(bias, &n) || (n != units && !(gemm && n == 1)))) {
        REFUSE(s, "its third input must be a vector of %llu numbers", (unsigned long long)units);
        return;
    }
    char wanted[NAME_BYTES];
    layer_name(wanted, t);
    struct walk_value v = s->x;
    v.dim[v.rank - 1] = (uint32_t)units;
    v.channels = 0;
    const char *layer = LAYER(s, "dense", wanted, "units: %u%s", v.dim[v.rank - 1],
                              bias ? "" : ", use_bias: false");
    float *kernel = layer ? sketch_part(&s->w->s, layer, "kernel", elems) : NULL;
    float *b = kernel && bias ? sketch_part(&s->w->s, layer, "bias", units) : NULL;
    if (kernel)
        fill_kernel(s, kernel, t, in, units, transposed);
    if (b)
        fill_all(b, bias, units, 1);
    put(s, v, "dense", layer);
}

static void matmul(const struct step *s)
{
    dense(s, false, NULL);
}

static void gemm(const struct step *s)
{
    uint64_t elems;
    const Onnx__Tensor *c = constant(s, 2, &elems);
    bool plain = onnx_float(s->n, "alpha", 1) == 1 && onnx_float(s->n, "beta", 1) == 1 &&
                 !onnx_int(s->n, "transA", 0);
    if (!plain || s->x.rank != 1 || (walk_input(s->n, 2)[0] && !c))
        REFUSE(s, "alpha and beta must be 1, transA 0, and C a constant");
    else
        dense(s, onnx_int(s->n, "transB", 0) != 0, c);
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
        REFUSE(s, "its kernel, strides or dilations are not two numbers from 1 to %d", SIDE_MAX);
        return false;
    }
    if (!take_padding(s, w)) {
        REFUSE(s,
               "its padding is neither `valid` nor `same` (as many zeros at both ends; an odd one "
               "at the end)");
        return false;
    }
    for (int axis = 0; axis < 2; axis++) {
        uint64_t span = (uint64_t)(w->size[axis] - 1) * w->dilation[axis] + 1;
        uint32_t in = s->x.dim[axis];
        if (!w->same && span > in) {
            REFUSE(s, "its window is larger than its input");
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
        REFUSE(s, "its kernel must be a constant of four dimensions");
    else if (onnx_int(s->n, "group", 1) != 1)
        REFUSE(s, "group is %lld; a job's conv2d has no groups",
               (long long)onnx_int(s->n, "group", 1));
    else if (t->dims[1] != s->x.dim[2] || t->dims[0] < 1 || t->dims[2] < 1 || t->dims[3] < 1 ||
             t->dims[2] > SIDE_MAX || t->dims[3] > SIDE_MAX || t->dims[0] > INT32_MAX)
        REFUSE(s, "its kernel does not fit its input");
    else
        return true;
    return false;
}

static void conv(const struct step *s)
{
    uint64_t elems, n = 0;
    struct windows w;
    const Onnx__Tensor *t = constant(s, 1, &elems), *bias = constant(s, 2, &n);
    if (!is_image(s) || !check_kernel(s, t))
        return;
    const uint32_t size[2] = {(uint32_t)t->dims[2], (uint32_t)t->dims[3]};
    uint32_t filters = (uint32_t)t->dims[0];
    if (!take_windows(s, size, &w))
        return;
    if (walk_input(s->n, 2)[0] && (!bias || n != filters)) {
        REFUSE(s, "its bias must be a vector of %u numbers", filters);
        return;
    }
    if (!bias)
        bias = bias_after(s, filters);
    char wanted[NAME_BYTES];
    layer_name(wanted, t);
    char sizes[48], strides[48], dilations[48];
    const char *layer = LAYER(s, "conv2d", wanted, "filters: %u%s%s%s%s%s", filters,
                              pair_text(sizes, "kernel_size", w.size, 0),
                              pair_text(strides, "strides", w.stride, 1),
                              pair_text(dilations, "dilation_rate", w.dilation, 1),
                              w.same ? ", padding: same" : "", bias ? "" : ", use_bias: false");
    float *kernel = layer ? sketch_part(&s->w->s, layer, "kernel", elems) : NULL;
    float *b = kernel && bias ? sketch_part(&s->w->s, layer, "bias", filters) : NULL;
    if (kernel)
        fill_convolution(kernel, t);
    if (b)
        fill_all(b, bias, filters, 1);
    put(s, after_windows(s, &w, filters), "conv2d", layer);
}

static void pool(const struct step *s, const char *word)
{
    struct windows w;
    if (!is_image(s) || !take_windows(s, NULL, &w))
        return;
    if (w.dilation[0] != 1 || w.dilation[1] != 1 || onnx_int(s->n, "ceil_mode", 0) ||
        (w.same && onnx_int(s->n, "count_include_pad", 0))) {
        REFUSE(s, "a job's pools have neither dilations nor ceil_mode nor count_include_pad");
        return;
    }
    char sizes[48], strides[48];
    bool tiled = memcmp(w.size, w.stride, sizeof w.size) == 0;
    const char *layer = LAYER(s, word, "", "%s%s%s", pair_text(sizes, "pool_size", w.size, 0) + 2,
                              tiled ? "" : pair_text(strides, "strides", w.stride, 0),
                              w.same ? ", padding: same" : "");
    put(s, after_windows(s, &w, s->x.dim[2]), word, layer);
}

static void max_pool(const struct step *s)
{
    pool(s, "max_pooling2d");
}

static void average_pool(const struct step *s)
{
    pool(s, "average_pooling2d");
}

static void pool_all(const struct step *s, const char *word, bool keeps)
{
    struct walk_value v = s->x;
    if (keeps) {
        v.dim[0] = v.dim[1] = 1;
    } else {
        v.rank = 1;
        v.dim[0] = v.dim[2];
        v.first = false;
    }
    put(s, v, word, LAYER(s, word, "", "keepdims: %s", keeps ? "true" : "false"));
}

static void global_average(const struct step *s)
{
    if (is_image(s))
        pool_all(s, "global_average_pooling2d", true);
}

static void global_max(const struct step *s)
{
    if (is_image(s))
        pool_all(s, "global_max_pooling2d", true);
}

/* Up to `room` integers of an attribute, or of input 1. */
static size_t take_axes(const struct step *s, int64_t *out, size_t room)
{
    uint64_t elems;
    const Onnx__Tensor *t = constant(s, 1, &elems);
    if (!t)
        return onnx_ints(s->n, "axes", out, room);
    for (uint64_t i = 0; i < elems && i < room; i++)
        out[i] = (int64_t)onnx_tensor_at(t, i);
    return elems < room ? (size_t)elems : room;
}

/* Whether these two axes of the file are height and width. */
static bool are_sides(const struct step *s, const int64_t axis[2])
{
    int64_t a = axis[0] < 0 ? axis[0] + 4 : axis[0], b = axis[1] < 0 ? axis[1] + 4 : axis[1];
    int64_t from = s->x.first ? 2 : 1;
    return s->x.rank == 3 && (a < b ? a : b) == from && (a < b ? b : a) == from + 1;
}

static void reduce(const struct step *s, const char *word)
{
    int64_t axis[3];
    if (take_axes(s, axis, 3) == 2 && are_sides(s, axis))
        pool_all(s, word, onnx_int(s->n, "keepdims", 1) != 0);
    else
        REFUSE(s, "only over height and width");
}

static void reduce_mean(const struct step *s)
{
    reduce(s, "global_average_pooling2d");
}

static void reduce_max(const struct step *s)
{
    reduce(s, "global_max_pooling2d");
}

/* ---- normalizations ---- */

/* The values of a vector of the input's width, in the job's order. */
static bool fill_width(const struct step *s, const char *layer, const char *what,
                       const Onnx__Tensor *t)
{
    uint32_t width = width_of(&s->x);
    float *to = sketch_part(&s->w->s, layer, what, width);
    for (uint32_t i = 0; to && i < width; i++)
        to[i] = (float)onnx_tensor_at(t, place_of(&s->x, i));
    return to != NULL;
}

static void batch_normalization(const struct step *s)
{
    static const char *const what[] = {"gamma", "beta", "moving_mean", "moving_variance"};
    const Onnx__Tensor *t[4];
    uint64_t elems;
    bool fits = s->x.rank == 1 || (s->x.rank == 3 && s->x.first);
    for (size_t i = 0; i < 4; i++) {
        t[i] = constant(s, i + 1, &elems);
        fits = fits && t[i] && elems == width_of(&s->x);
    }
    if (!fits || onnx_int(s->n, "training_mode", 0)) {
        REFUSE(s, "its scale, shift, mean and variance must be constants for the channels");
        return;
    }
    char wanted[NAME_BYTES], epsilon[24], momentum[24];
    layer_name(wanted, t[0]);
    const char *layer = LAYER(s, "batch_normalization", wanted, "epsilon: %s, momentum: %s",
                              short_text(epsilon, onnx_float(s->n, "epsilon", 1e-5)),
                              short_text(momentum, onnx_float(s->n, "momentum", 0.9)));
    for (size_t i = 0; layer && i < 4 && fits; i++)
        fits = fill_width(s, layer, what[i], t[i]);
    put(s, s->x, "batch_normalization", layer);
}

static void layer_normalization(const struct step *s)
{
    uint64_t elems, n = 0;
    const Onnx__Tensor *scale = constant(s, 1, &elems), *shift = constant(s, 2, &n);
    int64_t axis = onnx_int(s->n, "axis", -1);
    bool last = axis == -1 || axis == (int64_t)s->x.rank;
    if (!scale || elems != width_of(&s->x) || (shift && n != elems) || !last || s->x.first ||
        s->x.channels) {
        REFUSE(s, "only over the last axis, with constants");
        return;
    }
    char wanted[NAME_BYTES], epsilon[24];
    layer_name(wanted, scale);
    const char *layer = LAYER(s, "layer_normalization", wanted, "epsilon: %s%s",
                              short_text(epsilon, onnx_float(s->n, "epsilon", 1e-5)),
                              shift ? "" : ", center: false");
    bool filled = layer && fill_width(s, layer, "gamma", scale);
    if (filled && shift)
        (void)fill_width(s, layer, "beta", shift);
    put(s, s->x, "layer_normalization", layer);
}

/* ---- a scale and a shift by constants ---- */

/* The constant's value for channel i of the input. False: it is neither a number nor a vector along the channels. */
static bool along_channels(const struct step *s, const Onnx__Tensor *t, uint64_t elems)
{
    size_t axis = s->x.first ? 3 : 1; /* from the end */
    return elems == 1 || (elems == width_of(&s->x) && t->n_dims >= axis &&
                          t->dims[t->n_dims - axis] == (int64_t)elems);
}

static void change(const struct step *s, char op, float *gamma, float *beta, const Onnx__Tensor *t,
                   bool one)
{
    for (uint32_t i = 0; i < width_of(&s->x); i++) {
        float c = (float)onnx_tensor_at(t, one ? 0 : place_of(&s->x, i));
        gamma[i] = op == '*' ? gamma[i] * c : op == '/' ? gamma[i] / c : gamma[i];
        beta[i] = op == '*'   ? beta[i] * c
                  : op == '/' ? beta[i] / c
                  : op == '+' ? beta[i] + c
                              : beta[i] - c;
    }
}

/* A batch_normalization that changes nothing, with mean 0. False: out of memory. */
static bool add_neutral(const struct step *s, struct walk_value *v)
{
    static const float epsilon = 1e-3f;
    uint32_t n = width_of(v);
    const char *layer =
        LAYER(s, "batch_normalization", "scale", "epsilon: 0.001, trainable: false");
    v->gamma = layer ? sketch_part(&s->w->s, layer, "gamma", n) : NULL;
    v->beta = v->gamma ? sketch_part(&s->w->s, layer, "beta", n) : NULL;
    float *mean = v->beta ? sketch_part(&s->w->s, layer, "moving_mean", n) : NULL;
    float *variance = mean ? sketch_part(&s->w->s, layer, "moving_variance", n) : NULL;
    for (uint32_t i = 0; variance && i < n; i++) {
        v->gamma[i] = 1;
        variance[i] = 1 - epsilon;
    }
    if (!variance)
        return false;
    v->layer = layer;
    v->word = "batch_normalization";
    sketch_note(&s->w->s,
                "%s (%.80s): a scale or shift of each channel became the frozen "
                "batch_normalization %s",
                s->n->op_type, s->n->name, layer);
    return true;
}

/* The input divided by a number is data.scale. */
static bool scales_input(const struct step *s, char op, const Onnx__Tensor *t, uint64_t elems)
{
    if (elems != 1 || s->x.word[0] || (op != '*' && op != '/') ||
        walk_uses(s->w, walk_input(s->n, 0)) != 1)
        return false;
    double c = onnx_tensor_at(t, 0);
    float scale = (float)(op == '/' ? (double)s->w->scale * c : (double)s->w->scale / c);
    if (!(scale > 0) || !isfinite(scale))
        return false;
    s->w->scale = scale;
    pass(s);
    return true;
}

static void by_constant(const struct step *s, char op, const Onnx__Tensor *t, uint64_t elems)
{
    struct walk_value v = s->x;
    if (scales_input(s, op, t, elems))
        return;
    if (!along_channels(s, t, elems)) {
        REFUSE(s, "its constant is neither a number nor a vector along the channels");
        return;
    }
    if ((!v.gamma || walk_uses(s->w, walk_input(s->n, 0)) != 1) && !add_neutral(s, &v))
        return;
    change(s, op, v.gamma, v.beta, t, elems == 1);
    if (s->n->n_output)
        walk_put(s->w, s->n->output[0], v);
}

/* ---- several inputs ---- */

static bool same_value_shape(const struct walk_value *a, const struct walk_value *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0 &&
           a->first == b->first && a->channels == b->channels;
}

static void arithmetic(const struct step *s, char op)
{
    uint64_t elems;
    const char *name = walk_input(s->n, 1);
    const struct walk_value *other = walk_find(s->w, name);
    if (!other) {
        if (name[0] == 0)
            REFUSE(s, "it has one input");
        return;
    }
    if (other->data && onnx_tensor_elems(other->data, &elems) && elems > 0) {
        by_constant(s, op, other->data, elems);
        return;
    }
    if (op != '+' || other->data || !same_value_shape(&s->x, other)) {
        REFUSE(s, "only sums of two equal shapes, or with a constant");
        return;
    }
    const char *const input[] = {s->x.layer, other->layer};
    put(s, s->x, "add", sketch_layer(&s->w->s, "add", "", input, 2, "%s", ""));
}

static void add(const struct step *s)
{
    arithmetic(s, '+');
}

static void subtract(const struct step *s)
{
    arithmetic(s, '-');
}

static void multiply(const struct step *s)
{
    arithmetic(s, '*');
}

static void divide(const struct step *s)
{
    arithmetic(s, '/');
}

static void concat(const struct step *s)
{
    const char *input[JOB_INPUTS_MAX];
    struct walk_value v = s->x;
    int64_t axis = onnx_int(s->n, "axis", 0), last = s->x.first ? 1 : s->x.rank;
    uint64_t width = 0;
    bool fits = s->n->n_input >= 2 && s->n->n_input <= JOB_INPUTS_MAX && !v.channels &&
                (axis == last || axis == last - 1 - (int64_t)v.rank);
    for (size_t i = 0; i < s->n->n_input && fits; i++) {
        const struct walk_value *x = walk_find(s->w, s->n->input[i]);
        if (!x)
            return; /* a node before it was refused */
        fits = !x->data && x->rank == v.rank && x->first == v.first && !x->channels &&
               memcmp(x->dim, v.dim, (v.rank - 1) * sizeof *v.dim) == 0;
        input[i] = fits ? x->layer : NULL;
        width += fits ? width_of(x) : 0;
    }
    if (!fits || width > INT32_MAX) {
        REFUSE(s, "only of 2 to %d values, along the channels", JOB_INPUTS_MAX);
        return;
    }
    v.dim[v.rank - 1] = (uint32_t)width;
    put(s, v, "concatenate",
        sketch_layer(&s->w->s, "concatenate", "", input, (uint32_t)s->n->n_input, "%s", ""));
}

/* ---- activations ---- */

static void plain_activation(const struct step *s, const char *word)
{
    put(s, s->x, word, LAYER(s, word, "", "%s", ""));
}

static void relu(const struct step *s)
{
    plain_activation(s, "relu");
}

static void tanh_of(const struct step *s)
{
    plain_activation(s, "tanh");
}

static void softplus(const struct step *s)
{
    plain_activation(s, "softplus");
}

/* Takes along the product with its own input: silu. */
static void sigmoid(const struct step *s)
{
    size_t at;
    const Onnx__Node *next = s->n->n_output ? walk_only_reader(s->w, s->n->output[0], &at) : NULL;
    bool silu = next && strcmp(next->op_type, "Mul") == 0 && next->n_input == 2 &&
                (strcmp(next->input[0], walk_input(s->n, 0)) == 0 ||
                 strcmp(next->input[1], walk_input(s->n, 0)) == 0);
    if (silu)
        s->w->alias[at] = s->n->output[0];
    plain_activation(s, silu ? "silu" : "sigmoid");
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-5;
}

static void selu(const struct step *s)
{
    if (is_near(onnx_float(s->n, "alpha", 1.6732632423543772), 1.6732632423543772) &&
        is_near(onnx_float(s->n, "gamma", 1.0507009873554805), 1.0507009873554805))
        plain_activation(s, "selu");
    else
        REFUSE(s, "only with the usual alpha and gamma");
}

static void elu(const struct step *s)
{
    char alpha[24];
    put(s, s->x, "elu",
        LAYER(s, "elu", "", "alpha: %s", short_text(alpha, onnx_float(s->n, "alpha", 1))));
}

static void leaky_relu(const struct step *s)
{
    char slope[24];
    put(s, s->x, "leaky_relu",
        LAYER(s, "leaky_relu", "", "negative_slope: %s",
              short_text(slope, onnx_float(s->n, "alpha", 0.01))));
}

static void gelu(const struct step *s)
{
    bool none = onnx_text_is(s->n, "approximate", "none");
    if (none || onnx_text_is(s->n, "approximate", "tanh"))
        put(s, s->x, "gelu", LAYER(s, "gelu", "", "approximate: %s", none ? "false" : "true"));
    else
        REFUSE(s, "unknown approximation");
}

static void softmax(const struct step *s)
{
    int64_t axis = onnx_int(s->n, "axis", -1), last = s->x.first ? 1 : s->x.rank;
    if ((axis == last || axis == last - 1 - (int64_t)s->x.rank) && !s->x.channels)
        plain_activation(s, "softmax");
    else
        REFUSE(s, "only over the channels");
}

static void dropout(const struct step *s)
{
    uint64_t elems;
    const Onnx__Tensor *t = constant(s, 1, &elems);
    double rate = t && elems == 1 ? onnx_tensor_at(t, 0) : onnx_float(s->n, "ratio", 0.5);
    char text[24];
    if (rate > 0 && rate < 1)
        put(s, s->x, "dropout", LAYER(s, "dropout", "", "rate: %s", short_text(text, rate)));
    else
        pass(s);
}

/* ---- shapes ---- */

static void flatten_to_vector(const struct step *s)
{
    struct walk_value v = s->x;
    uint32_t elems = elems_of(&v);
    if (v.rank == 1) {
        pass(s);
        return;
    }
    bool moves = v.first && v.dim[2] > 1 && elems > v.dim[2];
    v.channels = moves ? v.dim[2] : 0;
    v.rank = 1;
    v.dim[0] = elems;
    v.first = false;
    put(s, v, "flatten", LAYER(s, "flatten", "", "%s", ""));
}

static void flatten(const struct step *s)
{
    if (onnx_int(s->n, "axis", 1) == 1)
        flatten_to_vector(s);
    else
        REFUSE(s, "only with axis 1");
}

/* The shape of one row that a Reshape asks for. False: it does not have as many elements, or the rows change. */
static bool take_shape(const struct step *s, uint32_t *rank, uint32_t dim[TENSOR_RANK_MAX])
{
    uint64_t n = 0, known = 1, all = elems_of(&s->x), open = UINT64_MAX;
    const Onnx__Tensor *t = constant(s, 1, &n);
    if (!t || n < 2 || n > TENSOR_RANK_MAX + 1)
        return false;
    for (uint64_t i = 1; i < n; i++) {
        double value = onnx_tensor_at(t, i);
        if (value == -1 && open == UINT64_MAX) {
            open = i;
            continue;
        }
        if (!(value >= 1) || value > INT32_MAX || known * (uint64_t)value > all)
            return false;
        dim[i - 1] = (uint32_t)value;
        known *= (uint64_t)value;
    }
    if (all % known || (open == UINT64_MAX && known != all))
        return false;
    if (open != UINT64_MAX)
        dim[open - 1] = (uint32_t)(all / known);
    *rank = (uint32_t)n - 1;
    return true;
}

static void reshape(const struct step *s)
{
    struct walk_value v = s->x;
    if (!take_shape(s, &v.rank, v.dim)) {
        REFUSE(s, "its shape must be constant, and keep the rows");
        return;
    }
    if (v.rank == 1) {
        flatten_to_vector(s);
        return;
    }
    bool image = v.rank == 3 && walk_read_as_image(s->w, s->n->output[0]);
    if (s->x.first || s->x.channels || (image && v.dim[0] != 1)) {
        REFUSE(s, "its elements would need another order in the job");
        return;
    }
    if (image) { /* one channel: (1, height, width) has the order of (height, width, 1) */
        v = (struct walk_value){.rank = 3, .dim = {v.dim[1], v.dim[2], 1}, .first = true};
    }
    char shape[64];
    size_t at = 0;
    for (uint32_t i = 0; i < v.rank && at < sizeof shape; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%u", i ? ", " : "", v.dim[i]);
    put(s, v, "reshape", LAYER(s, "reshape", "", "target_shape: [%s]", shape));
}

/* Only what makes channels first of channels last, and back; no layer is needed for that. */
static void transpose(const struct step *s)
{
    static const int64_t to_first[4] = {0, 3, 1, 2}, to_last[4] = {0, 2, 3, 1};
    int64_t perm[5] = {0};
    struct walk_value v = s->x;
    size_t n = onnx_ints(s->n, "perm", perm, 5);
    bool last = v.first && memcmp(perm, to_last, sizeof to_last) == 0;
    bool first = !v.first && memcmp(perm, to_first, sizeof to_first) == 0;
    if (n != 4 || v.rank != 3 || (!first && !last)) {
        REFUSE(s, "only between channels first and channels last");
        return;
    }
    v.first = first;
    v.gamma = v.beta = NULL;
    if (s->n->n_output)
        walk_put(s->w, s->n->output[0], v);
}

static void squeeze(const struct step *s)
{
    int64_t axis[3];
    if (take_axes(s, axis, 3) == 2 && are_sides(s, axis) && s->x.dim[0] == 1 && s->x.dim[1] == 1)
        flatten_to_vector(s);
    else
        REFUSE(s, "only of height and width 1");
}

static void cast(const struct step *s)
{
    if (onnx_int(s->n, "to", 0) == ONNX__DATA_TYPE__FLOAT)
        pass(s);
    else
        REFUSE(s, "only to float");
}

/* ---- the table ---- */

static const struct {
    const char *op;
    void (*take)(const struct step *s);
} operators[] = {
    {"Add", add},
    {"AveragePool", average_pool},
    {"BatchNormalization", batch_normalization},
    {"Cast", cast},
    {"Concat", concat},
    {"Conv", conv},
    {"Div", divide},
    {"Dropout", dropout},
    {"Elu", elu},
    {"Flatten", flatten},
    {"Gelu", gelu},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_average},
    {"GlobalMaxPool", global_max},
    {"Identity", pass},
    {"LayerNormalization", layer_normalization},
    {"LeakyRelu", leaky_relu},
    {"MatMul", matmul},
    {"MaxPool", max_pool},
    {"Mul", multiply},
    {"ReduceMax", reduce_max},
    {"ReduceMean", reduce_mean},
    {"Relu", relu},
    {"Reshape", reshape},
    {"Selu", selu},
    {"Sigmoid", sigmoid},
    {"Softmax", softmax},
    {"Softplus", softplus},
    {"Squeeze", squeeze},
    {"Sub", subtract},
    {"Tanh", tanh_of},
    {"Transpose", transpose},
};

/* Swap the inputs of a sum or product whose first one is a constant. */
static bool is_turned(const struct step *s)
{
    const struct walk_value *a = walk_find(s->w, walk_input(s->n, 0));
    bool turns = strcmp(s->n->op_type, "Add") == 0 || strcmp(s->n->op_type, "Mul") == 0;
    return turns && s->n->n_input == 2 && a && a->data;
}

void walk_node(struct walk *w, size_t at)
{
    const Onnx__Node *n = w->g->node[at];
    struct step s = {.w = w, .n = n, .at = at};
    char *turned[2];
    Onnx__Node other = *n;
    if (is_turned(&s)) {
        turned[0] = n->input[1];
        turned[1] = n->input[0];
        other.input = turned;
        s.n = &other;
    }
    bool ours = n->domain[0] == 0 || strcmp(n->domain, "ai.onnx") == 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators && ours; i++) {
        if (strcmp(operators[i].op, n->op_type) != 0)
            continue;
        const struct walk_value *x = walk_find(w, walk_input(s.n, 0));
        if (x && x->data)
            REFUSE(&s, "its first input is a constant");
        if (!x || x->data)
            return;
        s.x = *x;
        operators[i].take(&s);
        return;
    }
    REFUSE(&s, "a job has no layer for this operator");
}
