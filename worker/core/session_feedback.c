/* The session with error feedback (docs/explanation/semantics.md, "Top-k"): what a codec withheld is sent before a
 * cut, before this worker leaves, and at the end.
 *
 * Happy path (sync): HOLD -> each further step is pushed whole, with what was withheld -> HELD as soon as nothing is
 * withheld; the other workers' steps continue meanwhile -> RESUME.
 * Happy path (async): HOLD -> the running batch is over -> a push of what is withheld alone, named by a number of
 * this incarnation -> HELD. The same happens when the chief reports that no lease is left.
 * Failure modes: a push that is not taken (what it carried is withheld again, and sent with the next one), a worker
 * without leaves (it keeps what it has; a restore loses that), a new generation (all of it is dropped). */
#include "worker/core/session_inner.h"

/* In sync, withheld parts are sent only with a step's own leaves. */
static bool may_push(const struct session *s)
{
    return !s->terms.sync || (session_leaves(s) > 0 && !session_is_at_end(s));
}

bool feedback_is_clean(const struct session *s)
{
    return !s->terms.feedback || !may_push(s) || !s->io->withholds || !s->io->withholds(s->ctx);
}

bool session_is_clean(const struct session *s)
{
    return (!s->mode->is_clean || s->mode->is_clean(s)) && feedback_is_clean(s);
}

void feedback_say_held(struct session *s)
{
    if (!s->terms.feedback || s->hold != HOLD_WANTED ||
        (s->phase != SESSION_READY && s->phase != SESSION_IDLE) || !feedback_is_clean(s))
        return;
    s->hold = HOLD_SAID;
    session_say_held(s);
}

bool feedback_whole(const struct session *s)
{
    const Gradwire__Settings *settings = &s->terms.settings;
    uint64_t made = s->step + 1; /* after this step */
    return s->hold != HOLD_NONE || session_is_going(s) || made == s->sync.total ||
           (settings->flush_epochs && made % settings->batches_per_epoch == 0);
}

bool feedback_pushes(struct session *s, struct session_task *t)
{
    bool whole =
        s->hold != HOLD_NONE || session_is_going(s) || (s->lease.list.n == 0 && s->lease.none_left);
    if (!whole || feedback_is_clean(s))
        return false;
    s->remainders++;
    *t = (struct session_task){.kind = TASK_PUSH, .name = s->remainders, .part = 1};
    return true;
}
