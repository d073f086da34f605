/* Keras's layers, a row each: the class and its options, read and written, and the order of its weights. And the names that
 * Keras 3 has for our activations. */
#ifndef GRADWIRE_FORMATS_KERAS_LAYERS_H
#define GRADWIRE_FORMATS_KERAS_LAYERS_H

#include <jansson.h>
#include <stddef.h>

#include "job/layer.h"

/* How an option is read. */
enum rule {
    RULE_END,
    SKIP,        /* it changes nothing that a job has, or config.c reads it */
    TRAINS,      /* only training would use it: another value than those in `arg` is noted */
    TYPE,        /* the type of the numbers */
    MUST,        /* it must have one of the values in `arg`, JSON separated by '|' */
    LAST_AXIS,   /* it must be the last axis */
    NUMBER,      /* written as it is, under the name `arg`; also true and false */
    PAIR,        /* an integer, or a list of two */
    SHAPE,       /* a list of dimensions */
    ACTIVATION,  /* the name of one */
    WORD,        /* one of the words in `arg`, separated by '|' */
    INITIALIZER, /* of a layer that has this option in a job */
    FIRST_VALUE, /* an initializer that a job cannot set: it must be `arg`, or the file has weights */
    REGULARIZER,
};

struct keras_option {
    const char *key;
    enum rule rule;
    const char *arg;
};

struct keras_class {
    const char *name, *word; /* word: of the job file */
    enum layer_kind kind;
    /* The weights in Keras's order, as the ends of our tensors' names; a layer may lack some. NULL ends the list; NULL: none. */
    const char *const *weights;
    /* Makes the options of our layer in Keras, without name and dtype; a new reference. NULL: it has none. */
    json_t *(*make)(const struct job_layer *l);
    struct keras_option option[20];
};

/* The class of that name; NULL: a job has none. */
const struct keras_class *keras_class_find(const char *name);
/* The same of InputLayer and Rescaling, which are no layers of a job. */
const struct keras_class *keras_class_find_other(const char *name);
/* The class as which a layer is written; NULL: it looks up a table. */
const struct keras_class *keras_class_of(enum layer_kind kind);
/* The weights of a layer; an empty list if it has none. */
const char *const *keras_weights(enum layer_kind kind);

/* "relu"; NULL: Keras has no such word (ACT_GELU_TANH). */
const char *words_activation(enum activation a);
/* Writes the activation of Keras' word. Returns false if we have none of that name. */
bool words_find_activation(const char *word, enum activation *a);

/* The name of the group of weights that Keras gives a class: "conv2d" for Conv2D, "batch_normalization" for
 * BatchNormalization (keras/src/utils/naming.py, to_snake_case). Shortened to fit. */
void words_snake_case(const char *class, char *out, size_t bytes);

#endif
