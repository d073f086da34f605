/* The chief's pull of the moving averages of the weights (use_ema), between two tasks, for evaluation and export.
 *
 * Happy path: READY with parameters of `step` -> a pull of its averages to every shard -> all have arrived -> READY
 * again.
 * Failure modes: a connection breaks (asked again when it is up), other work comes in between, such as a redo or a
 * new deal (given up: the caller asks again), in sync a shard is beyond `step` and no longer has them (the
 * parameters are pulled again, of the shards' present step). */
#include "worker/core/session_inner.h"

static void ask(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    l->averages = 0;
    if (l->state == LINK_DOWN)
        return; /* asked when it is up */
    m.generation = &s->generation;
    m.averages = true;
    m.any = !s->terms.sync;
    m.step = s->step;
    m.number = s->averages.number;
    s->io->to_shard(s->ctx, shard, FRAME_PULL, &m.base);
}

void session_pull_averages(struct session *s)
{
    session_check(s);
    if (s->phase != SESSION_READY)
        return;
    s->phase = SESSION_AVERAGES;
    s->averages.number++;
    s->averages.state = AVERAGES_NONE;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        ask(s, i);
    session_check(s);
}

bool session_take_averages(struct session *s)
{
    bool there = s->averages.state == AVERAGES_HERE && s->phase == SESSION_READY;
    if (there)
        s->averages.state = AVERAGES_NONE;
    return there;
}

void averages_link_up(struct session *s, uint32_t shard)
{
    if (s->phase == SESSION_AVERAGES)
        ask(s, shard);
}

enum err averages_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                             uint64_t body_bytes, bool *wanted, struct errmsg *e)
{
    if (!session_run_fits(s, shard, m) || m->codec != GRADWIRE__CODEC__RAW ||
        body_bytes != plan_run_elems(&s->terms.plan, m->first_chunk, m->chunks) * sizeof(float))
        return err_set(e, ERR_PROTO, "averages do not fit the plan of shard %u", shard);
    *wanted = s->phase == SESSION_AVERAGES && m->number == s->averages.number &&
              s->link[shard].averages < s->terms.plan.shard[shard].chunks;
    return ERR_OK;
}

void averages_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m)
{
    s->link[shard].averages += m->chunks;
    if (s->terms.sync && m->step != s->step)
        s->averages.state = AVERAGES_GONE;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        if (s->link[i].averages < s->terms.plan.shard[i].chunks)
            return;
    s->phase = SESSION_READY;
    if (s->averages.state == AVERAGES_GONE)
        s->mode->pull_newest(s);
    else
        s->averages.state = AVERAGES_HERE;
}
