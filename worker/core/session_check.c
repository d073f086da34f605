/* The invariants of a session between two events. None of them depends on a peer's messages. */
#include <assert.h>

#include "worker/core/session_inner.h"

static void check_links(const struct session *s)
{
    for (uint32_t i = 0; i < s->terms.plan.shards; i++) {
        const struct session_link *l = &s->link[i];
        uint32_t chunks = s->terms.plan.shard[i].chunks;
        assert(l->pull != PULL_ASKED ||
               (l->state != LINK_DOWN && (l->got_chunks < chunks || s->terms.tables)));
        assert(l->pull != PULL_WHOLE || l->got_chunks >= chunks);
        (void)l, (void)chunks;
    }
}

static void check_phase(const struct session *s)
{
    assert(s->phase != SESSION_PULLING || !session_all_whole(s));
    assert(s->phase != SESSION_AVERAGES || s->averages.state != AVERAGES_HERE);
    assert(s->averages.state == AVERAGES_NONE || s->averages.number > 0);
    assert(!session_running(s) || s->at_hand != TASK_NONE);
    assert(!session_running(s) || s->averages.state == AVERAGES_NONE);
    assert(s->at_hand != TASK_PUSH || s->mode->learned || s->remainders > 0);
    assert(s->remainders == 0 || (s->terms.feedback && s->mode->leases));
    assert(s->hold != HOLD_SAID || (s->terms.feedback && s->terms.sync));
    assert(!s->terms.feedback || s->mode->feeds_back);
    (void)s;
}

static void check_ranges(const struct session_ranges *r)
{
    assert(r->n <= WORKER_RANGES_MAX);
    for (size_t i = 0; i < r->n; i++)
        assert(r->range[i].count > 0);
    (void)r;
}

static void check_rows(const struct session *s)
{
    assert(s->phase != SESSION_ROWS || (s->terms.tables && s->rows.task.kind == TASK_COMPUTE));
    assert(!s->rows.ask[ASK_TASK].there || s->rows.of.runs > 0);
    assert(s->rows.own <= s->rows.number && s->rows.ask[ASK_TASK].number <= s->rows.number &&
           s->rows.ask[ASK_LOOK].number <= s->rows.number);
    (void)s;
}

void session_check(const struct session *s)
{
    assert((s->phase == SESSION_NEW) == (s->mode == NULL));
    assert((s->mode == NULL) == (s->link == NULL));
    assert((s->n_skipped == 0 || s->skipped) && (s->link == NULL) == (s->skipped == NULL));
    if (!s->mode)
        return;
    assert(s->terms.sync == (s->mode == &session_sync) && s->terms.sync == !s->mode->leases);
    check_links(s);
    check_phase(s);
    const struct lease_state *l = &s->lease;
    check_ranges(&l->list);
    check_ranges(&l->done);
    check_rows(s);
    s->mode->check(s);
}
