/* The ids of batches, in the modes that lease batches: each id has an owner until it is done or dealt again. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "worker/chief/core/chief_state.h"

enum {
    UNEVEN_MAX = WORKER_RANGES_MAX / 2
}; /* with the worker's own ids they fit its list; the others follow in the next round */

static uint32_t *owner_of(struct chief *c, uint64_t id)
{
    return &c->async.leases.owner[id % IDS_WINDOW];
}

static bool is_done(const struct chief *c, uint64_t id)
{
    return ids_has(&c->async.leases.done, id);
}

static void set_owner(struct chief *c, uint64_t id, uint32_t owner)
{
    c->async.leases.redo -= *owner_of(c, id) == OWNER_REDO;
    c->async.leases.redo += owner == OWNER_REDO;
    *owner_of(c, id) = owner;
}

void leases_tell_epoch(struct chief *c)
{
    struct chief_leases *l = &c->async.leases;
    uint64_t over = l->done.count / c->config.settings.batches_per_epoch;
    if (over <= l->epochs_told)
        return;
    l->epochs_told = over;
    if (over < c->config.settings.epochs)
        c->io->epoch(c->ctx, over);
}

void leases_done(struct chief *c, uint64_t id)
{
    struct chief_leases *l = &c->async.leases;
    if (id >= l->next_id || is_done(c, id))
        return;
    set_owner(c, id, OWNER_NONE);
    guard_batch_done(c, id);
    if (ids_add(&l->done, id))
        chief_fail(
            c, "batch %" PRIu64 " was reported as done, but is beyond the window of dealt batches",
            id);
    else
        leases_tell_epoch(c);
}

/* One above the largest id that a shard has in part or whole. */
static uint64_t end_of(const struct chief *c)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        const struct chief_shard *s = &c->shard[i];
        if (ids_end(&s->async.resolved) > end)
            end = ids_end(&s->async.resolved);
        for (size_t k = 0; k < s->async.partials; k++)
            if (s->async.partial[k] >= end)
                end = s->async.partial[k] + 1;
    }
    return end;
}

uint32_t leases_resolved(const struct chief *c, uint64_t id)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        n += ids_has(&c->shard[i].async.resolved, id);
    return n;
}

uint64_t leases_low(const struct chief *c)
{
    uint64_t low = UINT64_MAX;
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (c->shard[i].async.resolved.mark < low)
            low = c->shard[i].async.resolved.mark;
    return low;
}

/* Below the end of all ids ever dealt, resolved ids are done; the others are dealt again. */
static void done_from_shards(struct chief *c, bool by_some)
{
    struct chief_leases *l = &c->async.leases;
    uint64_t low = leases_low(c), end = end_of(c);
    /* cannot happen: nothing is dealt beyond the window */
    if (end < low || end - low > IDS_WINDOW)
        end = low + (end < low ? 0 : IDS_WINDOW);
    l->done = (struct ids){.mark = low, .count = low};
    for (uint64_t id = low; id < end && id - l->done.mark < IDS_WINDOW; id++) {
        if (leases_resolved(c, id) >= (by_some ? 1 : c->plan.shards) && ids_add(&l->done, id))
            break;
    }
    l->next_id = end;
}

/* True if the id was dealt to another worker in this generation, before its earlier owner came and claimed it. */
static bool another_has(struct chief *c, uint64_t id, uint32_t worker)
{
    uint32_t owner = *owner_of(c, id);
    return owner >= OWNER_WORKER && owner < OWNER_DYING && owner != OWNER_WORKER + worker &&
           c->worker[owner - OWNER_WORKER].welcomed;
}

/* The worker has these batches, if they are below `end`. */
static void own(struct chief *c, uint32_t worker, const Gradwire__Range *r, uint64_t end)
{
    struct chief_leases *l = &c->async.leases;
    for (uint64_t i = 0; i < r->count && i < IDS_WINDOW; i++) {
        uint64_t id = r->first + i;
        if (id >= end || id < l->done.mark || id - l->done.mark >= IDS_WINDOW)
            continue;
        /* dealt by an earlier chief, to an unknown worker */
        for (; l->next_id <= id; l->next_id++)
            if (!is_done(c, l->next_id))
                set_owner(c, l->next_id, OWNER_REDO);
        if (!is_done(c, id) && !another_has(c, id, worker))
            set_owner(c, id, OWNER_WORKER + worker);
    }
}

void leases_own(struct chief *c, uint32_t worker, const Gradwire__Range *r)
{
    own(c, worker, r, c->total);
}

/* A lease of the last chief's. Where workers come and go, its worker may have died with that chief, and this one does not know
 * of it: as a member it has timeouts.worker_rejoin_s to come back, as everywhere. */
static void take_up(struct chief *c, const Gradwire__WorkerLease *lease)
{
    struct chief_worker *w = lease->range ? chief_worker(c, lease->worker) : NULL;
    if (!w)
        return;
    if (!w->member)
        w->lost_ms = c->now_ms;
    w->member = true;
    own(c, lease->worker, lease->range, UINT64_MAX);
}

