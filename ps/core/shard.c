#include "ps/core/shard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "ps/core/shard_state.h"

enum err shard_new(struct shard **out, uint32_t ps, uint32_t thread, const struct shard_io *io,
                   void *ctx)
{
    struct shard *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return ERR_NOMEM;
    if (coder_new(&s->codec.coder)) {
        mem_free(s);
        return ERR_NOMEM;
    }
    s->io = io;
    s->ctx = ctx;
    s->ps = ps;
    s->thread = thread;
    s->wire_generation = msg_generation(s->generation);
    s->rows.memory_unit = 1 << 20;
    s->rows.beside =
        (struct shard_beside){(uint64_t)ROW_CUT_BESIDE_LEAST << 20, ROW_CUT_BESIDE_PERCENT};
    *out = s;
    return ERR_OK;
}

/* Free everything that belongs to one generation's plan. */
static void close_blocks(struct shard *s)
{
    for (int i = 0; i < 2; i++) {
        mem_free(s->block[i]);
        s->block[i] = NULL;
    }
    for (int i = 0; i < OPTIMIZER_SLOTS_MAX; i++) {
        mem_free(s->slot[i]);
        s->slot[i] = NULL;
    }
    if (s->mode) {
        if (s->mode->begin)
            s->mode->begin(s);
        s->mode->close(s);
    }
    shard_average_close(s);
    shard_taken_close(s);
    shard_reply_close(s);
    shard_rows_close(s);
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++)
        bins_close(&s->bins[i]);
    s->sliced.rows = 0;
    plan_close(&s->plan);
    layout_close(&s->layout);
    s->planned = false;
    s->me = (struct plan_shard){0};
}

void shard_free(struct shard *s)
{
    if (!s)
        return;
    close_blocks(s);
    shard_cut_reset(s);
    buffer_pool_close(&s->rows.pool);
    coder_free(s->codec.coder);
    mem_free(s);
}

/* ---- entering a generation ---- */

/* The mode that the settings select; NULL: no such mode. */
static const struct shard_mode *mode_of(const Gradwire__Settings *m)
{
    static const struct {
        const struct shard_mode *plain, *withholding; /* withholding: with error feedback (top_k) */
    } mode[] = {[GRADWIRE__UPDATE__SYNC] = {&shard_mode_sync, &shard_mode_sync},
                [GRADWIRE__UPDATE__ASYNC] = {&shard_mode_async, &shard_mode_remainder},
                [GRADWIRE__UPDATE__SSP] = {&shard_mode_ssp, NULL},
                [GRADWIRE__UPDATE__GEO] = {&shard_mode_geo, NULL}};
    return m->push_codec == CODEC_TOP_K ? mode[m->update].withholding : mode[m->update].plain;
}

static void take_settings(struct shard *s, const Gradwire__Settings *m, const struct optimizer *o)
{
    s->mode = mode_of(m);
    s->optimizer = *o;
    s->optimizer_undecayed = *o;
    s->optimizer_undecayed.weight_decay = 0.0f;
    s->settings = msg_settings(m);
    s->slots = s->mode->optimizes ? optimizer_slots(&s->optimizer) : 0;
    s->codec.shape = (struct codec_shape){&s->plan, &s->layout, m->push_ratio};
    s->codec.pushes = codec_mask((enum codec)m->push_codec, m->codecs_allowed);
    s->codec.allowed = m->codecs_allowed;
    s->reply.codec = (enum codec)m->reply_codec;
    s->taken.on = m->push_codec == CODEC_TOP_K;
}

