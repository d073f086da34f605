/* TensorFlow's operators are documented at https://www.tensorflow.org/api_docs/cc. Their attributes that are not given
 * have their defaults. */
#include "formats/tensorflow/nodes.h"

#include <assert.h>

#include "common/base/sha256.h"

/* A node that is being lowered. */
struct lowering {
    struct nodes *nodes;
    const struct graph *graph;
    const struct graph_node *node;
    const char **name;  /* of each value's node */
    const char *out;    /* name[node->output] */
    const char **inits; /* nodes that have to run once: "^NAME" */
    size_t init_count;
};

typedef void lower(struct lowering *l, const char *op);

static const struct graph_value *in(const struct lowering *l, uint32_t i)
{
    return graph_input_of(l->graph, l->node, i);
}

static const struct graph_value *output(const struct lowering *l)
{
    return &l->graph->value[l->node->output];
}

/* The name of input i. */
static const char *from(const struct lowering *l, uint32_t i)
{
    return l->name[l->graph->input_of_node[l->node->first_input + i]];
}

/* The name of a node that helps to make the output. */
static const char *part(const struct lowering *l, const char *what)
{
    return graph_format(&l->nodes->memory, "%s.%s", l->out, what);
}

Tensorflow__DataType lowering_type(enum graph_type t)
{
    static const Tensorflow__DataType types[] = {[GRAPH_F32] = TENSORFLOW__DATA_TYPE__DT_FLOAT,
                                                 [GRAPH_F64] = TENSORFLOW__DATA_TYPE__DT_DOUBLE,
                                                 [GRAPH_I64] = TENSORFLOW__DATA_TYPE__DT_INT64,
                                                 [GRAPH_BOOL] = TENSORFLOW__DATA_TYPE__DT_BOOL,
                                                 [GRAPH_TEXT] = TENSORFLOW__DATA_TYPE__DT_STRING};
    return types[t];
}

/* dim: (v->rank) */
static void dims_of(const struct graph_value *v, int64_t *dim)
{
    for (uint32_t i = 0; i < v->rank; i++)
        dim[i] = v->dim[i] == GRAPH_ROWS ? -1 : (int64_t)v->dim[i];
}

Tensorflow__TensorShape *lowering_shape(struct nodes *n, const struct graph_value *v)
{
    int64_t dim[GRAPH_RANK_MAX];
    dims_of(v, dim);
    return nodes_shape(n, dim, v->rank);
}

/* ---- operators with a counterpart ---- */

/* A node with these inputs, and with the type of one of them as the attribute T. */
static Tensorflow__Node *typed(struct lowering *l, const char *op, const char *name,
                               const char *const *input, size_t inputs, enum graph_type type)
{
    Tensorflow__Node *node = nodes_add(l->nodes, op, name, input, inputs);
    nodes_attr_type(l->nodes, node, "T", lowering_type(type));
    return node;
}

static Tensorflow__Node *whole(struct lowering *l, const char *op, uint32_t typed_by)
{
    const char *input[3] = {NULL};
    assert(l->node->inputs <= 3);
    for (uint32_t i = 0; i < l->node->inputs; i++)
        input[i] = from(l, i);
    return typed(l, op, l->out, input, l->node->inputs, in(l, typed_by)->type);
}

static void lower_plain(struct lowering *l, const char *op)
{
    (void)whole(l, op, 0);
}

static void lower_select(struct lowering *l, const char *op)
{
    (void)whole(l, op, 1);
}

static void lower_cast(struct lowering *l, const char *op)
{
    const char *input = from(l, 0);
    Tensorflow__Node *node = nodes_add(l->nodes, op, l->out, &input, 1);
    nodes_attr_type(l->nodes, node, "SrcT", lowering_type(in(l, 0)->type));
    nodes_attr_type(l->nodes, node, "DstT", lowering_type(output(l)->type));
}

/* Matrices of more than two dimensions need another operator. */
static void lower_matmul(struct lowering *l, const char *op)
{
    lower_plain(l, in(l, 0)->rank == 2 ? op : "BatchMatMulV2");
}

