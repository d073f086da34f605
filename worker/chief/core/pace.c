/* How often cuts are taken without a request. The last cut must be paid off before the next begins: it may cost 1 %
 * of the time since it began. Its cost is the whole time until it was published, although training is held for only
 * a part of that, so the true share is less. With an evaluator, the cost includes its evaluation: it may use the
 * same cores, and it must evaluate each cut. */
#include <assert.h>

#include "worker/chief/core/chief_state.h"

static uint32_t or_auto(uint32_t given, uint32_t otherwise)
{
    return given == CHECKPOINT_AUTO ? otherwise : given;
}

/* True if the intervals of the job's keys, or the automatic ones, have passed. */
static bool passed(const struct chief *c, uint64_t since)
{
    uint32_t steps = or_auto(c->config.checkpoint.every_steps, CHIEF_CUT_STEPS),
             seconds = or_auto(c->config.checkpoint.every_seconds, CHIEF_CUT_S);
    return (steps || seconds) && since >= steps &&
           c->now_ms - c->last_cut_ms >= (int64_t)seconds * 1000;
}

static bool paid_off(const struct chief *c)
{
    const struct chief_pace *p = &c->pace;
    bool evaluator = c->config.timeouts.evaluator_s > 0;
    if (evaluator && p->judged != c->published_cut)
        return false;
    int64_t cost_ms = p->took_ms + (evaluator ? p->judging_ms : 0);
    int64_t passed_ms = c->now_ms - p->began_ms;
    return passed_ms >= CHIEF_CUT_LEAST_MS && passed_ms / CHIEF_CUT_SHARE >= cost_ms;
}

bool pace_is_due(const struct chief *c)
{
    uint64_t made = c->mode->steps(c);
    if (made <= c->published_step)
        return false;
    bool measured = c->config.checkpoint.every_steps == CHECKPOINT_AUTO &&
                    c->config.checkpoint.every_seconds == CHECKPOINT_AUTO;
    return passed(c, made - c->published_step) || (measured && paid_off(c));
}

void pace_begin(struct chief *c)
{
    c->pace.began_ms = c->now_ms;
}

void pace_published(struct chief *c)
{
    assert(c->cut.began_ms <= c->now_ms);
    c->pace.began_ms = c->cut.began_ms;
    c->pace.took_ms = c->now_ms - c->cut.began_ms;
}

void pace_judged(struct chief *c, uint64_t cut, int64_t took_ms)
{
    c->pace.judged = cut;
    c->pace.judging_ms = took_ms;
}
