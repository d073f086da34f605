/* Batches that are leased by id: shared by the modes without common steps.
 *
 * Happy path: few ids are left -> LEASE_ASK, with the ids that are done -> LEASE -> each id is a task ...
 * In a hold: the running batch is over -> HELD -> possibly a lease of ids to recompute, then HELD again -> RESUME.
 * Failure modes: a report is lost with the connection to the chief (asked again; the hello lists the leased ids). */
#include <string.h>

#include "worker/core/session_inner.h"

/* ---- to the chief ---- */

/* Do not report the last batch while parts of it are withheld: the chief ends the job when all batches are reported. */
static bool keep_last(struct session *s, struct session_range *kept)
{
    struct session_ranges *done = &s->lease.done;
    if (done->n == 0 || feedback_is_clean(s))
        return false;
    struct session_range *last = &done->range[done->n - 1];
    *kept = (struct session_range){last->first + last->count - 1, 1};
    if (--last->count == 0)
        done->n--;
    return true;
}

static void report_done(struct session *s, uint32_t want)
{
    struct session_ranges_said said;
    struct session_range kept;
    bool keeps = keep_last(s, &kept);
    Gradwire__LeaseAsk m = GRADWIRE__LEASE_ASK__INIT;
    m.generation = &s->generation;
    m.n_done = session_take_done(s, &said);
    m.done = said.at;
    m.want = want;
    s->lease.asked = s->lease.asked || want > 0;
    s->io->to_chief(s->ctx, FRAME_LEASE_ASK, &m.base);
    if (keeps)
        session_ranges_add(&s->lease.done, kept.first, kept.count);
}

void lease_report(struct session *s)
{
    enum { LOW = 2, WANT = 4 };
    const struct lease_state *l = &s->lease;
    const bool is_long = l->half > LOW;
    bool holds = s->hold != HOLD_NONE;
    if (!l->asked && !holds && !session_is_going(s) && s->final == FINAL_NONE &&
        session_ranges_count(&l->list) <= (is_long ? l->half : LOW))
        report_done(s, WANT);
    /* Report finished ids now: there may be no further lease to report them with, or not soon. */
    const bool last = l->list.n == 0 && !session_running(s) && session_is_clean(s);
    if (l->done.n && !holds && (last || (is_long && session_ranges_count(&l->done) >= WANT)))
        report_done(s, 0);
}

bool session_skips(const struct session *s)
{
    for (size_t i = 0; i < s->n_skipped; i++)
        if (s->mode->leases && s->skipped[i] == s->lease.running)
            return true;
    return false;
}

size_t session_leases(const struct session *s, struct session_range *out, size_t room)
{
    size_t n = 0;
    if (!s->mode || !s->mode->leases)
        return 0;
    for (size_t i = 0; i < s->lease.pending.n && n < room; i++)
        out[n++] = s->lease.pending.range[i];
    if (session_running(s) && s->at_hand == TASK_COMPUTE && n < room)
        out[n++] = (struct session_range){s->lease.running, 1};
    for (size_t i = 0; i < s->lease.list.n && n < room; i++)
        out[n++] = s->lease.list.range[i];
    return n;
}

/* ---- from the chief ---- */

void lease_on_lease(struct session *s, const Gradwire__Lease *m)
{
    struct lease_state *l = &s->lease;
    l->none_left = m->n_ranges == 0 && !m->redo;
    if (l->none_left)
        return; /* the chief sends a lease when it has one */
    if (!m->redo)
        l->asked = false;
    struct session_ranges former = l->list;
    const uint64_t held = session_ranges_count(&former);
    if (m->redo)
        l->list.n = 0;
    for (size_t i = 0; i < m->n_ranges; i++)
        if (m->ranges[i]->count && m->ranges[i]->first <= UINT64_MAX - m->ranges[i]->count)
            session_ranges_add(&l->list, m->ranges[i]->first, m->ranges[i]->count);
    if (!m->redo)
        l->half = (session_ranges_count(&l->list) - held) / 2;
    if (m->redo) {
        l->redo_left = session_ranges_count(&l->list);
        for (size_t i = 0; i < former.n; i++)
            session_ranges_add(&l->list, former.range[i].first, former.range[i].count);
    }
    if (s->mode->on_lease)
        s->mode->on_lease(s, m);
    else
        session_wake(s);
}

/* ---- work ---- */

struct session_task lease_task(struct session *s)
{
    struct lease_state *l = &s->lease;
    struct session_task t = {.kind = TASK_NONE};
    if (l->list.n == 0 || (s->hold != HOLD_NONE && !l->redo_left))
        return t;
    l->running = l->list.range[0].first++;
    if (--l->list.range[0].count == 0)
        memmove(l->list.range, l->list.range + 1, --l->list.n * sizeof *l->list.range);
    t.kind = TASK_COMPUTE;
    t.name = t.batch = l->running;
    t.end = t.batch + 1;
    const bool goes_on = l->list.n && l->list.range[0].first == t.end;
    if (goes_on)
        t.end += l->list.range[0].count;
    if (l->list.n > goes_on)
        t.then = l->list.range[goes_on].first;
    t.first[0] = 0;
    t.count[0] = s->terms.leaves;
    t.runs = 1;
    return t;
}

bool lease_guess(const struct session *s, struct session_task *next)
{
    const struct lease_state *l = &s->lease;
    if (l->list.n == 0)
        return false;
    *next = (struct session_task){.kind = TASK_COMPUTE, .runs = 1};
    next->name = next->batch = l->list.range[0].first;
    next->count[0] = s->terms.leaves;
    return true;
}

void lease_wake(struct session *s)
{
    if (s->lease.list.n > 0)
        exchange_pull_newest(s);
}

void lease_pushed(struct session *s, bool counts)
{
    if (s->lease.redo_left && counts)
        s->lease.redo_left--;
    if (s->hold != HOLD_NONE && s->lease.redo_left == 0 && session_is_clean(s))
        session_say_held(s);
    session_wake(s);
}
