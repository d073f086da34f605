/* The state of an import of an ONNX graph: what is known of each value. onnx.c reads the file and walks over the nodes,
 * onnx_nodes.c finds the operator of a node; the other files have the operators (onnx_step.h).
 *
 * ONNX has channels first: (n, channels, height, width). A job has them last. A value of the graph is the output of a layer
 * of the job with the axes in either order, and kernels are read in the order that the job needs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/imports/imports.h"
#include "formats/imports/onnx_tensor.h"
#include "job/keys.h"

/* ---- sketch.c ---- */

/* The layers that an import has found so far: their text in the job file, the values of their tensors, and everything that
 * a job cannot have. If memory runs out, the sketch keeps the error, and all further calls do nothing. */

struct sketch_part { /* the values of one tensor */
    char name[TENSOR_NAME_MAX];
    uint64_t elems;
    float *value; /* (elems) */
};

struct sketch {
    bool failed; /* out of memory */
    FILE *layer_lines, *refused_lines, *note_lines;
    char *layer_text, *refused_text, *note_text;
    size_t layer_bytes, refused_bytes, note_bytes;
    uint32_t layers, refusals;
    char name[JOB_LAYERS_MAX][JOB_NAME_MAX]; /* of the layers */
    uint32_t parts;
    struct sketch_part *part;
};

/* Owns: sketch_close, also after a failure. */
void sketch_init(struct sketch *s);
void sketch_close(struct sketch *s);

/* Add a layer. wanted: a name from the file, of which the layer's own is made, or ""; input: names of `inputs` layers or
 * "input"; options: "units: 3, use_bias: false", or "". Returns the layer's name, which stays valid; NULL: out of memory,
 * or there are too many layers, which is refused. */
const char *sketch_layer(struct sketch *s, const char *word, const char *wanted,
                         const char *const *input, uint32_t inputs, const char *options, ...)
    PRINTF_LIKE(6, 7);
/* Returns zeros (elems) for the tensor LAYER/WHAT; NULL: out of memory. */
float *sketch_part(struct sketch *s, const char *layer, const char *what, uint64_t elems);
/* Note something that a job cannot have, or a guess. Bytes of the file that are not printable become '?'. */
void sketch_refuse(struct sketch *s, const char *format, ...) PRINTF_LIKE(2, 3);
void sketch_note(struct sketch *s, const char *format, ...) PRINTF_LIKE(2, 3);

/* Make the model. input_shape: "28, 28"; tail: lines of the part `model:` after the layers ("  loss: mse\n"). Fills *m
 * except scale. *refused: as imports_onnx. Errors: ERR_INPUT, ERR_NOMEM. */
enum err sketch_finish(struct sketch *s, const char *input_shape, const char *tail,
                       struct imported *m, char **refused, struct errmsg *e) MUST_CHECK;

/* ---- onnx.c, onnx_nodes.c ---- */

enum {
    WALK_VALUES_MAX = 8192,
    WALK_NODES_MAX = 2048,
    WALK_INPUTS_MAX = 16384, /* of all nodes */
    WALK_ATTRIBUTES_MAX = 64 /* of a node */
};

struct walk_value {
    const char *name;         /* in the file */
    const Onnx__Tensor *data; /* a constant; NULL: it depends on the input */
    /* for a value that depends on the input: */
    const char *layer; /* the layer of which it is the output, or "input" */
    const char *word;  /* that layer's word; "" for the input */
    uint32_t rank,
        dim[TENSOR_RANK_MAX]; /* the shape of one row, as in the job: (height, width, channels) */
    bool first;               /* rank 3: in the file its axes are (channels, height, width) */
    /* rank 1: in the file its elements are in the order of (channels, height, width), with so many channels; 0: they
     * are in the job's order */
    uint32_t channels;
    bool column; /* rank 1, one number: in the file it is (n), without the axis of this number */
    /* a scale and a shift that can still change: gamma and beta of the layer (dim[rank - 1]); NULL: none */
    float *gamma, *beta;
};

struct walk {
    struct sketch s;
    const Onnx__Graph *g;
    int64_t opset; /* the version of ONNX's operators; a file that has none is of version 1 */
    uint32_t values;
    struct walk_value *value;
    /* (nodes) the name of the value that the node's output is the same as, because an earlier node has taken it along;
     * NULL: none */
    const char **alias;
    float scale; /* the input is divided by it */
};

/* NULL: not known, because the node that makes it was refused, or there is none. Valid until walk_put. */
const struct walk_value *walk_find(const struct walk *w, const char *name);
/* Set the value `name`. */
void walk_put(struct walk *w, const char *name, struct walk_value v);
/* The name of input i of a node; "" if it has none. */
const char *walk_input(const Onnx__Node *n, size_t i);
/* Number of inputs of nodes, and of outputs of the graph, that are this value. */
uint32_t walk_uses(const struct walk *w, const char *name);
/* The only node that reads this value, or NULL. *at: its index. */
const Onnx__Node *walk_only_reader(const struct walk *w, const char *name, size_t *at);
/* True if a node reads the value as an image with the channels first. */
bool walk_read_as_image(const struct walk *w, const char *name);

/* onnx_nodes.c: take over one node. A part that a job cannot have is refused in the sketch; the node's output is then not
 * known. */
void walk_node(struct walk *w, size_t at);