static enum err check_settings(const Gradwire__Settings *m, struct optimizer *o, struct errmsg *e)
{
    if (!m || m->microbatches == 0 || m->microbatches > TREE_LEAVES_MAX ||
        (m->microbatches & (m->microbatches - 1)) || m->metrics > SUMS_MAX ||
        m->batches_per_epoch == 0 || m->update > GRADWIRE__UPDATE__GEO || !(m->clip_norm >= 0) ||
        m->progressive >= m->metrics + !m->progressive || m->slices > BINS_SLICES_MAX ||
        (m->progressive && m->update == GRADWIRE__UPDATE__GEO) || m->nan_guard >= NAN_GUARDS ||
        !codec_is_choice(m->push_codec) || !codec_is_choice(m->reply_codec) ||
        m->reply_codec == CODEC_TOP_K ||
        !(m->push_ratio >= 0.0f && m->push_ratio <= JOB_TOP_K_RATIO_MAX) ||
        ((m->replicas_to_aggregate || m->redo) && m->update != GRADWIRE__UPDATE__SYNC))
        return err_set(e, ERR_PROTO, "the chief's settings are out of range");
    const struct shard_mode *mode = mode_of(m);
    if (mode && mode->takes && !mode->takes(m))
        return err_set(e, ERR_PROTO, "the chief's settings are out of range");
    enum err err = msg_optimizer_get(m, o, e);
    if (!err && optimizer_is_trusted(o) && m->update != GRADWIRE__UPDATE__SYNC)
        return err_set(e, ERR_PROTO,
                       "the chief's plan has lamb in async mode, which is not possible");
    if (!err && m->push_codec == CODEC_TOP_K &&
        (!optimizer_is_linear(o) || !mode || m->replicas_to_aggregate ||
         (o->use_ema && m->update == GRADWIRE__UPDATE__ASYNC)))
        return err_set(e, ERR_PROTO, "the chief's plan has top_k in a mode without it");
    return err;
}

/* The setting that cannot be combined with tables, as text; NULL: there is none. */
static const char *refused_with_tables(const Gradwire__Settings *m, const struct optimizer *o)
{
    const struct {
        bool wanted;
        const char *what;
    } refused[] = {{m->update == GRADWIRE__UPDATE__GEO, "geo"},
                   {optimizer_is_trusted(o), "lamb"},
                   {m->push_codec == CODEC_TOP_K, "top_k"},
                   {o->use_ema, "use_ema"},
                   {o->accumulation_steps > 1, "gradient_accumulation_steps"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].wanted)
            return refused[i].what;
    return shard_stale_refused(m);
}

static enum err check_tables(const Gradwire__Settings *m, const struct optimizer *o,
                             struct errmsg *e)
{
    const char *what = refused_with_tables(m, o);
    return what ? err_set(e, ERR_PROTO,
                          "the chief's plan has %s in a job with tables, which is not possible",
                          what)
                : ERR_OK;
}

static enum err take_plan(struct shard *s, const Gradwire__Plan *m, struct errmsg *e)
{
    if (!m)
        return err_set(e, ERR_PROTO, "the chief sent no plan");
    enum err err = msg_layout_get(m, &s->layout, e);
    if (err)
        return err;
    err = (s->layout.rows ? plan_init_tables : plan_init)(&s->plan, m->elems, m->threads,
                                                          (uint32_t)m->n_threads, e);
    if (err)
        return err;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        if (s->plan.shard[i].ps == s->ps && s->plan.shard[i].thread == s->thread) {
            s->planned = true;
            s->index = i;
            s->me = s->plan.shard[i];
        }
    }
    return ERR_OK;
}

static enum err new_blocks(struct shard *s)
{
    uint64_t elems = s->me.elems;
    s->now = 0;
    s->before_there = false;
    s->block[0] = mem_floats(elems);
    bool there = s->block[0] != NULL;
    for (uint32_t i = 0; i < s->slots; i++) {
        s->slot[i] = mem_floats(elems);
        there = there && s->slot[i];
    }
    if (s->mode->steps) {
        s->block[1] = mem_floats(elems);
        there = there && s->block[1];
    }
    enum err err = there ? shard_reply_open(s) : ERR_NOMEM;
    if (!err)
        err = shard_rows_open(s);
    for (int i = 0; i < CHECKPOINT_EPOCHS && s->index == 0 && s->settings.progressive && !err; i++)
        err = bins_init(&s->bins[i], s->settings.slices);
    return err ? err : shard_average_open(s);
}

