/* A job's model as layers of Keras, in the order in which Keras lists them. Some of our layers become several of Keras':
 * columns are cut out of the features by Reshape, Cropping1D, Concatenate and Flatten. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/err.h"
#include "job/job.h"

enum { NETWORK_NAME_MAX = 96, NETWORK_TENSORS_MAX = 4 };

struct network_layer {
    char name[NETWORK_NAME_MAX];
    const char *class;            /* "Dense" */
    json_t *config;               /* its options, without the name */
    uint32_t inputs, first_input; /* network->input[first_input + i]: indices of layers before it */
    const struct job_layer *of;   /* the layer of the job whose weights it has; NULL: none */
    bool vectors;                 /* an input: the output of a layer that looks up a table */
    /* The order of Keras: the longest way to the output, and the place in a depth-first walk from there. */
    uint32_t depth, visit;
};

struct network {
    uint32_t layers, inputs;
    struct network_layer *layer; /* in an order in which each reads layers before it */
    uint32_t *input;
    uint32_t output; /* index of the last layer */
    uint32_t *order; /* (layers): their indices in the order of Keras */
};

/* Make the layers. The job's input shape and, with columns, the columns' features are known (folder_open). It must outlive
 * the network. Owns: *n is the caller's (network_close), also on error.
 * Errors: ERR_NOMEM. */
enum err network_init(struct network *n, const struct job *job, struct errmsg *e) MUST_CHECK;
void network_close(struct network *n);

/* The text of config.json, for free(). The same job gives the same text. Errors: ERR_NOMEM. */
enum err network_config(const struct network *n, const struct job *job, char **text,
                        struct errmsg *e) MUST_CHECK;

/* The name of the group with the weights of layer i of the order, such as "layers/dense_1/vars". */
void network_group(const struct network *n, uint32_t i, char *out, size_t bytes);

/* The inputs: the features or rows, then the vectors in the order of the job's layers. For i below 2 * n->layers: an input,
 * or NULL. */
const struct network_layer *network_input(const struct network *n, uint32_t i);

/* Shapes and numbers in Keras's JSON. New references; NULL: out of memory. */
/* [dims]; batch: with null before them. */
json_t *network_shape(bool batch, uint32_t rank, const uint32_t *dim);
/* The shortest decimal number that reads back as x. */
json_t *network_real(float x);
