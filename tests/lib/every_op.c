#include "tests/lib/every_op.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { VALUES = 256, NODES = 128, NODE_INPUTS = 512, RESULTS = 64 };

static struct graph_value value[VALUES];
static struct graph_node node[NODES];
static uint32_t input_of_node[NODE_INPUTS];
static struct graph_input input[8];
static uint32_t node_inputs;
static struct graph graph = {
    .value = value, .node = node, .input_of_node = input_of_node, .input = input};

static uint32_t result[RESULTS];
static const char *what[RESULTS];
static uint32_t results;

/* ---- values ---- */

#define DIMS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4

static uint32_t add_value(enum graph_type type, const uint32_t *dim, size_t rank, const void *data)
{
    assert(graph.values < VALUES);
    struct graph_value *v = &value[graph.values];
    *v = (struct graph_value){.type = type, .rank = (uint32_t)rank, .data = data};
    for (size_t i = 0; i < rank; i++)
        v->dim[i] = dim[i];
    return graph.values++;
}

static uint32_t add_input(enum graph_source source, const char *name, enum graph_type type,
                          const uint32_t *dim, size_t rank)
{
    uint32_t v = add_value(type, dim, rank, NULL);
    value[v].name = name;
    input[graph.inputs++] = (struct graph_input){.source = source, .value = v};
    return v;
}

static uint32_t number(const float *x)
{
    return add_value(GRAPH_F32, NULL, 0, x);
}

static uint32_t integer(const int64_t *x)
{
    return add_value(GRAPH_I64, NULL, 0, x);
}

/* A node that reads `inputs` values; its output has this type and shape. */
static struct graph_node *add_node(enum graph_op op, const uint32_t *in, uint32_t inputs,
                                   enum graph_type type, const uint32_t *dim, size_t rank)
{
    assert(graph.nodes < NODES && node_inputs + inputs <= NODE_INPUTS);
    struct graph_node *n = &node[graph.nodes++];
    *n = (struct graph_node){.op = op, .inputs = inputs, .first_input = node_inputs};
    memcpy(input_of_node + node_inputs, in, inputs * sizeof *in);
    node_inputs += inputs;
    n->output = add_value(type, dim, rank, NULL);
    return n;
}

#define IN(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4

/* The output becomes a result: (n, columns) of float. */
static uint32_t keep(const char *name, uint32_t v)
{
    uint32_t columns = (uint32_t)graph_elems(&value[v]), shown = v;
    if (value[v].type != GRAPH_F32)
        shown = add_node(GRAPH_CAST, IN(shown), GRAPH_F32, value[v].dim, value[v].rank)->output;
    assert(results < RESULTS);
    what[results] = name;
    result[results++] =
        add_node(GRAPH_RESHAPE, IN(shown), GRAPH_F32, DIMS(GRAPH_ROWS, columns))->output;
    return v;
}

/* ---- operators by kind ---- */

/* (n) -> (n) */
static uint32_t one(enum graph_op op, uint32_t a, enum graph_type type)
{
    return keep(graph_op_name(op), add_node(op, IN(a), type, DIMS(GRAPH_ROWS))->output);
}

/* (n), (n) or () -> (n) */
static uint32_t two(enum graph_op op, uint32_t a, uint32_t b, enum graph_type type)
{
    return keep(graph_op_name(op), add_node(op, IN(a, b), type, DIMS(GRAPH_ROWS))->output);
}

static const float half = 0.5f, ten = 10.0f;

static void arithmetic(uint32_t x)
{
    static const enum graph_op pairs[] = {GRAPH_ADD, GRAPH_SUB,     GRAPH_MUL,
                                          GRAPH_DIV, GRAPH_MAXIMUM, GRAPH_MINIMUM};
    static const enum graph_op singles[] = {GRAPH_EXP,  GRAPH_ERF, GRAPH_RELU,    GRAPH_SIGMOID,
                                            GRAPH_TANH, GRAPH_ELU, GRAPH_SOFTPLUS};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        (void)two(pairs[i], x, number(&half), GRAPH_F32);
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        (void)one(singles[i], x, GRAPH_F32);
    uint32_t positive = two(GRAPH_MAXIMUM, one(GRAPH_EXP, x, GRAPH_F32), number(&half), GRAPH_F32);
    (void)one(GRAPH_LOG, positive, GRAPH_F32);
    (void)one(GRAPH_SQRT, positive, GRAPH_F32);
    (void)one(GRAPH_CAST, x, GRAPH_F64);
    uint32_t whole = one(GRAPH_CAST, two(GRAPH_MUL, x, number(&ten), GRAPH_F32), GRAPH_I64);
    static const int64_t three = 3;
    (void)two(GRAPH_EQUAL, whole, integer(&three), GRAPH_BOOL);
}

