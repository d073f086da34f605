/* A shard in async: each push is applied on arrival, each (batch id, chunk) once, and the same chunks go back. */
#include "ps/core/shard_state.h"

static void apply_chunk(struct shard *s, uint32_t worker, uint32_t chunk, const float *g,
                        uint64_t elems, uint32_t examples)
{
    uint64_t at = plan_chunk_elem(&s->plan, s->me.first_chunk + chunk) - s->me.first_elem;
    if (examples == 0)
        return;
    s->io->before_write(s->ctx, s->block[0] + at, elems);
    shard_stale_apply(s, worker, chunk, at, elems, g, 1.0f / (float)examples);
}

/* The id is resolved: what counts once per batch. */
static void count_batch(struct shard *s, const Gradwire__Push *m)
{
    s->step++;
    if (m->examples)
        s->t++;
}

static enum err admit(struct shard *s, const struct shard_peer *peer, const Gradwire__Push *m,
                      struct buffer *body, uint32_t *applied, struct errmsg *e)
{
    if (shard_taken_room(s, peer, m->name, m->number))
        return err_set(e, ERR_NOMEM, "no memory for what becomes of a push");
    const float *g = body->data;
    uint32_t first = m->first_chunk - s->me.first_chunk;
    for (uint32_t c = first; c < first + m->chunks; c++) {
        uint64_t elems = plan_run_elems(&s->plan, s->me.first_chunk + c, 1);
        enum once_verdict v = once_admit(&s->once, m->name, c);
        if (v == ONCE_TOO_FAR)
            return err_set(e, ERR_PROTO, "batch %llu is beyond the window of %d above %llu",
                           (unsigned long long)m->name, IDS_WINDOW,
                           (unsigned long long)s->once.resolved.mark);
        if (v == ONCE_NO_MEMORY)
            return err_set(e, ERR_NOMEM, "no memory to remember batch %llu",
                           (unsigned long long)m->name);
        if (v == ONCE_APPLY || v == ONCE_LAST) {
            ++*applied;
            apply_chunk(s, peer->worker, c, g, elems, m->examples);
            shard_taken_note(s, peer->worker, peer->incarnation, m->name, m->number, c);
            if (s->me.first_chunk + c == 0) {
                double sums[GATE_SUMS_MAX] = {0};
                for (size_t i = 0; i < m->n_sums && i < GATE_SUMS_MAX; i++)
                    sums[i] = m->sums[i];
                shard_add_sums(s, m->name, m->examples, sums);
                s->clipped += m->clipped ? 1 : 0;
            }
        }
        if (v == ONCE_LAST)
            count_batch(s, m);
        g += elems;
    }
    return ERR_OK;
}

enum err shard_async_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                          struct buffer *body, struct errmsg *e)
{
    uint32_t applied = 0;
    enum err err = body ? admit(s, peer, m, body, &applied, e) : ERR_OK;
    if (err)
        return err;
    s->duplicates += applied == 0;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step;
    reply.name = m->name;
    reply.outcome = applied ? GRADWIRE__OUTCOME__APPLIED : GRADWIRE__OUTCOME__DUPLICATE;
    shard_send(s, peer, &reply, m->ack_only ? NULL : s->block[0],
               m->first_chunk - s->me.first_chunk, m->chunks);
    if (!m->ack_only)
        shard_reply_sent(s, peer);
    return ERR_OK;
}