static enum err fill_from_cut(struct shard *s, uint64_t cut, struct errmsg *e)
{
    struct manifest m = {0};
    enum err err = shard_image_load(s, cut, &m, e);
    if (err)
        return err;
    s->step = m.step;
    s->t = m.t;
    s->duplicates = m.duplicates;
    s->clipped = m.clipped;
    s->dropped = m.dropped;
    memcpy(s->epoch, m.epoch, sizeof s->epoch);
    err = s->mode->restore(s, &m, cut, e);
    manifest_close(&m);
    return err;
}

static enum err start_generation(struct shard *s, const Gradwire__Enter *m, struct errmsg *e)
{
    struct optimizer optimizer;
    enum err err = check_settings(m->settings, &optimizer, e);
    if (!err && m->plan && m->plan->n_tables)
        err = check_tables(m->settings, &optimizer, e);
    if (err)
        return err;
    close_blocks(s);
    s->entered = false;
    take_settings(s, m->settings, &optimizer);
    err = take_plan(s, m->plan, e);
    if (err || !s->planned)
        return err;
    err = new_blocks(s);
    if (!err && s->mode->open)
        err = s->mode->open(s, m->settings, e);
    if (err && e->text[0])
        return err;
    if (err)
        return err_set(e, err, "no memory for %" PRIu64 " parameters with %u slots%s", s->me.elems,
                       s->slots, s->layout.rows ? ", and for tables" : "");
    err = shard_rows_check_budget(s, e);
    if (err)
        return err;
    if (m->mode != GRADWIRE__ENTER_MODE__INIT)
        return fill_from_cut(s, m->cut, e);
    layout_init_values(&s->layout, s->settings.seed, s->me.first_elem, s->me.elems, s->block[0]);
    for (uint32_t i = 0; i < s->slots; i++)
        for (uint64_t k = 0; k < s->me.elems; k++)
            s->slot[i][k] = optimizer_slot_initial(&s->optimizer, i);
    shard_average_start(s);
    s->step = s->t = s->duplicates = s->clipped = s->dropped = 0;
    memset(s->epoch, 0, sizeof s->epoch);
    return ERR_OK;
}

/* A run-time key that determines the layout of memory and of the running step, and that differs for the new chief. NULL: none
 * differs. */
static const char *laid_out_otherwise(const struct shard *s, const Gradwire__Settings *m)
{
    const char *changed = s->mode->laid_out_otherwise ? s->mode->laid_out_otherwise(s, m) : NULL;
    if (s->codec.pushes != codec_mask((enum codec)m->push_codec, m->codecs_allowed) ||
        s->taken.on != (m->push_codec == CODEC_TOP_K) || s->codec.shape.ratio < m->push_ratio ||
        s->codec.shape.ratio > m->push_ratio)
        changed = "compression.push";
    if (s->reply.codec != (enum codec)m->reply_codec || s->codec.allowed != m->codecs_allowed)
        changed = "compression.reply or allow";
    if (s->settings.progressive != m->progressive || s->settings.slices != m->slices)
        changed = "metrics";
    return changed;
}

/* A restarted chief takes over: only the run-time keys can change. */
static enum err take_over(struct shard *s, const Gradwire__Enter *m, struct errmsg *e)
{
    struct optimizer optimizer;
    if (!s->entered)
        return err_set(e, ERR_STATE, "this shard has no parameters to take over");
    enum err err = check_settings(m->settings, &optimizer, e);
    if (!err && s->rows.on)
        err = check_tables(m->settings, &optimizer, e);
    if (err)
        return err;
    const char *changed = laid_out_otherwise(s, m->settings);
    if (changed)
        return err_set(e, ERR_STATE,
                       "this ps started with another value of %s; to use this value, start all "
                       "processes again",
                       changed);
    err = shard_rows_take_over(s, m->plan, &optimizer, e);
    if (err)
        return err;
    s->settings = msg_settings(m->settings);
    shard_rows_take_budget(s);
    s->optimizer.learning_rate = s->optimizer_undecayed.learning_rate = optimizer.learning_rate;
    s->optimizer.schedule = s->optimizer_undecayed.schedule = optimizer.schedule;
    if (s->planned && s->mode->take_over)
        s->mode->take_over(s, m->settings, m->round_from);
    return ERR_OK;
}

