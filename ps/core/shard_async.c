/* A shard in async: each push is applied on arrival, each (batch id, chunk) once, and the same chunks go back. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

/* ---- a generation ---- */

enum err shard_async_open(struct shard *s, const Gradwire__Settings *m, struct errmsg *e)
{
    (void)m;
    (void)e;
    once_init(&s->async.once, s->me.chunks);
    s->async.chunk_t = mem_zalloc(s->me.chunks, sizeof *s->async.chunk_t);
    return s->async.chunk_t ? ERR_OK : ERR_NOMEM;
}

void shard_async_close(struct shard *s)
{
    shard_stale_close(s);
    once_close(&s->async.once);
    mem_free(s->async.chunk_t);
    mem_free(s->async.partial);
    mem_free(s->async.staleness);
    mem_free(s->async.staleness_at);
    s->async = (struct shard_async){.chunk_t = NULL};
}

enum err shard_async_restore(struct shard *s, const struct manifest *m, uint64_t cut,
                             struct errmsg *e)
{
    struct ids resolved;
    if (ids_unpack(&resolved, m->mark, m->window_bits, m->window_bits_bytes))
        return err_set(e, ERR_CORRUPT, "cut %" PRIu64 ": its resolved ids are out of range", cut);
    once_restore(&s->async.once, &resolved);
    for (uint32_t i = 0; i < s->me.chunks; i++)
        s->async.chunk_t[i] = m->t;
    return ERR_OK;
}

/* ---- a push ---- */

enum err shard_async_push_fits(const struct shard *s, const Gradwire__Push *m, bool *wanted,
                               struct errmsg *e)
{
    (void)e;
    *wanted = !ids_has(&s->async.once.resolved, m->name);
    return ERR_OK;
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
        enum once_verdict v = once_admit(&s->async.once, m->name, c);
        if (v == ONCE_TOO_FAR)
            return err_set(e, ERR_PROTO, "batch %llu is beyond the window of %d above %llu",
                           (unsigned long long)m->name, IDS_WINDOW,
                           (unsigned long long)s->async.once.resolved.mark);
        if (v == ONCE_NO_MEMORY)
            return err_set(e, ERR_NOMEM, "no memory to remember batch %llu",
                           (unsigned long long)m->name);
        if (v == ONCE_APPLY || v == ONCE_LAST) {
            ++*applied;
            shard_stale_apply(s, peer->worker, c, g, m->examples);
            shard_taken_note(s, peer->worker, peer->incarnation, m->name, m->number, c);
            if (s->me.first_chunk + c == 0) {
                shard_add_epoch_sums(s, m->name / s->settings.batches_per_epoch, 1, m->examples,
                                     m->sums, m->n_sums);
                s->clipped += m->clipped ? 1 : 0;
            }
        }
        if (v == ONCE_LAST) { /* the batch is resolved */
            s->step++;
            s->t += m->examples > 0;
        }
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
    assert(applied <= m->chunks && (applied == 0 || body));
    shard_send_pushed(s, peer, m, applied, m->ack_only ? NULL : s->block[0]);
    if (!m->ack_only)
        shard_reply_sent(s, peer);
    return ERR_OK;
}

void shard_async_check(const struct shard *s)
{
    assert(s->async.once.chunks == s->me.chunks && s->async.chunk_t);
    (void)s;
}

void shard_async_status(struct shard *s, Gradwire__ShardStatus *m)
{
    const struct once *once = &s->async.once;
    shard_status_ids(s, &once->resolved);
    if (shard_stale_status(s, m))
        m->n_staleness = 0; /* a number for people: the next one may be told again */
    uint8_t *bytes =
        once->partials ? mem_resize(s->async.partial, once->partials, sizeof(uint64_t)) : NULL;
    if (!bytes)
        return; /* the chief redoes what is not resolved on all shards anyway */
    s->async.partial = bytes;
    for (size_t i = 0; i < once->partials; i++)
        memcpy(bytes + i * sizeof(uint64_t), &once->partial[i].id, sizeof(uint64_t));
    m->partial.data = bytes;
    m->partial.len = once->partials * sizeof(uint64_t);
}

const struct shard_mode shard_mode_async = {.optimizes = true,
                                            .takes = shard_stale_takes,
                                            .laid_out_otherwise = shard_stale_laid_out_otherwise,
                                            .open = shard_async_open,
                                            .close = shard_async_close,
                                            .restore = shard_async_restore,
                                            .join = shard_stale_join,
                                            .push_fits = shard_async_push_fits,
                                            .on_push = shard_async_push,
                                            .on_pull = shard_send_present,
                                            .sent = shard_stale_sent,
                                            .check = shard_async_check,
                                            .status = shard_async_status};
