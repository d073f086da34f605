/* The session in sync: all workers compute each step, and the deal gives each its leaves.
 *
 * Happy path: a deal -> pull -> parameters of step k from every shard -> compute my leaves -> push -> replies of k +
 * 1 from every shard -> compute ...
 * Failure modes: shards that name different steps (the smallest is pulled; with backup workers the largest), a step
 * that other workers made without me (pull), leaves of the running step that become mine (its parameters are pulled
 * again). */
#include <assert.h>
#include <string.h>

#include "worker/core/session_inner.h"

static void begin(struct session *s)
{
    const Gradwire__Settings *settings = &s->terms.settings;
    s->sync = (struct sync_state){
        .epochs = settings->epochs,
        .total = settings->redo ? UINT64_MAX : settings->epochs * settings->batches_per_epoch,
        .sums_step = UINT64_MAX,
        .told_step = UINT64_MAX};
}

static bool todo(const struct session *s)
{
    for (uint32_t i = 0; i < s->sync.my_leaves; i++)
        if (!s->sync.pushed_leaf[s->sync.first_leaf + i])
            return true;
    return false;
}

static void check(const struct session *s)
{
    const struct sync_state *y = &s->sync;
    exchange_check(s);
    assert(y->first_leaf + y->my_leaves <= s->terms.leaves);
    assert(y->my_leaves > 0 || y->first_leaf == 0);
    assert(s->at_hand != TASK_PUSH);
    assert(!y->work.there || (s->terms.settings.redo && y->work.step >= y->work.is.begin));
    assert(!y->knows || (s->terms.settings.redo && s->step >= y->here.begin));
    assert(y->told_step == UINT64_MAX || y->sums_step != UINT64_MAX);
    assert(y->total != UINT64_MAX || s->terms.settings.redo);
    assert(y->epochs <= s->terms.settings.epochs);
    assert(s->phase != SESSION_PUSHED || (y->my_leaves > 0 && !todo(s)));
    (void)y;
}

static void wake(struct session *s)
{
    if (session_leaves(s) > 0)
        exchange_pull_newest(s);
}

static void on_deal(struct session *s, const Gradwire__Deal *m)
{
    if (m->version < s->sync.deal)
        return;
    s->sync.deal = m->version;
    s->sync.first_leaf = s->sync.my_leaves = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        const Gradwire__Part *p = m->parts[i];
        if (p->worker == s->terms.worker && p->leaves > 0 && p->leaves <= s->terms.leaves &&
            p->first_leaf <= s->terms.leaves - p->leaves) {
            s->sync.first_leaf = p->first_leaf;
            s->sync.my_leaves = p->leaves;
        }
    }
    if (s->sync.my_leaves == 0) {
        if (s->phase != SESSION_COMPUTING)
            s->phase = SESSION_IDLE;
        return;
    }
    /* Leaves of the running step have become mine. Its parameters may be partly overwritten, so pull them again. */
    if (s->phase == SESSION_PUSHED && todo(s))
        exchange_pull(s, false, s->step);
    session_wake(s);
}

/* ---- which step ---- */

/* The parameters of `step` have arrived. If dropped microbatches are trained again, the lead shard has sent with
 * them what the step consists of; the number of steps is known only at the first one after the last epoch. */
static void arrive(struct session *s, uint64_t step)
{
    struct sync_state *y = &s->sync;
    assert(session_all_whole(s) && s->link[0].got_step == step);
    s->step = step;
    memset(y->pushed_leaf, 0, sizeof y->pushed_leaf);
    y->knows = s->terms.settings.redo && y->work.there && y->work.step == step;
    if (!y->knows)
        return;
    y->here = y->work.is;
    if (y->here.epoch >= y->epochs && step < y->total)
        y->total = step;
}

/* Every shard has answered. All must name one step. If they differ, the SMALLEST is pulled: every shard still has
 * it, because no worker can have pushed a later one, and its missing leaf may be mine
 * (docs/explanation/semantics.md). With backup workers, all shards make the step that one of them has made, without
 * me: the LARGEST is pulled, repeatedly while steps go by. */
static void pulled(struct session *s)
{
    struct exchange_steps got = exchange_steps(s);
    if (got.least == got.most) {
        arrive(s, got.least);
        s->phase = SESSION_READY;
    } else if (s->terms.backups) {
        exchange_pull_others(s, got.most);
    } else if (!s->pull.any && s->pull.step == got.least) {
        /* it was pulled, and is gone: so all shards have made the next one */
        exchange_pull_newest(s);
    } else {
        exchange_pull_others(s, got.least);
    }
}

static void answered(struct session *s)
{
    struct exchange_steps got = exchange_steps(s);
    if (s->terms.backups && got.least != got.most) {
        exchange_pull_others(s, got.most);
        return;
    }
    if (!s->terms.backups && (got.least != got.most || got.least != s->step + 1)) {
        exchange_pull_newest(s); /* the other workers went on without me */
        return;
    }
    arrive(s, got.least);
    s->phase = s->sync.my_leaves ? SESSION_READY : SESSION_IDLE;
}

static void pushed(struct session *s)
{
    if (s->sync.my_leaves == 0)
        s->phase = SESSION_IDLE;
    else if (todo(s))
        exchange_pull(s, false, s->step);
    else
        exchange_pushed(s);
}

/* ---- replies ---- */

static bool answers(const struct session *s, const Gradwire__Reply *m)
{
    return m->step > s->step;
}

static void take_sums(struct sync_state *y, const Gradwire__Reply *m)
{
    if (!m->sums || m->step == 0)
        return;
    y->sums_step = m->step - 1;
    y->sums = (struct sums){.examples = m->sums->examples, .loss = m->sums->loss};
    for (size_t i = 0; i < SUMS_MAX && i < m->sums->n_metric; i++)
        y->sums.metric[i] = m->sums->metric[i];
}

