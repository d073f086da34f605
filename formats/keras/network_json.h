/* The JSON of Keras' layers: classes and options. Each function returns a new reference; NULL: out of memory. */
#ifndef GRADWIRE_FORMATS_KERAS_NETWORK_JSON_H
#define GRADWIRE_FORMATS_KERAS_NETWORK_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "job/layer.h"

/* Keras' class of a layer that looks up no table: "Dense". */
const char *network_class(const struct job_layer *l);
/* The options that it has in Keras, without name and dtype. */
json_t *network_options(const struct job_layer *l);

/* [dims]; batch: with null before them. */
json_t *network_shape(bool batch, uint32_t rank, const uint32_t *dim);
/* The shortest decimal number that reads back as x. */
json_t *network_real(float x);

#endif
