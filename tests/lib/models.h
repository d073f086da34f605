/* Small models for tests, without a job file. */
#pragma once

#include "job/job.h"

/* An empty model over inputs of this shape (b = 0: one dimension); biases start at zero. */
void models_start(struct job *job, uint32_t a, uint32_t b, enum loss_kind loss, bool from_logits);
/* One more head, of the last layer and one label. */
struct job_head *models_head(struct job *job, enum loss_kind loss);
/* The last head reads these, not the last layer: 0 is the model's input, i + 1 layer i. */
void models_head_reads(struct job *job, uint32_t inputs, const uint32_t *input);
void models_dense(struct job *job, uint32_t units, enum activation activation);
void models_flatten(struct job *job);
void models_dropout(struct job *job, float rate);
void models_activation(struct job *job, enum activation activation);
/* No padding, strides and dilation of 1; whoever wants others sets them. */
struct job_layer *models_conv2d(struct job *job, uint32_t filters, uint32_t height, uint32_t width,
                                enum activation activation);
/* Square windows; a global one takes none. */
struct job_layer *models_pooling(struct job *job, enum layer_kind kind, uint32_t size,
                                 uint32_t stride);
void models_reshape(struct job *job, uint32_t height, uint32_t width, uint32_t channels);
/* add or concatenate of two: 0 is the model's input, i + 1 layer i. */
void models_merge(struct job *job, enum layer_kind kind, uint32_t a, uint32_t b);
/* The last layer reads a (and b), not the one before it. */
void models_read(struct job *job, uint32_t a, uint32_t b);
/* Batch or layer, with Keras's defaults. */
struct job_layer *models_normalization(struct job *job, enum layer_kind kind);
/* leaky_relu, elu; gelu. */
struct job_layer *models_slope(struct job *job, enum layer_kind kind, float alpha);
void models_embedding(struct job *job, uint32_t input_dim, uint32_t output_dim);
/* A table of rows of `dim` floats, whose keys list `list` has; returns its index. Lists ascend. */
uint32_t models_table(struct job *job, uint32_t dim, uint32_t list);
/* embedding, embedding_bag or linear over a table: `lookups` key columns of its own. */
struct job_layer *models_lookup(struct job *job, enum layer_kind kind, uint32_t table,
                                uint32_t lookups);
/* One-hot columns of the model's input, `width` features each. */
void models_columns(struct job *job, uint32_t columns, uint32_t width);
/* The last layer reads these columns in place of a layer. */
void models_select(struct job *job, uint32_t columns, const uint32_t *column);
/* Frees the memory of the last three. */
void models_close(struct job *job);
void models_metric(struct job *job, enum metric_kind metric);
