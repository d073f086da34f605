/* The step commit, sync: decides once what all shards do with a step, in a round that runs only if it is needed.
 *
 * Happy path: every shard has reported its part of the running step -> one scale for all -> the decision to every
 * ps.
 * Failure modes: a ps's connection was lost (the last decision is sent again, and its shards are asked), another
 * chief takes over (it asks all; a decision that any shard has carried out, or holds, is sent to the others), a
 * report of a step that is already decided (answered with the decision). A shard that makes step k + 1 proves that
 * all have made k, so one step at a time is enough. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/parameters/norm.h"
#include "common/rows/key.h"
#include "worker/chief/core/chief_state.h"

/* ---- lamb's trust ratios ---- */

static enum err trust_init(struct chief *c)
{
    struct chief_commit *k = &c->sync.commit;
    if (!c->lamb)
        return ERR_OK;
    k->trust_first = mem_zalloc(c->plan.chunks + 1, sizeof *k->trust_first);
    k->ratio = mem_floats(c->config.layout->tensors);
    if (!k->trust_first || !k->ratio)
        return ERR_NOMEM;
    trust_index(c->config.layout, &c->plan, 0, c->plan.chunks, k->trust_first);
    k->trust =
        mem_zalloc(TRUST_SUMS * (size_t)k->trust_first[c->plan.chunks] + 1, sizeof *k->trust);
    return k->trust ? ERR_OK : ERR_NOMEM;
}

static bool trust_take(struct chief *c, const struct plan_shard *p, const Gradwire__StepReport *m)
{
    const struct chief_commit *k = &c->sync.commit;
    if (!c->lamb)
        return true;
    size_t first = k->trust_first[p->first_chunk];
    size_t end = k->trust_first[p->first_chunk + p->chunks];
    if (m->n_trust != TRUST_SUMS * (end - first))
        return false;
    if (m->n_trust)
        memcpy(k->trust + TRUST_SUMS * first, m->trust, m->n_trust * sizeof *m->trust);
    return true;
}

/* ---- the commit ---- */

/* With tables, the buckets' doubles follow those of the chunks. */
static uint32_t buckets(const struct chief *c)
{
    return c->config.layout->rows ? ROW_BUCKETS : 0;
}

enum err commit_init(struct chief *c)
{
    commit_close(c);
    c->sync.commit.squares =
        mem_zalloc(c->plan.chunks + buckets(c), sizeof *c->sync.commit.squares);
    return c->sync.commit.squares ? trust_init(c) : ERR_NOMEM;
}

void commit_close(struct chief *c)
{
    mem_free(c->sync.commit.squares);
    mem_free(c->sync.commit.trust_first);
    mem_free(c->sync.commit.trust);
    mem_free(c->sync.commit.ratio);
    c->sync.commit = (struct chief_commit){0};
    c->sync.accept = (struct chief_accept){0};
}

static void send_decision(struct chief *c, uint32_t ps)
{
    const struct chief_decision *d = &c->sync.commit.last;
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    m.generation = &c->named;
    m.step = d->step;
    m.rejected = d->rejected;
    m.scale = d->scale;
    m.ratios = c->sync.commit.ratio;
    m.n_ratios = c->lamb ? c->config.layout->tensors : 0;
    if (d->there)
        chief_to_ps(c, ps, FRAME_STEP_DECISION, &m.base);
}

/* lamb, if the gradient is clipped: the ratios depend on the scale, so the shards report once more. */
static void send_scale(struct chief *c, uint32_t ps)
{
    const struct chief_commit *k = &c->sync.commit;
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    m.generation = &c->named;
    m.round = GRADWIRE__ROUND__TRUST;
    m.step = k->step;
    m.scale = k->scale;
    if (k->scaled)
        chief_to_ps(c, ps, FRAME_STEP_DECISION, &m.base);
}

static void scale_all(struct chief *c, float scale)
{
    assert(c->lamb && !c->sync.commit.scaled);
    c->sync.commit.scaled = true;
    c->sync.commit.scale = scale;
    send_scale(c, EVERY_PS);
}

void commit_resend(struct chief *c, uint32_t ps)
{
    Gradwire__StepAsk m = GRADWIRE__STEP_ASK__INIT;
    m.generation = &c->named;
    if (!c->entered || !c->ps[ps].up)
        return;
    accept_send(c, ps);
    send_decision(c, ps);
    send_scale(c, ps);
    chief_to_ps(c, ps, FRAME_STEP_ASK, &m.base);
}

static void tell_all(struct chief *c, struct chief_decision d)
{
    assert(!c->sync.commit.last.there || d.step > c->sync.commit.last.step);
    c->sync.commit.last = d;
    send_decision(c, EVERY_PS);
}

/* ---- the decision ---- */

