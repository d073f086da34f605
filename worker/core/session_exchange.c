/* Whole parameters by step, and a push that is answered with the next ones: shared by sync, async and geo.
 *
 * Happy path: a pull to every shard -> whole parameters from each -> ... -> a push -> whole parameters from each.
 * Failure modes: a connection breaks (the pull or push is sent again when it is up); a new pull while answers to the
 * earlier one are pending (sent when those have arrived). */
#include <assert.h>
#include <inttypes.h>

#include "worker/core/session_inner.h"

static void pull_from(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    l->pull = PULL_NONE;
    l->holds = l->made = false;
    l->got_chunks = 0;
    if (l->state == LINK_DOWN)
        return; /* sent when it is up */
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    m.generation = &s->generation;
    m.any = s->pull.any;
    m.step = s->pull.step;
    l->pull = PULL_ASKED;
    s->io->to_shard(s->ctx, shard, FRAME_PULL, &m.base);
}

void exchange_pull(struct session *s, bool any, uint64_t step)
{
    s->phase = SESSION_PULLING;
    s->pull.any = any;
    s->pull.step = step;
    s->pull.again = false;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++) {
        if (s->link[i].pull == PULL_ASKED)
            s->pull.again = true; /* its pending answer belongs to the earlier pull */
        else
            pull_from(s, i);
    }
}

void exchange_pull_newest(struct session *s)
{
    exchange_pull(s, true, 0);
}

void exchange_pull_others(struct session *s, uint64_t step)
{
    s->phase = SESSION_PULLING;
    s->pull.any = false;
    s->pull.step = step;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        if (s->link[i].got_step != step)
            pull_from(s, i);
}

struct exchange_steps exchange_steps(const struct session *s)
{
    struct exchange_steps steps = {.least = UINT64_MAX};
    for (uint32_t i = 0; i < s->terms.plan.shards; i++) {
        uint64_t step = s->link[i].got_step;
        if (step < steps.least)
            steps.least = step;
        if (step > steps.most)
            steps.most = step;
    }
    return steps;
}

void exchange_check(const struct session *s)
{
    assert(s->phase != SESSION_ENTERING);
    assert(s->phase != SESSION_PUSHED || !session_all_whole(s));
    assert(!s->pull.any || s->pull.step == 0);
    (void)s;
}

void exchange_pushed(struct session *s)
{
    if (session_all_whole(s))
        s->mode->answered(s); /* the last replies arrived while the last chunks were sent */
}

void exchange_link_up(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    *l = (struct session_link){.state = LINK_UP, .rows = {l->rows[ASK_TASK], l->rows[ASK_LOOK]}};
    if (s->phase == SESSION_PULLING)
        pull_from(s, shard);
    else if (s->phase == SESSION_PUSHED)
        session_push_again(s, shard);
}

enum err exchange_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                             uint64_t body_bytes, bool *wanted, struct errmsg *e)
{
    if (!session_run_fits(s, shard, m) || !session_codec_fits(s, m, body_bytes))
        return err_set(e, ERR_PROTO, "a reply does not fit the plan of shard %u", shard);
    const struct session_link *l = &s->link[shard];
    if (s->phase == SESSION_PULLING)
        *wanted = m->pulled && l->pull == PULL_ASKED;
    /* while computing too: chunks come back as soon as they are made */
    else if (session_running(s) && l->pull != PULL_WHOLE)
        *wanted = s->mode->answers(s, m);
    if (*wanted && m->difference && (!l->holds || l->holds_step + 1 != m->step))
        return err_set(e, ERR_STATE,
                       "shard %u sends a difference to step %" PRIu64
                       ", whose parameters this worker does not have",
                       shard, m->step - 1);
    return ERR_OK;
}

void exchange_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored)
{
    struct session_link *l = &s->link[shard];
    if (!stored) {
        if (m->pulled && l->pull == PULL_ASKED)
            l->pull = PULL_NONE;
        return;
    }
    if (s->mode->take)
        s->mode->take(s, l, m);
    l->got_step = m->step;
    l->got_chunks += m->chunks;
    l->made = l->made || m->made;
    l->acked_parts += m->parts;
    if (l->got_chunks < s->terms.plan.shard[shard].chunks ||
        !session_rows_made(s, l, s->phase == SESSION_PULLING))
        return;
    l->pull = PULL_WHOLE;
    l->holds = true;
    l->holds_step = l->got_step;
    if (!session_all_whole(s))
        return;
    if (s->phase == SESSION_PULLING && s->pull.again)
        exchange_pull(s, s->pull.any, s->pull.step);
    else if (s->phase == SESSION_PULLING)
        s->mode->pulled(s);
    else if (s->phase == SESSION_PUSHED)
        s->mode->answered(s);
}
