#include "formats/keras/network_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/digits.h"
#include "formats/keras/network.h"
#include "formats/keras/words.h"

json_t *network_shape(bool batch, uint32_t rank, const uint32_t *dim)
{
    json_t *shape = json_array();
    bool failed = batch && json_array_append_new(shape, json_null()) != 0;
    for (uint32_t i = 0; i < rank; i++)
        failed |= json_array_append_new(shape, json_integer(dim[i])) != 0;
    if (!failed)
        return shape;
    json_decref(shape);
    return NULL;
}

json_t *network_real(float x)
{
    char text[DIGITS_REAL_BYTES];
    return json_real(strtod(digits_float((double)x, text), NULL));
}

/* ---- the options of our layers ---- */

const char *network_class(const struct job_layer *l)
{
    static const char *const classes[LAYER_KINDS] = {
        [LAYER_FLATTEN] = "Flatten",
        [LAYER_DENSE] = "Dense",
        [LAYER_DROPOUT] = "Dropout",
        [LAYER_ACTIVATION] = "Activation",
        [LAYER_CONV2D] = "Conv2D",
        [LAYER_MAX_POOLING2D] = "MaxPooling2D",
        [LAYER_AVERAGE_POOLING2D] = "AveragePooling2D",
        [LAYER_GLOBAL_MAX_POOLING2D] = "GlobalMaxPooling2D",
        [LAYER_GLOBAL_AVERAGE_POOLING2D] = "GlobalAveragePooling2D",
        [LAYER_RESHAPE] = "Reshape",
        [LAYER_ADD] = "Add",
        [LAYER_CONCATENATE] = "Concatenate",
        [LAYER_LEAKY_RELU] = "LeakyReLU",
        [LAYER_ELU] = "ELU",
        [LAYER_GELU] = "Activation",
        [LAYER_BATCH_NORMALIZATION] = "BatchNormalization",
        [LAYER_LAYER_NORMALIZATION] = "LayerNormalization",
        [LAYER_EMBEDDING] = "Embedding",
    };
    return classes[l->kind];
}

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

static json_t *dense(const struct job_layer *l)
{
    return json_pack("{s:I, s:s, s:b, s:o, s:o}", "units", (json_int_t)l->dense.units, "activation",
                     words_activation(l->dense.activation), "use_bias", l->use_bias,
                     "kernel_regularizer", regularizer(&l->kernel), "bias_regularizer",
                     regularizer(&l->bias));
}

static json_t *conv2d(const struct job_layer *l)
{
    return json_pack("{s:I, s:o, s:o, s:s, s:s, s:o, s:s, s:b, s:o, s:o}", "filters",
                     (json_int_t)l->conv2d.filters, "kernel_size", pair(l->conv2d.kernel_size),
                     "strides", pair(l->conv2d.strides), "padding", padding(l->conv2d.padding),
                     "data_format", "channels_last", "dilation_rate", pair(l->conv2d.dilation_rate),
                     "activation", words_activation(l->conv2d.activation), "use_bias", l->use_bias,
                     "kernel_regularizer", regularizer(&l->kernel), "bias_regularizer",
                     regularizer(&l->bias));
}

static json_t *pooling(const struct job_layer *l)
{
    return json_pack("{s:o, s:o, s:s, s:s}", "pool_size", pair(l->pooling2d.pool_size), "strides",
                     pair(l->pooling2d.strides), "padding", padding(l->pooling2d.padding),
                     "data_format", "channels_last");
}

static json_t *normalization(const struct job_layer *l)
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