/* Concatenation along the last axis. */
static void lower_concat(struct lowering *l, const char *op)
{
    const uint32_t inputs = l->node->inputs;
    const char **input = graph_room(&l->nodes->memory, inputs + 1, sizeof *input);
    if (!input)
        return;
    for (uint32_t i = 0; i < inputs; i++)
        input[i] = from(l, i);
    if (inputs == 1) { /* ConcatV2 wants two */
        (void)typed(l, "Identity", l->out, input, 1, in(l, 0)->type);
        return;
    }
    input[inputs] = nodes_integer(l->nodes, part(l, "axis"), (int64_t)in(l, 0)->rank - 1);
    Tensorflow__Node *node = typed(l, op, l->out, input, inputs + 1, in(l, 0)->type);
    nodes_attr_int(l->nodes, node, "N", inputs);
    nodes_attr_type(l->nodes, node, "Tidx", TENSORFLOW__DATA_TYPE__DT_INT64);
}

static void lower_slice(struct lowering *l, const char *op)
{
    const uint32_t last = output(l)->rank - 1;
    int64_t begin[GRAPH_RANK_MAX] = {0}, size[GRAPH_RANK_MAX];
    dims_of(output(l), size); /* -1: all */
    begin[last] = l->node->begin;
    const char *input[] = {from(l, 0), nodes_integers(l->nodes, part(l, "begin"), begin, last + 1),
                           nodes_integers(l->nodes, part(l, "size"), size, last + 1)};
    Tensorflow__Node *node = typed(l, op, l->out, input, 3, in(l, 0)->type);
    nodes_attr_type(l->nodes, node, "Index", TENSORFLOW__DATA_TYPE__DT_INT64);
}

static void lower_reshape(struct lowering *l, const char *op)
{
    int64_t dim[GRAPH_RANK_MAX];
    dims_of(output(l), dim);
    const char *input[] = {from(l, 0),
                           nodes_integers(l->nodes, part(l, "shape"), dim, output(l)->rank)};
    Tensorflow__Node *node = typed(l, op, l->out, input, 2, in(l, 0)->type);
    nodes_attr_type(l->nodes, node, "Tshape", TENSORFLOW__DATA_TYPE__DT_INT64);
}

static void lower_reduce(struct lowering *l, const char *op)
{
    int64_t axes[GRAPH_RANK_MAX];
    size_t count = 0;
    for (uint32_t axis = l->node->axis; axis < l->node->end_axis; axis++)
        axes[count++] = axis;
    const char *input[] = {from(l, 0), nodes_integers(l->nodes, part(l, "axes"), axes, count)};
    Tensorflow__Node *node = typed(l, op, l->out, input, 2, in(l, 0)->type);
    nodes_attr_type(l->nodes, node, "Tidx", TENSORFLOW__DATA_TYPE__DT_INT64);
    nodes_attr_bool(l->nodes, node, "keep_dims", l->node->keeps_axes);
}

static void lower_gather(struct lowering *l, const char *op)
{
    const char *input[] = {from(l, 0), from(l, 1), nodes_integer(l->nodes, part(l, "axis"), 0)};
    Tensorflow__Node *node = nodes_add(l->nodes, op, l->out, input, 3);
    nodes_attr_type(l->nodes, node, "Tparams", lowering_type(in(l, 0)->type));
    nodes_attr_type(l->nodes, node, "Tindices", lowering_type(in(l, 1)->type));
    nodes_attr_type(l->nodes, node, "Taxis", TENSORFLOW__DATA_TYPE__DT_INT64);
}

/* ---- windows over images ---- */

static void attr_pair(struct lowering *l, Tensorflow__Node *node, const char *key, uint32_t height,
                      uint32_t width)
{
    const int64_t v[] = {1, height, width, 1};
    nodes_attr_ints(l->nodes, node, key, v, 4);
}

static void attr_windows(struct lowering *l, Tensorflow__Node *node)
{
    const struct graph_window *w = l->node->window;
    attr_pair(l, node, "strides", w[0].stride, w[1].stride);
    nodes_attr_text(l->nodes, node, "padding", l->node->same ? "SAME" : "VALID");
}

static void lower_conv2d(struct lowering *l, const char *op)
{
    const struct graph_window *w = l->node->window;
    Tensorflow__Node *node = whole(l, op, 0);
    attr_windows(l, node);
    attr_pair(l, node, "dilations", w[0].dilation, w[1].dilation);
}

static void lower_pool(struct lowering *l, const char *op)
{
    const struct graph_window *w = l->node->window;
    Tensorflow__Node *node = whole(l, op, 0);
    attr_windows(l, node);
    attr_pair(l, node, "ksize", w[0].size, w[1].size);
}

/* ---- bits ---- */

