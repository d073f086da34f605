#include "common/job_keys.h"

#include <float.h>
#include <string.h>

#include "common/words.h"

#define LATER(word)                                                                                \
    {                                                                                              \
        word, JOB_WORD_LATER, NULL                                                                 \
    }
#define LAST_WORD                                                                                  \
    {                                                                                              \
        NULL, 0, NULL                                                                              \
    }

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

static const struct job_word monitor_words[] = {
    {"none", MONITOR_NONE, NULL},
    {"loss", MONITOR_LOSS, NULL},
    {"accuracy", MONITOR_METRIC + METRIC_ACCURACY, NULL},
    {"mean_absolute_error", MONITOR_METRIC + METRIC_MEAN_ABSOLUTE_ERROR, NULL},
    {"mae", MONITOR_METRIC + METRIC_MEAN_ABSOLUTE_ERROR, NULL},
    {"mean_squared_error", MONITOR_METRIC + METRIC_MEAN_SQUARED_ERROR, NULL},
    {"mse", MONITOR_METRIC + METRIC_MEAN_SQUARED_ERROR, NULL},
    {"auc", MONITOR_METRIC + METRIC_AUC, NULL},
    {"precision", MONITOR_METRIC + METRIC_PRECISION, NULL},
    {"recall", MONITOR_METRIC + METRIC_RECALL, NULL},
    {"logloss", MONITOR_METRIC + METRIC_LOGLOSS, NULL},
    LAST_WORD,
};

static const struct job_word optimizer_words[] = {
    {"sgd", OPT_SGD, NULL},         {"adam", OPT_ADAM, NULL},
    {"adagrad", OPT_ADAGRAD, NULL}, {"adamw", OPT_ADAMW, NULL},
    {"ftrl", OPT_FTRL, NULL},       {"rmsprop", OPT_RMSPROP, NULL},
    {"lamb", OPT_LAMB, NULL},       LAST_WORD,
};

static const struct job_word schedule_words[] = {
    {"constant", SCHEDULE_CONSTANT, NULL},
    {"exponential_decay", SCHEDULE_EXPONENTIAL_DECAY, NULL},
    {"cosine_decay", SCHEDULE_COSINE_DECAY, NULL},
    {"polynomial_decay", SCHEDULE_POLYNOMIAL_DECAY, NULL},
    {"piecewise_constant_decay", SCHEDULE_PIECEWISE_CONSTANT_DECAY, NULL},
    {"inverse_time_decay", SCHEDULE_INVERSE_TIME_DECAY, NULL},
    LAST_WORD,
};

static const struct job_word store_words[] = {
    {"auto", STORE_AUTO, NULL},
    {"shared", STORE_SHARED, NULL},
    {"chief", STORE_CHIEF, NULL},
    LAST_WORD,
};

static const struct job_word nan_guard_words[] = {
    {"off", NAN_GUARD_OFF, NULL},
    {"skip", NAN_GUARD_SKIP, NULL},
    {"stop", NAN_GUARD_STOP, NULL},
    {"rollback", NAN_GUARD_ROLLBACK, NULL},
    LAST_WORD,
};

static const struct job_word update_words[] = {
    {"sync", UPDATE_SYNC, NULL},
    {"async", UPDATE_ASYNC, NULL},
    {"ssp", UPDATE_SSP, NULL},
    {"geo", UPDATE_GEO, NULL},
    LAST_WORD,
};

static const struct job_word push_words[] = {
    {"none", CODEC_RAW, NULL},
    {"fp16", CODEC_FP16, NULL},
    {"bf16", CODEC_BF16, NULL},
    {"int8", CODEC_INT8, NULL},
    {"int8_zstd", CODEC_INT8_ZSTD, NULL},
    {"zstd", CODEC_ZSTD, NULL},
    LATER("top_k"),
    {"auto", CODEC_AUTO, NULL},
    LAST_WORD,
};

static const struct job_word reply_words[] = {
    {"none", CODEC_RAW, NULL},
    {"fp16", CODEC_FP16, NULL},
    {"bf16", CODEC_BF16, NULL},
    {"int8", CODEC_INT8, NULL},
    {"int8_zstd", CODEC_INT8_ZSTD, NULL},
    {"zstd", CODEC_ZSTD, NULL},
    {"auto", CODEC_AUTO, NULL},
    LAST_WORD,
};

static const struct job_word allow_words[] = {
    {"fp16", CODEC_FP16, NULL},
    {"bf16", CODEC_BF16, NULL},
    {"int8", CODEC_INT8, NULL},
    {"int8_zstd", CODEC_INT8_ZSTD, NULL},
    LAST_WORD,
};

static const struct job_word format_words[] = {
    {"idx", DATA_IDX, NULL},
    {"synthetic", DATA_SYNTHETIC, NULL},
    {"cifar10", DATA_CIFAR10, NULL},
    {"csv", DATA_CSV, NULL},
    LATER("libsvm"),
    LATER("npy"),
    LATER("tfrecord"),
    LAST_WORD,
};

static const struct job_word column_words[] = {
    {"number", COLUMN_NUMBER, "name"},
    {"category", COLUMN_CATEGORY, "name"},
    {"label", COLUMN_LABEL, "name"},
    {"ignore", COLUMN_IGNORE, "name"},
    LAST_WORD,
};

static const struct job_word scale_words[] = {
    {"none", SCALE_NONE, NULL},
    {"standard", SCALE_STANDARD, NULL},
    {"min_max", SCALE_MIN_MAX, NULL},
    LAST_WORD,
};

static const struct job_word missing_words[] = {
    {"mean", MISSING_MEAN, NULL},
    {"value", MISSING_VALUE, "value"},
    {"refuse", MISSING_REFUSE, NULL},
    LAST_WORD,
};

static const struct job_word encode_words[] = {
    {"one_hot", ENCODE_ONE_HOT, NULL},
    {"id", ENCODE_ID, NULL},
    LAST_WORD,
};

static const struct job_word header_words[] = {
    {"none", HEADER_NONE, NULL},
    {"skip", HEADER_SKIP, NULL},
    {"names", HEADER_NAMES, NULL},
    LAST_WORD,
};

static const struct job_word delimiter_words[] = {
    {"comma", DELIMITER_COMMA, NULL},         {"tab", DELIMITER_TAB, NULL},
    {"semicolon", DELIMITER_SEMICOLON, NULL}, {"pipe", DELIMITER_PIPE, NULL},
    {"space", DELIMITER_SPACE, NULL},         LAST_WORD,
};

static const struct job_word bad_rows_words[] = {
    {"stop", BAD_ROWS_STOP, NULL},
    {"skip", BAD_ROWS_SKIP, NULL},
    LAST_WORD,
};

static const struct job_word synthetic_words[] = {
    {"digits", SYNTHETIC_DIGITS, NULL},
    {"census", SYNTHETIC_CENSUS, NULL},
    LAST_WORD,
};

static const struct job_word flip_words[] = {
    {"none", FLIP_NONE, NULL},
    {"horizontal", FLIP_HORIZONTAL, NULL},
    LAST_WORD,
};

