/* A graph of primitive operators (formats/graph/graph.h) as nodes of TensorFlow. Pure. */
#ifndef GRADWIRE_FORMATS_TENSORFLOW_LOWERING_H
#define GRADWIRE_FORMATS_TENSORFLOW_LOWERING_H

#include "formats/graph/graph.h"
#include "formats/tensorflow/nodes.h"

/* Add the nodes of `g`. name[i] (g->values) becomes the name of the node that has value i; *init that of the node that
 * has to run once before the others, NULL if there is none. The nodes borrow the graph's constants. Without memory
 * n->failed is set. */
void lowering_run(struct nodes *n, const struct graph *g, const char **name, const char **init);

Tensorflow__DataType lowering_type(enum graph_type t);
/* GRAPH_ROWS is -1. */
Tensorflow__TensorShape *lowering_shape(struct nodes *n, const struct graph_value *v);

#endif