static const char *bitcast(struct lowering *l, const char *name, const char *input,
                           Tensorflow__DataType to_type)
{
    const bool to_signed = to_type == TENSORFLOW__DATA_TYPE__DT_INT64;
    Tensorflow__Node *node = nodes_add(l->nodes, "Bitcast", name, &input, 1);
    nodes_attr_type(l->nodes, node, "T",
                    to_signed ? TENSORFLOW__DATA_TYPE__DT_UINT64 : TENSORFLOW__DATA_TYPE__DT_INT64);
    nodes_attr_type(l->nodes, node, "type", to_type);
    return name;
}

/* TensorFlow shifts int64 with its sign. */
static void lower_shift(struct lowering *l, const char *op)
{
    const char *input[2];
    input[0] = bitcast(l, part(l, "bits"), from(l, 0), TENSORFLOW__DATA_TYPE__DT_UINT64);
    input[1] = bitcast(l, part(l, "by"), from(l, 1), TENSORFLOW__DATA_TYPE__DT_UINT64);
    const char *shifted = part(l, "shifted");
    Tensorflow__Node *node = nodes_add(l->nodes, op, shifted, input, 2);
    nodes_attr_type(l->nodes, node, "T", TENSORFLOW__DATA_TYPE__DT_UINT64);
    (void)bitcast(l, l->out, shifted, TENSORFLOW__DATA_TYPE__DT_INT64);
}

/* ---- look-ups ---- */

/* -1 in the shape of input 0: nothing can be found. */
static void find_nothing(struct lowering *l)
{
    const char *of = from(l, 0), *shape = part(l, "shape");
    Tensorflow__Node *node = typed(l, "Shape", shape, &of, 1, in(l, 0)->type);
    nodes_attr_type(l->nodes, node, "out_type", TENSORFLOW__DATA_TYPE__DT_INT64);
    const char *input[] = {shape, nodes_integer(l->nodes, part(l, "missing"), -1)};
    node = typed(l, "Fill", l->out, input, 2, GRAPH_I64);
    nodes_attr_type(l->nodes, node, "index_type", TENSORFLOW__DATA_TYPE__DT_INT64);
}

static const char *reshape_to(struct lowering *l, const char *name, const char *input,
                              const char *shape, enum graph_type type)
{
    const char *inputs[] = {input, shape};
    Tensorflow__Node *node = typed(l, "Reshape", name, inputs, 2, type);
    nodes_attr_type(l->nodes, node, "Tshape", TENSORFLOW__DATA_TYPE__DT_INT64);
    return name;
}

/* The number of keys that are less than each element of input 0, in its shape. LowerBound wants matrices. */
static const char *count_less(struct lowering *l, int64_t keys)
{
    static const int64_t one_row[] = {1, -1};
    const char *matrix = nodes_integers(l->nodes, part(l, "matrix"), one_row, 2);
    const char *wanted = reshape_to(l, part(l, "wanted"), from(l, 0), matrix, GRAPH_I64);
    const char *sorted = reshape_to(l, part(l, "sorted"), from(l, 1), matrix, GRAPH_I64);
    const char *bounds[] = {sorted, wanted}, *less = part(l, "less");
    Tensorflow__Node *node = typed(l, "LowerBound", less, bounds, 2, GRAPH_I64);
    nodes_attr_type(l->nodes, node, "out_type", TENSORFLOW__DATA_TYPE__DT_INT64);
    const char *most[] = {less, nodes_integer(l->nodes, part(l, "last"), keys - 1)};
    const char *index = part(l, "clipped");
    (void)typed(l, "Minimum", index, most, 2, GRAPH_I64);
    int64_t dim[GRAPH_RANK_MAX];
    dims_of(output(l), dim);
    const char *shape = nodes_integers(l->nodes, part(l, "shape"), dim, output(l)->rank);
    return reshape_to(l, part(l, "index"), index, shape, GRAPH_I64);
}

