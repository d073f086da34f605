/* The names that Keras 3 has for our layers and activations. */
#ifndef GRADWIRE_FORMATS_KERAS_WORDS_H
#define GRADWIRE_FORMATS_KERAS_WORDS_H

#include <stddef.h>

#include "job/layer.h"

/* "relu"; NULL: Keras has no such word (ACT_GELU_TANH). */
const char *words_activation(enum activation a);
/* Writes the activation of Keras' word. Returns false if we have none of that name. */
bool words_find_activation(const char *word, enum activation *a);

/* The name of the group of weights that Keras gives a class: "conv2d" for Conv2D, "batch_normalization" for
 * BatchNormalization (keras/src/utils/naming.py, to_snake_case). Shortened to fit. */
void words_snake_case(const char *class, char *out, size_t bytes);

/* The weights of a layer in Keras' order, as the ends of our tensors' names; a layer may lack some. NULL ends the list. */
const char *const *words_weights(enum layer_kind kind);

#endif
