/* Sync: the leaves of a step are dealt to all members, and a step consists of all leaves. Layers above decide more:
 * commit.c, accept.c. */
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

/* ---- sync.dropped: redo ---- */

/* Microbatches that backup workers dropped are trained in extra steps after the epoch's last batch; their number is
 * known only there. The position in the epoch is as the lead shard reported last. */

uint64_t sync_wanted(const struct chief_config *config)
{
    uint64_t batches = config->settings.epochs * config->settings.batches_per_epoch;
    return config->settings.redo ? 2 * batches : batches;
}

static void redo_forget(struct manifest_redo *r)
{
    mem_free(r->dropped);
    *r = (struct manifest_redo){.there = false};
}

/* Without memory it stays empty, and a cut of it fails. */
static void redo_take(struct manifest_redo *to, const struct manifest_redo *from)
{
    redo_forget(to);
    uint8_t *dropped = mem_zalloc((size_t)from->dropped_bytes + 1, 1);
    if (!dropped)
        return;
    if (from->dropped_bytes)
        memcpy(dropped, from->dropped, from->dropped_bytes);
    *to = *from;
    to->dropped = dropped;
}

/* The known number of steps, with the extra ones of finished epochs; the number of those to come is not known. */
static uint64_t redo_planned(const struct manifest_redo *r, const Gradwire__Settings *s,
                             uint64_t total)
{
    uint64_t least = (s->epochs - r->epoch) * s->batches_per_epoch + r->begin;
    return r->there && r->epoch <= s->epochs && least < total ? least : total;
}

/* ---- a generation ---- */

static void sync_close(struct chief *c)
{
    commit_close(c);
    redo_forget(&c->sync.redo);
}

/* A step counts as made when every shard has made it. */
static uint64_t made(const struct chief *c)
{
    uint64_t step = UINT64_MAX;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].step < step)
            step = c->shard[i].step;
    return step;
}

static void sync_entered(struct chief *c)
{
    /* the end that was found in another history may not apply to this one */
    if (c->config.settings.redo)
        c->total = sync_wanted(&c->config);
    if (c->begins != BEGINS_TAKEOVER)
        redo_forget(&c->sync.redo);
    if (c->begins == BEGINS_RESTORE && c->base.redo.there)
        redo_take(&c->sync.redo, &c->base.redo);
    c->sync.step = c->begins == BEGINS_TAKEOVER  ? made(c)
                   : c->begins == BEGINS_RESTORE ? c->base.step
                                                 : 0;
    c->row = journal_row(&c->journal, c->sync.step);
}

/* ---- progress ---- */

static uint64_t sync_steps(const struct chief *c)
{
    return c->sync.step;
}

static bool sync_learned(const struct chief *c)
{
    return c->sync.step >= c->total;
}

static uint64_t sync_enough(const struct chief *c, uint64_t step, uint64_t generation)
{
    if (c->config.settings.redo && generation != c->generation.number)
        return UINT64_MAX; /* the session reports it again when it has come that far */
    return step;
}

static void sync_on_step(struct chief *c, uint64_t step)
{
    c->sync.step = step;
    accept_on_step(c, step);
}

static void sync_facts(const struct chief *c, struct chief_facts *f)
{
    f->dealt = c->sync.step;
    f->total = redo_planned(&c->sync.redo, &c->config.settings, c->total);
    f->dropped = c->shard ? c->shard[0].sync.dropped : 0;
    f->redo = c->sync.redo;
    f->redo.dropped = NULL;
}

static void sync_check(const struct chief *c)
{
    (void)c;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        assert(!c->shard[i].sync.trusted || c->shard[i].sync.reported);
    assert(!c->sync.commit.due.there || c->unwritten || c->rollback_due);
    assert(accept_is_on(c) || !c->sync.accept.last.there);
    assert(!c->sync.commit.due.there || c->sync.commit.due.step == c->sync.commit.step);
}

/* ---- workers ---- */

static void tell_idle(struct chief *c, uint32_t members)
{
    uint32_t leaves = c->config.settings.microbatches;
    if (members <= leaves || c->sync.told_idle)
        return;
    uint32_t wanted = 1;
    while (wanted < members)
        wanted *= 2;
    chief_say(c, 1,
              "%u of %u workers have nothing to do: training.microbatches is %u, %u would use "
              "them all",
              members - leaves, members, leaves, wanted);
    c->sync.told_idle = true;
}

