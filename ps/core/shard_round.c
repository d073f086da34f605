/* A shard in a round of the step commit: what becomes of a step is decided once for all shards.
 *
 * Happy path: a chunk's leaves are there -> its sum is put into the other weight block -> all chunks are summed: report
 * to the chief -> its decision -> every chunk is updated (or, rejected, gets the old parameters) and goes out.
 * Failure modes: the chief is another one, or was away (it asks, and gets the report and the last decision again), a
 * cut holds the shard (the decision waits; until it is carried out nothing but the other weight block has changed, so
 * the shard still stands at the step's beginning), a decision that comes twice or late (left alone). */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/parameters/norm.h"
#include "ps/core/shard_state.h"

enum err shard_round_init(struct shard *s, const Gradwire__Settings *m)
{
    struct shard_round *r = &s->sync.round;
    shard_round_adopt(s, m, 0);
    r->squares = mem_zalloc(s->me.chunks, sizeof *r->squares); /* a new chief may want a round */
    return r->squares ? shard_trust_init(s) : ERR_NOMEM;
}

void shard_round_adopt(struct shard *s, const Gradwire__Settings *m, uint64_t from_step)
{
    struct shard_round *r = &s->sync.round;
    r->next.there = true;
    r->next.guard = m->nan_guard != NAN_GUARD_OFF;
    r->next.clip_norm = m->clip_norm;
    r->next.step = from_step;
    shard_round_turn(s);
}

/* All shards turn at the same step: a round of some only would wait for ever. */
void shard_round_turn(struct shard *s)
{
    struct shard_round *r = &s->sync.round;
    if (!r->next.there || s->step < r->next.step)
        return;
    r->next.there = false;
    r->guard = r->next.guard;
    r->clip_norm = r->next.clip_norm;
    r->on = r->guard || r->clip_norm > 0 || optimizer_is_trusted(&s->optimizer);
}

void shard_round_close(struct shard *s)
{
    mem_free(s->sync.round.squares);
    shard_trust_close(s);
    s->sync.round = (struct shard_round){0};
}

static bool summed(const struct shard *s)
{
    return s->sync.round.chunks_summed == s->me.chunks;
}

/* ---- the report ---- */

/* Of what the norm is of: the step's gradient, or those that are accumulated with it. */
static uint64_t divisor(const struct shard *s)
{
    uint32_t steps = s->optimizer.accumulation_steps;
    if (steps <= 1 || s->sync.examples == 0)
        return (uint64_t)s->sync.examples;
    return (s->t + 1) % steps ? 0 : steps;
}

void shard_round_report(struct shard *s)
{
    const struct shard_round *r = &s->sync.round;
    Gradwire__StepReport m = GRADWIRE__STEP_REPORT__INIT;
    Gradwire__StepDecision last = GRADWIRE__STEP_DECISION__INIT;
    m.generation = &s->wire_generation;
    m.shard = s->index;
    m.step = s->step;
    m.summed = summed(s);
    m.examples = (uint64_t)s->sync.examples;
    m.sums = r->squares;
    m.n_sums = m.summed ? s->me.chunks : 0;
    m.divisor = divisor(s);
    m.round = r->scaled ? GRADWIRE__ROUND__TRUST : GRADWIRE__ROUND__NORM;
    m.scale = r->scale;
    m.broken = (char *)r->broken;
    if (r->last.there) {
        last.step = r->last.step;
        last.rejected = r->last.rejected;
        last.scale = r->last.scale;
        m.last = &last;
    }
    shard_trust_report(s, &m);
    s->io->tell(s->ctx, FRAME_STEP_REPORT, &m.base);
}

/* ---- the NaN guard ---- */

static void found(struct shard *s, uint32_t chunk, const char *what, const char *of,
                  const char *tensor, const char *how)
{
    struct shard_round *r = &s->sync.round;
    if (r->broken[0] && chunk >= r->broken_chunk)
        return;
    r->broken_chunk = chunk;
    (void)snprintf(r->broken, sizeof r->broken, "%s%s of %s is %s", what, of, tensor, how);
}

static const char *how(double squares)
{
    return isfinite(squares) ? "absurdly large" : "not finite";
}

static void check_gradient(struct shard *s, uint32_t chunk, uint64_t first, const float *g,
                           size_t n, struct norm_sums sums)
{
    const struct shard_round *r = &s->sync.round;
    double examples = (double)gate_examples(&s->sync.gate, chunk);
    double most = norm_most(r->clip_norm, examples);
    if (sums.weights + sums.statistics <= most)
        return;
    const char *tensor = norm_broken_tensor(&s->layout, first, g, n, most);
    if (tensor)
        found(s, chunk, "the gradient", "", tensor, how(sums.weights + sums.statistics));
}

