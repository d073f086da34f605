/* The invariants of a shard between two events. No message of a peer can violate them. */
#include <assert.h>

#include "ps/core/shard_state.h"

static void check_blocks(const struct shard *s)
{
    bool steps = s->mode->steps;
    assert(s->block[0] && (s->block[1] != NULL) == steps);
    assert(steps || s->now == 0);
    assert(!s->before_there || (steps && s->step > 0));
    assert(s->slots == 0 || s->mode->optimizes);
    assert(!s->average.on || s->average.slot < s->slots);
    assert((s->average.next != NULL) == (s->average.on && steps));
    assert((s->reply.encoded != NULL) == (s->reply.codec != CODEC_RAW));
    assert(!s->reply.view[0] || (steps && s->reply.encoded && s->reply.view[1]));
    (void)s, (void)steps;
}

static void check_cut(const struct shard *s)
{
    const struct shard_cut *c = &s->cut;
    assert(c->state == CUT_NONE || (s->entered && s->planned));
    assert(!c->copied || c->state == CUT_SAVING);
    assert(!c->is_saved || (c->state == CUT_SAVING && !c->error[0]));
    assert(c->state == CUT_SAVING || !c->error[0]);
    assert(!s->rows.tables.cut.on || (c->state == CUT_SAVING && !c->is_saved && !c->error[0]));
    assert(!s->rows.held || s->rows.tables.cut.full);
    assert(c->state != CUT_ASKED ||
           !s->mode->at_boundary(s)); /* at a boundary it would be CUT_STOPPED */
    assert(c->state != CUT_GOES_ON || (s->mode->steps && s->step != c->step));
    (void)c;
}

void shard_check(const struct shard *s)
{
    assert(!s->entered || (s->mode && s->generation.number > 0));
    assert(!s->taken.of || s->taken.on);
    check_cut(s);
    if (!s->entered || !s->planned)
        return;
    check_blocks(s);
    assert(s->rows.on == (s->layout.rows != NULL) && (s->me.chunks || s->rows.on));
    if (s->mode->check)
        s->mode->check(s);
}
