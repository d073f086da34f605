/* The ops of a model in their order, the shapes of their values, and the tensors of an op in the flat block. */
#include "model/layers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- ops ---- */

void op_append(struct model *m, const struct op *op)
{
    assert(m->ops < OPS_MAX);
    struct op *made = &m->op[m->ops];
    *made = *op;
    if (made->inputs == 0 && made->lookups == 0) {
        made->inputs = 1;
        made->input[0] = m->value;
    }
    m->value = ++m->ops;
}

static void renumber(uint32_t *value, uint32_t gone, uint32_t instead)
{
    *value = *value == gone ? instead : *value - (*value > gone);
}

void op_remove(struct model *m, uint32_t i)
{
    uint32_t instead = m->op[i].input[0];
    memmove(&m->op[i], &m->op[i + 1], (m->ops - i - 1) * sizeof *m->op);
    m->ops--;
    for (uint32_t k = i; k < m->ops; k++)
        for (uint32_t v = 0; v < m->op[k].inputs; v++)
            renumber(&m->op[k].input[v], i + 1, instead);
    for (uint32_t h = 0; h < m->heads; h++)
        renumber(&m->head[h].value, i + 1, instead);
}

uint32_t value_readers(const struct model *m, uint32_t value)
{
    uint32_t n = 0;
    for (uint32_t i = value; i < m->ops; i++)
        for (uint32_t k = 0; k < m->op[i].inputs; k++)
            n += m->op[i].input[k] == value;
    for (uint32_t h = 0; h < m->heads; h++)
        n += m->head[h].value == value;
    return n;
}

uint32_t shape_elems(const struct shape *s)
{
    uint32_t elems = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        elems *= s->dim[i];
    return elems;
}

/* ---- a layer's tensors: their names, first values and offsets ---- */

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
