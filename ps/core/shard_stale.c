/* A shard's record of each worker in async mode: for each chunk and part that it has sent to the worker, how many
 * updates the values contained. The staleness of the worker's next push follows from these numbers. With delay
 * compensation the shard also keeps the values, one copy per worker. Formulas: DC-ASGD (Zheng et al. 2017, eq. 10),
 * staleness-aware rates (Zhang et al. 2016: eta / tau). */
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

struct stale {
    struct stale *next;
    uint32_t worker;
    uint64_t *seen_t; /* (chunks) updates of each chunk when it was last sent */
    uint64_t seen_part_t[ROW_PARTS];
    float *seen; /* (elems) last values sent; NULL without delay compensation */
    struct staleness counted;
};

static struct stale *find(const struct shard *s, uint32_t worker)
{
    struct stale *of = s->async.stale;
    while (of && of->worker != worker)
        of = of->next;
    return of;
}

static void stale_free(struct stale *of)
{
    mem_free(of->seen_t);
    mem_free(of->seen);
    mem_free(of);
}

bool shard_stale_takes(const Gradwire__Settings *m)
{
    return m->delay_compensation >= 0.0f;
}

const char *shard_stale_refused(const Gradwire__Settings *m)
{
    return m->delay_compensation > 0.0f ? "delay_compensation" : NULL;
}

const char *shard_stale_laid_out_otherwise(const struct shard *s, const Gradwire__Settings *m)
{
    bool copies = s->settings.delay_compensation > 0.0f;
    return copies == (m->delay_compensation > 0.0f) ? NULL : "training.delay_compensation";
}

enum err shard_stale_join(struct shard *s, uint32_t worker, uint64_t incarnation)
{
    (void)incarnation;
    if (!s->planned || find(s, worker))
        return ERR_OK;
    struct stale *of = mem_zalloc(1, sizeof *of);
    if (!of)
        return ERR_NOMEM;
    bool copies = s->settings.delay_compensation > 0.0f;
    of->worker = worker;
    of->seen_t = mem_zalloc(s->me.chunks, sizeof *of->seen_t);
    of->seen = copies ? mem_floats(s->me.elems) : NULL;
    if (!of->seen_t || (copies && !of->seen)) {
        stale_free(of);
        return ERR_NOMEM;
    }
    of->next = s->async.stale;
    s->async.stale = of;
    return ERR_OK;
}

void shard_stale_close(struct shard *s)
{
    while (s->async.stale) {
        struct stale *of = s->async.stale;
        s->async.stale = of->next;
        stale_free(of);
    }
}

void shard_stale_sent(struct shard *s, uint32_t worker, uint32_t first, uint32_t count)
{
    struct stale *of = find(s, worker);
    if (!of)
        return;
    assert(first + count <= s->me.chunks);
    memcpy(of->seen_t + first, s->async.chunk_t + first, count * sizeof *of->seen_t);
    if (!of->seen)
        return;
    uint64_t at = plan_chunk_elem(&s->plan, s->me.first_chunk + first) - s->me.first_elem;
    uint64_t elems = plan_run_elems(&s->plan, s->me.first_chunk + first, count);
    memcpy(of->seen + at, s->block[0] + at, elems * sizeof(float));
}

/* out = m + lambda m m (w - seen), m = g * inv_n; for a statistic out = m. */
static void compensate(const struct shard *s, const struct stale *of, uint64_t at, size_t n,
                       const float *g, float inv_n, float *out)
{
    uint64_t first = s->me.first_elem + at, end = first + n;
    uint32_t i = layout_find(&s->layout, first);
    for (uint64_t begin = first; begin < end; i++) {
        uint64_t stop = layout_end(&s->layout, i) < end ? layout_end(&s->layout, i) : end;
        bool weight = s->layout.tensor[i].role == TENSOR_WEIGHT;
        const float *w = s->block[0] + at, *seen = of->seen + at;
        for (size_t k = (size_t)(begin - first); k < (size_t)(stop - first); k++) {
            float m = g[k] * inv_n;
            out[k] = weight ? m + s->settings.delay_compensation * m * m * (w[k] - seen[k]) : m;
        }
        begin = stop;
    }
}

