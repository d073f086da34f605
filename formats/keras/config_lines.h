/* The inside of config.h: what the readers of layers write to. */
#ifndef GRADWIRE_FORMATS_KERAS_CONFIG_LINES_H
#define GRADWIRE_FORMATS_KERAS_CONFIG_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "common/job/layer.h"

enum { CONFIG_SHOWN_BYTES = 80 };

struct config_lines {
    FILE *yaml, *notes, *refused;
    uint32_t refusals;
    bool trained;
};

/* A layer of Keras. */
struct config_layer {
    const char *name, *class;
    const json_t *config, *json;
};

/* Note what a job cannot have: "NAME (CLASS): " and the text. */
void config_refuse(struct config_lines *to, const struct config_layer *l, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Write the layer's options as YAML, "units: 10, activation: relu", each followed by ", ". *kind: of our layer. A class or
 * an option that a job cannot have is refused, and then the return value is false. */
bool config_write_options(struct config_lines *to, const struct config_layer *l, const char **word,
                          enum layer_kind *kind);

/* The number of dimensions of the layer's (first) input with the batch; 0: the file does not say. */
size_t config_input_rank(const struct config_layer *l);

/* A value for messages and YAML: its JSON, shortened; control characters are shown as '?'. */
const char *config_show(const json_t *value, char out[CONFIG_SHOWN_BYTES]);
/* Write the shortest decimal number of a float. */
void config_write_real(FILE *to, double x);

#endif
