/* The nodes of a graph as nodes of ONNX: https://onnx.ai/onnx/operators/ defines the operators. */

#include "formats/onnx/parts.h"

/* A node that is being made. */
struct lowering {
    struct onnx *o;
    const struct graph_node *node;
};

typedef void lower(const struct lowering *l, const char *op);

static uint32_t value_of(const struct lowering *l, uint32_t i)
{
    return l->o->g->input_of_node[l->node->first_input + i];
}

static const struct graph_value *in(const struct lowering *l, uint32_t i)
{
    return graph_input_of(l->o->g, l->node, i);
}

static const struct graph_value *out(const struct lowering *l)
{
    return &l->o->g->value[l->node->output];
}

static const char *from(const struct lowering *l, uint32_t i, enum onnx_order order)
{
    return onnx_value(l->o, value_of(l, i), order);
}

static const char *to(const struct lowering *l, enum onnx_order order)
{
    return onnx_make(l->o, l->node->output, order);
}

/* The name of something that helps to make the output. */
static const char *part(const struct lowering *l, const char *what)
{
    return graph_format(&l->o->memory, "%s/%s", out(l)->name, what);
}

/* ---- orders of axes ---- */

/* Whether input i is there only with its channels second. */
static bool is_first(const struct lowering *l, uint32_t i)
{
    const char *const *name = l->o->memory.failed ? NULL : l->o->name[value_of(l, i)];
    return name && name[ONNX_FIRST] && !name[ONNX_LAST];
}

/* Whether input i can be used next to values whose channels are second. */
static bool can_be_first(const struct lowering *l, uint32_t i)
{
    const struct graph_value *v = in(l, i);
    return v->data ? v->rank <= 1 : v->rank == 4;
}

/* The order in which a node that is the same in both orders saves a transpose. */
static enum onnx_order order_of(const struct lowering *l)
{
    bool any = false, all = true;
    for (uint32_t i = 0; i < l->node->inputs; i++) {
        any = any || is_first(l, i);
        all = all && can_be_first(l, i);
    }
    return any && all ? ONNX_FIRST : ONNX_LAST;
}

/* ---- operators with a counterpart ---- */

static Onnx__Node *node_in(const struct lowering *l, const char *op, enum onnx_order order)
{
    const char **input = graph_room(&l->o->memory, l->node->inputs, sizeof *input);
    for (uint32_t i = 0; input && i < l->node->inputs; i++)
        input[i] = from(l, i, order);
    return input ? onnx_node(l->o, op, input, l->node->inputs, to(l, order)) : NULL;
}

/* Element by element. */
static void lower_each(const struct lowering *l, const char *op)
{
    (void)node_in(l, op, order_of(l));
}

static void lower_cast(const struct lowering *l, const char *op)
{
    onnx_attribute_int(l->o, node_in(l, op, order_of(l)), "to", onnx_type(out(l)->type));
}

static void lower_matmul(const struct lowering *l, const char *op)
{
    (void)node_in(l, op, ONNX_LAST);
}

static void lower_along_channels(const struct lowering *l, const char *op)
{
    enum onnx_order order = order_of(l);
    onnx_attribute_int(l->o, node_in(l, op, order), "axis", order == ONNX_FIRST ? 1 : -1);
}

static void lower_slice(const struct lowering *l, const char *op)
{
    const struct graph_value *v = out(l);
    const int64_t begin = l->node->begin, axis = v->rank - 1;
    const int64_t end = begin + v->dim[v->rank - 1];
    const char *input[] = {from(l, 0, ONNX_LAST), onnx_integers(l->o, part(l, "begin"), &begin, 1),
                           onnx_integers(l->o, part(l, "end"), &end, 1),
                           onnx_integers(l->o, part(l, "axis"), &axis, 1)};
    (void)onnx_node(l->o, op, input, 4, to(l, ONNX_LAST));
}

static void lower_gather(const struct lowering *l, const char *op)
{
    onnx_attribute_int(l->o, node_in(l, op, ONNX_LAST), "axis", 0);
}

static void lower_reshape(const struct lowering *l, const char *op)
{
    const struct graph_value *v = out(l);
    int64_t dim[GRAPH_RANK_MAX];
    for (uint32_t i = 0; i < v->rank; i++)
        dim[i] = v->dim[i] == GRAPH_ROWS ? 0 : v->dim[i]; /* 0: that of the input */
    const char *input[] = {from(l, 0, ONNX_LAST),
                           onnx_integers(l->o, part(l, "shape"), dim, v->rank)};
    (void)onnx_node(l->o, op, input, 2, to(l, ONNX_LAST));
}

