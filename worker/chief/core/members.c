/* Who takes part, and what each one gets: leaves in sync, leases of batch ids in async. */
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/chief/core/chief_state.h"

struct chief_worker *chief_worker(struct chief *c, uint32_t worker)
{
    if (worker >= CHIEF_WORKERS_MAX)
        return NULL;
    if (worker >= c->workers) {
        struct chief_worker *grown = mem_resize(c->worker, worker + 1, sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + c->workers, 0, (worker + 1 - c->workers) * sizeof *grown);
        for (uint32_t i = c->workers; i <= worker; i++)
            grown[i].lost_ms = c->now_ms;
        c->worker = grown;
        c->workers = worker + 1;
    }
    return &c->worker[worker];
}

void members_close(struct chief *c)
{
    for (uint32_t i = 0; i < c->workers; i++)
        msg_free(c->worker[i].hello ? &c->worker[i].hello->base : NULL);
    mem_free(c->worker);
    c->worker = NULL;
    c->workers = 0;
}

/* ---- sync: the deal ---- */

static uint32_t count_members(const struct chief *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->workers; i++)
        n += c->worker[i].member;
    return n;
}

static void tell_idle(struct chief *c, uint32_t members)
{
    uint32_t leaves = c->config.settings.microbatches;
    if (members <= leaves || c->told_idle)
        return;
    uint32_t wanted = 1;
    while (wanted < members)
        wanted *= 2;
    chief_say(c, 1,
              "%u of %u workers have nothing to do: training.microbatches is %u, %u would use "
              "them all",
              members - leaves, members, leaves, wanted);
    c->told_idle = true;
}

uint32_t members_parts(const struct chief *c, struct chief_part part[CHIEF_WORKERS_MAX])
{
    uint32_t members = count_members(c), position = 0, n = 0;
    for (uint32_t i = 0; i < c->workers; i++) {
        uint32_t first, leaves;
        if (!c->worker[i].member)
            continue;
        tree_share(c->config.settings.microbatches, members, position++, &first, &leaves);
        if (leaves)
            part[n++] = (struct chief_part){i, first, first + leaves};
    }
    return n;
}

static void deal(struct chief *c)
{
    uint32_t members = count_members(c);
    if (!c->sync || !c->entered || members == 0)
        return;
    struct chief_part share[CHIEF_WORKERS_MAX];
    Gradwire__Part part[CHIEF_WORKERS_MAX], *parts[CHIEF_WORKERS_MAX];
    uint32_t n = members_parts(c, share);
    for (uint32_t i = 0; i < n; i++) {
        gradwire__part__init(&part[i]);
        part[i].worker = share[i].worker;
        part[i].first_leaf = share[i].first;
        part[i].leaves = share[i].end - share[i].first;
        parts[i] = &part[i];
    }
    tell_idle(c, members);
    Gradwire__Deal m = GRADWIRE__DEAL__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.version = ++c->deal;
    m.parts = parts;
    m.n_parts = n;
    for (uint32_t i = 0; i < c->workers; i++)
        if (c->worker[i].welcomed)
            c->io->to_worker(c->ctx, i, FRAME_DEAL, &m.base);
    accept_progress(c);
}

/* ---- async: leases ---- */

static uint32_t *owner_of(struct chief *c, uint64_t id)
{
    return &c->owner[id % IDS_WINDOW];
}

static void mark_redo(struct chief *c, uint64_t id)
{
    uint32_t *owner = owner_of(c, id);
    if (ids_has(&c->done, id) || *owner == OWNER_REDO)
        return;
    *owner = OWNER_REDO;
    c->redo++;
}

static void set_owner(struct chief *c, uint64_t id, uint32_t worker)
{
    uint32_t *owner = owner_of(c, id);
    if (*owner == OWNER_REDO)
        c->redo--;
    *owner = OWNER_WORKER + worker;
}

static void mark_done(struct chief *c, uint64_t id)
{
    if (id >= c->next_id || ids_has(&c->done, id))
        return;
    uint32_t *owner = owner_of(c, id);
    if (*owner == OWNER_REDO)
        c->redo--;
    *owner = OWNER_NONE;
    commit_batch_done(c, id);
    if (ids_add(&c->done, id))
        chief_fail(c, "batch %" PRIu64 " was reported done beyond the window", id);
}