json_t *network_options(const struct job_layer *l)
{
    switch (l->kind) {
    case LAYER_DENSE:
        return dense(l);
    case LAYER_CONV2D:
        return conv2d(l);
    case LAYER_MAX_POOLING2D:
    case LAYER_AVERAGE_POOLING2D:
        return pooling(l);
    case LAYER_BATCH_NORMALIZATION:
    case LAYER_LAYER_NORMALIZATION:
        return normalization(l);
    case LAYER_DROPOUT:
        return json_pack("{s:o}", "rate", network_real(l->dropout.rate));
    case LAYER_ACTIVATION:
        return json_pack("{s:s}", "activation", words_activation(l->activation.activation));
    case LAYER_GELU:
        return json_pack("{s:s}", "activation", words_activation(ACT_GELU));
    case LAYER_LEAKY_RELU:
        return json_pack("{s:o}", "negative_slope", network_real(l->leaky_relu.negative_slope));
    case LAYER_ELU:
        return json_pack("{s:o}", "alpha", network_real(l->elu.alpha));
    case LAYER_GLOBAL_MAX_POOLING2D:
    case LAYER_GLOBAL_AVERAGE_POOLING2D:
        return json_pack("{s:s, s:b}", "data_format", "channels_last", "keepdims",
                         l->global_pooling2d.keepdims);
    case LAYER_RESHAPE:
        return json_pack("{s:o}", "target_shape",
                         network_shape(false, l->reshape.rank, l->reshape.shape));
    case LAYER_CONCATENATE:
        return json_pack("{s:i}", "axis", -1);
    case LAYER_EMBEDDING:
        return json_pack("{s:I, s:I}", "input_dim", (json_int_t)l->embedding.input_dim,
                         "output_dim", (json_int_t)l->embedding.output_dim);
    default:
        return json_object();
    }
}

/* ---- config.json ---- */

/* The output of a layer, as an argument of another one. Keras derives its shape again. */
static json_t *tensor_of(const struct network_layer *l)
{
    return json_pack("{s:s, s:{s:[n], s:s, s:[s, i, i]}}", "class_name", "__keras_tensor__",
                     "config", "shape", "dtype", "float32", "keras_history", l->name, 0, 0);
}

/* The calls of a layer: one, or none of an input. */
static json_t *calls_of(const struct network *n, const struct network_layer *l)
{
    if (l->inputs == 0)
        return json_array();
    if (l->inputs == 1)
        return json_pack("[{s:[o], s:{}}]", "args", tensor_of(&n->layer[n->input[l->first_input]]),
                         "kwargs");
    json_t *all = json_array();
    bool failed = !all;
    for (uint32_t i = 0; i < l->inputs; i++)
        failed |=
            json_array_append_new(all, tensor_of(&n->layer[n->input[l->first_input + i]])) != 0;
    if (!failed)
        return json_pack("[{s:[o], s:{}}]", "args", all, "kwargs");
    json_decref(all);
    return NULL;
}

static json_t *layer_json(const struct network *n, const struct network_layer *l)
{
    json_t *config = json_pack("{s:s, s:s}", "name", l->name, "dtype", "float32");
    bool frozen = l->of && !l->of->trainable;
    if (!config || json_object_update(config, l->config) != 0 ||
        (frozen && json_object_set_new(config, "trainable", json_false()) != 0)) {
        json_decref(config);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o, s:n, s:s, s:o}", "module", "keras.layers", "class_name",
                     l->class, "config", config, "registered_name", "name", l->name,
                     "inbound_nodes", calls_of(n, l));
}

/* All layers, in the order of Keras. */
static json_t *layers_json(const struct network *n)
{
    json_t *all = json_array();
    bool failed = !all;
    for (uint32_t i = 0; i < n->layers; i++)
        failed |= json_array_append_new(all, layer_json(n, &n->layer[n->order[i]])) != 0;
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

static json_t *inputs_json(const struct network *n)
{
    json_t *all = json_array();
    bool failed = !all;
    for (uint32_t i = 0; i < 2 * n->layers; i++) {
        const struct network_layer *l = network_input(n, i);
        if (l)
            failed |= json_array_append_new(all, json_pack("[s, i, i]", l->name, 0, 0)) != 0;
    }
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

enum err network_config(const struct network *n, const struct job *job, char **text,
                        struct errmsg *e)
{
    json_t *config = json_pack("{s:s, s:s, s:{s:s, s:b, s:o, s:o, s:[[s, i, i]]}, s:s}", "module",
                               "keras.src.models.functional", "class_name", "Functional", "config",
                               "name", job->name, "trainable", 1, "layers", layers_json(n),
                               "input_layers", inputs_json(n), "output_layers",
                               n->layer[n->output].name, 0, 0, "registered_name", "Functional");
    /* a double has more digits, and versions of jansson differ in how they write it */
    *text = config ? json_dumps(config, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS_FLOAT)) : NULL;
    json_decref(config);
    return *text ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
}
