/* The job file's keys: name and model. */
#include <float.h>
#include <stdio.h>

#include "job/table.h"

#define LAYER_OF(activation) "The activation `" activation "` as a layer of its own."

static const struct job_word layer_words[] = {
    {"flatten", LAYER_FLATTEN, NULL, "Reshapes each example to one dimension."},
    {"dense", LAYER_DENSE, "units",
     "Multiplies its inputs by a kernel, then adds a bias and applies an activation. If the layer "
     "has several `inputs`, it concatenates them first."},
    {"dropout", LAYER_DROPOUT, "rate",
     "Sets a random share of its inputs to 0 during training. In an evaluation it changes "
     "nothing."},
    {"activation", LAYER_ACTIVATION, "activation", "Applies an [activation](#activations)."},
    {"relu", LAYER_ACTIVATION, NULL, LAYER_OF("relu")},
    {"sigmoid", LAYER_ACTIVATION, NULL, LAYER_OF("sigmoid")},
    {"tanh", LAYER_ACTIVATION, NULL, LAYER_OF("tanh")},
    {"softmax", LAYER_ACTIVATION, NULL, LAYER_OF("softmax")},
    {"selu", LAYER_ACTIVATION, NULL, LAYER_OF("selu")},
    {"silu", LAYER_ACTIVATION, NULL, LAYER_OF("silu")},
    {"softplus", LAYER_ACTIVATION, NULL, LAYER_OF("softplus")},
    {"leaky_relu", LAYER_LEAKY_RELU, "negative_slope",
     "Multiplies negative inputs by `negative_slope`."},
    {"elu", LAYER_ELU, "alpha", "Replaces a negative input x by `alpha * (exp(x) - 1)`."},
    {"gelu", LAYER_GELU, NULL,
     "Multiplies x by the probability that a standard normal variable is less than x."},
    {"batch_normalization", LAYER_BATCH_NORMALIZATION, NULL,
     "Normalizes the last axis. Training uses the mean and variance of the microbatch, an "
     "evaluation their moving averages."},
    {"layer_normalization", LAYER_LAYER_NORMALIZATION, NULL,
     "Normalizes each example over its last axis."},
    {"embedding", LAYER_EMBEDDING, NULL,
     "Replaces each id, or each key of its columns, by a trained vector (a row)."},
    {"embedding_bag", LAYER_EMBEDDING_BAG, NULL,
     "Looks up all keys of each column in a table and combines their rows to one vector for each "
     "column."},
    {"linear", LAYER_LINEAR, "inputs",
     "Adds up one weight for each key of its columns: the wide part of a model."},
    {"conv2d", LAYER_CONV2D, NULL, "Convolves images `[height, width, channels]` with a kernel."},
    {"max_pooling2d", LAYER_MAX_POOLING2D, "pool_size", "Takes the maximum of each window."},
    {"average_pooling2d", LAYER_AVERAGE_POOLING2D, "pool_size", "Takes the mean of each window."},
    {"global_max_pooling2d", LAYER_GLOBAL_MAX_POOLING2D, NULL,
     "Takes the maximum of each channel over the whole image."},
    {"global_average_pooling2d", LAYER_GLOBAL_AVERAGE_POOLING2D, NULL,
     "Takes the mean of each channel over the whole image."},
    {"reshape", LAYER_RESHAPE, "target_shape", "Gives each example another shape."},
    LATER("conv1d"),
    {"add", LAYER_ADD, "inputs", "Adds its `inputs`, which have the same shape."},
    {"concatenate", LAYER_CONCATENATE, "inputs", "Concatenates its `inputs` along the last axis."},
    LAST_WORD,
};

