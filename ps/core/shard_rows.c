/* Messages for a shard's tables: pushes and requests are checked byte by byte. Answers are gathered into their own buffers,
 * so that rows can change while an answer is being sent. */
#include "ps/core/shard_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/rows/row_codec.h"
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
    shard_rows_take_budget(s);
    return err;
}

void shard_rows_close(struct shard *s)
{
    if (s->rows.on)
        row_tables_close(&s->rows.tables);
    s->rows.on = s->rows.before_there = false;
}

/* ---- the memory budget ---- */

static uint32_t shards_of_ps(const struct shard *s)
{
    uint32_t shards = 0;
    for (uint32_t i = 0; i < s->plan.shards; i++)
        shards += s->plan.shard[i].ps == s->plan.shard[s->index].ps;
    return shards;
}

void shard_rows_take_budget(struct shard *s)
{
    if (!s->rows.on)
        return;
    row_budget_set(&s->rows.tables, s->settings.row_memory * s->rows.memory_unit / shards_of_ps(s),
                   (enum row_full)s->settings.row_full);
}

enum err shard_rows_check_budget(const struct shard *s, struct errmsg *e)
{
    uint64_t bytes = s->rows.on ? s->rows.tables.budget.bytes : 0;
    uint64_t least = bytes ? row_budget_fixed_bytes(&s->rows.tables) : 0;
    if (bytes == 0 || bytes > least)
        return ERR_OK;
    return err_set(e, ERR_TOOBIG,
                   "ps.memory is %" PRIu32 " MiB, of which shard %" PRIu32 " has %" PRIu64
                   " bytes; its tables take %" PRIu64
                   " without any row (most of it their sketch_mb): raise ps.memory",
                   s->settings.row_memory, s->index, bytes, least);
}

enum err shard_rows_say_full(const struct shard *s, uint32_t table, struct errmsg *e)
{
    const struct row_tables *t = &s->rows.tables;
    const struct row_load *load = s->rows.load; /* rows that are being loaded are not counted yet */
    uint64_t rows = load ? row_table_rows(t->table[table]) : row_tables_counts(t, table).rows;
    uint64_t bytes = row_budget_fixed_bytes(t) + (load ? load->all : row_budget_bytes(t));
    return err_set(e, ERR_TOOBIG,
                   "table %s: no room for another row: shard %" PRIu32 " has %" PRIu64
                   " rows of it, and its tables take %" PRIu64 " bytes of the %" PRIu64
                   " that ps.memory (%" PRIu32
                   " MiB) allows it; raise ps.memory, take more ps, or set ps.when_full to "
                   "evict or refuse",
                   t->layout->table[table].name, s->index, rows, bytes, t->budget.bytes,
                   s->settings.row_memory);
}

enum err shard_rows_updated(struct shard *s, enum err err)
{
    struct errmsg e;
    Gradwire__Entered m = GRADWIRE__ENTERED__INIT;
    if (err != ERR_TOOBIG)
        return err;
    err = shard_rows_say_full(s, s->rows.tables.budget.full_table, &e);
    m.generation = &s->wire_generation;
    m.shard = s->index;
    m.error = e.text;
    m.ends = true;
    s->io->tell(s->ctx, FRAME_ENTERED, &m.base);
    return err;
}

static bool same_tables(const struct row_layout *a, const struct row_layout *b)
{
    bool same = b && a->tables == b->tables;
    for (uint32_t i = 0; same && i < a->tables; i++)
        same =
            strcmp(a->table[i].name, b->table[i].name) == 0 && a->table[i].dim == b->table[i].dim;
    return same;
}

enum err shard_rows_take_over(struct shard *s, const Gradwire__Plan *m, const struct optimizer *o,
                              struct errmsg *e)
{
    struct layout l;
    if (!s->rows.on)
        return ERR_OK;
    if (!m)
        return err_set(e, ERR_PROTO, "the chief sent no plan");
    enum err err = msg_layout_get(m, &l, e);
    if (err)
        return err;
    if (same_tables(s->layout.rows, l.rows)) {
        row_tables_take_rates(&s->rows.tables, l.rows, o);
        s->layout.rows->codecs = l.rows->codecs;
    } else
        err = err_set(e, ERR_PROTO, "the new chief's plan has other tables");
    layout_close(&l);
    return err;
}

uint32_t shard_rows_parts(const struct shard *s)
{
    return s->rows.on ? ROW_PARTS : 0;
}

/* Parts get batches in different orders, so rows are evicted by the least clock of all parts. In modes with steps workers
 * still read the step before, so the sweeper runs when the next step begins (shard_parts.c). */
void shard_rows_advance(struct shard *s)
{
    if (!s->rows.on)
        return;
    uint64_t least = s->mode->steps ? s->step : s->async.part_clock[0];
    for (uint32_t i = 1; i < ROW_PARTS && !s->mode->steps; i++)
        least = s->async.part_clock[i] < least ? s->async.part_clock[i] : least;
    row_tables_advance(&s->rows.tables, s->rows.clock_before + least);
    if (!s->mode->steps)
        row_tables_sweep(&s->rows.tables, s->rows.clock_before + least);
}

