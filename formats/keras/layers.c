/* The table of Keras's layers. A layer that a job has is a row of `classes`. */
#include "formats/keras/layers.h"

#include <ctype.h>
#include <string.h>

#include "formats/keras/network_json.h"

/* ---- names of activations and groups ---- */

static const char *const activations[] = {
    [ACT_LINEAR] = "linear", [ACT_RELU] = "relu",       [ACT_SIGMOID] = "sigmoid",
    [ACT_TANH] = "tanh",     [ACT_SOFTMAX] = "softmax", [ACT_LEAKY_RELU] = "leaky_relu",
    [ACT_ELU] = "elu",       [ACT_GELU] = "gelu",       [ACT_GELU_TANH] = NULL,
    [ACT_SELU] = "selu",     [ACT_SILU] = "silu",       [ACT_SOFTPLUS] = "softplus",
};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

const char *words_activation(enum activation a)
{
    return activations[a];
}

bool words_find_activation(const char *word, enum activation *a)
{
    for (unsigned i = 0; i < ACTIVATIONS; i++)
        if (activations[i] && strcmp(activations[i], word) == 0) {
            *a = (enum activation)i;
            return true;
        }
    return false;
}

/* Keras' two replacements: "_" between any character and an upper-case letter that lower-case ones follow, and between a
 * lower-case letter and an upper-case letter. */
void words_snake_case(const char *class, char *out, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; class[i] && n + 2 < bytes; i++) {
        unsigned char c = (unsigned char)class[i], before = i ? (unsigned char)class[i - 1] : 0;
        bool begins = isupper(c) && islower((unsigned char)class[i + 1]);
        bool follows = isupper(c) && islower(before);
        if (i > 0 && (begins || follows))
            out[n++] = '_';
        out[n++] = (char)tolower(c);
    }
    out[n] = '\0';
}

/* ---- writing the options of our layers ---- */

static json_t *pair(const uint32_t of[2])
{
    return network_shape(false, 2, of);
}

static const char *padding(enum padding p)
{
    return p == PADDING_SAME ? "same" : "valid";
}

static json_t *regularizer(const struct job_weights *w)
{
    if (w->regularizer == REGULARIZER_NONE)
        return json_null();
    float l1 = w->regularizer == REGULARIZER_L2 ? 0 : w->l1;
    float l2 = w->regularizer == REGULARIZER_L1 ? 0 : w->l2;
    return json_pack("{s:s, s:s, s:{s:o, s:o}, s:n}", "module", "keras.regularizers", "class_name",
                     "L1L2", "config", "l1", network_real(l1), "l2", network_real(l2),
                     "registered_name");
}

static json_t *dense_options(const struct job_layer *l)
{
    return json_pack("{s:I, s:s, s:b, s:o, s:o}", "units", (json_int_t)l->dense.units, "activation",
                     words_activation(l->dense.activation), "use_bias", l->use_bias,
                     "kernel_regularizer", regularizer(&l->kernel), "bias_regularizer",
                     regularizer(&l->bias));
}

static json_t *conv2d_options(const struct job_layer *l)
{
    return json_pack("{s:I, s:o, s:o, s:s, s:s, s:o, s:s, s:b, s:o, s:o}", "filters",
                     (json_int_t)l->conv2d.filters, "kernel_size", pair(l->conv2d.kernel_size),
                     "strides", pair(l->conv2d.strides), "padding", padding(l->conv2d.padding),
                     "data_format", "channels_last", "dilation_rate", pair(l->conv2d.dilation_rate),
                     "activation", words_activation(l->conv2d.activation), "use_bias", l->use_bias,
                     "kernel_regularizer", regularizer(&l->kernel), "bias_regularizer",
                     regularizer(&l->bias));
}

static json_t *pooling_options(const struct job_layer *l)
{
    return json_pack("{s:o, s:o, s:s, s:s}", "pool_size", pair(l->pooling2d.pool_size), "strides",
                     pair(l->pooling2d.strides), "padding", padding(l->pooling2d.padding),
                     "data_format", "channels_last");
}

static json_t *normalization_options(const struct job_layer *l)
{
    json_t *made = json_pack("{s:i, s:o, s:b, s:b}", "axis", -1, "epsilon",
                             network_real(l->normalization.epsilon), "center",
                             l->normalization.center, "scale", l->normalization.scale);
    if (made && l->kind == LAYER_BATCH_NORMALIZATION &&
        json_object_set_new(made, "momentum", network_real(l->normalization.momentum)) != 0) {
        json_decref(made);
        return NULL;
    }
    return made;
}

static json_t *dropout_options(const struct job_layer *l)
{
    return json_pack("{s:o}", "rate", network_real(l->dropout.rate));
}

