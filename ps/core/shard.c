#include "ps/core/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "ps/core/shard_state.h"

void shard_image_free(struct shard_image *image)
{
    if (!image)
        return;
    mem_free(image->blocks.w);
    for (int i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        mem_free(image->blocks.slot[i]);
    mem_free(image);
}

enum err shard_new(struct shard **out, uint32_t ps, uint32_t thread, const struct shard_io *io,
                   void *ctx)
{
    struct shard *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return ERR_NOMEM;
    if (coder_new(&s->coder)) {
        mem_free(s);
        return ERR_NOMEM;
    }
    s->io = io;
    s->ctx = ctx;
    s->ps = ps;
    s->thread = thread;
    *out = s;
    return ERR_OK;
}

/* Everything that belongs to one generation's plan. */
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
    shard_average_close(s);
    shard_stale_close(s);
    shard_geo_close(s);
    shard_taken_close(s);
    clocks_close(&s->clocks);
    shard_reply_close(s);
    gate_close(&s->gate);
    once_close(&s->once);
    shard_round_close(s);
    mem_free(s->made);
    mem_free(s->run);
    mem_free(s->scratch);
    mem_free(s->chunk_t);
    s->made = NULL;
    s->run = NULL;
    s->scratch = NULL;
    s->chunk_t = NULL;
    shard_redo_close(s);
    plan_close(&s->plan);
    layout_close(&s->layout);
    s->me = (struct plan_shard){0};
}

void shard_free(struct shard *s)
{
    if (!s)
        return;
    close_blocks(s);
    shard_cut_reset(s);
    mem_free(s->fence);
    mem_free(s->status_partial);
    mem_free(s->status_stale);
    mem_free(s->status_stale_at);
    coder_free(s->coder);
    mem_free(s);
}

bool shard_entered(const struct shard *s)
{
    return s->entered;
}

struct generation shard_generation(const struct shard *s)
{
    return s->generation;
}

const float *shard_weights(const struct shard *s, uint64_t *first_elem, uint64_t *elems)
{
    *first_elem = s->me.first_elem;
    *elems = s->me.elems;
    return s->block[s->now];
}

uint64_t shard_max_incarnation(const struct shard *s)
{
    return s->max_incarnation;
}

/* ---- entering a generation ---- */

static void take_settings(struct shard *s, const Gradwire__Settings *m, const struct optimizer *o)
{
    s->update = (enum update_mode)m->update;
    s->optimizer = *o;
    s->optimizer_undecayed = *o;
    s->optimizer_undecayed.weight_decay = 0.0f;
    s->seed = m->seed;
    s->batches_per_epoch = m->batches_per_epoch;
    s->leaves = m->microbatches;
    s->metrics = m->metrics;
    s->staleness = m->staleness;
    s->delay_compensation = m->delay_compensation;
    s->staleness_rate = m->staleness_rate;
    s->rate_staleness = 0;
    s->slots = s->update == UPDATE_GEO ? 0 : optimizer_slots(&s->optimizer);
    s->push_codecs = codec_mask((enum codec)m->push_codec, m->codecs_allowed);
    s->reply_codec = (enum codec)m->reply_codec;
    s->codecs_allowed = m->codecs_allowed;
    s->feedback = m->push_codec == CODEC_TOP_K;
    s->shape = (struct codec_shape){&s->plan, &s->layout, m->push_ratio};
    shard_accept_init(s, m);
    s->redo.on = m->redo;
}

static enum err check_settings(const Gradwire__Settings *m, struct optimizer *o, struct errmsg *e)
{
    if (!m || m->microbatches == 0 || m->microbatches > TREE_LEAVES_MAX ||
        (m->microbatches & (m->microbatches - 1)) || m->metrics > SUMS_MAX ||
        m->batches_per_epoch == 0 || m->update > GRADWIRE__UPDATE__GEO || !(m->clip_norm >= 0) ||
        !(m->delay_compensation >= 0.0f) || m->nan_guard > NAN_GUARD_ROLLBACK ||
        !(m->push_ratio >= 0.0f && m->push_ratio <= JOB_TOP_K_RATIO_MAX) ||
        ((m->replicas_to_aggregate || m->redo) && m->update != GRADWIRE__UPDATE__SYNC))
        return err_set(e, ERR_PROTO, "the chief's settings are out of range");
    enum err err = msg_optimizer_get(m, o, e);
    if (!err && optimizer_is_trusted(o) && m->update != GRADWIRE__UPDATE__SYNC)
        return err_set(e, ERR_PROTO, "the chief wants lamb in async");
    if (!err && m->push_codec == CODEC_TOP_K &&
        (!optimizer_is_linear(o) || m->update == GRADWIRE__UPDATE__SSP ||
         m->update == GRADWIRE__UPDATE__GEO || m->replicas_to_aggregate ||
         (o->use_ema && m->update == GRADWIRE__UPDATE__ASYNC)))
        return err_set(e, ERR_PROTO, "the chief wants top_k where it cannot be");
    return err;
}

