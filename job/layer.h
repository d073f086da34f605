/* The layers of a job: their kinds and their options. Their keys are in the table of the model's keys; the layers
 * themselves are in model. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
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
    LAYER_OF_ROWS = 8, /* in training, a row's outputs depend on the other rows of its microbatch */
};

/* A layer is a row here, its keys below, and its settings in the union of struct job_layer.
 * X(suffix of the LAYER_ constant and of its _KEYS; word, and prefix of model's NAME_add function; class in Keras, or NULL;
 *   traits; an example of its inputs; the option that a single value sets, or NULL; meaning)
 * ALIAS(suffix, another word of the same layer, its class in Keras, meaning) */
#define JOB_LAYERS(X, ALIAS)                                                                       \
    X(FLATTEN, flatten, "Flatten", LAYER_IN_ORDER, "[input]", NULL,                                \
      "Reshapes each example to one dimension.")                                                   \
    X(DENSE, dense, "Dense", LAYER_BY_ELEMENT, "[input]", "units",                                 \
      "Multiplies its inputs by a kernel, then adds a bias and applies an activation. If the "     \
      "layer has several `inputs`, it concatenates them first.")                                   \
    X(DROPOUT, dropout, "Dropout", LAYER_IN_ORDER, "[input]", "rate",                              \
      "Sets a random share of its inputs to 0 during training. In an evaluation it changes "       \
      "nothing.")                                                                                  \
    X(ACTIVATION, activation, "Activation", LAYER_IN_ORDER, "[input]", "activation",               \
      "Applies an [activation](#activations).")                                                    \
    ALIAS(ACTIVATION, relu, "ReLU", LAYER_OF("relu"))                                              \
    ALIAS(ACTIVATION, sigmoid, "Activation", LAYER_OF("sigmoid"))                                  \
    ALIAS(ACTIVATION, tanh, "Activation", LAYER_OF("tanh"))                                        \
    ALIAS(ACTIVATION, softmax, "Softmax", LAYER_OF("softmax"))                                     \
    ALIAS(ACTIVATION, selu, "Activation", LAYER_OF("selu"))                                        \
    ALIAS(ACTIVATION, silu, "Activation", LAYER_OF("silu"))                                        \
    ALIAS(ACTIVATION, softplus, "Activation", LAYER_OF("softplus"))                                \
    X(LEAKY_RELU, leaky_relu, "LeakyReLU", LAYER_IN_ORDER, "[input]", "negative_slope",            \
      "Multiplies negative inputs by `negative_slope`.")                                           \
    X(ELU, elu, "ELU", LAYER_IN_ORDER, "[input]", "alpha",                                         \
      "Replaces a negative input x by `alpha * (exp(x) - 1)`.")                                    \
    X(GELU, gelu, NULL, LAYER_IN_ORDER, "[input]", NULL,                                           \
      "Multiplies x by the probability that a standard normal variable is less than x.")           \
    X(BATCH_NORMALIZATION, batch_normalization, "BatchNormalization",                              \
      LAYER_IN_ORDER | LAYER_BY_ELEMENT | LAYER_OF_ROWS, "[input]", NULL,                          \
      "Normalizes the last axis. Training uses the mean and variance of the microbatch, an "       \
      "evaluation their moving averages.")                                                         \
    X(LAYER_NORMALIZATION, layer_normalization, "LayerNormalization",                              \
      LAYER_IN_ORDER | LAYER_BY_ELEMENT, "[input]", NULL,                                          \
      "Normalizes each example over its last axis.")                                               \
    X(EMBEDDING, embedding, "Embedding", LAYER_PLAIN, "[user]", NULL,                              \
      "Replaces each id, or each key of its columns, by a trained vector (a row).")                \
    X(EMBEDDING_BAG, embedding_bag, NULL, LAYER_PLAIN, "[user]", NULL,                             \
      "Looks up all keys of each column in a table and combines their rows to one vector for "     \
      "each column.")                                                                              \
    X(LINEAR, linear, NULL, LAYER_PLAIN, "[user]", "inputs",                                       \
      "Adds up one weight for each key of its columns: the wide part of a model.")                 \
    X(CONV2D, conv2d, "Conv2D", LAYER_PLAIN, "[input]", NULL,                                      \
      "Convolves images `[height, width, channels]` with a kernel.")                               \
    X(MAX_POOLING2D, max_pooling2d, "MaxPooling2D", LAYER_PLAIN, "[input]", "pool_size",           \
      "Takes the maximum of each window.")                                                         \
    X(AVERAGE_POOLING2D, average_pooling2d, "AveragePooling2D", LAYER_PLAIN, "[input]",            \
      "pool_size", "Takes the mean of each window.")                                               \
    X(GLOBAL_MAX_POOLING2D, global_max_pooling2d, "GlobalMaxPooling2D", LAYER_PLAIN, "[input]",    \
      NULL, "Takes the maximum of each channel over the whole image.")                             \
    X(GLOBAL_AVERAGE_POOLING2D, global_average_pooling2d, "GlobalAveragePooling2D", LAYER_PLAIN,   \
      "[input]", NULL, "Takes the mean of each channel over the whole image.")                     \
    X(RESHAPE, reshape, "Reshape", LAYER_IN_ORDER, "[input]", "target_shape",                      \
      "Gives each example another shape.")                                                         \
    X(ADD, add, "Add", LAYER_IN_ORDER | LAYER_MERGES, "[input, trunk]", "inputs",                  \
      "Adds its `inputs`, which have the same shape.")                                             \
    X(CONCATENATE, concatenate, "Concatenate", LAYER_MERGES, "[input, trunk]", "inputs",           \
      "Concatenates its `inputs` along the last axis.")

