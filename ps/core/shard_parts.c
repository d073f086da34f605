/* A step's parts of tables: a part whose leaves are all there is summed by the tree, and each row that it touches is
 * updated in place, once. The old rows are set aside until the first part of the next step is made: a push of the next
 * step exists then, so nobody asks for the step before any more. */
#include <assert.h>
#include <inttypes.h>

#include "ps/core/shard_state.h"

/* The first of a step: the rows of the step before the present one are gone. */
static void begin_step(struct shard *s)
{
    row_tables_forget_aside(&s->rows.tables);
    s->rows.before_there = false;
    if (s->me.chunks == 0)
        s->before_there = false;
}

static enum err update_rows(struct shard *s, uint32_t part, uint64_t examples)
{
    struct shard_sum of;
    struct row_sum sum;
    const struct row_step u = {.t = s->t + 1,
                               .inv_n = 1.0f / (float)examples,
                               .clock = s->rows.clock_before + s->step + 1,
                               .aside = true};
    shard_sum_nodes(s, s->me.chunks + part, &of);
    enum err err = row_sum_tree(&sum, s->layout.rows, &of.values, of.root, &s->rows.pool);
    if (err)
        return err;
    err = row_tables_update(&s->rows.tables, part, &sum.grads, &u);
    row_sum_close(&sum);
    return err;
}

static enum err make(struct shard *s, uint32_t part)
{
    uint64_t examples = gate_examples(&s->sync.gate, s->me.chunks + part);
    if (s->sync.parts_made == 0)
        begin_step(s);
    enum err err = examples ? update_rows(s, part, examples) : ERR_OK; /* else no row is touched */
    if (err)
        return err;
    shard_step_taken(s, s->me.chunks + part);
    s->sync.parts_made++;
    return ERR_OK;
}

enum err shard_parts_make(struct shard *s)
{
    for (uint32_t part = 0; part < shard_rows_parts(s); part++) {
        uint32_t entry = s->me.chunks + part;
        enum err err = ERR_OK;
        if (!s->sync.made[entry] && gate_complete(&s->sync.gate, entry))
            err = make(s, part);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* As of the present step: what the step in the making has changed is read from what was set aside. */
enum err shard_parts_ask(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e)
{
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
