/* The end of the job: all is learned, evaluated, written, and reported to all processes. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "worker/chief/core/chief_state.h"

/* Once everything is on disk: workers confirm first, and ps serve until then. They leave with 0, so nothing that can
 * make the job fail comes after this. */
static void done(struct chief *c)
{
    if (!c->final_there || c->writings || c->awaits_evaluator)
        return;
    c->phase = CHIEF_DONE;
    c->done_ms = c->now_ms;
    chief_send_done(c, 0, "", false);
}

/* If the job has an evaluator, wait for its result, within its bound. */
static void final(struct chief *c)
{
    if (c->phase != CHIEF_FINISH)
        return;
    c->final_there = true;
    if (c->io->final) {
        c->writings++;
        c->io->final(c->ctx);
    }
    if (c->config.timeouts.evaluator_s) {
        c->awaits_evaluator = true;
        c->final_ms = c->final_ms ? c->final_ms : c->now_ms;
        c->io->await_evaluator(c->ctx, c->published_cut);
    }
    done(c);
}

void finish_written(struct chief *c, const char *error)
{
    assert(c->writings);
    c->writings--;
    if (error)
        chief_fail(c, "%s", error);
    else if (c->phase == CHIEF_FINISH)
        done(c);
}

static void judged(struct chief *c)
{
    c->awaits_evaluator = false;
    done(c);
}

void finish_judged(struct chief *c, uint64_t cut)
{
    if (c->awaits_evaluator && c->phase == CHIEF_FINISH && cut == c->published_cut)
        judged(c);
}

static void evaluator_tick(struct chief *c)
{
    int64_t ms = c->now_ms - c->final_ms;
    if (c->going) {
        chief_end(
            c, 143,
            "asked to stop: the final checkpoint is published, but the evaluator has no result "
            "for it");
    } else if (ms > (int64_t)c->config.timeouts.evaluator_s * 1000) {
        chief_say(c, 1,
                  "the evaluator has no result for the final checkpoint, %" PRIu64
                  ", after %u s (timeouts.evaluator_s): the job ends without it",
                  c->published_cut, c->config.timeouts.evaluator_s);
        judged(c);
    } else if (c->now_ms - c->said_ms >= CHIEF_SAY_WAIT_MS) {
        chief_say(c, 0,
                  "waiting %" PRId64
                  " s for the evaluator's result of the final checkpoint, %" PRIu64,
                  ms / 1000, c->published_cut);
        c->said_ms = c->now_ms;
    }
}

void finish_tick(struct chief *c)
{
    if (c->phase != CHIEF_FINISH)
        return;
    if (c->awaits_evaluator)
        evaluator_tick(c);
    /* After SIGTERM the next attempt at the final cut begins without a pause: the grace runs. */
    else if (!c->final_there && c->evaluated && c->cut.stage == STAGE_NONE &&
             (c->going || c->now_ms >= c->retry_ms))
        cut_start(c, true);
}

/* A member that has not confirmed DONE is waited for as long as in training: its storage may be its own, and then
 * only the chief can tell it that the job is done. A worker that this chief never welcomed is waited for
 * only after a takeover, for a moment. */
static bool may_confirm(const struct chief *c, uint32_t worker)
{
    const struct chief_worker *w = &c->worker[worker];
    int64_t rejoin_ms = (int64_t)c->config.timeouts.worker_rejoin_s * 1000;
    if (w->acked)
        return false;
    if (w->up)
        return c->now_ms - w->done_ms < (w->member ? rejoin_ms : CHIEF_DONE_MS);
    /* a worker of the last chief's may be on its way to this one */
    if (c->begins == BEGINS_TAKEOVER && !w->incarnation && !c->going)
        return c->now_ms - c->done_ms < CHIEF_COME_MS;
    return w->member && w->incarnation && !c->going && c->now_ms - w->lost_ms < rejoin_ms;
}

static void say_unconfirmed(struct chief *c, uint32_t worker)
{
    const struct chief_worker *w = &c->worker[worker];
    char name[WORKER_NAME_BYTES];
    if (c->now_ms - c->done_ms < CHIEF_SAY_WAIT_MS || c->now_ms - c->said_ms < CHIEF_SAY_WAIT_MS)
        return;
    chief_say(c, 0, "the job is done; waiting for %s to confirm it (%s; timeouts.worker_rejoin_s)",
              worker_name(name, worker, c->config.separate_chief),
              w->up ? "it does not answer" : "its connection is lost");
    c->said_ms = c->now_ms;
}

void finish_progress(struct chief *c)
{
    if (c->phase == CHIEF_DONE) {
        for (uint32_t i = 1; i < c->workers; i++) {
            if (may_confirm(c, i)) {
                say_unconfirmed(c, i);
                return;
            }
        }
        c->phase = CHIEF_DONE_PS;
        c->done_ms = c->now_ms;
        chief_send_done(c, 0, "", true);
    }
    if (c->phase == CHIEF_DONE_PS) {
        for (uint32_t i = 0; i < c->config.ps; i++)
            if (c->ps[i].up && !c->ps[i].told && c->now_ms - c->done_ms < CHIEF_DONE_PS_MS)
                return;
        chief_end(c, 0, "");
    }
}

void finish_check(struct chief *c)
{
    if (c->phase != CHIEF_RUN || !c->entered || !c->mode->learned(c))
        return;
    c->phase = CHIEF_FINISH;
    if (c->evaluated)
        finish_evaluated(c);
    else
        c->io->finish(c->ctx);
}

void finish_evaluated(struct chief *c)
{
    if (c->phase != CHIEF_FINISH)
        return; /* a rollback came in between: evaluate again when all is learned again */
    c->evaluated = true;
    /* no cut is running that would replace the final one as the last */
    bool none_comes = c->cut.stage == STAGE_NONE;
    if (none_comes && c->published_final && c->published_step == c->mode->steps(c))
        final(c);
    else
        cut_start(c, true);
}

/* A cut is published that has all that was learned when these processes got SIGTERM. */
static void let_go(struct chief *c)
{
    Gradwire__Leave m = GRADWIRE__LEAVE__INIT;
    m.generation = &c->named;
    for (uint32_t i = 0; i < c->config.ps; i++) {
        if (c->ps[i].going)
            chief_to_ps(c, i, FRAME_LEAVE, &m.base);
        c->ps[i].going = false;
    }
    if (!c->going)
        return;
    char text[128];
    (void)snprintf(text, sizeof text,
                   "checkpoint %" PRIu64 ", step %" PRIu64
                   ", is written; the next run continues from it",
                   c->published_cut, c->published_step);
    chief_end(c, 143, text);
}

void finish_published(struct chief *c)
{
    assert(c->published_cut == c->cut.number && c->published_final == c->cut.final);
    if (c->cut.final)
        final(c);
    else if (c->cut.again)
        cut_start(c, c->phase == CHIEF_FINISH && c->evaluated);
    else
        let_go(c);
}