#define LAYER_OF(activation) "The activation `" activation "` as a layer of its own."
#define JOB_NO_LAYER_ALIAS(...)
#define JOB_LAYER_KIND(KIND, ...) LAYER_##KIND,
enum layer_kind {
    JOB_LAYERS(JOB_LAYER_KIND, JOB_NO_LAYER_ALIAS) LAYER_KINDS,
    LAYER_JOINING = LAYER_CONCATENATE /* joins the inputs of a layer that reads one */
};

static inline bool layer_has(enum layer_kind kind, enum layer_traits trait)
{
#define JOB_LAYER_TRAITS(KIND, name, class, traits, ...) traits,
    static const int of[] = {JOB_LAYERS(JOB_LAYER_TRAITS, JOB_NO_LAYER_ALIAS)};
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

/* The name that Keras gives a class: "conv2d" for Conv2D, "batch_normalization" for BatchNormalization
 * (keras/src/utils/naming.py, to_snake_case). Shortened to fit. */
void job_snake_case(const char *name, char *out, size_t bytes);

/* ---- the keys of layers, for job/table_model.c, which has LAYER_KEY and the keys that several layers have ---- */

#define TRAINABLE(word)                                                                            \
    LAYER_KEY("." word ".trainable", BOOL, trainable,                                              \
              "`false`: training does not change the layer's weights, and the loss does not "      \
              "contain its regularizers. `batch_normalization` then uses its moving averages in "  \
              "training, too. The rows of a table are always trained.",                            \
              EXAMPLE("false"), .fallback = "true")
#define FLATTEN_KEYS
#define DENSE_KEYS                                                                                 \
    LAYER_KEY(".dense.units", U32, dense.units, "The number of outputs.", EXAMPLE("64"),           \
              RANGE(1, 16777216), .required = true),                                               \
        LAYER_KEY(".dense.activation", WORD, dense.activation,                                     \
                  "The function applied to the outputs.", EXAMPLE("relu"),                         \
                  .words = activation_words, .fallback = "linear"),                                \
        LAYER_KEY(".dense.use_bias", BOOL, use_bias, "Add a trained bias to each output.",         \
                  EXAMPLE("false"), .fallback = "true"),                                           \
        INITIALIZER("dense", kernel, "glorot_uniform"), INITIALIZER("dense", bias, "zeros"),       \
        REGULARIZER("dense", kernel), REGULARIZER("dense", bias), TRAINABLE("dense"),
#define DROPOUT_KEYS                                                                               \
    LAYER_KEY(".dropout.rate", REAL, dropout.rate,                                                 \
              "The share of the inputs that is set to 0 during training.", EXAMPLE("0.2"),         \
              BELOW_ONE, .required = true),
#define ACTIVATION_KEYS                                                                            \
    LAYER_KEY(".activation.activation", WORD, activation.activation,                               \
              "The function applied to each input.", EXAMPLE("relu"), .required = true,            \
              .words = activation_words),
#define LEAKY_RELU_KEYS                                                                            \
    LAYER_KEY(                                                                                     \
        ".leaky_relu.negative_slope", REAL, leaky_relu.negative_slope,                             \
        "The factor for negative inputs. (In the activation `leaky_relu` of other layers, it "     \
        "is 0.2.)",                                                                                \
        EXAMPLE("0.1"), NOT_NEGATIVE, .fallback = "0.3"),
#define ELU_KEYS                                                                                   \
    LAYER_KEY(".elu.alpha", REAL, elu.alpha, "The factor for negative outputs.", EXAMPLE("0.5"),   \
              NOT_NEGATIVE, .fallback = "1"),
#define GELU_KEYS                                                                                  \
    LAYER_KEY(".gelu.approximate", BOOL, gelu.approximate,                                         \
              "Compute gelu approximately, from tanh instead of erf.", EXAMPLE("true"),            \
              .fallback = "false"),
#define NORMALIZATION(of)                                                                          \
    NOT_YET(JOB_LAYER_PREFIX "." of ".axis", "-1", "the axis that is normalized"),                 \
        LAYER_KEY("." of ".epsilon", REAL, normalization.epsilon,                                  \
                  "A number added to the variance before its square root is taken.",               \
                  EXAMPLE("1e-5"), POSITIVE, .fallback = "1e-3"),                                  \
        LAYER_KEY("." of ".center", BOOL, normalization.center, "Add a trained `beta`.",           \
                  EXAMPLE("false"), .fallback = "true"),                                           \
        LAYER_KEY("." of ".scale", BOOL, normalization.scale, "Multiply by a trained `gamma`.",    \
                  EXAMPLE("false"), .fallback = "true")
#define BATCH_NORMALIZATION_KEYS                                                                   \
    LAYER_KEY(".batch_normalization.momentum", REAL, normalization.momentum,                       \
              "The share of the old moving mean and variance that each step keeps.",               \
              EXAMPLE("0.9"), UP_TO_ONE, .fallback = "0.99"),                                      \
        NORMALIZATION("batch_normalization"), TRAINABLE("batch_normalization"),
#define LAYER_NORMALIZATION_KEYS                                                                   \
    NORMALIZATION("layer_normalization"),                                                          \
        NOT_YET(JOB_LAYER_PREFIX ".layer_normalization.rms_scaling", "false",                      \
                "scaling by the root mean square"),                                                \
        TRAINABLE("layer_normalization"),
#define EMBEDDING_KEYS                                                                             \
    LAYER_KEY(                                                                                     \
        ".embedding.input_dim", U32, embedding.input_dim,                                          \
        "0: the layer looks up the keys of its `inputs`, which are key columns, in a table. "      \
        "Otherwise: the number of the layer's own rows, which all its inputs share. The inputs "   \
        "are then one column with `encode: id`, or `number` columns with ids from 0. To embed "    \
        "several columns with `encode: id`, make them key columns and choose 0.",                  \
        EXAMPLE("1000"), RANGE(0, 16777216), .fallback = "0"),                                     \
        LAYER_KEY(".embedding.output_dim", U32, embedding.output_dim,                              \
                  "The length of a row. In a table it is at most 4096.", EXAMPLE("16"),            \
                  RANGE(1, 16777216), .required = true),                                           \
        TABLE_NAME("embedding"), TRAINABLE("embedding"),
#define EMBEDDING_BAG_KEYS                                                                         \
    LAYER_KEY(".embedding_bag.output_dim", U32, embedding_bag.output_dim, "The length of a row.",  \
              EXAMPLE("16"), RANGE(1, ROW_DIM_MAX), .required = true),                             \
        LAYER_KEY(                                                                                 \
            ".embedding_bag.mode", WORD, embedding_bag.mode,                                       \
            "How the rows of one column combine. `sum`: their weighted sum. `mean`: that sum "     \
            "divided by the sum of the weights. `sqrtn`: that sum divided by the root of the sum " \
            "of the squared weights.",                                                             \
            EXAMPLE("sum"), .words = bag_words, .fallback = "mean"),                               \
        TABLE_NAME("embedding_bag"), TABLE_IS_TRAINED("embedding_bag"),
#define LINEAR_KEYS                                                                                \
    LAYER_KEY(".linear.use_bias", BOOL, use_bias, "Add a trained bias to the sum.",                \
              EXAMPLE("false"), .fallback = "true"),                                               \
        TABLE_NAME("linear"), TABLE_IS_TRAINED("linear"),
#define CONV2D_KEYS                                                                                \
    LAYER_KEY(".conv2d.filters", U32, conv2d.filters, "The number of channels of the output.",     \
              EXAMPLE("32"), RANGE(1, 1048576), .required = true),                                 \
        PAIR("conv2d", conv2d, kernel_size, .required = true,                                      \
             "The height and width of the kernel.", EXAMPLE("3")),                                 \
        PAIR("conv2d", conv2d, strides, .fallback = "1",                                           \
             "The distance from one window to the next. At least one of `strides` and "            \
             "`dilation_rate` "                                                                    \
             "must be 1.",                                                                         \
             EXAMPLE("2")),                                                                        \
        PADDING("conv2d", conv2d), CHANNELS_LAST("conv2d"),                                        \
        PAIR("conv2d", conv2d, dilation_rate, .fallback = "1",                                     \
             "The distance between neighboring inputs within a window.", EXAMPLE("2")),            \
        LAYER_KEY(".conv2d.activation", WORD, conv2d.activation,                                   \
                  "The function applied to the outputs.", EXAMPLE("relu"),                         \
                  .words = activation_words, .fallback = "linear"),                                \
        LAYER_KEY(".conv2d.use_bias", BOOL, use_bias,                                              \
                  "Add a trained bias to each channel of the output.", EXAMPLE("false"),           \
                  .fallback = "true"),                                                             \
        INITIALIZER("conv2d", kernel, "glorot_uniform"), INITIALIZER("conv2d", bias, "zeros"),     \
        REGULARIZER("conv2d", kernel), REGULARIZER("conv2d", bias),                                \
        NOT_YET(JOB_LAYER_PREFIX ".conv2d.groups", "1",                                            \
                "groups of channels, each with its own kernels"),                                  \
        TRAINABLE("conv2d"),
#define LIKE_POOL_SIZE                                                                             \
    .like = offsetof(struct job_layer, pooling2d.pool_size), .fallback_doc = "`pool_size`"
#define POOLING(of)                                                                                \
    PAIR(of, pooling2d, pool_size, .fallback = "2", "The height and width of a window.",           \
         EXAMPLE("3")),                                                                            \
        PAIR(of, pooling2d, strides, LIKE_POOL_SIZE, "The distance from one window to the next.",  \
             EXAMPLE("2")),                                                                        \
        PADDING(of, pooling2d), CHANNELS_LAST(of)
#define GLOBAL_POOLING(of)                                                                         \
    CHANNELS_LAST(of), LAYER_KEY("." of ".keepdims", BOOL, global_pooling2d.keepdims,              \
                                 "Keep the shape `[1, 1, channels]` instead of `[channels]`.",     \
                                 EXAMPLE("true"), .fallback = "false")
#define MAX_POOLING2D_KEYS POOLING("max_pooling2d"),
#define AVERAGE_POOLING2D_KEYS POOLING("average_pooling2d"),
#define GLOBAL_MAX_POOLING2D_KEYS GLOBAL_POOLING("global_max_pooling2d"),
#define GLOBAL_AVERAGE_POOLING2D_KEYS GLOBAL_POOLING("global_average_pooling2d"),
#define RESHAPE_KEYS                                                                               \
    LAYER_KEY(".reshape.target_shape", SHAPE, reshape.rank,                                        \
              "The new shape of one example, without the batch, with as many elements as before.", \
              EXAMPLE("[28, 28, 1]"), .required = true),
#define ADD_KEYS
#define CONCATENATE_KEYS                                                                           \
    NOT_YET(JOB_LAYER_PREFIX ".concatenate.axis", "-1", "the axis that is concatenated"),
