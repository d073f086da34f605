/* The job file's keys: name, and the model. */
#include <float.h>

#include "common/job/table.h"

static const struct job_word layer_words[] = {
    {"flatten", LAYER_FLATTEN, NULL},
    {"dense", LAYER_DENSE, "units"},
    {"dropout", LAYER_DROPOUT, "rate"},
    {"activation", LAYER_ACTIVATION, "activation"},
    {"relu", LAYER_ACTIVATION, NULL},
    {"sigmoid", LAYER_ACTIVATION, NULL},
    {"tanh", LAYER_ACTIVATION, NULL},
    {"softmax", LAYER_ACTIVATION, NULL},
    {"selu", LAYER_ACTIVATION, NULL},
    {"silu", LAYER_ACTIVATION, NULL},
    {"softplus", LAYER_ACTIVATION, NULL},
    {"leaky_relu", LAYER_LEAKY_RELU, "negative_slope"},
    {"elu", LAYER_ELU, "alpha"},
    {"gelu", LAYER_GELU, NULL},
    {"batch_normalization", LAYER_BATCH_NORMALIZATION, NULL},
    {"layer_normalization", LAYER_LAYER_NORMALIZATION, NULL},
    {"embedding", LAYER_EMBEDDING, NULL},
    {"conv2d", LAYER_CONV2D, NULL},
    {"max_pooling2d", LAYER_MAX_POOLING2D, "pool_size"},
    {"average_pooling2d", LAYER_AVERAGE_POOLING2D, "pool_size"},
    {"global_max_pooling2d", LAYER_GLOBAL_MAX_POOLING2D, NULL},
    {"global_average_pooling2d", LAYER_GLOBAL_AVERAGE_POOLING2D, NULL},
    {"reshape", LAYER_RESHAPE, "target_shape"},
    LATER("conv1d"),
    {"add", LAYER_ADD, "inputs"},
    {"concatenate", LAYER_CONCATENATE, "inputs"},
    LAST_WORD,
};

static const struct job_word activation_words[] = {
    {"linear", ACT_LINEAR, NULL},     {"relu", ACT_RELU, NULL},
    {"sigmoid", ACT_SIGMOID, NULL},   {"tanh", ACT_TANH, NULL},
    {"softmax", ACT_SOFTMAX, NULL},   {"elu", ACT_ELU, NULL},
    {"gelu", ACT_GELU, NULL},         {"leaky_relu", ACT_LEAKY_RELU, NULL},
    {"selu", ACT_SELU, NULL},         {"silu", ACT_SILU, NULL},
    {"softplus", ACT_SOFTPLUS, NULL}, LAST_WORD,
};

static const struct job_word padding_words[] = {
    {"valid", PADDING_VALID, NULL},
    {"same", PADDING_SAME, NULL},
    LAST_WORD,
};

static const struct job_word initializer_words[] = {
    {"zeros", INIT_ZEROS, NULL},
    {"ones", INIT_ONES, NULL},
    {"glorot_uniform", INIT_GLOROT_UNIFORM, NULL},
    {"constant", INIT_CONSTANT, "value"},
    {"glorot_normal", INIT_GLOROT_NORMAL, NULL},
    {"he_normal", INIT_HE_NORMAL, NULL},
    {"he_uniform", INIT_HE_UNIFORM, NULL},
    {"lecun_normal", INIT_LECUN_NORMAL, NULL},
    {"lecun_uniform", INIT_LECUN_UNIFORM, NULL},
    {"random_normal", INIT_RANDOM_NORMAL, NULL},
    {"random_uniform", INIT_RANDOM_UNIFORM, NULL},
    {"truncated_normal", INIT_TRUNCATED_NORMAL, NULL},
    LAST_WORD,
};

static const struct job_word regularizer_words[] = {
    {"none", REGULARIZER_NONE, NULL},
    {"l1", REGULARIZER_L1, "l1"},
    {"l2", REGULARIZER_L2, "l2"},
    {"l1_l2", REGULARIZER_L1_L2, NULL},
    LAST_WORD,
};

static const struct job_word loss_words[] = {
    {"sparse_categorical_crossentropy", LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, NULL},
    {"binary_crossentropy", LOSS_BINARY_CROSSENTROPY, NULL},
    {"mean_squared_error", LOSS_MEAN_SQUARED_ERROR, NULL},
    {"mean_absolute_error", LOSS_MEAN_ABSOLUTE_ERROR, NULL},
    {"mse", LOSS_MEAN_SQUARED_ERROR, NULL},
    {"mae", LOSS_MEAN_ABSOLUTE_ERROR, NULL},
    LATER("categorical_crossentropy"),
    LATER("hinge"),
    LATER("huber"),
    LATER("log_cosh"),
    LATER("poisson"),
    LAST_WORD,
};

