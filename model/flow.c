/* Assigns memory to values and gradients. The order of work is fixed, forward over all ops and then backward, so the
 * lifetime of each buffer is known in advance: slots are assigned and released along that order, once, when the
 * model is made.
 *
 * A value keeps its slot until the last op that reads it or, if backward reads it, until the op that made it has
 * gone backward. A gradient's slot is taken by the last op that writes it, and released by the op that uses it up; a
 * value that several ops read gets its gradients added in that order, which does not depend on the split of the
 * work. A gradient by rows of tables is added when all ops have gone backward, so the gradient by the output of a
 * lookup op keeps its slot until then. */
#include "model/layers.h"

#include <assert.h>

struct flow {
    struct model *m;
    bool busy[SLOTS_MAX];
    bool wanted[OPS_MAX + 1];   /* a gradient by the value is needed */
    bool kept[OPS_MAX + 1];     /* backward reads this value */
    uint32_t uses[OPS_MAX + 1]; /* by inputs of ops, and by heads */
    uint32_t last[OPS_MAX + 1]; /* the last op that reads it */
    uint32_t gradient[OPS_MAX + 1];
};

/* ---- slots ---- */

/* Take a free slot, the one that needs to grow least. */
static uint32_t slot_for(struct flow *f, size_t elems)
{
    struct model *m = f->m;
    uint32_t best = SLOT_NONE;
    for (uint32_t s = 0; s < m->slots; s++) {
        if (f->busy[s])
            continue;
        size_t have = m->slot_elems[s], than = best == SLOT_NONE ? 0 : m->slot_elems[best];
        bool fits = have >= elems, best_fits = best != SLOT_NONE && than >= elems;
        if (best == SLOT_NONE || (fits && (!best_fits || have < than)) ||
            (!fits && !best_fits && have > than))
            best = s;
    }
    if (best == SLOT_NONE) {
        assert(m->slots < SLOTS_MAX);
        best = m->slots++;
    }
    if (m->slot_elems[best] < elems)
        m->slot_elems[best] = elems;
    f->busy[best] = true;
    assert(m->slot_elems[best] >= elems);
    return best;
}

static void give_back(struct flow *f, uint32_t slot)
{
    assert(f->busy[slot]);
    f->busy[slot] = false;
}

/* ---- lifetimes ---- */

static void survey(struct flow *f)
{
    struct model *m = f->m;
    for (uint32_t i = 0; i < m->ops; i++) {
        struct op *op = &m->op[i];
        f->wanted[i + 1] = op_learns(op);
        for (uint32_t k = 0; k < op->inputs; k++) {
            uint32_t u = op->input[k];
            f->wanted[i + 1] = f->wanted[i + 1] || f->wanted[u];
            f->uses[u]++;
            f->last[u] = i;
        }
        op->backward = f->wanted[i + 1];
        if (!op->backward)
            continue;
        f->kept[i + 1] = op->reads_y;
        for (uint32_t k = 0; k < op->inputs; k++)
            f->kept[op->input[k]] = f->kept[op->input[k]] || op->reads_x;
    }
    for (uint32_t h = 0; h < m->heads; h++) {
        f->kept[m->head[h].value] = true;
        f->uses[m->head[h].value]++;
    }
}

/* True if op i may overwrite its first input: neither another op nor backward reads it. Exception: a relu's backward
 * only needs where its output was 0, and dropout passes no gradient where it makes a 0. */
static bool may_overwrite(const struct flow *f, uint32_t i)
{
    const struct op *op = &f->m->op[i];
    uint32_t u = op->inputs ? op->input[0] : 0;
    if (u == 0 || f->uses[u] != 1 || !op->elementwise)
        return false;
    const struct op *before = &f->m->op[u - 1];
    bool relu = before->activation == ACT_RELU;
    return !f->kept[u] || (op->drops && relu);
}

/* The first of the values in place that share v's slot. */
static uint32_t root_of(const struct model *m, uint32_t v)
{
    while (v > 0 && m->op[v - 1].in_place)
        v = m->op[v - 1].input[0];
    return v;
}

