/* Selects columns of the model's input, side by side, in the order in which a layer names them. */
#include "model/layers.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

/* Append the columns' features to the model's ranges, merging adjacent ones. Returns the number of features. */
static uint64_t add_ranges(struct model *m, const struct job *job, const struct job_selection *s)
{
    uint32_t before = m->ranges;
    uint64_t width = 0;
    for (uint32_t i = 0; i < s->columns; i++) {
        const struct job_column *c = &job->data.csv.column[job->model.selected[s->first + i]];
        struct feature_range *last = &m->range[m->ranges - (m->ranges > before)];
        assert((uint64_t)c->feature + c->width <= m->features);
        width += c->width;
        if (m->ranges > before && last->first + last->n == c->feature)
            last->n += c->width;
        else
            m->range[m->ranges++] = (struct feature_range){c->feature, c->width};
    }
    return width;
}

static enum err grow(struct model *m, uint32_t more, struct errmsg *e)
{
    struct feature_range *grown = mem_resize(m->range, (size_t)m->ranges + more + 1, sizeof *grown);
    if (!grown)
        return err_memory_of(e, "model");
    m->range = grown;
    return ERR_OK;
}

enum err select_append(struct model *m, const struct job *job, const struct job_layer *l,
                       uint32_t i, struct errmsg *e)
{
    const struct job_selection *s = &job->model.selection[i];
    assert(i < job->model.selections);
    struct op op = {
        .type = &select_op, .layer = l, .outer = 1, .inputs = 1, .select.first = m->ranges};
    enum err err = grow(m, s->columns, e);
    if (err)
        return err;
    uint64_t width = add_ranges(m, job, s);
    if (width == 0 || width > INT32_MAX)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: the columns that it names have no features, or too many",
                       l->name);
    op.select.ranges = m->ranges - op.select.first;
    op.in = m->features;
    op.out = (uint32_t)width;
    m->value = 0;
    if (op.select.ranges > 1 || width != m->features)
        op_append(m, &op);
    m->shape = (struct shape){.rank = 1, .dim = {op.out}};
    return ERR_OK;
}

/* y (n, out) = the ranges of x (n, in) side by side */
static void select_forward(const struct op *op, const struct op_pass *p)
{
    float *y = p->y;
    for (size_t r = 0; r < p->n; r++)
        for (uint32_t i = 0; i < op->select.ranges; i++) {
            const struct feature_range *of = &p->range[op->select.first + i];
            memcpy(y, p->x[0] + r * op->in + of->first, of->n * sizeof *y);
            y += of->n;
        }
}

const struct op_type select_op = {.forward =
                                      select_forward}; /* no gradient by the input is needed */
