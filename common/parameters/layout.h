/* The flat block of all dense parameters: the offsets and shapes of its tensors. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { TENSOR_NAME_MAX = 96, TENSOR_RANK_MAX = 4 };

enum init_kind {
    INIT_ZEROS,
    INIT_ONES,
    INIT_GLOROT_UNIFORM,
    INIT_CONSTANT,
    INIT_GLOROT_NORMAL,
    INIT_HE_NORMAL,
    INIT_HE_UNIFORM,
    INIT_LECUN_NORMAL,
    INIT_LECUN_UNIFORM,
    INIT_RANDOM_NORMAL,
    INIT_RANDOM_UNIFORM,
    INIT_TRUNCATED_NORMAL
};

/* The rule that updates a tensor. */
enum tensor_role {
    TENSOR_WEIGHT, /* by the optimizer; its gradient is a sum over examples */
    /* a moving average, r = momentum r + (1 - momentum) s: workers push s times the examples instead of a gradient
     * (the mean and variance of batch_normalization). A tensor that training does not change has momentum 1. */
    TENSOR_STATISTIC,
};

struct tensor {
    char name[TENSOR_NAME_MAX]; /* "dense/kernel", "dense/bias", "dense_1/kernel" */
    uint32_t rank, shape[TENSOR_RANK_MAX];
    /* the offset is a multiple of 16 elements (64 bytes); gaps stay 0 */
    uint64_t offset_elems, elems;
    enum init_kind init;
    enum tensor_role role;
    bool undecayed;    /* TENSOR_WEIGHT: weight decay does not apply */
    float momentum;    /* TENSOR_STATISTIC */
    float init_value;  /* the constant, a normal's standard deviation, or half a uniform's width */
    float init_center; /* a normal's mean, or the middle of a uniform */
};

struct row_layout;
struct layout {
    uint32_t tensors;
    struct tensor *tensor; /* sorted by offset */
    uint64_t elems;        /* of the complete block, a multiple of 16 */
    /* embedding tables next to the block (common/rows/row_layout.h), or NULL; layout_close frees them */
    struct row_layout *rows;
};

enum { LAYOUT_ALIGN_ELEMS = 16 };

/* Appends a tensor: a copy of *t with its offset and elems computed. *l is unchanged on error. Errors: ERR_NOMEM;
 * ERR_INPUT if a dimension is 0 or the block would exceed 2^40 elements. */
enum err layout_add(struct layout *l, const struct tensor *t, struct errmsg *e) MUST_CHECK;
void layout_close(struct layout *l);

/* Returns the end of tensor `i` including the gap after it: the ranges [offset, end) of all tensors cover the
 * block without overlap. */
uint64_t layout_end(const struct layout *l, uint32_t i);

/* Returns the index of the tensor that contains element `at` (< l->elems); the gap after a tensor belongs to it. */
uint32_t layout_find(const struct layout *l, uint64_t at);

/* Returns the tensor LAYER/WHAT, such as "dense/kernel"; NULL: there is none. */
const struct tensor *layout_weight(const struct layout *l, const char *layer, const char *what);

/* Returns whether the name contains one of `parts` (separated by commas). */
bool layout_name_has_part(const char *name, const char *parts);
/* Sets `undecayed` of each weight: true if its name contains one of `parts` (separated by commas). */
void layout_exclude_from_decay(struct layout *l, const char *parts);

/* Returns the standard deviation, or half the width, that Keras computes from a tensor's fans; 0 for kinds that do
 * not use fans. Sources: Glorot and Bengio 2010, He et al. 2015, LeCun et al. 1998, in Keras's form. */
float layout_init_scale(enum init_kind kind, const struct tensor *t);

/* Returns the initial value at a position of the random stream `key`. For kinds that use fans, `value` must be
 * layout_init_scale's result. */
float init_draw(enum init_kind kind, float value, float center, uint64_t key, uint64_t position);

/* Writes the initial values of elements [first, first + n) of the block; 0 in gaps. They depend only on the seed, on
 * the tensor's name and initializer, and on the position in the tensor. */
void layout_init_values(const struct layout *l, uint64_t seed, uint64_t first, size_t n,
                        float *out);