/* A binary search, which needs no memory but the keys, and nothing that runs before. */
static void lower_find_key(struct lowering *l, const char *op)
{
    const uint32_t keys = in(l, 1)->dim[0];
    if (keys == 0) {
        find_nothing(l);
        return;
    }
    const char *index = count_less(l, keys);
    const char *rows[] = {from(l, 1), index, nodes_integer(l->nodes, part(l, "axis"), 0)};
    const char *at = part(l, "at"), *same = part(l, "same");
    Tensorflow__Node *node = nodes_add(l->nodes, "GatherV2", at, rows, 3);
    nodes_attr_type(l->nodes, node, "Tparams", TENSORFLOW__DATA_TYPE__DT_INT64);
    nodes_attr_type(l->nodes, node, "Tindices", TENSORFLOW__DATA_TYPE__DT_INT64);
    nodes_attr_type(l->nodes, node, "Taxis", TENSORFLOW__DATA_TYPE__DT_INT64);
    const char *both[] = {at, from(l, 0)};
    (void)typed(l, "Equal", same, both, 2, GRAPH_I64);
    const char *choice[] = {same, index, nodes_integer(l->nodes, part(l, "missing"), -1)};
    (void)typed(l, op, l->out, choice, 3, GRAPH_I64);
}

/* Tables of the same name in one process are one table. The same contents give the same name, others another. */
static const char *shared_name(struct lowering *l)
{
    const struct graph_value *words = in(l, 1), *numbers = in(l, 2);
    const struct graph_text *text = words->data;
    char hex[SHA256_HEX_BYTES];
    struct sha256 *h = sha256_new();
    for (uint32_t i = 0; h && i < words->dim[0]; i++) {
        uint64_t bytes = text[i].bytes;
        sha256_add(h, &bytes, sizeof bytes);
        sha256_add(h, text[i].at, text[i].bytes);
    }
    if (h)
        sha256_add(h, numbers->data, numbers->dim[0] * sizeof(int64_t));
    if (sha256_hex(h, hex))
        l->nodes->memory.failed = true;
    return graph_format(&l->nodes->memory, "words-%s", hex);
}

static void attr_words(struct lowering *l, Tensorflow__Node *node, const char *words,
                       const char *numbers)
{
    nodes_attr_type(l->nodes, node, words, TENSORFLOW__DATA_TYPE__DT_STRING);
    nodes_attr_type(l->nodes, node, numbers, TENSORFLOW__DATA_TYPE__DT_INT64);
}

/* A hash table. */
static void lower_find_word(struct lowering *l, const char *op)
{
    if (in(l, 1)->dim[0] == 0) {
        find_nothing(l);
        return;
    }
    const char *table = part(l, "table"), *filled = part(l, "filled");
    Tensorflow__Node *node = nodes_add(l->nodes, "HashTableV2", table, NULL, 0);
    attr_words(l, node, "key_dtype", "value_dtype");
    nodes_attr_text(l->nodes, node, "shared_name", shared_name(l));
    const char *fill[] = {table, from(l, 1), from(l, 2)};
    attr_words(l, nodes_add(l->nodes, "LookupTableImportV2", filled, fill, 3), "Tin", "Tout");
    l->inits[l->init_count++] = graph_format(&l->nodes->memory, "^%s", filled);
    const char *find[] = {table, from(l, 0), nodes_integer(l->nodes, part(l, "missing"), -1)};
    attr_words(l, nodes_add(l->nodes, op, l->out, find, 3), "Tin", "Tout");
}

/* ---- all operators ---- */

