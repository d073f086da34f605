/* Activations from operators that every format has. The formulas and factors are those of model/activation.c. */
#include "formats/graph/build.h"

static const float SELU_ALPHA = 1.6732632423543772f, SELU_SCALE = 1.0507009873554805f;

float activation_alpha(enum activation a)
{
    return a == ACT_LEAKY_RELU ? 0.2f : a == ACT_SELU ? SELU_ALPHA : 1.0f;
}

static uint32_t scaled(struct build *b, uint32_t x, float factor)
{
    return build_binary(b, GRAPH_MUL, x, build_f32(b, factor));
}

/* max(x, 0) + alpha f(min(x, 0)); f: elu, or x itself */
static uint32_t two_sides(struct build *b, uint32_t x, float alpha, bool elu)
{
    uint32_t below = build_binary(b, GRAPH_MINIMUM, x, build_f32(b, 0));
    if (elu)
        below = build_unary(b, GRAPH_ELU, below);
    below = scaled(b, below, alpha);
    return build_binary(b, GRAPH_ADD, build_unary(b, GRAPH_RELU, x), below);
}

/* x (1 + erf(x / sqrt(2))) / 2 */
static uint32_t gelu(struct build *b, uint32_t x)
{
    uint32_t erf = build_unary(b, GRAPH_ERF, scaled(b, x, 0.70710678118654752440f));
    uint32_t share = build_binary(b, GRAPH_ADD, erf, build_f32(b, 1));
    return build_binary(b, GRAPH_MUL, scaled(b, x, 0.5f), share);
}

/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
static uint32_t gelu_tanh(struct build *b, uint32_t x)
{
    uint32_t square = build_binary(b, GRAPH_MUL, x, x);
    uint32_t cube = scaled(b, build_binary(b, GRAPH_MUL, square, x), 0.044715f);
    uint32_t inner = scaled(b, build_binary(b, GRAPH_ADD, x, cube), 0.79788456080286535588f);
    uint32_t one = build_f32(b, 1);
    uint32_t share = build_binary(b, GRAPH_ADD, build_unary(b, GRAPH_TANH, inner), one);
    return build_binary(b, GRAPH_MUL, scaled(b, x, 0.5f), share);
}

uint32_t activation_build(struct build *b, enum activation a, float alpha, uint32_t x)
{
    switch (a) {
    case ACT_LINEAR:
        break;
    case ACT_RELU:
        return build_unary(b, GRAPH_RELU, x);
    case ACT_SIGMOID:
        return build_unary(b, GRAPH_SIGMOID, x);
    case ACT_TANH:
        return build_unary(b, GRAPH_TANH, x);
    case ACT_SOFTMAX:
        return build_unary(b, GRAPH_SOFTMAX, x);
    case ACT_SOFTPLUS:
        return build_unary(b, GRAPH_SOFTPLUS, x);
    case ACT_LEAKY_RELU:
        return two_sides(b, x, alpha, false);
    case ACT_ELU:
        return alpha == 1.0f ? build_unary(b, GRAPH_ELU, x) : two_sides(b, x, alpha, true);
    case ACT_SELU:
        return scaled(b, two_sides(b, x, alpha, true), SELU_SCALE);
    case ACT_GELU:
        return gelu(b, x);
    case ACT_GELU_TANH:
        return gelu_tanh(b, x);
    case ACT_SILU:
        return build_binary(b, GRAPH_MUL, x, build_unary(b, GRAPH_SIGMOID, x));
    }
    return x;
}