void leases_start(struct chief *c, bool by_some)
{
    struct chief_leases *l = &c->async.leases;
    memset(l->owner, 0, sizeof l->owner);
    l->unsettled = UINT64_MAX;
    l->redo = 0;
    done_from_shards(c, by_some);
    uint64_t over = l->done.count / c->config.settings.batches_per_epoch;
    /* later epochs will be reported again */
    l->epochs_told = over < l->epochs_told ? over : l->epochs_told;
    for (uint64_t id = l->done.mark; id < l->next_id; id++)
        if (!is_done(c, id))
            set_owner(c, id, OWNER_REDO);
    const Gradwire__HelloReply *hello = c->ps[0].hello;
    for (size_t i = 0; c->begins == BEGINS_TAKEOVER && hello && i < hello->n_leases; i++)
        take_up(c, hello->leases[i]);
    /* If training.epochs was lowered, batches behind the new end are dealt already, and parts of them may be applied:
     * they are learned, too. */
    if (l->next_id > c->total)
        c->total = l->next_id;
    for (uint32_t i = 0; i < c->workers; i++)
        c->worker[i].async.want = 0;
}

void leases_check(const struct chief *c)
{
    const struct chief_leases *l = &c->async.leases;
    uint64_t redo = 0;
    assert(l->done.mark <= l->next_id && l->next_id - l->done.mark <= IDS_WINDOW);
    assert(l->done.mark <= l->done.count && l->done.count <= l->next_id);
    assert(l->unsettled == UINT64_MAX || is_done(c, l->unsettled));
    for (uint64_t id = l->done.mark; id < l->next_id; id++) {
        uint32_t owner = l->owner[id % IDS_WINDOW];
        redo += owner == OWNER_REDO;
        assert(owner != OWNER_REDO || !is_done(c, id));
        assert(owner < OWNER_DYING ? owner < OWNER_WORKER + c->workers
                                   : owner < OWNER_DYING + c->workers);
    }
    assert(redo == l->redo);
    (void)redo;
}

/* ---- messages ---- */

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

static bool is_of(struct chief *c, uint64_t id, uint32_t owner)
{
    return *owner_of(c, id) == owner && !is_done(c, id);
}

static void held_by(struct chief *c, uint32_t worker, struct id_ranges *out)
{
    const struct chief_leases *l = &c->async.leases;
    out->n = 0;
    for (uint64_t id = l->done.mark; id < l->next_id; id++)
        if (is_of(c, id, OWNER_WORKER + worker) && !ranges_put(out, id))
            return;
}

void leases_note(struct chief *c, uint32_t worker)
{
    struct id_ranges ranges;
    held_by(c, worker, &ranges);
    Gradwire__LeaseNote m = GRADWIRE__LEASE_NOTE__INIT;
    m.generation = &c->named;
    m.worker = worker;
    m.ranges = ranges.at;
    m.n_ranges = ranges.n;
    chief_to_ps(c, 0, FRAME_LEASE_NOTE, &m.base);
}

static void send_lease(struct chief *c, uint32_t worker, struct id_ranges *ranges, bool redo)
{
    Gradwire__Lease m = GRADWIRE__LEASE__INIT;
    m.generation = &c->named;
    m.ranges = ranges->at;
    m.n_ranges = ranges->n;
    m.redo = redo;
    m.workers = workers_count(c);
    leases_note(c, worker);
    c->io->to_worker(c->ctx, worker, FRAME_LEASE, &m.base);
}

void leases_repeat(struct chief *c, uint32_t worker)
{
    struct id_ranges ranges;
    held_by(c, worker, &ranges);
    if (ranges.n)
        send_lease(c, worker, &ranges, false);
}

static void assign(struct chief *c, uint32_t worker, const uint64_t *ids, size_t n, bool redo)
{
    struct id_ranges ranges = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        if (!ranges_put(&ranges, ids[i]))
            break;
        set_owner(c, ids[i], OWNER_WORKER + worker);
    }
    send_lease(c, worker, &ranges, redo);
}

/* ---- dealing ---- */

/* Its owner is set by the caller. */
static bool next_to_deal(struct chief *c, uint64_t *id)
{
    struct chief_leases *l = &c->async.leases;
    for (*id = l->done.mark; l->redo && *id < l->next_id; ++*id)
        if (*owner_of(c, *id) == OWNER_REDO)
            return true;
    uint64_t low = l->unsettled < l->done.mark ? l->unsettled : l->done.mark;
    *id = l->next_id;
    return l->next_id < c->total && l->next_id - low < IDS_WINDOW;
}

/* The end of the window that the id is in, in its epoch. */
static uint64_t window_end(const struct chief *c, uint64_t id)
{
    const uint64_t per_epoch = c->config.settings.batches_per_epoch,
                   window = c->config.window_batches;
    const uint64_t at = id % per_epoch, end = at - at % window + window;
    return id - at + (end < per_epoch ? end : per_epoch);
}

/* The most ids of a lease of a window. Workers share windows where not every one can have its own: few ids are left, or too many
 * would be dealt above the lowest. */