/* Done is what every shard has resolved; what is not, below the end of what was ever dealt, is dealt again. */
static void done_from_shards(struct chief *c)
{
    uint64_t low = UINT64_MAX, end = 0;
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        struct chief_shard *s = &c->shard[i];
        if (s->resolved.mark < low)
            low = s->resolved.mark;
        if (ids_end(&s->resolved) > end)
            end = ids_end(&s->resolved);
        for (size_t k = 0; k < s->partials; k++)
            if (s->partial[k] >= end)
                end = s->partial[k] + 1;
    }
    c->done = (struct ids){.mark = low, .count = low};
    for (uint64_t id = low; id < end && id - c->done.mark < IDS_WINDOW; id++) {
        bool all = true, some = false;
        for (uint32_t i = 0; i < c->plan.shards; i++) {
            all = all && ids_has(&c->shard[i].resolved, id);
            some = some || ids_has(&c->shard[i].resolved, id);
        }
        if ((c->geo ? some : all) && ids_add(&c->done, id))
            break;
    }
    c->next_id = end;
}

static void own_range(struct chief *c, uint32_t worker, const Gradwire__Range *r)
{
    for (uint64_t i = 0; i < r->count && i < IDS_WINDOW; i++) {
        uint64_t id = r->first + i;
        if (id >= c->total || id < c->done.mark || id - c->done.mark >= IDS_WINDOW)
            continue;
        for (; c->next_id <= id; c->next_id++)
            if (!ids_has(&c->done, c->next_id))
                mark_redo(c, c->next_id); /* dealt by a former chief, to whom is not known */
        if (!ids_has(&c->done, id))
            set_owner(c, id, worker);
    }
}

void leases_start(struct chief *c)
{
    memset(c->owner, 0, sizeof c->owner);
    c->unsettled = UINT64_MAX;
    c->redo = 0;
    done_from_shards(c);
    for (uint64_t id = c->done.mark; id < c->next_id; id++)
        mark_redo(c, id);
    const Gradwire__HelloReply *hello = c->ps[0].hello;
    for (size_t i = 0; c->mode == MODE_TAKEOVER && hello && i < hello->n_leases; i++) {
        const Gradwire__WorkerLease *l = hello->leases[i];
        if (l->range && l->worker < CHIEF_WORKERS_MAX && chief_worker(c, l->worker))
            own_range(c, l->worker, l->range);
    }
    for (uint32_t i = 0; i < c->workers; i++)
        c->worker[i].want = 0;
}

struct id_ranges {
    size_t n;
    Gradwire__Range range[256], *at[256];
};

static bool ranges_put(struct id_ranges *r, uint64_t id)
{
    Gradwire__Range *last = r->n ? &r->range[r->n - 1] : NULL;
    if (last && last->first + last->count == id) {
        last->count++;
        return true;
    }
    if (r->n == sizeof r->range / sizeof *r->range)
        return false;
    gradwire__range__init(&r->range[r->n]);
    r->range[r->n].first = id;
    r->range[r->n].count = 1;
    r->at[r->n] = &r->range[r->n];
    r->n++;
    return true;
}

static void held_by(struct chief *c, uint32_t worker, struct id_ranges *out)
{
    out->n = 0;
    for (uint64_t id = c->done.mark; id < c->next_id; id++)
        if (*owner_of(c, id) == OWNER_WORKER + worker && !ids_has(&c->done, id) &&
            !ranges_put(out, id))
            return;
}

/* Leases are on the lead's ps too, where the next chief finds them. */
static void note(struct chief *c, uint32_t worker)
{
    struct id_ranges ranges;
    held_by(c, worker, &ranges);
    Gradwire__LeaseNote m = GRADWIRE__LEASE_NOTE__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.worker = worker;
    m.ranges = ranges.at;
    m.n_ranges = ranges.n;
    if (c->ps[0].up)
        c->io->to_ps(c->ctx, 0, FRAME_LEASE_NOTE, &m.base);
}

static void send_lease(struct chief *c, uint32_t worker, struct id_ranges *ranges, bool redo)
{
    Gradwire__Lease m = GRADWIRE__LEASE__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.ranges = ranges->at;
    m.n_ranges = ranges->n;
    m.redo = redo;
    m.workers = count_members(c);
    note(c, worker);
    c->io->to_worker(c->ctx, worker, FRAME_LEASE, &m.base);
}

void leases_assign(struct chief *c, uint32_t worker, const uint64_t *ids, size_t n, bool redo)
{
    struct id_ranges ranges = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        if (!ranges_put(&ranges, ids[i]))
            break;
        set_owner(c, ids[i], worker);
    }
    send_lease(c, worker, &ranges, redo);
}

static bool next_to_deal(struct chief *c, uint64_t *id)
{
    for (uint64_t i = c->done.mark; c->redo && i < c->next_id; i++) {
        if (*owner_of(c, i) == OWNER_REDO) {
            *id = i;
            return true;
        }
    }
    uint64_t low = c->unsettled < c->done.mark ? c->unsettled : c->done.mark;
    if (c->next_id >= c->total || c->next_id - low >= IDS_WINDOW)
        return false;
    *id = c->next_id++;
    return true;
}

