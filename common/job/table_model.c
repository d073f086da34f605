/* The job file's keys: name and model. */
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
    {"embedding_bag", LAYER_EMBEDDING_BAG, NULL},
    {"linear", LAYER_LINEAR, "inputs"},
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

const struct job_word job_regularizer_words[] = {
    {"none", REGULARIZER_NONE, NULL},
    {"l1", REGULARIZER_L1, "l1"},
    {"l2", REGULARIZER_L2, "l2"},
    {"l1_l2", REGULARIZER_L1_L2, NULL},
    LAST_WORD,
};

static const struct job_word bag_words[] = {
    {"sum", BAG_SUM, NULL},
    {"mean", BAG_MEAN, NULL},
    {"sqrtn", BAG_SQRTN, NULL},
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
    {"normalized_entropy", METRIC_NORMALIZED_ENTROPY, NULL},
    {"calibration", METRIC_CALIBRATION, NULL},
    LAST_WORD,
};

#define LAYER_KEY(name, type, member, text, ...)                                                   \
    ROW(JOB_LAYER_PREFIX name, type, job_layer, member, text, .identity = true, __VA_ARGS__)
/* The keys of every layer. `as`: Keras's name for it. */
#define NAME_AND_INPUTS(word, as, is_alias, text)                                                  \
    LAYER_KEY("." word ".name", NAME, name, text, .alias = is_alias, .keras = as,                  \
              .fallback_doc = "as Keras makes it: `" as "`, `" as "_1`, .."),                      \
        LAYER_KEY("." word ".inputs", INPUTS, inputs,                                              \
                  "what it reads: names of layers before it, or `input`; or columns of the data",  \
                  .alias = is_alias, .fallback_doc = "the layer before")
#define TABLE_NAME(word)                                                                           \
    LAYER_KEY("." word ".table", NAME, table_name,                                                 \
              "the table that it looks up in; layers may share one",                               \
              .fallback_doc = "the layer's name")
#define LAYER_NAME(word)                                                                           \
    NAME_AND_INPUTS(word, word, false, "unique among the layers; names the layer's tensors")
#define LAYER_NAME_KERAS(word, as) NAME_AND_INPUTS(word, as, false, "unique among the layers")
#define LAYER_NAME_AS(word, as) NAME_AND_INPUTS(word, as, true, "unique among the layers")
#define NORMALIZATION(of, epsilon_doc)                                                             \
    LAYER_KEY("." of ".epsilon", REAL, normalization.epsilon, epsilon_doc, POSITIVE,               \
              .fallback = "1e-3"),                                                                 \
        LAYER_KEY("." of ".center", BOOL, normalization.center, "add a beta that is learned",      \
                  .fallback = "true"),                                                             \
        LAYER_KEY("." of ".scale", BOOL, normalization.scale,                                      \
                  "multiply by a gamma that is learned", .fallback = "true"),                      \
        NOT_YET(JOB_LAYER_PREFIX "." of ".axis", "-1", "the last axis is normalized")
/* what: kernel or bias */
#define REGULARIZER_REAL(of, what, option, member, by_default, text)                               \
    LAYER_KEY("." of "." #what "_regularizer." option, REAL, what.member, text, NOT_NEGATIVE,      \
              .fallback = by_default)
#define REGULARIZER(of, what)                                                                      \
    LAYER_KEY("." of "." #what "_regularizer", CHOICE, what.regularizer,                           \
              "added to the loss, in every mode: `{l2: 0.01}`", .words = job_regularizer_words,    \
              .fallback = "none"),                                                                 \
        REGULARIZER_REAL(of, what, "l1.l1", l1, "0.01", "times the sum of |w|"),                   \
        REGULARIZER_REAL(of, what, "l2.l2", l2, "0.01", "times the sum of squares"),               \
        REGULARIZER_REAL(of, what, "l1_l2.l1", l1, "0", "times the sum of |w|"),                   \
        REGULARIZER_REAL(of, what, "l1_l2.l2", l2, "0", "times the sum of squares")
#define INITIALIZER_REAL(of, what, option, member, range, by_default, text)                        \
    LAYER_KEY("." of "." #what "_initializer." option, REAL, what.member, text, range,             \
              .fallback = by_default)