#define IN_JOB(member) .offset = offsetof(struct job, member)
#define IN_LAYER(member) .offset = offsetof(struct job_layer, member)
#define IN_COLUMN(member) .offset = offsetof(struct job_column, member)
#define RANGE(least, most) .min = least, .max = most
#define POSITIVE .low = 0, .high = FLT_MAX, .low_open = true
#define NOT_NEGATIVE .low = 0, .high = FLT_MAX
#define NOT_POSITIVE .low = -FLT_MAX, .high = 0
#define ANY_REAL .low = -FLT_MAX, .high = FLT_MAX
#define UP_TO_ONE .low = 0, .high = 1
#define BELOW_ONE .low = 0, .high = 1, .high_open = true
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
     .fallback_doc = "as Keras makes it: `" word "`, `" word "_1`, ..",                            \
     .doc = "unique among the layers; names the layer's tensors"},                                 \
        LAYER_INPUTS(word, false)
#define LAYER_NAME_KERAS(word, as)                                                                 \
    {.path = JOB_LAYER_PREFIX "." word ".name",                                                    \
     .type = KEY_NAME,                                                                             \
     IN_LAYER(name),                                                                               \
     .identity = true,                                                                             \
     .fallback_doc = "as Keras makes it: `" as "`, `" as "_1`, ..",                                \
     .doc = "unique among the layers"},                                                            \
        LAYER_INPUTS(word, false)
#define NORMALIZATION(of, epsilon_doc)                                                             \
    {.path = JOB_LAYER_PREFIX "." of ".epsilon",                                                   \
     .type = KEY_REAL,                                                                             \
     IN_LAYER(epsilon),                                                                            \
     POSITIVE,                                                                                     \
     .identity = true,                                                                             \
     .fallback = "1e-3",                                                                           \
     .doc = epsilon_doc},                                                                          \
        {.path = JOB_LAYER_PREFIX "." of ".center",                                                \
         .type = KEY_BOOL,                                                                         \
         IN_LAYER(center),                                                                         \
         .identity = true,                                                                         \
         .fallback = "true",                                                                       \
         .doc = "add a beta that is learned"},                                                     \
        {.path = JOB_LAYER_PREFIX "." of ".scale",                                                 \
         .type = KEY_BOOL,                                                                         \
         IN_LAYER(scale),                                                                          \
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
     .fallback_doc = "as Keras makes it: `" as "`, `" as "_1`, ..",                                \
     .doc = "unique among the layers"},                                                            \
        LAYER_INPUTS(word, true)