static uint64_t share_of_worker(const struct chief *c)
{
    const struct chief_leases *l = &c->async.leases;
    uint64_t left = c->total - l->next_id + l->redo;
    left = left < IDS_WINDOW / 4 ? left : IDS_WINDOW / 4;
    const uint64_t share = left / workers_count(c);
    return share > CHIEF_LEASE_IDS ? share : CHIEF_LEASE_IDS;
}

static void serve(struct chief *c, uint32_t worker)
{
    struct chief_worker *w = &c->worker[worker];
    uint64_t ids[CHIEF_WINDOW_IDS], id, end = UINT64_MAX, most = CHIEF_LEASE_IDS;
    size_t n = 0;
    if (c->config.window_batches)
        most = share_of_worker(c);
    else if (w->async.want < most)
        most = w->async.want;
    while (n < most && next_to_deal(c, &id) && id < end) {
        if (n == 0 && c->config.window_batches)
            end = window_end(c, id);
        c->async.leases.next_id += id == c->async.leases.next_id;
        set_owner(c, id, OWNER_WORKER + worker);
        ids[n++] = id;
    }
    if (n == 0) {
        /* With error feedback, the worker then pushes what it withheld: all of it must be learned before the job ends. */
        Gradwire__Lease m = GRADWIRE__LEASE__INIT;
        m.generation = &c->named;
        m.workers = workers_count(c);
        if (c->feedback && !c->worker[worker].async.told_none)
            c->io->to_worker(c->ctx, worker, FRAME_LEASE, &m.base);
        c->worker[worker].async.told_none = true;
        return;
    }
    w->async.want = 0;
    assign(c, worker, ids, n, false);
}

void leases_serve(struct chief *c)
{
    if (c->phase != CHIEF_RUN || c->cut.stage == STAGE_HOLD || c->cut.stage == STAGE_STOP ||
        (c->cut.stage == STAGE_SAVE && !c->cut.resumed))
        return;
    for (uint32_t i = 0; i < c->workers; i++)
        if (c->worker[i].welcomed && c->worker[i].async.want)
            serve(c, i);
}

uint32_t leases_slowest(const struct chief *c)
{
    const struct chief_leases *l = &c->async.leases;
    bool wanted = false;
    for (uint32_t i = 0; i < c->workers; i++)
        wanted = wanted || (c->worker[i].welcomed && c->worker[i].async.want);
    for (uint64_t id = l->done.mark; wanted && id < l->next_id; id++) {
        uint32_t owner = l->owner[id % IDS_WINDOW];
        if (!is_done(c, id) && owner >= OWNER_WORKER && owner < OWNER_DYING)
            return owner - OWNER_WORKER;
    }
    return c->workers;
}

void leases_take_done(struct chief *c, size_t n, Gradwire__Range **ranges)
{
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < ranges[i]->count && k < IDS_WINDOW; k++)
            leases_done(c, ranges[i]->first + k);
}

static void take_from(struct chief *c, uint32_t worker, uint32_t owner)
{
    const struct chief_leases *l = &c->async.leases;
    for (uint64_t id = l->done.mark; id < l->next_id; id++)
        if (is_of(c, id, OWNER_WORKER + worker))
            set_owner(c, id, owner);
    c->worker[worker].async.want = 0;
}

void leases_return(struct chief *c, uint32_t worker)
{
    take_from(c, worker, OWNER_REDO);
}

void leases_die(struct chief *c, uint32_t worker)
{
    take_from(c, worker, OWNER_DYING + worker);
}

void leases_lose(struct chief *c, uint32_t worker)
{
    struct chief_leases *l = &c->async.leases;
    for (uint64_t id = l->done.mark; id < l->next_id; id++)
        if (is_of(c, id, OWNER_DYING + worker)) {
            l->unsettled = id < l->unsettled ? id : l->unsettled;
            leases_done(c, id);
        }
}

/* ---- a cut ---- */

/* Ids that some shard has in part or whole, but another does not. */
static size_t uneven(const struct chief *c, uint64_t *out, size_t room)
{
    size_t n = 0;
    uint64_t end = end_of(c);
    for (uint64_t id = c->async.leases.done.mark; id < end && n < room; id++) {
        uint32_t all = leases_resolved(c, id);
        bool some = all > 0;
        for (uint32_t i = 0; i < c->plan.shards; i++)
            for (size_t k = 0; k < c->shard[i].async.partials; k++)
                some = some || c->shard[i].async.partial[k] == id;
        if (some && all < c->plan.shards)
            out[n++] = id;
    }
    return n;
}

bool leases_redo_uneven(struct chief *c)
{
    uint64_t ids[UNEVEN_MAX];
    size_t n = uneven(c, ids, UNEVEN_MAX);
    for (uint32_t i = 0; n && i < c->workers; i++) {
        if (!c->worker[i].welcomed || !c->worker[i].up)
            continue;
        c->worker[i].held = false;
        c->cut.stage = STAGE_HOLD;
        c->cut.began_ms = c->now_ms;
        assign(c, i, ids, n, true);
        break;
    }
    return n > 0;
}