uint64_t shard_stale_divisor(const struct shard *s, uint64_t staleness)
{
    return s->settings.staleness_rate ? staleness : 0;
}

void shard_stale_apply(struct shard *s, uint32_t worker, uint32_t chunk, const float *g,
                       uint32_t examples)
{
    if (examples == 0)
        return;
    uint64_t at = shard_chunk_at(s, chunk), elems = shard_chunk_at(s, chunk + 1) - at;
    float *w = s->block[0] + at, inv_n = 1.0f / (float)examples;
    struct stale *of = find(s, worker);
    uint64_t tau = of ? s->async.chunk_t[chunk] - of->seen_t[chunk] : 0;
    assert(!of || of->seen_t[chunk] <= s->async.chunk_t[chunk]);
    assert(!of || (of->seen != NULL) == (s->settings.delay_compensation > 0.0f));
    if (of && chunk == 0)
        staleness_add(&of->counted, tau);
    uint64_t t = ++s->async.chunk_t[chunk];
    struct shard_update u = {
        .t = t, .inv_n = inv_n, .scale = 1.0f, .staleness = shard_stale_divisor(s, tau)};
    s->io->before_write(s->ctx, w, elems);
    if (!of || !of->seen) {
        shard_apply(s, &u, at, elems, w, w, g);
        return;
    }
    u.inv_n = 1.0f;
    float mended[SHARD_SUM_ELEMS];
    for (uint64_t i = 0; i < elems; i += SHARD_SUM_ELEMS) {
        size_t n = elems - i < SHARD_SUM_ELEMS ? (size_t)(elems - i) : SHARD_SUM_ELEMS;
        compensate(s, of, at + i, n, g + i, inv_n, mended);
        shard_apply(s, &u, at + i, n, w + i, w + i, mended);
    }
}

void shard_stale_rows_sent(struct shard *s, uint32_t worker)
{
    struct stale *of = find(s, worker);
    if (of)
        memcpy(of->seen_part_t, s->async.part_t, sizeof of->seen_part_t);
}

uint64_t shard_stale_part(const struct shard *s, uint32_t worker, uint32_t part)
{
    const struct stale *of = find(s, worker);
    assert(part < ROW_PARTS && (!of || of->seen_part_t[part] <= s->async.part_t[part]));
    return of ? s->async.part_t[part] - of->seen_part_t[part] : 0;
}

void shard_stale_part_count(struct shard *s, uint32_t worker, uint32_t part, uint64_t staleness)
{
    struct stale *of = s->me.chunks == 0 && part == 0 ? find(s, worker) : NULL;
    if (of)
        staleness_add(&of->counted, staleness);
}

enum err shard_stale_status(struct shard *s, Gradwire__ShardStatus *m)
{
    size_t n = 0;
    for (const struct stale *of = s->async.stale; of; of = of->next)
        n++;
    Gradwire__WorkerStaleness *list = n ? mem_resize(s->async.staleness, n, sizeof *list) : NULL;
    Gradwire__WorkerStaleness **at = n ? mem_resize(s->async.staleness_at, n, sizeof *at) : NULL;
    s->async.staleness = list ? list : s->async.staleness;
    s->async.staleness_at = at ? at : s->async.staleness_at;
    if (n && (!list || !at))
        return ERR_NOMEM;
    n = 0;
    for (struct stale *of = s->async.stale; of; of = of->next) {
        Gradwire__WorkerStaleness *to = at[n] = &list[n];
        gradwire__worker_staleness__init(to);
        to->worker = of->worker;
        to->count = of->counted.count;
        to->sum = of->counted.sum;
        to->max = of->counted.max;
        to->histogram = of->counted.bucket;
        to->n_histogram = STALENESS_BUCKETS;
        n++;
    }
    m->staleness = at;
    m->n_staleness = n;
    return ERR_OK;
}