/* ---- heads ---- */

static enum err push_fits(const struct shard *s, const Gradwire__RowsPush *m, uint64_t bytes,
                          bool *wanted, struct errmsg *e)
{
    if (m->parts == 0 || m->first_part >= ROW_PARTS || m->parts > ROW_PARTS - m->first_part)
        return err_set(e, ERR_PROTO, "parts %u + %u are not within the %d of a shard",
                       m->first_part, m->parts, ROW_PARTS);
    if (bytes == 0 || bytes > ROWS_BODY_MAX)
        return err_set(e, ERR_PROTO,
                       "%" PRIu64 " bytes of rows in one push; the limits are 1 to %" PRIu64, bytes,
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
        return err_set(e, ERR_PROTO, "keys of %zu lists; the plan has %u", m->n_keys, l->lists);
    for (uint32_t i = 0; i < l->lists; i++)
        keys += m->keys[i];
    if (bytes != keys * sizeof(uint64_t))
        return err_set(e, ERR_PROTO, "%" PRIu64 " body bytes do not fit %" PRIu64 " keys", bytes,
                       keys);
    if (bytes > ROWS_BODY_MAX || row_tables_answer_most(l, m->keys, m->once) > ROWS_BODY_MAX)
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
        return ERR_OK; /* refused when the frame is complete */
    if (!s->rows.on)
        return err_set(e, ERR_PROTO, "a %s in a job without tables",
                       frame_type_str((uint16_t)type));
    return asks ? ask_fits(s, ask, body_bytes, wanted, e)
                : push_fits(s, push, body_bytes, wanted, e);
}

/* ---- bodies ---- */

/* View keys that are stored list after list. */
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

/* Sections with their own keys and plain gradients are used where they were received. */
static enum err sections_there(const struct shard *s, const Gradwire__RowsPush *m,
                               struct buffer *body, uint64_t bytes, struct shard_sections *out,
                               struct errmsg *e)
{
    struct row_grads g;
    const uint8_t *begin = (const uint8_t *)body->data;
    uint64_t done = 0, used = 0;
    for (uint32_t i = 0; i < m->parts; i++, done += used) {
        struct bucket_range of = bucket_part(s->rows.tables.buckets, m->first_part + i);
        out->at[i] = (const float *)(const void *)(begin + done);
        enum err err = row_grads_read(&g, s->layout.rows, of, out->at[i], bytes - done, &used, e);
        if (err)
            return err;
    }
    if (done != bytes)
        return err_set(e, ERR_PROTO, "%" PRIu64 " bytes are left over after part %u", bytes - done,
                       m->first_part + m->parts - 1);
    buffer_ref(body);
    out->held = body;
    return ERR_OK;
}

static const struct shard_ask *find_ask(const struct shard_peer *of, uint64_t number)
{
    for (uint32_t i = 0; i < SHARD_ASKS_MAX; i++)
        if (of->ask[i].number == number)
            return &of->ask[i];
    return NULL;
}

/* Sections that must be decoded. `asked` NULL: the body has the keys. */
static enum err sections_made(struct shard *s, const struct row_keys *asked,
                              const Gradwire__RowsPush *m, const struct buffer *body,
                              uint64_t bytes, struct shard_sections *out, struct errmsg *e)
{
    uint64_t room;
    const struct row_push push = {.layout = s->layout.rows,
                                  .buckets = s->rows.tables.buckets,
                                  .first = m->first_part,
                                  .parts = m->parts,
                                  .asked = asked,
                                  .body = (const uint8_t *)body->data,
                                  .bytes = bytes};
    enum err err = row_push_check(&push, &room, e);
    if (err)
        return err;
    out->held = buffer_acquire(&s->rows.pool, room / sizeof(float));
    if (!out->held)
        return err_memory_for(e, "%" PRIu64 " bytes of rows", room);
    row_push_expand(&push, (uint8_t *)out->held->data, out->at);
    return ERR_OK;
}

enum err shard_rows_sections(struct shard *s, const struct shard_peer *from,
                             const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes,
                             struct shard_sections *out, struct errmsg *e)
{
    const struct row_layout *l = s->layout.rows;
    if (m->ask == 0)
        return row_codecs_encode(l->codecs.push, l->tables)
                   ? sections_made(s, NULL, m, body, bytes, out, e)
                   : sections_there(s, m, body, bytes, out, e);
    const struct shard_ask *ask = find_ask(from, m->ask);
    if (!ask)
        return err_set(e, ERR_PROTO,
                       "a push refers to request %" PRIu64
                       ", which is not one of the two latest of its connection",
                       m->ask);
    const struct row_keys asked = keys_in(l, ask->keys, ask->mixed);
    return sections_made(s, &asked, m, body, bytes, out, e);
}

enum err shard_rows_check_ask(const struct shard *s, const Gradwire__RowsAsk *m,
                              const struct buffer *body, struct errmsg *e)
{
    struct row_keys of = keys_in(s->layout.rows, m->keys, body);
    for (uint32_t i = 0; i < s->layout.rows->lists; i++) {
        if (of.keys[i] && !body)
            return err_set(e, ERR_PROTO, "a request without keys");
        enum err err = row_keys_check(of.mixed[i], of.keys[i], i, s->rows.tables.buckets, e);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* ---- answers ---- */

/* The clocks for an answer as of this step; in modes without steps, as of now. */
static struct row_clocks clocks_at(const struct shard *s, uint64_t step)
{
    const struct row_budget *b = &s->rows.tables.budget;
    struct row_clocks at = {.floor = s->mode->steps && step < s->step ? b->floor_before : b->floor};
    for (uint32_t i = 0; i < ROW_PARTS; i++)
        at.of[i] = s->rows.clock_before + (s->mode->steps ? step : s->async.part_clock[i]);
    return at;
}

/* Gather the rows of `of` into `room`, and send them. */
static void send_rows(struct shard *s, struct shard_peer *to, const struct shard_ask *ask,
                      uint64_t step, bool aside)
{
    Gradwire__Rows m = GRADWIRE__ROWS__INIT;
    struct row_keys of = keys_in(s->layout.rows, ask->keys, ask->mixed);
    const struct row_clocks at = clocks_at(s, step);
    const struct row_reading how = {.aside = aside, .plain = ask->once, .at = &at};
    uint64_t bytes = ask->room ? row_tables_read(&s->rows.tables, &of, how, ask->room->data) : 0;
    m.generation = &s->wire_generation;
    m.number = ask->number;
    m.step = step;
    m.bounded = ask->bounded;
    m.clock = ask->clock;
    s->io->send_rows(s->ctx, to, &m, ask->room, bytes);
}

/* Errors: ERR_NOMEM: *ask owns nothing. */
static enum err ask_open(struct shard *s, struct shard_ask *ask, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e)
{
    const struct row_layout *l = s->layout.rows;
    uint64_t most = row_tables_answer_most(l, m->keys, m->once);
    *ask = (struct shard_ask){.number = m->number,
                              .step = m->step,
                              .clock = m->clock,
                              .once = m->once,
                              .bounded = m->bounded,
                              .mixed = body};
    memcpy(ask->keys, m->keys, l->lists * sizeof *ask->keys);
    ask->room = most ? buffer_acquire(&s->rows.pool, most / sizeof(float)) : NULL;
    if (most && !ask->room)
        return err_memory_for(e, "an answer of %" PRIu64 " bytes", most);
    if (body)
        buffer_ref(body);
    return ERR_OK;
}

static void ask_close(struct shard_ask *ask)
{
    buffer_unref(ask->mixed);
    buffer_unref(ask->room);
    *ask = (struct shard_ask){.number = 0};
}

/* Mark the request as answered; only its keys are kept. */
static void ask_answered(struct shard_ask *ask)
{
    buffer_unref(ask->room);
    ask->room = NULL;
    ask->waits = false;
}

/* Keep the request; the oldest one is dropped. */
static void keep_ask(struct shard_peer *of, const struct shard_ask *ask)
{
    ask_close(&of->ask[0]);
    memmove(of->ask, of->ask + 1, (SHARD_ASKS_MAX - 1) * sizeof *of->ask);
    of->ask[SHARD_ASKS_MAX - 1] = *ask;
}

enum err shard_rows_answer(struct shard *s, struct shard_peer *to, const Gradwire__RowsAsk *m,
                           struct buffer *body, uint64_t step, bool aside, struct errmsg *e)
{
    struct shard_ask ask;
    enum err err = ask_open(s, &ask, m, body, e);
    if (err)
        return err;
    send_rows(s, to, &ask, step, aside);
    ask_answered(&ask);
    if (m->once)
        ask_close(&ask);
    else
        keep_ask(to, &ask);
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
    enum err err = ask_open(s, &ask, m, body, e);
    if (err)
        return err;
    ask.waits = true;
    keep_ask(of, &ask);
    return ERR_OK;
}

void shard_rows_answer_ask(struct shard *s, struct shard_peer *of, struct shard_ask *ask)
{
    assert(ask->waits);
    send_rows(s, of, ask, s->step, false);
    ask_answered(ask);
}

void shard_rows_answer_waiting(struct shard *s)
{
    for (struct shard_peer *p = s->peers; p; p = p->next)
        for (uint32_t i = 0; i < SHARD_ASKS_MAX; i++) {
            if (!p->ask[i].waits)
                continue;
            assert(p->ask[i].step == s->step);
            shard_rows_answer_ask(s, p, &p->ask[i]);
        }
}

void shard_rows_drop_asks(struct shard_peer *of)
{
    for (uint32_t i = 0; i < SHARD_ASKS_MAX; i++)
        ask_close(&of->ask[i]);
}