/* A message that does not fit is ignored: then nothing is computed. */
static void take_work(struct session *s, const Gradwire__Reply *m)
{
    struct sync_state *y = &s->sync;
    const Gradwire__StepWork *from = m->work;
    uint64_t per_epoch = s->terms.settings.batches_per_epoch;
    if (!from || !s->terms.settings.redo)
        return;
    y->work.there = m->step >= from->begin && from->n_redo <= s->terms.leaves;
    if (!y->work.there)
        return;
    uint64_t in = m->step - from->begin;
    y->work.step = m->step;
    y->work.is = (struct epochs_work){.epoch = from->epoch,
                                      .begin = from->begin,
                                      .steps = from->steps,
                                      .batch = from->epoch * per_epoch + in,
                                      .redo = in >= per_epoch,
                                      .count = (uint32_t)from->n_redo,
                                      .leaves = s->terms.leaves};
    for (size_t i = 0; i < from->n_redo; i++)
        y->work.is.leaf[i] = from->redo[i];
}

static void take(struct session *s, struct session_link *l, const Gradwire__Reply *m)
{
    take_sums(&s->sync, m);
    take_work(s, m);
    if (l->got_step == m->step)
        return;
    l->got_chunks = 0; /* ranges of two steps: only the later one counts */
    l->made = false;
}

static bool take_made(struct session *s, struct session_made *made)
{
    struct sync_state *y = &s->sync;
    bool seen = y->sums_step != UINT64_MAX && y->sums_step != y->told_step;
    if (!seen && (!s->terms.backups || s->phase != SESSION_READY || s->step == 0))
        return false;
    made->id = seen ? y->sums_step : s->step - 1; /* the other workers made it without me */
    if (!seen)
        return true;
    made->sums = y->sums;
    y->told_step = y->sums_step;
    return true;
}

/* ---- work ---- */

static struct session_task task(struct session *s)
{
    struct sync_state *y = &s->sync;
    struct session_task t = {.kind = TASK_NONE, .name = s->step, .batch = s->step};
    if (session_is_at_end(s) || !todo(s))
        return t;
    if (s->terms.settings.redo) {
        if (!y->knows)
            return t; /* the lead shard does not report it: nothing is computed */
        t.work = &y->here;
        t.batch = y->here.batch;
    }
    t.end = y->epochs * s->terms.settings.batches_per_epoch;
    if (y->total < t.end)
        t.end = y->total;
    for (uint32_t i = 0; i < y->my_leaves; i++) {
        uint32_t leaf = y->first_leaf + i;
        if (y->pushed_leaf[leaf])
            continue;
        if (t.runs && t.first[t.runs - 1] + t.count[t.runs - 1] == leaf) {
            t.count[t.runs - 1]++;
        } else if (t.runs < TREE_LEVELS_MAX) {
            t.first[t.runs] = leaf;
            t.count[t.runs++] = 1;
        } else {
            break; /* the rest is the next task */
        }
        y->pushed_leaf[leaf] = true;
    }
    assert(t.runs > 0 && (t.runs == TREE_LEVELS_MAX || !todo(s)));
    t.kind = TASK_COMPUTE;
    return t;
}

/* Predict the next step, with the same leaves. */
static bool guess(const struct session *s, struct session_task *next)
{
    const struct sync_state *y = &s->sync;
    uint64_t batch = s->terms.settings.redo ? y->here.batch : s->step;
    *next = (struct session_task){.kind = TASK_COMPUTE, .name = s->step + 1, .batch = batch + 1};
    /* If dropped microbatches are trained again, extra steps may follow an epoch's last batch; their leaves are known only
     * when their parameters arrive. */
    bool goes_on = !s->terms.settings.redo ||
                   (y->knows && s->step + 1 - y->here.begin < s->terms.settings.batches_per_epoch);
    if (y->my_leaves == 0 || next->name >= y->total || !goes_on)
        return false;
    next->first[0] = y->first_leaf;
    next->count[0] = y->my_leaves;
    next->runs = 1;
    return true;
}

uint32_t session_leaves(const struct session *s)
{
    return s->terms.sync ? s->sync.my_leaves : 0;
}

bool session_is_at_end(const struct session *s)
{
    return s->terms.sync && s->step >= s->sync.total;
}

void session_stop_at(struct session *s, uint64_t step)
{
    if (s->terms.sync && step < s->sync.total)
        s->sync.total = step;
    session_check(s);
}

void session_stop_behind(struct session *s, uint64_t epochs)
{
    if (s->terms.sync && epochs < s->sync.epochs)
        s->sync.epochs = epochs;
    session_check(s);
}

struct session_place session_place(const struct session *s)
{
    const struct sync_state *y = &s->sync;
    uint64_t per_epoch = s->terms.settings.batches_per_epoch;
    if (s->terms.sync && y->knows)
        return (struct session_place){y->here.epoch, s->step - y->here.begin, y->here.steps};
    return (struct session_place){s->step / per_epoch, s->step % per_epoch, per_epoch};
}

const struct session_mode session_sync = {
    .feeds_back = true,
    .check = check,
    .begin = begin,
    .wake = wake,
    .pull_newest = exchange_pull_newest,
    .on_deal = on_deal,
    .task = task,
    .guess = guess,
    .pushed = pushed,
    .take_made = take_made,
    .link_up = exchange_link_up,
    .reply_fits = exchange_reply_fits,
    .on_reply = exchange_on_reply,
    .answers = answers,
    .take = take,
    .pulled = pulled,
    .answered = answered,
};
