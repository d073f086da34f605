/* A node of an ONNX graph that is taken over, and what the files of the operators share. */
#pragma once

#include "formats/imports/onnx_walk.h"

enum { STEP_NAME_BYTES = 64 };

struct step {
    struct walk *w;
    const Onnx__Node *n;
    struct walk_value x; /* input 0, which depends on the model's input */
    const char *as;      /* of the operator */
};

/* An operator of ONNX. The files of the operators each have a table of them. */
struct operator
{
    const char *op;                     /* NULL: the table ends */
    void (*take)(const struct step *s); /* puts the node's output, or refuses the node */
    const char
        *attributes; /* that it reads, or that change nothing that a job has; separated by blanks */
    const char *as;  /* a layer's word, or an arithmetic sign; NULL: `take` needs none */
};
extern const struct operator operators_of_activations[], operators_of_dense[],
    operators_of_scales[], operators_of_shapes[], operators_of_windows[];

/* A job cannot have the node. */
void step_refuse(const struct step *s, const char *format, ...) PRINTF_LIKE(2, 3);
/* Input i as a constant with its number of elements; NULL: it is missing, is no constant, or cannot be read. */
const Onnx__Tensor *step_constant(const struct step *s, size_t i, uint64_t *elems);
/* The name of a layer, from that of its tensor: "block.conv1.weight" -> "block.conv1"; "" if it has none. */
void step_layer_name(char out[STEP_NAME_BYTES], const Onnx__Tensor *t);

/* Add a layer with one input: sketch_layer. */
#define STEP_LAYER(s, word, wanted, ...)                                                           \
    sketch_layer(&(s)->w->s, (word), (wanted), &(s)->x.layer, 1, __VA_ARGS__)
/* The node's output is the output of the layer; NULL: the layer was refused. */
void step_put(const struct step *s, struct walk_value v, const char *word, const char *layer);
/* The node changes nothing. */
void step_pass(const struct step *s);

/* Elements of one row; UINT32_MAX: as many or more. */
uint32_t step_elems(const struct walk_value *v);
/* The length of the last axis as the job has it. */
uint32_t step_width(const struct walk_value *v);
/* The place in the file of element i of a vector that may be an image flattened with channels first. */
uint64_t step_place(const struct walk_value *v, uint64_t i);
/* Whether the operator is that of this opset or a later one; otherwise the node is refused. It is for operators that computed
 * something else before. */
bool step_is_of_opset(const struct step *s, int64_t opset);
/* Whether the input is an image with channels first; otherwise the node is refused. */
bool step_is_image(const struct step *s);
/* Up to `room` integers of the attribute `axes`, or of input 1. */
size_t step_axes(const struct step *s, int64_t *out, size_t room);
/* Whether these two axes of the file are height and width. */
bool step_are_sides(const struct step *s, const int64_t axis[2]);

/* The bias of a product, from a node that only adds it: then that node is taken along. */
const Onnx__Tensor *step_bias_after(const struct step *s, uint64_t units);
/* Fill n values; a tensor of one element gives all of them. */
void step_fill(float *to, const Onnx__Tensor *t, uint64_t n);