/* Of parameters and slots; UINT64_MAX: more than can be counted. */
static uint64_t bytes_of(const struct shard *s)
{
    uint64_t each = sizeof(float) * (1 + (uint64_t)s->slots);
    return s->me.elems > UINT64_MAX / each ? UINT64_MAX : s->me.elems * each;
}

static void tell_entered(struct shard *s, const Gradwire__Enter *m, enum err err,
                         const struct errmsg *e)
{
    if (err == ERR_OK && !s->planned)
        return; /* the plan has no shard for this thread: no process waits for its answer */
    /* the chief would end the job */
    if (err_exit_code(err) == 138 && s->io->fail && s->io->fail(s->ctx, err, bytes_of(s), e->text))
        return;
    Gradwire__Entered out = GRADWIRE__ENTERED__INIT;
    out.generation = m->generation;
    out.shard = s->index;
    out.error = err ? (char *)(e->text[0] ? e->text : err_str(err)) : (char *)"";
    out.corrupt = checkpoint_unusable(err);
    if (!err && m->mode == GRADWIRE__ENTER_MODE__TAKEOVER)
        out.status = (Gradwire__ShardStatus *)shard_status(s);
    s->io->tell(s->ctx, FRAME_ENTERED, &out.base);
}

static void on_enter(struct shard *s, const Gradwire__Enter *m)
{
    struct errmsg e = {""};
    struct generation g = msg_generation_get(m->generation);
    enum err err = ERR_OK;
    if (s->entered && generation_equal(g, s->generation)) {
        tell_entered(s, m, ERR_OK, &e); /* a repeated message gets its answer again */
        return;
    }
    if (g.number <= s->generation.number) {
        err = err_set(&e, ERR_REFUSED,
                      "generation %" PRIu64 " is not above the present one, %" PRIu64, g.number,
                      s->generation.number);
    } else if (m->mode == GRADWIRE__ENTER_MODE__TAKEOVER) {
        err = take_over(s, m, &e);
    } else {
        err = start_generation(s, m, &e);
    }
    if (err != ERR_REFUSED) {
        s->generation = g;
        s->wire_generation = msg_generation(g);
        s->entered = err == ERR_OK;
        shard_cut_reset(s);
        shard_taken_close(s); /* workers start from scratch in each generation */
        if (s->mode && s->mode->begin)
            s->mode->begin(s);
        (void)snprintf(s->uuid, sizeof s->uuid, "%s", m->uuid);
        for (struct shard_peer *p = s->peers; p; p = p->next)
            shard_rows_drop_asks(p);
        s->io->drop_peers(s->ctx, ERR_OK);
        if (s->entered && s->planned && s->mode->release)
            s->mode->release(s); /* a takeover can happen while a cut stops the shard */
    }
    assert(!s->entered || err == ERR_REFUSED || generation_equal(s->generation, g));
    tell_entered(s, m, err, &e);
}

/* ---- peers ---- */

void shard_fence(struct shard *s, uint32_t worker, uint64_t incarnation)
{
    assert(worker < WORKERS_MAX && s->least_incarnation[worker] <= s->max_incarnation);
    if (incarnation > s->max_incarnation)
        s->max_incarnation = incarnation;
    if (incarnation > s->least_incarnation[worker])
        s->least_incarnation[worker] = incarnation;
}

bool shard_peer_fenced(const struct shard *s, const struct shard_peer *peer)
{
    return peer->incarnation < s->least_incarnation[peer->worker];
}

static Gradwire__Refuse refusal(struct shard *s, Gradwire__Reason reason, const char *text)
{
    Gradwire__Refuse m = GRADWIRE__REFUSE__INIT;
    m.reason = reason;
    m.text = (char *)text;
    m.generation = &s->wire_generation;
    return m;
}

static Gradwire__Refuse other_generation(struct shard *s)
{
    return refusal(s, GRADWIRE__REASON__OTHER_GENERATION, "a new generation has begun");
}

