/* Inside worker/model: the operations that a model is made of, and what one file per layer, loss.c
 * and metric.c give to model.c. A flatten leaves none behind, a dense one (with relu inside) or
 * two.
 *
 * The operations stand in an order in which each reads only what those before it made. Value 0 is
 * the model's input, value i + 1 is what operation i makes; the last one is the model's output.
 * flow.c decides where values and gradients stand, run.c goes forward and backward. */
#ifndef GRADWIRE_WORKER_MODEL_LAYERS_H
#define GRADWIRE_WORKER_MODEL_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/parameters/layout.h"
#include "worker/model/window.h"

struct shape { /* of one row */
    uint32_t rank, dim[TENSOR_RANK_MAX];
};

enum op_kind {
    OP_DENSE,
    OP_ACTIVATION,
    OP_DROPOUT,
    OP_CONV2D,
    OP_POOLING,
    OP_ADD,
    OP_CONCATENATE,
    OP_BATCH_NORMALIZATION,
    OP_LAYER_NORMALIZATION,
    OP_EMBEDDING
};
enum pooling { POOLING_MAX, POOLING_AVERAGE };

enum { OPS_MAX = 2 * JOB_LAYERS_MAX, SLOTS_MAX = 2 * OPS_MAX + 2, SLOT_NONE = UINT32_MAX };

/* The gradient by one input of an op: it is written into `slot`; where another op has left a
 * gradient by the same value in `sum` already, `slot` is then added to that. */
struct op_gradient {
    uint32_t slot; /* SLOT_NONE: nobody wants it */
    uint32_t sum;  /* SLOT_NONE: it is the first */
};

/* One operation; for each row of the batch it maps (outer, in) to (outer, out). */
struct op {
    enum op_kind kind;
    const char *layer; /* its name, in the model */
    uint32_t outer, in, out;
    uint32_t inputs, input[JOB_INPUTS_MAX]; /* values */
    uint32_t width[JOB_INPUTS_MAX];         /* OP_CONCATENATE: of each input's last axis */
    enum activation activation;             /* OP_DENSE, OP_CONV2D: linear or relu */
    float rate;                             /* OP_DROPOUT */
    bool bias;
    float kernel_l1, kernel_l2, bias_l1,
        bias_l2;   /* regularizers: of the first tensor, the second */
    float alpha;   /* OP_ACTIVATION: elu's, leaky_relu's slope */
    float epsilon; /* normalizations */
    bool center, scale;
    uint32_t rows;          /* OP_EMBEDDING: of its table */
    struct window window;   /* OP_CONV2D, OP_POOLING */
    uint32_t channels;      /* of their output */
    bool direct, direct_dx; /* OP_CONV2D: conv2d_direct.c's, with a gradient by the input */
    bool pooled;            /* OP_CONV2D: with the largest of these windows; out is behind them */
    struct window pool;
    enum pooling pooling;
    uint32_t tensor, tensors;            /* its parameters, in the layout */
    uint64_t kernel_offset, bias_offset; /* in the flat block */
    uint64_t gamma_offset, beta_offset, mean_offset, variance_offset; /* normalizations */

    /* flow.c */
    bool in_place; /* its output stands where its first input stood */
    bool backward; /* a gradient by its output is wanted */
    uint32_t y;    /* the slot of its output */
    uint32_t dy;   /* the slot of the gradient by its output */
    struct op_gradient dx[JOB_INPUTS_MAX];
};

struct model {
    struct layout layout;
    uint32_t ops;
    struct op op[OPS_MAX];
    char name[JOB_LAYERS_MAX][JOB_NAME_MAX];
    struct shape
        shape; /* of `value`: while layers are added what the next one reads, then the output */
    uint32_t value;
    uint32_t features;
    enum loss_kind loss;
    bool fused; /* the loss contains the last layer's softmax or sigmoid: what it gets are logits */
    uint32_t metrics;
    enum metric_kind metric[METRICS_MAX];
    float *class_weight; /* of each class; NULL: all 1 */

    /* flow.c: buffers for values and gradients */
    uint32_t slots;
    size_t slot_elems[SLOTS_MAX]; /* for one row */
};

/* What a layer gives, for layers with several inputs. */
struct tap {
    uint32_t value;
    struct shape shape;
};

/* Elements of one row. */
static inline size_t op_in_elems(const struct op *op)
{
    return (size_t)op->outer * op->in;
}
static inline size_t op_out_elems(const struct op *op)
{
    return (size_t)op->outer * op->out;
}

uint32_t shape_elems(const struct shape *s);
/* "(28, 28)" */
void shape_text(const struct shape *s, char *out, size_t bytes);

