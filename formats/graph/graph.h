/* A trained model as a graph of primitive operators, from which the exporters write their formats. The encoding of csv
 * columns and the lookups of tables are part of it, as far as primitive operators can express them.
 *
 * A graph maps its inputs, of any number of rows n, to one output. Values have a type and a shape; dimension 0 of a value
 * that depends on the inputs is n. Shapes are known before a graph runs, apart from n. Nodes are in an order in which
 * each reads only inputs, constants and outputs of earlier nodes.
 *
 * Inputs (docs/reference/export.md): with columns, one for each column that is used, named as the column (a column
 * without a name: column_N, counted from 1); otherwise one, `input`. A layer that looks up a table that is not inside the
 * graph is an input, too: the layer's output (n, width), with its bias, named as the layer. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "predict/folder.h"

enum graph_type {
    GRAPH_F32,
    GRAPH_F64,
    GRAPH_I64, /* arithmetic wraps around */
    GRAPH_BOOL,
    GRAPH_TEXT /* bytes */
};

/* The operators. Images are (n, height, width, channels). Elementwise ones broadcast as NumPy does.
 * X(suffix of the GRAPH_ constant, number of inputs; 0: one or more, name in messages and tests) */
#define GRAPH_OPS(X)                                                                               \
    X(CAST, 1, cast) /* to the output's type; a float becomes an integer without its fraction */   \
    X(ADD, 2, add)                                                                                 \
    X(SUB, 2, sub)                                                                                 \
    X(MUL, 2, mul)                                                                                 \
    X(DIV, 2, div)                                                                                 \
    X(MAXIMUM, 2, maximum)                                                                         \
    X(MINIMUM, 2, minimum)                                                                         \
    X(EQUAL, 2, equal)                       /* -> bool, as the next ones */                       \
    X(GREATER_OR_EQUAL, 2, greater_or_equal) /* false for NaN */                                   \
    X(IS_NAN, 1, is_nan)                                                                           \
    X(XOR, 2, xor)                 /* of the bits of i64 */                                        \
    X(SHIFT_RIGHT, 2, shift_right) /* i64 as 64 bits without a sign; zeros come in */              \
    X(SELECT, 3, select)           /* (bool, a, b): a where true, b elsewhere */                   \
    X(EXP, 1, exp)                                                                                 \
    X(LOG, 1, log)                                                                                 \
    X(SQRT, 1, sqrt)                                                                               \
    X(ERF, 1, erf)                                                                                 \
    X(RELU, 1, relu)                                                                               \
    X(SIGMOID, 1, sigmoid)                                                                         \
    X(TANH, 1, tanh)                                                                               \
    X(ELU, 1, elu) /* x if x > 0, otherwise exp(x) - 1 */                                          \
    X(SOFTPLUS, 1, softplus)                                                                       \
    X(SOFTMAX, 1, softmax) /* over the last axis */                                                \
    X(MATMUL, 2, matmul)   /* (..., k) x constant (k, m) -> (..., m) */                            \
    X(CONV2D, 2, conv2d)   /* (image, kernel (height, width, in, out)) */                          \
    X(MAX_POOL, 1, max_pool)                                                                       \
    X(AVERAGE_POOL, 1, average_pool) /* padding does not count */                                  \
    X(REDUCE_SUM, 1, reduce_sum)     /* over axes [axis, end_axis) */                              \
    X(REDUCE_MEAN, 1, reduce_mean)                                                                 \
    X(REDUCE_MAX, 1, reduce_max)                                                                   \
    X(RESHAPE, 1, reshape)     /* to the output's shape */                                         \
    X(CONCAT, 0, concat)       /* along the last axis */                                           \
    X(SLICE, 1, slice)         /* of the last axis: from `begin` on, as many as in the output */   \
    X(GATHER, 2, gather)       /* (constant (rows, ...), i64 row numbers): rows of axis 0 */       \
    X(FIND_KEY, 2, find_key)   /* (i64, constant (keys), ascending): the key's index, or -1 */     \
    X(FIND_WORD, 3, find_word) /* (text, constant words, constant i64): the word's number, or -1 */

#define GRAPH_OP(NAME, inputs, name) GRAPH_##NAME,
enum graph_op { GRAPH_OPS(GRAPH_OP) GRAPH_OP_KINDS };

enum { GRAPH_RANK_MAX = 5 };
#define GRAPH_ROWS UINT32_MAX /* a dimension: the number of rows that the graph is run on */
#define GRAPH_NONE UINT32_MAX /* no value */

struct graph_text {
    const char *at;
    size_t bytes;
};

