/* The inside of model: the operations (ops) that a model consists of, and the functions that each layer's
 * file provides to model.c. A flatten layer needs no op, a dense layer (with relu inside) one or
 * two.
 *
 * The ops are in an order in which each reads only values that earlier ops made. Value 0 is the model's input, value
 * i + 1 is the output of op i; heads read some of them. flow.c assigns memory to values and gradients, run.c runs forward and
 * backward. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"
#include "common/parameters/layout.h"
#include "common/rows/lookups.h"
#include "model/model.h"

struct shape { /* the shape of one row */
    uint32_t rank, dim[TENSOR_RANK_MAX];
};

/* ---- windows over an image (height, width, channels) of one row, for conv2d and pooling: window.c ---- */

struct window_axis {
    uint32_t in, out; /* number of pixels, of windows */
    /* taps of a window; the distances between windows and between taps, in pixels */
    uint32_t size, stride, dilation;
    uint32_t pad; /* number of pixels by which the first window begins before the image */
};

struct window {
    struct window_axis y, x;
    uint32_t channels; /* of the input */
};

/* Pixels from the first tap to the last, both included. */
static inline uint32_t window_span(const struct window_axis *a)
{
    return (a->size - 1) * a->dilation + 1;
}

/* The first pixel of window i, which may be before the image. */
static inline int64_t window_first(const struct window_axis *a, uint32_t i)
{
    return (int64_t)i * a->stride - a->pad;
}

/* The taps [from, to) of window i that are inside the image. */
static inline void window_taps(const struct window_axis *a, uint32_t i, uint32_t *from,
                               uint32_t *to)
{
    int64_t first = window_first(a, i), behind = (int64_t)a->in - first;
    *from = first >= 0 ? 0 : (uint32_t)((-first + a->dilation - 1) / a->dilation);
    *to = behind >= window_span(a) ? a->size : (uint32_t)((behind + a->dilation - 1) / a->dilation);
}

/* True if no pixel is in two windows, and no window has padding. */
bool window_is_tiled(const struct window *w);

/* Errors: ERR_INPUT: `in` is not an image, or not even one window fits; the layer is named. */
enum err window_init(struct window *w, const struct shape *in, const char *layer,
                     const uint32_t size[2], const uint32_t stride[2], const uint32_t dilation[2],
                     enum padding padding, struct errmsg *e) MUST_CHECK;

/* Elements of one row of output. Errors: ERR_INPUT: more than BLAS can count. */
enum err window_elems(const struct window *w, uint32_t channels, uint32_t *elems, const char *layer,
                      struct errmsg *e) MUST_CHECK;

enum pooling { POOLING_MAX, POOLING_AVERAGE };

enum {
    OPS_MAX = 2 * JOB_LAYERS_MAX + JOB_HEADS_MAX,
    SLOTS_MAX = 2 * OPS_MAX + JOB_HEADS_MAX + 1,
    SLOT_NONE = UINT32_MAX
};

/* The gradient by one input of an op, or by what a head reads, is written into `slot`. If another op or head has already left
 * a gradient by the same value in `sum`, `slot` is then added to that. */
struct op_gradient {
    uint32_t slot; /* SLOT_NONE: the gradient is not needed */
    uint32_t sum;  /* SLOT_NONE: this gradient is the first */
};

struct op;

/* Features [first, first + n) of the model's input. */
struct feature_range {
    uint32_t first, n;
};

/* An invalid value in the data. */
struct op_fault {
    enum err err;
    struct errmsg why;
};

/* The arguments of an op for n examples. x: (rows, in) of each input, y: (rows, out), w and dw: the whole flat
 * block. */