static enum err take_plan(struct shard *s, const Gradwire__Plan *m, struct errmsg *e)
{
    if (!m)
        return err_set(e, ERR_PROTO, "the chief sent no plan");
    enum err err = msg_layout_get(m, &s->layout, e);
    if (err)
        return err;
    err = plan_init(&s->plan, m->elems, m->threads, (uint32_t)m->n_threads, e);
    if (err)
        return err;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        if (s->plan.shard[i].ps == s->ps && s->plan.shard[i].thread == s->thread) {
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
    if (s->update == UPDATE_SYNC) {
        s->block[1] = mem_floats(elems);
        s->made = mem_zalloc(s->me.chunks, 1);
        s->run = mem_zalloc(s->me.chunks, sizeof *s->run);
        s->scratch = mem_floats((size_t)SHARD_SUM_ELEMS * TREE_LEVELS_MAX);
        there = there && s->block[1] && s->made && s->run && s->scratch &&
                gate_init(&s->gate, s->leaves, s->me.chunks, s->accept.on) == ERR_OK;
    } else {
        once_init(&s->once, s->me.chunks);
        s->chunk_t = mem_zalloc(s->me.chunks, sizeof *s->chunk_t);
        there = there && s->chunk_t;
    }
    s->chunks_made = 0;
    s->runs = 0;
    enum err err = there ? shard_reply_open(s) : ERR_NOMEM;
    return err ? err : shard_average_open(s);
}

static enum err fill_initial(struct shard *s)
{
    layout_init_values(&s->layout, s->seed, s->me.first_elem, s->me.elems, s->block[0]);
    for (uint32_t i = 0; i < s->slots; i++)
        for (uint64_t k = 0; k < s->me.elems; k++)
            s->slot[i][k] = optimizer_slot_initial(&s->optimizer, i);
    shard_average_start(s);
    s->step = s->t = s->duplicates = s->clipped = s->dropped = 0;
    memset(s->epoch, 0, sizeof s->epoch);
    return ERR_OK;
}

static enum err fill_from_cut(struct shard *s, uint64_t cut, struct errmsg *e)
{
    struct manifest m = {0};
    struct checkpoint_shard blocks = {.shard = s->index,
                                      .first_elem = s->me.first_elem,
                                      .elems = s->me.elems,
                                      .slots = s->slots,
                                      .w = s->block[0]};
    memcpy(blocks.slot, s->slot, sizeof blocks.slot);
    enum err err = s->io->load(s->ctx, cut, &m, &blocks, e);
    if (err)
        return err;
    s->step = m.step;
    s->t = m.t;
    s->duplicates = m.duplicates;
    s->clipped = m.clipped;
    s->dropped = m.dropped;
    memcpy(s->epoch, m.epoch, sizeof s->epoch);
    err = shard_redo_restore(s, &m.redo);
    if (err)
        err_set(e, err, "cut %" PRIu64 ": its place in its epoch is out of range", cut);
    if (s->update != UPDATE_SYNC) {
        struct ids resolved;
        err = ids_unpack(&resolved, m.mark, m.window_bits, m.window_bits_bytes);
        if (err)
            err_set(e, ERR_CORRUPT, "cut %" PRIu64 ": its resolved ids are out of range", cut);
        else
            once_restore(&s->once, &resolved);
        for (uint32_t i = 0; i < s->me.chunks; i++)
            s->chunk_t[i] = m.t;
    }
    manifest_close(&m);
    return err ? ERR_CORRUPT : ERR_OK;
}

static enum err start_generation(struct shard *s, const Gradwire__Enter *m, struct errmsg *e)
{
    struct optimizer optimizer;
    enum err err = check_settings(m->settings, &optimizer, e);
    if (err)
        return err;
    close_blocks(s);
    s->entered = false;
    take_settings(s, m->settings, &optimizer);
    err = take_plan(s, m->plan, e);
    if (err || s->me.chunks == 0)
        return err;
    err = shard_redo_open(s, m->settings, e);
    if (err)
        return err;
    err = new_blocks(s);
    if (!err)
        err = shard_round_init(s, m->settings);
    if (err)
        return err_set(e, err, "no memory for %" PRIu64 " parameters with %u slots", s->me.elems,
                       s->slots);
    err = m->mode == GRADWIRE__ENTER_MODE__INIT ? fill_initial(s) : fill_from_cut(s, m->cut, e);
    if (!err)
        shard_reply_start(s);
    return err;
}

/* The run-time keys that memory and what is under way were laid out by: a new chief's must be the same. NULL: they are. */
static const char *laid_out_otherwise(const struct shard *s, const Gradwire__Settings *m)
{
    const char *changed = NULL;
    if (s->accept.on != (m->replicas_to_aggregate > 0))
        changed = "sync.replicas_to_aggregate";
    if (s->redo.on != m->redo)
        changed = "sync.dropped";
    if ((s->delay_compensation > 0) != (m->delay_compensation > 0))
        changed = "training.delay_compensation";
    if (s->push_codecs != codec_mask((enum codec)m->push_codec, m->codecs_allowed) ||
        s->feedback != (m->push_codec == CODEC_TOP_K) || s->shape.ratio < m->push_ratio ||
        s->shape.ratio > m->push_ratio)
        changed = "compression.push";
    if (s->reply_codec != (enum codec)m->reply_codec || s->codecs_allowed != m->codecs_allowed)
        changed = "compression.reply or allow";
    return changed;
}

/* All stays but what a chief that was started again may say otherwise: the run-time keys. */
static enum err take_over(struct shard *s, const Gradwire__Enter *m, struct errmsg *e)
{
    struct optimizer optimizer;
    if (!s->entered)
        return err_set(e, ERR_STATE, "there are no parameters to take over");
    enum err err = check_settings(m->settings, &optimizer, e);
    if (err)
        return err;
    const char *changed = laid_out_otherwise(s, m->settings);
    if (changed)
        return err_set(
            e, ERR_STATE,
            "%s was another when the ps began: with this value start all processes again", changed);
    s->staleness = m->settings->staleness;
    s->staleness_rate = m->settings->staleness_rate;
    s->delay_compensation = m->settings->delay_compensation;
    s->optimizer.learning_rate = s->optimizer_undecayed.learning_rate = optimizer.learning_rate;
    s->optimizer.schedule = s->optimizer_undecayed.schedule = optimizer.schedule;
    shard_round_adopt(s, m->settings, m->round_from);
    return ERR_OK;
}

static void tell_entered(struct shard *s, const Gradwire__Enter *m, enum err err,
                         const struct errmsg *e)
{
    if (err == ERR_OK && s->me.chunks == 0)
        return; /* the plan has no place for this thread: nobody waits for it */
    Gradwire__Entered out = GRADWIRE__ENTERED__INIT;
    out.generation = m->generation;
    out.shard = s->index;
    out.error = err ? (char *)(e->text[0] ? e->text : err_str(err)) : (char *)"";
    out.corrupt = err == ERR_CORRUPT || err == ERR_NOTFOUND;
    s->io->tell(s->ctx, FRAME_ENTERED, &out.base);
}

void shard_on_enter(struct shard *s, const Gradwire__Enter *m)
{
    struct errmsg e = {""};
    struct generation g = msg_generation_get(m->generation);
    enum err err = ERR_OK;
    if (s->entered && generation_equal(g, s->generation)) {
        tell_entered(s, m, ERR_OK, &e); /* said again, answered again */
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
        s->entered = err == ERR_OK;
        shard_cut_reset(s);
        clocks_close(&s->clocks); /* workers begin anew in each generation */
        shard_geo_close(s);
        shard_taken_close(s);
        (void)snprintf(s->uuid, sizeof s->uuid, "%s", m->uuid);
        s->io->drop_peers(s->ctx);
        if (s->entered && s->me.chunks && s->update == UPDATE_SYNC)
            shard_sync_release(s); /* a takeover may come in the middle of a stop */
    }
    tell_entered(s, m, err, &e);
}

/* ---- peers ---- */

static uint64_t least_incarnation(const struct shard *s, uint32_t worker)
{
    for (size_t i = 0; i < s->fences; i++)
        if (s->fence[i].worker == worker)
            return s->fence[i].incarnation;
    return 0;
}

enum err shard_fence(struct shard *s, uint32_t worker, uint64_t incarnation)
{
    if (incarnation > s->max_incarnation)
        s->max_incarnation = incarnation;
    for (size_t i = 0; i < s->fences; i++) {
        if (s->fence[i].worker == worker) {
            if (incarnation > s->fence[i].incarnation)
                s->fence[i].incarnation = incarnation;
            return ERR_OK;
        }
    }
    struct shard_fence *grown = mem_resize(s->fence, s->fences + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    s->fence = grown;
    s->fence[s->fences++] = (struct shard_fence){worker, incarnation};
    return ERR_OK;
}

bool shard_peer_fenced(const struct shard *s, const struct shard_peer *peer)
{
    return peer->incarnation < least_incarnation(s, peer->worker);
}

enum err shard_on_hello(struct shard *s, struct shard_peer *peer, const Gradwire__Hello *m,
                        Gradwire__Refuse *refuse)
{
    *refuse = (Gradwire__Refuse)GRADWIRE__REFUSE__INIT;
    if (!s->entered) {
        refuse->reason = GRADWIRE__REASON__NOT_READY;
        refuse->text = (char *)"no parameters yet";
        return ERR_REFUSED;
    }
    if (!generation_equal(msg_generation_get(m->generation), s->generation)) {
        refuse->reason = GRADWIRE__REASON__OTHER_GENERATION;
        refuse->text = (char *)"another generation is on";
        return ERR_REFUSED;
    }
    if (m->worker >= WORKERS_MAX) {
        refuse->reason = GRADWIRE__REASON__BAD_MESSAGE;
        refuse->text = (char *)"there is no such worker";
        return ERR_REFUSED;
    }
    if (m->incarnation < least_incarnation(s, m->worker)) {
        refuse->reason = GRADWIRE__REASON__OLD_INCARNATION;
        refuse->text = (char *)"a later process has taken this worker's place";
        return ERR_REFUSED;
    }
    if (shard_fence(s, m->worker, m->incarnation) || shard_stale_join(s, m->worker) ||
        shard_geo_join(s, m->worker, m->incarnation) ||
        shard_taken_join(s, m->worker, m->incarnation)) {
        refuse->reason = GRADWIRE__REASON__NOT_READY;
        refuse->text = (char *)"no memory";
        return ERR_REFUSED;
    }
    *peer =
        (struct shard_peer){.next = s->peers, .worker = m->worker, .incarnation = m->incarnation};
    s->peers = peer;
    if (s->update == UPDATE_SSP)
        shard_ssp_hello(s, m);
    return ERR_OK;
}

void shard_peer_gone(struct shard *s, struct shard_peer *peer)
{
    LIST_REMOVE(s->peers, peer);
}

/* ---- push and pull ---- */

void shard_send(struct shard *s, struct shard_peer *to, Gradwire__Reply *head, const float *block,
                uint32_t first, uint32_t count)
{
    Gradwire__Generation g = msg_generation(s->generation);
    head->generation = &g;
    head->first_chunk = s->me.first_chunk + first;
    head->chunks = count;
    shard_taken_put(s, to, head, first, count);
    if (block && s->stale)
        shard_stale_sent(s, to->worker, first, count);
    if (block && shard_reply_values(s, to, head, block, first, count))
        return;
    uint64_t at = plan_chunk_elem(&s->plan, head->first_chunk) - s->me.first_elem;
    s->io->reply(s->ctx, to, head, block ? block + at : NULL,
                 block ? plan_run_elems(&s->plan, head->first_chunk, count) : 0);
}

void shard_send_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                    const struct shard_run *run)
{
    Gradwire__Generation g = msg_generation(s->generation);
    head->generation = &g;
    head->first_chunk = s->me.first_chunk + run->first;
    head->chunks = run->count;
    shard_taken_put(s, to, head, run->first, run->count);
    if (!shard_reply_run(s, to, head, run))
        shard_send(s, to, head, shard_seen(s, !s->now), run->first, run->count);
}

void shard_add_epoch_sums(struct shard *s, uint64_t epoch, uint64_t batches, double examples,
                          const double *sums)
{
    struct epoch_sums *to = &s->epoch[epoch % CHECKPOINT_EPOCHS];
    if (to->batches && to->epoch > epoch)
        return; /* async: a batch of an epoch that is long over; its sums are no longer kept */
    if (to->batches == 0 || to->epoch != epoch)
        *to = (struct epoch_sums){.epoch = epoch};
    to->batches += batches;
    to->examples += examples;
    to->loss += sums[0];
    for (uint32_t i = 0; i < s->metrics; i++)
        to->metric[i] += sums[1 + i];
}

void shard_add_sums(struct shard *s, uint64_t batch, double examples, const double *sums)
{
    shard_add_epoch_sums(s, batch / s->batches_per_epoch, 1, examples, sums);
}

bool shard_same_generation(const struct shard *s, const Gradwire__Generation *g)
{
    return s->entered && generation_equal(msg_generation_get(g), s->generation);
}

enum err shard_push_fits(const struct shard *s, const Gradwire__Push *m, uint64_t body_bytes,
                         uint64_t *elems, bool *wanted, struct errmsg *e)
{
    *wanted = false;
    *elems = body_bytes / sizeof(float);
    if (!shard_same_generation(s, m->generation))
        return ERR_OK; /* refused when the frame is over */
    uint32_t end = s->me.first_chunk + s->me.chunks;
    if (m->chunks == 0 || m->first_chunk < s->me.first_chunk || m->first_chunk >= end ||
        m->chunks > end - m->first_chunk)
        return err_set(e, ERR_PROTO, "chunks %u + %u are not this shard's (%u + %u)",
                       m->first_chunk, m->chunks, s->me.first_chunk, s->me.chunks);
    if (s->update == UPDATE_SYNC && !tree_valid(s->leaves, m->level, m->index))
        return err_set(e, ERR_PROTO, "node (%u, %u) is not in a tree of %u leaves", m->level,
                       m->index, s->leaves);
    if (m->n_sums > 1 + s->metrics)
        return err_set(e, ERR_PROTO, "%zu sums where %u are expected", m->n_sums, 1 + s->metrics);
    *elems = plan_run_elems(&s->plan, m->first_chunk, m->chunks);
    enum err err = shard_codec_fits(s, m, body_bytes, e);
    if (err)
        return err;
    if (m->remainder && (!s->feedback || s->update != UPDATE_ASYNC))
        return err_set(e, ERR_PROTO, "a remainder where nothing is withheld");
    *wanted = s->update == UPDATE_GEO || m->remainder ? true
              : s->update != UPDATE_SYNC              ? !ids_has(&s->once.resolved, m->name)
                                                      : m->name == s->step;
    return ERR_OK;
}

void shard_refuse_generation(struct shard *s, struct shard_peer *peer)
{
    Gradwire__Refuse refuse = GRADWIRE__REFUSE__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    refuse.reason = GRADWIRE__REASON__OTHER_GENERATION;
    refuse.text = (char *)"another generation is on";
    refuse.generation = &g;
    s->io->refuse(s->ctx, peer, &refuse);
}

enum err shard_on_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                       struct buffer *body, struct errmsg *e)
{
    if (!shard_same_generation(s, m->generation)) {
        shard_refuse_generation(s, peer);
        return ERR_OK;
    }
    if (s->update == UPDATE_GEO || m->remainder)
        return shard_geo_push(s, peer, m, body, e);
    return s->update == UPDATE_SYNC ? shard_sync_push(s, peer, m, body, e)
                                    : shard_async_push(s, peer, m, body, e);
}