/* A value: an input, a constant, or the output of a node. */
struct graph_value {
    enum graph_type type;
    uint32_t rank, dim[GRAPH_RANK_MAX]; /* dim[0] can be GRAPH_ROWS */
    /* A constant's elements: float, double, int64_t, bool or struct graph_text. NULL: not a constant. They belong to the
     * graph or the folder. */
    const void *data;
    /* Distinct. An input and the output: as above. A tensor of weights.safetensors: its name ("dense/kernel"). Other values:
     * the operator, or `constant`, with the value's index ("matmul/12"). They belong to the graph. */
    const char *name;
};

/* A window along one axis: the distances between windows and between taps, and the pixels added at both ends. */
struct graph_window {
    uint32_t size, stride, dilation, pad_begin, pad_end;
};

struct graph_node {
    enum graph_op op;
    uint32_t inputs, first_input; /* graph->input_of_node[first_input + i]: indices of values */
    uint32_t output;              /* index of a value */
    /* CONV2D, pools: along height and width */
    struct graph_window window[2];
    /* CONV2D, pools: padding is as for TensorFlow's SAME; false: as for VALID */
    bool same;
    uint32_t axis, end_axis; /* reductions */
    bool keeps_axes;         /* the reduced axes stay, with length 1 */
    uint32_t begin;          /* SLICE */
};

enum graph_source {
    GRAPH_RAW, /* f32 (n, shape of model.input): the values as in the data; data.scale is in the graph */
    GRAPH_NUMBER, /* f32 (n), NaN: missing */
    GRAPH_WORD,   /* text (n) */
    /* i64 (n), the bits of the key; also of a cross */
    GRAPH_KEY,
    GRAPH_KEYS, /* i64 (n, max_values) */
    /* f32, shape of the keys: their weights, 0 where there is no key. Comes after the GRAPH_KEYS of its column, and
     * after a GRAPH_KEY that can be missing without a key. */
    GRAPH_WEIGHTS,
    GRAPH_VECTORS, /* f32 (n, width): the output of a layer whose table is not inside */
};

struct graph_input {
    enum graph_source source;
    uint32_t value;  /* index */
    uint32_t column; /* index in job.data.csv.column, for NUMBER to WEIGHTS */
    uint32_t layer;  /* index in job.model.layer, for VECTORS */
    const char *why; /* VECTORS: the reason why the table is not inside, a clause in English */
};

/* Memory that is freed as a whole: of a graph, or of the message that a format makes of it. */
struct graph_memory {
    void **block;
    size_t blocks;
    bool failed; /* memory ran out: later calls return NULL */
};
/* Zeroed. */
void *graph_room(struct graph_memory *m, size_t count, size_t size);
char *graph_format(struct graph_memory *m, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *graph_vformat(struct graph_memory *m, const char *fmt, va_list args);
void graph_memory_close(struct graph_memory *m);

struct graph {
    uint32_t values, nodes, inputs;
    struct graph_value *value;
    struct graph_node *node;
    uint32_t *input_of_node;
    /* in the order of the columns; GRAPH_VECTORS last, in the order of the layers */
    struct graph_input *input;
    /* Index of the output's value: f32 (n, ...), named as the last layer, after the softmax or sigmoid that training
     * fuses with the loss. */
    uint32_t output;
    uint32_t node_inputs; /* of all nodes */
    struct graph_memory memory;
};

struct graph_options {
    /* A table is inside if its keys and rows take at most this many bytes in the file, and the values of its absent keys
     * can be expressed. */
    uint64_t tables_inside_bytes;
    /* The bytes that the format writes for a key and its row's number. NULL: those of the key, 8. */
    uint64_t (*key_bytes)(uint64_t key, uint64_t number);
};

/* Told the size of a file that is about to be written. */
typedef void graph_told(const char *path, uint64_t bytes);

/* Make the graph of a trained model. The same files give the same graph. Owns: *g is the caller's (graph_free); the
 * folder must outlive it. Errors: ERR_INPUT: the graph would only return an input; ERR_CORRUPT, ERR_IO: a table's file;
 * ERR_NOMEM. */
enum err graph_new(struct graph **g, const struct folder *f, const struct graph_options *o,
                   struct errmsg *e) MUST_CHECK;
void graph_free(struct graph *g); /* NULL: nothing to do */

/* The name of an operator in messages. */
const char *graph_op_name(enum graph_op op);
/* Input i of a node. */
static inline const struct graph_value *graph_input_of(const struct graph *g,
                                                       const struct graph_node *n, uint32_t i)
{
    return &g->value[g->input_of_node[n->first_input + i]];
}
/* The elements of a value without the dimension GRAPH_ROWS. */
uint64_t graph_elems(const struct graph_value *v);
/* The bytes of an element: 4, 8, 8, 1; 0 for text. */
size_t graph_type_bytes(enum graph_type t);
