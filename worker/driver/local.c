#include "worker/driver/local.h"

#include <string.h>

#include "common/base/mem.h"

enum err local_new(struct local **out, const struct layout *layout, const struct optimizer *o,
                   struct errmsg *e)
{
    struct local *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return err_memory_for(e, "local training");
    l->layout = layout;
    l->old = mem_floats(layout->elems);
    l->server = mem_floats(layout->elems);
    l->round.value = mem_floats(layout->elems);
    bool there = l->old && l->server && l->round.value;
    for (uint32_t i = 0; i < optimizer_slots(o); i++) {
        l->slot[i] = mem_floats(layout->elems);
        there = there && l->slot[i];
    }
    if (!there) {
        local_free(l);
        return err_memory_for(e, "local training: %u blocks of parameters", 3 + optimizer_slots(o));
    }
    local_reset(l, o);
    *out = l;
    return ERR_OK;
}

void local_free(struct local *l)
{
    if (!l)
        return;
    mem_free(l->old);
    mem_free(l->server);
    mem_free(l->round.value);
    for (uint32_t i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        mem_free(l->slot[i]);
    mem_free(l);
}

void local_reset(struct local *l, const struct optimizer *o)
{
    l->optimizer = *o;
    l->t = 0;
    l->updates = 0;
    l->epochs = 0;
    for (uint32_t i = 0; i < optimizer_slots(&l->optimizer); i++)
        for (uint64_t k = 0; k < l->layout->elems; k++)
            l->slot[i][k] = optimizer_slot_initial(&l->optimizer, i);
}

/* ---- the update ---- */

static void add_sums(struct local *l, const struct gradient_node *n, uint64_t epoch)
{
    struct epoch_sums *to = NULL;
    for (size_t i = 0; i < l->epochs; i++)
        if (l->epoch[i].epoch == epoch)
            to = &l->epoch[i];
    if (!to && l->epochs == LOCAL_EPOCHS)
        return; /* cannot happen: the session ends a round sooner */
    if (!to) {
        to = &l->epoch[l->epochs++];
        *to = (struct epoch_sums){.epoch = epoch};
    }
    to->batches++;
    to->examples += n->sums.examples;
    to->loss += n->sums.loss;
    for (int i = 0; i < SUMS_MAX; i++)
        to->metric[i] += n->sums.metric[i];
}

/* r = m r + (1 - m) s, with s the mean over examples; the same for what is added since the last round. */
static void average(float *r, float *added, const float *s, float inv_n, float momentum, size_t n)
{
    if (momentum == 1.0f) /* the bits of r stay, also those of -0 */
        return;
    for (size_t i = 0; i < n; i++) {
        float more = (1.0f - momentum) * (s[i] * inv_n);
        r[i] = momentum * r[i] + more;
        added[i] = momentum * added[i] + more;
    }
}

static void update(struct local *l, const struct optimizer *o, const struct tensor *tensor,
                   float *w, const float *g, float inv_n)
{
    uint64_t at = tensor->offset_elems;
    struct optimizer own = *o;
    float *slot[OPTIMIZER_SLOTS_MAX] = {0};
    if (tensor->role == TENSOR_STATISTIC) {
        average(w + at, l->old + at, g + at, inv_n, tensor->momentum, tensor->elems);
        return;
    }
    if (tensor->undecayed)
        own.weight_decay = 0.0f;
    for (uint32_t i = 0; i < optimizer_slots(o); i++)
        slot[i] = l->slot[i] + at;
    optimizer_apply(&own, l->t, (struct optimizer_factors){inv_n, 1, 1}, w + at, w + at, slot,
                    g + at, tensor->elems);
}

void local_step(struct local *l, float *w, const struct gradient_node *n, uint64_t id,
                uint64_t epoch)
{
    add_sums(l, n, epoch);
    if (n->examples == 0)
        return;
    /* The slots' age and the schedule's step differ, so the rate is computed here and passed as a constant. */
    struct optimizer o = l->optimizer;
    o.learning_rate = (float)optimizer_rate(&l->optimizer, id + 1);
    o.schedule = (struct schedule){.kind = SCHEDULE_CONSTANT};
    l->t++;
    l->updates++;
    for (uint32_t i = 0; i < l->layout->tensors; i++)
        update(l, &o, &l->layout->tensor[i], w, n->value, 1.0f / (float)n->examples);
}

/* ---- rounds ---- */

static void take_part(const struct local *l, const float *w, float part, uint64_t at, uint64_t n)
{
    float *delta = l->round.value;
    for (uint64_t i = at; i < at + n; i++) {
        delta[i] = (w[i] - l->old[i]) * part;
        l->old[i] += delta[i];
    }
}

void local_round(struct local *l, const float *w, float part)
{
    for (uint32_t i = 0; i < l->layout->tensors; i++) {
        const struct tensor *t = &l->layout->tensor[i];
        uint64_t at = t->offset_elems;
        if (t->role == TENSOR_STATISTIC)
            memcpy(l->round.value + at, l->old + at, t->elems * sizeof *w);
        else
            take_part(l, w, part, at, t->elems);
    }
}

/* A worker's own moving averages are only for evaluation: no gradient depends on them. */
static void take_statistics(struct local *l, float *w)
{
    for (uint32_t i = 0; i < l->layout->tensors; i++) {
        const struct tensor *t = &l->layout->tensor[i];
        uint64_t at = t->offset_elems;
        if (t->role != TENSOR_STATISTIC)
            continue;
        memcpy(w + at, l->server + at, t->elems * sizeof *w);
        memset(l->old + at, 0, t->elems * sizeof *w);
    }
}

void local_merge(struct local *l, float *w, bool fresh)
{
    if (fresh)
        memcpy(w, l->server, l->layout->elems * sizeof *w);
    else
        for (uint64_t i = 0; i < l->layout->elems; i++)
            w[i] += l->server[i] - l->old[i];
    memcpy(l->old, l->server, l->layout->elems * sizeof *w);
    take_statistics(l, w);
    l->updates = 0;
    l->epochs = 0;
}