/* As they stand before the step: whatever made them so, no update from them makes sense. */
static void check_slots(struct shard *s, uint32_t chunk, uint64_t at, size_t n)
{
    for (uint32_t i = 0; i < s->slots; i++) {
        const float *slot = s->slot[i] + at;
        double squares = kernels()->sum_squares(slot, n);
        if (squares <= NORM_SLOT_MOST)
            continue;
        const char *tensor =
            norm_broken_tensor(&s->layout, s->me.first_elem + at, slot, n, NORM_SLOT_MOST);
        if (tensor)
            found(s, chunk, "slot ", optimizer_slot_name(&s->optimizer, i), tensor, how(squares));
    }
}

/* ---- the sum ---- */

/* The squares for the norm of elements [at, at + n), whose gradient g alone has `own`. */
static double squares_of(const struct shard *s, uint64_t at, size_t n, const float *g, double own,
                         uint64_t examples)
{
    float room[SHARD_SUM_ELEMS], *slot[OPTIMIZER_SLOTS_MAX] = {0};
    if (s->optimizer.accumulation_steps <= 1)
        return own;
    for (uint32_t k = 0; k < s->slots; k++)
        slot[k] = s->slot[k] + at;
    float inv_n = examples ? 1.0f / (float)examples : 0.0f;
    const float *all = optimizer_gradient(&s->optimizer, s->t + 1, room, slot, g, &inv_n, n);
    return all ? norm_squares(&s->layout, s->me.first_elem + at, all, n).weights : 0;
}

void shard_round_sum(struct shard *s, uint32_t chunk)
{
    uint64_t at = shard_chunk_at(s, chunk);
    uint64_t elems = shard_chunk_at(s, chunk + 1) - at;
    float *to = s->block[!s->now] + at;
    double squares = 0;
    uint64_t examples = gate_examples(&s->sync.gate, chunk);
    struct shard_sum sum;
    assert(s->sync.round.on && !s->sync.made[chunk]);
    shard_sum_begin(s, chunk, &sum);
    for (uint64_t i = 0; i < elems; i += SHARD_SUM_ELEMS) {
        size_t n = elems - i < SHARD_SUM_ELEMS ? (size_t)(elems - i) : SHARD_SUM_ELEMS;
        const float *g = shard_sum(s, &sum, i, n);
        memcpy(to + i, g, n * sizeof *to);
        struct norm_sums sums = norm_squares(&s->layout, s->me.first_elem + at + i, g, n);
        squares += squares_of(s, at + i, n, g, sums.weights, examples);
        if (s->sync.round.guard) {
            check_gradient(s, chunk, s->me.first_elem + at + i, g, n, sums);
            check_slots(s, chunk, at + i, n);
        }
    }
    s->sync.round.squares[chunk] = squares;
    shard_trust_sum(s, chunk, to, examples, 1.0f);
    shard_step_taken(s, chunk);
    s->sync.round.chunks_summed++;
    if (summed(s))
        shard_round_report(s);
}

/* ---- the decision ---- */

void shard_round_go_on(struct shard *s)
{
    struct shard_round *r = &s->sync.round;
    if (!r->on || !r->last.there || r->last.step != s->step || !summed(s) || shard_cut_holds(s))
        return;
    if (r->last.rejected) { /* as a step without examples */
        s->sync.examples = 0;
        memset(s->sync.sums, 0, sizeof s->sync.sums);
        shard_taken_reject(s, s->step);
    }
    s->clipped += s->sync.examples > 0 && r->last.scale < 1;
    uint32_t count = s->plan.run_chunks;
    for (uint32_t first = 0; first < s->me.chunks; first += count) {
        if (count > s->me.chunks - first)
            count = s->me.chunks - first;
        for (uint32_t c = first; c < first + count; c++)
            shard_step_update(s, c, NULL, (uint64_t)s->sync.examples, r->last.scale, r->last.ratio);
        shard_step_publish(s, first, count);
    }
    r->chunks_summed = 0;
    r->scaled = false;
    r->broken[0] = '\0';
    shard_step_finish(s);
    shard_round_turn(s);
}

bool shard_round_decide(struct shard *s, const Gradwire__StepDecision *m)
{
    struct shard_round *r = &s->sync.round;
    if (!r->on || m->step != s->step || !summed(s) || (r->last.there && r->last.step == m->step))
        return false;
    if (m->round == GRADWIRE__ROUND__TRUST) {
        if (r->trust && !r->scaled) {
            shard_trust_scale(s, m->scale);
            shard_round_report(s);
        }
        return false;
    }
    if (!shard_trust_decide(s, m))
        return false;
    r->last.there = true;
    r->last.step = m->step;
    r->last.rejected = m->rejected;
    r->last.scale = m->scale;
    assert(!s->before_there); /* the other block holds the sums */
    return true;
}
