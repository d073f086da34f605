#include "worker/core/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/core/session_inner.h"

void session_init(struct session *s, const struct session_io *io, void *ctx)
{
    *s = (struct session){.io = io, .ctx = ctx};
}

void session_close(struct session *s)
{
    plan_close(&s->plan);
    mem_free(s->link);
    mem_free(s->skipped);
    *s = (struct session){0};
}

/* ---- ranges of ids ---- */

void session_ranges_add(struct session_ranges *r, uint64_t first, uint64_t count)
{
    struct session_range *last = r->n ? &r->range[r->n - 1] : NULL;
    if (last && last->first + last->count == first)
        last->count += count;
    else if (r->n < WORKER_RANGES_MAX)
        r->range[r->n++] = (struct session_range){first, count};
}

static uint64_t ranges_take(struct session_ranges *r)
{
    uint64_t id = r->range[0].first++;
    if (--r->range[0].count == 0)
        memmove(r->range, r->range + 1, --r->n * sizeof *r->range);
    return id;
}

static uint64_t ranges_count(const struct session_ranges *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->range[i].count;
    return n;
}

/* Hand ranges to `send` as messages. */
struct range_list {
    Gradwire__Range range[WORKER_RANGES_MAX];
    Gradwire__Range *at[WORKER_RANGES_MAX];
};

static void range_list(struct range_list *l, const struct session_ranges *r)
{
    for (size_t i = 0; i < r->n; i++) {
        gradwire__range__init(&l->range[i]);
        l->range[i].first = r->range[i].first;
        l->range[i].count = r->range[i].count;
        l->at[i] = &l->range[i];
    }
}

/* ---- pulling ---- */

static void await_replies(struct session *s)
{
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        s->link[i].whole = false;
        s->link[i].got_chunks = 0;
    }
}

static void pull_from(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    l->whole = l->holds = false;
    l->got_chunks = 0;
    if (!l->up)
        return; /* asked when it is up */
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    m.generation = &g;
    m.any = s->pull_any;
    m.step = s->pull_step;
    l->asked = true;
    s->io->pull(s->ctx, shard, &m);
}

static void pull_all(struct session *s, bool any, uint64_t step)
{
    s->phase = SESSION_PULLING;
    s->pull_any = any;
    s->pull_step = step;
    s->re_pull = false;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        if (s->link[i].asked)
            s->re_pull = true; /* its answer is to the former question */
        else
            pull_from(s, i);
    }
}

void session_pull_any(struct session *s)
{
    pull_all(s, true, 0);
}

/* Backup workers: what a step is made of is decided for all shards at once. */
static bool backed(const struct session *s)
{
    return s->settings.replicas_to_aggregate > 0;
}

/* Where one shard has made a step all others make it without me: the largest step that was answered is pulled from who
 * answered otherwise, again and again while steps go by. True: all hold one step. */
static bool agree(struct session *s)
{
    uint64_t most = 0;
    bool equal = true;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        equal = equal && s->link[i].got_step == s->link[0].got_step;
        if (s->link[i].got_step > most)
            most = s->link[i].got_step;
    }
    if (equal)
        return true;
    s->phase = SESSION_PULLING;
    s->pull_any = false;
    s->pull_step = most;
    for (uint32_t i = 0; i < s->plan.shards; i++)
        if (s->link[i].got_step != most)
            pull_from(s, i);
    return false;
}

/* The parameters of `step` are here. Where dropped microbatches are trained again the lead has said with them what the
 * step is made of; how many there are in all is not known before the first one behind the last epoch. */
static void arrive(struct session *s)
{
    s->knows = s->settings.redo && s->work.there && s->work.step == s->step;
    if (!s->knows)
        return;
    s->here = s->work.is;
    if (s->here.epoch >= s->settings.epochs && s->step < s->total)
        s->total = s->step;
}

/* Every shard has answered. In sync all must name one step; where they differ the SMALLEST is pulled: it is still kept
 * wherever it is over, since nobody can have pushed a later one, and its missing leaf may be mine (docs/semantics.md). */