/* With error feedback it then pushes what it withheld: all of it is to be learned before the job is over. */
static void tell_none(struct chief *c, uint32_t worker)
{
    Gradwire__Lease m = GRADWIRE__LEASE__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.workers = count_members(c);
    if (c->feedback && !c->worker[worker].told_none)
        c->io->to_worker(c->ctx, worker, FRAME_LEASE, &m.base);
    c->worker[worker].told_none = true;
}

static void serve(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    uint64_t ids[CHIEF_LEASE_IDS], id;
    size_t n = 0;
    while (n < w->want && n < CHIEF_LEASE_IDS && next_to_deal(c, &id)) {
        set_owner(c, id, worker);
        ids[n++] = id;
    }
    if (n == 0) {
        tell_none(c, worker);
        return;
    }
    w->want = 0;
    leases_assign(c, worker, ids, n, false);
}

void leases_serve(struct chief *c)
{
    if (c->sync || c->phase != CHIEF_RUN || c->cut.stage == STAGE_HOLD ||
        c->cut.stage == STAGE_STOP || (c->cut.stage == STAGE_SAVE && !c->cut.resumed))
        return;
    for (uint32_t i = 0; i < c->workers; i++)
        if (c->worker[i].welcomed && c->worker[i].want)
            serve(c, i);
}

void leases_take_done(struct chief *c, size_t n, Gradwire__Range **ranges)
{
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < ranges[i]->count && k < IDS_WINDOW; k++)
            mark_done(c, ranges[i]->first + k);
}

void leases_return(struct chief *c, uint32_t worker)
{
    for (uint64_t id = c->done.mark; id < c->next_id; id++)
        if (*owner_of(c, id) == OWNER_WORKER + worker && !ids_has(&c->done, id))
            mark_redo(c, id);
    c->worker[worker].want = 0;
}

void leases_die(struct chief *c, uint32_t worker)
{
    if (!c->geo) {
        leases_return(c, worker);
        return;
    }
    for (uint64_t id = c->done.mark; id < c->next_id; id++)
        if (*owner_of(c, id) == OWNER_WORKER + worker && !ids_has(&c->done, id))
            *owner_of(c, id) = OWNER_DYING + worker;
    c->worker[worker].want = 0;
}

void leases_lose(struct chief *c, uint32_t worker)
{
    for (uint64_t id = c->done.mark; id < c->next_id; id++)
        if (*owner_of(c, id) == OWNER_DYING + worker && !ids_has(&c->done, id)) {
            c->unsettled = id < c->unsettled ? id : c->unsettled;
            mark_done(c, id);
        }
    chief_check_finished(c);
}

static bool resolved_somewhere(const struct chief *c, uint64_t id)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (ids_has(&c->shard[i].resolved, id))
            return true;
    return false;
}

void leases_settle(struct chief *c, struct ids *all)
{
    uint64_t low = UINT64_MAX;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].resolved.mark < low)
            low = c->shard[i].resolved.mark;
    *all = (struct ids){.mark = low, .count = low};
    c->losing = c->lost;
    c->unsettled = UINT64_MAX;
    for (uint64_t id = low; id < c->next_id; id++) {
        bool somewhere = resolved_somewhere(c, id);
        if (somewhere)
            mark_done(c, id);
        if (!ids_has(&c->done, id))
            continue;
        c->losing += !somewhere;
        if (ids_add(all, id))
            break; /* cannot be: nothing is dealt beyond the window */
    }
}

/* ---- membership ---- */

/* Async: what the journal says is not to be learned from. In sync the step commit sees to it. */
static void put_skipped(const struct chief *c, Gradwire__Welcome *m)
{
    const struct journal *j = &c->journal;
    m->skipped = c->sync || j->n == 0 ? NULL : mem_zalloc(j->n, sizeof *m->skipped);
    for (size_t i = 0; m->skipped && i < j->n; i++)
        if (j->entry[i].kind == JOURNAL_RECOVERED)
            m->skipped[m->n_skipped++] = j->entry[i].batch;
}

/* Error feedback: a takeover is a new generation, at which each worker drops what it withheld; the last chief's own went
 * with it. */
static bool drops_residual(const struct chief *c, uint32_t worker, bool keeps_state)
{
    bool was_there = c->worker[worker].hello->incarnation != 0 || worker == 0;
    return c->feedback && c->mode == MODE_TAKEOVER && was_there && !keeps_state;
}

