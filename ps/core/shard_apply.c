/* The update of a shard's parameters, tensor by tensor. The optimizer updates weights. Statistics (of normalization layers)
 * are moving averages, without optimizer, clipping and decay. */
#include <assert.h>
#include <string.h>

#include "common/math/kernels.h"
#include "ps/core/shard_state.h"

/* True: the two neighbouring tensors can be updated by one call. With lamb each tensor has its own ratio. */
static bool alike(const struct shard *s, const struct tensor *a, const struct tensor *b)
{
    return !optimizer_is_trusted(&s->optimizer) && a->role == TENSOR_WEIGHT &&
           b->role == TENSOR_WEIGHT && a->undecayed == b->undecayed;
}

/* r = m r + (1 - m) s, s the mean over examples. With m = 1 the bits of r stay, also those of -0. */
static void average(float *to, const float *from, const float *g, float inv_n, float momentum,
                    size_t n)
{
    if (momentum == 1.0f) {
        memmove(to, from, n * sizeof *to);
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = momentum * from[i] + (1.0f - momentum) * (g[i] * inv_n);
}

/* of: elements [first, first + n) of the layout. */
static void clear_gaps(const struct layout *l, uint64_t first, size_t n, float *of)
{
    uint64_t end = first + n;
    for (uint32_t i = layout_find(l, first); i < l->tensors; i++) {
        uint64_t begin = l->tensor[i].offset_elems + l->tensor[i].elems;
        uint64_t stop = layout_end(l, i) < end ? layout_end(l, i) : end;
        if (l->tensor[i].offset_elems >= end)
            return;
        if (begin < first)
            begin = first;
        if (begin < stop)
            memset(of + (begin - first), 0, (size_t)(stop - begin) * sizeof *of);
    }
}

/* Weights and gradients are 0 in the gaps between tensors, and an optimizer without an epsilon makes 0 / 0 of them. */
static void update(const struct layout *l, uint64_t first, const struct optimizer *o, uint64_t t,
                   struct optimizer_factors f, float *to, const float *from,
                   float *const slot[OPTIMIZER_SLOTS_MAX], const float *g, size_t n)
{
    optimizer_apply(o, t, f, to, from, slot, g, n);
    if (!optimizer_divides_zeros(o))
        return;
    clear_gaps(l, first, n, to);
    for (uint32_t i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        if (slot[i])
            clear_gaps(l, first, n, slot[i]);
}

void shard_apply(struct shard *s, const struct shard_update *u, uint64_t at, size_t n, float *to,
                 const float *from, const float *g)
{
    uint64_t first = s->me.first_elem + at, end = first + n;
    assert(s->mode->optimizes && u->t > 0 && at + n <= s->me.elems);
    uint32_t i = layout_find(&s->layout, first);
    for (uint64_t begin = first; begin < end; i++) {
        uint32_t last = i;
        const struct tensor *tensor = &s->layout.tensor[i];
        while (layout_end(&s->layout, last) < end && alike(s, tensor, &s->layout.tensor[last + 1]))
            last++;
        uint64_t stop = layout_end(&s->layout, last) < end ? layout_end(&s->layout, last) : end;
        size_t k = (size_t)(begin - first), elems = (size_t)(stop - begin);
        float *slot[OPTIMIZER_SLOTS_MAX] = {0};
        for (uint32_t j = 0; j < s->slots; j++)
            slot[j] = s->slot[j] + at + k;
        if (s->average.on)
            slot[s->average.slot] = shard_average_at(s, at + k, elems);
        if (tensor->role == TENSOR_STATISTIC) {
            average(to + k, from + k, g + k, u->inv_n, tensor->momentum, elems);
            if (s->average.on)
                memcpy(slot[s->average.slot], to + k, elems * sizeof *to);
        } else {
            struct optimizer optimizer = tensor->undecayed ? s->optimizer_undecayed : s->optimizer;
            optimizer.staleness = u->staleness;
            const struct optimizer_factors f = {u->inv_n, u->scale, u->ratio ? u->ratio[i] : 1.0f};
            update(&s->layout, begin, &optimizer, u->t, f, to + k, from + k, slot, g + k, elems);
        }
        begin = stop;
        i = last;
    }
}

/* Add a withheld gradient e to the last update, which used g alone. With momentum the result equals
 * v = m v - lr (g + e) and w + v; with nesterov w + m v - lr (g + e). */
static void add_remainder(float *w, float *v, const float *mean, float lr, float momentum,
                          bool nesterov, size_t n)
{
    float of_w = nesterov ? -(1.0f + momentum) * lr : -lr;
    kernels()->add_scaled(w, mean, of_w, n);
    if (v)
        kernels()->add_scaled(v, mean, -lr, n);
}

void shard_apply_remainder(struct shard *s, uint64_t t, uint64_t at, size_t n, const float *mean)
{
    const struct optimizer *o = &s->optimizer;
    uint64_t first = s->me.first_elem + at, end = first + n;
    float lr = (float)optimizer_rate(o, t ? t : 1);
    uint32_t i = layout_find(&s->layout, first);
    for (uint64_t begin = first; begin < end; i++) {
        uint64_t stop = layout_end(&s->layout, i) < end ? layout_end(&s->layout, i) : end;
        uint64_t k = begin - first;
        if (s->layout.tensor[i].role != TENSOR_STATISTIC)
            add_remainder(s->block[0] + at + k, o->momentum > 0 ? s->slot[0] + at + k : NULL,
                          mean + k, lr, o->momentum, o->nesterov, (size_t)(stop - begin));
        begin = stop;
    }
}
