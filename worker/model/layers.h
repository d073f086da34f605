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
#include "common/rows/lookups.h"
#include "worker/model/window.h"

struct shape { /* of one row */
    uint32_t rank, dim[TENSOR_RANK_MAX];
};

enum pooling { POOLING_MAX, POOLING_AVERAGE };

enum { OPS_MAX = 2 * JOB_LAYERS_MAX, SLOTS_MAX = 2 * OPS_MAX + 2, SLOT_NONE = UINT32_MAX };

/* The gradient by one input of an op: it is written into `slot`; where another op has left a
 * gradient by the same value in `sum` already, `slot` is then added to that. */
struct op_gradient {
    uint32_t slot; /* SLOT_NONE: nobody wants it */
    uint32_t sum;  /* SLOT_NONE: it is the first */
};

struct op;

/* Features [first, first + n) of the model's input. */
struct feature_range {
    uint32_t first, n;
};

/* What the data did that cannot be. */
struct op_fault {
    enum err err;
    struct errmsg why;
};

/* What an op works on: n examples. x (rows, in) of each input, y (rows, out), w and dw the whole flat block. */
struct op_pass {
    size_t n, rows; /* n * op->outer */
    bool train;
    uint64_t key; /* of its randomness */
    const float *w, *x[JOB_INPUTS_MAX];
    float *y;
    const struct leaf_keys *keys; /* tables: what the examples look up; NULL: none */
    const struct leaf_rows *table;
    const struct feature_range *range; /* select: of the model */
    void *state;                       /* what forward leaves to backward */
    float *work;                       /* room of its own while it runs */
    struct op_fault *fault;
    /* backward */
    uint32_t input; /* the one that dx is of */
    float *dx, *dy, *dw;
};

/* What one kind of op does; its file has it beside what it is made by. Where op->elementwise, forward's y may be x[0],
 * and backward's dx is dy. */
struct op_type {
    void (*forward)(const struct op *op, const struct op_pass *p);
    /* dx = the gradient by input p->input, unless it is NULL: nobody wants it; dw = that by the op's tensors. dy may be
     * written to. Called once for each input, the last one first. */
    void (*backward)(const struct op *op, const struct op_pass *p);
    size_t (*state_bytes)(const struct op *op, size_t n); /* of n examples; NULL: none */
    size_t (*work_elems)(const struct op *op);            /* NULL: none */
};

/* One operation; for each row of the batch it maps (outer, in) to (outer, out). */
struct op {
    const struct op_type *type;
    const struct job_layer *layer; /* in the model */
    uint32_t outer, in, out;
    uint32_t inputs, input[JOB_INPUTS_MAX]; /* values */
    bool reads_x, reads_y;                  /* backward does */
    bool elementwise; /* output may be written over the (first) input, and the gradient by that over
                         the one by it: their elements correspond */
    uint32_t width[JOB_INPUTS_MAX]; /* concatenate: of each input's last axis */
    uint32_t ranges, first_range;   /* select: of the model */
    uint32_t lookups, first_lookup; /* over a table: which of the job's; it has no inputs then */
    uint32_t table;                 /* of the row layout */
    enum bag_mode bag;
    bool drops;                 /* where it makes a 0 it passes no gradient */
    enum activation activation; /* what is inside; of dense and conv2d: linear or relu */
    float alpha;                /* elu's, leaky_relu's slope */
    struct window window;       /* conv2d, pooling */
    uint32_t channels;          /* of their output */
    bool direct, direct_dx;     /* conv2d_direct.c's, with a gradient by the input */
    bool pooled;                /* with the largest of these windows; out is behind them */
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

/* What a layer gives. */
struct tap {
    uint32_t value;
    struct shape shape;
};

struct model {
    struct layout layout; /* with the tables' */
    struct {
        float l1, l2;
    } row_penalty[ROW_TABLES_MAX]; /* of each table: its regularizer */
    uint32_t ops;
    struct op op[OPS_MAX];
    struct job_layer layer[JOB_LAYERS_MAX];
    /* While layers are added: what the next one reads; then the output. */
    struct shape shape; /* of `value`; at most INT32_MAX elements */
    uint32_t value;
    struct tap from[JOB_INPUTS_MAX];
    uint32_t ranges; /* of all selections of input columns */
    struct feature_range *range;
    uint32_t features;
    enum loss_kind loss;
    bool fused; /* the loss contains the last layer's softmax or sigmoid: what it gets are logits */
    uint32_t metrics;
    enum metric_kind metric[METRICS_MAX];
    bool weighted;       /* its examples have weights */
    float *class_weight; /* of each class; NULL: all 1 */

