/* A node of an ONNX graph that is taken over, and what the files of the operators share. */
#ifndef GRADWIRE_FORMATS_IMPORTS_ONNX_STEP_H
#define GRADWIRE_FORMATS_IMPORTS_ONNX_STEP_H

#include "formats/imports/onnx_walk.h"

enum { STEP_NAME_BYTES = 64 };

struct step {
    struct walk *w;
    const Onnx__Node *n;
    struct walk_value x; /* input 0, which depends on the model's input */
};

/* The operators. Each function puts the node's output, or refuses the node. X(name in ONNX, suffix of the function, attributes
 * that it reads, or that change nothing that a job has) */
#define STEP_WINDOWS "auto_pad dilations kernel_shape pads strides"
#define STEP_OPERATORS(X)                                                                          \
    X(Add, add, "")                                                                                \
    X(AveragePool, average_pool, STEP_WINDOWS " ceil_mode count_include_pad")                      \
    X(BatchNormalization, batch_normalization, "epsilon momentum spatial training_mode")           \
    X(Cast, cast, "to saturate")                                                                   \
    X(Concat, concat, "axis")                                                                      \
    X(Conv, conv, STEP_WINDOWS " group")                                                           \
    X(Div, divide, "")                                                                             \
    X(Dropout, dropout, "ratio seed")                                                              \
    X(Elu, elu, "alpha")                                                                           \
    X(Flatten, flatten, "axis")                                                                    \
    X(Gelu, gelu, "approximate")                                                                   \
    X(Gemm, gemm, "alpha beta transA transB")                                                      \
    X(GlobalAveragePool, global_average, "")                                                       \
    X(GlobalMaxPool, global_max, "")                                                               \
    X(LayerNormalization, layer_normalization, "axis epsilon stash_type")                          \
    X(LeakyRelu, leaky_relu, "alpha")                                                              \
    X(MatMul, matmul, "")                                                                          \
    X(MaxPool, max_pool, STEP_WINDOWS " ceil_mode storage_order")                                  \
    X(Mul, multiply, "")                                                                           \
    X(ReduceMax, reduce_max, "axes keepdims noop_with_empty_axes")                                 \
    X(ReduceMean, reduce_mean, "axes keepdims noop_with_empty_axes")                               \
    X(Relu, relu, "")                                                                              \
    X(Reshape, reshape, "allowzero")                                                               \
    X(Selu, selu, "alpha gamma")                                                                   \
    X(Sigmoid, sigmoid, "")                                                                        \
    X(Softmax, softmax, "axis")                                                                    \
    X(Softplus, softplus, "")                                                                      \
    X(Squeeze, squeeze, "axes")                                                                    \
    X(Sub, subtract, "")                                                                           \
    X(Tanh, tanh, "")                                                                              \
    X(Transpose, transpose, "perm")

#define STEP_OPERATOR(op, name, attributes) void take_##name(const struct step *s);
STEP_OPERATORS(STEP_OPERATOR)

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

#endif
