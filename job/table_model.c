/* The job file's keys: name and model. */
#include <stdio.h>

#include "job/table.h"

#define LAYER_WORD(KIND, word, class, traits, reads, lone, meaning)                                \
    {#word, LAYER_##KIND, lone, meaning},
#define LAYER_ALIAS(KIND, word, class, meaning) {#word, LAYER_##KIND, NULL, meaning},
static const struct job_word layer_words[] = {
    JOB_LAYERS(LAYER_WORD, LAYER_ALIAS) LATER("conv1d"),
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
/* The keys of every layer. `as`: its class in Keras. */
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
#define TABLE_IS_TRAINED(word)                                                                     \
    NOT_YET(JOB_LAYER_PREFIX "." word ".trainable", "true", "rows that training does not change")
#define LAYER_ROWS(KIND, word, class, traits, reads, lone, meaning)                                \
    KIND##_KEYS NAME_AND_INPUTS(#word, class, false, reads),
#define LAYER_ALIAS_ROWS(KIND, word, class, meaning) NAME_AND_INPUTS(#word, class, true, "[input]"),
/* what: kernel or bias */
#define REGULARIZER(of, what)                                                                      \
    LAYER_KEY("." of "." #what "_regularizer", CHOICE, what.regularizer,                           \
              "The term that this layer's " #what                                                  \
              " adds to the loss, in every mode of `training.update`.",                            \
              EXAMPLE("{l2: 0.01}"), .words = job_regularizer_words, .fallback = "none"),          \
        REGULARIZER_OPTIONS(LAYER_KEY, "." of "." #what "_regularizer", what)
#define INITIALIZER(of, what, by_default)                                                          \
    LAYER_KEY("." of "." #what "_initializer", CHOICE, what.initializer,                           \
              "The first values of the " #what ".", EXAMPLE("{constant: 0.5}"),                    \
              .words = initializer_words, .fallback = by_default),                                 \
        INITIALIZER_OPTIONS(LAYER_KEY, "." of "." #what "_initializer", what)
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
    JOB_LAYERS(LAYER_ROWS, LAYER_ALIAS_ROWS) JOB_KEY(
        "model.weights", FILE, model.weights,
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

const char *job_one_row_warning(const struct job *job, char *out, size_t bytes)
{
    const struct job_training *t = &job->training;
    for (uint32_t i = 0; i < job->model.layers && t->batch_size < 2 * t->microbatches; i++) {
        const struct job_layer *layer = &job->model.layer[i];
        if (!layer_has(layer->kind, LAYER_OF_ROWS) || job_layer_is_frozen(layer))
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
