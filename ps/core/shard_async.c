/* A shard in async mode: each push is applied on arrival, each (batch id, chunk) once, and the same chunks are sent back.
 * Parts of tables are applied in the same way; their numbers come after the chunks'. */
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
    once_init(&s->async.once, s->me.chunks + shard_rows_parts(s));
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
        return err_set(e, ERR_CORRUPT, "checkpoint %" PRIu64 ": its resolved ids are out of range",
                       cut);
    once_restore(&s->async.once, &resolved);
    for (uint32_t i = 0; i < s->me.chunks; i++)
        s->async.chunk_t[i] = m->t;
    for (uint32_t i = 0; i < ROW_PARTS; i++) {
        s->async.part_t[i] = m->t;
        s->async.part_clock[i] = m->step;
    }
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

/* The error for a verdict; ERR_OK for ONCE_APPLY, ONCE_LAST and ONCE_DUPLICATE. */
static enum err refuse_verdict(const struct shard *s, enum once_verdict v, uint64_t name,
                               struct errmsg *e)
{
    if (v == ONCE_TOO_FAR)
        return err_set(e, ERR_PROTO, "batch %" PRIu64 " is beyond the window of %d above %" PRIu64,
                       name, IDS_WINDOW, s->async.once.resolved.mark);
    if (v == ONCE_NO_MEMORY)
        return err_set(e, ERR_NOMEM, "no memory to note batch %" PRIu64, name);
    return ERR_OK;
}

static void note_resolved(struct shard *s, enum once_verdict v, uint32_t examples)
{
    if (v != ONCE_LAST)
        return;
    s->step++;
    shard_rows_advance(s);
    s->t += examples > 0;
}

