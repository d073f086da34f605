/* An ONNX graph that is being made, with the memory of all its parts.
 *
 * ONNX's operators on images want the channels before height and width; gradwire's have them last. So a value of four
 * dimensions can be there in two orders: as it is (n, height, width, channels), and as (n, channels, height, width). A
 * node is made in the order that it needs or that its inputs already have. Transposes are added when another order is asked for.
 *
 * Failure modes: no memory: the calls return NULL, accept NULL for a node, and onnx->memory.failed tells. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/graph/graph.h"
#include "proto/formats/onnx.pb-c.h"

enum { ONNX_ATTRIBUTES_MAX = 5 };

/* The order of the axes of a value: as in the graph, or with the channels second. */
enum onnx_order { ONNX_LAST, ONNX_FIRST, ONNX_ORDERS };

struct onnx {
    const struct graph *g;
    Onnx__Node **node;
    Onnx__Tensor **tensor; /* the constants */
    size_t nodes, tensors;
    /* (values of the graph) the name of the value in each order; NULL: not made */
    const char *(*name)[ONNX_ORDERS];
    struct graph_memory memory; /* of all parts */
};

/* For this graph, whose inputs are made. Owns: onnx_close, also if it fails. */
void onnx_begin(struct onnx *o, const struct graph *g);
void onnx_close(struct onnx *o);

/* Append a node with one output. Names are borrowed; `input` is copied. */
Onnx__Node *onnx_node(struct onnx *o, const char *op, const char *const *input, size_t inputs,
                      const char *output);
void onnx_attribute_int(struct onnx *o, Onnx__Node *to, const char *name, int64_t i);
void onnx_attribute_text(struct onnx *o, Onnx__Node *to, const char *name, const char *text);
/* The elements are borrowed. */
void onnx_attribute_ints(struct onnx *o, Onnx__Node *to, const char *name, const int64_t *i,
                         size_t n);
void onnx_attribute_texts(struct onnx *o, Onnx__Node *to, const char *name,
                          const struct graph_text *text, size_t n);

/* Append a constant; data is borrowed. Returns the name. */
const char *onnx_constant(struct onnx *o, const char *name, enum graph_type type,
                          const int64_t *dim, size_t rank, const void *data);
/* A constant (n) of integers, which are copied. */
const char *onnx_integers(struct onnx *o, const char *name, const int64_t *i, size_t n);

/* The name of a value in this order; it is transposed, or its constant is added, if it is not there yet. */
const char *onnx_value(struct onnx *o, uint32_t value, enum onnx_order order);
/* The name for a value that a node is about to make in this order. */
const char *onnx_make(struct onnx *o, uint32_t value, enum onnx_order order);

Onnx__DataType onnx_type(enum graph_type t);

/* lower.c: make all nodes of the graph, and its output under its name. */
void onnx_lower(struct onnx *o);
