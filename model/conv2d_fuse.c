/* Decides which convolutions are computed without a matrix, and which of these include the max_pooling2d that
 * follows, so that their output is never written as a whole. Runs when all ops are appended, before flow.c. */
#include "model/layers.h"

#include <string.h>

enum { POOL_TAPS_MAX = 255 }; /* 255 means none */

struct readers {
    bool trained[OPS_MAX + 1];  /* an earlier op has parameters */
    uint32_t uses[OPS_MAX + 1]; /* by inputs of ops */
};

static void survey(struct readers *r, const struct model *m)
{
    *r = (struct readers){{false}, {0}};
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op *op = &m->op[i];
        r->trained[i + 1] = op_learns(op);
        for (uint32_t k = 0; k < op->inputs; k++) {
            r->trained[i + 1] = r->trained[i + 1] || r->trained[op->input[k]];
            r->uses[op->input[k]]++;
        }
    }
}

/* True if op i is a pooling of disjoint windows directly after a convolution that no other op reads. */
static bool may_join(const struct model *m, const struct readers *r, uint32_t i)
{
    const struct op *pool = &m->op[i];
    return i > 0 && pool->type == &pooling_op && pool->pooling == POOLING_MAX &&
           pool->input[0] == i && m->op[i - 1].type == &conv2d_op && m->op[i - 1].direct &&
           r->uses[i] == 1 && window_is_tiled(&pool->window) &&
           pool->window.y.size * pool->window.x.size <= POOL_TAPS_MAX;
}

/* Make op i a part of the op before it; readers of value i + 1 then read value i. */
static void join(struct model *m, uint32_t i)
{
    struct op *conv = &m->op[i - 1];
    conv->pooled = true;
    conv->reads_y = false;
    conv->pool = m->op[i].window;
    conv->out = m->op[i].out;
    memmove(&m->op[i], &m->op[i + 1], (m->ops - i - 1) * sizeof *m->op);
    m->ops--;
    for (uint32_t k = i; k < m->ops; k++)
        for (uint32_t v = 0; v < m->op[k].inputs; v++)
            m->op[k].input[v] -= m->op[k].input[v] > i;
    m->value -= m->value > i;
}

void conv2d_fuse(struct model *m)
{
    struct readers r;
    survey(&r, m);
    for (uint32_t i = 0; i < m->ops; i++) {
        struct op *op = &m->op[i];
        if (op->type != &conv2d_op)
            continue;
        bool wants_dx = r.trained[op->input[0]];
        op->direct = conv2d_may_be_direct(op, wants_dx);
        op->direct_dx = op->direct && wants_dx;
        op->blas = !op->direct;
    }
    for (uint32_t i = 0; i < m->ops; i++) {
        survey(&r, m);
        if (may_join(m, &r, i))
            join(m, i--);
    }
}
