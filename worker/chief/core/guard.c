/* The NaN guard. A finding is written to the journal before it counts; the policy decides what happens to the job. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "job/job.h"
#include "worker/chief/core/chief_state.h"

static void note(struct chief *c, enum journal_kind kind, uint64_t batch, const char *what)
{
    struct journal_entry entry = {.kind = kind, .batch = batch};
    (void)snprintf(entry.what, sizeof entry.what, "%s", what);
    assert(kind == JOURNAL_RECOVERED || !c->rollback_due);
    chief_note(c, &entry);
}

/* The checkpoint from which the recoveries are counted: "checkpoint 3". */
static const char *counted_from(const struct chief *c, char text[static 40])
{
    if (c->published_cut == UINT64_MAX)
        return "the first weights (there is no checkpoint yet)";
    (void)snprintf(text, 40, "checkpoint %" PRIu64, c->published_cut);
    return text;
}

static void recover(struct chief *c, uint64_t batch, const char *what)
{
    uint32_t before = journal_recoveries(&c->journal, c->published_cut);
    char from[40];
    if (c->rollback_due)
        return; /* other findings belong to a state that will be rolled back */
    if (before >= c->config.training.max_recoveries) {
        chief_fail(c, "%s %" PRIu64 ": %s, after %u recoveries from %s (training.max_recoveries)",
                   c->mode->unit, batch, what, before, counted_from(c, from));
        return;
    }
    /* A cut that is being written may still be published first: the next generation names the checkpoint. */
    chief_say(c, 1, "%s %" PRIu64 ": %s: rolling back to the last checkpoint, then skipping it",
              c->mode->unit, batch, what);
    note(c, JOURNAL_RECOVERED, batch, what);
    assert(c->unwritten > 0);
    c->rollback_due = true;
}

bool guard_count_row(struct chief *c, uint64_t batch, const char *what)
{
    if (++c->row < c->config.training.max_rejected)
        return true;
    chief_fail(c, "%s %" PRIu64 ": %s; %u in a row were rejected (training.max_rejected)",
               c->mode->unit, batch, what, c->row);
    return false;
}

/* No update, or a single one, was made before the first batches: the learning rate is seldom the cause. */
void guard_fail(struct chief *c, uint64_t batch, const char *what)
{
    static const char causes[] = "look for too large numbers or weights of rows in the data, and "
                                 "for too large first weights";
    const char *unit = c->mode->unit, *policy = job_nan_guard_word(c->config.settings.nan_guard);
    if (batch == 0 && c->mode->on_step)
        chief_fail(c,
                   "%s 0: %s (training.nan_guard: %s); no update was made yet, so the learning "
                   "rate is not the cause: %s",
                   unit, what, policy, causes);
    else
        chief_fail(c,
                   "%s %" PRIu64 ": %s (training.nan_guard: %s); %s%slower "
                   "training.learning_rate, or set training.clip_norm",
                   unit, batch, what, policy, batch < 2 ? causes : "",
                   batch < 2 ? ", or an optimizer's epsilon of 0; otherwise " : "");
}

bool guard_reject(struct chief *c, uint64_t batch, const char *what)
{
    uint32_t policy = c->config.settings.nan_guard;
    if (policy == NAN_GUARD_CHECK) {
        guard_fail(c, batch, what);
        return false;
    }
    if (policy == NAN_GUARD_ROLLBACK) {
        recover(c, batch, what);
        return false;
    }
    if (!journal_has(&c->journal, batch))
        note(c, JOURNAL_REJECTED, batch, what);
    if (policy == NAN_GUARD_STOP) {
        chief_fail(c, "%s %" PRIu64 ": %s (training.nan_guard: stop)", c->mode->unit, batch, what);
        return false;
    }
    chief_say(c, 1, "%s %" PRIu64 ": %s: rejected", c->mode->unit, batch, what);
    return guard_count_row(c, batch, what);
}

void guard_on_rejected(struct chief *c, const Gradwire__BatchRejected *m)
{
    if (journal_has(&c->journal, m->batch) && c->config.settings.nan_guard == NAN_GUARD_SKIP)
        return; /* a repeated message */
    (void)guard_reject(c, m->batch, m->what);
}

/* ---- the contents of a cut ---- */

static const char *broken_weight(const struct chief *c)
{
    for (uint32_t i = 0; i < c->plan.shards; i++) /* the first in the order of the model */
        if (c->shard[i].broken[0])
            return c->shard[i].broken;
    return NULL;
}

bool guard_takes_cut(struct chief *c)
{
    const char *weight = broken_weight(c);
    const struct epoch_sums *last = epochs_last(c->epoch, UINT64_MAX); /* over all workers */
    char what[256] = "";
    if (!c->cut.final && c->config.settings.nan_guard != NAN_GUARD_CHECK)
        return true;
    if (weight)
        (void)snprintf(what, sizeof what, "%s is not finite", weight);
    else if (c->cut.final && last && !isfinite(last->loss))
        (void)snprintf(what, sizeof what, "the loss of the last epoch is not finite");
    if (!what[0])
        return true;
    guard_fail(c, c->cut.step, what);
    return false;
}