static enum err let_in(struct shard *s, struct shard_peer *peer, const Gradwire__Hello *m)
{
    shard_fence(s, m->worker, m->incarnation);
    *peer =
        (struct shard_peer){.next = s->peers, .worker = m->worker, .incarnation = m->incarnation};
    s->peers = peer;
    s->separate_chief = m->listed_chief;
    if (s->mode->on_hello)
        s->mode->on_hello(s, m);
    assert(!shard_peer_fenced(s, peer) && peer->incarnation <= s->max_incarnation);
    shard_check(s);
    return ERR_OK;
}

enum err shard_on_hello(struct shard *s, struct shard_peer *peer, const Gradwire__Hello *m,
                        Gradwire__Refuse *refuse)
{
    shard_check(s);
    if (!s->entered)
        *refuse = refusal(s, GRADWIRE__REASON__NOT_READY, "no parameters yet");
    else if (!shard_same_generation(s, m->generation))
        *refuse = other_generation(s);
    else if (m->worker >= WORKERS_MAX)
        *refuse = refusal(s, GRADWIRE__REASON__BAD_MESSAGE, "there is no such worker");
    else if (m->incarnation < s->least_incarnation[m->worker])
        *refuse = refusal(s, GRADWIRE__REASON__OLD_INCARNATION,
                          "a later process has taken this worker's place");
    else if ((s->mode->join && s->mode->join(s, m->worker, m->incarnation)) ||
             shard_taken_join(s, m->worker, m->incarnation))
        *refuse = refusal(s, GRADWIRE__REASON__NOT_READY, "no memory");
    else
        return let_in(s, peer, m);
    return ERR_REFUSED;
}

void shard_peer_gone(struct shard *s, struct shard_peer *peer)
{
    LIST_REMOVE(s->peers, peer);
    shard_rows_drop_asks(peer);
}

/* ---- push and pull ---- */

/* Check that the body's codec is allowed, and that its length equals the plan's (raw) or is within the bound (encoded). */
static enum err codec_fits(const struct shard *s, const Gradwire__Push *m, uint64_t body_bytes,
                           struct errmsg *e)
{
    enum codec c = (enum codec)m->codec;
    if ((uint32_t)c >= CODECS || !(s->codec.pushes >> c & 1))
        return err_set(e, ERR_PROTO, "codec %u is not allowed in this job's pushes", (unsigned)c);
    uint64_t most = codec_body_bytes(&s->codec.shape, c, m->first_chunk, m->chunks);
    if (codec_is_sized(c) ? body_bytes != most : body_bytes == 0 || body_bytes >= most)
        return err_set(e, ERR_PROTO, "%" PRIu64 " body bytes; the plan needs %s%" PRIu64,
                       body_bytes, codec_is_sized(c) ? "" : "less than ", most);
    return ERR_OK;
}

enum err shard_push_fits(const struct shard *s, const Gradwire__Push *m, uint64_t body_bytes,
                         uint64_t *elems, bool *wanted, struct errmsg *e)
{
    *wanted = false;
    *elems = body_bytes / sizeof(float);
    if (!shard_same_generation(s, m->generation))
        return ERR_OK; /* refused when the frame is complete */
    uint32_t end = s->me.first_chunk + s->me.chunks;
    if (m->chunks == 0 || m->first_chunk < s->me.first_chunk || m->first_chunk >= end ||
        m->chunks > end - m->first_chunk)
        return err_set(e, ERR_PROTO, "chunks %u + %u do not belong to this shard (%u + %u)",
                       m->first_chunk, m->chunks, s->me.first_chunk, s->me.chunks);
    if (m->n_sums > 1 + s->settings.metrics)
        return err_set(e, ERR_PROTO, "%zu sums; expected are %u", m->n_sums,
                       1 + s->settings.metrics);
    const bool marked = s->settings.progressive && m->first_chunk == 0 && !m->remainder;
    const size_t marks = marked ? bins_marks_bytes(m->examples, s->settings.slices) : 0;
    if (m->marks.len != marks)
        return err_set(e, ERR_PROTO, "%zu bytes of marks; expected are %zu", m->marks.len, marks);
    *elems = plan_run_elems(&s->plan, m->first_chunk, m->chunks);
    enum err err = codec_fits(s, m, body_bytes, e);
    if (err)
        return err;
    if (m->remainder && !s->mode->remainders)
        return err_set(e, ERR_PROTO, "a push of withheld values in a job that withholds none");
    *wanted = true;
    return s->mode->push_fits ? s->mode->push_fits(s, m, wanted, e) : ERR_OK;
}

