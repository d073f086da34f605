/* Workers that join, send messages and leave. The mode deals each its work: leaves in sync, batches in the others. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

static void send_welcome(struct chief *c, uint32_t worker)
{
    Gradwire__Welcome m = GRADWIRE__WELCOME__INIT;
    m.generation = &c->named;
    m.uuid = c->uuid;
    m.worker = worker;
    m.incarnation = c->worker[worker].incarnation;
    m.plan = &c->plan_message;
    m.settings = &c->config.settings;
    m.vitals = true;
    /* Batches that the journal excludes from learning, in modes without a step commit. */
    const struct journal *j = &c->journal;
    m.skipped = c->mode->skips && j->n ? mem_zalloc(j->n, sizeof *m.skipped) : NULL;
    for (size_t i = 0; m.skipped && i < j->n; i++)
        if (j->entry[i].kind == JOURNAL_RECOVERED)
            m.skipped[m.n_skipped++] = j->entry[i].batch;
    c->io->to_worker(c->ctx, worker, FRAME_WELCOME, &m.base);
    mem_free(m.skipped);
}

static struct chief_came how_it_came(const struct chief *c, const struct chief_worker *w)
{
    const Gradwire__Hello *hello = w->hello;
    bool same_process = hello->incarnation != 0 && strcmp(hello->uuid, c->uuid) == 0 &&
                        hello->incarnation >= w->incarnation && !hello->turned_away;
    return (struct chief_came){
        .same_process = same_process,
        .keeps_state = same_process && hello->incarnation == w->incarnation &&
                       chief_is_ours(c, hello->generation),
        .replaces = w->given && !same_process,
    };
}

/* From now on, a process with a smaller incarnation than this process ever had is another one, which this process
 * has replaced. A process may have any of its own later incarnations, because a WELCOME can be lost. */
static void note_process(const struct chief *c, struct chief_worker *w, uint64_t former)
{
    bool of_this_run = w->hello->incarnation && strcmp(w->hello->uuid, c->uuid) == 0;
    if (w->hello_used) /* the hello belongs to an earlier generation, by the same process */
        return;
    if (!of_this_run)
        w->process = w->incarnation;
    else if (w->hello->incarnation > former)
        w->process = w->hello->incarnation;
}

static void welcome(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    const struct chief_came how = how_it_came(c, w);
    const uint64_t former = w->incarnation;
    assert(c->entered && w->up && !w->welcomed);
    assert(!how.keeps_state || (how.same_process && !how.replaces));
    feedback_came(c, worker, how);
    if (how.same_process)
        w->incarnation = w->hello->incarnation;
    else
        workers_new_incarnation(c, worker);
    if (c->mode->came)
        c->mode->came(c, worker, how);
    assert(w->incarnation);
    note_process(c, w, former);
    w->welcomed = w->joined = w->member = w->given = w->hello_used = true;
    w->acked = w->fencing = w->held = false;
    w->unreached = false; /* it has forgotten what it reported */
    send_welcome(c, worker);
    if (c->holds)
        cut_resend_worker(c, worker);
    if (c->mode->welcomed)
        c->mode->welcomed(c, worker, how);
    if (worker == 0 && c->phase == CHIEF_FINISH && !how.keeps_state && !c->evaluated)
        c->io->finish(c->ctx); /* it has forgotten this request */
}

bool chief_is_replaced(const struct chief *c, uint32_t worker, const Gradwire__Hello *m)
{
    const struct chief_worker *w = worker < c->workers ? &c->worker[worker] : NULL;
    return w && m->incarnation && m->incarnation < w->process && strcmp(m->uuid, c->uuid) == 0;
}

void members_entered(struct chief *c)
{
    bool changed = false;
    /* If all ps and the chief died in a generation, the next one can have its number, and its workers keep their incarnations. */
    for (uint32_t i = 0; i < c->workers; i++) {
        const Gradwire__Hello *m = c->worker[i].hello;
        if (m && m->incarnation > c->last_incarnation && m->incarnation < UINT64_MAX / 2 &&
            strcmp(m->uuid, c->uuid) == 0)
            c->last_incarnation = m->incarnation;
    }
    for (uint32_t i = 0; i < c->workers; i++) {
        if (c->worker[i].up && !c->worker[i].welcomed && c->worker[i].hello &&
            blas_is_noted(c, i)) {
            welcome(c, i);
            changed = true;
        }
    }
    if (changed)
        c->mode->deal(c);
}

static void leave(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    Gradwire__Leave m = GRADWIRE__LEAVE__INIT;
    char name[WORKER_NAME_BYTES];
    m.generation = &c->named;
    assert(w->welcomed && w->member);
    chief_say(c, 0, "%s leaves", worker_name(name, worker, c->config.separate_chief));
    w->member = w->welcomed = w->given = false;
    w->held = true;
    if (c->mode->goes)
        c->mode->goes(c, worker);
    c->io->to_worker(c->ctx, worker, FRAME_LEAVE, &m.base);
    c->mode->deal(c);
    cut_progress(c);
}

static void on_unreached(struct chief *c, uint32_t worker, const Gradwire__Unreached *m)
{
    struct chief_worker *w = &c->worker[worker];
    w->unreached = m->any && m->ps < c->config.ps;
    if (!w->unreached)
        return;
    w->unreached_ps = m->ps;
    w->unreached_ms = c->now_ms - (m->away_ms < INT32_MAX ? (int64_t)m->away_ms : INT32_MAX);
}