enum err shard_on_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                       struct errmsg *e)
{
    if (!shard_same_generation(s, m->generation)) {
        shard_refuse_generation(s, peer);
        return ERR_OK;
    }
    if (m->averages)
        return shard_average_pull(s, peer, m, e);
    bool any = m->any || s->update != UPDATE_SYNC;
    /* Who pulls drops what was on its way: its next push gets every run again. */
    peer->answered_step = 0;
    peer->answered_push = 0;
    peer->pushed = (struct tree_leaves){{0}};
    peer->want_step = 0;
    peer->holds = false;
    peer->gated = false;
    if (s->update == UPDATE_SSP && m->bounded) {
        shard_ssp_pull(s, peer, m);
        return ERR_OK;
    }
    if (!any && m->step > s->step + 1)
        return err_set(e, ERR_PROTO, "step %" PRIu64 " is pulled, %" PRIu64 " is present", m->step,
                       s->step);
    if (!any && m->step == s->step + 1) {
        peer->want_step = m->step;
        peer->want_pulled = true;
        return ERR_OK;
    }
    bool before = !any && m->step + 1 == s->step && s->before_there;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = before ? s->step - 1 : s->step;
    reply.pulled = true;
    reply.number = m->number;
    struct shard_work work;
    shard_redo_say(s, reply.step, &reply, &work);
    shard_send(s, peer, &reply, shard_seen(s, before ? !s->now : s->now), 0, s->me.chunks);
    shard_reply_whole(peer, reply.step);
    return ERR_OK;
}

