/* Local SGD on a shard: the optimizer runs at the workers, and what they push is a difference of parameters that is
 * added, once for each (worker, incarnation, round) and chunk. A round names the batches that are in it: with the round
 * they are resolved. In async with error feedback a round is what a worker withheld, and no batch. */
#include <inttypes.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "ps/core/shard_state.h"

struct geo {
    struct geo *next;
    uint32_t worker;
    uint64_t incarnation;
    uint64_t rounds; /* that are added whole */
    uint32_t added;  /* chunks of the next one */
    uint8_t *there;  /* which, as bits */
};

static struct geo *find(const struct shard *s, uint32_t worker)
{
    struct geo *g = s->geo;
    while (g && g->worker != worker)
        g = g->next;
    return g;
}

static size_t bytes_of(const struct shard *s)
{
    return ((size_t)s->me.chunks + 7) / 8;
}

enum err shard_geo_join(struct shard *s, uint32_t worker, uint64_t incarnation)
{
    bool rounds = s->update == UPDATE_GEO || (s->update == UPDATE_ASYNC && s->feedback);
    if (!rounds || s->me.chunks == 0)
        return ERR_OK;
    struct geo *g = find(s, worker);
    if (!g) {
        g = mem_zalloc(1, sizeof *g);
        uint8_t *there = mem_zalloc(bytes_of(s), 1);
        if (!g || !there) {
            mem_free(g);
            mem_free(there);
            return ERR_NOMEM;
        }
        *g = (struct geo){.next = s->geo, .worker = worker, .there = there};
        s->geo = g;
    }
    if (incarnation > g->incarnation) {
        g->incarnation = incarnation;
        g->rounds = 0;
        g->added = 0;
        memset(g->there, 0, bytes_of(s));
    }
    return ERR_OK;
}

void shard_geo_close(struct shard *s)
{
    while (s->geo) {
        struct geo *g = s->geo;
        s->geo = g->next;
        mem_free(g->there);
        mem_free(g);
    }
}

static enum err check_ids(const struct shard *s, const Gradwire__Push *m, struct errmsg *e)
{
    uint64_t mark = s->once.resolved.mark;
    for (size_t i = 0; i < m->n_ids; i++) {
        const Gradwire__Range *r = m->ids[i];
        if (r->count > IDS_WINDOW || (r->first >= mark && r->first - mark > IDS_WINDOW - r->count))
            return err_set(e, ERR_PROTO, "batches %" PRIu64 " + %" PRIu64 " are beyond the window",
                           (uint64_t)r->first, (uint64_t)r->count);
    }
    return ERR_OK;
}

static enum err resolve(struct shard *s, const Gradwire__Push *m, struct errmsg *e)
{
    for (size_t i = 0; i < m->n_ids; i++)
        for (uint64_t k = 0; k < m->ids[i]->count; k++)
            if (ids_add(&s->once.resolved, m->ids[i]->first + k))
                return err_set(e, ERR_PROTO, "a batch is beyond the window");
    s->step = s->t = s->once.resolved.count;
    return ERR_OK;
}

static void add_epochs(struct shard *s, const Gradwire__Push *m)
{
    for (size_t i = 0; i < m->n_epochs; i++) {
        const Gradwire__EpochSums *from = m->epochs[i];
        double sums[GATE_SUMS_MAX] = {from->loss};
        for (size_t k = 0; k < from->n_metric && k + 1 < GATE_SUMS_MAX; k++)
            sums[1 + k] = from->metric[k];
        shard_add_epoch_sums(s, from->epoch, from->batches, from->examples, sums);
    }
}

static bool add_chunk(struct shard *s, struct geo *g, uint32_t chunk, const float *delta,
                      uint64_t elems)
{
    uint8_t mask = (uint8_t)(1u << (chunk % 8));
    if (g->there[chunk / 8] & mask)
        return false;
    g->there[chunk / 8] |= mask;
    g->added++;
    uint64_t at = shard_chunk_at(s, chunk);
    float *w = s->block[0] + at;
    s->io->before_write(s->ctx, w, elems);
    if (s->update == UPDATE_GEO)
        kernels()->add(w, w, delta, elems);
    else
        shard_apply_remainder(s, s->chunk_t[chunk], at, elems, delta);
    return true;
}

static enum err add(struct shard *s, struct geo *g, const Gradwire__Push *m, const float *delta,
                    uint32_t *added, struct errmsg *e)
{
    uint32_t first = m->first_chunk - s->me.first_chunk;
    for (uint32_t c = first; c < first + m->chunks; c++) {
        uint64_t elems = plan_run_elems(&s->plan, s->me.first_chunk + c, 1);
        if (add_chunk(s, g, c, delta, elems)) {
            ++*added;
            if (s->me.first_chunk + c == 0)
                add_epochs(s, m);
        }
        delta += elems;
    }
    if (g->added < s->me.chunks)
        return ERR_OK;
    g->rounds++;
    g->added = 0;
    memset(g->there, 0, bytes_of(s));
    return s->update == UPDATE_GEO ? resolve(s, m, e) : ERR_OK;
}

enum err shard_geo_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e)
{
    struct geo *g = find(s, peer->worker);
    uint32_t added = 0;
    if (!g || m->name > g->rounds + 1)
        return err_set(e, ERR_PROTO, "round %" PRIu64 " of worker %u comes out of turn",
                       (uint64_t)m->name, peer->worker);
    enum err err = check_ids(s, m, e);
    if (!err && body && m->name == g->rounds + 1)
        err = add(s, g, m, body->data, &added, e);
    if (err)
        return err;
    s->duplicates += added == 0;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step;
    reply.name = m->name;
    reply.remainder = m->remainder;
    reply.outcome = added ? GRADWIRE__OUTCOME__APPLIED : GRADWIRE__OUTCOME__DUPLICATE;
    shard_send(s, peer, &reply, s->block[0], m->first_chunk - s->me.first_chunk, m->chunks);
    return ERR_OK;
}

/* What any shard has, or nobody will ever push again, is resolved here too. */
void shard_geo_adopt(struct shard *s, const Gradwire__CutAt *m)
{
    struct ids all;
    if (ids_unpack(&all, m->mark, m->window.data, m->window.len))
        return; /* the chief sees that the shards differ */
    s->once.resolved = all;
    s->step = s->t = all.count;
}