    /* flow.c: buffers for values and gradients */
    uint32_t slots;
    size_t slot_elems[SLOTS_MAX]; /* for one row */
};

/* Elements of one row. */
static inline size_t op_out_elems(const struct op *op)
{
    return (size_t)op->outer * op->out;
}

uint32_t shape_elems(const struct shape *s);
/* "(28, 28)" */
void shape_text(const struct shape *s, char *out, size_t bytes);

/* ---- building ---- */

/* It has something to train. */
static inline bool op_learns(const struct op *op)
{
    return op->tensors > 0 || op->lookups > 0;
}

/* Append an op; without inputs or lookups of its own it reads m->value. It makes m->value. */
void op_append(struct model *m, const struct op *op);

/* Each layer's NAME_add appends what it needs, reading m->value of m->shape, and leaves its own there; *l is in the model.
 * One of several inputs reads l->inputs of m->from; the first one is m->value. Errors: ERR_INPUT, ERR_NOMEM. */
typedef enum err layer_add(struct model *m, const struct job_layer *l, struct errmsg *e);
#define LAYER_ADD(KIND, name) layer_add name##_add;
JOB_LAYERS(LAYER_ADD)

/* merge.c: a layer of one input that names several has them side by side; those that merge do it themselves. */
enum err merge_inputs(struct model *m, const struct job_layer *l, struct errmsg *e) MUST_CHECK;

/* The op of an activation, over the last axis, with the slope that it has as an option of a layer; linear needs none. */
void activation_append(struct model *m, const struct job_layer *l, enum activation activation);
const char *activation_name(enum activation a);

/* Append the tensor LAYER/WHAT of the op that is being made; *t brings its shape, *offset receives
 * its place in the block. Errors: ERR_INPUT, ERR_NOMEM. */
enum err weights_add(struct model *m, struct op *op, uint64_t *offset, struct tensor *t,
                     const char *what, const struct job_weights *init, struct errmsg *e) MUST_CHECK;
/* LAYER/kernel of this shape, and LAYER/bias as long as its last dimension where use_bias. */
enum err weights_add_kernel_and_bias(struct model *m, struct op *op, struct tensor *kernel,
                                     struct errmsg *e) MUST_CHECK;

/* How a tensor, or a table's rows, get their first values: as in struct tensor, whose shape says the fans. */
void weights_init(struct tensor *t, const struct job_weights *init);

/* ---- what layers have in common ---- */

/* The op of a layer that looks up rows of a table: lookup.c. */
enum err lookup_append(struct model *m, const struct job_layer *l, enum bag_mode mode,
                       struct errmsg *e) MUST_CHECK;
/* The gradient by all rows, once every op is through its backward; slot: of the run, where the gradients by the ops' outputs
 * stand. The looked-up rows' gradients are added up by table, then by example, then in the order of the lookups. */
void lookup_backward_rows(const struct model *m, float *const *slot, const struct op_pass *p);

/* Columns of the model's input, model.selection[i] of the job: m->value and m->shape become theirs: select.c.
 * Errors: ERR_INPUT, ERR_NOMEM. */
enum err select_append(struct model *m, const struct job *job, const struct job_layer *l,
                       uint32_t i, struct errmsg *e) MUST_CHECK;

/* ---- flow.c: where values and gradients stand, once all ops are there ---- */
void flow_plan(struct model *m);

/* ---- conv2d_fuse.c: how convolutions are computed, before flow_plan ---- */
void conv2d_fuse(struct model *m);
/* Whether conv2d_direct.c can do it, all other levels of SIMD alike. */
bool conv2d_may_be_direct(const struct op *op, bool wants_dx);

/* ---- running: the types that others ask for ---- */

extern const struct op_type activation_op, conv2d_op, dropout_op, pooling_op, select_op;

/* x (n, in.y, in.x, in channels), y (n, out.y, out.x, channels), kernel (size.y, size.x, in channels,
 * channels). work: conv2d_direct_work_elems floats. Where op->pooled: y (n, pool.y.out, pool.x.out,
 * channels), and the state is arg (as y), for backward. Where op->direct. */
void conv2d_direct_forward(const struct op *op, const struct op_pass *p);
/* y counts where not op->pooled, arg where it is. */
void conv2d_direct_backward(const struct op *op, const struct op_pass *p);
size_t conv2d_direct_work_elems(const struct op *op);

/* p (rows, cols) = softmax of each row of z; p may be z. max and sum (rows), where not NULL,
 * receive the row's largest logit and the sum of exp(z - max). */
void softmax_rows(float *p, float *max, float *sum, const float *z, size_t rows, size_t cols);

/* ---- run.c, for benchmarks: op i once more, on what the last model_train left standing ---- */
struct model_run;
void run_op_forward(struct model_run *r, uint32_t i, const float *w, uint32_t n);
void run_op_backward(struct model_run *r, uint32_t i, const float *w, uint32_t n, float *dw);

/* ---- loss and metrics ---- */

/* Check the pair of loss and last activation, fuse it (the last op is taken off), check the
 * outputs. Errors: ERR_INPUT naming what would fit. */
enum err loss_attach(struct model *m, const struct job *job, struct errmsg *e) MUST_CHECK;
const char *loss_name(enum loss_kind kind);
bool loss_is_crossentropy(enum loss_kind kind);

/* The sum over n examples of the example's loss; dz (n, cols) = its gradient by z (n, cols). z is
 * the last op's output: logits for the cross-entropies, outputs otherwise. y: (n). scratch: (2, n). weight: (n),
 * NULL: all 1. */
double loss_rows(enum loss_kind kind, float *dz, float *scratch, const float *z, const float *y,
                 const float *weight, size_t n, size_t cols);

enum err metric_attach(struct model *m, const struct job *job, struct errmsg *e) MUST_CHECK;
/* Add what metric i makes of n examples to its sums. scratch: (n); weight: (n), NULL: all 1. */
void metric_rows(const struct model *m, uint32_t i, double *sum, float *scratch, const float *z,
                 const float *y, const float *weight, size_t n, size_t cols);
/* Add the examples' weights to the sum that the means are divided by; a job without weights has none. */
void metric_weigh(const struct model *m, double *sum, const float *weight, size_t n);

/* Adds the regularizers to the gradient, times n examples; model_penalty gives their part of the loss. */
void regularizer_backward(const struct model *m, const struct op *op, float *dw, const float *w,
                          float n);
/* The same of the rows that a microbatch looks up, each once, times its examples: their part of the loss, and of their
 * gradients. An evaluation's loss has none of it. */
double regularizer_rows(const struct model *m, const struct op_pass *p);
void regularizer_backward_rows(const struct model *m, const struct op_pass *p);

#endif
