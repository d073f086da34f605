/* The nodes of a TensorFlow graph that is being made, with the memory of all their parts. A node has one output, and
 * other nodes read it by the node's name.
 *
 * Failure modes: no memory: the calls return NULL, accept NULL for a node, and nodes->memory.failed tells. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/graph/graph.h"
#include "proto/formats/tensorflow.pb-c.h"

enum { NODES_ATTRS_MAX = 6, NODES_RANK_MAX = 8 };

/* Initialize it with zeros. */
struct nodes {
    Tensorflow__Node **node;
    size_t count;
    struct graph_memory memory; /* of all parts */
};

void nodes_close(struct nodes *n);

/* dim[i] = -1: any. */
Tensorflow__TensorShape *nodes_shape(struct nodes *n, const int64_t *dim, size_t rank);

/* Append a node. The names are borrowed; `input` is copied. */
Tensorflow__Node *nodes_add(struct nodes *n, const char *op, const char *name,
                            const char *const *input, size_t inputs);

/* Add an attribute to a node. Texts are borrowed, numbers are copied. */
void nodes_attr_type(struct nodes *n, Tensorflow__Node *to, const char *key,
                     Tensorflow__DataType v);
void nodes_attr_bool(struct nodes *n, Tensorflow__Node *to, const char *key, bool v);
void nodes_attr_int(struct nodes *n, Tensorflow__Node *to, const char *key, int64_t v);
void nodes_attr_ints(struct nodes *n, Tensorflow__Node *to, const char *key, const int64_t *v,
                     size_t count);
void nodes_attr_text(struct nodes *n, Tensorflow__Node *to, const char *key, const char *v);
void nodes_attr_shape(struct nodes *n, Tensorflow__Node *to, const char *key,
                      Tensorflow__TensorShape *v);

/* Append a Const. Its elements are borrowed: `bytes` of them, little-endian; or, of type DT_STRING, `texts`. */
struct nodes_elements {
    const void *data;
    size_t bytes;
    ProtobufCBinaryData *text;
    size_t texts;
};
const char *nodes_constant(struct nodes *n, const char *name, Tensorflow__DataType type,
                           Tensorflow__TensorShape *shape, const struct nodes_elements *elements);
/* The same with `count` integers, which are copied, as int64 (count); count 1 with `scalar`: of shape (). */
const char *nodes_integers(struct nodes *n, const char *name, const int64_t *v, size_t count);
const char *nodes_integer(struct nodes *n, const char *name, int64_t v);

/* ---- lowering.c: a graph of primitive operators as nodes; pure ---- */

/* Add the nodes of `g`. name[i] (g->values) becomes the name of the node that has value i; *init that of the node that
 * has to run once before the others, NULL if there is none. The nodes borrow the graph's constants. Without memory
 * n->memory.failed is set. */
void lowering_run(struct nodes *n, const struct graph *g, const char **name, const char **init);

Tensorflow__DataType lowering_type(enum graph_type t);
/* GRAPH_ROWS is -1. */
Tensorflow__TensorShape *lowering_shape(struct nodes *n, const struct graph_value *v);
