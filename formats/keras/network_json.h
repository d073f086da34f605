/* The JSON of Keras' shapes and numbers. Each function returns a new reference; NULL: out of memory. */
#ifndef GRADWIRE_FORMATS_KERAS_NETWORK_JSON_H
#define GRADWIRE_FORMATS_KERAS_NETWORK_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* [dims]; batch: with null before them. */
json_t *network_shape(bool batch, uint32_t rank, const uint32_t *dim);
/* The shortest decimal number that reads back as x. */
json_t *network_real(float x);

#endif