static void pulled_all(struct session *s)
{
    uint64_t least = UINT64_MAX;
    bool equal = true;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        equal = equal && s->link[i].got_step == s->link[0].got_step;
        if (s->link[i].got_step < least)
            least = s->link[i].got_step;
    }
    if (s->re_pull) {
        pull_all(s, s->pull_any, s->pull_step);
        return;
    }
    if (backed(s) && !agree(s))
        return;
    if (s->sync && !equal && !s->pull_any && s->pull_step == least) {
        pull_all(s, true, 0); /* it was asked for, and is gone: so all have made the next one */
        return;
    }
    if (s->sync && !equal) {
        s->pull_any = false;
        s->pull_step = least;
        for (uint32_t i = 0; i < s->plan.shards; i++)
            if (s->link[i].got_step != least)
                pull_from(s, i);
        return;
    }
    if (s->geo)
        s->io->merge(s->ctx, true);
    s->step = least;
    memset(s->pushed_leaf, 0, sizeof s->pushed_leaf);
    s->phase = SESSION_READY;
    arrive(s);
}

/* ---- what is mine to do ---- */

static bool sync_todo(const struct session *s)
{
    for (uint32_t i = 0; i < s->my_leaves; i++)
        if (!s->pushed_leaf[s->first_leaf + i])
            return true;
    return false;
}

bool session_is_clean(const struct session *s)
{
    return geo_is_clean(s) && feedback_is_clean(s);
}

/* The chief takes a job for learned when all batches are reported: the last one waits for what it withheld. */
static bool keep_last(struct session *s, struct session_range *kept)
{
    if (s->geo || s->done.n == 0 || session_is_clean(s))
        return false;
    struct session_range *last = &s->done.range[s->done.n - 1];
    *kept = (struct session_range){last->first + last->count - 1, 1};
    if (--last->count == 0)
        s->done.n--;
    return true;
}

static void report_done(struct session *s, uint32_t want)
{
    struct range_list list;
    struct session_range kept;
    bool keeps = keep_last(s, &kept);
    Gradwire__Generation g = msg_generation(s->generation);
    Gradwire__LeaseAsk m = GRADWIRE__LEASE_ASK__INIT;
    range_list(&list, &s->done);
    m.generation = &g;
    m.done = list.at;
    m.n_done = s->done.n;
    m.want = want;
    s->asked_lease = s->asked_lease || want > 0;
    s->io->to_chief(s->ctx, FRAME_LEASE_ASK, &m.base);
    s->done.n = 0;
    if (keeps)
        session_ranges_add(&s->done, kept.first, kept.count);
}

void session_say_held(struct session *s)
{
    struct range_list list;
    Gradwire__Generation g = msg_generation(s->generation);
    Gradwire__Held m = GRADWIRE__HELD__INIT;
    range_list(&list, &s->done);
    m.generation = &g;
    m.cut = s->hold_cut;
    m.done = list.at;
    m.n_done = s->done.n;
    s->done.n = 0;
    s->redoing = false;
    s->io->to_chief(s->ctx, FRAME_HELD, &m.base);
}

static void say_going(struct session *s)
{
    struct range_list list;
    Gradwire__Generation g = msg_generation(s->generation);
    Gradwire__Going m = GRADWIRE__GOING__INIT;
    range_list(&list, &s->done);
    m.generation = &g;
    m.done = list.at;
    m.n_done = s->done.n;
    s->done.n = 0;
    s->said_going = true;
    s->io->to_chief(s->ctx, FRAME_GOING, &m.base);
}

bool session_running(const struct session *s)
{
    return s->phase == SESSION_COMPUTING || s->phase == SESSION_PUSHED;
}

/* Bring the parameters in if there is work for them. */
static void wake(struct session *s)
{
    if (s->phase != SESSION_IDLE)
        return;
    if (s->ssp)
        ssp_wake(s);
    else if (s->sync ? s->dealt && s->my_leaves > 0 : s->lease.n > 0)
        pull_all(s, true, 0);
}

/* ---- from the chief ---- */

static void copy_settings(struct session *s, const Gradwire__Settings *m)
{
    s->settings = *m;
    s->settings.boundaries = NULL; /* the message's own */
    s->settings.n_boundaries = 0;
    s->settings.values = NULL;
    s->settings.n_values = 0;
    s->sync = m->update == GRADWIRE__UPDATE__SYNC;
    s->ssp = m->update == GRADWIRE__UPDATE__SSP;
    s->geo = m->update == GRADWIRE__UPDATE__GEO;
    s->feedback = m->push_codec == CODEC_TOP_K && !s->ssp && !s->geo;
    s->leaves = m->microbatches;
    s->total = m->redo ? UINT64_MAX : m->epochs * m->batches_per_epoch;
}