static enum err admit(struct shard *s, const struct shard_peer *peer, const Gradwire__Push *m,
                      struct buffer *body, uint32_t *applied, struct errmsg *e)
{
    if (shard_taken_room(s, peer, m->name, m->number))
        return err_set(e, ERR_NOMEM, "no memory to record a push");
    const float *g = body->data;
    uint32_t first = m->first_chunk - s->me.first_chunk;
    for (uint32_t c = first; c < first + m->chunks; c++) {
        uint64_t elems = plan_run_elems(&s->plan, s->me.first_chunk + c, 1);
        enum once_verdict v = once_admit(&s->async.once, m->name, c);
        enum err err = refuse_verdict(s, v, m->name, e);
        if (err)
            return err;
        if (v == ONCE_APPLY || v == ONCE_LAST) {
            ++*applied;
            shard_stale_apply(s, peer->worker, c, g, m->examples);
            shard_taken_note(s, peer->worker, peer->incarnation, m->name, m->number, c);
            if (s->me.first_chunk + c == 0) {
                shard_add_marks(s, m->name / s->settings.batches_per_epoch, m->marks.data,
                                m->examples);
                shard_add_epoch_sums(s, m->name / s->settings.batches_per_epoch, 1, m->examples,
                                     m->sums, m->n_sums);
                s->clipped += m->clipped ? 1 : 0;
            }
        }
        note_resolved(s, v, m->examples);
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

/* ---- rows ---- */

enum err shard_async_rows_push_fits(const struct shard *s, const Gradwire__RowsPush *m,
                                    bool *wanted, struct errmsg *e)
{
    (void)e;
    *wanted = !ids_has(&s->async.once.resolved, m->name);
    return ERR_OK;
}

static enum err update_part(struct shard *s, const struct shard_peer *peer, uint32_t part,
                            uint32_t examples, const float *section)
{
    struct row_grads g;
    uint64_t staleness = shard_stale_part(s, peer->worker, part);
    const struct row_step u = {.t = s->async.part_t[part] + 1,
                               .inv_n = 1.0f / (float)examples,
                               .scale = 1.0f,
                               .staleness = shard_stale_divisor(s, staleness),
                               .clock = s->rows.clock_before + s->async.part_clock[part] + 1};
    row_grads_view(&g, s->layout.rows, section);
    enum err err = shard_rows_updated(s, row_tables_update(&s->rows.tables, part, &g, &u));
    if (err)
        return err;
    shard_stale_part_count(s, peer->worker, part, staleness);
    s->async.part_t[part]++;
    return ERR_OK;
}

/* Apply the part if it was not applied before. It is marked last, because the update can fail for lack of memory. */
static enum err admit_part(struct shard *s, const struct shard_peer *peer,
                           const Gradwire__RowsPush *m, uint32_t part, const float *section,
                           uint32_t *applied, struct errmsg *e)
{
    uint32_t entry = s->me.chunks + part;
    enum once_verdict v = once_look(&s->async.once, m->name, entry);
    enum err err = refuse_verdict(s, v, m->name, e);
    if (err || v == ONCE_DUPLICATE)
        return err;
    if (m->examples && update_part(s, peer, part, m->examples, section))
        return err_memory_for(e, "the rows of batch %" PRIu64, m->name);
    s->async.part_clock[part]++;
    ++*applied;
    note_resolved(s, once_admit(&s->async.once, m->name, entry), m->examples);
    return ERR_OK;
}

enum err shard_async_rows_push(struct shard *s, struct shard_peer *peer,
                               const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes,
                               struct errmsg *e)
{
    struct shard_sections sections = {.held = NULL};
    uint32_t applied = 0;
    enum err err = body ? shard_rows_sections(s, peer, m, body, bytes, &sections, e) : ERR_OK;
    for (uint32_t i = 0; body && i < m->parts && !err; i++)
        err = admit_part(s, peer, m, m->first_part + i, sections.at[i], &applied, e);
    buffer_unref(sections.held);
    if (err)
        return err;
    (void)shard_copy_stops(s); /* pushes that arrive from now on wait */
    s->duplicates += applied == 0;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step;
    reply.name = m->name;
    reply.outcome = applied ? GRADWIRE__OUTCOME__APPLIED : GRADWIRE__OUTCOME__DUPLICATE;
    reply.first_part = m->first_part;
    reply.parts = m->parts;
    shard_send(s, peer, &reply, NULL, 0, 0);
    return ERR_OK;
}

enum err shard_async_rows_answer(struct shard *s, struct shard_peer *peer,
                                 const Gradwire__RowsAsk *m, struct buffer *body, struct errmsg *e)
{
    shard_stale_rows_sent(s, peer->worker);
    return shard_rows_answer(s, peer, m, body, s->step, false, e);
}

static enum err on_rows_ask(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                            struct buffer *body, struct errmsg *e)
{
    return m->bounded ? err_set(e, ERR_PROTO,
                                "a request for rows with a clock, but training.update is not ssp")
                      : shard_async_rows_answer(s, peer, m, body, e);
}

void shard_async_cut_at(struct shard *s, const Gradwire__CutAt *m)
{
    if (m->t > s->t && m->t <= s->step) /* a batch makes one update at most */
        s->t = m->t;
}

void shard_async_check(const struct shard *s)
{
    assert(s->async.once.chunks == s->me.chunks + shard_rows_parts(s) && s->async.chunk_t);
    (void)s;
}

void shard_async_status(struct shard *s, Gradwire__ShardStatus *m)
{
    const struct once *once = &s->async.once;
    shard_status_ids(s, &once->resolved);
    if (shard_stale_status(s, m))
        m->n_staleness = 0; /* information for people: a later status has it again */
    uint8_t *bytes =
        once->partials ? mem_resize(s->async.partial, once->partials, sizeof(uint64_t)) : NULL;
    if (!bytes)
        return; /* the chief reassigns batches that are not resolved on all shards anyway */
    s->async.partial = bytes;
    for (size_t i = 0; i < once->partials; i++)
        memcpy(bytes + i * sizeof(uint64_t), &once->partial[i].id, sizeof(uint64_t));
    m->partial.data = bytes;
    m->partial.len = once->partials * sizeof(uint64_t);
}

const struct shard_mode shard_mode_async = {
    SHARD_ASYNC_OPS,
    .join = shard_stale_join,
    .push_fits = shard_async_push_fits,
    .on_push = shard_async_push,
    .on_pull = shard_send_present,
    .rows_push_fits = shard_async_rows_push_fits,
    .on_rows_push = shard_async_rows_push,
    .on_rows_ask = on_rows_ask,
};