static const struct job_word activation_words[] = {
    {"linear", ACT_LINEAR, NULL, "`x`"},
    {"relu", ACT_RELU, NULL, "`max(x, 0)`"},
    {"sigmoid", ACT_SIGMOID, NULL, "`1 / (1 + exp(-x))`"},
    {"tanh", ACT_TANH, NULL, "the hyperbolic tangent of x"},
    {"softmax", ACT_SOFTMAX, NULL, "`exp(x) / sum(exp(x))` over the last axis"},
    {"elu", ACT_ELU, NULL, "x if x > 0, otherwise `exp(x) - 1`"},
    {"gelu", ACT_GELU, NULL,
     "x times the probability that a standard normal variable is less than x"},
    {"leaky_relu", ACT_LEAKY_RELU, NULL, "x if x > 0, otherwise `0.2 * x`"},
    {"selu", ACT_SELU, NULL,
     "elu with fixed factors that keep mean and variance the same from layer to layer"},
    {"silu", ACT_SILU, NULL, "`x * sigmoid(x)`"},
    {"softplus", ACT_SOFTPLUS, NULL, "`ln(1 + exp(x))`"},
    LAST_WORD,
};

static const struct job_word padding_words[] = {
    {"valid", PADDING_VALID, NULL, NULL},
    {"same", PADDING_SAME, NULL, NULL},
    LAST_WORD,
};

static const struct job_word initializer_words[] = {
    {"zeros", INIT_ZEROS, NULL, "0"},
    {"ones", INIT_ONES, NULL, "1"},
    {"glorot_uniform", INIT_GLOROT_UNIFORM, NULL,
     "uniform, from -l to l with `l = sqrt(6 / (fan_in + fan_out))`"},
    {"constant", INIT_CONSTANT, "value", "the number `value`: `{constant: 0.5}`"},
    {"glorot_normal", INIT_GLOROT_NORMAL, NULL,
     "truncated normal, with the variance `2 / (fan_in + fan_out)`"},
    {"he_normal", INIT_HE_NORMAL, NULL, "truncated normal, with the variance `2 / fan_in`"},
    {"he_uniform", INIT_HE_UNIFORM, NULL, "uniform, from -l to l with `l = sqrt(6 / fan_in)`"},
    {"lecun_normal", INIT_LECUN_NORMAL, NULL, "truncated normal, with the variance `1 / fan_in`"},
    {"lecun_uniform", INIT_LECUN_UNIFORM, NULL,
     "uniform, from -l to l with `l = sqrt(3 / fan_in)`"},
    {"random_normal", INIT_RANDOM_NORMAL, NULL, "normal, with `mean` and `stddev`"},
    {"random_uniform", INIT_RANDOM_UNIFORM, NULL, "uniform, from `minval` to `maxval`"},
    {"truncated_normal", INIT_TRUNCATED_NORMAL, NULL,
     "normal, but a value further than two `stddev` from `mean` is drawn again"},
    LAST_WORD,
};

const struct job_word job_regularizer_words[] = {
    {"none", REGULARIZER_NONE, NULL, "nothing"},
    {"l1", REGULARIZER_L1, "l1", "`l1` times the sum of the absolute weights: `{l1: 0.01}`"},
    {"l2", REGULARIZER_L2, "l2", "`l2` times the sum of the squared weights: `{l2: 0.01}`"},
    {"l1_l2", REGULARIZER_L1_L2, NULL, "both: `{l1_l2: {l1: 0.01, l2: 0.01}}`"},
    LAST_WORD,
};

static const struct job_word bag_words[] = {
    {"sum", BAG_SUM, NULL, NULL},
    {"mean", BAG_MEAN, NULL, NULL},
    {"sqrtn", BAG_SQRTN, NULL, NULL},
    LAST_WORD,
};

#define LOSS_WORD(kind, word, labels, meaning) {#word, LOSS_##kind, NULL, meaning},
#define LOSS_ALIAS(kind, word, alias) {#alias, LOSS_##kind, NULL, "Another name of `" #word "`."},
const struct job_word job_loss_words[] = {
    JOB_LOSSES(LOSS_WORD, LOSS_ALIAS) LATER("categorical_crossentropy"),
    LATER("hinge"),
    LATER("huber"),
    LATER("log_cosh"),
    LATER("poisson"),
    LAST_WORD,
};

