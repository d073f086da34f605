/* The session in async: a batch is a task, named by its id; its push is answered with the newest parameters of every
 * shard. */
#include <assert.h>

#include "worker/core/session_inner.h"

static struct session_task task(struct session *s)
{
    struct session_task t = {.kind = TASK_NONE};
    return feedback_pushes(s, &t) ? t : lease_task(s);
}

static void check(const struct session *s)
{
    exchange_check(s);
    assert(s->at_hand != TASK_PUSH || s->terms.feedback);
    (void)s;
}

static bool answers(const struct session *s, const Gradwire__Reply *m)
{
    if (m->pulled || m->remainder != (s->at_hand == TASK_PUSH))
        return false;
    return m->name == (m->remainder ? s->remainders : s->lease.running);
}

/* Shards may name different steps, because each applies pushes in its own order. */
static void pulled(struct session *s)
{
    s->step = exchange_steps(s).least;
    s->phase = SESSION_READY;
}

static void answered(struct session *s)
{
    bool batch = s->at_hand == TASK_COMPUTE;
    s->phase = SESSION_READY;
    if (batch)
        session_ranges_add(&s->lease.done, s->lease.running, 1);
    lease_pushed(s, batch);
}

const struct session_mode session_async = {
    .leases = true,
    .check = check,
    .feeds_back = true,
    .wake = lease_wake,
    .pull_newest = exchange_pull_newest,
    .task = task,
    .guess = lease_guess,
    .pushed = exchange_pushed,
    .link_up = exchange_link_up,
    .reply_fits = exchange_reply_fits,
    .on_reply = exchange_on_reply,
    .answers = answers,
    .pulled = pulled,
    .answered = answered,
};