void members_on(struct chief *c, uint32_t worker, enum frame_type type, const ProtobufCMessage *m)
{
    struct chief_worker *w = &c->worker[worker];
    const Gradwire__Held *held = (const Gradwire__Held *)m;
    const Gradwire__Going *going = (const Gradwire__Going *)m;
    if (!w->welcomed)
        return;
    if (type == FRAME_HELD && chief_is_ours(c, held->generation)) {
        if (c->mode->done)
            c->mode->done(c, held->n_done, held->done);
        if (held->cut == c->cut.number)
            w->held = true;
        cut_progress(c);
    } else if (type == FRAME_GOING && chief_is_ours(c, going->generation)) {
        if (c->mode->done)
            c->mode->done(c, going->n_done, going->done);
        leave(c, worker);
    } else if (type == FRAME_UNREACHED) {
        const Gradwire__Unreached *unreached = (const Gradwire__Unreached *)m;
        if (chief_is_ours(c, unreached->generation))
            on_unreached(c, worker, unreached);
    } else if (c->mode->on_worker) {
        c->mode->on_worker(c, worker, type, m);
    }
}

/* A ps that no worker reaches counts as away for all, even if the chief's own connection to it is up. */
static bool others_reach(const struct chief *c, uint32_t worker, uint32_t ps)
{
    for (uint32_t i = 0; i < c->workers && c->ps[ps].up; i++) {
        const struct chief_worker *w = &c->worker[i];
        if (i != worker && w->welcomed && !(w->unreached && w->unreached_ps == ps))
            return true;
    }
    return false;
}

static void give_away(struct chief *c, uint32_t worker)
{
    c->worker[worker].member = false;
    if (c->mode->away)
        c->mode->away(c, worker);
    else
        c->mode->deal(c);
}

void members_idle(struct chief *c, uint32_t worker)
{
    char name[WORKER_NAME_BYTES];
    if (!c->worker[worker].member)
        return;
    chief_say(c, 0, "%s has found the job done, and is not waited for",
              worker_name(name, worker, c->config.separate_chief));
    if (c->phase == CHIEF_RUN)
        give_away(c, worker);
    else
        c->worker[worker].member = false; /* a generation that begins deals without it */
}

/* The worker closes its connection, and counts as away. The chief's own session has no connection to close. */
static void park(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    Gradwire__Park m = GRADWIRE__PARK__INIT;
    bool own = worker == 0 && !c->config.separate_chief;
    char name[WORKER_NAME_BYTES];
    chief_say(c, 1,
              "%s%s has not reached ps %u for %" PRId64
              " s, but others do: they take over its work",
              worker_name(name, worker, c->config.separate_chief), own ? ", the chief's own," : "",
              w->unreached_ps, (c->now_ms - w->unreached_ms) / 1000);
    m.generation = &c->named;
    m.ps = w->unreached_ps;
    c->io->to_worker(c->ctx, worker, FRAME_PARK, &m.base);
    w->welcomed = false;
    if (worker == 0) {
        w->up = false;
        w->lost_ms = c->now_ms;
    }
    give_away(c, worker);
}

/* A ps that came back in time is connected within 2 s, and reported within 1 s more. */
enum { OWN_MORE_MS = 10000 };

void members_check_own(struct chief *c)
{
    const struct chief_worker *own = c->worker;
    uint32_t bound_s = c->config.timeouts.ps_rejoin_s;
    if (!own || !own->unreached || !c->entered || !c->ps[own->unreached_ps].up)
        return; /* a ps that is away for all, or restores, has its own bounds */
    if (c->now_ms - own->unreached_ms > (int64_t)bound_s * 1000 + OWN_MORE_MS)
        chief_fail(c,
                   "the chief's own worker could not reach ps %u for %u s (timeouts.ps_rejoin_s), "
                   "although the chief's control connection to it is up",
                   own->unreached_ps, bound_s);
}

void members_tick(struct chief *c)
{
    const int64_t bound_ms = (int64_t)c->config.timeouts.worker_rejoin_s * 1000;
    char name[WORKER_NAME_BYTES];
    for (uint32_t i = 0; i < c->workers; i++) {
        struct chief_worker *w = &c->worker[i];
        int64_t away_ms = c->now_ms - w->lost_ms;
        /* At the end only the chief's own session can finish the job. In sync its evaluations decide which epoch is the
         * best, and which the last: the others wait for it, as long as members_check_own lets them. */
        bool decides = c->config.settings.update == GRADWIRE__UPDATE__SYNC &&
                       c->config.training.monitor != MONITOR_NONE;
        bool may_park = i > 0 || (c->phase == CHIEF_RUN && !decides);
        if (may_park && w->welcomed && w->unreached && c->now_ms - w->unreached_ms > bound_ms &&
            others_reach(c, i, w->unreached_ps)) {
            park(c, i);
        } else if (w->member && !w->up && away_ms > bound_ms) {
            chief_say(c, 1, "%s was away for %" PRId64 " s: the others take over its work",
                      worker_name(name, i, c->config.separate_chief), away_ms / 1000);
            give_away(c, i);
        }
    }
    if (c->mode->tick)
        c->mode->tick(c);
}
