/* The layers of a job: their kinds and their options. Their keys are in the table of the model's keys; the layers
 * themselves are in model. */
#ifndef GRADWIRE_JOB_LAYER_H
#define GRADWIRE_JOB_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/parameters/layout.h"

enum { JOB_NAME_MAX = 64, JOB_INPUTS_MAX = 8, JOB_INPUT_SELECTION = 1 << 16 };

enum activation {
    ACT_LINEAR,
    ACT_RELU,
    ACT_SIGMOID,
    ACT_TANH,
    ACT_SOFTMAX,
    ACT_LEAKY_RELU,
    ACT_ELU,
    ACT_GELU,
    ACT_GELU_TANH, /* gelu with approximate: true */
    ACT_SELU,
    ACT_SILU,
    ACT_SOFTPLUS
};
enum padding { PADDING_VALID, PADDING_SAME };
enum bag_mode { BAG_SUM, BAG_MEAN, BAG_SQRTN };
enum regularizer_kind { REGULARIZER_NONE, REGULARIZER_L1, REGULARIZER_L2, REGULARIZER_L1_L2 };

enum layer_traits {
    LAYER_PLAIN = 0,
    LAYER_IN_ORDER = 1,   /* the elements of a flattened image keep their order */
    LAYER_MERGES = 2,     /* takes several inputs; the others read several side by side */
    LAYER_BY_ELEMENT = 4, /* its weights belong to the elements of the vector that it reads */
};

/* X(suffix of the LAYER_ constant, prefix of model's NAME_add function, traits) */
#define JOB_LAYERS(X)                                                                              \
    X(FLATTEN, flatten, LAYER_IN_ORDER)                                                            \
    X(DENSE, dense, LAYER_BY_ELEMENT)                                                              \
    X(DROPOUT, dropout, LAYER_IN_ORDER)                                                            \
    X(ACTIVATION, activation, LAYER_IN_ORDER)                                                      \
    X(CONV2D, conv2d, LAYER_PLAIN)                                                                 \
    X(MAX_POOLING2D, max_pooling2d, LAYER_PLAIN)                                                   \
    X(AVERAGE_POOLING2D, average_pooling2d, LAYER_PLAIN)                                           \
    X(GLOBAL_MAX_POOLING2D, global_max_pooling2d, LAYER_PLAIN)                                     \
    X(GLOBAL_AVERAGE_POOLING2D, global_average_pooling2d, LAYER_PLAIN)                             \
    X(RESHAPE, reshape, LAYER_IN_ORDER)                                                            \
    X(ADD, add, LAYER_IN_ORDER | LAYER_MERGES)                                                     \
    X(CONCATENATE, concatenate, LAYER_MERGES)                                                      \
    X(LEAKY_RELU, leaky_relu, LAYER_IN_ORDER)                                                      \
    X(ELU, elu, LAYER_IN_ORDER)                                                                    \
    X(GELU, gelu, LAYER_IN_ORDER)                                                                  \
    X(BATCH_NORMALIZATION, batch_normalization, LAYER_IN_ORDER | LAYER_BY_ELEMENT)                 \
    X(LAYER_NORMALIZATION, layer_normalization, LAYER_IN_ORDER | LAYER_BY_ELEMENT)                 \
    X(EMBEDDING, embedding, LAYER_PLAIN)                                                           \
    X(EMBEDDING_BAG, embedding_bag, LAYER_PLAIN)                                                   \
    X(LINEAR, linear, LAYER_PLAIN)

#define JOB_LAYER_KIND(KIND, name, traits) LAYER_##KIND,
enum layer_kind { JOB_LAYERS(JOB_LAYER_KIND) LAYER_KINDS };

static inline bool layer_has(enum layer_kind kind, enum layer_traits trait)
{
#define JOB_LAYER_TRAITS(KIND, name, traits) traits,
    static const int of[] = {JOB_LAYERS(JOB_LAYER_TRAITS)};
    return (of[kind] & (int)trait) != 0;
}

/* Initializer and regularizer of a kernel or a bias. */
struct job_weights {
    enum init_kind initializer;
    float init_value; /* the constant, a normal's stddev, or maxval */
    float init_other; /* a normal's mean, or minval */
    enum regularizer_kind regularizer;
    float l1, l2;
};

struct job_layer {
    enum layer_kind kind;
    char name[JOB_NAME_MAX]; /* given, or made as in Keras: dense, dense_1, ... */
    /* Inputs: 0 is the model's input; i + 1 is layer i; JOB_INPUT_SELECTION + i is model.selection[i], columns of
     * the model's input. Without `inputs` it is the layer before. A layer that looks up in a table has lookups
     * instead of inputs: model.lookup from first_lookup on, in the order of its `inputs`. */
    uint32_t inputs, input[JOB_INPUTS_MAX];
    uint32_t lookups, first_lookup, table; /* table: index in model.table */
    char table_name[JOB_NAME_MAX];         /* "": a layer without lookups */
    struct job_weights kernel, bias; /* if the layer has them; defaults glorot_uniform, zeros */
    bool use_bias;
    bool trainable; /* see job_layer_is_frozen */
    union {         /* options of this kind of layer; pairs are (height, width) */
        struct {
            uint32_t units;
            enum activation activation;
        } dense;
        struct {
            float rate;
        } dropout;
        struct {
            enum activation activation;
        } activation;
        struct {
            float negative_slope;
        } leaky_relu;
        struct {
            float alpha;
        } elu;
        struct {
            bool approximate;
        } gelu;
        struct {
            uint32_t filters, kernel_size[2], strides[2], dilation_rate[2];
            enum padding padding;
            enum activation activation;
        } conv2d;
        struct {
            uint32_t pool_size[2], strides[2];
            enum padding padding;
        } pooling2d; /* max, average */
        struct {
            bool keepdims;
        } global_pooling2d; /* max, average */
        struct {
            uint32_t rank, shape[TENSOR_RANK_MAX];
        } reshape;
        struct {
            float momentum; /* batch only */
            float epsilon;
            bool center, scale;
        } normalization; /* batch, layer */
        struct {
            uint32_t input_dim; /* 0: it looks up in a table */
            uint32_t output_dim;
        } embedding;
        struct {
            uint32_t output_dim;
            enum bag_mode mode;
        } embedding_bag;
    };
};

/* Returns whether the layer looks up rows of a table by keys of columns. */
static inline bool job_layer_looks_up(const struct job_layer *l)
{
    return l->kind == LAYER_EMBEDDING_BAG || l->kind == LAYER_LINEAR ||
           (l->kind == LAYER_EMBEDDING && l->embedding.input_dim == 0);
}

/* For a layer with weights: returns whether training leaves them as they are. Rows of a table are always trained. */
static inline bool job_layer_is_frozen(const struct job_layer *l)
{
    return !l->trainable && !job_layer_looks_up(l);
}

#endif