/* Over one axis or neighboring ones. */
static void lower_reduce(const struct lowering *l, const char *op)
{
    static const int64_t first[] = {0, 2, 3,
                                    1}; /* the place of each axis with the channels second */
    const struct graph_node *n = l->node;
    int64_t axis[GRAPH_RANK_MAX];
    size_t axes = 0;
    bool whole_image = n->axis == 1 && n->end_axis == 3;
    enum onnx_order order =
        in(l, 0)->rank == 4 && (n->keeps_axes || whole_image) ? order_of(l) : ONNX_LAST;
    for (uint32_t i = n->axis; i < n->end_axis; i++)
        axis[axes++] = order == ONNX_FIRST ? first[i] : i;
    const char *input[] = {from(l, 0, order), onnx_integers(l->o, part(l, "axes"), axis, axes)};
    const char *y = to(l, out(l)->rank == 4 ? order : ONNX_LAST);
    onnx_attribute_int(l->o, onnx_node(l->o, op, input, 2, y), "keepdims", n->keeps_axes);
}

/* ---- images ---- */

/* Attributes of windows: height, width. */
static void pair(const struct lowering *l, Onnx__Node *node, const char *name, uint32_t height,
                 uint32_t width)
{
    int64_t *both = graph_room(&l->o->memory, 2, sizeof *both);
    if (!both)
        return;
    both[0] = height;
    both[1] = width;
    onnx_attribute_ints(l->o, node, name, both, 2);
}

static void windows(const struct lowering *l, Onnx__Node *node)
{
    const struct graph_window *w = l->node->window;
    int64_t *pads = graph_room(&l->o->memory, 4, sizeof *pads);
    if (!pads)
        return;
    for (int i = 0; i < 2; i++) {
        pads[i] = w[i].pad_begin;
        pads[2 + i] = w[i].pad_end;
    }
    pair(l, node, "kernel_shape", w[0].size, w[1].size);
    pair(l, node, "strides", w[0].stride, w[1].stride);
    onnx_attribute_ints(l->o, node, "pads", pads, 4);
}

static void lower_pool(const struct lowering *l, const char *op)
{
    windows(l, node_in(l, op, ONNX_FIRST));
}

/* (height, width, in, out) -> (out, in, height, width). Made once for each kernel. */
static const char *kernel(const struct lowering *l)
{
    const char **name = l->o->memory.failed ? NULL : &l->o->name[value_of(l, 1)][ONNX_FIRST];
    if (!name || *name)
        return name ? *name : NULL;
    const struct graph_value *v = in(l, 1);
    const size_t taps = (size_t)v->dim[0] * v->dim[1], ins = v->dim[2], outs = v->dim[3];
    const int64_t dim[] = {v->dim[3], v->dim[2], v->dim[0], v->dim[1]};
    const float *w = v->data;
    float *turned = graph_room(&l->o->memory, taps * ins * outs, sizeof *turned);
    for (size_t t = 0; turned && t < taps; t++)
        for (size_t i = 0; i < ins; i++)
            for (size_t k = 0; k < outs; k++)
                turned[(k * ins + i) * taps + t] = w[(t * ins + i) * outs + k];
    *name = v->name;
    return onnx_constant(l->o, v->name, GRAPH_F32, dim, 4, turned);
}

static void lower_conv2d(const struct lowering *l, const char *op)
{
    const char *input[] = {from(l, 0, ONNX_FIRST), kernel(l)};
    Onnx__Node *node = onnx_node(l->o, op, input, 2, to(l, ONNX_FIRST));
    windows(l, node);
    pair(l, node, "dilations", l->node->window[0].dilation, l->node->window[1].dilation);
}

/* ---- bits ---- */

static const char *cast(const struct lowering *l, const char *of, const char *name,
                        Onnx__DataType type)
{
    onnx_attribute_int(l->o, onnx_node(l->o, "Cast", &of, 1, name), "to", type);
    return name;
}

/* Only integers without a sign can be shifted. */
static void lower_shift(const struct lowering *l, const char *op)
{
    const char *input[2];
    input[0] = cast(l, from(l, 0, ONNX_LAST), part(l, "bits"), ONNX__DATA_TYPE__UINT64);
    input[1] = cast(l, from(l, 1, ONNX_LAST), part(l, "by"), ONNX__DATA_TYPE__UINT64);
    const char *shifted = part(l, "shifted");
    onnx_attribute_text(l->o, onnx_node(l->o, op, input, 2, shifted), "direction", "RIGHT");
    (void)cast(l, shifted, to(l, ONNX_LAST), ONNX__DATA_TYPE__INT64);
}

/* ---- look-ups ---- */