#define INITIALIZER_REAL(of, what, option, member, by_default, text)                               \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." of "." #what "_initializer." option, .type = KEY_REAL,        \
        IN_LAYER(member), ANY_REAL, .identity = true, .fallback = by_default, .doc = text          \
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
     IN_LAYER(what##_regularizer),                                                                 \
     .identity = true,                                                                             \
     .words = regularizer_words,                                                                   \
     .fallback = "none",                                                                           \
     .doc = "added to the loss, in every mode: `{l2: 0.01}`"},                                     \
        REGULARIZER_REAL(of, what, "l1.l1", what##_l1, "0.01", "times the sum of |w|"),            \
        REGULARIZER_REAL(of, what, "l2.l2", what##_l2, "0.01", "times the sum of squares"),        \
        REGULARIZER_REAL(of, what, "l1_l2.l1", what##_l1, "0", "times the sum of |w|"),            \
        REGULARIZER_REAL(of, what, "l1_l2.l2", what##_l2, "0", "times the sum of squares")
/* what: kernel or bias */
#define INITIALIZER(of, what, by_default)                                                          \
    {.path = JOB_LAYER_PREFIX "." of "." #what "_initializer",                                     \
     .type = KEY_CHOICE,                                                                           \
     IN_LAYER(what##_initializer),                                                                 \
     .identity = true,                                                                             \
     .words = initializer_words,                                                                   \
     .fallback = by_default,                                                                       \
     .doc = "first values; `{constant: 0.5}` for a number"},                                       \
        INITIALIZER_REAL(of, what, "constant.value", what##_init_value, "0", "the number"),        \
        INITIALIZER_REAL(of, what, "random_normal.mean", what##_init_other, "0", "mean"),          \
        INITIALIZER_REAL(of, what, "random_normal.stddev", what##_init_value, "0.05",              \
                         "standard deviation"),                                                    \
        INITIALIZER_REAL(of, what, "random_uniform.minval", what##_init_other, "-0.05", "from"),   \
        INITIALIZER_REAL(of, what, "random_uniform.maxval", what##_init_value, "0.05", "to"),      \
        INITIALIZER_REAL(of, what, "truncated_normal.mean", what##_init_other, "0", "mean"),       \
        INITIALIZER_REAL(of, what, "truncated_normal.stddev", what##_init_value, "0.05",           \
                         "standard deviation; redrawn beyond two of them")
/* Height and width. */
#define PAIR(of, member, given_or_not, text)                                                       \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." of "." #member, .type = KEY_PAIR, IN_LAYER(member),           \
        RANGE(1, 65536), .identity = true, given_or_not, .doc = text                               \
    }
#define PADDING(of)                                                                                \
    {                                                                                              \
        .path = JOB_LAYER_PREFIX "." of ".padding", .type = KEY_WORD, IN_LAYER(padding),           \
        .identity = true, .words = padding_words, .fallback = "valid",                             \
        .doc = "`valid`: none; `same`: as much as gives ceil(input / stride) outputs, the odd "    \
               "row and column behind"                                                             \
    }
#define POOLING_KEYS(of)                                                                           \
    PAIR(of, pool_size, .fallback = "2", "height and width of a window"),                          \
        PAIR(of, strides, .fallback_doc = "pool_size", "from one window to the next"),             \
        PADDING(of),                                                                               \
        NOT_YET(JOB_LAYER_PREFIX "." of ".data_format", "channels_last",                           \
                "where the channels stand"),                                                       \
        LAYER_NAME(of)
#define GLOBAL_POOLING_KEYS(of)                                                                    \
    {.path = JOB_LAYER_PREFIX "." of ".keepdims",                                                  \
     .type = KEY_BOOL,                                                                             \
     IN_LAYER(keepdims),                                                                           \
     .identity = true,                                                                             \
     .fallback = "false",                                                                          \
     .doc = "the shape stays (1, 1, channels)"},                                                   \
        NOT_YET(JOB_LAYER_PREFIX "." of ".data_format", "channels_last",                           \
                "where the channels stand"),                                                       \
        LAYER_NAME(of)
#define OPTIMIZER_REAL(name, member, range, by_default, text)                                      \
    {                                                                                              \
        .path = "optimizer." name, .type = KEY_REAL, IN_JOB(optimizer.member), range,              \
        .identity = true, .fallback = by_default, .doc = text                                      \
    }
#define OPTIMIZER_BOOL(name, member, text)                                                         \
    {                                                                                              \
        .path = "optimizer." name, .type = KEY_BOOL, IN_JOB(optimizer.member), .identity = true,   \
        .fallback = "false", .doc = text                                                           \
    }
/* What every optimizer has. */
#define OPTIMIZER_KEYS(word, rate, decay)                                                          \
    {.path = "optimizer." word ".learning_rate",                                                   \
     .type = KEY_REAL,                                                                             \
     IN_JOB(optimizer.learning_rate),                                                              \
     POSITIVE,                                                                                     \
     .alias = true,                                                                                \
     .fallback = rate,                                                                             \
     .doc = "the same key as `training.learning_rate`: one of them is given"},                     \
        OPTIMIZER_REAL(word ".weight_decay", weight_decay, NOT_NEGATIVE, decay,                    \
                       "before each update `w -= w * weight_decay * rate`, decoupled from the "    \
                       "gradient; 0: none"),                                                       \
    {                                                                                              \
        .path = "optimizer." word ".exclude_from_weight_decay", .type = KEY_NAMES,                 \
        IN_JOB(decay_exclude), .identity = true, .fallback_doc = "`[]`",                           \
        .doc = "parts of names, like `[bias]`: a tensor whose name has one is not decayed"         \
    }
#define ADAM_KEYS(word)                                                                            \
    OPTIMIZER_REAL(word ".beta_1", beta_1, BELOW_ONE, "0.9", "decay of the mean of gradients"),    \
        OPTIMIZER_REAL(word ".beta_2", beta_2, BELOW_ONE, "0.999",                                 \
                       "decay of the mean of their squares"),                                      \
        OPTIMIZER_REAL(word ".epsilon", epsilon, NOT_NEGATIVE, "1e-7",                             \
                       "added to the root of the second mean")
/* A number of a schedule. */
#define SCHEDULE "training.learning_rate_schedule."
#define DECAY_STEPS(of, text)                                                                      \
    {                                                                                              \
        .path = SCHEDULE of ".decay_steps", .type = KEY_U32,                                       \
        IN_JOB(optimizer.schedule.decay_steps), RANGE(1, UINT32_MAX), .required = true,            \
        .doc = text                                                                                \
    }
#define DECAY_RATE(of, text)                                                                       \
    {                                                                                              \
        .path = SCHEDULE of ".decay_rate", .type = KEY_REAL,                                       \
        IN_JOB(optimizer.schedule.decay_rate), NOT_NEGATIVE, .required = true, .doc = text         \
    }
#define STAIRCASE(of)                                                                              \
    {                                                                                              \
        .path = SCHEDULE of ".staircase", .type = KEY_BOOL, IN_JOB(optimizer.schedule.staircase),  \
        .fallback = "false", .doc = "in steps of decay_steps"                                      \
    }
#define AMSGRAD_KEY(word)                                                                          \
    OPTIMIZER_BOOL(word ".amsgrad", amsgrad, "the largest second mean so far takes its place")
#define COLUMN_NAME(word)                                                                          \
    {                                                                                              \
        .path = JOB_COLUMN_PREFIX "." word ".name", .type = KEY_TEXT, IN_COLUMN(name),             \
        .identity = true, .fallback_doc = "none",                                                  \
        .doc = "names it in messages; with `data.header: names` the header has it"                 \
    }
#define NOT_YET(key_path, no_op, text)                                                             \
    {                                                                                              \
        .path = key_path, .type = KEY_LATER, .fallback = no_op, .doc = text                        \
    }

const struct job_key job_keys[] = {
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
     IN_LAYER(units),
     RANGE(1, 16777216),
     .identity = true,
     .required = true,
     .doc = "outputs"},
    {.path = JOB_LAYER_PREFIX ".dense.activation",
     .type = KEY_WORD,
     IN_LAYER(activation),
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
     IN_LAYER(rate),
     BELOW_ONE,
     .identity = true,
     .required = true,
     .doc = "share of the inputs set to 0 in training"},
    LAYER_NAME("dropout"),
    {.path = JOB_LAYER_PREFIX ".activation.activation",
     .type = KEY_WORD,
     IN_LAYER(activation),
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
     IN_LAYER(filters),
     RANGE(1, 1048576),
     .identity = true,
     .required = true,
     .doc = "channels of the output"},
    PAIR("conv2d", kernel_size, .required = true, "height and width of the kernel"),
    PAIR("conv2d", strides, .fallback = "1", "from one output to the next; not with dilation_rate"),
    PADDING("conv2d"),
    PAIR("conv2d", dilation_rate, .fallback = "1", "from one tap of the kernel to the next"),
    {.path = JOB_LAYER_PREFIX ".conv2d.activation",
     .type = KEY_WORD,
     IN_LAYER(activation),
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
     IN_LAYER(target_rank),
     .identity = true,
     .required = true,
     .doc = "of one example, without the batch: `[28, 28, 1]`; as many elements as before"},
    LAYER_NAME("reshape"),
    LAYER_NAME_AS("selu", "activation"),
    LAYER_NAME_AS("silu", "activation"),
    LAYER_NAME_AS("softplus", "activation"),
    {.path = JOB_LAYER_PREFIX ".leaky_relu.negative_slope",
     .type = KEY_REAL,
     IN_LAYER(alpha),
     NOT_NEGATIVE,
     .identity = true,
     .fallback = "0.3",
     .doc = "slope below 0; as an activation, `activation: leaky_relu`, it is 0.2"},
    LAYER_NAME_KERAS("leaky_relu", "leaky_re_lu"),
    {.path = JOB_LAYER_PREFIX ".elu.alpha",
     .type = KEY_REAL,
     IN_LAYER(alpha),
     NOT_NEGATIVE,
     .identity = true,
     .fallback = "1",
     .doc = "below 0 it is alpha (exp(x) - 1)"},
    LAYER_NAME("elu"),
    {.path = JOB_LAYER_PREFIX ".gelu.approximate",
     .type = KEY_BOOL,
     IN_LAYER(approximate),
     .identity = true,
     .fallback = "false",
     .doc = "by tanh instead of erf"},
    LAYER_NAME("gelu"),
    {.path = JOB_LAYER_PREFIX ".batch_normalization.momentum",
     .type = KEY_REAL,
     IN_LAYER(momentum),
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
     IN_LAYER(input_dim),
     RANGE(1, 16777216),
     .identity = true,
     .required = true,
     .doc = "rows of the table; an input is the number of a row, from 0"},
    {.path = JOB_LAYER_PREFIX ".embedding.output_dim",
     .type = KEY_U32,
     IN_LAYER(output_dim),
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

    {.path = "data.format",
     .type = KEY_WORD,
     IN_JOB(data.format),
     .required = true,
     .words = format_words,
     .doc = "`idx`: files as of MNIST; `cifar10`: CIFAR-10's binary batches, shape [32, 32, 3]; "
            "`csv`: text, a row a line, as `data.columns` describes it; `synthetic`: rows drawn "
            "by code. Files may be plain, .gz or .zst"},
    {.path = "data.train",
     .type = KEY_PATHS,
     IN_JOB(data.train),
     .fallback_doc = "none; required by all but `synthetic`",
     .doc = "files to train on: a path, a glob, or a list of these; relative to the job file, "
            "by --set to the current folder; images and labels may match together"},
    {.path = "data.eval",
     .type = KEY_PATHS,
     IN_JOB(data.eval),
     .fallback_doc = "none",
     .doc = "files to evaluate on, in the same way"},
    {.path = "data.scale",
     .type = KEY_REAL,
     IN_JOB(data.scale),
     POSITIVE,
     .identity = true,
     .fallback = "1",
     .doc = "inputs are divided by it"},
    {.path = "data.synthetic",
     .type = KEY_WORD,
     IN_JOB(data.synthetic),
     .identity = true,
     .words = synthetic_words,
     .fallback = "digits",
     .doc =
         "what is drawn: `digits`: images [28, 28]; `census`: csv text as of UCI's Adult, read by "
         "`data.columns`"},
    {.path = "data.synthetic_train_rows",
     .type = KEY_U32,
     IN_JOB(data.synthetic_train_rows),
     RANGE(1, 10000000),
     .identity = true,
     .fallback = "60000",
     .doc = "`synthetic`: rows to train on"},
    {.path = "data.synthetic_eval_rows",
     .type = KEY_U32,
     IN_JOB(data.synthetic_eval_rows),
     RANGE(1, 10000000),
     .identity = true,
     .fallback = "10000",
     .doc = "`synthetic`: rows to evaluate on"},
    {.path = "data.columns",
     .type = KEY_COLUMNS,
     IN_JOB(data.csv.columns),
     .identity = true,
     .fallback_doc = "none; required by `csv`",
     .doc = "`csv`: the columns in the order of the file, each `kind`, `kind: name` or `kind: "
            "{option: value}`; their features make a row in this order"},
    {.path = JOB_COLUMN_PREFIX,
     .type = KEY_CHOICE,
     IN_COLUMN(kind),
     .identity = true,
     .words = column_words,
     .doc = "one column; one of them is the label"},
    COLUMN_NAME("number"),
    {.path = JOB_COLUMN_PREFIX ".number.scale",
     .type = KEY_WORD,
     IN_COLUMN(scale),
     .identity = true,
     .words = scale_words,
     .fallback = "none",
     .doc =
         "by the training part: `standard`: (x - mean) / standard deviation; `min_max`: to 0..1"},
    {.path = JOB_COLUMN_PREFIX ".number.missing",
     .type = KEY_CHOICE,
     IN_COLUMN(missing),
     .identity = true,
     .words = missing_words,
     .fallback = "mean",
     .doc = "what stands for a missing one: the training part's mean, `{value: 0}`, or the row is "
            "bad"},
    {.path = JOB_COLUMN_PREFIX ".number.missing.value.value",
     .type = KEY_REAL,
     IN_COLUMN(missing_value),
     ANY_REAL,
     .identity = true,
     .fallback = "0",
     .doc = "the number, as in the file: it is scaled too"},
    COLUMN_NAME("category"),
    {.path = JOB_COLUMN_PREFIX ".category.encode",
     .type = KEY_WORD,
     IN_COLUMN(encode),
     .identity = true,
     .words = encode_words,
     .fallback = "one_hot",
     .doc = "`one_hot`: a feature for each word, 1 or 0; `id`: one feature, the word's number from "
            "1. A word that is not in the vocabulary is all 0"},
    {.path = JOB_COLUMN_PREFIX ".category.vocabulary",
     .type = KEY_TEXTS,
     IN_COLUMN(words),
     .identity = true,
     .fallback_doc = "the words of the training part, in the order in which they first occur",
     .doc = "its words; a missing value is one more, behind them (learned: one like any other)"},
    COLUMN_NAME("label"),
    {.path = JOB_COLUMN_PREFIX ".label.classes",
     .type = KEY_TEXTS,
     IN_COLUMN(words),
     .identity = true,
     .fallback_doc = "labels are numbers",
     .doc = "the names of classes 0, 1, ..: `a|b` takes both for one class, `*` all others"},
    COLUMN_NAME("ignore"),
    {.path = "data.header",
     .type = KEY_WORD,
     IN_JOB(data.csv.header),
     .identity = true,
     .words = header_words,
     .fallback = "none",
     .doc = "`csv`: the first line of each file: `skip`: is left out; `names`: names the columns, "
            "of which those in data.columns are read, in any order"},
    {.path = "data.delimiter",
     .type = KEY_WORD,
     IN_JOB(data.csv.delimiter),
     .identity = true,
     .words = delimiter_words,
     .fallback = "comma",
     .doc = "`csv`: what stands between fields"},
    {.path = "data.quotes",
     .type = KEY_BOOL,
     IN_JOB(data.csv.quotes),
     .identity = true,
     .fallback = "true",
     .doc = "`csv`: fields may be in double quotes, as in RFC 4180"},
    {.path = "data.trim",
     .type = KEY_BOOL,
     IN_JOB(data.csv.trim),
     .identity = true,
     .fallback = "false",
     .doc = "`csv`: spaces and tabs around a field do not belong to it"},
    {.path = "data.comment",
     .type = KEY_TEXT,
     IN_JOB(data.csv.comment),
     .identity = true,
     .fallback_doc = "none",
     .doc = "`csv`: lines that begin so are left out, as empty ones are"},
    {.path = "data.missing",
     .type = KEY_TEXTS,
     IN_JOB(data.csv.missing),
     .identity = true,
     .fallback = "",
     .doc = "`csv`: the fields that mean a missing value: a text or a list"},
    {.path = "data.bad_rows",
     .type = KEY_WORD,
     IN_JOB(data.csv.bad_rows),
     .words = bad_rows_words,
     .fallback = "stop",
     .doc = "`csv`: a row that cannot be read ends the job, or keeps its place with weight 0"},
    {.path = "data.bad_rows_max",
     .type = KEY_U32,
     IN_JOB(data.csv.bad_rows_max),
     RANGE(0, UINT32_MAX),
     .fallback = "1000",
     .doc = "`csv`: more bad rows than that in a part end the job all the same"},
    {.path = "data.augment.flip",
     .type = KEY_WORD,
     IN_JOB(data.augment.flip),
     .identity = true,
     .words = flip_words,
     .fallback = "none",
     .doc = "images, in training: half of them mirrored, left to right"},
    {.path = "data.augment.crop",
     .type = KEY_U32,
     IN_JOB(data.augment.crop),
     RANGE(0, 1024),
     .identity = true,
     .fallback = "0",
     .doc = "images, in training: a window of their size, anywhere in them with so many pixels of "
            "zeros around"},
    {.path = "data.augment.shift",
     .type = KEY_U32,
     IN_JOB(data.augment.shift),
     RANGE(0, 1024),
     .identity = true,
     .fallback = "0",
     .doc = "images, in training: moved by up to so many pixels each way, the border repeated"},

    {.path = "optimizer",
     .type = KEY_CHOICE,
     IN_JOB(optimizer.kind),
     .identity = true,
     .required = true,
     .words = optimizer_words,
     .doc = "the optimizer, as Keras 3 defines it"},
    OPTIMIZER_KEYS("sgd", "0.01", "0"),
    OPTIMIZER_REAL("sgd.momentum", momentum, UP_TO_ONE, "0", "share of the last move that is kept"),
    OPTIMIZER_BOOL("sgd.nesterov", nesterov, "Nesterov's momentum"),
    OPTIMIZER_KEYS("adam", "0.001", "0"),
    ADAM_KEYS("adam"),
    AMSGRAD_KEY("adam"),
    OPTIMIZER_KEYS("adamw", "0.001", "0.004"),
    ADAM_KEYS("adamw"),
    AMSGRAD_KEY("adamw"),
    OPTIMIZER_KEYS("adagrad", "0.001", "0"),
    OPTIMIZER_REAL("adagrad.initial_accumulator_value", initial_accumulator_value, NOT_NEGATIVE,
                   "0.1", "first value of the sum of squares"),
    OPTIMIZER_REAL("adagrad.epsilon", epsilon, NOT_NEGATIVE, "1e-7",
                   "added to the sum of squares, under the root"),
    OPTIMIZER_KEYS("rmsprop", "0.001", "0"),
    OPTIMIZER_REAL("rmsprop.rho", rho, BELOW_ONE, "0.9", "decay of the mean of squares"),
    OPTIMIZER_REAL("rmsprop.momentum", momentum, UP_TO_ONE, "0",
                   "share of the last move that is kept"),
    OPTIMIZER_REAL("rmsprop.epsilon", epsilon, NOT_NEGATIVE, "1e-7",
                   "added to the mean of squares, under the root"),
    OPTIMIZER_BOOL("rmsprop.centered", centered, "the variance takes the mean square's place"),
    OPTIMIZER_KEYS("ftrl", "0.001", "0"),
    OPTIMIZER_REAL("ftrl.learning_rate_power", learning_rate_power, NOT_POSITIVE, "-0.5",
                   "how the rate falls with the sum of squares; others than -0.5 are slow"),
    OPTIMIZER_REAL("ftrl.initial_accumulator_value", initial_accumulator_value, NOT_NEGATIVE, "0.1",
                   "first value of the sum of squares"),
    OPTIMIZER_REAL("ftrl.l1_regularization_strength", l1, NOT_NEGATIVE, "0",
                   "makes small weights 0"),
    OPTIMIZER_REAL("ftrl.l2_regularization_strength", l2, NOT_NEGATIVE, "0", "makes weights small"),
    OPTIMIZER_REAL("ftrl.l2_shrinkage_regularization_strength", l2_shrinkage, NOT_NEGATIVE, "0",
                   "as weight decay: on the gradient, not on the sum of squares"),
    OPTIMIZER_REAL("ftrl.beta", beta, NOT_NEGATIVE, "0", "beta of the paper"),
    OPTIMIZER_KEYS("lamb", "0.001", "0"),
    ADAM_KEYS("lamb"),

    {.path = "training.epochs",
     .type = KEY_U32,
     IN_JOB(training.epochs),
     RANGE(1, 1000000),
     .fallback = "1",
     .doc = "times through the training data; more of them reopen a finished job"},
    {.path = "training.batch_size",
     .type = KEY_U32,
     IN_JOB(training.batch_size),
     RANGE(1, 1048576),
     .identity = true,
     .fallback = "32",
     .doc = "examples of a step over all workers (sync), of one worker's batch (async)"},
    {.path = "training.microbatches",
     .type = KEY_U32,
     IN_JOB(training.microbatches),
     RANGE(1, JOB_MICROBATCHES_MAX),
     .identity = true,
     .fallback_doc = "batch_size / 32 rounded down to a power of two, within 1 to 8",
     .doc = "parts of a batch that workers and threads share; a power of two, at most batch_size"},
    {.path = "training.learning_rate",
     .type = KEY_REAL,
     IN_JOB(optimizer.learning_rate),
     POSITIVE,
     .fallback_doc = "the optimizer's",
     .doc = "the rate; where a schedule is on, its initial_learning_rate"},
    {.path = "training.learning_rate_schedule",
     .type = KEY_CHOICE,
     IN_JOB(optimizer.schedule.kind),
     .words = schedule_words,
     .fallback = "constant",
     .doc = "how the rate moves with the number of updates, as Keras's schedules of that name"},
    DECAY_STEPS("exponential_decay", "rate * decay_rate^(t / decay_steps)"),
    DECAY_RATE("exponential_decay", "what is left of the rate after decay_steps"),
    STAIRCASE("exponential_decay"),
    DECAY_STEPS("cosine_decay", "updates of half a cosine from the rate to alpha of it"),
    {.path = SCHEDULE "cosine_decay.alpha",
     .type = KEY_REAL,
     IN_JOB(optimizer.schedule.alpha),
     NOT_NEGATIVE,
     .fallback = "0",
     .doc = "what is left of the rate in the end, as a share"},
    {.path = SCHEDULE "cosine_decay.warmup_target",
     .type = KEY_REAL,
     IN_JOB(optimizer.schedule.warmup_target),
     NOT_NEGATIVE,
     .fallback = "0",
     .doc = "the rate that warmup_steps climb to before it decays; 0: none"},
    {.path = SCHEDULE "cosine_decay.warmup_steps",
     .type = KEY_U32,
     IN_JOB(optimizer.schedule.warmup_target_steps),
     RANGE(0, UINT32_MAX),
     .fallback = "0",
     .doc = "updates from the rate to warmup_target"},
    DECAY_STEPS("polynomial_decay", "updates from the rate to end_learning_rate"),
    {.path = SCHEDULE "polynomial_decay.end_learning_rate",
     .type = KEY_REAL,
     IN_JOB(optimizer.schedule.end_learning_rate),
     NOT_NEGATIVE,
     .fallback = "0.0001",
     .doc = "the last rate"},
    {.path = SCHEDULE "polynomial_decay.power",
     .type = KEY_REAL,
     IN_JOB(optimizer.schedule.power),
     NOT_NEGATIVE,
     .fallback = "1",
     .doc = "of the part that is left: 1 is a line"},
    {.path = SCHEDULE "polynomial_decay.cycle",
     .type = KEY_BOOL,
     IN_JOB(optimizer.schedule.cycle),
     .fallback = "false",
     .doc = "begin again beyond decay_steps, each time longer"},
    {.path = SCHEDULE "piecewise_constant_decay.boundaries",
     .type = KEY_INTEGERS,
     IN_JOB(optimizer.schedule.boundaries),
     RANGE(0, UINT32_MAX),
     .required = true,
     .doc = "rising numbers of updates: up to and with each, its value is the rate"},
    {.path = SCHEDULE "piecewise_constant_decay.values",
     .type = KEY_REALS,
     IN_JOB(optimizer.schedule.values),
     NOT_NEGATIVE,
     .required = true,
     .doc = "one rate more than boundaries; they take the place of training.learning_rate"},
    DECAY_STEPS("inverse_time_decay", "rate / (1 + decay_rate * t / decay_steps)"),
    DECAY_RATE("inverse_time_decay", "how fast"),
    STAIRCASE("inverse_time_decay"),
    {.path = "training.gradient_accumulation_steps",
     .type = KEY_U32,
     IN_JOB(optimizer.accumulation_steps),
     RANGE(1, 65536),
     .identity = true,
     .fallback = "1",
     .doc = "steps (async: batches) whose mean gradient makes one update"},
    {.path = "training.warmup_steps",
     .type = KEY_U32,
     IN_JOB(optimizer.schedule.warmup_steps),
     RANGE(0, UINT32_MAX),
     .fallback = "0",
     .doc = "the first so many updates have t / warmup_steps of the schedule's rate"},
    {.path = "training.update",
     .type = KEY_WORD,
     IN_JOB(training.update),
     .identity = true,
     .words = update_words,
     .fallback = "sync",
     .doc = "`sync`: one update from all workers' gradients; `async`: each batch on its own; "
            "`ssp`: the same, and nobody is "
            "further ahead than training.staleness; `geo`: each worker trains by itself, and "
            "pushes what it has moved every training.geo_every batches"},
    {.path = "training.class_weight",
     .type = KEY_CLASS_WEIGHTS,
     IN_JOB(training.class_weights),
     .identity = true,
     .fallback_doc = "1 for all",
     .doc = "what an example of a class counts in the loss and its gradient, not in metrics and "
            "evaluation: `{0: 1, 1: 5}`"},
    {.path = "training.seed",
     .type = KEY_U64,
     IN_JOB(training.seed),
     RANGE(0, UINT64_MAX),
     .identity = true,
     .fallback = "1",
     .doc = "all randomness comes from it"},
    {.path = "training.clip_norm",
     .type = KEY_REAL,
     IN_JOB(training.clip_norm),
     NOT_NEGATIVE,
     .fallback = "0",
     .doc = "a larger mean gradient is scaled down to this global norm, over all tensors; in async "
            "each batch's, at its worker; 0: off"},
    {.path = "training.nan_guard",
     .type = KEY_WORD,
     IN_JOB(training.nan_guard),
     .words = nan_guard_words,
     .fallback = "off",
     .doc = "a gradient that is not finite, or optimizer state beyond 1e30: `skip` makes no update "
            "of that batch, `stop` ends the job, `rollback` goes back to the last checkpoint and "
            "then skips the batch"},
    {.path = "training.max_rejected",
     .type = KEY_U32,
     IN_JOB(training.max_rejected),
     RANGE(1, 1000000),
     .fallback = "10",
     .doc = "batches in a row that the NaN guard rejects before the job fails"},
    {.path = "training.max_recoveries",
     .type = KEY_U32,
     IN_JOB(training.max_recoveries),
     RANGE(0, 1000000),
     .fallback = "3",
     .doc =
         "times that `nan_guard: rollback` goes back to the same checkpoint before the job fails"},
    {.path = "training.monitor",
     .type = KEY_WORD,
     IN_JOB(training.monitor),
     .words = monitor_words,
     .fallback = "none",
     .doc = "the best epoch's weights by this evaluation, the loss or one of model.metrics, are "
            "kept in `DIR/best`"},
    {.path = "early_stopping.patience",
     .type = KEY_U32,
     IN_JOB(early_stopping.patience),
     RANGE(0, 1000000),
     .fallback = "0",
     .doc = "epochs without a better evaluation (training.monitor) after which training ends; 0: "
            "never"},
    {.path = "early_stopping.min_delta",
     .type = KEY_REAL,
     IN_JOB(early_stopping.min_delta),
     NOT_NEGATIVE,
     .fallback = "0",
     .doc = "what a better evaluation is better by, at least"},
    {.path = "early_stopping.start_from_epoch",
     .type = KEY_U32,
     IN_JOB(early_stopping.start_from_epoch),
     RANGE(0, 1000000),
     .fallback = "0",
     .doc = "so many epochs are not looked at"},
    {.path = "early_stopping.restore_best_weights",
     .type = KEY_BOOL,
     IN_JOB(early_stopping.restore_best_weights),
     .fallback = "false",
     .doc = "`model/` gets the best epoch's weights instead of the last ones"},
    {.path = "training.staleness",
     .type = KEY_U32,
     IN_JOB(training.staleness),
     RANGE(0, 1000000),
     .fallback = "3",
     .doc =
         "ssp: so many batches a worker may be ahead of the slowest; 0: all wait for each other"},
    {.path = "training.geo_every",
     .type = KEY_U32,
     IN_JOB(training.geo_every),
     RANGE(1, 4096),
     .fallback = "8",
     .doc = "geo: batches that a worker trains by itself between two pushes"},
    {.path = "training.delay_compensation",
     .type = KEY_REAL,
     IN_JOB(training.delay_compensation),
     NOT_NEGATIVE,
     .fallback = "0",
     .doc = "async: lambda of DC-ASGD, g + lambda g g (w - w pulled); a copy of the parameters for "
            "each worker on the ps"},
    {.path = "training.staleness_rate",
     .type = KEY_BOOL,
     IN_JOB(training.staleness_rate),
     .fallback = "false",
     .doc = "async: the rate of an update is divided by its staleness"},

    NOT_YET("sync.replicas_to_aggregate", NULL, "gradients to wait for, fewer than the workers"),
    NOT_YET("sync.dropped", "redo", "what becomes of dropped microbatches: redo, lost"),

    {.path = "compression.push",
     .type = KEY_CHOICE,
     IN_JOB(compression.push),
     .words = push_words,
     .fallback = "none",
     .doc = "how gradients travel; `zstd` loses nothing; `auto` measures and chooses"},
    {.path = "compression.reply",
     .type = KEY_WORD,
     IN_JOB(compression.reply),
     .words = reply_words,
     .fallback = "none",
     .doc = "how parameters travel; in async neither int8 nor int8_zstd"},
    {.path = "compression.allow",
     .type = KEY_CODECS,
     IN_JOB(compression.allow),
     .words = allow_words,
     .fallback_doc = "`[]`",
     .doc = "what `auto` may choose beside none and zstd, which lose nothing: a list, like "
            "`[int8]`"},

    {.path = "checkpoint.every_steps",
     .type = KEY_U32,
     IN_JOB(checkpoint.every_steps),
     RANGE(0, UINT32_MAX),
     .fallback = "500",
     .doc = "steps between checkpoints; due when both have passed; 0 leaves this one out, "
            "both 0: only at the start, on SIGTERM and at the end"},
    {.path = "checkpoint.every_seconds",
     .type = KEY_U32,
     IN_JOB(checkpoint.every_seconds),
     RANGE(0, UINT32_MAX),
     .fallback = "60",
     .doc = "seconds between checkpoints"},
    {.path = "checkpoint.keep",
     .type = KEY_U32,
     IN_JOB(checkpoint.keep),
     RANGE(1, 1000000),
     .fallback = "3",
     .doc = "checkpoints that stay on disk"},
    {.path = "checkpoint.store",
     .type = KEY_WORD,
     IN_JOB(checkpoint.store),
     .words = store_words,
     .fallback = "auto",
     .doc = "who writes checkpoints: `shared`: each ps, all on one storage; `chief`: each ps sends "
            "its part to the "
            "chief; `auto`: a ps that does not see the chief's storage sends"},

    {.path = "timeouts.start_s",
     .type = KEY_U32,
     IN_JOB(timeouts.start_s),
     RANGE(1, 604800),
     .fallback = "300",
     .doc = "seconds for the cluster to come together before the job fails"},
    {.path = "timeouts.worker_rejoin_s",
     .type = KEY_U32,
     IN_JOB(timeouts.worker_rejoin_s),
     RANGE(1, 604800),
     .fallback = "30",
     .doc = "seconds before the others take over the work of a worker that is gone"},
    {.path = "timeouts.ps_rejoin_s",
     .type = KEY_U32,
     IN_JOB(timeouts.ps_rejoin_s),
     RANGE(1, 604800),
     .fallback = "600",
     .doc = "seconds without a ps before the job fails"},
    {.path = "timeouts.grace_s",
     .type = KEY_U32,
     IN_JOB(timeouts.grace_s),
     RANGE(1, 604800),
     .fallback = "30",
     .doc = "seconds for a last checkpoint after SIGTERM"},

    {.path = "ps.threads",
     .type = KEY_U32,
     IN_JOB(ps.threads),
     RANGE(0, 1024),
     .fallback = "0",
     .doc = "shards of a ps, a thread each; 0: the cores it may use"},
    NOT_YET("ps.replicas", "0", "copies of each shard on another ps"),
    NOT_YET("ps.memory", NULL, "memory for embedding rows"),

    {.path = "worker.threads",
     .type = KEY_U32,
     IN_JOB(worker.threads),
     RANGE(0, 1024),
     .fallback = "0",
     .doc = "compute threads of a worker; 0: the cores it may use"},

    NOT_YET("recovery", NULL, "restore a lost shard alone (partial)"),
};
const size_t job_keys_count = sizeof job_keys / sizeof job_keys[0];
_Static_assert(sizeof job_keys / sizeof job_keys[0] <= JOB_KEYS_MAX, "raise JOB_KEYS_MAX");

/* ---- looking up ---- */

const struct job_key *job_key_find(const char *path)
{
    for (size_t i = 0; i < job_keys_count; i++)
        if (strcmp(job_keys[i].path, path) == 0)
            return &job_keys[i];
    return NULL;
}

size_t job_key_index(const struct job_key *key)
{
    return (size_t)(key - job_keys);
}

static bool starts_with_group(const char *path, const char *group)
{
    size_t n = strlen(group);
    return n == 0 || (strncmp(path, group, n) == 0 && path[n] == '.');
}

bool job_key_is_group(const char *path)
{
    for (size_t i = 0; i < job_keys_count; i++)
        if (starts_with_group(job_keys[i].path, path))
            return true;
    return false;
}

bool job_key_of_layer(const struct job_key *key)
{
    return strncmp(key->path, JOB_LAYER_PREFIX, strlen(JOB_LAYER_PREFIX)) == 0;
}

bool job_key_of_column(const struct job_key *key)
{
    return strncmp(key->path, JOB_COLUMN_PREFIX, strlen(JOB_COLUMN_PREFIX)) == 0;
}

bool job_key_of_element(const struct job_key *key)
{
    return job_key_of_layer(key) || job_key_of_column(key);
}

bool job_key_under(const char *path, const char *group)
{
    size_t n = strlen(group);
    return starts_with_group(path, group) && !strchr(path + (n ? n + 1 : 0), '.');
}

const void *job_key_at(const struct job_key *key, const struct job *job, const void *element)
{
    const char *base = job_key_of_element(key) ? element : (const char *)job;
    return base + key->offset;
}

/* ---- words ---- */

const struct job_word *job_word_find(const struct job_word *words, const char *word)
{
    for (; words->word; words++)
        if (strcmp(words->word, word) == 0)
            return words;
    return NULL;
}

const char *job_word_of(const struct job_word *words, int value)
{
    for (; words->word; words++)
        if (words->value == value)
            return words->word;
    return "?";
}

void job_words_list(const struct job_word *words, bool supported, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = 0;
    for (; words->word; words++) {
        if ((words->value != JOB_WORD_LATER) != supported)
            continue;
        int more = snprintf(out + n, bytes - n, "%s%s", n ? ", " : "", words->word);
        if (more < 0 || (size_t)more >= bytes - n)
            return;
        n += (size_t)more;
    }
}

/* ---- what is allowed, in words ---- */

static void real_allowed(const struct job_key *key, char *out, size_t bytes)
{
    if (key->low <= -FLT_MAX && key->high >= FLT_MAX)
        (void)snprintf(out, bytes, "number");
    else if (key->low <= -FLT_MAX)
        (void)snprintf(out, bytes, "number up to %g", (double)key->high);
    else if (key->high >= FLT_MAX)
        (void)snprintf(out, bytes, "number %s %g", key->low_open ? "above" : "from",
                       (double)key->low);
    else
        (void)snprintf(out, bytes, "number from %g to %s%g", (double)key->low,
                       key->high_open ? "below " : "", (double)key->high);
}

void job_key_allowed(const struct job_key *key, char *out, size_t bytes)
{
    size_t n;
    switch (key->type) {
    case KEY_NAME:
        (void)snprintf(out, bytes, "name of letters, digits, . _ -, at most %d of them",
                       JOB_NAME_MAX - 1);
        return;
    case KEY_U32:
    case KEY_U64:
        (void)snprintf(out, bytes, "integer from %llu to %llu", (unsigned long long)key->min,
                       (unsigned long long)key->max);
        return;
    case KEY_REAL:
        real_allowed(key, out, bytes);
        return;
    case KEY_BOOL:
        (void)snprintf(out, bytes, "true or false");
        return;
    case KEY_INTEGERS:
        (void)snprintf(out, bytes, "list of integers from %llu to %llu",
                       (unsigned long long)key->min, (unsigned long long)key->max);
        return;
    case KEY_REALS:
        n = (size_t)snprintf(out, bytes, "list of, each: ");
        real_allowed(key, out + n, bytes - n);
        return;
    case KEY_NAMES:
        (void)snprintf(out, bytes, "list of words of letters, digits, . _ - /, like [bias]");
        return;
    case KEY_WORD:
    case KEY_CHOICE:
    case KEY_METRICS:
    case KEY_CODECS:
        job_words_list(key->words, true, out, bytes);
        return;
    case KEY_SHAPE:
        (void)snprintf(out, bytes, "list of 1 to %d integers from 1, like [28, 28]%s", JOB_RANK_MAX,
                       key->or_auto ? ", or auto" : "");
        return;
    case KEY_TEXT:
        (void)snprintf(out, bytes, "text of one line, at most %d bytes", JOB_NAME_MAX - 1);
        return;
    case KEY_TEXTS:
        (void)snprintf(out, bytes, "text of one line, or list of these");
        return;
    case KEY_COLUMNS:
        (void)snprintf(out, bytes, "list of 2 to %d columns", JOB_COLUMNS_MAX);
        return;
    case KEY_PAIR:
        (void)snprintf(out, bytes,
                       "integer from %llu to %llu, or [height, width] of such, like 3 or [3, 3]",
                       (unsigned long long)key->min, (unsigned long long)key->max);
        return;
    case KEY_PATHS:
        (void)snprintf(out, bytes, "path, glob, or list of these");
        return;
    case KEY_LAYERS:
        (void)snprintf(out, bytes, "list of 1 to %d layers", JOB_LAYERS_MAX);
        return;
    case KEY_CLASS_WEIGHTS:
        (void)snprintf(out, bytes, "map of up to %d classes to numbers from 0, like {0: 1, 1: 5}",
                       JOB_CLASS_WEIGHTS_MAX);
        return;
    case KEY_INPUTS:
        (void)snprintf(out, bytes, "list of 1 to %d names of layers before this one, or input",
                       JOB_INPUTS_MAX);
        return;
    case KEY_LATER:
        (void)snprintf(out, bytes, "%s", key->fallback ? key->fallback : "nothing yet");
        return;
    }
}

/* ---- hints ---- */

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The nth name of `path` from the group on, cut behind it: the group's own entries ("training",
 * "data"). */
static bool entry_of_group(const char *path, const char *group, char *out, size_t bytes)
{
    if (!starts_with_group(path, group))
        return false;
    size_t skip = strlen(group) ? strlen(group) + 1 : 0;
    size_t n = strcspn(path + skip, ".[");
    if (n == 0 || n >= bytes)
        return false;
    memcpy(out, path + skip, n);
    out[n] = 0;
    return true;
}

static void hint_list(const char *group, char *out, size_t bytes)
{
    char name[JOB_PATH_MAX], before[JOB_PATH_MAX] = "";
    size_t n = (size_t)snprintf(out, bytes, "allowed: ");
    bool first = true;
    for (size_t i = 0; i < job_keys_count && n < bytes; i++) {
        if (job_keys[i].type == KEY_LATER ||
            !entry_of_group(job_keys[i].path, group, name, sizeof name) ||
            strcmp(name, before) == 0)
            continue;
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", first ? "" : ", ", name);
        first = false;
        memcpy(before, name, sizeof before);
    }
    if (first)
        (void)snprintf(out, bytes, "no options are allowed here");
}

/* The nearest entry of the group, as a whole path in `out`. */
static bool hint_sibling(const char *group, const char *wrong, char *out, size_t bytes)
{
    struct words near;
    words_init(&near, wrong);
    char name[JOB_PATH_MAX], best[JOB_PATH_MAX] = "";
    for (size_t i = 0; i < job_keys_count; i++) {
        if (!entry_of_group(job_keys[i].path, group, name, sizeof name))
            continue;
        near.best = NULL;
        words_try(&near, name);
        if (near.best)
            memcpy(best, name, sizeof best);
    }
    if (!*best)
        return false;
    (void)snprintf(out, bytes, "did you mean %s%s%s?", group, *group ? "." : "", best);
    return true;
}

/* A key of that very name, or one near it, that stands elsewhere. */
static bool hint_elsewhere(const char *path, char *out, size_t bytes)
{
    struct words whole;
    words_init(&whole, path);
    const char *same = NULL;
    for (size_t i = 0; i < job_keys_count; i++) {
        if (job_key_of_element(&job_keys[i]))
            continue;
        words_try(&whole, job_keys[i].path);
        if (!job_keys[i].alias && strcmp(last_name(job_keys[i].path), last_name(path)) == 0 &&
            !same)
            same = job_keys[i].path;
    }
    if (!same)
        same = whole.best;
    if (!same)
        return false;
    (void)snprintf(out, bytes, "did you mean %s?", same);
    return true;
}

void job_key_hint(const char *path, char *out, size_t bytes)
{
    const char *wrong = last_name(path);
    char group[JOB_PATH_MAX];
    (void)snprintf(group, sizeof group, "%.*s", (int)(wrong > path ? wrong - path - 1 : 0), path);
    if (hint_sibling(group, wrong, out, bytes) ||
        (strncmp(path, "model.layers", 12) != 0 && strncmp(path, "data.columns", 12) != 0 &&
         hint_elsewhere(path, out, bytes)))
        return;
    hint_list(group, out, bytes);
}

/* ---- visiting ---- */

static const char *chosen_word(const struct job_key *choice, const struct job *job,
                               const void *element)
{
    int value;
    memcpy(&value, job_key_at(choice, job, element), sizeof value);
    return job_word_of(choice->words, value);
}

bool job_key_active(const struct job_key *key, const struct job *job, const void *element)
{
    for (size_t i = 0; i < job_keys_count; i++) {
        const struct job_key *choice = &job_keys[i];
        if (choice == key || choice->type != KEY_CHOICE ||
            !starts_with_group(key->path, choice->path))
            continue;
        const char *option = key->path + strlen(choice->path) + 1;
        const char *word = chosen_word(choice, job, element);
        if (strncmp(option, word, strlen(word)) != 0 || option[strlen(word)] != '.')
            return false;
    }
    return true;
}

/* The keys with `prefix`, of one element. */
static enum err visit_element(const struct job *job, const char *prefix, uint32_t index,
                              const void *element, job_key_visit *visit, void *ctx)
{
    char path[JOB_PATH_MAX];
    size_t n = strlen(prefix);
    enum err err = ERR_OK;
    for (size_t i = 0; i < job_keys_count && !err; i++) {
        const struct job_key *key = &job_keys[i];
        if (key->type == KEY_LATER || strncmp(key->path, prefix, n) != 0 ||
            !job_key_active(key, job, element))
            continue;
        (void)snprintf(path, sizeof path, "%.*s[%u]%s", (int)n - 2, prefix, index, key->path + n);
        err = visit(ctx, key, job, element, path);
    }
    return err;
}

static enum err visit_elements(const struct job *job, const struct job_key *list,
                               job_key_visit *visit, void *ctx)
{
    enum err err = ERR_OK;
    if (list->type == KEY_LAYERS)
        for (uint32_t i = 0; i < job->model.layers && !err; i++)
            err = visit_element(job, JOB_LAYER_PREFIX, i, &job->model.layer[i], visit, ctx);
    else
        for (uint32_t i = 0; i < job->data.csv.columns && !err; i++)
            err = visit_element(job, JOB_COLUMN_PREFIX, i, &job->data.csv.column[i], visit, ctx);
    return err;
}

enum err job_keys_each(const struct job *job, job_key_visit *visit, void *ctx)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < job_keys_count && !err; i++) {
        const struct job_key *key = &job_keys[i];
        if (key->type == KEY_LAYERS || key->type == KEY_COLUMNS)
            err = visit_elements(job, key, visit, ctx);
        else if (key->type != KEY_LATER && !job_key_of_element(key) &&
                 job_key_active(key, job, NULL))
            err = visit(ctx, key, job, NULL, key->path);
    }
    return err;
}