struct op_pass {
    size_t n, rows; /* n * op->outer */
    size_t first;   /* tables: the first example's row in `keys` */
    bool train;
    uint64_t key; /* for the op's random numbers */
    const float *w, *x[JOB_INPUTS_MAX];
    /* the op's weights from its `pack`; NULL: in training, and if the op has none */
    const float *packed;
    float *y;
    const struct leaf_keys *keys; /* tables: the keys that the examples look up; NULL: none */
    const struct leaf_rows *table;
    const struct feature_range *range; /* select: of the model */
    void *state;                       /* data that forward leaves for backward */
    float *work;                       /* scratch memory for one call */
    struct op_fault *fault;
    /* for backward */
    uint32_t input;      /* the input whose gradient is dx */
    float *dx, *dy, *dw; /* dw NULL: not needed, because the op is frozen */
};

/* The functions of one kind of op; they are in the file of the layer that makes it. If op->elementwise, forward's y
 * may be x[0], and backward's dx is dy. */
struct op_type {
    void (*forward)(const struct op *op, const struct op_pass *p);
    /* dx = the gradient by input p->input; NULL: not needed. dw = the gradient by the op's tensors; NULL: not
     * needed. It may overwrite dy. Called once for each input, the last one first. */
    void (*backward)(const struct op *op, const struct op_pass *p);
    size_t (*state_bytes)(const struct op *op, size_t n); /* for n examples; NULL: none */
    size_t (*work_elems)(const struct op *op);            /* NULL: none */
    /* packed (packed_elems) = the op's weights in the order in which forward reads them, if they never change
     * (packed_new). NULL: none; forward then reads w. */
    void (*pack)(const struct op *op, float *packed, const float *w);
    size_t (*packed_elems)(const struct op *op);
    bool side_by_side; /* y is the inputs next to each other, op->width of each */
};

/* One op; it maps (outer, in) to (outer, out) for each row of the batch. */
struct op {
    const struct op_type *type;
    const struct job_layer *layer; /* part of the model */
    uint32_t outer, in, out;
    uint32_t inputs, input[JOB_INPUTS_MAX]; /* indices of values */
    bool reads_x, reads_y;                  /* backward reads the inputs, the output */
    /* The output may overwrite the (first) input, and the gradient by the input may overwrite the gradient by the
     * output: their elements correspond. */
    bool elementwise;
    uint32_t lookups;           /* tables: how many of the job's; such an op has no inputs */
    bool drops;                 /* passes no gradient where its output is 0 */
    enum activation activation; /* of an activation op; inside dense and conv2d: linear or relu */
    bool blas;                  /* computed by OpenBLAS in training */
    uint32_t tensor, tensors;   /* its parameters, as indices in the layout */
    uint64_t kernel_offset, bias_offset; /* in the flat block */
    union {                              /* fields of one type */
        float alpha;                     /* activation: the slope of elu and leaky_relu */
        uint32_t width[JOB_INPUTS_MAX];  /* concatenate: length of each input's last axis */
        struct {
            uint32_t ranges, first; /* indices into the model's ranges */
        } select;
        struct {
            uint32_t first; /* of the job's lookups */
            uint32_t table; /* index in the row layout */
            enum bag_mode bag;
        } lookup;
        struct {
            struct window window;
            uint32_t channels; /* of the output */
            /* computed by conv2d_direct.c; direct_dx: with a gradient by the input */
            bool direct, direct_dx;
            /* it also takes the maximum of these windows; `out` counts the elements after that */
            bool pooled;
            struct window pool;
        } conv2d;
        struct {
            struct window window;
            uint32_t channels;
            enum pooling kind;
        } pooling;
        struct {
            /* in the flat block */
            uint64_t gamma_offset, beta_offset, mean_offset, variance_offset;
        } normalization;
    };

    /* flow.c */
    bool in_place; /* its output is in the memory of its first input */
    bool backward; /* the gradient by its output is needed */
    uint32_t y;    /* the slot of its output */
    uint32_t dy;   /* the slot of the gradient by its output */
    struct op_gradient dx[JOB_INPUTS_MAX];
};

/* The output of a layer. */
struct tap {
    uint32_t value;
    struct shape shape;
};

