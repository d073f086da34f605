/* The rows of a table, for a graph that has the table inside. */
#ifndef GRADWIRE_FORMATS_GRAPH_TABLE_ROWS_H
#define GRADWIRE_FORMATS_GRAPH_TABLE_ROWS_H

#include "common/rows/row_layout.h"
#include "formats/graph/build.h"

struct table_rows {
    uint64_t rows;      /* at least 1 */
    const int64_t *key; /* (rows) the keys' bits, ascending as signed numbers; the graph's */
    const float *row;   /* (rows, dim); the graph's */
};

/* Read the rows of this table of the model. False: it is too large to be inside, or an error occurred (b->err). A table without rows gets
 * one, of key 0, with the value that this key has. */
bool table_rows_read(struct build *b, uint32_t table, struct table_rows *out);

#endif