#define INITIALIZER(of, what, by_default)                                                          \
    LAYER_KEY("." of "." #what "_initializer", CHOICE, what.initializer,                           \
              "first values; `{constant: 0.5}` for a number", .words = initializer_words,          \
              .fallback = by_default),                                                             \
        INITIALIZER_REAL(of, what, "constant.value", init_value, ANY_REAL, "0", "the number"),     \
        INITIALIZER_REAL(of, what, "random_normal.mean", init_other, ANY_REAL, "0", "mean"),       \
        INITIALIZER_REAL(of, what, "random_normal.stddev", init_value, NOT_NEGATIVE, "0.05",       \
                         "standard deviation"),                                                    \
        INITIALIZER_REAL(of, what, "random_uniform.minval", init_other, ANY_REAL, "-0.05",         \
                         "from"),                                                                  \
        INITIALIZER_REAL(of, what, "random_uniform.maxval", init_value, ANY_REAL, "0.05", "to"),   \
        INITIALIZER_REAL(of, what, "truncated_normal.mean", init_other, ANY_REAL, "0", "mean"),    \
        INITIALIZER_REAL(of, what, "truncated_normal.stddev", init_value, NOT_NEGATIVE, "0.05",    \
                         "standard deviation; redrawn beyond two of them")
/* A pair: height and width. */
#define PAIR(of, group, member, given_or_not, text)                                                \
    LAYER_KEY("." of "." #member, PAIR, group.member, text, RANGE(1, 65536), given_or_not)
#define PADDING(of, group)                                                                         \
    LAYER_KEY("." of ".padding", WORD, group.padding,                                              \
              "`valid`: none; `same`: as much as gives ceil(input / stride) outputs, the odd row " \
              "and column behind",                                                                 \
              .words = padding_words, .fallback = "valid")
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
    LAYER_KEY("." of ".keepdims", BOOL, global_pooling2d.keepdims,                                 \
              "the shape stays (1, 1, channels)", .fallback = "false"),                            \
        NOT_YET(JOB_LAYER_PREFIX "." of ".data_format", "channels_last",                           \
                "where the channels stand"),                                                       \
        LAYER_NAME(of)

static const struct job_key keys[] = {
    JOB_KEY("name", NAME, name, "the job's name; its output goes to `runs/NAME`",
            .fallback_doc = "the job file's name"),

    JOB_KEY("model.input.shape", SHAPE, model.rank,
            "shape of one example, without the batch: `[28, 28]`; dimensions of 1 may stand behind "
            "those of the data: `[28, 28, 1]`; `auto`: that of the data",
            .identity = true, .required = true, .or_auto = true),
    JOB_KEY("model.layers", LAYERS, model.layers,
            "the layers in order, each `name` or `name: {option: value}`; each reads the one "
            "before it, or what its `inputs` name",
            .identity = true, .required = true),
    LAYER_KEY("", CHOICE, kind,
              "one layer; `dense: 10`, `dropout: 0.2` and `activation: relu` set its first option",
              .words = layer_words),
    LAYER_NAME("flatten"),
    LAYER_KEY(".dense.units", U32, dense.units, "outputs", RANGE(1, 16777216), .required = true),
    LAYER_KEY(".dense.activation", WORD, dense.activation, "on the outputs",
              .words = activation_words, .fallback = "linear"),
    LAYER_KEY(".dense.use_bias", BOOL, use_bias, "add a bias to each output", .fallback = "true"),
    INITIALIZER("dense", kernel, "glorot_uniform"),
    INITIALIZER("dense", bias, "zeros"),
    REGULARIZER("dense", kernel),
    REGULARIZER("dense", bias),
    LAYER_NAME("dense"),
    LAYER_KEY(".dropout.rate", REAL, dropout.rate, "share of the inputs set to 0 in training",
              BELOW_ONE, .required = true),
    LAYER_NAME("dropout"),
    LAYER_KEY(".activation.activation", WORD, activation.activation, "which one", .required = true,
              .words = activation_words),
    LAYER_NAME("activation"),
    LAYER_NAME_AS("relu", "re_lu"),
    LAYER_NAME_AS("sigmoid", "activation"),
    LAYER_NAME_AS("tanh", "activation"),
    LAYER_NAME_AS("softmax", "softmax"),
    LAYER_KEY(".conv2d.filters", U32, conv2d.filters, "channels of the output", RANGE(1, 1048576),
              .required = true),
    PAIR("conv2d", conv2d, kernel_size, .required = true, "height and width of the kernel"),
    PAIR("conv2d", conv2d, strides, .fallback = "1",
         "from one output to the next; not with dilation_rate"),
    PADDING("conv2d", conv2d),
    PAIR("conv2d", conv2d, dilation_rate, .fallback = "1",
         "from one tap of the kernel to the next"),
    LAYER_KEY(".conv2d.activation", WORD, conv2d.activation, "on the outputs",
              .words = activation_words, .fallback = "linear"),
    LAYER_KEY(".conv2d.use_bias", BOOL, use_bias, "add a bias to each channel of the output",
              .fallback = "true"),
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
    LAYER_KEY(".reshape.target_shape", SHAPE, reshape.rank,
              "of one example, without the batch: `[28, 28, 1]`; as many elements as before",
              .required = true),
    LAYER_NAME("reshape"),
    LAYER_NAME_AS("selu", "activation"),
    LAYER_NAME_AS("silu", "activation"),
    LAYER_NAME_AS("softplus", "activation"),
    LAYER_KEY(".leaky_relu.negative_slope", REAL, leaky_relu.negative_slope,
              "slope below 0; as an activation, `activation: leaky_relu`, it is 0.2", NOT_NEGATIVE,
              .fallback = "0.3"),
    LAYER_NAME_KERAS("leaky_relu", "leaky_re_lu"),
    LAYER_KEY(".elu.alpha", REAL, elu.alpha, "below 0 it is alpha (exp(x) - 1)", NOT_NEGATIVE,
              .fallback = "1"),
    LAYER_NAME("elu"),
    LAYER_KEY(".gelu.approximate", BOOL, gelu.approximate, "by tanh instead of erf",
              .fallback = "false"),
    LAYER_NAME("gelu"),
    LAYER_KEY(".batch_normalization.momentum", REAL, normalization.momentum,
              "share of the moving mean and variance that a step keeps", UP_TO_ONE,
              .fallback = "0.99"),
    NORMALIZATION("batch_normalization",
                  "added to the variance; statistics are those of a microbatch in training"),
    LAYER_NAME("batch_normalization"),
    NORMALIZATION("layer_normalization", "added to the variance"),
    NOT_YET(JOB_LAYER_PREFIX ".layer_normalization.rms_scaling", "false",
            "scale by the root mean square"),
    LAYER_NAME("layer_normalization"),
    LAYER_KEY(
        ".embedding.input_dim", U32, embedding.input_dim,
        "rows of the layer's own, which all that it reads shares: one column of `encode: id`, "
        "or columns of kind `number`, which are then numbers of rows, whole ones from 0. 0: it "
        "looks up in a table, by the key columns of its `inputs`, as is right for the ids of "
        "several columns",
        RANGE(0, 16777216), .fallback = "0"),
    LAYER_KEY(".embedding.output_dim", U32, embedding.output_dim,
              "length of a row; up to 4096 in a table", RANGE(1, 16777216), .required = true),
    TABLE_NAME("embedding"),
    LAYER_NAME("embedding"),
    LAYER_KEY(".embedding_bag.output_dim", U32, embedding_bag.output_dim, "length of a row",
              RANGE(1, ROW_DIM_MAX), .required = true),
    LAYER_KEY(".embedding_bag.mode", WORD, embedding_bag.mode,
              "what becomes of a column's rows: their sum, weighted; `mean`: divided by the sum of "
              "the weights; `sqrtn`: by the root of the sum of their squares",
              .words = bag_words, .fallback = "mean"),
    TABLE_NAME("embedding_bag"),
    LAYER_NAME("embedding_bag"),
    LAYER_KEY(".linear.use_bias", BOOL, use_bias, "add a bias to the sum", .fallback = "true"),
    TABLE_NAME("linear"),
    LAYER_NAME("linear"),
    LAYER_NAME("add"),
    LAYER_NAME("concatenate"),
    JOB_KEY("model.loss", CHOICE, model.loss,
            "the loss; a last softmax or sigmoid under its matching loss is fused with it",
            .identity = true, .required = true, .words = loss_words),
    JOB_KEY("model.loss.sparse_categorical_crossentropy.from_logits", BOOL, model.from_logits,
            "the outputs are logits: no softmax stands last", .identity = true,
            .fallback = "false"),
    NOT_YET("model.loss.sparse_categorical_crossentropy.ignore_class", "null",
            "a class that does not count"),
    JOB_KEY("model.loss.binary_crossentropy.from_logits", BOOL, model.from_logits,
            "the outputs are logits: no sigmoid stands last", .identity = true,
            .fallback = "false"),
    NOT_YET("model.loss.binary_crossentropy.label_smoothing", "0", "soften labels towards 0.5"),
    JOB_KEY(
        "model.metrics", METRICS, model.metrics,
        "what is reported beside the loss: a list; auc is exact, over all rows of an "
        "evaluation, so there is none in training; normalized_entropy is logloss by the entropy "
        "of the labels' rate, calibration the sum of predictions by that of labels",
        .identity = true, .words = metric_words, .fallback_doc = "`[]`"),
};
const struct job_key_table job_table_model = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");
