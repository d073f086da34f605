/* Which rows of a model's tensors are new, if its input has new features (model_growth). */
#include "model/model.h"

#include <string.h>

#include "common/base/mem.h"
#include "model/layers.h"

/* Flags of each value's new elements; NULL: none is new. Owned here, except value 0. */
struct walk {
    const struct model *model;
    struct model_growth *growth;
    uint8_t *value[OPS_MAX + 1];
};

static enum err no_memory(struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for the new words of the model");
}

/* *out: a copy of the flags (n), or NULL if none is set. */
static enum err growth_keep(uint8_t **out, const uint8_t *fresh, size_t n, struct errmsg *e)
{
    if (!fresh || !memchr(fresh, 1, n))
        return ERR_OK;
    *out = mem_zalloc(n, 1);
    if (!*out)
        return no_memory(e);
    memcpy(*out, fresh, n);
    return ERR_OK;
}

/* True if 0 stays 0, so an absent feature does not affect the reader. */
static bool keeps_zero(const struct op *op)
{
    if (op->layer->kind == LAYER_DROPOUT)
        return true;
    return op->type == &activation_op && op->activation != ACT_SIGMOID &&
           op->activation != ACT_SOFTMAX && op->activation != ACT_SOFTPLUS;
}

static enum err select_flags(struct walk *w, uint32_t i, struct errmsg *e)
{
    const struct op *op = &w->model->op[i];
    uint8_t *flags = mem_zalloc(op->out, 1);
    if (!flags)
        return no_memory(e);
    size_t at = 0;
    for (uint32_t r = 0; r < op->select.ranges; r++) {
        const struct feature_range *of = &w->model->range[op->select.first + r];
        memcpy(flags + at, w->value[0] + of->first, of->n);
        at += of->n;
    }
    enum err err = growth_keep(&w->value[i + 1], flags, op->out, e);
    mem_free(flags);
    return err;
}

static enum err join_flags(struct walk *w, uint32_t i, struct errmsg *e)
{
    const struct op *op = &w->model->op[i];
    uint8_t *flags = mem_zalloc(op->out, 1);
    if (!flags)
        return no_memory(e);
    size_t at = 0;
    for (uint32_t k = 0; k < op->inputs; k++) {
        if (w->value[op->input[k]])
            memcpy(flags + at, w->value[op->input[k]], op->width[k]);
        at += op->width[k];
    }
    enum err err = growth_keep(&w->value[i + 1], flags, op->out, e);
    mem_free(flags);
    return err;
}

static enum err growth_step(struct walk *w, uint32_t i, struct errmsg *e)
{
    const struct op *op = &w->model->op[i];
    bool grows = false;
    for (uint32_t k = 0; k < op->inputs; k++)
        grows |= w->value[op->input[k]] != NULL;
    if (!grows)
        return ERR_OK;
    const uint8_t *first = w->value[op->input[0]];
    if (op->type == &select_op)
        return select_flags(w, i, e);
    if (op->outer == 1 && op->type->side_by_side)
        return join_flags(w, i, e);
    if (op->outer == 1 && op->layer->kind == LAYER_DENSE && op->tensors)
        return growth_keep(&w->growth->fresh[op->tensor], first, op->in, e);
    if (keeps_zero(op))
        return growth_keep(&w->value[i + 1], first, op_out_elems(op), e);
    return err_set(e, ERR_INPUT,
                   "layer %s reads the features of words, and new words would change its output "
                   "for the others: use data.encoding: keep, which reads new words as unknown",
                   op->layer->name);
}

enum err model_growth_init(struct model_growth *g, const struct model *m, const uint8_t *fresh,
                           struct errmsg *e)
{
    struct walk *w = mem_zalloc(1, sizeof *w);
    *g = (struct model_growth){.tensors = m->layout.tensors,
                               .fresh = mem_zalloc(m->layout.tensors + 1, sizeof *g->fresh)};
    enum err err = w && g->fresh ? ERR_OK : no_memory(e);
    if (!err) {
        w->model = m;
        w->growth = g;
        err = growth_keep(&w->value[0], fresh, m->features, e);
    }
    for (uint32_t i = 0; i < m->ops && !err; i++)
        err = growth_step(w, i, e);
    for (uint32_t i = 0; w && i <= m->ops; i++)
        mem_free(w->value[i]);
    mem_free(w);
    return err;
}

void model_growth_close(struct model_growth *g)
{
    for (uint32_t i = 0; i < g->tensors && g->fresh; i++)
        mem_free(g->fresh[i]);
    mem_free(g->fresh);
    *g = (struct model_growth){.tensors = 0};
}