/* ---- what others see ---- */

static void status_epochs(struct shard *s)
{
    size_t n = 0;
    for (int i = 0; i < CHECKPOINT_EPOCHS && s->index == 0; i++) {
        struct epoch_sums *from = &s->epoch[i];
        if (from->batches == 0)
            continue;
        Gradwire__EpochSums *to = &s->status_epoch[n];
        gradwire__epoch_sums__init(to);
        to->epoch = from->epoch;
        to->batches = from->batches;
        to->examples = from->examples;
        to->loss = from->loss;
        to->metric = from->metric;
        to->n_metric = s->metrics;
        s->status_epochs[n++] = to;
    }
    s->status.epochs = s->status_epochs;
    s->status.n_epochs = n;
}

static void status_ids(struct shard *s)
{
    s->status.mark = s->once.resolved.mark;
    s->status.window.data = s->status_window;
    s->status.window.len = ids_pack(&s->once.resolved, s->status_window);
    if (s->once.partials == 0)
        return;
    uint8_t *bytes = mem_resize(s->status_partial, s->once.partials, sizeof(uint64_t));
    if (!bytes)
        return; /* the chief redoes what is not resolved on all shards anyway */
    s->status_partial = bytes;
    for (size_t i = 0; i < s->once.partials; i++)
        memcpy(bytes + i * sizeof(uint64_t), &s->once.partial[i].id, sizeof(uint64_t));
    s->status.partial.data = bytes;
    s->status.partial.len = s->once.partials * sizeof(uint64_t);
}

