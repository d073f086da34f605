/* The flat block of all dense parameters: tensors as offsets and shapes, chunks, and which shard
 * owns what. Everything here is a pure function. */
#ifndef GRADWIRE_COMMON_PARAMETERS_LAYOUT_H
#define GRADWIRE_COMMON_PARAMETERS_LAYOUT_H

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

/* Whose rule updates a tensor. */
enum tensor_role {
    TENSOR_WEIGHT, /* the optimizer's; its gradient is a sum over examples */
    TENSOR_STATISTIC, /* a moving average r = momentum r + (1 - momentum) s; what is pushed in place of a gradient is
                         s times the examples (batch_normalization's mean and variance) */
};

struct tensor {
    char name[TENSOR_NAME_MAX]; /* "dense/kernel", "dense/bias", "dense_1/kernel" */
    uint32_t rank, shape[TENSOR_RANK_MAX];
    uint64_t offset_elems, elems; /* offset aligned to 16 elements (64 bytes); gaps stay zero */
    enum init_kind init;
    enum tensor_role role;
    bool undecayed;    /* TENSOR_WEIGHT: weight decay leaves it alone */
    float momentum;    /* TENSOR_STATISTIC */
    float init_value;  /* a constant; a normal's standard deviation; half of what a uniform spans */
    float init_center; /* a normal's mean, the middle of a uniform */
};

struct row_layout;
struct layout {
    uint32_t tensors;
    struct tensor *tensor; /* by offset */
    uint64_t elems;        /* of the whole block, a multiple of 16 */
    struct row_layout
        *rows; /* the tables beside it (common/rows/row_layout.h); NULL: none. Freed with it */
};

enum { LAYOUT_ALIGN_ELEMS = 16 };

/* Append a tensor behind the last one; its offset and elems are computed, *t is copied otherwise.
 * Errors: ERR_NOMEM; ERR_INPUT shape 0, or more elements than a block may have (2^40). *l unchanged
 * on error. */
enum err layout_add(struct layout *l, const struct tensor *t, struct errmsg *e) MUST_CHECK;
void layout_close(struct layout *l);

/* Where tensor `i` ends together with the gap behind it: the tensors' [offset, end) tile the block.
 */
uint64_t layout_end(const struct layout *l, uint32_t i);

/* The tensor that element `at` (< l->elems) belongs to; the gap behind a tensor is its own. */
uint32_t layout_find(const struct layout *l, uint64_t at);

/* One of `parts` (joined by commas) is in the name. */
bool layout_name_has_part(const char *name, const char *parts);
/* Set `undecayed` of each weight whose name has one of `parts` (joined by commas) in it. */
void layout_exclude_from_decay(struct layout *l, const char *parts);

/* The standard deviation, or the half span, that Keras gives a tensor by its fans; 0 for kinds that
 * do not look at them. Formulas: Glorot and Bengio 2010, He et al. 2015, LeCun et al. 1998, in
 * Keras's form. */
float layout_init_scale(enum init_kind kind, const struct tensor *t);

/* The initial value at a position of the random stream `key`, for kinds that do not look at fans, or whose scale is in
 * `value` (layout_init_scale). */
float init_draw(enum init_kind kind, float value, float center, uint64_t key, uint64_t position);

/* Initial values of elements [first, first + n) of the block: a function of (seed, name, offset)
 * only. */
void layout_init_values(const struct layout *l, uint64_t seed, uint64_t first, size_t n,
                        float *out);

#endif
