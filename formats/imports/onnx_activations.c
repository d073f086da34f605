/* Activations and dropout. */
#include "formats/imports/onnx_step.h"

#include <math.h>
#include <string.h>

#include "common/base/digits.h"

static void plain_activation(const struct step *s, const char *word)
{
    step_put(s, s->x, word, STEP_LAYER(s, word, "", "%s", ""));
}

static void take_activation(const struct step *s)
{
    plain_activation(s, s->as);
}

/* Takes along the product with its own input: silu. */
static void take_sigmoid(const struct step *s)
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

static void take_selu(const struct step *s)
{
    if (!step_is_of_opset(s, 6)) /* before, its factors were rounded */
        return;
    if (is_near(onnx_float(s->n, "alpha", 1.6732632423543772), 1.6732632423543772) &&
        is_near(onnx_float(s->n, "gamma", 1.0507009873554805), 1.0507009873554805))
        plain_activation(s, "selu");
    else
        step_refuse(s, "only with the usual alpha and gamma");
}

static void take_elu(const struct step *s)
{
    char alpha[DIGITS_REAL_BYTES];
    step_put(
        s, s->x, "elu",
        STEP_LAYER(s, "elu", "", "alpha: %s", digits_float(onnx_float(s->n, "alpha", 1), alpha)));
}

static void take_leaky_relu(const struct step *s)
{
    char slope[DIGITS_REAL_BYTES];
    step_put(s, s->x, "leaky_relu",
             STEP_LAYER(s, "leaky_relu", "", "negative_slope: %s",
                        digits_float(onnx_float(s->n, "alpha", 0.01), slope)));
}

static void take_gelu(const struct step *s)
{
    bool none = onnx_text_is(s->n, "approximate", "none");
    if (none || onnx_text_is(s->n, "approximate", "tanh"))
        step_put(s, s->x, "gelu",
                 STEP_LAYER(s, "gelu", "", "approximate: %s", none ? "false" : "true"));
    else
        step_refuse(s, "unknown approximation");
}

/* Before opset 13 a softmax is over all axes from `axis` on. True if these are the channels, and axes of length 1. */
static bool is_flat_softmax(const struct walk_value *x, int64_t axis)
{
    int64_t rank = (int64_t)x->rank, channels = x->first ? 1 : rank;
    axis += axis < 0 ? rank + 1 : 0;
    bool is = axis >= 1 && axis <= channels;
    for (int64_t i = axis; i <= rank && is; i++)
        is = i == channels || x->dim[x->first ? i - 2 : i - 1] == 1;
    return is;
}

static void take_softmax(const struct step *s)
{
    enum { OPSET_OF_ONE_AXIS = 13 };
    bool flat = s->w->opset < OPSET_OF_ONE_AXIS;
    int64_t axis = onnx_int(s->n, "axis", flat ? 1 : -1), last = s->x.first ? 1 : s->x.rank;
    bool channels =
        flat ? is_flat_softmax(&s->x, axis) : axis == last || axis == last - 1 - (int64_t)s->x.rank;
    if (channels && !s->x.channels)
        plain_activation(s, "softmax");
    else if (flat && !s->x.channels)
        step_refuse(s,
                    "in opset %lld it is over all axes from %lld on; a job has it over the "
                    "channels: export the model with opset 13 or later",
                    (long long)s->w->opset, (long long)axis);
    else
        step_refuse(s, "only over the channels");
}

/* A model that was exported for training drops in every run, a job only while it trains. */
static bool drops_always(const struct step *s)
{
    uint64_t elems;
    const Onnx__Tensor *mode = step_constant(s, 2, &elems);
    return *walk_input(s->n, 2) && !(mode && elems == 1 && onnx_tensor_at(mode, 0) == 0);
}

static void take_dropout(const struct step *s)
{
    uint64_t elems;
    const Onnx__Tensor *t = step_constant(s, 1, &elems);
    double rate = t && elems == 1 ? onnx_tensor_at(t, 0) : onnx_float(s->n, "ratio", 0.5);
    char text[DIGITS_REAL_BYTES];
    if (drops_always(s))
        step_refuse(s, "its training_mode must be false: export the model for evaluation");
    else if (*walk_input(s->n, 1) && !(t && elems == 1))
        step_refuse(s, "its ratio must be a constant number");
    else if (!(rate >= 0 && rate < 1))
        step_refuse(s, "its ratio is %s; a job has 0 to below 1",
                    digits_float((double)(float)rate, text));
    else if (rate > 0)
        step_put(s, s->x, "dropout",
                 STEP_LAYER(s, "dropout", "", "rate: %s", digits_float((double)(float)rate, text)));
    else
        step_pass(s);
}

const struct operator operators_of_activations[] = {
    {"Dropout", take_dropout, "ratio seed", NULL},
    {"Elu", take_elu, "alpha", NULL},
    {"Gelu", take_gelu, "approximate", NULL},
    {"LeakyRelu", take_leaky_relu, "alpha", NULL},
    {"Relu", take_activation, "", "relu"},
    {"Selu", take_selu, "alpha gamma", NULL},
    {"Sigmoid", take_sigmoid, "", NULL},
    {"Softmax", take_softmax, "axis", NULL},
    {"Softplus", take_activation, "", "softplus"},
    {"Tanh", take_activation, "", "tanh"},
    {.op = NULL},
};
