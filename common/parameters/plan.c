#include "common/parameters/plan.h"

#include <assert.h>

#include "common/base/mem.h"

static uint32_t chunk_elems_for(uint64_t elems)
{
    uint64_t bytes = (elems * sizeof(float) + PLAN_CHUNKS_WANTED - 1) / PLAN_CHUNKS_WANTED;
    bytes = (bytes + PLAN_CHUNK_MIN_BYTES - 1) / PLAN_CHUNK_MIN_BYTES * PLAN_CHUNK_MIN_BYTES;
    if (bytes > PLAN_CHUNK_MAX_BYTES)
        bytes = PLAN_CHUNK_MAX_BYTES;
    assert(bytes % PLAN_CHUNK_MIN_BYTES == 0);
    /* at most the wanted number of chunks */
    assert(bytes == PLAN_CHUNK_MAX_BYTES || elems * sizeof(float) <= PLAN_CHUNKS_WANTED * bytes);
    assert(bytes == PLAN_CHUNK_MIN_BYTES ||
           elems * sizeof(float) > PLAN_CHUNKS_WANTED * (bytes - PLAN_CHUNK_MIN_BYTES));
    return (uint32_t)(bytes / sizeof(float));
}

/* Checks that the shards own all chunks, consecutively, in the order of ps and threads. */
static void check(const struct plan *p)
{
    uint32_t chunk = 0;
    for (uint32_t i = 0; i < p->shards; i++) {
        const struct plan_shard *s = &p->shard[i], *before = i ? s - 1 : NULL;
        assert(s->first_chunk == chunk && (s->chunks > 0 || p->tables));
        assert(s->first_elem == plan_chunk_elem(p, chunk));
        assert(!before || before->first_elem + before->elems == s->first_elem);
        assert(!before || s->ps > before->ps ||
               (s->ps == before->ps && s->thread > before->thread));
        chunk += s->chunks;
        (void)before;
    }
    assert(chunk == p->chunks && plan_chunk_elem(p, chunk) == p->elems);
    (void)chunk;
    assert(p->run_chunks == 1 ||
           p->run_chunks * (uint64_t)p->chunk_elems * sizeof(float) <= PLAN_RUN_BYTES);
    assert((p->run_chunks + 1) * (uint64_t)p->chunk_elems * sizeof(float) > PLAN_RUN_BYTES);
}

uint64_t plan_chunk_elem(const struct plan *p, uint32_t chunk)
{
    uint64_t elem = (uint64_t)chunk * p->chunk_elems;
    return elem < p->elems ? elem : p->elems;
}

uint64_t plan_run_elems(const struct plan *p, uint32_t first, uint32_t count)
{
    return plan_chunk_elem(p, first + count) - plan_chunk_elem(p, first);
}

/* The first chunk of thread `slot` among `all`. With tables it rounds up, so that thread 0, the lead, always owns
 * chunk 0. */
static uint32_t share_begin(const struct plan *p, uint64_t slot, uint64_t all)
{
    uint64_t chunks = p->chunks * slot;
    return (uint32_t)(p->tables ? (chunks + all - 1) / all : chunks / all);
}

static enum err make(struct plan *p, uint64_t elems, const uint32_t *threads, uint32_t ps,
                     bool tables, struct errmsg *e)
{
    struct plan plan = {.elems = elems, .tables = tables};
    uint64_t all = 0;
    for (uint32_t i = 0; i < ps; i++)
        all += threads[i];
    if (elems == 0 || elems > (UINT64_C(1) << 40))
        return err_set(e, ERR_INPUT, "the model has %llu parameters; allowed: 1 to 2^40",
                       (unsigned long long)elems);
    if (all == 0 || all > PLAN_SHARDS_MAX)
        return err_set(e, ERR_INPUT,
                       "%llu shard threads on %u ps; allowed: 1 to %d in total (ps.threads)",
                       (unsigned long long)all, ps, PLAN_SHARDS_MAX);
    plan.chunk_elems = chunk_elems_for(elems);
    plan.chunks = (uint32_t)((elems + plan.chunk_elems - 1) / plan.chunk_elems);
    plan.run_chunks = (uint32_t)(PLAN_RUN_BYTES / (plan.chunk_elems * sizeof(float)));
    if (plan.run_chunks == 0)
        plan.run_chunks = 1;
    plan.shard = mem_zalloc(all, sizeof *plan.shard);
    if (!plan.shard)
        return err_memory_for(e, "a plan of %llu shards", (unsigned long long)all);
    uint64_t slot = 0;
    for (uint32_t i = 0; i < ps; i++) {
        for (uint32_t thread = 0; thread < threads[i]; thread++, slot++) {
            uint32_t first = share_begin(&plan, slot, all);
            uint32_t end = share_begin(&plan, slot + 1, all);
            if (first == end && !tables)
                continue;
            plan.shard[plan.shards++] =
                (struct plan_shard){.ps = i,
                                    .thread = thread,
                                    .first_chunk = first,
                                    .chunks = end - first,
                                    .first_elem = plan_chunk_elem(&plan, first),
                                    .elems = plan_run_elems(&plan, first, end - first)};
        }
    }
    assert(plan.shards <= all);
    check(&plan);
    *p = plan;
    return ERR_OK;
}

enum err plan_init(struct plan *p, uint64_t elems, const uint32_t *threads, uint32_t ps,
                   struct errmsg *e)
{
    return make(p, elems, threads, ps, false, e);
}

enum err plan_init_tables(struct plan *p, uint64_t elems, const uint32_t *threads, uint32_t ps,
                          struct errmsg *e)
{
    return make(p, elems, threads, ps, true, e);
}

void plan_close(struct plan *p)
{
    mem_free(p->shard);
    *p = (struct plan){0};
}