static void missing_numbers(uint32_t x)
{
    uint32_t missing = one(GRAPH_IS_NAN, x, GRAPH_BOOL);
    (void)two(GRAPH_GREATER_OR_EQUAL, x, number(&half), GRAPH_BOOL);
    (void)keep(
        "select",
        add_node(GRAPH_SELECT, IN(missing, number(&ten), x), GRAPH_F32, DIMS(GRAPH_ROWS))->output);
}

/* splitmix64's finalizer */
static void bits(uint32_t key)
{
    static const int64_t by[] = {30, 27, 31, 40};
    static const uint64_t factor[] = {UINT64_C(0xBF58476D1CE4E5B9), UINT64_C(0x94D049BB133111EB)};
    uint32_t z = key, shifted;
    for (int i = 0; i < 3; i++) {
        shifted = add_node(GRAPH_SHIFT_RIGHT, IN(z, integer(&by[i])), GRAPH_I64, DIMS(GRAPH_ROWS))
                      ->output;
        z = add_node(GRAPH_XOR, IN(z, shifted), GRAPH_I64, DIMS(GRAPH_ROWS))->output;
        if (i < 2)
            z = add_node(GRAPH_MUL, IN(z, integer((const int64_t *)&factor[i])), GRAPH_I64,
                         DIMS(GRAPH_ROWS))
                    ->output;
    }
    (void)two(GRAPH_SHIFT_RIGHT, z, integer(&by[3]), GRAPH_I64);
}

static void images(uint32_t image)
{
    static float kernel[3 * 2 * 2 * 3];
    for (size_t i = 0; i < sizeof kernel / sizeof *kernel; i++)
        kernel[i] = (float)((int)(i * 7 % 11) - 5) / 8;
    uint32_t k = add_value(GRAPH_F32, DIMS(3, 2, 2, 3), kernel);
    struct graph_node *n =
        add_node(GRAPH_CONV2D, IN(image, k), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 3, 3));
    n->same = true;
    n->window[0] = (struct graph_window){3, 2, 1, 1, 1};
    n->window[1] = (struct graph_window){2, 2, 1, 0, 1};
    uint32_t seen = keep("conv2d, same, strides", n->output);
    n = add_node(GRAPH_CONV2D, IN(image, k), GRAPH_F32, DIMS(GRAPH_ROWS, 1, 4, 3));
    n->window[0] = (struct graph_window){3, 1, 2, 0, 0};
    n->window[1] = (struct graph_window){2, 1, 2, 0, 0};
    (void)keep("conv2d, valid, dilation", n->output);
    for (int i = 0; i < 2; i++) {
        n = add_node(i ? GRAPH_AVERAGE_POOL : GRAPH_MAX_POOL, IN(image), GRAPH_F32,
                     DIMS(GRAPH_ROWS, 3, 3, 2));
        n->same = true;
        n->window[0] = (struct graph_window){2, 2, 1, 0, 1};
        n->window[1] = (struct graph_window){2, 2, 1, 0, 0};
        (void)keep(graph_op_name(n->op), n->output);
    }
    static const enum graph_op over[] = {GRAPH_REDUCE_SUM, GRAPH_REDUCE_MEAN, GRAPH_REDUCE_MAX};
    for (int i = 0; i < 3; i++) {
        n = add_node(over[i], IN(seen), GRAPH_F32, DIMS(GRAPH_ROWS, 3));
        n->axis = 1;
        n->end_axis = 3;
        (void)keep(graph_op_name(n->op), n->output);
    }
    n = add_node(GRAPH_REDUCE_MEAN, IN(seen), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 3, 1));
    n->axis = 3;
    n->end_axis = 4;
    n->keeps_axes = true;
    (void)keep(
        "centered",
        add_node(GRAPH_SUB, IN(seen, n->output), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 3, 3))->output);
    (void)keep("softmax",
               add_node(GRAPH_SOFTMAX, IN(seen), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 3, 3))->output);
    static const float matrix[3 * 2] = {1, 2, 3, -1, -2, 0.5f};
    uint32_t m = add_value(GRAPH_F32, DIMS(3, 2), matrix);
    (void)keep(
        "matmul of a matrix",
        add_node(GRAPH_MATMUL, IN(result[results - 3], m), GRAPH_F32, DIMS(GRAPH_ROWS, 2))->output);
    (void)keep("matmul of more axes",
               add_node(GRAPH_MATMUL, IN(seen, m), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 3, 2))->output);
}

