/* Queries about a session's state, and messages, that its other files share. It calls none of them. */
#include "common/rows/key.h"
#include "worker/core/session_inner.h"

bool session_running(const struct session *s)
{
    return s->phase == SESSION_ROWS || s->phase == SESSION_COMPUTING || s->phase == SESSION_PUSHED;
}

bool session_is_going(const struct session *s)
{
    return s->stay != STAY;
}

bool session_all_whole(const struct session *s)
{
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        if (s->link[i].pull != PULL_WHOLE)
            return false;
    return true;
}

void session_wake(struct session *s)
{
    if (s->phase == SESSION_IDLE)
        s->mode->wake(s);
}

void session_push_again(struct session *s, uint32_t shard)
{
    s->link[shard].state = LINK_STREAMS;
    s->io->push_again(s->ctx, shard);
}

/* ---- replies ---- */

bool session_rows_made(const struct session *s, const struct session_link *l, bool pulled)
{
    if (!s->terms.tables)
        return true;
    return s->terms.sync || pulled ? l->made : l->acked_parts >= ROW_PARTS;
}

bool session_acked(const struct session *s, uint32_t shard)
{
    const struct session_link *l = &s->link[shard];
    return l->acked_chunks >= s->terms.plan.shard[shard].chunks &&
           (!s->terms.tables || s->terms.sync || l->acked_parts >= ROW_PARTS);
}

bool session_run_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m)
{
    const struct plan_shard *p = &s->terms.plan.shard[shard];
    /* A reply about rows, without chunks. */
    if (m->chunks == 0)
        return s->terms.tables && (m->made || (m->parts > 0 && m->parts <= ROW_PARTS));
    return m->chunks > 0 && m->first_chunk >= p->first_chunk && m->chunks <= p->chunks &&
           m->first_chunk - p->first_chunk <= p->chunks - m->chunks;
}

struct codec_shape session_shape(const struct session *s)
{
    return (struct codec_shape){&s->terms.plan, s->layout, 0};
}

bool session_codec_fits(const struct session *s, const Gradwire__Reply *m, uint64_t body_bytes)
{
    const Gradwire__Settings *settings = &s->terms.settings;
    enum codec c = (enum codec)m->codec;
    uint32_t may = codec_mask((enum codec)settings->reply_codec, settings->codecs_allowed);
    if (m->chunks == 0)
        return body_bytes == 0;
    if (c == CODEC_RAW)
        return body_bytes ==
               plan_run_elems(&s->terms.plan, m->first_chunk, m->chunks) * sizeof(float);
    if ((uint32_t)c >= CODECS || !(may >> c & 1) || !s->layout)
        return false;
    const struct codec_shape shape = session_shape(s);
    uint64_t most = codec_body_bytes(&shape, c, m->first_chunk, m->chunks);
    return codec_is_sized(c) ? body_bytes == most : body_bytes > 0 && body_bytes < most;
}

/* ---- ranges of ids ---- */

void session_ranges_add(struct session_ranges *r, uint64_t first, uint64_t count)
{
    struct session_range *last = r->n ? &r->range[r->n - 1] : NULL;
    if (last && last->first + last->count == first)
        last->count += count;
    else if (r->n < WORKER_RANGES_MAX)
        r->range[r->n++] = (struct session_range){first, count};
}

uint64_t session_ranges_count(const struct session_ranges *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->range[i].count;
    return n;
}

Gradwire__Range **session_ranges_say(struct session_ranges_said *to,
                                     const struct session_range *range, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gradwire__range__init(&to->range[i]);
        to->range[i].first = range[i].first;
        to->range[i].count = range[i].count;
        to->at[i] = &to->range[i];
    }
    return to->at;
}

size_t session_take_done(struct session *s, struct session_ranges_said *said)
{
    size_t n = s->lease.done.n;
    (void)session_ranges_say(said, s->lease.done.range, n);
    s->lease.done.n = 0;
    return n;
}

void session_say_held(struct session *s)
{
    struct session_ranges_said done;
    Gradwire__Held m = GRADWIRE__HELD__INIT;
    m.generation = &s->generation;
    m.cut = s->hold_cut;
    m.n_done = session_take_done(s, &done);
    m.done = done.at;
    s->io->to_chief(s->ctx, FRAME_HELD, &m.base);
}