const Gradwire__ShardStatus *shard_status(struct shard *s)
{
    gradwire__shard_status__init(&s->status);
    s->status.shard = s->index;
    s->status.step = s->step;
    s->status.t = s->t;
    s->status.duplicates = s->duplicates;
    s->status.clipped = s->clipped;
    s->status.dropped = s->dropped;
    shard_redo_status(s);
    s->status_push = msg_codec_cost(&s->push_cost);
    s->status_reply = msg_codec_cost(&s->reply_cost);
    s->status.push = &s->status_push;
    s->status.reply = &s->status_reply;
    status_epochs(s);
    if (s->update != UPDATE_SYNC)
        status_ids(s);
    if (shard_stale_status(s))
        s->status.n_staleness = 0; /* a number for people: the next one may be told again */
    return &s->status;
}

uint64_t shard_state_bytes(const struct shard *s)
{
    return s->entered ? s->me.elems * sizeof(float) * (1 + s->slots) : 0;
}

void shard_waits_for(const struct shard *s, char *out, size_t bytes)
{
    if (!s->entered)
        (void)snprintf(out, bytes, "waiting for the chief");
    else if (s->update == UPDATE_SYNC && s->me.chunks && shard_cut_holds(s))
        (void)snprintf(out, bytes, "step %" PRIu64 ": held for cut %" PRIu64, s->step, s->cut);
    else if (s->round.on && s->round.chunks_summed == s->me.chunks)
        (void)snprintf(out, bytes, "step %" PRIu64 ": waiting for the chief's decision", s->step);
    else if (s->accept.on && s->me.chunks)
        (void)snprintf(out, bytes,
                       "step %" PRIu64
                       ": waiting for the chief to close the set; %u nodes of %u leaves are whole",
                       s->step, s->gate.pick.wholes, s->leaves);
    else if (s->update == UPDATE_SYNC && s->me.chunks)
        (void)snprintf(out, bytes, "step %" PRIu64 ": waiting for leaf %u of %u", s->step,
                       gate_first_missing(&s->gate, s->me.chunks - 1), s->leaves);
    else if (s->update == UPDATE_SSP && clocks_last(&s->clocks))
        (void)snprintf(out, bytes,
                       "%" PRIu64 " batches applied; the last clock is worker %u's, %" PRIu64,
                       s->step, clocks_last(&s->clocks)->worker, clocks_last(&s->clocks)->clock);
    else
        (void)snprintf(out, bytes, "%" PRIu64 " batches applied", s->step);
}