static json_t *activation_options(const struct job_layer *l)
{
    return json_pack("{s:s}", "activation", words_activation(l->activation.activation));
}

static json_t *gelu_options(const struct job_layer *l)
{
    (void)l;
    return json_pack("{s:s}", "activation", words_activation(ACT_GELU));
}

static json_t *leaky_relu_options(const struct job_layer *l)
{
    return json_pack("{s:o}", "negative_slope", network_real(l->leaky_relu.negative_slope));
}

static json_t *elu_options(const struct job_layer *l)
{
    return json_pack("{s:o}", "alpha", network_real(l->elu.alpha));
}

static json_t *global_pooling_options(const struct job_layer *l)
{
    return json_pack("{s:s, s:b}", "data_format", "channels_last", "keepdims",
                     l->global_pooling2d.keepdims);
}

static json_t *reshape_options(const struct job_layer *l)
{
    return json_pack("{s:o}", "target_shape",
                     network_shape(false, l->reshape.rank, l->reshape.shape));
}

static json_t *concatenate_options(const struct job_layer *l)
{
    (void)l;
    return json_pack("{s:i}", "axis", -1);
}

static json_t *embedding_options(const struct job_layer *l)
{
    return json_pack("{s:I, s:I}", "input_dim", (json_int_t)l->embedding.input_dim, "output_dim",
                     (json_int_t)l->embedding.output_dim);
}

/* ---- the table ---- */

static const char *const kernel_and_bias[] = {"kernel", "bias", NULL},
                         *const embeddings[] = {"embeddings", NULL},
                         *const normalized[] = {"gamma", "beta", "moving_mean", "moving_variance",
                                                NULL};

#define NO(key)                                                                                    \
    {                                                                                              \
        key, MUST, "null"                                                                          \
    }
#define FORMAT                                                                                     \
    {                                                                                              \
        "data_format", MUST, "\"channels_last\"|null"                                              \
    }
#define PADDING                                                                                    \
    {                                                                                              \
        "padding", WORD, "valid|same"                                                              \
    }
#define KERNEL_AND_BIAS                                                                            \
    {"activation", ACTIVATION, NULL}, {"use_bias", NUMBER, NULL},                                  \
        {"kernel_initializer", INITIALIZER, "GlorotUniform"},                                      \
        {"bias_initializer", INITIALIZER, "Zeros"}, {"kernel_regularizer", REGULARIZER, NULL},     \
        {"bias_regularizer", REGULARIZER, NULL}, NO("activity_regularizer"),                       \
        NO("kernel_constraint"), NO("bias_constraint")
#define GAMMA_AND_BETA                                                                             \
    {"epsilon", NUMBER, NULL}, {"center", NUMBER, NULL}, {"scale", NUMBER, NULL},                  \
        {"beta_initializer", FIRST_VALUE, "Zeros"}, {"gamma_initializer", FIRST_VALUE, "Ones"},    \
        NO("beta_regularizer"), NO("gamma_regularizer"), NO("beta_constraint"),                    \
        NO("gamma_constraint")
#define POOLING                                                                                    \
    {                                                                                              \
        {"pool_size", PAIR, NULL}, {"strides", PAIR, NULL}, PADDING, FORMAT                        \
    }
#define GLOBAL                                                                                     \
    {                                                                                              \
        {"keepdims", NUMBER, NULL}, FORMAT                                                         \
    }

