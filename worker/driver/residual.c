#include "worker/driver/residual.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"

static void push_free(struct residual_push *p)
{
    if (!p)
        return;
    mem_free(p->waits);
    mem_free(p->weight);
    mem_free(p->carries);
    mem_free(p->left);
    mem_free(p->carried);
    mem_free(p->body);
    mem_free(p->run);
    mem_free(p);
}

static struct residual_push *push_new(const struct plan *plan)
{
    struct residual_push *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->waits = mem_zalloc(plan->chunks, sizeof *p->waits);
    p->weight = mem_zalloc(plan->chunks, sizeof *p->weight);
    p->carries = mem_zalloc(plan->chunks, sizeof *p->carries);
    p->left = mem_floats(plan->elems);
    p->carried = mem_floats(plan->elems);
    p->body = mem_floats(plan->elems);
    p->run = mem_zalloc(plan->chunks, sizeof *p->run);
    if (p->waits && p->weight && p->carries && p->left && p->carried && p->body && p->run)
        return p;
    push_free(p);
    return NULL;
}

enum err residual_new(struct residual **out, const struct plan *plan)
{
    struct residual *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return ERR_NOMEM;
    r->plan = plan;
    r->e = mem_floats(plan->elems);
    r->weight = mem_zalloc(plan->chunks, sizeof *r->weight);
    if (!r->e || !r->weight) {
        residual_free(r);
        return ERR_NOMEM;
    }
    *out = r;
    return ERR_OK;
}

void residual_free(struct residual *r)
{
    if (!r)
        return;
    while (r->pushes) {
        struct residual_push *p = r->pushes;
        r->pushes = p->next;
        push_free(p);
    }
    mem_free(r->e);
    mem_free(r->weight);
    mem_free(r);
}

static bool same(const struct residual_name *a, const struct residual_name *b)
{
    return a->name == b->name && a->remainder == b->remainder && a->node.level == b->node.level &&
           a->node.index == b->node.index;
}

/* True for a push that is settled and belongs to another task: its memory can be reused. */
static bool is_over(const struct residual_push *p, const struct residual_name *running)
{
    return p->open == 0 &&
           (p->name.name != running->name || p->name.remainder != running->remainder);
}

struct residual_push *residual_push(struct residual *r, const struct residual_name *name)
{
    struct residual_push *free = NULL;
    for (struct residual_push *p = r->pushes; p; p = p->next) {
        if (same(&p->name, name))
            return p;
        if (is_over(p, name))
            free = p;
    }
    if (!free) {
        free = push_new(r->plan);
        if (!free)
            return NULL;
        free->next = r->pushes;
        r->pushes = free;
    }
    free->name = *name;
    free->number = ++r->numbers;
    memset(free->run, 0, r->plan->chunks * sizeof *free->run);
    return free;
}

/* ---- one chunk ---- */

struct span {
    uint64_t at;
    size_t elems;
};

static struct span span_of(const struct residual *r, uint32_t chunk)
{
    return (struct span){plan_chunk_elem(r->plan, chunk),
                         (size_t)plan_run_elems(r->plan, chunk, 1)};
}

/* Add what is left, or what comes back, to e. */
static void keep(struct residual *r, uint32_t chunk, const float *x, double weight)
{
    struct span s = span_of(r, chunk);
    float *e = r->e + s.at;
    if (weight <= 0)
        return;
    if (r->weight[chunk] <= 0) {
        memcpy(e, x + s.at, s.elems * sizeof *e);
        r->weight[chunk] = weight;
        return;
    }
    float ratio = (float)(r->weight[chunk] / weight);
    for (size_t i = 0; i < s.elems; i++)
        e[i] += ratio * x[s.at + i];
}

static void carry(struct residual *r, struct residual_push *push, uint32_t chunk, const float *g,
                  double weight)
{
    struct span s = span_of(r, chunk);
    float *p = push->left + s.at, *carried = push->carried + s.at;
    push->open += !push->waits[chunk];
    push->waits[chunk] = true;
    push->carries[chunk] = push->weight[chunk] = 0;
    if (weight <= 0 || r->weight[chunk] <= 0) {
        memcpy(p, g, s.elems * sizeof *p);
        return;
    }
    if (r->weight[chunk] < weight || r->weight[chunk] > weight)
        kernels()->scale(carried, r->e + s.at, (float)(weight / r->weight[chunk]), s.elems);
    else
        memcpy(carried, r->e + s.at, s.elems * sizeof *carried);
    kernels()->add(p, g, carried, s.elems);
    push->carries[chunk] = weight;
    r->weight[chunk] = 0;
}

void residual_carry(struct residual *r, struct residual_push *push, uint32_t first, uint32_t chunks,
                    const float *g, double weight)
{
    for (uint32_t c = first; c < first + chunks; c++) {
        carry(r, push, c, g, weight);
        g += plan_run_elems(r->plan, c, 1);
    }
}

void residual_sent(struct residual *r, struct residual_push *push, uint32_t first, uint32_t chunks,
                   const float *sent, double weight)
{
    for (uint32_t c = first; c < first + chunks; c++) {
        struct span s = span_of(r, c);
        float *left = push->left + s.at;
        for (size_t i = 0; i < s.elems; i++) {
            float d = left[i] - sent[i];
            /* a statistic is sent unchanged, whatever its value */
            left[i] = isfinite(d) ? d : 0.0f;
        }
        push->weight[c] = weight;
        sent += s.elems;
    }
}

void residual_give_back(struct residual *r, struct residual_push *push, uint32_t first,
                        uint32_t chunks)
{
    for (uint32_t c = first; c < first + chunks; c++) {
        keep(r, c, push->carried, push->carries[c]);
        push->carries[c] = push->weight[c] = 0;
    }
}

void residual_settle(struct residual *r, struct residual_push *push, uint32_t chunk, bool taken)
{
    if (!push->waits[chunk])
        return;
    if (taken)
        keep(r, chunk, push->left, push->weight[chunk]);
    else
        keep(r, chunk, push->carried, push->carries[chunk]);
    push->waits[chunk] = false;
    push->carries[chunk] = push->weight[chunk] = 0;
    push->open--;
}

bool residual_any(const struct residual *r)
{
    for (uint32_t c = 0; c < r->plan->chunks; c++) {
        if (r->weight[c] > 0)
            return true;
        for (const struct residual_push *p = r->pushes; p; p = p->next)
            if (p->waits[c] && (p->weight[c] > 0 || p->carries[c] > 0))
                return true;
    }
    return false;
}