static void sync_deal(struct chief *c)
{
    uint32_t members = workers_count(c);
    if (!c->entered || members == 0)
        return;
    struct chief_part share[CHIEF_WORKERS_MAX];
    Gradwire__Part part[CHIEF_WORKERS_MAX], *parts[CHIEF_WORKERS_MAX];
    uint32_t n = workers_parts(c, share);
    for (uint32_t i = 0; i < n; i++) {
        gradwire__part__init(&part[i]);
        part[i].worker = share[i].worker;
        part[i].first_leaf = share[i].first;
        part[i].leaves = share[i].end - share[i].first;
        parts[i] = &part[i];
    }
    tell_idle(c, members);
    Gradwire__Deal m = GRADWIRE__DEAL__INIT;
    m.generation = &c->named;
    m.version = ++c->sync.deal;
    m.parts = parts;
    m.n_parts = n;
    for (uint32_t i = 0; i < c->workers; i++)
        if (c->worker[i].welcomed)
            c->io->to_worker(c->ctx, i, FRAME_DEAL, &m.base);
    accept_progress(c);
}

/* A shard that is one step ahead waits for leaves that no worker can compute yet, so these do not count. */
static struct tree_leaves missing_leaves(const struct chief *c)
{
    struct tree_leaves missing = {{0}};
    uint64_t step = UINT64_MAX;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].wait.step < step)
            step = c->shard[i].wait.step;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        for (size_t k = 0; c->shard[i].wait.step == step && k < TREE_LEAVES_MAX / 64; k++)
            missing.bits[k] |= c->shard[i].wait.missing.bits[k];
    return missing;
}

static bool lacks_part(const struct tree_leaves *missing, const struct chief_part *p)
{
    for (uint32_t leaf = p->first; leaf < p->end; leaf++)
        if (tree_has_leaf(missing, leaf))
            return true;
    return false;
}

/* The chief's own session is named last, because it may be evaluating. */
static uint32_t sync_slowest(const struct chief *c)
{
    struct chief_part part[CHIEF_WORKERS_MAX];
    const struct tree_leaves missing = missing_leaves(c);
    uint32_t parts = workers_parts(c, part), found = c->workers;
    for (uint32_t i = 0; i < parts; i++)
        if ((found == c->workers || found == 0) && lacks_part(&missing, &part[i]))
            found = part[i].worker;
    return found;
}

/* With other policies the shards check gradients, and decide in the step commit. */
static void sync_on_worker(struct chief *c, uint32_t worker, enum frame_type type,
                           const ProtobufCMessage *m)
{
    const Gradwire__BatchRejected *rejected = (const Gradwire__BatchRejected *)m;
    (void)worker;
    if (type == FRAME_BATCH_REJECTED && c->config.settings.nan_guard == NAN_GUARD_CHECK &&
        chief_is_ours(c, rejected->generation))
        guard_on_rejected(c, rejected);
}

/* ---- shards, a cut ---- */

static void sync_take_status(struct chief *c, struct chief_shard *s, const Gradwire__ShardStatus *m)
{
    s->sync.dropped = m->dropped;
    if (m->redo) {
        const struct manifest_redo from = {.there = true,
                                           .epoch = m->redo->epoch,
                                           .begin = m->redo->begin,
                                           .redone = m->redo->redone,
                                           .dropped_bytes = (uint32_t)m->redo->dropped.len,
                                           .dropped = m->redo->dropped.data};
        redo_take(&c->sync.redo, &from);
    }
}

static void sync_from_cut(struct chief *c, struct chief_shard *s)
{
    s->sync.dropped = c->base.dropped;
}

static bool sync_equal(const struct chief_shard *a, const struct chief_shard *b)
{
    return a->sync.dropped == b->sync.dropped;
}

static void sync_put_manifest(const struct chief *c, struct manifest *m, uint8_t *window)
{
    (void)window;
    m->dealt = m->step;
    m->dropped = c->shard[0].sync.dropped;
    m->redo = c->sync.redo;
}

static const char *sync_lacks(const struct chief *c)
{
    return c->config.settings.redo && !c->sync.redo.there
               ? "no memory for the list of microbatches to train at the epoch's end"
               : NULL;
}

const struct chief_mode chief_sync = {
    .unit = "step",
    .has_slots = true,
    .begin = commit_init,
    .close = sync_close,
    .entered = sync_entered,
    .resend = commit_resend,
    .on_report = commit_on_report,
    .journaled = commit_on_journaled,
    .check = sync_check,
    .steps = sync_steps,
    .learned = sync_learned,
    .enough = sync_enough,
    .on_step = sync_on_step,
    .facts = sync_facts,
    .deal = sync_deal,
    .slowest = sync_slowest,
    .on_worker = sync_on_worker,
    .take_status = sync_take_status,
    .from_cut = sync_from_cut,
    .equal = sync_equal,
    .lacks = sync_lacks,
    .put_manifest = sync_put_manifest,
};