/* One of the job's heads. */
struct head {
    uint32_t value;               /* that its loss reads */
    struct shape shape;           /* of one row of it */
    bool fused;                   /* the loss contains a softmax or sigmoid of it: it is logits */
    uint32_t first_label, labels; /* its columns of the examples' labels */
    bool masked;
    bool counted; /* its metrics are means over a sum of its labels' weights: at count_sum */
    uint32_t count_sum;
    float weight;
    enum loss_kind loss;
    float *class_weight;     /* (classes); NULL: all 1 */
    struct job_layer reader; /* reads the inputs as a layer of one input does */
    struct op_gradient dz;   /* flow.c */
};

/* Outputs that belong to one label. */
static inline uint32_t head_cols(const struct head *h)
{
    return h->shape.dim[0] / h->labels;
}

/* Labels must be below it; 0: they are values. */
static inline uint32_t head_classes(const struct head *h)
{
    enum job_labels labels = job_loss_labels(h->loss);
    return labels == LABELS_CLASSES ? h->shape.dim[0] : labels == LABELS_TWO_CLASSES ? 2 : 0;
}

struct model {
    char blas[MODEL_BLAS_BYTES]; /* "": it needs no OpenBLAS */
    struct layout layout;        /* with the tables' rows */
    struct {
        float l1, l2;
    } row_penalty[ROW_TABLES_MAX]; /* of each table: the factors of its regularizer */
    uint32_t ops;
    struct op op[OPS_MAX];
    struct job_layer layer[JOB_LAYERS_MAX];
    struct shape layer_shape[JOB_LAYERS_MAX]; /* of one row of each layer's output */
    /* while layers are added: the input of the next one */
    struct shape shape; /* shape of `value`; at most INT32_MAX elements */
    uint32_t value;
    struct tap from[JOB_INPUTS_MAX];
    uint32_t ranges; /* of all selections of input columns */
    struct feature_range *range;
    uint32_t features;
    uint32_t heads, labels; /* labels: columns of all heads */
    struct head head[JOB_HEADS_MAX];
    uint32_t metrics;
    struct job_metric metric[METRICS_MAX];
    uint32_t progressive, error_sum; /* metric_progressive; index of its error among the sums */

    /* flow.c: memory for values and gradients */
    uint32_t slots;
    size_t slot_elems[SLOTS_MAX]; /* elements for one row of data */
};

/* Elements of one row. */
static inline size_t op_out_elems(const struct op *op)
{
    return (size_t)op->outer * op->out;
}

uint32_t shape_elems(const struct shape *s);

/* ---- building: ops.c; lookup_op_index: model.c ---- */

/* True if it has parameters, and training does not change them. */
static inline bool op_is_frozen(const struct op *op)
{
    return op->tensors > 0 && job_layer_is_frozen(op->layer);
}

/* True if it has parameters to train. */
static inline bool op_learns(const struct op *op)
{
    return (op->tensors > 0 && !op_is_frozen(op)) || op->lookups > 0;
}

/* Index of the op of lookup layer i, below model_lookups. */
uint32_t lookup_op_index(const struct model *m, uint32_t i);

/* Append an op; without inputs or lookups of its own it reads m->value. Its output becomes m->value. */
void op_append(struct model *m, const struct op *op);
/* Remove op i: readers of its output then read its first input. */
void op_remove(struct model *m, uint32_t i);
/* How many ops and heads read the value. */
uint32_t value_readers(const struct model *m, uint32_t value);

/* Each layer's NAME_add appends its ops. They read m->value of m->shape, and leave the layer's output there; *l is
 * part of the model. A layer with several inputs reads l->inputs of m->from; the first one is m->value. Errors:
 * ERR_INPUT, ERR_NOMEM. */
typedef enum err layer_add(struct model *m, const struct job_layer *l, struct errmsg *e);
#define LAYER_ADD(KIND, name, ...) layer_add name##_add;
JOB_LAYERS(LAYER_ADD, JOB_NO_LAYER_ALIAS)

