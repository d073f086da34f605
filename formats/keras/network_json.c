/* The text of config.json, of the layers in the order of Keras; and the JSON of shapes and numbers. */
#include "formats/keras/network_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/digits.h"
#include "formats/keras/network.h"

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
    return *text ? ERR_OK : err_memory(e);
}