/* ---- building: each appends what its layer needs, reading m->value of m->shape, and leaves its
 * own there ---- `name` is the layer's, valid as long as the model. Errors: ERR_INPUT, ERR_NOMEM. */

/* Append an op that reads m->value; it makes m->value. */
struct op *op_append(struct model *m, const struct op *op);
enum err flatten_add(struct model *m, const struct job_layer *l, const char *name,
                     struct errmsg *e) MUST_CHECK;
enum err dense_add(struct model *m, const struct job_layer *l, const char *name,
                   struct errmsg *e) MUST_CHECK;
enum err dropout_add(struct model *m, const struct job_layer *l, const char *name,
                     struct errmsg *e) MUST_CHECK;
enum err activation_add(struct model *m, const struct job_layer *l, const char *name,
                        struct errmsg *e) MUST_CHECK;
enum err conv2d_add(struct model *m, const struct job_layer *l, const char *name,
                    struct errmsg *e) MUST_CHECK;
enum err pooling_add(struct model *m, const struct job_layer *l, const char *name,
                     struct errmsg *e) MUST_CHECK;
enum err global_pooling_add(struct model *m, const struct job_layer *l, const char *name,
                            struct errmsg *e) MUST_CHECK;
enum err reshape_add(struct model *m, const struct job_layer *l, const char *name,
                     struct errmsg *e) MUST_CHECK;
enum err batch_normalization_add(struct model *m, const struct job_layer *l, const char *name,
                                 struct errmsg *e) MUST_CHECK;
enum err layer_normalization_add(struct model *m, const struct job_layer *l, const char *name,
                                 struct errmsg *e) MUST_CHECK;
enum err embedding_add(struct model *m, const struct job_layer *l, const char *name,
                       struct errmsg *e) MUST_CHECK;
enum err merge_add(struct model *m, const struct job_layer *l, const char *name,
                   const struct tap *from, uint32_t inputs, struct errmsg *e) MUST_CHECK;
const char *activation_name(enum activation a);

/* As struct job_layer has them. */
struct first_values {
    enum init_kind kind;
    float value, other;
};
/* Append the tensor LAYER/WHAT of the op that is being made; *t brings its shape, *offset receives
 * its place in the block. Errors: ERR_INPUT, ERR_NOMEM. */
enum err weights_add(struct model *m, struct op *op, uint64_t *offset, struct tensor *t,
                     const char *what, struct first_values init, struct errmsg *e) MUST_CHECK;
/* LAYER/kernel of this shape, and LAYER/bias as long as its last dimension where op->bias. */
enum err weights_add_kernel_and_bias(struct model *m, struct op *op, const struct job_layer *l,
                                     struct tensor *kernel, struct errmsg *e) MUST_CHECK;

/* ---- flow.c: where values and gradients stand, once all ops are there ---- */
void flow_plan(struct model *m);

/* ---- conv2d_fuse.c: how convolutions are computed, before flow_plan ---- */
void conv2d_fuse(struct model *m);
/* Whether conv2d_direct.c can do it, all other levels of SIMD alike. */
bool conv2d_may_be_direct(const struct op *op, bool wants_dx);

/* ---- running: rows = n * op->outer ---- */

/* y (rows, out) = act(x (rows, in) W (in, out) + b (out)) */
void dense_forward(const struct op *op, float *y, const float *w, const float *x, size_t rows);
/* dW (in, out) = x^T dy, db (out) = column sums of dy, written into the block `dw`; dx (rows, in) =
 * dy W^T unless it is NULL. dy (rows, out) is overwritten where a relu is inside. */
void dense_backward(const struct op *op, float *dx, float *dw, float *dy, const float *w,
                    const float *x, const float *y, size_t rows);

/* x (n, in.y, in.x, in channels), y (n, out.y, out.x, channels), kernel (size.y, size.x, in channels,
 * channels). work: conv2d_work_elems floats. Where op->pooled: y (n, pool.y.out, pool.x.out,
 * channels), and arg (as y) is for backward. */
void conv2d_forward(const struct op *op, float *y, uint8_t *arg, const float *w, const float *x,
                    size_t n, float *work);
/* As dense_backward. y counts where not op->pooled, arg where it is. */
void conv2d_backward(const struct op *op, float *dx, float *dw, float *dy, const float *w,
                     const float *x, const float *y, const uint8_t *arg, size_t n, float *work);
size_t conv2d_work_elems(const struct op *op);
/* The same where op->direct. */
void conv2d_direct_forward(const struct op *op, float *y, uint8_t *arg, const float *w,
                           const float *x, size_t n, float *work);
void conv2d_direct_backward(const struct op *op, float *dx, float *dw, float *dy, const float *w,
                            const float *x, const float *y, const uint8_t *arg, size_t n,
                            float *work);
size_t conv2d_direct_work_elems(const struct op *op);

