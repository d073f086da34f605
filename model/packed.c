#include "model/packed.h"

#include "common/base/mem.h"
#include "model/layers.h"

struct packed {
    const float *w;
    float *of[OPS_MAX];
};

static bool pack(struct packed *p, const struct model *m)
{
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op *op = &m->op[i];
        if (!op->type->pack)
            continue;
        p->of[i] = mem_floats(op->type->packed_elems(op));
        if (!p->of[i])
            return false;
        op->type->pack(op, p->of[i], p->w);
    }
    return true;
}

enum err packed_new(struct packed **out, const struct model *m, const float *w, struct errmsg *e)
{
    struct packed *p = mem_zalloc(1, sizeof *p);
    if (p)
        p->w = w;
    if (!p || !pack(p, m)) {
        packed_free(p);
        return err_set(e, ERR_NOMEM, "model: no memory for a copy of its weights");
    }
    *out = p;
    return ERR_OK;
}

void packed_free(struct packed *p)
{
    for (uint32_t i = 0; p && i < OPS_MAX; i++)
        mem_free(p->of[i]);
    mem_free(p);
}

const float *packed_block(const struct packed *p)
{
    return p->w;
}

const float *packed_of(const struct packed *p, uint32_t op)
{
    return p->of[op];
}
