/* A shard in a commit round: the chief decides once, for all shards, if and how a step is applied.
 *
 * Happy path: all leaves of a chunk have arrived -> its sum goes into the other weight block; a part's sum is kept -> when
 * all chunks and parts are summed, a report to the chief -> the chief's decision -> the rows of every part and every chunk
 * are updated and sent. If the step is rejected, rows do not change and chunks get the old parameters.
 * Failure modes:
 * - A new chief, or one that was disconnected: it requests the report and the last decision again. A shard that has no
 *   rounds any more still tells its last decision: the other shards may wait for it.
 * - A cut stops the shard: the decision waits. Until it is carried out only the other weight block has changed, so the shard
 *   is still at the beginning of the step.
 * - A decision that arrives twice or late: ignored.
 * - No memory for rows: the parts that are already made stay so, and the next push tries the others again. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/parameters/norm.h"
#include "ps/core/shard_state.h"
#include "ps/rows/row_tables.h"

/* The number of doubles in a report. */
static uint32_t reported(const struct shard *s)
{
    const struct bucket_range of =
        s->rows.on ? s->rows.tables.buckets : (struct bucket_range){0, 0};
    return s->me.chunks + of.end - of.first;
}

enum err shard_round_init(struct shard *s, const Gradwire__Settings *m)
{
    struct shard_round *r = &s->sync.round;
    shard_round_adopt(s, m, 0);
    r->squares =
        mem_zalloc(reported(s), sizeof *r->squares); /* a new chief can need a commit round */
    if (s->rows.on)
        r->part = mem_zalloc(ROW_PARTS, sizeof *r->part);
    return r->squares && (r->part || !s->rows.on) ? shard_trust_init(s) : ERR_NOMEM;
}

void shard_round_adopt(struct shard *s, const Gradwire__Settings *m, uint64_t from_step)
{
    struct shard_round *r = &s->sync.round;
    const struct round_settings next = {
        .guard = nan_guard_refuses(m->nan_guard), .clip_norm = m->clip_norm, .step = from_step};
    while (r->n_next > 0 && r->next[r->n_next - 1].step >= from_step)
        r->n_next--; /* it would not apply to any step */
    r->n_next -= r->n_next == ROUND_SETTINGS_MAX;
    r->next[r->n_next++] = next;
    shard_round_turn(s);
}

/* All shards switch at the same step: a commit round of only some shards would never end. */
void shard_round_turn(struct shard *s)
{
    struct shard_round *r = &s->sync.round;
    uint32_t due = 0;
    while (due < r->n_next && r->next[due].step <= s->step)
        due++;
    if (due == 0)
        return;
    r->guard = r->next[due - 1].guard;
    r->clip_norm = r->next[due - 1].clip_norm;
    r->n_next -= due;
    memmove(r->next, r->next + due, r->n_next * sizeof *r->next);
    r->on = r->guard || r->clip_norm > 0 || optimizer_is_trusted(&s->optimizer);
}

void shard_round_close(struct shard *s)
{
    for (uint32_t i = 0; s->sync.round.part && i < ROW_PARTS; i++)
        row_sum_close(&s->sync.round.part[i]);
    mem_free(s->sync.round.part);
    mem_free(s->sync.round.squares);
    shard_trust_close(s);
    s->sync.round = (struct shard_round){0};
}

static bool summed(const struct shard *s)
{
    return s->sync.round.chunks_summed == s->me.chunks &&
           s->sync.round.parts_summed == shard_rows_parts(s);
}

/* ---- the report ---- */

/* The divisor of the gradient whose norm is computed: the step's, or the accumulated one. */
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
    m.summed = r->on && summed(s);
    m.examples = (uint64_t)s->sync.examples;
    m.sums = r->squares;
    m.n_sums = m.summed ? reported(s) : 0;
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

/* ---- the sum ---- */

/* The sum of squares of elements [at, at + n) for the norm. `own`: that of the step's gradient g alone. */
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
        shard_guard_chunk(s, chunk, at + i, g, n, sums);
    }
    s->sync.round.squares[chunk] = squares;
    shard_trust_sum(s, chunk, to, examples, 1.0f);
    shard_step_taken(s, chunk);
    s->sync.round.chunks_summed++;
    if (summed(s))
        shard_round_report(s);
}

static enum err sum_part(struct shard *s, uint32_t part)
{
    struct shard_round *r = &s->sync.round;
    struct bucket_range of = bucket_part(s->rows.tables.buckets, part);
    double *squares = r->squares + s->me.chunks + (of.first - s->rows.tables.buckets.first);
    enum err err = shard_part_sum(s, part);
    if (err)
        return err;
    row_norm_squares(s->layout.rows, of, &r->part[part].grads, squares);
    shard_guard_part(s, part, &r->part[part].grads, squares);
    shard_step_taken(s, s->me.chunks + part);
    r->parts_summed++;
    return ERR_OK;
}

enum err shard_round_sum_parts(struct shard *s)
{
    bool were_summed = summed(s);
    for (uint32_t part = 0; part < shard_rows_parts(s); part++) {
        uint32_t entry = s->me.chunks + part;
        enum err err = ERR_OK;
        if (!s->sync.made[entry] && gate_complete(&s->sync.gate, entry))
            err = sum_part(s, part);
        if (err)
            return err;
    }
    if (summed(s) && !were_summed)
        shard_round_report(s);
    return ERR_OK;
}

/* ---- the decision ---- */

static void make_chunks(struct shard *s)
{
    const struct shard_round *r = &s->sync.round;
    uint32_t count = s->plan.run_chunks;
    for (uint32_t first = 0; first < s->me.chunks; first += count) {
        if (count > s->me.chunks - first)
            count = s->me.chunks - first;
        for (uint32_t c = first; c < first + count; c++)
            shard_step_update(s, c, NULL, (uint64_t)s->sync.examples, r->last.scale, r->last.ratio);
        s->sync.chunks_made = first + count;
        shard_step_publish(s, first, count);
    }
}

enum err shard_round_go_on(struct shard *s)
{
    struct shard_round *r = &s->sync.round;
    if (!r->on || !r->last.there || r->last.step != s->step || !summed(s) || shard_cut_holds(s))
        return ERR_OK;
    if (r->last.rejected) { /* make it like a step without examples */
        s->sync.examples = 0;
        shard_step_unmark(s, false);
        memset(s->sync.sums, 0, sizeof s->sync.sums);
        shard_taken_reject(s, s->step);
    }
    enum err err = shard_parts_decided(s, (uint64_t)s->sync.examples, r->last.scale);
    if (err || s->sync.parts_made < shard_rows_parts(s))
        return err;
    s->clipped += s->sync.examples > 0 && r->last.scale < 1;
    make_chunks(s);
    r->chunks_summed = r->parts_summed = 0;
    r->scaled = false;
    r->broken[0] = '\0';
    shard_step_finish(s);
    shard_round_turn(s);
    return ERR_OK;
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
    assert(!s->before_there || s->me.chunks == 0); /* the other block holds the sums */
    return true;
}