#define METRIC_WORD(kind, word, better, meaning) {#word, METRIC_##kind, NULL, meaning},
#define METRIC_ALIAS(kind, word, alias)                                                            \
    {#alias, METRIC_##kind, NULL, "Another name of `" #word "`."},
const struct job_word job_metric_words[] = {
    JOB_METRICS(METRIC_WORD, METRIC_ALIAS) LAST_WORD,
};

#define MONITOR_WORD(kind, word) {#word, MONITOR_METRIC + METRIC_##kind, NULL, NULL},
#define MONITOR_HIGHER(kind, word) MONITOR_WORD(kind, word)
#define MONITOR_LOWER(kind, word) MONITOR_WORD(kind, word)
#define MONITOR_NEITHER(kind, word)
#define MONITOR_METRIC_WORD(kind, word, better, meaning) MONITOR_##better(kind, word)
#define MONITOR_ALIAS(kind, word, alias) MONITOR_WORD(kind, alias)
const struct job_word job_monitor_words[] = {
    {"none", MONITOR_NONE, NULL, NULL},
    {"loss", MONITOR_LOSS, NULL, NULL},
    JOB_METRICS(MONITOR_METRIC_WORD, MONITOR_ALIAS) LAST_WORD,
};

#define LAYER_KEY(name, type, member, text, ...)                                                   \
    ROW(JOB_LAYER_PREFIX name, type, job_layer, member, text, .identity = true, __VA_ARGS__)
#define KERAS_NAME "the name in Keras: `dense`, then `dense_1`, ..."
/* The keys of every layer. `as`: Keras's name for it. */
#define NAME_AND_INPUTS(word, as, is_alias, reads)                                                 \
    LAYER_KEY("." word ".name", NAME, name,                                                        \
              "The name of the layer. In the exported model, the names of its tensors contain "    \
              "this name. No two layers can have the same name.",                                  \
              EXAMPLE("trunk"), .alias = is_alias, .keras = as, .fallback_doc = KERAS_NAME),       \
        LAYER_KEY(                                                                                 \
            "." word ".inputs", INPUTS, inputs,                                                    \
            "The layers or data columns that this layer reads. `input` is the model's input.",     \
            EXAMPLE(reads), .alias = is_alias, .fallback_doc = "the previous layer")
#define TABLE_NAME(word)                                                                           \
    LAYER_KEY(                                                                                     \
        "." word ".table", NAME, table_name,                                                       \
        "The [table](#tables) in which the layer looks up its keys. Layers can share a table.",    \
        EXAMPLE("ids"), .fallback_doc = "the layer's name")
#define TRAINABLE(word)                                                                            \
    LAYER_KEY("." word ".trainable", BOOL, trainable,                                              \
              "`false`: training does not change the layer's weights, and the loss does not "      \
              "contain its regularizers. `batch_normalization` then uses its moving averages in "  \
              "training, too. The rows of a table are always trained.",                            \
              EXAMPLE("false"), .fallback = "true")
#define TABLE_IS_TRAINED(word)                                                                     \
    NOT_YET(JOB_LAYER_PREFIX "." word ".trainable", "true", "rows that training does not change")
#define LAYER_NAME(word) NAME_AND_INPUTS(word, word, false, "[input]")
#define LAYER_NAME_READS(word, reads) NAME_AND_INPUTS(word, word, false, reads)
#define LAYER_NAME_KERAS(word, as) NAME_AND_INPUTS(word, as, false, "[input]")
#define LAYER_NAME_AS(word, as) NAME_AND_INPUTS(word, as, true, "[input]")
#define NORMALIZATION(of)                                                                          \
    LAYER_KEY("." of ".epsilon", REAL, normalization.epsilon,                                      \
              "A number added to the variance before its square root is taken.", EXAMPLE("1e-5"),  \
              POSITIVE, .fallback = "1e-3"),                                                       \
        LAYER_KEY("." of ".center", BOOL, normalization.center, "Add a trained `beta`.",           \
                  EXAMPLE("false"), .fallback = "true"),                                           \
        LAYER_KEY("." of ".scale", BOOL, normalization.scale, "Multiply by a trained `gamma`.",    \
                  EXAMPLE("false"), .fallback = "true"),                                           \
        NOT_YET(JOB_LAYER_PREFIX "." of ".axis", "-1", "the axis that is normalized")
/* what: kernel or bias */
#define REGULARIZER_REAL(of, what, option, member, by_default, text)                               \
    LAYER_KEY("." of "." #what "_regularizer." option, REAL, what.member, text, EXAMPLE("0.001"),  \
              NOT_NEGATIVE, .fallback = by_default)
#define REGULARIZER(of, what)                                                                      \
    LAYER_KEY("." of "." #what "_regularizer", CHOICE, what.regularizer,                           \
              "The term that this layer's " #what                                                  \
              " adds to the loss, in every mode of `training.update`.",                            \
              EXAMPLE("{l2: 0.01}"), .words = job_regularizer_words, .fallback = "none"),          \
        REGULARIZER_REAL(of, what, "l1.l1", l1, "0.01", REGULARIZER_L1_DOC),                       \
        REGULARIZER_REAL(of, what, "l2.l2", l2, "0.01", REGULARIZER_L2_DOC),                       \
        REGULARIZER_REAL(of, what, "l1_l2.l1", l1, "0", REGULARIZER_L1_DOC),                       \
        REGULARIZER_REAL(of, what, "l1_l2.l2", l2, "0", REGULARIZER_L2_DOC)
#define INITIALIZER_REAL(of, what, option, member, range, by_default, ...)                         \
    LAYER_KEY("." of "." #what "_initializer." option, REAL, what.member, __VA_ARGS__, range,      \
              .fallback = by_default)
#define INITIALIZER(of, what, by_default)                                                          \
    LAYER_KEY("." of "." #what "_initializer", CHOICE, what.initializer,                           \
              "The first values of the " #what ".", EXAMPLE("{constant: 0.5}"),                    \
              .words = initializer_words, .fallback = by_default),                                 \
        INITIALIZER_REAL(of, what, "constant.value", init_value, ANY_REAL, "0", CONSTANT_VALUE),   \
        INITIALIZER_REAL(of, what, "random_normal.mean", init_other, ANY_REAL, "0", NORMAL_MEAN),  \
        INITIALIZER_REAL(of, what, "random_normal.stddev", init_value, NOT_NEGATIVE, "0.05",       \
                         NORMAL_STDDEV),                                                           \
        INITIALIZER_REAL(of, what, "random_uniform.minval", init_other, ANY_REAL, "-0.05",         \
                         UNIFORM_MINVAL),                                                          \
        INITIALIZER_REAL(of, what, "random_uniform.maxval", init_value, ANY_REAL, "0.05",          \
                         UNIFORM_MAXVAL),                                                          \
        INITIALIZER_REAL(of, what, "truncated_normal.mean", init_other, ANY_REAL, "0",             \
                         NORMAL_MEAN),                                                             \
        INITIALIZER_REAL(of, what, "truncated_normal.stddev", init_value, NOT_NEGATIVE, "0.05",    \
                         TRUNCATED_STDDEV)
/* Height and width. */
#define PAIR(of, group, member, given_or_not, ...)                                                 \
    LAYER_KEY("." of "." #member, PAIR, group.member, __VA_ARGS__, RANGE(1, 65536), given_or_not)
#define PADDING(of, group)                                                                         \
    LAYER_KEY("." of ".padding", WORD, group.padding,                                              \
              "`valid`: no padding. `same`: zeros around the image, so that the output has "       \
              "`ceil(input / stride)` rows and columns. If the number of added rows or columns "   \
              "is odd, the extra one is at the end.",                                              \
              EXAMPLE("same"), .words = padding_words, .fallback = "valid")
#define CHANNELS_LAST(of)                                                                          \
    NOT_YET(JOB_LAYER_PREFIX "." of ".data_format", "channels_last", "the axis of the channels")
#define LIKE_POOL_SIZE                                                                             \
    .like = offsetof(struct job_layer, pooling2d.pool_size), .fallback_doc = "`pool_size`"
#define POOLING_KEYS(of)                                                                           \
    PAIR(of, pooling2d, pool_size, .fallback = "2", "The height and width of a window.",           \
         EXAMPLE("3")),                                                                            \
        PAIR(of, pooling2d, strides, LIKE_POOL_SIZE, "The distance from one window to the next.",  \
             EXAMPLE("2")),                                                                        \
        PADDING(of, pooling2d), CHANNELS_LAST(of), LAYER_NAME(of)
#define GLOBAL_POOLING_KEYS(of)                                                                    \
    LAYER_KEY("." of ".keepdims", BOOL, global_pooling2d.keepdims,                                 \
              "Keep the shape `[1, 1, channels]` instead of `[channels]`.", EXAMPLE("true"),       \
              .fallback = "false"),                                                                \
        CHANNELS_LAST(of), LAYER_NAME(of)

static const struct job_key keys[] = {
    JOB_KEY("name", NAME, name, "The job's name. Its output directory is `runs/NAME`.",
            EXAMPLE("mnist-mlp"), .fallback_doc = "the job file's name"),

    JOB_KEY(
        "model.input.shape", SHAPE, model.rank,
        "The shape of one example, without the batch. `auto`: the shape of the data. The shape can "
        "have extra dimensions of 1 at its end: `[28, 28, 1]` for data of shape `[28, 28]`.",
        EXAMPLE("[28, 28]"), .identity = true, .required = true, .or_auto = true),
    JOB_KEY("model.layers", LAYERS, model.layers,
            "The layers in order. Write each as `LAYER` or `LAYER: {option: value}`.",
            EXAMPLE("[flatten, dense: {units: 10, activation: softmax}]"), .identity = true,
            .required = true),
    LAYER_KEY("", CHOICE, kind,
              "One layer. A value without an option's name sets the layer's main option: `dense: "
              "10`, `dropout: 0.2`, `activation: relu`.",
              EXAMPLE("{dense: 10}"), .words = layer_words),
    LAYER_NAME("flatten"),
    LAYER_KEY(".dense.units", U32, dense.units, "The number of outputs.", EXAMPLE("64"),
              RANGE(1, 16777216), .required = true),
    LAYER_KEY(".dense.activation", WORD, dense.activation, "The function applied to the outputs.",
              EXAMPLE("relu"), .words = activation_words, .fallback = "linear"),
    LAYER_KEY(".dense.use_bias", BOOL, use_bias, "Add a trained bias to each output.",
              EXAMPLE("false"), .fallback = "true"),
    INITIALIZER("dense", kernel, "glorot_uniform"),
    INITIALIZER("dense", bias, "zeros"),
    REGULARIZER("dense", kernel),
    REGULARIZER("dense", bias),
    TRAINABLE("dense"),
    LAYER_NAME("dense"),
    LAYER_KEY(".dropout.rate", REAL, dropout.rate,
              "The share of the inputs that is set to 0 during training.", EXAMPLE("0.2"),
              BELOW_ONE, .required = true),
    LAYER_NAME("dropout"),
    LAYER_KEY(".activation.activation", WORD, activation.activation,
              "The function applied to each input.", EXAMPLE("relu"), .required = true,
              .words = activation_words),
    LAYER_NAME("activation"),
    LAYER_NAME_AS("relu", "re_lu"),
    LAYER_NAME_AS("sigmoid", "activation"),
    LAYER_NAME_AS("tanh", "activation"),
    LAYER_NAME_AS("softmax", "softmax"),
    LAYER_KEY(".conv2d.filters", U32, conv2d.filters, "The number of channels of the output.",
              EXAMPLE("32"), RANGE(1, 1048576), .required = true),
    PAIR("conv2d", conv2d, kernel_size, .required = true, "The height and width of the kernel.",
         EXAMPLE("3")),
    PAIR("conv2d", conv2d, strides, .fallback = "1",
         "The distance from one window to the next. At least one of `strides` and `dilation_rate` "
         "must be 1.",
         EXAMPLE("2")),
    PADDING("conv2d", conv2d),
    PAIR("conv2d", conv2d, dilation_rate, .fallback = "1",
         "The distance between neighboring inputs within a window.", EXAMPLE("2")),
    LAYER_KEY(".conv2d.activation", WORD, conv2d.activation, "The function applied to the outputs.",
              EXAMPLE("relu"), .words = activation_words, .fallback = "linear"),
    LAYER_KEY(".conv2d.use_bias", BOOL, use_bias,
              "Add a trained bias to each channel of the output.", EXAMPLE("false"),
              .fallback = "true"),
    INITIALIZER("conv2d", kernel, "glorot_uniform"),
    INITIALIZER("conv2d", bias, "zeros"),
    REGULARIZER("conv2d", kernel),
    REGULARIZER("conv2d", bias),
    NOT_YET(JOB_LAYER_PREFIX ".conv2d.groups", "1",
            "groups of channels, each with its own kernels"),
    CHANNELS_LAST("conv2d"),
    TRAINABLE("conv2d"),
    LAYER_NAME("conv2d"),
    POOLING_KEYS("max_pooling2d"),
    POOLING_KEYS("average_pooling2d"),
    GLOBAL_POOLING_KEYS("global_max_pooling2d"),
    GLOBAL_POOLING_KEYS("global_average_pooling2d"),
    LAYER_KEY(".reshape.target_shape", SHAPE, reshape.rank,
              "The new shape of one example, without the batch, with as many elements as before.",
              EXAMPLE("[28, 28, 1]"), .required = true),
    LAYER_NAME("reshape"),
    LAYER_NAME_AS("selu", "activation"),
    LAYER_NAME_AS("silu", "activation"),
    LAYER_NAME_AS("softplus", "activation"),
    LAYER_KEY(".leaky_relu.negative_slope", REAL, leaky_relu.negative_slope,
              "The factor for negative inputs. (In the activation `leaky_relu` of other layers, it "
              "is 0.2.)",
              EXAMPLE("0.1"), NOT_NEGATIVE, .fallback = "0.3"),
    LAYER_NAME_KERAS("leaky_relu", "leaky_re_lu"),
    LAYER_KEY(".elu.alpha", REAL, elu.alpha, "The factor for negative outputs.", EXAMPLE("0.5"),
              NOT_NEGATIVE, .fallback = "1"),
    LAYER_NAME("elu"),
    LAYER_KEY(".gelu.approximate", BOOL, gelu.approximate,
              "Compute gelu approximately, from tanh instead of erf.", EXAMPLE("true"),
              .fallback = "false"),
    LAYER_NAME("gelu"),
    LAYER_KEY(".batch_normalization.momentum", REAL, normalization.momentum,
              "The share of the old moving mean and variance that each step keeps.", EXAMPLE("0.9"),
              UP_TO_ONE, .fallback = "0.99"),
    NORMALIZATION("batch_normalization"),
    TRAINABLE("batch_normalization"),
    LAYER_NAME("batch_normalization"),
    NORMALIZATION("layer_normalization"),
    NOT_YET(JOB_LAYER_PREFIX ".layer_normalization.rms_scaling", "false",
            "scaling by the root mean square"),
    TRAINABLE("layer_normalization"),
    LAYER_NAME("layer_normalization"),
    LAYER_KEY(
        ".embedding.input_dim", U32, embedding.input_dim,
        "0: the layer looks up the keys of its `inputs`, which are key columns, in a table. "
        "Otherwise: the number of the layer's own rows, which all its inputs share. The inputs "
        "are then one column with `encode: id`, or `number` columns with ids from 0. To embed "
        "several columns with `encode: id`, make them key columns and choose 0.",
        EXAMPLE("1000"), RANGE(0, 16777216), .fallback = "0"),
    LAYER_KEY(".embedding.output_dim", U32, embedding.output_dim,
              "The length of a row. In a table it is at most 4096.", EXAMPLE("16"),
              RANGE(1, 16777216), .required = true),
    TABLE_NAME("embedding"),
    TRAINABLE("embedding"),
    LAYER_NAME_READS("embedding", "[user]"),
    LAYER_KEY(".embedding_bag.output_dim", U32, embedding_bag.output_dim, "The length of a row.",
              EXAMPLE("16"), RANGE(1, ROW_DIM_MAX), .required = true),
    LAYER_KEY(".embedding_bag.mode", WORD, embedding_bag.mode,
              "How the rows of one column combine. `sum`: their weighted sum. `mean`: that sum "
              "divided by the sum of the weights. `sqrtn`: that sum divided by the root of the sum "
              "of the squared weights.",
              EXAMPLE("sum"), .words = bag_words, .fallback = "mean"),
    TABLE_NAME("embedding_bag"),
    TABLE_IS_TRAINED("embedding_bag"),
    LAYER_NAME_READS("embedding_bag", "[user]"),
    LAYER_KEY(".linear.use_bias", BOOL, use_bias, "Add a trained bias to the sum.",
              EXAMPLE("false"), .fallback = "true"),
    TABLE_NAME("linear"),
    TABLE_IS_TRAINED("linear"),
    LAYER_NAME_READS("linear", "[user]"),
    LAYER_NAME_READS("add", "[input, trunk]"),
    LAYER_NAME_READS("concatenate", "[input, trunk]"),
    JOB_KEY("model.weights", FILE, model.weights,
            "A safetensors file with first values. A tensor whose name is in the file begins with "
            "the values in the file; any other tensor begins with its initializer. The file is "
            "read only if the job begins from scratch. Its contents belong to the job's identity.",
            EXAMPLE("runs/first/model/weights.safetensors"), .fallback_doc = "none"),
    JOB_KEY("model.loss", CHOICE, model.head[0].loss,
            "The function that training minimizes. If the last layer is the softmax or sigmoid "
            "that matches the loss, gradwire computes the two together, which is more precise.",
            EXAMPLE("binary_crossentropy"), .identity = true, .required = true,
            .words = job_loss_words),
    JOB_KEY("model.loss.sparse_categorical_crossentropy.from_logits", BOOL,
            model.head[0].from_logits,
            "The model's outputs are logits: its last layer has no softmax.", EXAMPLE("true"),
            .identity = true, .fallback = "false"),
    NOT_YET("model.loss.sparse_categorical_crossentropy.ignore_class", "null", "a class to ignore"),
    JOB_KEY("model.loss.binary_crossentropy.from_logits", BOOL, model.head[0].from_logits,
            "The model's output is a logit: its last layer has no sigmoid.", EXAMPLE("true"),
            .identity = true, .fallback = "false"),
    NOT_YET("model.loss.binary_crossentropy.label_smoothing", "0", "labels moved toward 0.5"),
    JOB_KEY("model.metrics", METRICS, model.metrics,
            "The metrics to report together with the loss.", EXAMPLE("[accuracy]"),
            .identity = true, .words = job_metric_words, .fallback_doc = "`[]`"),
};
const struct job_key_table job_table_model = {keys, sizeof keys / sizeof keys[0]};
_Static_assert(sizeof keys / sizeof keys[0] <= JOB_TABLE_KEYS, "raise JOB_TABLE_KEYS");

const char *job_loss_word(enum loss_kind kind)
{
    return job_word_of(job_loss_words, (int)kind);
}

enum job_labels job_loss_labels(enum loss_kind kind)
{
#define LABELS(kind, word, labels, meaning) LABELS_##labels,
    static const enum job_labels labels[] = {JOB_LOSSES(LABELS, JOB_NO_ALIAS)};
    return labels[kind];
}

struct job_metric job_metric_of(enum metric_kind kind)
{
    return (struct job_metric){kind, job_word_of(job_metric_words, (int)kind), 0};
}

bool job_metric_larger_is_better(enum metric_kind kind)
{
    enum { NEITHER, LOWER, HIGHER };
#define BETTER(kind, word, better, meaning) better,
    static const int better[] = {JOB_METRICS(BETTER, JOB_NO_ALIAS)};
    return better[kind] == HIGHER;
}

/* Next to the layer's rows: few files name a layer. */
const char *job_one_row_warning(const struct job *job, char *out, size_t bytes)
{
    const struct job_training *t = &job->training;
    for (uint32_t i = 0; i < job->model.layers && t->batch_size < 2 * t->microbatches; i++) {
        const struct job_layer *layer = &job->model.layer[i];
        if (layer->kind != LAYER_BATCH_NORMALIZATION || job_layer_is_frozen(layer))
            continue;
        (void)snprintf(
            out, bytes,
            "%s takes its mean and variance from microbatches of 1 row (training.batch_size "
            "%u, microbatches %u), which leaves nothing of a row's numbers: use larger ones, "
            "or layer_normalization",
            layer->name, t->batch_size, t->microbatches);
        return out;
    }
    return NULL;
}