static void decide_in_place(struct flow *f)
{
    struct model *m = f->m;
    for (uint32_t i = 0; i < m->ops; i++) {
        m->op[i].in_place = may_overwrite(f, i);
        if (m->op[i].in_place && f->kept[m->op[i].input[0]])
            f->kept[i + 1] = true;
    }
    for (uint32_t i = 0; i < m->ops; i++)
        if (f->kept[i + 1])
            f->kept[root_of(m, i + 1)] = true;
}

/* ---- forward and backward ---- */

static void plan_forward(struct flow *f)
{
    struct model *m = f->m;
    for (uint32_t i = 0; i < m->ops; i++) {
        struct op *op = &m->op[i];
        op->y = op->in_place ? m->op[op->input[0] - 1].y : slot_for(f, op_out_elems(op));
        for (uint32_t k = 0; k < op->inputs; k++) {
            uint32_t u = op->input[k], slot = u ? m->op[u - 1].y : SLOT_NONE;
            bool dead = u && f->last[u] == i && !f->kept[root_of(m, u)] && slot != op->y;
            if (dead && f->busy[slot]) /* an op may read one value twice */
                give_back(f, slot);
        }
    }
}

/* Plan the gradient by input k. It is made from the gradient by the output, which is dead after k = 0. */
static void plan_input(struct flow *f, struct op *op, uint32_t k)
{
    uint32_t u = op->input[k];
    bool first = f->gradient[u] == SLOT_NONE;
    struct op_gradient *dx = &op->dx[k];
    *dx = (struct op_gradient){SLOT_NONE, SLOT_NONE};
    if (!f->wanted[u])
        return;
    size_t elems = op_out_elems(&f->m->op[u - 1]);
    bool in_dy = op->elementwise && (k == 0 || !first);
    dx->slot = in_dy ? op->dy : slot_for(f, elems);
    if (first) {
        f->gradient[u] = dx->slot;
    } else {
        dx->sum = f->gradient[u];
        if (!in_dy)
            give_back(f, dx->slot);
    }
}

/* True if the slot now has the gradient by an input. */
static bool lives_on(const struct op *op, uint32_t slot)
{
    for (uint32_t k = 0; op->backward && k < op->inputs; k++)
        if (op->dx[k].slot == slot && op->dx[k].sum == SLOT_NONE)
            return true;
    return false;
}

/* Plan the gradients of the losses, which are all computed before the first op goes backward. */
static void plan_heads(struct flow *f)
{
    struct model *m = f->m;
    for (uint32_t h = 0; h < m->heads; h++) {
        uint32_t v = m->head[h].value, slot = slot_for(f, op_out_elems(&m->op[v - 1]));
        m->head[h].dz = (struct op_gradient){slot, f->gradient[v]};
        if (f->gradient[v] == SLOT_NONE)
            f->gradient[v] = slot;
    }
    for (uint32_t h = 0; h < m->heads; h++)
        if (m->head[h].dz.sum != SLOT_NONE)
            give_back(f, m->head[h].dz.slot);
}

static void plan_backward(struct flow *f)
{
    struct model *m = f->m;
    plan_heads(f);
    for (uint32_t i = m->ops; i-- > 0;) {
        struct op *op = &m->op[i];
        op->dy = f->gradient[i + 1];
        for (uint32_t k = op->inputs; op->backward && k-- > 0;)
            plan_input(f, op, k);
        if (op->dy != SLOT_NONE && !lives_on(op, op->dy) && !op->lookups)
            give_back(f, op->dy);
        if (!op->in_place && f->kept[i + 1])
            give_back(f, op->y);
    }
    for (uint32_t i = 0; i < m->ops; i++)
        if (m->op[i].lookups)
            give_back(f, m->op[i].dy);
}

void flow_plan(struct model *m)
{
    struct flow f = {.m = m};
    for (uint32_t v = 0; v <= OPS_MAX; v++)
        f.gradient[v] = SLOT_NONE;
    survey(&f);
    decide_in_place(&f);
    plan_forward(&f);
    plan_backward(&f);
    for (uint32_t s = 0; s < m->slots; s++)
        assert(!f.busy[s]); /* all slots are released */
}