enum err session_on_welcome(struct session *s, const Gradwire__Welcome *m, struct errmsg *e)
{
    const Gradwire__Settings *settings = m->settings;
    if (!m->plan || !settings || settings->microbatches == 0 ||
        settings->microbatches > TREE_LEAVES_MAX ||
        (settings->microbatches & (settings->microbatches - 1)) || settings->metrics > SUMS_MAX ||
        settings->batches_per_epoch == 0)
        return err_set(e, ERR_PROTO, "the chief's welcome has no plan or impossible settings");
    struct generation g = msg_generation_get(m->generation);
    if (s->phase != SESSION_NEW && generation_equal(g, s->generation) &&
        m->incarnation == s->incarnation)
        return ERR_OK; /* the same again: the chief's connection was lost for a while */
    struct plan plan = {0};
    enum err err =
        plan_init(&plan, m->plan->elems, m->plan->threads, (uint32_t)m->plan->n_threads, e);
    if (err)
        return err;
    struct session_link *links = mem_zalloc(plan.shards, sizeof *links);
    uint64_t *skipped = mem_zalloc(m->n_skipped + 1, sizeof *skipped);
    if (!links || !skipped) {
        plan_close(&plan);
        mem_free(links);
        mem_free(skipped);
        return err_set(e, ERR_NOMEM, "no memory for %u links", plan.shards);
    }
    if (m->n_skipped)
        memcpy(skipped, m->skipped, m->n_skipped * sizeof *skipped);
    plan_close(&s->plan);
    mem_free(s->link);
    mem_free(s->skipped);
    s->plan = plan;
    s->link = links;
    s->skipped = skipped;
    s->n_skipped = m->n_skipped;
    s->rejected.there = false;
    s->generation = g;
    (void)snprintf(s->uuid, sizeof s->uuid, "%s", m->uuid);
    s->worker = m->worker;
    s->incarnation = m->incarnation;
    copy_settings(s, settings);
    s->phase = SESSION_IDLE;
    s->dealt = false;
    s->deal = 0;
    s->my_leaves = 0;
    s->lease.n = s->done.n = 0;
    s->asked_lease = s->holding = s->redoing = s->said_going = false;
    s->re_pull = s->final = s->final_asked = false;
    s->redo_left = 0;
    s->entry = s->clock = 0;
    s->live = s->outside = false;
    s->pending.n = s->recent.n = 0;
    s->moved = s->pushing = s->whole = s->none_left = false;
    s->round = 0;
    s->members = 1;
    s->sums.valid = s->averages_there = false;
    s->work.there = s->knows = false;
    return ERR_OK;
}

static void on_deal(struct session *s, const Gradwire__Deal *m)
{
    if (m->version < s->deal)
        return;
    s->deal = m->version;
    s->dealt = true;
    s->first_leaf = s->my_leaves = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        const Gradwire__Part *p = m->parts[i];
        if (p->worker == s->worker && p->leaves <= s->leaves &&
            p->first_leaf <= s->leaves - p->leaves) {
            s->first_leaf = p->first_leaf;
            s->my_leaves = p->leaves;
        }
    }
    if (s->my_leaves == 0) {
        if (s->phase != SESSION_COMPUTING)
            s->phase = SESSION_IDLE;
        return;
    }
    /* Leaves of the running step have become mine: its parameters may be overwritten in part. */
    if (s->phase == SESSION_PUSHED && sync_todo(s))
        pull_all(s, false, s->step);
    wake(s);
}

static void on_lease(struct session *s, const Gradwire__Lease *m)
{
    s->none_left = m->n_ranges == 0 && !m->redo;
    if (s->none_left)
        return; /* what was asked for comes when there is some */
    if (!m->redo)
        s->asked_lease = false;
    struct session_ranges former = s->lease;
    if (m->workers)
        s->members = m->workers;
    if (m->redo) {
        s->lease.n = 0;
        s->redoing = true;
    }
    for (size_t i = 0; i < m->n_ranges; i++)
        if (m->ranges[i]->count)
            session_ranges_add(&s->lease, m->ranges[i]->first, m->ranges[i]->count);
    if (m->redo) {
        s->redo_left = ranges_count(&s->lease);
        for (size_t i = 0; i < former.n; i++)
            session_ranges_add(&s->lease, former.range[i].first, former.range[i].count);
    }
    if (s->ssp && s->redo_left)
        ssp_redo(s);
    else
        wake(s);
}

