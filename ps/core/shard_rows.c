/* What comes in for a shard's tables, and what goes out: pushes and asks are checked byte by byte, and answers are
 * gathered into buffers of their own, so that rows may change while an answer is on its way. */
#include "ps/core/shard_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "ps/core/shard_state.h"

enum err shard_rows_open(struct shard *s)
{
    if (!s->layout.rows)
        return ERR_OK;
    enum err err =
        row_tables_init(&s->rows.tables, s->layout.rows, bucket_shard(s->index, s->plan.shards),
                        &s->optimizer, s->settings.seed, &s->rows.pool);
    s->rows.on = err == ERR_OK;
    s->rows.clock_before = 0;
    return err;
}

void shard_rows_close(struct shard *s)
{
    if (s->rows.on)
        row_tables_close(&s->rows.tables);
    s->rows.on = s->rows.before_there = false;
}

void shard_rows_take_over(struct shard *s)
{
    if (s->rows.on)
        s->rows.tables.optimizer = s->optimizer;
}

uint32_t shard_rows_parts(const struct shard *s)
{
    return s->rows.on ? ROW_PARTS : 0;
}

/* ---- heads ---- */

static enum err push_fits(const struct shard *s, const Gradwire__RowsPush *m, uint64_t bytes,
                          bool *wanted, struct errmsg *e)
{
    if (m->parts == 0 || m->first_part >= ROW_PARTS || m->parts > ROW_PARTS - m->first_part)
        return err_set(e, ERR_PROTO, "parts %u + %u are not of a shard's %d", m->first_part,
                       m->parts, ROW_PARTS);
    if (bytes == 0 || bytes > ROWS_BODY_MAX)
        return err_set(e, ERR_PROTO,
                       "%" PRIu64 " bytes of rows in one push: allowed are 1 to %" PRIu64, bytes,
                       ROWS_BODY_MAX);
    *wanted = true;
    return s->mode->rows_push_fits(s, m, wanted, e);
}

static enum err ask_fits(const struct shard *s, const Gradwire__RowsAsk *m, uint64_t bytes,
                         bool *wanted, struct errmsg *e)
{
    const struct row_layout *l = s->layout.rows;
    uint64_t keys = 0;
    if (m->n_keys != l->lists)
        return err_set(e, ERR_PROTO, "keys of %zu lists where the plan has %u", m->n_keys,
                       l->lists);
    for (uint32_t i = 0; i < l->lists; i++)
        keys += m->keys[i];
    if (bytes != keys * sizeof(uint64_t))
        return err_set(e, ERR_PROTO, "%" PRIu64 " body bytes where %" PRIu64 " keys are announced",
                       bytes, keys);
    if (bytes > ROWS_BODY_MAX || row_tables_answer_most(l, m->keys) > ROWS_BODY_MAX)
        return err_set(e, ERR_PROTO,
                       "the rows of %" PRIu64 " keys in one answer: it may have %" PRIu64 " bytes",
                       keys, ROWS_BODY_MAX);
    *wanted = keys > 0;
    return ERR_OK;
}

enum err shard_rows_fits(const struct shard *s, enum frame_type type, const ProtobufCMessage *m,
                         uint64_t body_bytes, bool *wanted, struct errmsg *e)
{
    bool asks = type == FRAME_ROWS_ASK;
    const Gradwire__RowsAsk *ask = (const Gradwire__RowsAsk *)m;
    const Gradwire__RowsPush *push = (const Gradwire__RowsPush *)m;
    *wanted = false;
    if (!shard_same_generation(s, asks ? ask->generation : push->generation))
        return ERR_OK; /* refused when the frame is over */
    if (!s->rows.on)
        return err_set(e, ERR_PROTO, "a %s in a job without tables",
                       frame_type_str((uint16_t)type));
    return asks ? ask_fits(s, ask, body_bytes, wanted, e)
                : push_fits(s, push, body_bytes, wanted, e);
}

/* ---- bodies ---- */

enum err shard_rows_sections(const struct shard *s, const Gradwire__RowsPush *m,
                             const struct buffer *body, uint64_t bytes, const float *at[ROW_PARTS],
                             struct errmsg *e)
{
    struct row_grads g;
    const uint8_t *begin = (const uint8_t *)body->data;
    uint64_t done = 0, used = 0;
    for (uint32_t i = 0; i < m->parts; i++, done += used) {
        struct bucket_range of = bucket_part(s->rows.tables.buckets, m->first_part + i);
        at[i] = (const float *)(const void *)(begin + done);
        enum err err = row_grads_read(&g, s->layout.rows, of, at[i], bytes - done, &used, e);
        if (err)
            return err;
    }
    if (done != bytes)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left behind part %u", bytes - done,
                       m->first_part + m->parts - 1);
    return ERR_OK;
}

