/* The graph while it is made. After the first error a builder does nothing more: its functions then return 0, so only the
 * end of the work checks b->err. */
#pragma once

#include "formats/graph/graph.h"

struct build {
    struct graph *g;
    const struct folder *folder;
    const struct graph_options *options;
    enum err err;
    struct errmsg *e;
    uint32_t *column; /* (columns of the job): the value of its features + 1; 0: not made yet */
    uint32_t lacking; /* f32 (n): how many required numbers a row lacks; + 1; 0: none is required */
    uint32_t *key;    /* the same for the keys of a column */
    uint32_t *weights;
    struct table_found *found; /* (tables of the model): tables.c */
};

/* Note the first error. */
void build_fail(struct build *b, enum err err, const char *why);
/* Zeroed memory that the graph owns, or NULL after an error. */
void *build_own(struct build *b, size_t count, size_t size);

/* Formats a text that the graph owns; NULL after an error. */
const char *build_text(struct build *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Add an input of this type and shape: (n, dim...). */
uint32_t build_input(struct build *b, const struct graph_input *of, enum graph_type type,
                     uint32_t rank, const uint32_t *dim, const char *name);
/* Add a constant; `data` outlives the graph, or is the graph's. */
uint32_t build_constant(struct build *b, enum graph_type type, uint32_t rank, const uint32_t *dim,
                        const void *data);
uint32_t build_f32(struct build *b, float x);
uint32_t build_f64(struct build *b, double x);
uint32_t build_i64(struct build *b, int64_t x);
/* The tensor LAYER/WHAT of the model. */
uint32_t build_tensor(struct build *b, const char *layer, const char *what);
/* Where it is in memory. */
const float *build_tensor_data(const struct build *b, const char *layer, const char *what);

/* The value's type and shape; all zero after an error. */
struct graph_value build_look(const struct build *b, uint32_t value);

/* Add a node whose output's type and shape follow from its inputs. */
uint32_t build_unary(struct build *b, enum graph_op op, uint32_t x);
uint32_t build_binary(struct build *b, enum graph_op op, uint32_t x, uint32_t y);
uint32_t build_select(struct build *b, uint32_t condition, uint32_t x, uint32_t y);
uint32_t build_cast(struct build *b, enum graph_type type, uint32_t x);
uint32_t build_matmul(struct build *b, uint32_t x, uint32_t kernel);
/* To (n, dim...). A value that has this shape is returned as it is. */
uint32_t build_reshape(struct build *b, uint32_t x, uint32_t rank, const uint32_t *dim);
/* (n, dim...) -> (n, dim..., 1) */
uint32_t build_widen(struct build *b, uint32_t x);
/* Along the last axis; a single value is returned as it is. */
uint32_t build_concat(struct build *b, const uint32_t *x, uint32_t values);
/* The elements [begin, begin + count) of the last axis. */
uint32_t build_slice(struct build *b, uint32_t x, uint32_t begin, uint32_t count);
/* Over axes [axis, end). */
uint32_t build_reduce(struct build *b, enum graph_op op, uint32_t x, uint32_t axis, uint32_t end,
                      bool keeps_axes);
uint32_t build_gather(struct build *b, uint32_t table, uint32_t rows);
uint32_t build_find(struct build *b, enum graph_op op, uint32_t x, uint32_t of, uint32_t numbers);
/* CONV2D and pools: (n, out height, out width, channels). kernel: only for CONV2D. */
uint32_t build_window(struct build *b, enum graph_op op, uint32_t x, uint32_t kernel,
                      const struct graph_window window[2], bool same, const uint32_t out[3]);

/* activation.c: after an activation of this slope. */
uint32_t activation_build(struct build *b, enum activation a, float alpha, uint32_t x);
float activation_alpha(enum activation a);

/* encode.c: the features (n, width) of an input column; the keys of a column, i64, and their weights; weights: 0 if the
 * column has none. */
uint32_t encode_column(struct build *b, uint32_t column);
uint32_t encode_keys(struct build *b, uint32_t column, uint32_t *weights);

/* tables.c: make room for what layers find in tables; the output of a layer that looks up a table. */
void tables_begin(struct build *b);
uint32_t table_layer_build(struct build *b, uint32_t layer);