static const struct job_word metric_words[] = {
    {"accuracy", METRIC_ACCURACY, NULL},
    {"mean_absolute_error", METRIC_MEAN_ABSOLUTE_ERROR, NULL},
    {"mae", METRIC_MEAN_ABSOLUTE_ERROR, NULL},
    {"mean_squared_error", METRIC_MEAN_SQUARED_ERROR, NULL},
    {"mse", METRIC_MEAN_SQUARED_ERROR, NULL},
    {"auc", METRIC_AUC, NULL},
    {"precision", METRIC_PRECISION, NULL},
    {"recall", METRIC_RECALL, NULL},
    {"logloss", METRIC_LOGLOSS, NULL},
    LAST_WORD,
};

#define IN_LAYER(member) .offset = offsetof(struct job_layer, member)
#define LAYER_INPUTS(word, is_alias)                                                               \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." word ".inputs", .type = KEY_INPUTS, IN_LAYER(inputs),         \
        .identity = true, .alias = is_alias, .fallback_doc = "the layer before",                   \
        .doc = "what it reads: names of layers before it, or `input`"                              \
    }
#define LAYER_NAME(word)                                                                           \
    {.path = JOB_LAYER_PREFIX "." word ".name",                                                    \
     .type = KEY_NAME,                                                                             \
     IN_LAYER(name),                                                                               \
     .identity = true,                                                                             \
     .keras = word,                                                                                \
     .fallback_doc = "as Keras makes it: `" word "`, `" word "_1`, ..",                            \
     .doc = "unique among the layers; names the layer's tensors"},                                 \
        LAYER_INPUTS(word, false)
#define LAYER_NAME_KERAS(word, as)                                                                 \
    {.path = JOB_LAYER_PREFIX "." word ".name",                                                    \
     .type = KEY_NAME,                                                                             \
     IN_LAYER(name),                                                                               \
     .identity = true,                                                                             \
     .keras = as,                                                                                  \
     .fallback_doc = "as Keras makes it: `" as "`, `" as "_1`, ..",                                \
     .doc = "unique among the layers"},                                                            \
        LAYER_INPUTS(word, false)
#define NORMALIZATION(of, epsilon_doc)                                                             \
    {.path = JOB_LAYER_PREFIX "." of ".epsilon",                                                   \
     .type = KEY_REAL,                                                                             \
     IN_LAYER(normalization.epsilon),                                                              \
     POSITIVE,                                                                                     \
     .identity = true,                                                                             \
     .fallback = "1e-3",                                                                           \
     .doc = epsilon_doc},                                                                          \
        {.path = JOB_LAYER_PREFIX "." of ".center",                                                \
         .type = KEY_BOOL,                                                                         \
         IN_LAYER(normalization.center),                                                           \
         .identity = true,                                                                         \
         .fallback = "true",                                                                       \
         .doc = "add a beta that is learned"},                                                     \
        {.path = JOB_LAYER_PREFIX "." of ".scale",                                                 \
         .type = KEY_BOOL,                                                                         \
         IN_LAYER(normalization.scale),                                                            \
         .identity = true,                                                                         \
         .fallback = "true",                                                                       \
         .doc = "multiply by a gamma that is learned"},                                            \
        NOT_YET(JOB_LAYER_PREFIX "." of ".axis", "-1", "the last axis is normalized")
#define LAYER_NAME_AS(word, as)                                                                    \
    {.path = JOB_LAYER_PREFIX "." word ".name",                                                    \
     .type = KEY_NAME,                                                                             \
     IN_LAYER(name),                                                                               \
     .identity = true,                                                                             \
     .alias = true,                                                                                \
     .keras = as,                                                                                  \
     .fallback_doc = "as Keras makes it: `" as "`, `" as "_1`, ..",                                \
     .doc = "unique among the layers"},                                                            \
        LAYER_INPUTS(word, true)
#define INITIALIZER_REAL(of, what, option, member, range, by_default, text)                        \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." of "." #what "_initializer." option, .type = KEY_REAL,        \
        IN_LAYER(member), range, .identity = true, .fallback = by_default, .doc = text             \
    }
#define REGULARIZER_REAL(of, what, option, member, by_default, text)                               \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." of "." #what "_regularizer." option, .type = KEY_REAL,        \
        IN_LAYER(member), NOT_NEGATIVE, .identity = true, .fallback = by_default, .doc = text      \
    }