/* Doubles are added in the order of the chunks, then of the buckets, whichever shards have them. */
static float scale_of(const struct chief *c)
{
    const struct chief_commit *k = &c->sync.commit;
    double squares = 0;
    for (uint32_t i = 0; i < c->plan.chunks + buckets(c); i++)
        squares += k->squares[i];
    return norm_scale(squares, k->divisor, c->config.settings.clip_norm);
}

/* Every shard has reported. A rejection is sent only when the journal has it, so it holds whichever process dies. */
static void decide(struct chief *c)
{
    struct chief_commit *k = &c->sync.commit;
    struct chief_decision d = {.there = true, .step = k->step};
    assert(!k->due.there && (!k->last.there || k->step > k->last.step));
    if (journal_skips(&c->journal, k->step)) {
        d.rejected = true;
        if (!guard_count_row(c, k->step, "skipped after a recovery"))
            return;
    } else if (k->broken[0]) {
        d.rejected = true;
        if (!guard_reject(c, k->step, k->broken))
            return;
    } else {
        d.scale = k->scaled ? k->scale : scale_of(c);
        if (c->lamb && d.scale < 1 && !shards_all(c, offsetof(struct chief_shard, sync.trusted))) {
            if (!k->scaled)
                scale_all(c, d.scale);
            return;
        }
        if (c->lamb)
            trust_ratios(c->config.layout, &c->plan, k->trust, k->ratio);
        if (k->examples)
            c->row = 0;
    }
    if (c->unwritten)
        k->due = d;
    else
        tell_all(c, d);
}

void commit_on_journaled(struct chief *c)
{
    struct chief_decision due = c->sync.commit.due;
    if (!due.there || c->unwritten)
        return;
    assert(due.step == c->sync.commit.step);
    c->sync.commit.due.there = false;
    tell_all(c, due);
}

/* A decision that an earlier chief sent to a shard holds for all shards. */
static void adopt(struct chief *c, const Gradwire__StepDecision *m)
{
    const struct chief_decision *last = &c->sync.commit.last;
    if ((last->there && m->step <= last->step) ||
        (c->lamb && m->n_ratios != c->config.layout->tensors))
        return;
    if (c->lamb)
        memcpy(c->sync.commit.ratio, m->ratios, m->n_ratios * sizeof *m->ratios);
    tell_all(c, (struct chief_decision){
                    .there = true, .step = m->step, .rejected = m->rejected, .scale = m->scale});
}

static bool take(struct chief *c, const Gradwire__StepReport *m)
{
    struct chief_commit *k = &c->sync.commit;
    const struct plan_shard *p = &c->plan.shard[m->shard];
    const struct bucket_range of =
        bucket_share((struct bucket_range){0, buckets(c)}, m->shard, c->plan.shards);
    if (m->n_sums != p->chunks + of.end - of.first || m->step < k->step)
        return false;
    if (m->step > k->step) {
        for (uint32_t i = 0; i < c->plan.shards; i++)
            c->shard[i].sync.reported = c->shard[i].sync.trusted = false;
        k->scaled = false;
        k->step = m->step;
        k->broken[0] = '\0';
    }
    if (!trust_take(c, p, m))
        return false;
    if (p->chunks)
        memcpy(k->squares + p->first_chunk, m->sums, p->chunks * sizeof *k->squares);
    if (of.end > of.first)
        memcpy(k->squares + c->plan.chunks + of.first, m->sums + p->chunks,
               (of.end - of.first) * sizeof *k->squares);
    k->examples = m->examples;
    k->divisor = m->divisor;
    c->shard[m->shard].sync.reported = true;
    if (c->lamb) {
        /* of the scaled gradient; its scale applies to all shards, whichever chief decided it */
        c->shard[m->shard].sync.trusted = m->round == GRADWIRE__ROUND__TRUST;
        if (c->shard[m->shard].sync.trusted && !c->sync.commit.scaled)
            scale_all(c, m->scale);
    }
    if (m->broken[0] && (!k->broken[0] || m->shard <= k->broken_shard)) {
        k->broken_shard = m->shard;
        (void)snprintf(k->broken, sizeof k->broken, "%s", m->broken);
    }
    return true;
}

void commit_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m)
{
    const struct chief_decision *last = &c->sync.commit.last;
    if (!c->entered || c->rollback_due || c->sync.commit.due.there || c->phase > CHIEF_FINISH ||
        !shards_are_of(c, m->shard, ps) || !chief_is_ours(c, m->generation))
        return;
    if (m->round == GRADWIRE__ROUND__ACCEPT) {
        accept_on_report(c, ps, m);
        return;
    }
    if (m->last)
        adopt(c, m->last);
    if (!m->summed)
        return;
    if (last->there && m->step <= last->step)
        send_decision(c, ps);
    else if (take(c, m)) {
        if (m->round == GRADWIRE__ROUND__NORM)
            send_scale(c, ps);
        if (shards_all(c, offsetof(struct chief_shard, sync.reported)))
            decide(c);
    }
}