static void on_hold(struct session *s, const Gradwire__Hold *m)
{
    s->holding = true;
    s->said_held = false;
    s->hold_cut = m->cut;
    if (s->sync)
        feedback_say_held(s);
    else if (!session_running(s) && session_is_clean(s))
        session_say_held(s);
}

void session_on_chief(struct session *s, enum frame_type type, const ProtobufCMessage *m)
{
#define OF_THIS_GENERATION(T)                                                                      \
    generation_equal(msg_generation_get(((const Gradwire__##T *)m)->generation), s->generation)
    if (type == FRAME_DEAL && OF_THIS_GENERATION(Deal))
        on_deal(s, (const Gradwire__Deal *)m);
    else if (type == FRAME_LEASE && OF_THIS_GENERATION(Lease))
        on_lease(s, (const Gradwire__Lease *)m);
    else if (type == FRAME_HOLD && OF_THIS_GENERATION(Hold))
        on_hold(s, (const Gradwire__Hold *)m);
    else if (type == FRAME_RESUME && OF_THIS_GENERATION(Resume))
        s->holding = false;
    else if (type == FRAME_LEAVE)
        s->may_leave = true;
    else if (type == FRAME_DONE) {
        s->over = true;
        s->exit_code = ((const Gradwire__Done *)m)->exit_code;
    }
#undef OF_THIS_GENERATION
}

static void say_rejected(struct session *s)
{
    Gradwire__Generation g = msg_generation(s->generation);
    Gradwire__BatchRejected m = GRADWIRE__BATCH_REJECTED__INIT;
    m.generation = &g;
    m.batch = s->rejected.batch;
    m.what = s->rejected.what;
    s->io->to_chief(s->ctx, FRAME_BATCH_REJECTED, &m.base);
}

void session_reject(struct session *s, const char *what)
{
    s->rejected = (struct session_rejected){.there = true, .batch = s->running};
    (void)snprintf(s->rejected.what, sizeof s->rejected.what, "%s", what);
    say_rejected(s);
}

bool session_skips(const struct session *s)
{
    for (size_t i = 0; i < s->n_skipped; i++)
        if (s->skipped[i] == s->running)
            return true;
    return false;
}

void session_on_chief_up(struct session *s)
{
    if (s->rejected.there && session_running(s) && s->rejected.batch == s->running)
        say_rejected(s);
    s->asked_lease = false;
    s->said_going = false;
    s->said_held = false;
    if (s->sync)
        feedback_say_held(s);
    else if (s->holding && !session_running(s) && session_is_clean(s))
        session_say_held(s);
}

size_t session_leases(const struct session *s, struct session_range *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < s->pending.n && n < room; i++)
        out[n++] = s->pending.range[i];
    if (!s->sync && session_running(s) && !s->pushing && n < room)
        out[n++] = (struct session_range){s->running, 1};
    for (size_t i = 0; i < s->lease.n && n < room; i++)
        out[n++] = s->lease.range[i];
    return n;
}

static void ranges_say(const struct session_range *from, size_t n, Gradwire__Range *to,
                       Gradwire__Range **at)
{
    for (size_t i = 0; i < n; i++) {
        gradwire__range__init(&to[i]);
        to[i].first = from[i].first;
        to[i].count = from[i].count;
        at[i] = &to[i];
    }
}

void session_hello_chief(const struct session *s, struct session_hello *room, Gradwire__Hello *m)
{
    struct session_range held[WORKER_RANGES_MAX + 1];
    room->generation = msg_generation(s->generation);
    m->generation = &room->generation;
    m->uuid = (char *)s->uuid;
    m->incarnation = s->incarnation;
    m->leases = room->lease_at;
    m->n_leases = session_leases(s, held, WORKER_RANGES_MAX + 1);
    ranges_say(held, m->n_leases, room->lease, room->lease_at);
    m->done = room->done_at;
    m->n_done = s->recent.n;
    ranges_say(s->recent.range, s->recent.n, room->done, room->done_at);
}

/* ---- links and replies ---- */

void session_on_link_up(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    if (s->ssp) {
        l->up = true;
        ssp_link_up(s, shard);
        averages_link_up(s, shard);
        return;
    }
    *l = (struct session_link){.up = true};
    averages_link_up(s, shard);
    if (s->phase == SESSION_PULLING)
        pull_from(s, shard);
    else if (s->phase == SESSION_PUSHED) {
        l->pushed = true;
        s->io->push_again(s->ctx, shard);
    }
}

void session_on_link_down(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    bool whole = l->whole;
    *l = (struct session_link){.acked = l->acked,
                               .acked_chunks = l->acked ? l->acked_chunks : 0,
                               .entered = l->entered,
                               .entered_clock = l->entered_clock,
                               .whole = whole,
                               .got_step = l->got_step,
                               .got_chunks = whole ? l->got_chunks : 0};
}

bool session_run_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m)
{
    const struct plan_shard *p = &s->plan.shard[shard];
    return m->chunks > 0 && m->first_chunk >= p->first_chunk && m->chunks <= p->chunks &&
           m->first_chunk - p->first_chunk <= p->chunks - m->chunks;
}

struct codec_shape session_shape(const struct session *s)
{
    return (struct codec_shape){&s->plan, s->layout, 0};
}

bool session_codec_fits(const struct session *s, const Gradwire__Reply *m, uint64_t body_bytes)
{
    enum codec c = (enum codec)m->codec;
    uint32_t may = codec_mask((enum codec)s->settings.reply_codec, s->settings.codecs_allowed);
    if (c == CODEC_RAW)
        return body_bytes == plan_run_elems(&s->plan, m->first_chunk, m->chunks) * sizeof(float);
    if ((uint32_t)c >= CODECS || !(may >> c & 1) || !s->layout)
        return false;
    const struct codec_shape shape = session_shape(s);
    uint64_t most = codec_body_bytes(&shape, c, m->first_chunk, m->chunks);
    return codec_is_sized(c) ? body_bytes == most : body_bytes > 0 && body_bytes < most;
}

enum err session_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                            uint64_t body_bytes, uint64_t *first_elem, bool *wanted,
                            struct errmsg *e)
{
    *wanted = false;
    *first_elem = 0;
    if (!generation_equal(msg_generation_get(m->generation), s->generation))
        return ERR_OK;
    if (m->averages)
        return averages_reply_fits(s, shard, m, body_bytes, first_elem, wanted, e);
    if (s->ssp)
        return ssp_reply_fits(s, shard, m, body_bytes, first_elem, wanted, e);
    if (!session_run_fits(s, shard, m) || !session_codec_fits(s, m, body_bytes))
        return err_set(e, ERR_PROTO, "a reply does not fit the plan of shard %u", shard);
    *first_elem = plan_chunk_elem(&s->plan, m->first_chunk);
    const struct session_link *l = &s->link[shard];
    if (s->phase == SESSION_PULLING)
        *wanted = m->pulled && l->asked && !l->whole;
    else if (session_running(s) &&
             !l->whole) /* while computing too: chunks come back as soon as they are made */
        *wanted =
            s->sync ? m->step > s->step
                    : m->name == s->running && !m->pulled && s->pushing == (s->geo || m->remainder);
    if (*wanted && m->difference && (!l->holds || l->holds_step + 1 != m->step))
        return err_set(e, ERR_STATE,
                       "shard %u sends the difference to step %" PRIu64 ", which is not held",
                       shard, m->step - 1);
    return ERR_OK;
}

static void step_done(struct session *s)
{
    if (!s->sync) {
        bool batch = !s->geo && !s->pushing;
        if (s->geo)
            geo_pushed(s);
        else
            s->phase = SESSION_READY;
        if (batch)
            session_ranges_add(&s->done, s->running, 1);
        if (s->redo_left && (batch || s->geo))
            s->redo_left--;
        if (s->holding && s->redo_left == 0 && session_is_clean(s))
            session_say_held(s);
        wake(s);
        return;
    }
    uint64_t step = s->link[0].got_step;
    if (backed(s) && !agree(s))
        return;
    for (uint32_t i = 0; i < s->plan.shards && !backed(s); i++) {
        if (s->link[i].got_step != step || step != s->step + 1) {
            pull_all(s, true, 0); /* others went on without me */
            return;
        }
    }
    s->step = step;
    memset(s->pushed_leaf, 0, sizeof s->pushed_leaf);
    s->phase = s->my_leaves ? SESSION_READY : SESSION_IDLE;
    arrive(s);
}

static bool all_whole(const struct session *s)
{
    for (uint32_t i = 0; i < s->plan.shards; i++)
        if (!s->link[i].whole)
            return false;
    return true;
}

static void take_sums(struct session *s, const Gradwire__Reply *m)
{
    if (!m->sums || m->step == 0)
        return;
    s->sums.valid = true;
    s->sums.step = m->step - 1;
    s->sums.of.examples = m->sums->examples;
    s->sums.of.loss = m->sums->loss;
    for (size_t i = 0; i < SUMS_MAX; i++)
        s->sums.of.metric[i] = i < m->sums->n_metric ? m->sums->metric[i] : 0;
}

/* What does not fit is left alone, as if it had not come: then nothing is computed. */
static void take_work(struct session *s, const Gradwire__Reply *m)
{
    const Gradwire__StepWork *from = m->work;
    uint64_t per_epoch = s->settings.batches_per_epoch;
    if (!from || !s->settings.redo)
        return;
    s->work.there = m->step >= from->begin && from->n_redo <= s->leaves;
    if (!s->work.there)
        return;
    uint64_t in = m->step - from->begin;
    s->work.step = m->step;
    s->work.is = (struct epochs_work){.epoch = from->epoch,
                                      .begin = from->begin,
                                      .steps = from->steps,
                                      .batch = from->epoch * per_epoch + in,
                                      .redo = in >= per_epoch,
                                      .count = (uint32_t)from->n_redo,
                                      .leaves = s->leaves};
    for (size_t i = 0; i < from->n_redo; i++)
        s->work.is.leaf[i] = from->redo[i];
}

void session_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored)
{
    struct session_link *l = &s->link[shard];
    if (m->averages) {
        if (stored)
            averages_on_reply(s, shard, m);
        return;
    }
    if (s->ssp) {
        if (stored)
            ssp_on_reply(s, shard, m);
        return;
    }
    if (!stored) {
        if (m->pulled)
            l->asked = false;
        return;
    }
    take_sums(s, m);
    take_work(s, m);
    if (l->got_chunks && l->got_step != m->step && s->sync)
        l->got_chunks = 0; /* runs of two steps: only the later one counts */
    l->got_step = m->step;
    l->got_chunks += m->chunks;
    if (l->got_chunks < s->plan.shard[shard].chunks)
        return;
    l->whole = true;
    l->holds = true;
    l->holds_step = l->got_step;
    l->asked = false;
    if (!all_whole(s))
        return;
    if (s->phase == SESSION_PULLING)
        pulled_all(s);
    else if (s->phase == SESSION_PUSHED)
        step_done(s);
}

