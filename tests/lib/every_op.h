/* A graph that uses each operator of formats/graph/graph.h, made by hand. Its output is (n, columns): the results of
 * the operators, as float, side by side. */
#pragma once

#include "formats/graph/graph.h"

/* The graph is made once, and is not freed. Thread: one. */
const struct graph *every_op_graph(void);

/* One line for each result, in order: what it is, and the number of its columns. */
void every_op_print(void);
