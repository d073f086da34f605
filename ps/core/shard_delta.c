#include "ps/core/shard_state.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"

struct delta {
    struct delta *next;
    uint32_t worker;
    uint64_t incarnation;
    uint64_t rounds; /* completely added ones */
    uint32_t added;  /* chunks of the next round that are added */
    uint8_t *there;  /* a bit for each of them */
};

static struct delta *find(const struct shard *s, uint32_t worker)
{
    struct delta *of = s->deltas;
    while (of && of->worker != worker)
        of = of->next;
    return of;
}

static size_t bytes_of(const struct shard *s)
{
    return ((size_t)s->me.chunks + 7) / 8;
}

static void begin_round(const struct shard *s, struct delta *of)
{
    of->added = 0;
    memset(of->there, 0, bytes_of(s));
}

enum err shard_delta_join(struct shard *s, uint32_t worker, uint64_t incarnation)
{
    struct delta *of = find(s, worker);
    if (!s->planned)
        return ERR_OK;
    if (!of) {
        of = mem_zalloc(1, sizeof *of);
        uint8_t *there = mem_zalloc(bytes_of(s), 1);
        if (!of || !there) {
            mem_free(of);
            mem_free(there);
            return ERR_NOMEM;
        }
        *of = (struct delta){.next = s->deltas, .worker = worker, .there = there};
        s->deltas = of;
    }
    if (incarnation > of->incarnation) {
        of->incarnation = incarnation;
        of->rounds = 0;
        begin_round(s, of);
    }
    return ERR_OK;
}

void shard_delta_close(struct shard *s)
{
    while (s->deltas) {
        struct delta *of = s->deltas;
        s->deltas = of->next;
        mem_free(of->there);
        mem_free(of);
    }
}

enum err shard_delta_turn(const struct shard *s, const struct shard_peer *peer,
                          const Gradwire__Push *m, struct delta **of, struct errmsg *e)
{
    struct delta *g = find(s, peer->worker);
    if (!g || m->name > g->rounds + 1)
        return err_set(e, ERR_PROTO, "round %" PRIu64 " is out of order", (uint64_t)m->name);
    *of = g;
    return ERR_OK;
}

bool shard_delta_take(struct shard *s, struct delta *of, const Gradwire__Push *m,
                      const struct buffer *body, shard_delta_add *add, uint32_t *added)
{
    if (!body || m->name != of->rounds + 1)
        return false;
    const float *delta = body->data;
    uint32_t first = m->first_chunk - s->me.first_chunk;
    assert(of->added < s->me.chunks); /* with all chunks the round would be over */
    for (uint32_t c = first; c < first + m->chunks; c++) {
        uint64_t at = shard_chunk_at(s, c), elems = shard_chunk_at(s, c + 1) - at;
        uint8_t mask = (uint8_t)(1u << (c % 8));
        if (!(of->there[c / 8] & mask)) {
            of->there[c / 8] |= mask;
            of->added++;
            s->io->before_write(s->ctx, s->block[0] + at, elems);
            add(s, m, c, at, elems, delta);
            ++*added;
        }
        delta += elems;
    }
    assert(of->added <= s->me.chunks);
    if (of->added < s->me.chunks)
        return false;
    of->rounds++;
    begin_round(s, of);
    return true;
}
