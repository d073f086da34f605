/* A layer's tensors: their names, first values and places. */
#include "worker/model/layers.h"

#include <stdio.h>

enum err weights_add(struct model *m, struct op *op, uint64_t *offset, struct tensor *t,
                     const char *what, struct first_values init, struct errmsg *e)
{
    int n = snprintf(t->name, sizeof t->name, "%s/%s", op->layer, what);
    if (n < 0 || (size_t)n >= sizeof t->name)
        return err_set(e, ERR_INPUT, "model.layers: the name %s is too long", op->layer);
    t->init = init.kind;
    t->init_value = layout_init_scale(init.kind, t);
    if (init.kind == INIT_RANDOM_UNIFORM) {
        t->init_value = (init.value - init.other) / 2.0f;
        t->init_center = (init.value + init.other) / 2.0f;
    } else if (t->init_value == 0.0f) {
        t->init_value = init.value;
        t->init_center = init.other;
    }
    *offset = m->layout.elems;
    enum err code = layout_add(&m->layout, t, e);
    if (code)
        return code;
    if (op->tensors++ == 0)
        op->tensor = m->layout.tensors - 1;
    return ERR_OK;
}

enum err weights_add_kernel_and_bias(struct model *m, struct op *op, const struct job_layer *l,
                                     struct tensor *kernel, struct errmsg *e)
{
    op->kernel_l1 = l->kernel_l1;
    op->kernel_l2 = l->kernel_l2;
    op->bias_l1 = l->bias_l1;
    op->bias_l2 = l->bias_l2;
    enum err code = weights_add(
        m, op, &op->kernel_offset, kernel, "kernel",
        (struct first_values){l->kernel_initializer, l->kernel_init_value, l->kernel_init_other},
        e);
    if (code || !op->bias)
        return code;
    struct tensor bias = {.rank = 1, .shape = {kernel->shape[kernel->rank - 1]}};
    return weights_add(
        m, op, &op->bias_offset, &bias, "bias",
        (struct first_values){l->bias_initializer, l->bias_init_value, l->bias_init_other}, e);
}