/* what: kernel or bias */
#define REGULARIZER(of, what)                                                                      \
    {.path = JOB_LAYER_PREFIX "." of "." #what "_regularizer",                                     \
     .type = KEY_CHOICE,                                                                           \
     IN_LAYER(what.regularizer),                                                                   \
     .identity = true,                                                                             \
     .words = regularizer_words,                                                                   \
     .fallback = "none",                                                                           \
     .doc = "added to the loss, in every mode: `{l2: 0.01}`"},                                     \
        REGULARIZER_REAL(of, what, "l1.l1", what.l1, "0.01", "times the sum of |w|"),              \
        REGULARIZER_REAL(of, what, "l2.l2", what.l2, "0.01", "times the sum of squares"),          \
        REGULARIZER_REAL(of, what, "l1_l2.l1", what.l1, "0", "times the sum of |w|"),              \
        REGULARIZER_REAL(of, what, "l1_l2.l2", what.l2, "0", "times the sum of squares")
/* what: kernel or bias */
#define INITIALIZER(of, what, by_default)                                                          \
    {.path = JOB_LAYER_PREFIX "." of "." #what "_initializer",                                     \
     .type = KEY_CHOICE,                                                                           \
     IN_LAYER(what.initializer),                                                                   \
     .identity = true,                                                                             \
     .words = initializer_words,                                                                   \
     .fallback = by_default,                                                                       \
     .doc = "first values; `{constant: 0.5}` for a number"},                                       \
        INITIALIZER_REAL(of, what, "constant.value", what.init_value, ANY_REAL, "0",               \
                         "the number"),                                                            \
        INITIALIZER_REAL(of, what, "random_normal.mean", what.init_other, ANY_REAL, "0", "mean"),  \
        INITIALIZER_REAL(of, what, "random_normal.stddev", what.init_value, NOT_NEGATIVE, "0.05",  \
                         "standard deviation"),                                                    \
        INITIALIZER_REAL(of, what, "random_uniform.minval", what.init_other, ANY_REAL, "-0.05",    \
                         "from"),                                                                  \
        INITIALIZER_REAL(of, what, "random_uniform.maxval", what.init_value, ANY_REAL, "0.05",     \
                         "to"),                                                                    \
        INITIALIZER_REAL(of, what, "truncated_normal.mean", what.init_other, ANY_REAL, "0",        \
                         "mean"),                                                                  \
        INITIALIZER_REAL(of, what, "truncated_normal.stddev", what.init_value, NOT_NEGATIVE,       \
                         "0.05", "standard deviation; redrawn beyond two of them")
/* Height and width. */
#define PAIR(of, group, member, given_or_not, text)                                                \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." of "." #member, .type = KEY_PAIR, IN_LAYER(group.member),     \
        RANGE(1, 65536), .identity = true, given_or_not, .doc = text                               \
    }
#define PADDING(of, group)                                                                         \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." of ".padding", .type = KEY_WORD, IN_LAYER(group.padding),     \
        .identity = true, .words = padding_words, .fallback = "valid",                             \
        .doc = "`valid`: none; `same`: as much as gives ceil(input / stride) outputs, the odd "    \
               "row and column behind"                                                             \
    }
#define LIKE_POOL_SIZE                                                                             \
    .like = offsetof(struct job_layer, pooling2d.pool_size), .fallback_doc = "pool_size"
#define POOLING_KEYS(of)                                                                           \
    PAIR(of, pooling2d, pool_size, .fallback = "2", "height and width of a window"),               \
        PAIR(of, pooling2d, strides, LIKE_POOL_SIZE, "from one window to the next"),               \
        PADDING(of, pooling2d),                                                                    \
        NOT_YET(JOB_LAYER_PREFIX "." of ".data_format", "channels_last",                           \
                "where the channels stand"),                                                       \
        LAYER_NAME(of)
#define GLOBAL_POOLING_KEYS(of)                                                                    \
    {.path = JOB_LAYER_PREFIX "." of ".keepdims",                                                  \
     .type = KEY_BOOL,                                                                             \
     IN_LAYER(global_pooling2d.keepdims),                                                          \
     .identity = true,                                                                             \
     .fallback = "false",                                                                          \
     .doc = "the shape stays (1, 1, channels)"},                                                   \
        NOT_YET(JOB_LAYER_PREFIX "." of ".data_format", "channels_last",                           \
                "where the channels stand"),                                                       \
        LAYER_NAME(of)

