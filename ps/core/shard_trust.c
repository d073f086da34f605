/* lamb in a commit round: the report has the sums from which the chief computes each tensor's trust ratio; the decision has
 * the ratios. Before the decision the shard only computes sums, from the present slots, and changes nothing. The complete
 * update comes after the decision. So a cut or a new chief in between finds the state at the beginning of the step. */
#include <assert.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/parameters/norm.h"
#include "ps/core/shard_state.h"

struct shard_trust {
    uint32_t *first; /* (chunks + 1) the first piece of each chunk */
    double *sums;    /* TRUST_SUMS of each piece */
    float *room;     /* (3, SHARD_SUM_ELEMS): direction, decayed weights, accumulated gradients */
};

enum err shard_trust_init(struct shard *s)
{
    if (!optimizer_is_trusted(&s->optimizer))
        return ERR_OK;
    struct shard_trust *t = s->sync.round.trust = mem_zalloc(1, sizeof *t);
    if (!t)
        return ERR_NOMEM;
    t->first = mem_zalloc(s->me.chunks + 1, sizeof *t->first);
    t->room = mem_floats(3 * (size_t)SHARD_SUM_ELEMS);
    s->sync.round.last.ratio = mem_floats(s->layout.tensors);
    if (!t->first || !t->room || !s->sync.round.last.ratio)
        return ERR_NOMEM;
    trust_index(&s->layout, &s->plan, s->me.first_chunk, s->me.chunks, t->first);
    t->sums = mem_zalloc(TRUST_SUMS * (size_t)t->first[s->me.chunks] + 1, sizeof *t->sums);
    return t->sums ? ERR_OK : ERR_NOMEM;
}

void shard_trust_close(struct shard *s)
{
    struct shard_trust *t = s->sync.round.trust;
    mem_free(s->sync.round.last.ratio);
    if (t) {
        mem_free(t->first);
        mem_free(t->sums);
        mem_free(t->room);
    }
    mem_free(t);
}

/* Add the sums of elements [at, at + elems) of the shard; g (elems) is their gradient. */
static void piece_sums(struct shard *s, bool undecayed, uint64_t at, uint64_t elems, const float *g,
                       float inv_n, float scale, double out[TRUST_SUMS])
{
    const struct optimizer *o = undecayed ? &s->optimizer_undecayed : &s->optimizer;
    float *u = s->sync.round.trust->room, *decayed = u + SHARD_SUM_ELEMS;
    float *room = decayed + SHARD_SUM_ELEMS;
    for (uint64_t i = 0; i < elems; i += SHARD_SUM_ELEMS) {
        size_t n = elems - i < SHARD_SUM_ELEMS ? (size_t)(elems - i) : SHARD_SUM_ELEMS;
        float *slot[OPTIMIZER_SLOTS_MAX] = {0}, part = inv_n;
        for (uint32_t k = 0; k < s->slots; k++)
            slot[k] = s->slot[k] + at + i;
        const float *all = optimizer_gradient(o, s->t + 1, room, slot, g + i, &part, n);
        if (!all)
            return;
        optimizer_direction(o, s->t + 1, u, decayed, s->block[s->now] + at + i, slot, all,
                            part * scale, n);
        out[0] += kernels()->sum_squares(decayed, n);
        out[1] += kernels()->sum_squares(u, n);
    }
}

void shard_trust_sum(struct shard *s, uint32_t chunk, const float *g, uint64_t examples,
                     float scale)
{
    struct shard_trust *t = s->sync.round.trust;
    if (!t)
        return;
    double *out = t->sums + TRUST_SUMS * (size_t)t->first[chunk];
    memset(out, 0, TRUST_SUMS * (size_t)(t->first[chunk + 1] - t->first[chunk]) * sizeof *out);
    if (examples == 0)
        return;
    uint64_t begin = s->me.first_elem + shard_chunk_at(s, chunk), at = begin;
    uint64_t end = s->me.first_elem + shard_chunk_at(s, chunk + 1);
    for (struct trust_piece p; trust_next(&s->layout, &at, end, &p); out += TRUST_SUMS)
        piece_sums(s, s->layout.tensor[p.tensor].undecayed, p.first - s->me.first_elem, p.elems,
                   g + (p.first - begin), 1.0f / (float)examples, scale, out);
}

void shard_trust_scale(struct shard *s, float scale)
{
    assert(s->sync.round.trust && !s->sync.round.scaled && !s->before_there);
    const float *sums = s->block[!s->now];
    s->sync.round.scaled = true;
    s->sync.round.scale = scale;
    for (uint32_t c = 0; c < s->me.chunks; c++)
        shard_trust_sum(s, c, sums + shard_chunk_at(s, c), (uint64_t)s->sync.examples, scale);
}

void shard_trust_report(const struct shard *s, Gradwire__StepReport *m)
{
    const struct shard_trust *t = s->sync.round.trust;
    if (t && m->summed) {
        m->trust = t->sums;
        m->n_trust = TRUST_SUMS * (size_t)t->first[s->me.chunks];
    }
    if (t && m->last) {
        m->last->ratios = s->sync.round.last.ratio;
        m->last->n_ratios = s->layout.tensors;
    }
}

bool shard_trust_decide(struct shard *s, const Gradwire__StepDecision *m)
{
    if (!s->sync.round.trust)
        return true;
    if (m->n_ratios != s->layout.tensors)
        return false;
    memcpy(s->sync.round.last.ratio, m->ratios, m->n_ratios * sizeof *m->ratios);
    return true;
}