/* merge.c: a layer that takes one input but names several reads them side by side; layers that merge do it
 * themselves. */
enum err merge_inputs(struct model *m, const struct job_layer *l, struct errmsg *e) MUST_CHECK;

/* Append the op of an activation over the last axis, with the slope from the layer's options; linear needs no op. */
void activation_append(struct model *m, const struct job_layer *l, enum activation activation);
const char *activation_name(enum activation a);

/* Append the tensor LAYER/WHAT for the op that is being made. *t brings its shape; *offset receives its offset in
 * the flat block. Errors: ERR_INPUT, ERR_NOMEM. */
enum err weights_add(struct model *m, struct op *op, uint64_t *offset, struct tensor *t,
                     const char *what, const struct job_weights *init, struct errmsg *e) MUST_CHECK;
/* Append LAYER/kernel of this shape and, if use_bias, LAYER/bias as long as its last dimension. */
enum err weights_add_kernel_and_bias(struct model *m, struct op *op, struct tensor *kernel,
                                     struct errmsg *e) MUST_CHECK;

/* Set how a tensor, or a table's rows, get their first values. *t must have its shape, which gives the fans. */
void weights_init(struct tensor *t, const struct job_weights *init);

/* ---- shared by layers ---- */

/* The op of a layer that looks up rows of a table: lookup.c. */
enum err lookup_append(struct model *m, const struct job_layer *l, enum bag_mode mode,
                       struct errmsg *e) MUST_CHECK;
/* Add the gradients by the looked-up rows, after the backward pass of all ops. slot: the run's slots, which have the
 * gradients by the ops' outputs. The order of the sums is: by table, by example, by lookup. */
void lookup_backward_rows(const struct model *m, float *const *slot, const struct op_pass *p);

/* ---- flow.c: assigns memory to values and gradients, when all ops are appended ---- */
void flow_plan(struct model *m);

/* ---- conv2d.c: decides how convolutions are computed, before flow_plan ---- */
void conv2d_fuse(struct model *m);
/* True if conv2d_direct.c can compute it at every SIMD level. */
bool conv2d_may_be_direct(const struct op *op, bool wants_dx);

/* ---- running: the op types that other files need ---- */

extern const struct op_type activation_op, conv2d_op, dropout_op, pooling_op, select_op;

/* x (n, in.y, in.x, in channels), y (n, out.y, out.x, channels), kernel (size.y, size.x, in channels, channels).
 * work: conv2d_direct_work_elems floats. If op->conv2d.pooled: y is (n, pool.y.out, pool.x.out, channels), and the state is
 * arg (shaped as y), for backward. Only for op->conv2d.direct. */
void conv2d_direct_forward(const struct op *op, const struct op_pass *p);
/* Reads y if not op->conv2d.pooled, arg if it is. */
void conv2d_direct_backward(const struct op *op, const struct op_pass *p);
size_t conv2d_direct_work_elems(const struct op *op);

/* p (rows, cols) = softmax of each row of z; p may be z. max and sum (rows), if not NULL, receive the row's largest
 * logit and the sum of exp(z - max). */
void softmax_rows(float *p, float *max, float *sum, const float *z, size_t rows, size_t cols);

/* ---- run.c, for benchmarks: run op i again on the values that the last model_train left ---- */
struct model_run;
void run_op_forward(struct model_run *r, uint32_t i, const float *w, uint32_t n);
void run_op_backward(struct model_run *r, uint32_t i, const float *w, uint32_t n, float *dw);

/* ---- regularizers ---- */

/* Add the regularizers' gradient, times n examples; model_penalty gives their part of the loss. */
void regularizer_backward(const struct model *m, const struct op *op, float *dw, const float *w,
                          float n);
/* Regularizers of the rows that a microbatch looks up, each once, times its examples: their part of the loss, and of
 * their gradients. The loss of an evaluation does not contain it. */
double regularizer_rows(const struct model *m, const struct op_pass *p);
void regularizer_backward_rows(const struct model *m, const struct op_pass *p);