void session_on_refuse(struct session *s, uint32_t shard, const Gradwire__Refuse *m)
{
    (void)m;
    s->link[shard].asked =
        false; /* the chief's WELCOME of the new generation starts everything anew */
}

/* ---- work ---- */

static struct session_task sync_task(struct session *s)
{
    struct session_task t = {.kind = TASK_NONE, .name = s->step, .batch = s->step};
    if (s->step >= s->total || !sync_todo(s))
        return t;
    if (s->settings.redo) {
        if (!s->knows)
            return t; /* a lead that does not say it: nothing is computed */
        t.work = &s->here;
        t.batch = s->here.batch;
    }
    for (uint32_t i = 0; i < s->my_leaves; i++) {
        uint32_t leaf = s->first_leaf + i;
        if (s->pushed_leaf[leaf])
            continue;
        if (t.runs && t.first[t.runs - 1] + t.count[t.runs - 1] == leaf) {
            t.count[t.runs - 1]++;
        } else if (t.runs < TREE_LEVELS_MAX) {
            t.first[t.runs] = leaf;
            t.count[t.runs++] = 1;
        } else {
            break; /* the rest is the next task */
        }
        s->pushed_leaf[leaf] = true;
    }
    t.kind = TASK_COMPUTE;
    return t;
}

