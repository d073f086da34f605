/* Normalizations, and sums and products with constants. */
#include "formats/imports/onnx_step.h"

#include <math.h>
#include <string.h>

#include "common/base/digits.h"

/* ---- normalizations ---- */

/* The values of a vector of the input's width, in the job's order. */
static bool fill_width(const struct step *s, const char *layer, const char *what,
                       const Onnx__Tensor *t)
{
    uint32_t width = step_width(&s->x);
    float *to = sketch_part(&s->w->s, layer, what, width);
    for (uint32_t i = 0; to && i < width; i++)
        to[i] = (float)onnx_tensor_at(t, step_place(&s->x, i));
    return to != NULL;
}

static void take_batch_normalization(const struct step *s)
{
    static const char *const what[] = {"gamma", "beta", "moving_mean", "moving_variance"};
    const Onnx__Tensor *t[4];
    uint64_t elems;
    bool fits = s->x.rank == 1 || (s->x.rank == 3 && s->x.first);
    if (!step_is_of_opset(s, 7))
        return;
    if (onnx_int(s->n, "training_mode", 0)) {
        step_refuse(s, "its training_mode must be 0: export the model for evaluation");
        return;
    }
    for (size_t i = 0; i < 4; i++) {
        t[i] = step_constant(s, i + 1, &elems);
        fits = fits && t[i] && elems == step_width(&s->x);
    }
    if (!fits) {
        step_refuse(s, "its scale, shift, mean and variance must be constants for the channels");
        return;
    }
    char wanted[STEP_NAME_BYTES], epsilon[DIGITS_REAL_BYTES], momentum[DIGITS_REAL_BYTES];
    step_layer_name(wanted, t[0]);
    const char *layer = STEP_LAYER(s, "batch_normalization", wanted, "epsilon: %s, momentum: %s",
                                   digits_float(onnx_float(s->n, "epsilon", 1e-5), epsilon),
                                   digits_float(onnx_float(s->n, "momentum", 0.9), momentum));
    for (size_t i = 0; layer && i < 4 && fits; i++)
        fits = fill_width(s, layer, what[i], t[i]);
    step_put(s, s->x, "batch_normalization", layer);
}

static void take_layer_normalization(const struct step *s)
{
    uint64_t elems, n = 0;
    const Onnx__Tensor *scale = step_constant(s, 1, &elems), *shift = step_constant(s, 2, &n);
    int64_t axis = onnx_int(s->n, "axis", -1);
    bool last = axis == -1 || axis == (int64_t)s->x.rank;
    bool shifts = walk_input(s->n, 2)[0];
    if (!scale || elems != step_width(&s->x) || (shifts && (!shift || n != elems)) || !last ||
        s->x.first || s->x.channels) {
        step_refuse(s, "only over the last axis, with constants");
        return;
    }
    char wanted[STEP_NAME_BYTES], epsilon[DIGITS_REAL_BYTES];
    step_layer_name(wanted, scale);
    const char *layer = STEP_LAYER(s, "layer_normalization", wanted, "epsilon: %s%s",
                                   digits_float(onnx_float(s->n, "epsilon", 1e-5), epsilon),
                                   shift ? "" : ", center: false");
    bool filled = layer && fill_width(s, layer, "gamma", scale);
    if (filled && shift)
        (void)fill_width(s, layer, "beta", shift);
    step_put(s, s->x, "layer_normalization", layer);
}

/* ---- a scale and a shift by constants ---- */

/* The constant's value for channel i of the input. False: it is neither a number nor a vector along the channels. */
static bool along_channels(const struct step *s, const Onnx__Tensor *t, uint64_t elems)
{
    size_t axis = s->x.first ? 3 : 1; /* from the end */
    return elems == 1 || (elems == step_width(&s->x) && t->n_dims >= axis &&
                          t->dims[t->n_dims - axis] == (int64_t)elems);
}

static void change(const struct step *s, char op, float *gamma, float *beta, const Onnx__Tensor *t,
                   bool one)
{
    for (uint32_t i = 0; i < step_width(&s->x); i++) {
        float c = (float)onnx_tensor_at(t, one ? 0 : step_place(&s->x, i));
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
    uint32_t n = step_width(v);
    const char *layer =
        STEP_LAYER(s, "batch_normalization", "scale", "epsilon: 0.001, trainable: false");
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
    step_pass(s);
    return true;
}

/* Refuses a constant that makes the scale or shift of a channel infinite. */
static bool is_usable(const struct step *s, char op, const Onnx__Tensor *t, uint64_t elems)
{
    for (uint64_t i = 0; i < elems; i++) {
        const float c = (float)onnx_tensor_at(t, i);
        if (isfinite(c) && (op != '/' || c != 0))
            continue;
        step_refuse(s, "its %s is %g (element %llu, counted from 0)",
                    op == '/' ? "divisor" : "constant", (double)c, (unsigned long long)i);
        return false;
    }
    return true;
}

static void by_constant(const struct step *s, char op, const Onnx__Tensor *t, uint64_t elems)
{
    struct walk_value v = s->x;
    if (!is_usable(s, op, t, elems))
        return;
    if (scales_input(s, op, t, elems))
        return;
    if (!along_channels(s, t, elems)) {
        step_refuse(s, "its constant is neither a number nor a vector along the channels");
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

static void take_arithmetic(const struct step *s)
{
    const char op = s->as[0];
    uint64_t elems;
    const char *name = walk_input(s->n, 1);
    const struct walk_value *other = walk_find(s->w, name);
    if (!other) {
        if (name[0] == 0)
            step_refuse(s, "it has one input");
        return;
    }
    if (other->data && onnx_tensor_elems(other->data, &elems) && elems > 0) {
        by_constant(s, op, other->data, elems);
        return;
    }
    if (op != '+' || other->data || !same_value_shape(&s->x, other)) {
        step_refuse(s, "only sums of two equal shapes, or with a constant");
        return;
    }
    const char *const input[] = {s->x.layer, other->layer};
    step_put(s, s->x, "add", sketch_layer(&s->w->s, "add", "", input, 2, "%s", ""));
}

static void take_concat(const struct step *s)
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
        width += fits ? step_width(x) : 0;
    }
    if (!fits || width > INT32_MAX) {
        step_refuse(s, "only of 2 to %d values, along the channels", JOB_INPUTS_MAX);
        return;
    }
    v.dim[v.rank - 1] = (uint32_t)width;
    step_put(s, v, "concatenate",
             sketch_layer(&s->w->s, "concatenate", "", input, (uint32_t)s->n->n_input, "%s", ""));
}

const struct operator operators_of_scales[] = {
    {"Add", take_arithmetic, "", "+"},
    {"BatchNormalization", take_batch_normalization, "epsilon momentum spatial training_mode",
     NULL},
    {"Concat", take_concat, "axis", NULL},
    {"Div", take_arithmetic, "", "/"},
    {"LayerNormalization", take_layer_normalization, "axis epsilon stash_type", NULL},
    {"Mul", take_arithmetic, "", "*"},
    {"Sub", take_arithmetic, "", "-"},
    {.op = NULL},
};
