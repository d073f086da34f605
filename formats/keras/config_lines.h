/* The inside of config.h: what the readers of layers write to. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "formats/keras/layers.h"

enum { CONFIG_SHOWN_BYTES = 80 };

struct config_lines {
    FILE *yaml, *notes, *refused;
    FILE *optimizer, *training; /* as in struct imported */
    uint32_t refusals;
    bool trained, loss_is_chosen;
};

/* A layer of Keras. */
struct config_layer {
    const char *name, *class;
    const json_t *config, *json;
};

/* Note what a job cannot have: "NAME (CLASS): " and the text. */
void config_refuse(struct config_lines *to, const struct config_layer *l, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Note what only training would use: "not taken over: KEY VALUE of OF". */
void config_not_taken(struct config_lines *to, const char *of, const char *key, const char *value);

/* The name in "relu", {"class_name": "LeakyReLU", ..} or {"class_name": "function", "config": "relu"}. NULL: none. */
const char *config_name(const json_t *value);
/* True if the object is not of Keras itself, though its class may have the same name. */
bool config_is_foreign(const json_t *object);
/* alternatives: JSON values separated by '|'. */
bool config_is_one_of(const json_t *value, const char *alternatives);

/* Write the layer's options as YAML, "units: 10, activation: relu", each followed by ", ". A class or an option that a job
 * cannot have is refused, and then the return value is false. */
bool config_write_options(struct config_lines *to, const struct config_layer *l,
                          struct keras_class *class);

/* Check the options of an InputLayer or a Rescaling, which config.c writes. Returns false if one is refused. */
bool config_check_options(struct config_lines *to, const struct config_layer *l);

/* The last layer. */
struct config_end {
    const char *activation;
    bool one; /* it has one output */
};
struct config;
/* Read compile_config: the loss to to->yaml, the optimizer, and c->metric. NULL: the model was not compiled. */
void config_read_compiled(struct config *c, struct config_lines *to, const json_t *compiled,
                          const struct config_end *end);

/* A value for messages and YAML: its JSON, shortened; control characters are shown as '?'. */
const char *config_show(const json_t *value, char out[CONFIG_SHOWN_BYTES]);
/* Write the shortest decimal number of a float. */
void config_write_real(FILE *to, double x);