static struct session_task async_task(struct session *s)
{
    struct session_task t = {.kind = TASK_NONE};
    if (s->lease.n == 0 || (s->holding && !s->redo_left))
        return t;
    s->running = ranges_take(&s->lease);
    t.kind = TASK_COMPUTE;
    t.name = t.batch = s->running;
    t.first[0] = 0;
    t.count[0] = s->leaves;
    t.runs = 1;
    return t;
}

static void ask_for_lease(struct session *s)
{
    enum { LOW = 2, WANT = 4 };
    if (s->sync || s->phase == SESSION_NEW || s->asked_lease || s->holding || s->going ||
        s->final || ranges_count(&s->lease) > LOW)
        return;
    report_done(s, WANT);
}

/* What is done must not wait for the next lease when there may be none. */
static void report_last(struct session *s)
{
    if (!s->sync && s->phase != SESSION_NEW && s->done.n && s->lease.n == 0 &&
        !session_running(s) && !s->holding && session_is_clean(s))
        report_done(s, 0);
}

struct session_task session_task(struct session *s)
{
    struct session_task none = {.kind = TASK_NONE};
    ask_for_lease(s);
    report_last(s);
    feedback_say_held(s);
    if (s->final && !s->final_asked && !session_running(s) && s->phase != SESSION_NEW &&
        session_is_clean(s)) {
        s->final_asked = true;
        if (s->ssp)
            ssp_pull(s, false);
        else
            pull_all(s, true, 0);
    }
    if (s->going && !s->said_going && !session_running(s) && s->phase != SESSION_NEW &&
        session_is_clean(s))
        say_going(s);
    if (s->phase != SESSION_READY || (s->final && session_is_clean(s)) ||
        (s->going && !s->redo_left && s->said_going))
        return none;
    struct session_task t = none;
    s->pushing = s->geo ? geo_pushes(s, &t) : feedback_pushes(s, &t);
    if (!s->pushing)
        t = s->sync ? sync_task(s) : async_task(s);
    if (t.kind == TASK_NONE)
        return t;
    s->phase = SESSION_COMPUTING;
    s->averages_there = false;
    if (s->sync)
        feedback_begin(s);
    await_replies(s);
    if (s->ssp)
        ssp_begin(s);
    for (uint32_t i = 0; i < s->plan.shards; i++)
        s->link[i].pushed = s->link[i].up;
    return t;
}

