/* Copies the rows of a cut, group by group, in the order of a checkpoint, while training continues. Rows that change before
 * they are copied are kept (ps/rows/row_cut.h). If kept rows reach their memory bound, training waits: in modes with steps,
 * complete parts stay in the gate; in other modes nothing is read from workers. The copy continues in the meantime, so the
 * wait ends. */
#include <assert.h>

#include "ps/core/shard_state.h"

static bool is_full(const struct shard *s)
{
    return s->rows.on && s->rows.tables.cut.full;
}

bool shard_copy_stops(struct shard *s)
{
    if (!is_full(s))
        return false;
    s->rows.holds += !s->rows.held;
    s->rows.held = true;
    return true;
}

bool shard_held(const struct shard *s)
{
    return s->rows.held;
}

bool shard_reads(const struct shard *s)
{
    return !s->rows.held || s->mode->steps;
}

uint64_t shard_kept_most_bytes(const struct shard *s)
{
    uint64_t now = s->rows.tables.cut.kept_most_bytes;
    return now > s->rows.kept_most_bytes ? now : s->rows.kept_most_bytes;
}

/* Continue what waited, if it does not have to wait any more. */
static void go_on(struct shard *s, bool was_held)
{
    if (!was_held || is_full(s))
        return;
    s->rows.held = false;
    if (s->mode->release)
        s->mode->release(s);
}

static enum err save(struct shard *s, const struct row_cut_rows *g)
{
    const struct row_group group = {g->bucket, g->table,  g->rows,   g->mixed,       g->stamp,
                                    g->count,  g->values, g->sketch, g->sketch_bytes};
    return s->io->save_rows(s->ctx, &group);
}

bool shard_copy(struct shard *s)
{
    struct row_cut *c = &s->rows.tables.cut;
    struct row_cut_rows g = {.rows = 0};
    if (!s->rows.on)
        return false;
    if (!c->on)
        return !row_cut_give_back(c);
    if (!c->failed && !s->io->save_room(s->ctx))
        return false;
    shard_check(s);
    assert(s->cut.state == CUT_SAVING && !s->cut.is_saved);
    bool was_held = s->rows.held;
    if (!c->failed)
        row_cut_copy(c, &g);
    bool over = !c->failed && row_cut_is_out(c);
    enum err err = c->failed ? ERR_NOMEM : ERR_OK;
    if (!err && (g.rows || g.sketch))
        err = save(s, &g);
    if (!err && over)
        err = save(s, &(struct row_cut_rows){.rows = 0});
    if (err) {
        s->io->save_end(s->ctx);
        shard_on_saved(s, s->cut.number, NULL, NULL, "no memory to keep rows for a checkpoint");
    } else {
        if (over)
            shard_cut_end_rows(s);
        go_on(s, was_held);
    }
    shard_check(s);
    return true;
}
