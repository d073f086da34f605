/* Keras's layers: their classes, their options, read and written, and the order of their weights. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "job/layer.h"

struct job_key;

/* How an option is read. */
enum rule {
    RULE_END,
    SKIP,        /* it changes nothing that a job has, or config.c reads it */
    TRAINS,      /* only training would use it: another value than those in `arg` is noted */
    TYPE,        /* the type of the numbers */
    MUST,        /* it must have one of the values in `arg`, JSON separated by '|' */
    LAST_AXIS,   /* it must be the last axis */
    NUMBER,      /* written as it is; also true and false */
    PAIR,        /* an integer, or a list of two */
    SHAPE,       /* a list of dimensions */
    ACTIVATION,  /* the name of one */
    WORD,        /* one of the words of the key */
    INITIALIZER, /* of a layer that has this option in a job */
    FIRST_VALUE, /* an initializer that a job cannot set: it must be `arg`, or the file has weights */
    REGULARIZER,
    RULES
};

struct keras_option {
    const char *key;
    enum rule rule;
    const char *arg;
    const struct job_key
        *of; /* the job's key with the words and the default of its values; NULL: none */
};

struct keras_class {
    const char *name, *word; /* name NULL: Keras has no such class; word: of the job file */
    enum layer_kind kind;
    bool has_weights;
};

/* Set *c to the class of that name; false: a job has none. */
bool keras_class_find(struct keras_class *c, const char *name);
/* The first of several classes that become the same layer. */
struct keras_class keras_class_of(enum layer_kind kind);

/* Set *o to how an option of a class with that word is read; false: it is not known. word "": a class that no layer is. */
bool keras_option_find(struct keras_option *o, const char *word, const char *name);
/* The options of our layer in Keras, without name and dtype; a new reference. NULL: no memory. */
json_t *keras_options(const struct job_layer *l);

/* The name of the group of weights of a layer before which `same` others have its class: "layers/dense_1/vars". */
void keras_group(const char *class, uint32_t same, char *out, size_t bytes);
enum { KERAS_GROUP_BYTES = 192 };

/* The weights of a layer in Keras's order, as the ends of our tensors' names; a layer lacks most of them. */
enum { KERAS_WEIGHTS = 7 };
extern const char *const keras_weights[KERAS_WEIGHTS];