/* Keys that stand one list behind the other. */
static struct row_keys keys_in(const struct row_layout *l, const uint32_t *keys,
                               const struct buffer *body)
{
    struct row_keys of = {.keys = {0}};
    const uint64_t *at = body ? (const uint64_t *)(const void *)body->data : NULL;
    for (uint32_t i = 0; i < l->lists; i++) {
        of.keys[i] = keys[i];
        of.mixed[i] = at;
        at = body ? at + keys[i] : NULL;
    }
    return of;
}

enum err shard_rows_check_ask(const struct shard *s, const Gradwire__RowsAsk *m,
                              const struct buffer *body, struct errmsg *e)
{
    struct row_keys of = keys_in(s->layout.rows, m->keys, body);
    for (uint32_t i = 0; i < s->layout.rows->lists; i++) {
        if (of.keys[i] && !body)
            return err_set(e, ERR_PROTO, "an ask without its keys");
        enum err err = row_keys_check(of.mixed[i], of.keys[i], i, s->rows.tables.buckets, e);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* ---- answers ---- */

/* The rows of `of`, gathered into `room`. */
static void send_rows(struct shard *s, struct shard_peer *to, const struct shard_ask *ask,
                      uint64_t step, bool aside)
{
    Gradwire__Rows m = GRADWIRE__ROWS__INIT;
    struct row_keys of = keys_in(s->layout.rows, ask->keys, ask->mixed);
    uint64_t bytes = ask->room ? row_tables_read(&s->rows.tables, &of, aside, ask->room->data) : 0;
    m.generation = &s->wire_generation;
    m.number = ask->number;
    m.step = step;
    s->io->send_rows(s->ctx, to, &m, ask->room, bytes);
}

/* Errors: ERR_NOMEM: *ask owns nothing. */
static enum err ask_open(struct shard *s, struct shard_ask *ask, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e)
{
    const struct row_layout *l = s->layout.rows;
    uint64_t most = row_tables_answer_most(l, m->keys);
    *ask = (struct shard_ask){.number = m->number, .step = m->step, .mixed = body};
    memcpy(ask->keys, m->keys, l->lists * sizeof *ask->keys);
    ask->room = most ? buffer_acquire(&s->rows.pool, most / sizeof(float)) : NULL;
    if (most && !ask->room)
        return err_set(e, ERR_NOMEM, "no memory for an answer of %" PRIu64 " bytes", most);
    if (body)
        buffer_ref(body);
    return ERR_OK;
}

static void ask_close(struct shard_ask *ask)
{
    buffer_unref(ask->mixed);
    buffer_unref(ask->room);
    *ask = (struct shard_ask){.step = 0};
}

enum err shard_rows_answer(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m,
                           struct buffer *body, uint64_t step, bool aside, struct errmsg *e)
{
    struct shard_ask ask;
    enum err err = ask_open(s, &ask, m, body, e);
    if (err)
        return err;
    send_rows(s, to, &ask, step, aside);
    ask_close(&ask);
    return ERR_OK;
}

void shard_rows_say_gone(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m)
{
    Gradwire__Rows rows = GRADWIRE__ROWS__INIT;
    rows.generation = &s->wire_generation;
    rows.number = m->number;
    rows.step = s->step;
    rows.gone = true;
    s->io->send_rows(s->ctx, to, &rows, NULL, 0);
}

enum err shard_rows_wait(struct shard *s, struct shard_peer *of, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e)
{
    struct shard_ask ask;
    uint32_t i = 0;
    enum err err = ask_open(s, &ask, m, body, e);
    if (err)
        return err;
    assert(m->step > s->step);
    while (i < SHARD_ASKS_MAX && of->ask[i].step)
        i++;
    if (i == SHARD_ASKS_MAX) {
        ask_close(&of->ask[0]);
        memmove(of->ask, of->ask + 1, (SHARD_ASKS_MAX - 1) * sizeof *of->ask);
        i--;
    }
    of->ask[i] = ask;
    return ERR_OK;
}

void shard_rows_answer_waiting(struct shard *s)
{
    for (struct shard_peer *p = s->peers; p; p = p->next) {
        for (uint32_t i = 0; i < SHARD_ASKS_MAX && p->ask[i].step; i++) {
            assert(p->ask[i].step == s->step);
            send_rows(s, p, &p->ask[i], s->step, false);
        }
        shard_rows_drop_asks(p);
    }
}

void shard_rows_drop_asks(struct shard_peer *of)
{
    for (uint32_t i = 0; i < SHARD_ASKS_MAX; i++)
        ask_close(&of->ask[i]);
}