static const struct keras_class classes[] = {
    {"Dense",
     "dense",
     LAYER_DENSE,
     kernel_and_bias,
     dense_options,
     {{"units", NUMBER, NULL}, KERNEL_AND_BIAS, NO("quantization_config"), NO("lora_rank")}},
    {"Conv2D",
     "conv2d",
     LAYER_CONV2D,
     kernel_and_bias,
     conv2d_options,
     {{"filters", NUMBER, NULL},
      {"kernel_size", PAIR, NULL},
      {"strides", PAIR, NULL},
      PADDING,
      FORMAT,
      {"dilation_rate", PAIR, NULL},
      {"groups", MUST, "1"},
      KERNEL_AND_BIAS}},
    {"MaxPooling2D", "max_pooling2d", LAYER_MAX_POOLING2D, NULL, pooling_options, POOLING},
    {"AveragePooling2D", "average_pooling2d", LAYER_AVERAGE_POOLING2D, NULL, pooling_options,
     POOLING},
    {"GlobalMaxPooling2D", "global_max_pooling2d", LAYER_GLOBAL_MAX_POOLING2D, NULL,
     global_pooling_options, GLOBAL},
    {"GlobalAveragePooling2D", "global_average_pooling2d", LAYER_GLOBAL_AVERAGE_POOLING2D, NULL,
     global_pooling_options, GLOBAL},
    {"BatchNormalization",
     "batch_normalization",
     LAYER_BATCH_NORMALIZATION,
     normalized,
     normalization_options,
     {{"axis", LAST_AXIS, NULL},
      {"momentum", NUMBER, NULL},
      GAMMA_AND_BETA,
      {"moving_mean_initializer", FIRST_VALUE, "Zeros"},
      {"moving_variance_initializer", FIRST_VALUE, "Ones"},
      {"synchronized", TRAINS, "false"},
      {"renorm", MUST, "false"},
      {"renorm_clipping", SKIP, NULL},
      {"renorm_momentum", SKIP, NULL}}},
    {"LayerNormalization",
     "layer_normalization",
     LAYER_LAYER_NORMALIZATION,
     normalized,
     normalization_options,
     {{"axis", LAST_AXIS, NULL}, GAMMA_AND_BETA, {"rms_scaling", MUST, "false"}}},
    {"Dropout",
     "dropout",
     LAYER_DROPOUT,
     NULL,
     dropout_options,
     {{"rate", NUMBER, NULL}, {"seed", TRAINS, "null"}, NO("noise_shape")}},
    {"Flatten", "flatten", LAYER_FLATTEN, NULL, NULL, {FORMAT}},
    {"Reshape", "reshape", LAYER_RESHAPE, NULL, reshape_options, {{"target_shape", SHAPE, NULL}}},
    {"Activation",
     "activation",
     LAYER_ACTIVATION,
     NULL,
     activation_options,
     {{"activation", ACTIVATION, NULL}}},
    {"ReLU",
     "relu",
     LAYER_ACTIVATION,
     NULL,
     activation_options,
     {NO("max_value"), {"negative_slope", MUST, "0"}, {"threshold", MUST, "0"}}},
    {"LeakyReLU",
     "leaky_relu",
     LAYER_LEAKY_RELU,
     NULL,
     leaky_relu_options,
     {{"negative_slope", NUMBER, NULL}}},
    {"ELU", "elu", LAYER_ELU, NULL, elu_options, {{"alpha", NUMBER, NULL}}},
    {"Softmax", "softmax", LAYER_ACTIVATION, NULL, activation_options, {{"axis", LAST_AXIS, NULL}}},
    {"Activation", "", LAYER_GELU, NULL, gelu_options, {{NULL, RULE_END, NULL}}},
    {"Add", "add", LAYER_ADD, NULL, NULL, {{NULL, RULE_END, NULL}}},
    {"Concatenate",
     "concatenate",
     LAYER_CONCATENATE,
     NULL,
     concatenate_options,
     {{"axis", LAST_AXIS, NULL}}},
    {"Embedding",
     "embedding",
     LAYER_EMBEDDING,
     embeddings,
     embedding_options,
     {{"input_dim", NUMBER, NULL},
      {"output_dim", NUMBER, NULL},
      {"embeddings_initializer", FIRST_VALUE, "RandomUniform"},
      NO("embeddings_regularizer"),
      NO("activity_regularizer"),
      NO("embeddings_constraint"),
      {"mask_zero", MUST, "false"},
      {"input_length", SKIP, NULL},
      NO("quantization_config"),
      NO("lora_rank")}},
};
/* config.c reads these. */
static const struct keras_class others[] = {
    {"InputLayer",
     "",
     LAYER_FLATTEN,
     NULL,
     NULL,
     {{"batch_shape", SKIP, NULL},
      {"batch_input_shape", SKIP, NULL},
      {"sparse", MUST, "false"},
      {"ragged", MUST, "false"},
      {"optional", MUST, "false"}}},
    {"Rescaling", "", LAYER_FLATTEN, NULL, NULL, {{"scale", SKIP, NULL}, {"offset", SKIP, NULL}}},
};

static const struct keras_class *find_class(const struct keras_class *in, size_t n,
                                            const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(in[i].name, name) == 0)
            return &in[i];
    return NULL;
}

const struct keras_class *keras_class_find(const char *name)
{
    return find_class(classes, sizeof classes / sizeof *classes, name);
}

const struct keras_class *keras_class_find_other(const char *name)
{
    return find_class(others, sizeof others / sizeof *others, name);
}

/* The first of several classes that become the same layer. */
const struct keras_class *keras_class_of(enum layer_kind kind)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].kind == kind)
            return &classes[i];
    return NULL;
}

const char *const *keras_weights(enum layer_kind kind)
{
    static const char *const none[] = {NULL};
    const struct keras_class *of = keras_class_of(kind);
    return of && of->weights ? of->weights : none;
}