static void welcome(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    const Gradwire__Hello *hello = w->hello;
    bool same_process = hello->incarnation != 0 && strcmp(hello->uuid, c->uuid) == 0 &&
                        hello->incarnation >= w->incarnation;
    bool keeps_state = same_process && hello->incarnation == w->incarnation &&
                       generation_equal(msg_generation_get(hello->generation), c->generation);
    c->residuals_lost += drops_residual(c, worker, keeps_state);
    if (c->geo &&
        keeps_state) /* its report of them may have been lost: they must not be trained twice */
        leases_take_done(c, hello->n_done, hello->done);
    if (c->geo && w->given && !same_process)
        leases_die(c, worker);
    else if (!c->sync)
        leases_return(c, worker);
    if (same_process) {
        w->incarnation = hello->incarnation;
        for (size_t i = 0; !c->sync && !w->hello_used && i < hello->n_leases; i++)
            own_range(c, worker, hello->leases[i]);
    } else {
        bool another = w->given; /* process of this worker was there before */
        c->residuals_lost += c->feedback && another;
        w->incarnation = c->generation.number << 24 | ++c->incarnations;
        if (another)
            clocks_leave(c, worker);
    }
    w->welcomed = w->member = w->given = w->hello_used = true;
    w->acked = w->fencing = false;
    w->held = false;
    Gradwire__Welcome m = GRADWIRE__WELCOME__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    m.uuid = c->uuid;
    m.worker = worker;
    m.incarnation = w->incarnation;
    m.plan = &c->plan_message;
    m.settings = &c->config.settings;
    put_skipped(c, &m);
    c->io->to_worker(c->ctx, worker, FRAME_WELCOME, &m.base);
    mem_free(m.skipped);
    if (c->holds)
        cut_resend_worker(c, worker);
    if (c->sync)
        return;
    struct id_ranges ranges;
    held_by(c, worker, &ranges);
    if (ranges.n && !keeps_state)
        send_lease(c, worker, &ranges, false);
}

void members_entered(struct chief *c)
{
    bool changed = false;
    for (uint32_t i = 0; i < c->workers; i++) {
        if (c->worker[i].up && !c->worker[i].welcomed && c->worker[i].hello) {
            welcome(c, i);
            changed = true;
        }
    }
    if (changed)
        deal(c);
    leases_serve(c);
}

/* Whoever of it still lives must not push any more: nobody waits for its clock. */
static void retire(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    if (!c->retires)
        return;
    w->incarnation = c->generation.number << 24 | ++c->incarnations;
    clocks_leave(c, worker);
}

static void leave(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    Gradwire__Leave m = GRADWIRE__LEAVE__INIT;
    Gradwire__Generation g = msg_generation(c->generation);
    m.generation = &g;
    chief_say(c, 0, "worker %u leaves", worker);
    w->member = w->welcomed = w->given = false;
    w->held = true;
    retire(c, worker);
    if (!c->sync) {
        leases_return(c, worker);
        note(c, worker);
    }
    c->io->to_worker(c->ctx, worker, FRAME_LEAVE, &m.base);
    deal(c);
    leases_serve(c);
    cut_progress(c);
}

#define OURS(m) generation_equal(msg_generation_get((m)->generation), c->generation)

void members_on(struct chief *c, uint32_t worker, enum frame_type type, const ProtobufCMessage *m)
{
    struct chief_worker *w = &c->worker[worker];
    if (!w->welcomed)
        return;
    if (type == FRAME_LEASE_ASK) {
        const Gradwire__LeaseAsk *ask = (const Gradwire__LeaseAsk *)m;
        if (!OURS(ask))
            return;
        leases_take_done(c, ask->n_done, ask->done);
        if (ask->want)
            w->want = ask->want;
        w->told_none = false;
        leases_serve(c);
        chief_check_finished(c);
    } else if (type == FRAME_BATCH_REJECTED) {
        const Gradwire__BatchRejected *rejected = (const Gradwire__BatchRejected *)m;
        if (OURS(rejected))
            commit_on_rejected(c, rejected);
    } else if (type == FRAME_HELD) {
        const Gradwire__Held *held = (const Gradwire__Held *)m;
        if (!OURS(held))
            return;
        leases_take_done(c, held->n_done, held->done);
        if (held->cut == c->cut.number)
            w->held = true;
        cut_progress(c);
        chief_check_finished(c);
    } else if (type == FRAME_GOING) {
        const Gradwire__Going *going = (const Gradwire__Going *)m;
        if (!OURS(going))
            return;
        leases_take_done(c, going->n_done, going->done);
        leave(c, worker);
        chief_check_finished(c);
    }
}

void members_tick(struct chief *c)
{
    for (uint32_t i = 1; i < c->workers; i++) {
        struct chief_worker *w = &c->worker[i];
        int64_t away_ms = c->now_ms - w->lost_ms;
        if (!w->member || w->up || away_ms <= (int64_t)c->config.worker_rejoin_s * 1000)
            continue;
        chief_say(c, 1, "worker %u was away for %" PRId64 " s: the others take over its work", i,
                  away_ms / 1000);
        w->member = false;
        retire(c, i);
        if (!c->sync) {
            leases_die(c, i);
            note(c, i);
        }
        deal(c);
    }
    leases_serve(c);
}
