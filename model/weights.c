/* A layer's tensors: their names, first values and offsets. */
#include "model/layers.h"

#include <stdio.h>

void weights_init(struct tensor *t, const struct job_weights *init)
{
    t->init = init->initializer;
    t->init_value = layout_init_scale(init->initializer, t);
    if (init->initializer == INIT_RANDOM_UNIFORM) {
        t->init_value = (init->init_value - init->init_other) / 2.0f;
        t->init_center = (init->init_value + init->init_other) / 2.0f;
    } else if (t->init_value == 0.0f) {
        t->init_value = init->init_value;
        t->init_center = init->init_other;
    }
}

enum err weights_add(struct model *m, struct op *op, uint64_t *offset, struct tensor *t,
                     const char *what, const struct job_weights *init, struct errmsg *e)
{
    int n = snprintf(t->name, sizeof t->name, "%s/%s", op->layer->name, what);
    if (n < 0 || (size_t)n >= sizeof t->name)
        return err_set(e, ERR_INPUT, "model.layers: the name %s is too long", op->layer->name);
    weights_init(t, init);
    if (job_layer_is_frozen(op->layer)) { /* a moving average that keeps all of its old value */
        t->role = TENSOR_STATISTIC;
        t->momentum = 1.0f;
    }
    *offset = m->layout.elems;
    enum err code = layout_add(&m->layout, t, e);
    if (code)
        return code;
    if (op->tensors++ == 0)
        op->tensor = m->layout.tensors - 1;
    return ERR_OK;
}

enum err weights_add_kernel_and_bias(struct model *m, struct op *op, struct tensor *kernel,
                                     struct errmsg *e)
{
    const struct job_layer *l = op->layer;
    enum err code = weights_add(m, op, &op->kernel_offset, kernel, "kernel", &l->kernel, e);
    if (code || !l->use_bias)
        return code;
    struct tensor bias = {.rank = 1, .shape = {kernel->shape[kernel->rank - 1]}};
    return weights_add(m, op, &op->bias_offset, &bias, "bias", &l->bias, e);
}