bool session_wants_acks(const struct session *s)
{
    return s->ssp;
}

bool session_may_stream(const struct session *s, uint32_t shard)
{
    return s->link[shard].up && s->link[shard].pushed;
}

void session_computed(struct session *s)
{
    if (s->phase != SESSION_COMPUTING)
        return; /* a new generation came in between */
    if (s->geo && !s->pushing) {
        geo_computed(s);
        return;
    }
    s->phase = SESSION_PUSHED;
    for (uint32_t i = 0; i < s->plan.shards; i++) {
        if (s->link[i].up && !s->link[i].pushed) {
            s->link[i].pushed = true;
            s->io->push_again(s->ctx, i);
        }
    }
    if (s->ssp)
        ssp_computed(s);
    else if (s->sync && s->my_leaves == 0)
        s->phase = SESSION_IDLE;
    else if (s->sync && sync_todo(s))
        pull_all(s, false, s->step);
    else if (all_whole(s))
        step_done(s); /* the last replies came while the last chunks left */
}

void session_go(struct session *s)
{
    s->going = true;
}

void session_stop_at(struct session *s, uint64_t step)
{
    if (s->sync && step < s->total)
        s->total = step;
}

void session_stop_behind(struct session *s, uint64_t epochs)
{
    if (s->sync && epochs < s->settings.epochs)
        s->settings.epochs = epochs;
}

struct session_place session_place(const struct session *s)
{
    uint64_t per_epoch = s->settings.batches_per_epoch;
    if (s->knows)
        return (struct session_place){s->here.epoch, s->step - s->here.begin, s->here.steps};
    return (struct session_place){s->step / per_epoch, s->step % per_epoch, per_epoch};
}

void session_pull_final(struct session *s)
{
    s->final = true;
}

bool session_is_final(const struct session *s)
{
    return s->final_asked && s->phase == SESSION_READY;
}

void session_waits_for(const struct session *s, char *out, size_t bytes)
{
    static const char *const what[] = {"the chief's welcome",
                                       "work from the chief",
                                       "a clock",
                                       "parameters",
                                       "averages",
                                       "",
                                       "",
                                       "replies"};
    for (uint32_t i = 0; i < s->plan.shards && s->phase >= SESSION_ENTERING; i++) {
        if (!s->link[i].whole || !s->link[i].up) {
            (void)snprintf(out, bytes, "step %" PRIu64 ": waiting for %s of shard %u on ps %u%s",
                           s->step, what[s->phase], i, s->plan.shard[i].ps,
                           s->link[i].up ? "" : " (not connected)");
            return;
        }
    }
    bool over = s->sync && s->phase == SESSION_READY && s->step >= s->total;
    (void)snprintf(out, bytes, "waiting for %s",
                   over                ? "the chief to end the job"
                   : what[s->phase][0] ? what[s->phase]
                                       : "nobody");
}