/* The same shapes, as many channels in y as in x. work: pooling_work_elems floats. dy is written to,
 * and left as it was. */
void pooling_forward(const struct op *op, float *y, const float *x, size_t n, float *work);
void pooling_backward(const struct op *op, float *dx, float *dy, const float *x, size_t n,
                      float *work);
size_t pooling_work_elems(const struct op *op);

/* y may be x. */
void activation_forward(const struct op *op, float *y, const float *x, size_t rows);
/* dy becomes dx, by the output y or, where activation_needs_input, by the input x. */
void activation_backward(const struct op *op, float *dy, const float *x, const float *y,
                         size_t rows);
bool activation_needs_input(enum activation a);

/* p (rows, cols) = softmax of each row of z; p may be z. max and sum (rows), where not NULL,
 * receive the row's largest logit and the sum of exp(z - max). */
void softmax_rows(float *p, float *max, float *sum, const float *z, size_t rows, size_t cols);

/* y may be x; mask (elems) is for backward. */
void dropout_forward(const struct op *op, float *y, uint8_t *mask, const float *x, uint64_t key,
                     size_t elems);
void dropout_backward(const struct op *op, float *dy, const uint8_t *mask, size_t elems);

/* y = the sum of all x, in their order; y may be x[0]. elems: of one. */
void add_forward(const struct op *op, float *y, const float *const *x, size_t elems);
/* y (rows, out) = the rows of all x (rows, width) side by side; dx is one input's part of dy. */
void concatenate_forward(const struct op *op, float *y, const float *const *x, size_t rows);
void concatenate_backward(const struct op *op, uint32_t input, float *dx, const float *dy,
                          size_t rows);

/* y (rows, in), y may be x. In training by the rows' own mean and variance, which are left in
 * `state` (normalization_state_bytes) for backward, otherwise by the moving ones in w. */
void batch_normalization_forward(const struct op *op, float *y, const float *w, const float *x,
                                 size_t rows, bool train, void *state);
/* dx may be dy or NULL. In the place of the moving mean's and variance's gradients goes what the
 * shard averages: the rows' own, times the n examples. */
void batch_normalization_backward(const struct op *op, float *dx, float *dw, const float *dy,
                                  const float *w, const float *x, size_t rows, uint32_t n,
                                  void *state);
void layer_normalization_forward(const struct op *op, float *y, const float *w, const float *x,
                                 size_t rows, void *state);
void layer_normalization_backward(const struct op *op, float *dx, float *dw, const float *dy,
                                  const float *w, const float *x, size_t rows, void *state);
/* For up to `rows` rows of the batch. */
size_t normalization_state_bytes(const struct op *op, size_t rows);

/* y (rows, out) = the rows of the table that x (rows) names. One that is not there counts as row 0
 * and is told in *bad (its index in x); false then. */
bool embedding_forward(const struct op *op, float *y, const float *w, const float *x, size_t rows,
                       size_t *bad);
/* dw: the whole table, 0 where no row was read. */
void embedding_backward(const struct op *op, float *dw, const float *dy, const float *x,
                        size_t rows);

/* ---- run.c, for benchmarks: op i once more, on what the last model_train left standing ---- */
struct model_run;
void run_op_forward(struct model_run *r, uint32_t i, const float *w, uint32_t n);
void run_op_backward(struct model_run *r, uint32_t i, const float *w, uint32_t n, float *dw);

/* ---- loss and metrics ---- */

/* Check the pair of loss and last activation, fuse it (the last op is taken off), check the
 * outputs. Errors: ERR_INPUT naming what would fit. */
enum err loss_attach(struct model *m, const struct job *job, struct errmsg *e) MUST_CHECK;
const char *loss_name(enum loss_kind kind);

/* The sum over n examples of the example's loss; dz (n, cols) = its gradient by z (n, cols). z is
 * the last op's output: logits for the cross-entropies, outputs otherwise. y: (n). scratch: (2, n). weight: of each
 * class, NULL: all 1.
 */
double loss_rows(enum loss_kind kind, float *dz, float *scratch, const float *z, const float *y,
                 const float *weight, size_t n, size_t cols);

enum err metric_attach(struct model *m, const struct job *job, struct errmsg *e) MUST_CHECK;
/* Add what metric i makes of n examples to its sums. scratch: (n). */
void metric_rows(const struct model *m, uint32_t i, double *sum, float *scratch, const float *z,
                 const float *y, size_t n, size_t cols);

/* What the regularizers add to the loss at w, and, times n examples, to the gradient. */
double regularizer_penalty(const struct model *m, const float *w);
void regularizer_backward(const struct model *m, const struct op *op, float *dw, const float *w,
                          uint32_t n);

#endif