enum err shard_push_decode(struct shard *s, const Gradwire__Push *m, const void *in, uint64_t bytes,
                           float *out, struct errmsg *e)
{
    if (!shard_same_generation(s, m->generation))
        return err_set(e, ERR_STATE, "a new generation has begun");
    double began = s->io->now_s(s->ctx);
    enum err err = codec_decode(s->codec.coder, &s->codec.shape, (enum codec)m->codec,
                                m->first_chunk, m->chunks, in, bytes, out);
    s->codec.push_cost.decode_s += s->io->now_s(s->ctx) - began;
    return err ? err_set(e, err, "the %s body of chunks %u + %u cannot be decoded",
                         codec_str((enum codec)m->codec), m->first_chunk, m->chunks)
               : ERR_OK;
}

/* Refuse a message of another generation; the worker's connection stays open. */
static bool is_refused(struct shard *s, struct shard_peer *peer, const Gradwire__Generation *g)
{
    bool refused = !shard_same_generation(s, g);
    if (refused) {
        const Gradwire__Refuse m = other_generation(s);
        s->io->send(s->ctx, peer, FRAME_REFUSE, &m.base, NULL, 0);
    }
    return refused;
}

enum err shard_on_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                       struct buffer *body, struct errmsg *e)
{
    if (is_refused(s, peer, m->generation))
        return ERR_OK;
    shard_check(s);
    enum err err = s->mode->on_push(s, peer, m, body, e);
    shard_check(s);
    return err;
}

enum err shard_on_rows(struct shard *s, struct shard_peer *peer, enum frame_type type,
                       const ProtobufCMessage *m, struct buffer *body, uint64_t body_bytes,
                       struct errmsg *e)
{
    bool asks = type == FRAME_ROWS_ASK;
    const Gradwire__RowsAsk *ask = (const Gradwire__RowsAsk *)m;
    const Gradwire__RowsPush *push = (const Gradwire__RowsPush *)m;
    if (is_refused(s, peer, asks ? ask->generation : push->generation))
        return ERR_OK;
    shard_check(s);
    enum err err = asks ? shard_rows_check_ask(s, ask, body, e) : ERR_OK;
    if (!err)
        err = asks ? s->mode->on_rows_ask(s, peer, ask, body, e)
                   : s->mode->on_rows_push(s, peer, push, body, body_bytes, e);
    shard_check(s);
    return err;
}

static enum err on_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                        struct errmsg *e)
{
    if (is_refused(s, peer, m->generation))
        return ERR_OK;
    return m->averages ? shard_average_pull(s, peer, m, e) : s->mode->on_pull(s, peer, m, e);
}

static enum err on_tick(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                        struct errmsg *e)
{
    if (is_refused(s, peer, m->generation))
        return ERR_OK;
    return s->mode->on_tick
               ? s->mode->on_tick(s, peer, m, e)
               : err_set(e, ERR_PROTO, "a message with a clock, but training.update is not ssp");
}

/* ---- the chief's decisions on steps and workers ---- */

static void on_decision(struct shard *s, const Gradwire__StepDecision *m)
{
    if (shard_mine(s, m->generation) && s->mode->on_decision)
        s->mode->on_decision(s, m);
}

static void on_step_ask(struct shard *s, const Gradwire__StepAsk *m)
{
    if (shard_mine(s, m->generation) && s->mode->on_step_ask)
        s->mode->on_step_ask(s);
}