static const struct job_key keys[] = {
    {.path = "name",
     .type = KEY_NAME,
     IN_JOB(name),
     .fallback_doc = "the job file's name",
     .doc = "the job's name; its output goes to `runs/NAME`"},

    {.path = "model.input.shape",
     .type = KEY_SHAPE,
     IN_JOB(model.rank),
     .identity = true,
     .required = true,
     .or_auto = true,
     .doc = "shape of one example, without the batch: `[28, 28]`; dimensions of 1 may stand behind "
            "those of the data: `[28, 28, 1]`; `auto`: that of the data"},
    {.path = "model.layers",
     .type = KEY_LAYERS,
     IN_JOB(model.layers),
     .identity = true,
     .required = true,
     .doc = "the layers in order, each `name` or `name: {option: value}`; each reads the one "
            "before it, or what its `inputs` name"},
    {.path = JOB_LAYER_PREFIX,
     .type = KEY_CHOICE,
     IN_LAYER(kind),
     .identity = true,
     .words = layer_words,
     .doc = "one layer; `dense: 10`, `dropout: 0.2` and `activation: relu` set its first option"},
    LAYER_NAME("flatten"),
    {.path = JOB_LAYER_PREFIX ".dense.units",
     .type = KEY_U32,
     IN_LAYER(dense.units),
     RANGE(1, 16777216),
     .identity = true,
     .required = true,
     .doc = "outputs"},
    {.path = JOB_LAYER_PREFIX ".dense.activation",
     .type = KEY_WORD,
     IN_LAYER(dense.activation),
     .identity = true,
     .words = activation_words,
     .fallback = "linear",
     .doc = "on the outputs"},
    {.path = JOB_LAYER_PREFIX ".dense.use_bias",
     .type = KEY_BOOL,
     IN_LAYER(use_bias),
     .identity = true,
     .fallback = "true",
     .doc = "add a bias to each output"},
    INITIALIZER("dense", kernel, "glorot_uniform"),
    INITIALIZER("dense", bias, "zeros"),
    REGULARIZER("dense", kernel),
    REGULARIZER("dense", bias),
    LAYER_NAME("dense"),
    {.path = JOB_LAYER_PREFIX ".dropout.rate",
     .type = KEY_REAL,
     IN_LAYER(dropout.rate),
     BELOW_ONE,
     .identity = true,
     .required = true,
     .doc = "share of the inputs set to 0 in training"},
    LAYER_NAME("dropout"),
    {.path = JOB_LAYER_PREFIX ".activation.activation",
     .type = KEY_WORD,
     IN_LAYER(activation.activation),
     .identity = true,
     .required = true,
     .words = activation_words,
     .doc = "which one"},
    LAYER_NAME("activation"),
    LAYER_NAME_AS("relu", "re_lu"),
    LAYER_NAME_AS("sigmoid", "activation"),
    LAYER_NAME_AS("tanh", "activation"),
    LAYER_NAME_AS("softmax", "softmax"),
    {.path = JOB_LAYER_PREFIX ".conv2d.filters",
     .type = KEY_U32,
     IN_LAYER(conv2d.filters),
     RANGE(1, 1048576),
     .identity = true,
     .required = true,
     .doc = "channels of the output"},
    PAIR("conv2d", conv2d, kernel_size, .required = true, "height and width of the kernel"),
    PAIR("conv2d", conv2d, strides, .fallback = "1",
         "from one output to the next; not with dilation_rate"),
    PADDING("conv2d", conv2d),
    PAIR("conv2d", conv2d, dilation_rate, .fallback = "1",
         "from one tap of the kernel to the next"),
    {.path = JOB_LAYER_PREFIX ".conv2d.activation",
     .type = KEY_WORD,
     IN_LAYER(conv2d.activation),
     .identity = true,
     .words = activation_words,
     .fallback = "linear",
     .doc = "on the outputs"},
    {.path = JOB_LAYER_PREFIX ".conv2d.use_bias",
     .type = KEY_BOOL,
     IN_LAYER(use_bias),
     .identity = true,
     .fallback = "true",
     .doc = "add a bias to each channel of the output"},
    INITIALIZER("conv2d", kernel, "glorot_uniform"),
    INITIALIZER("conv2d", bias, "zeros"),
    REGULARIZER("conv2d", kernel),
    REGULARIZER("conv2d", bias),
    NOT_YET(JOB_LAYER_PREFIX ".conv2d.groups", "1", "groups of channels apart from each other"),
    NOT_YET(JOB_LAYER_PREFIX ".conv2d.data_format", "channels_last", "where the channels stand"),
    LAYER_NAME("conv2d"),
    POOLING_KEYS("max_pooling2d"),
    POOLING_KEYS("average_pooling2d"),
    GLOBAL_POOLING_KEYS("global_max_pooling2d"),
    GLOBAL_POOLING_KEYS("global_average_pooling2d"),
    {.path = JOB_LAYER_PREFIX ".reshape.target_shape",
     .type = KEY_SHAPE,
     IN_LAYER(reshape.rank),
     .identity = true,
     .required = true,
     .doc = "of one example, without the batch: `[28, 28, 1]`; as many elements as before"},
    LAYER_NAME("reshape"),
    LAYER_NAME_AS("selu", "activation"),
    LAYER_NAME_AS("silu", "activation"),
    LAYER_NAME_AS("softplus", "activation"),
    {.path = JOB_LAYER_PREFIX ".leaky_relu.negative_slope",
     .type = KEY_REAL,
     IN_LAYER(leaky_relu.negative_slope),
     NOT_NEGATIVE,
     .identity = true,
     .fallback = "0.3",
     .doc = "slope below 0; as an activation, `activation: leaky_relu`, it is 0.2"},
    LAYER_NAME_KERAS("leaky_relu", "leaky_re_lu"),
    {.path = JOB_LAYER_PREFIX ".elu.alpha",
     .type = KEY_REAL,
     IN_LAYER(elu.alpha),
     NOT_NEGATIVE,
     .identity = true,
     .fallback = "1",
     .doc = "below 0 it is alpha (exp(x) - 1)"},
    LAYER_NAME("elu"),
    {.path = JOB_LAYER_PREFIX ".gelu.approximate",
     .type = KEY_BOOL,
     IN_LAYER(gelu.approximate),
     .identity = true,
     .fallback = "false",
     .doc = "by tanh instead of erf"},
    LAYER_NAME("gelu"),
    {.path = JOB_LAYER_PREFIX ".batch_normalization.momentum",
     .type = KEY_REAL,
     IN_LAYER(normalization.momentum),
     .low = 0,
     .high = 1,
     .identity = true,
     .fallback = "0.99",
     .doc = "share of the moving mean and variance that a step keeps"},
    NORMALIZATION("batch_normalization",
                  "added to the variance; statistics are those of a microbatch in training"),
    LAYER_NAME("batch_normalization"),
    NORMALIZATION("layer_normalization", "added to the variance"),
    NOT_YET(JOB_LAYER_PREFIX ".layer_normalization.rms_scaling", "false",
            "scale by the root mean square"),
    LAYER_NAME("layer_normalization"),
    {.path = JOB_LAYER_PREFIX ".embedding.input_dim",
     .type = KEY_U32,
     IN_LAYER(embedding.input_dim),
     RANGE(1, 16777216),
     .identity = true,
     .required = true,
     .doc = "rows of the table; an input is the number of a row, from 0"},
    {.path = JOB_LAYER_PREFIX ".embedding.output_dim",
     .type = KEY_U32,
     IN_LAYER(embedding.output_dim),
     RANGE(1, 16777216),
     .identity = true,
     .required = true,
     .doc = "length of a row"},
    LAYER_NAME("embedding"),
    LAYER_NAME("add"),
    LAYER_NAME("concatenate"),
    {.path = "model.loss",
     .type = KEY_CHOICE,
     IN_JOB(model.loss),
     .identity = true,
     .required = true,
     .words = loss_words,
     .doc = "the loss; a last softmax or sigmoid under its matching loss is fused with it"},
    {.path = "model.loss.sparse_categorical_crossentropy.from_logits",
     .type = KEY_BOOL,
     IN_JOB(model.from_logits),
     .identity = true,
     .fallback = "false",
     .doc = "the outputs are logits: no softmax stands last"},
    NOT_YET("model.loss.sparse_categorical_crossentropy.ignore_class", "null",
            "a class that does not count"),
    {.path = "model.loss.binary_crossentropy.from_logits",
     .type = KEY_BOOL,
     IN_JOB(model.from_logits),
     .identity = true,
     .fallback = "false",
     .doc = "the outputs are logits: no sigmoid stands last"},
    NOT_YET("model.loss.binary_crossentropy.label_smoothing", "0", "soften labels towards 0.5"),
    {.path = "model.metrics",
     .type = KEY_METRICS,
     IN_JOB(model.metrics),
     .identity = true,
     .words = metric_words,
     .fallback_doc = "`[]`",
     .doc = "what is reported beside the loss: a list; auc is exact, over all rows of an "
            "evaluation, so there is none in training"},
};
const struct job_table job_table_model = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