static void words(uint32_t word)
{
    static const struct graph_text text[] = {
        {"red", 3}, {"", 0}, {"\xff\0", 2}, {"gr\xc3\xbcn", 5}};
    static const int64_t numbers[] = {7, 0, 2, 1};
    uint32_t known = add_value(GRAPH_TEXT, DIMS(4), text);
    uint32_t at = add_value(GRAPH_I64, DIMS(4), numbers);
    (void)keep("find_word",
               add_node(GRAPH_FIND_WORD, IN(word, known, at), GRAPH_I64, DIMS(GRAPH_ROWS))->output);
    uint32_t none = add_value(GRAPH_TEXT, DIMS(0), text);
    uint32_t no_numbers = add_value(GRAPH_I64, DIMS(0), numbers);
    (void)keep(
        "find_word among none",
        add_node(GRAPH_FIND_WORD, IN(word, none, no_numbers), GRAPH_I64, DIMS(GRAPH_ROWS))->output);
}

static void rows(uint32_t keys, uint32_t weights)
{
    static const int64_t known[] = {INT64_MIN, -5, 0, 12, INT64_MAX}, first = 0;
    static const float row[5 * 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    uint32_t k = add_value(GRAPH_I64, DIMS(5), known);
    uint32_t none = add_value(GRAPH_I64, DIMS(0), known);
    uint32_t table = add_value(GRAPH_F32, DIMS(5, 2), row);
    uint32_t at = add_node(GRAPH_FIND_KEY, IN(keys, k), GRAPH_I64, DIMS(GRAPH_ROWS, 3))->output;
    (void)keep("find_key", at);
    struct graph_node *two_of = add_node(GRAPH_SLICE, IN(at), GRAPH_I64, DIMS(GRAPH_ROWS, 2));
    two_of->begin = 1;
    (void)keep("slice", two_of->output);
    (void)keep("find_key among none",
               add_node(GRAPH_FIND_KEY, IN(keys, none), GRAPH_I64, DIMS(GRAPH_ROWS, 3))->output);
    at = add_node(GRAPH_MAXIMUM, IN(at, integer(&first)), GRAPH_I64, DIMS(GRAPH_ROWS, 3))->output;
    uint32_t found =
        add_node(GRAPH_GATHER, IN(table, at), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 2))->output;
    (void)keep("gather", found);
    uint32_t column =
        add_node(GRAPH_RESHAPE, IN(weights), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 1))->output;
    (void)keep("weighted",
               add_node(GRAPH_MUL, IN(found, column), GRAPH_F32, DIMS(GRAPH_ROWS, 3, 2))->output);
}

static void make(void)
{
    uint32_t image = add_input(GRAPH_RAW, "image", GRAPH_F32, DIMS(GRAPH_ROWS, 5, 6, 2));
    uint32_t x = add_input(GRAPH_NUMBER, "a number", GRAPH_F32, DIMS(GRAPH_ROWS));
    uint32_t gap = add_input(GRAPH_NUMBER, "missing", GRAPH_F32, DIMS(GRAPH_ROWS));
    uint32_t word = add_input(GRAPH_WORD, "w\xc3\xb6rd", GRAPH_TEXT, DIMS(GRAPH_ROWS));
    uint32_t key = add_input(GRAPH_KEY, "key", GRAPH_I64, DIMS(GRAPH_ROWS));
    uint32_t keys = add_input(GRAPH_KEYS, "keys", GRAPH_I64, DIMS(GRAPH_ROWS, 3));
    uint32_t weights = add_input(GRAPH_WEIGHTS, "keys/weights", GRAPH_F32, DIMS(GRAPH_ROWS, 3));
    arithmetic(x);
    missing_numbers(gap);
    bits(key);
    images(image);
    words(word);
    rows(keys, weights);
    uint32_t columns = 0;
    for (uint32_t i = 0; i < results; i++)
        columns += value[result[i]].dim[1];
    const uint32_t all[2] = {GRAPH_ROWS, columns};
    uint32_t single = add_node(GRAPH_CONCAT, result, results, GRAPH_F32, all, 2)->output;
    graph.output = add_node(GRAPH_CONCAT, &single, 1, GRAPH_F32, all, 2)->output;
    value[graph.output].name = "every op";
}

const struct graph *every_op_graph(void)
{
    static char numbered[VALUES][16];
    if (graph.nodes == 0) {
        make();
        for (uint32_t i = 0; i < graph.values; i++)
            if (!value[i].name) {
                (void)snprintf(numbered[i], sizeof numbered[i], "value/%u", i);
                value[i].name = numbered[i];
            }
    }
    return &graph;
}

void every_op_print(void)
{
    (void)every_op_graph();
    for (uint32_t i = 0; i < results; i++)
        printf("%u %s\n", value[result[i]].dim[1], what[i]);
}