static void on_wait_ask(struct shard *s, const Gradwire__WaitAsk *m)
{
    Gradwire__Wait out = GRADWIRE__WAIT__INIT;
    uint8_t bits[TREE_LEAVES_MAX / 8];
    if (!shard_mine(s, m->generation) || !s->planned)
        return;
    out.generation = m->generation;
    out.shard = s->index;
    out.number = m->number;
    out.step = s->step;
    if (s->mode->wait)
        s->mode->wait(s, &out, bits);
    s->io->tell(s->ctx, FRAME_WAIT, &out.base);
}

static void on_gone(struct shard *s, const Gradwire__Gone *m)
{
    if (shard_mine(s, m->generation) && s->mode->on_gone)
        s->mode->on_gone(s, m);
}

/* ---- the shard's facts ---- */

/* Bytes of a snapshot. Rows count with their memory, which is a little more than their bytes in the file. */
static uint64_t state_bytes(const struct shard *s)
{
    uint64_t rows = s->rows.on ? row_tables_bytes(&s->rows.tables) : 0;
    return s->entered ? s->me.elems * sizeof(float) * (1 + s->slots) + rows : 0;
}

struct shard_facts shard_facts(const struct shard *s)
{
    return (struct shard_facts){.entered = s->entered,
                                .planned = s->planned,
                                .generation = s->generation,
                                .max_incarnation = s->max_incarnation,
                                .elems = s->me.elems,
                                .state_bytes = state_bytes(s),
                                .reply_codec = shard_reply_codec(s),
                                .kept_rows = s->rows.kept_rows + s->rows.tables.cut.kept_rows,
                                .kept_most_bytes = shard_kept_most_bytes(s),
                                .holds = s->rows.holds,
                                .rows = s->rows.tables.traffic};
}

void shard_waits_for(const struct shard *s, char *out, size_t bytes)
{
    if (!s->entered)
        (void)snprintf(out, bytes, "waiting for the chief");
    else if (shard_held(s))
        (void)snprintf(out, bytes,
                       "step %" PRIu64 ": waiting until checkpoint %" PRIu64 " is copied; %" PRIu64
                       " MiB of rows are kept for it",
                       s->step, s->cut.number, s->rows.tables.cut.kept.bytes >> 20);
    else if (!s->planned || !s->mode->waits_for || !s->mode->waits_for(s, out, bytes))
        (void)snprintf(out, bytes, "%" PRIu64 " batches applied", s->step);
}

/* ---- messages by their type ---- */

void shard_on_chief(struct shard *s, enum frame_type type, const ProtobufCMessage *m)
{
    shard_check(s);
    switch (type) {
    case FRAME_ENTER:
        on_enter(s, (const Gradwire__Enter *)m);
        break;
    case FRAME_CUT:
        shard_on_cut(s, (const Gradwire__Cut *)m);
        break;
    case FRAME_CUT_AT:
        shard_on_cut_at(s, (const Gradwire__CutAt *)m);
        break;
    case FRAME_CUT_ENDED:
        shard_on_cut_ended(s, (const Gradwire__CutEnded *)m);
        break;
    case FRAME_STEP_DECISION:
        on_decision(s, (const Gradwire__StepDecision *)m);
        break;
    case FRAME_STEP_ASK:
        on_step_ask(s, (const Gradwire__StepAsk *)m);
        break;
    case FRAME_WAIT_ASK:
        on_wait_ask(s, (const Gradwire__WaitAsk *)m);
        break;
    case FRAME_GONE:
        on_gone(s, (const Gradwire__Gone *)m);
        break;
    default:
        break;
    }
    shard_check(s);
}

enum err shard_on_worker(struct shard *s, struct shard_peer *peer, enum frame_type type,
                         const ProtobufCMessage *m, struct errmsg *e)
{
    shard_check(s);
    enum err err;
    if (type == FRAME_PULL)
        err = on_pull(s, peer, (const Gradwire__Pull *)m, e);
    else if (type == FRAME_TICK)
        err = on_tick(s, peer, (const Gradwire__Tick *)m, e);
    else
        err = err_set(e, ERR_PROTO, "a shard does not accept %s", frame_type_str((uint16_t)type));
    shard_check(s);
    return err;
}
