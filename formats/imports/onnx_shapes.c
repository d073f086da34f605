/* Operators that change only shapes and types. */
#include "common/base/digits.h"
#include "formats/imports/onnx_step.h"

#include <string.h>

static void flatten_to_vector(const struct step *s)
{
    struct walk_value v = s->x;
    uint32_t elems = step_elems(&v);
    if (v.rank == 1) {
        step_pass(s);
        return;
    }
    bool moves = v.first && v.dim[2] > 1 && elems > v.dim[2];
    v.channels = moves ? v.dim[2] : 0;
    v.rank = 1;
    v.dim[0] = elems;
    v.first = false;
    step_put(s, v, "flatten", STEP_LAYER(s, "flatten", "", "%s", ""));
}

static void take_flatten(const struct step *s)
{
    if (onnx_int(s->n, "axis", 1) == 1)
        flatten_to_vector(s);
    else
        step_refuse(s, "only with axis 1");
}

/* The shape of one row that a Reshape asks for. False: it does not have as many elements, or the rows change. */
static bool take_shape(const struct step *s, uint32_t *rank, uint32_t dim[TENSOR_RANK_MAX])
{
    uint64_t n = 0, known = 1, all = step_elems(&s->x), open = UINT64_MAX;
    const Onnx__Tensor *t = step_constant(s, 1, &n);
    if (!t || n < 2 || n > TENSOR_RANK_MAX + 1)
        return false;
    for (uint64_t i = 1; i < n; i++) {
        double value = onnx_tensor_at(t, i);
        if (value == -1 && open == UINT64_MAX) {
            open = i;
            continue;
        }
        if (!(value >= 1) || value > INT32_MAX || known * (uint64_t)value > all)
            return false;
        dim[i - 1] = (uint32_t)value;
        known *= (uint64_t)value;
    }
    if (all % known || (open == UINT64_MAX && known != all))
        return false;
    if (open != UINT64_MAX)
        dim[open - 1] = (uint32_t)(all / known);
    *rank = (uint32_t)n - 1;
    return true;
}

static bool is_number(const struct step *s)
{
    return s->x.rank == 1 && s->x.dim[0] == 1;
}

/* (n, 1) becomes (n). */
static void pass_column(const struct step *s)
{
    struct step column = *s;
    column.x.column = true;
    step_pass(&column);
}

static void take_reshape(const struct step *s)
{
    struct walk_value v = s->x;
    uint64_t n = 0;
    const Onnx__Tensor *t = step_constant(s, 1, &n);
    if (t && n == 1 && onnx_tensor_at(t, 0) == -1 && is_number(s)) {
        pass_column(s);
        return;
    }
    if (!take_shape(s, &v.rank, v.dim)) {
        step_refuse(s, "its shape must be constant, and keep the rows");
        return;
    }
    if (v.rank == 1) {
        flatten_to_vector(s);
        return;
    }
    bool image = v.rank == 3 && walk_read_as_image(s->w, s->n->output[0]);
    if (s->x.first || s->x.channels || (image && v.dim[0] != 1)) {
        step_refuse(s, "its elements would need another order in the job");
        return;
    }
    if (image) { /* one channel: (1, height, width) has the order of (height, width, 1) */
        v = (struct walk_value){.rank = 3, .dim = {v.dim[1], v.dim[2], 1}, .first = true};
    }
    char shape[64];
    step_put(s, v, "reshape",
             STEP_LAYER(s, "reshape", "", "target_shape: [%s]",
                        digits_list(shape, sizeof shape, v.dim, v.rank)));
}

/* Only what makes channels first of channels last, and back; no layer is needed for that. */
static void take_transpose(const struct step *s)
{
    static const int64_t to_first[4] = {0, 3, 1, 2}, to_last[4] = {0, 2, 3, 1};
    int64_t perm[5] = {0};
    struct walk_value v = s->x;
    size_t n = onnx_ints(s->n, "perm", perm, 5);
    bool last = v.first && memcmp(perm, to_last, sizeof to_last) == 0;
    bool first = !v.first && memcmp(perm, to_first, sizeof to_first) == 0;
    if (n != 4 || v.rank != 3 || (!first && !last)) {
        step_refuse(s, "only between channels first and channels last");
        return;
    }
    v.first = first;
    v.gamma = v.beta = NULL;
    if (s->n->n_output)
        walk_put(s->w, s->n->output[0], v);
}

static void take_squeeze(const struct step *s)
{
    int64_t axis[3];
    size_t axes = step_axes(s, axis, 3);
    if (axes == 2 && step_are_sides(s, axis) && s->x.dim[0] == 1 && s->x.dim[1] == 1)
        flatten_to_vector(s);
    else if (is_number(s) && (axes == 0 || (axes == 1 && (axis[0] == 1 || axis[0] == -1))))
        pass_column(s);
    else
        step_refuse(s, "only of height and width 1, or of the last axis if it has one number");
}

static void take_cast(const struct step *s)
{
    if (onnx_int(s->n, "to", 0) == ONNX__DATA_TYPE__FLOAT)
        step_pass(s);
    else
        step_refuse(s, "only to float");
}

const struct operator operators_of_shapes[] = {
    {"Cast", take_cast, "to saturate", NULL},     {"Flatten", take_flatten, "axis", NULL},
    {"Reshape", take_reshape, "allowzero", NULL}, {"Squeeze", take_squeeze, "axes", NULL},
    {"Transpose", take_transpose, "perm", NULL},  {.op = NULL},
};