static Onnx__Node *encoder(const struct lowering *l, const char *op, const int64_t *number,
                           size_t n)
{
    const char *input = from(l, 0, ONNX_LAST);
    Onnx__Node *node = onnx_node(l->o, op, &input, 1, to(l, ONNX_LAST));
    if (node)
        node->domain = (char *)"ai.onnx.ml";
    onnx_attribute_ints(l->o, node, "values_int64s", number, n);
    onnx_attribute_int(l->o, node, "default_int64", -1);
    return node;
}

/* LabelEncoder needs at least one key: the number of this one says that it is not known. */
static const int64_t none = -1;

static void lower_find_key(const struct lowering *l, const char *op)
{
    static const int64_t any = 0;
    const struct graph_value *keys = in(l, 1);
    if (keys->dim[0] == 0) {
        onnx_attribute_ints(l->o, encoder(l, op, &none, 1), "keys_int64s", &any, 1);
        return;
    }
    int64_t *number = graph_room(&l->o->memory, keys->dim[0], sizeof *number);
    for (uint32_t i = 0; number && i < keys->dim[0]; i++)
        number[i] = i;
    onnx_attribute_ints(l->o, encoder(l, op, number, keys->dim[0]), "keys_int64s", keys->data,
                        keys->dim[0]);
}

static void lower_find_word(const struct lowering *l, const char *op)
{
    static const struct graph_text empty = {"", 0};
    const struct graph_value *words = in(l, 1);
    if (words->dim[0] == 0)
        onnx_attribute_texts(l->o, encoder(l, op, &none, 1), "keys_strings", &empty, 1);
    else
        onnx_attribute_texts(l->o, encoder(l, op, in(l, 2)->data, words->dim[0]), "keys_strings",
                             words->data, words->dim[0]);
}

/* ---- all operators ---- */

static const struct {
    const char *op;
    lower *lower;
} counterparts[GRAPH_OP_KINDS] = {
    [GRAPH_CAST] = {"Cast", lower_cast},
    [GRAPH_ADD] = {"Add", lower_each},
    [GRAPH_SUB] = {"Sub", lower_each},
    [GRAPH_MUL] = {"Mul", lower_each},
    [GRAPH_DIV] = {"Div", lower_each},
    [GRAPH_MAXIMUM] = {"Max", lower_each},
    [GRAPH_MINIMUM] = {"Min", lower_each},
    [GRAPH_EQUAL] = {"Equal", lower_each},
    [GRAPH_GREATER_OR_EQUAL] = {"GreaterOrEqual", lower_each},
    [GRAPH_IS_NAN] = {"IsNaN", lower_each},
    [GRAPH_XOR] = {"BitwiseXor", lower_each},
    [GRAPH_SHIFT_RIGHT] = {"BitShift", lower_shift},
    [GRAPH_SELECT] = {"Where", lower_each},
    [GRAPH_EXP] = {"Exp", lower_each},
    [GRAPH_LOG] = {"Log", lower_each},
    [GRAPH_SQRT] = {"Sqrt", lower_each},
    [GRAPH_ERF] = {"Erf", lower_each},
    [GRAPH_RELU] = {"Relu", lower_each},
    [GRAPH_SIGMOID] = {"Sigmoid", lower_each},
    [GRAPH_TANH] = {"Tanh", lower_each},
    [GRAPH_ELU] = {"Elu", lower_each},
    [GRAPH_SOFTPLUS] = {"Softplus", lower_each},
    [GRAPH_SOFTMAX] = {"Softmax", lower_along_channels},
    [GRAPH_MATMUL] = {"MatMul", lower_matmul},
    [GRAPH_CONV2D] = {"Conv", lower_conv2d},
    [GRAPH_MAX_POOL] = {"MaxPool", lower_pool},
    [GRAPH_AVERAGE_POOL] = {"AveragePool", lower_pool},
    [GRAPH_REDUCE_SUM] = {"ReduceSum", lower_reduce},
    [GRAPH_REDUCE_MEAN] = {"ReduceMean", lower_reduce},
    [GRAPH_REDUCE_MAX] = {"ReduceMax", lower_reduce},
    [GRAPH_RESHAPE] = {"Reshape", lower_reshape},
    [GRAPH_CONCAT] = {"Concat", lower_along_channels},
    [GRAPH_SLICE] = {"Slice", lower_slice},
    [GRAPH_GATHER] = {"Gather", lower_gather},
    [GRAPH_FIND_KEY] = {"LabelEncoder", lower_find_key},
    [GRAPH_FIND_WORD] = {"LabelEncoder", lower_find_word},
};

void onnx_lower(struct onnx *o)
{
    struct lowering l = {.o = o};
    for (uint32_t i = 0; i < o->g->nodes && !o->memory.failed; i++) {
        l.node = &o->g->node[i];
        counterparts[l.node->op].lower(&l, counterparts[l.node->op].op);
    }
    (void)onnx_value(o, o->g->output, ONNX_LAST);
}
