/* A step's parts of tables. When all leaves of a part have arrived, the tree sums them and each touched row is updated
 * in place, once. Copies of the old rows are set aside until the first part of the next step is made. By then pushes of
 * the next step have arrived, so workers no longer request rows of the step before. A late worker that still does gets
 * the answer that these rows are gone.
 *
 * With a commit round the sum waits in memory until the step is decided, and no row changes before. A part of a
 * rejected step is made, too: it changes no row, but drops the copies that the step before has set aside. */
#include <assert.h>
#include <inttypes.h>

#include "ps/core/shard_state.h"

static enum err sum_rows(struct shard *s, uint32_t part, struct row_sum *sum)
{
    struct shard_sum of;
    shard_sum_nodes(s, s->me.chunks + part, &of);
    return row_sum_tree(sum, s->layout.rows, &of.values, of.root, &s->rows.pool);
}

/* Make the part from its sum; with examples 0 no row is touched. */
static enum err make(struct shard *s, uint32_t part, const struct row_grads *g, uint64_t examples,
                     float scale)
{
    const struct row_step u = {.t = s->t + 1,
                               .inv_n = 1.0f / (float)examples,
                               .scale = scale,
                               .clock = s->rows.clock_before + s->step + 1,
                               .aside = true};
    if (s->sync.parts_made == 0) {
        /* The first part of a step: drop the rows of the step before the present one. */
        row_tables_forget_aside(&s->rows.tables);
        row_tables_sweep(&s->rows.tables, s->rows.clock_before + s->step);
        s->rows.before_there = false;
        if (s->me.chunks == 0)
            s->before_there = false;
    }
    enum err err = examples ? row_tables_update(&s->rows.tables, part, g, &u) : ERR_OK;
    err = shard_rows_updated(s, err);
    if (!err)
        s->sync.parts_made++;
    return err;
}

static enum err make_complete(struct shard *s, uint32_t part)
{
    struct row_sum sum;
    uint64_t examples = gate_examples(&s->sync.gate, s->me.chunks + part);
    assert(!s->sync.round.on);
    enum err err = sum_rows(s, part, &sum);
    if (err)
        return err;
    err = make(s, part, &sum.grads, examples, 1.0f);
    row_sum_close(&sum);
    if (!err)
        shard_step_taken(s, s->me.chunks + part);
    return err;
}

enum err shard_parts_make(struct shard *s)
{
    for (uint32_t part = 0; part < shard_rows_parts(s); part++) {
        uint32_t entry = s->me.chunks + part;
        enum err err = ERR_OK;
        if (!s->sync.made[entry] && gate_complete(&s->sync.gate, entry))
            err = shard_copy_stops(s) ? ERR_OK : make_complete(s, part);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* ---- a round ---- */

enum err shard_part_sum(struct shard *s, uint32_t part)
{
    struct row_sum *sum = &s->sync.round.part[part];
    const struct gate_chunk *nodes = &s->sync.gate.chunk[s->me.chunks + part];
    assert(s->sync.round.on && !sum->memory && nodes->nodes > 0);
    enum err err = sum_rows(s, part, sum);
    if (err || sum->memory)
        return err;
    assert(nodes->nodes == 1); /* its rows are in the push's memory */
    sum->memory = nodes->node[0].run;
    buffer_ref(sum->memory);
    return ERR_OK;
}

enum err shard_parts_decided(struct shard *s, uint64_t examples, float scale)
{
    for (uint32_t part = 0; part < shard_rows_parts(s); part++) {
        struct row_sum *sum = &s->sync.round.part[part];
        if (!sum->memory)
            continue;
        if (shard_copy_stops(s))
            return ERR_OK;
        enum err err = make(s, part, &sum->grads, examples, scale);
        if (err)
            return err;
        row_sum_close(sum);
    }
    return ERR_OK;
}

/* ---- requests for rows ---- */

/* Answer as of the present step: rows that the step being made has changed are read from the copies set aside. */
enum err shard_parts_ask(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e)
{
    if (m->bounded)
        return err_set(e, ERR_PROTO,
                       "a request for rows with a clock, but training.update is not ssp");
    if (m->any || m->step == s->step)
        return shard_rows_answer(s, peer, m, body, s->step, s->sync.parts_made > 0, e);
    if (m->step > s->step + 1)
        return err_set(e, ERR_PROTO,
                       "rows of step %" PRIu64 " are asked for, %" PRIu64 " is present", m->step,
                       s->step);
    if (m->step == s->step + 1)
        return shard_rows_wait(s, peer, m, body, e);
    if (m->step + 1 == s->step && s->rows.before_there)
        return shard_rows_answer(s, peer, m, body, m->step, true, e);
    shard_rows_say_gone(s, peer, m);
    return ERR_OK;
}