static const struct {
    const char *op;
    lower *lower;
} counterparts[GRAPH_OP_KINDS] = {
    [GRAPH_CAST] = {"Cast", lower_cast},
    [GRAPH_ADD] = {"AddV2", lower_plain},
    [GRAPH_SUB] = {"Sub", lower_plain},
    [GRAPH_MUL] = {"Mul", lower_plain},
    [GRAPH_DIV] = {"RealDiv", lower_plain},
    [GRAPH_MAXIMUM] = {"Maximum", lower_plain},
    [GRAPH_MINIMUM] = {"Minimum", lower_plain},
    [GRAPH_EQUAL] = {"Equal", lower_plain},
    [GRAPH_GREATER_OR_EQUAL] = {"GreaterEqual", lower_plain},
    [GRAPH_IS_NAN] = {"IsNan", lower_plain},
    [GRAPH_XOR] = {"BitwiseXor", lower_plain},
    [GRAPH_SHIFT_RIGHT] = {"RightShift", lower_shift},
    [GRAPH_SELECT] = {"SelectV2", lower_select},
    [GRAPH_EXP] = {"Exp", lower_plain},
    [GRAPH_LOG] = {"Log", lower_plain},
    [GRAPH_SQRT] = {"Sqrt", lower_plain},
    [GRAPH_ERF] = {"Erf", lower_plain},
    [GRAPH_RELU] = {"Relu", lower_plain},
    [GRAPH_SIGMOID] = {"Sigmoid", lower_plain},
    [GRAPH_TANH] = {"Tanh", lower_plain},
    [GRAPH_ELU] = {"Elu", lower_plain},
    [GRAPH_SOFTPLUS] = {"Softplus", lower_plain},
    [GRAPH_SOFTMAX] = {"Softmax", lower_plain},
    [GRAPH_MATMUL] = {"MatMul", lower_matmul},
    [GRAPH_CONV2D] = {"Conv2D", lower_conv2d},
    [GRAPH_MAX_POOL] = {"MaxPool", lower_pool},
    [GRAPH_AVERAGE_POOL] = {"AvgPool", lower_pool},
    [GRAPH_REDUCE_SUM] = {"Sum", lower_reduce},
    [GRAPH_REDUCE_MEAN] = {"Mean", lower_reduce},
    [GRAPH_REDUCE_MAX] = {"Max", lower_reduce},
    [GRAPH_RESHAPE] = {"Reshape", lower_reshape},
    [GRAPH_CONCAT] = {"ConcatV2", lower_concat},
    [GRAPH_SLICE] = {"Slice", lower_slice},
    [GRAPH_GATHER] = {"GatherV2", lower_gather},
    [GRAPH_FIND_KEY] = {"SelectV2", lower_find_key},
    [GRAPH_FIND_WORD] = {"LookupTableFindV2", lower_find_word},
};

/* ---- values ---- */

/* TensorFlow allows few characters in names of nodes. The number makes them distinct. */
static const char *name_of(struct nodes *n, uint32_t i, const char *name)
{
    char plain[128];
    size_t k = 0;
    for (; name[k] && k + 1 < sizeof plain; k++) {
        char c = name[k];
        bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '/' || c == '-';
        plain[k] = '_';
        if (allowed)
            plain[k] = c;
    }
    plain[k] = '\0';
    return graph_format(&n->memory, k ? "v%u/%s" : "v%u%s", i, plain);
}

static void add_words(struct nodes *n, const struct graph_value *v, const char *name)
{
    const uint64_t count = graph_elems(v);
    const struct graph_text *text = v->data;
    ProtobufCBinaryData *each = graph_room(&n->memory, count, sizeof *each);
    for (uint64_t i = 0; each && i < count; i++)
        each[i] = (ProtobufCBinaryData){text[i].bytes, (uint8_t *)text[i].at};
    const struct nodes_elements elements = {.text = each, .texts = count};
    (void)nodes_constant(n, name, lowering_type(v->type), lowering_shape(n, v), &elements);
}

static void add_constant(struct nodes *n, const struct graph_value *v, const char *name)
{
    if (v->type == GRAPH_TEXT) {
        add_words(n, v, name);
        return;
    }
    const struct nodes_elements elements = {.data = v->data,
                                            .bytes = graph_elems(v) * graph_type_bytes(v->type)};
    (void)nodes_constant(n, name, lowering_type(v->type), lowering_shape(n, v), &elements);
}

static void add_input(struct nodes *n, const struct graph_value *v, const char *name)
{
    Tensorflow__Node *node = nodes_add(n, "Placeholder", name, NULL, 0);
    nodes_attr_type(n, node, "dtype", lowering_type(v->type));
    nodes_attr_shape(n, node, "shape", lowering_shape(n, v));
}

void lowering_run(struct nodes *n, const struct graph *g, const char **name, const char **init)
{
    struct lowering l = {.nodes = n,
                         .graph = g,
                         .name = name,
                         .inits = graph_room(&n->memory, g->nodes, sizeof *l.inits)};
    for (uint32_t i = 0; i < g->values; i++) {
        name[i] = name_of(n, i, g->value[i].name);
        if (g->value[i].data)
            add_constant(n, &g->value[i], name[i]);
    }
    for (uint32_t i = 0; i < g->inputs; i++)
        add_input(n, &g->value[g->input[i].value], name[g->input[i].value]);
    for (uint32_t i = 0; i < g->nodes && !n->memory.failed; i++) {
        l.node = &g->node[i];
        l.out = name[l.node->output];
        counterparts[l.node->op].lower(&l, counterparts[l.node->op].op);
    }
    *init = NULL;
    if (l.init_count == 0 || n->memory.failed)
        return;
    *init = "init";
    (void)nodes_add(n, "NoOp", *init, l.inits, l.init_count);
}
