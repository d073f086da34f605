#include "worker/core/session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/core/session_inner.h"

enum err session_new(struct session **out, const struct session_io *io, void *ctx,
                     const struct layout *layout)
{
    struct session *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return ERR_NOMEM;
    *s = (struct session){.io = io, .ctx = ctx, .layout = layout};
    *out = s;
    return ERR_OK;
}

static void drop_generation(struct session *s)
{
    plan_close(&s->terms.plan);
    mem_free(s->link);
    mem_free(s->skipped);
}

void session_free(struct session *s)
{
    if (!s)
        return;
    drop_generation(s);
    mem_free(s);
}

/* ---- state for the shell ---- */

const struct session_terms *session_terms(const struct session *s)
{
    return &s->terms;
}

enum session_phase session_phase(const struct session *s)
{
    return s->phase;
}

uint64_t session_step(const struct session *s)
{
    return s->step;
}

bool session_exchanges(const struct session *s)
{
    return s->phase == SESSION_PUSHED || (s->terms.backups && s->phase == SESSION_PULLING);
}

bool session_pushes_round(const struct session *s)
{
    return s->at_hand == TASK_PUSH;
}

const struct session_ranges *session_round(const struct session *s)
{
    return &s->lease.pending;
}

/* ---- to the chief ---- */

static void say_going(struct session *s)
{
    struct session_ranges_said done;
    Gradwire__Going m = GRADWIRE__GOING__INIT;
    m.generation = &s->generation;
    m.n_done = session_take_done(s, &done);
    m.done = done.at;
    s->stay = STAY_SAID;
    s->io->to_chief(s->ctx, FRAME_GOING, &m.base);
}

static uint64_t running_name(const struct session *s)
{
    return s->mode->leases ? s->lease.running : s->step;
}

/* While the task runs, the chief decides what follows. */
static void say_rejected(struct session *s)
{
    Gradwire__BatchRejected m = GRADWIRE__BATCH_REJECTED__INIT;
    if (!s->rejected.what[0] || !session_running(s) || s->at_hand != TASK_COMPUTE ||
        s->rejected.name != running_name(s))
        return;
    m.generation = &s->generation;
    m.batch = s->rejected.name;
    m.what = s->rejected.what;
    s->io->to_chief(s->ctx, FRAME_BATCH_REJECTED, &m.base);
}

void session_reject(struct session *s, const char *what)
{
    assert(s->phase == SESSION_COMPUTING && s->at_hand == TASK_COMPUTE && what[0]);
    s->rejected.name = running_name(s);
    (void)snprintf(s->rejected.what, sizeof s->rejected.what, "%s", what);
    say_rejected(s);
    session_check(s);
}

/* ---- from the chief ---- */

static const struct session_mode *const modes[] = {
    [GRADWIRE__UPDATE__SYNC] = &session_sync,
    [GRADWIRE__UPDATE__ASYNC] = &session_async,
    [GRADWIRE__UPDATE__SSP] = &session_ssp,
    [GRADWIRE__UPDATE__GEO] = &session_geo,
};

static bool is_possible(const Gradwire__Welcome *m)
{
    const Gradwire__Settings *s = m->settings;
    return m->plan && s && s->microbatches > 0 && s->microbatches <= TREE_LEAVES_MAX &&
           (s->microbatches & (s->microbatches - 1)) == 0 && s->metrics <= SUMS_MAX &&
           s->batches_per_epoch > 0 && s->update <= GRADWIRE__UPDATE__GEO &&
           codec_is_choice(s->push_codec) && codec_is_choice(s->reply_codec);
}

/* Copies plain values only: the message owns what its pointers name. */
static void take_terms(struct session *s, const Gradwire__Welcome *m, struct plan plan,
                       struct row_codecs codecs)
{
    struct session_terms *t = &s->terms;
    t->generation = msg_generation_get(m->generation);
    s->generation = msg_generation(t->generation);
    (void)snprintf(t->uuid, sizeof t->uuid, "%s", m->uuid);
    t->worker = m->worker;
    t->incarnation = m->incarnation;
    t->settings = msg_settings(m->settings);
    t->plan = plan;
    t->leaves = m->settings->microbatches;
    s->mode = modes[m->settings->update];
    t->sync = s->mode == &session_sync;
    t->backups = t->settings.replicas_to_aggregate > 0;
    t->acks = s->mode->acks;
    t->tables = m->plan->n_tables > 0;
    t->codecs = codecs;
    t->feedback = codec_feeds_back(m->settings->push_codec) && s->mode->feeds_back;
}

static void begin_generation(struct session *s)
{
    s->phase = SESSION_IDLE;
    s->pull.again = false;
    s->hold = HOLD_NONE;
    s->final = FINAL_NONE;
    s->averages.state = AVERAGES_NONE;
    s->at_hand = TASK_NONE;
    s->remainders = 0;
    s->epochs = 0;
    memset(&s->rows, 0, sizeof s->rows);
    if (s->stay == STAY_SAID)
        s->stay = STAY_GOES;
    s->rejected.what[0] = '\0';
    s->lease = (struct lease_state){.asked = false};
    if (s->mode->begin)
        s->mode->begin(s);
}

enum err session_on_welcome(struct session *s, const Gradwire__Welcome *m, bool *anew,
                            struct errmsg *e)
{
    session_check(s);
    struct row_codecs codecs;
    if (!is_possible(m) || msg_row_codecs_get(m->plan, &codecs))
        return err_set(e, ERR_PROTO, "the chief's welcome has no plan or impossible settings");
    *anew = s->phase == SESSION_NEW ||
            !generation_equal(msg_generation_get(m->generation), s->terms.generation) ||
            m->incarnation != s->terms.incarnation;
    if (!*anew)
        return ERR_OK; /* only the connection to the chief was lost for a while */
    struct plan plan = {0};
    enum err err = (m->plan->n_tables ? plan_init_tables : plan_init)(
        &plan, m->plan->elems, m->plan->threads, (uint32_t)m->plan->n_threads, e);
    if (err)
        return err;
    struct session_link *links = mem_zalloc(plan.shards, sizeof *links);
    uint64_t *skipped = mem_zalloc(m->n_skipped + 1, sizeof *skipped);
    if (!links || !skipped) {
        plan_close(&plan);
        mem_free(links);
        mem_free(skipped);
        return err_memory_for(e, "%u connections to shards", plan.shards);
    }
    if (m->n_skipped)
        memcpy(skipped, m->skipped, m->n_skipped * sizeof *skipped);
    drop_generation(s);
    s->link = links;
    s->skipped = skipped;
    s->n_skipped = m->n_skipped;
    take_terms(s, m, plan, codecs);
    begin_generation(s);
    session_check(s);
    return ERR_OK;
}

static void say_held_if_it_may(struct session *s)
{
    if (s->terms.sync)
        feedback_say_held(s);
    else if (s->hold != HOLD_NONE && !session_running(s) && session_is_clean(s))
        session_say_held(s);
}

void session_on_chief(struct session *s, enum frame_type type, const ProtobufCMessage *m)
{
#define OF_THIS_GENERATION(T)                                                                      \
    generation_equal(msg_generation_get(((const Gradwire__##T *)m)->generation),                   \
                     s->terms.generation)
    session_check(s);
    if (type == FRAME_LEAVE)
        s->stay = STAY_ENDS;
    else if (s->phase == SESSION_NEW)
        return;
    else if (type == FRAME_DEAL && s->mode->on_deal && OF_THIS_GENERATION(Deal))
        s->mode->on_deal(s, (const Gradwire__Deal *)m);
    else if (type == FRAME_LEASE && s->mode->leases && OF_THIS_GENERATION(Lease))
        lease_on_lease(s, (const Gradwire__Lease *)m);
    else if (type == FRAME_HOLD && OF_THIS_GENERATION(Hold)) {
        s->hold = HOLD_WANTED;
        s->hold_cut = ((const Gradwire__Hold *)m)->cut;
        say_held_if_it_may(s);
    } else if (type == FRAME_RESUME && OF_THIS_GENERATION(Resume))
        s->hold = HOLD_NONE;
#undef OF_THIS_GENERATION
    session_check(s);
}

void session_on_chief_up(struct session *s)
{
    session_check(s);
    say_rejected(s);
    s->lease.asked = false;
    if (s->stay == STAY_SAID)
        s->stay = STAY_GOES;
    if (s->hold == HOLD_SAID)
        s->hold = HOLD_WANTED;
    say_held_if_it_may(s);
    session_check(s);
}

void session_hello_chief(const struct session *s, struct session_hello *room, Gradwire__Hello *m)
{
    struct session_range held[WORKER_RANGES_MAX + 1];
    room->generation = msg_generation(s->terms.generation);
    m->generation = &room->generation;
    m->uuid = (char *)s->terms.uuid;
    m->incarnation = s->terms.incarnation;
    m->n_leases = session_leases(s, held, WORKER_RANGES_MAX + 1);
    m->leases = session_ranges_say(&room->leases, held, m->n_leases);
    m->n_done = s->lease.recent.n;
    m->done = session_ranges_say(&room->done, s->lease.recent.range, m->n_done);
}

/* ---- connections and replies ---- */

void session_on_link_up(struct session *s, uint32_t shard)
{
    session_check(s);
    s->mode->link_up(s, shard);
    averages_link_up(s, shard);
    rows_link_up(s, shard);
    session_check(s);
}

void session_on_link_down(struct session *s, uint32_t shard)
{
    struct session_link *l = &s->link[shard];
    bool whole = l->pull == PULL_WHOLE;
    bool acked = session_acked(s, shard); /* otherwise the push is sent again */
    *l = (struct session_link){.pull = whole ? PULL_WHOLE : PULL_NONE,
                               .got_step = l->got_step,
                               .got_chunks = whole ? l->got_chunks : 0,
                               .acked_chunks = acked ? l->acked_chunks : 0,
                               .made = whole && l->made,
                               .acked_parts = whole || acked ? l->acked_parts : 0,
                               .rows = {l->rows[ASK_TASK], l->rows[ASK_LOOK]},
                               .entered_clock = l->entered_clock};
    session_check(s);
}

void session_hello_clock(const struct session *s, uint32_t shard, Gradwire__Hello *m)
{
    if (s->mode->hello_clock)
        s->mode->hello_clock(s, shard, m);
}

enum err session_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                            uint64_t body_bytes, uint64_t *first_elem, bool *wanted,
                            struct errmsg *e)
{
    *wanted = false;
    *first_elem = 0;
    if (!generation_equal(msg_generation_get(m->generation), s->terms.generation))
        return ERR_OK;
    enum err err = (m->averages ? averages_reply_fits : s->mode->reply_fits)(s, shard, m,
                                                                             body_bytes, wanted, e);
    if (!err && m->chunks)
        *first_elem = plan_chunk_elem(&s->terms.plan, m->first_chunk);
    return err;
}

/* The first sums after a welcome are those that others have made before. */
static void count_examples(struct session *s, const Gradwire__Reply *m)
{
    for (size_t i = 0; s->epochs && i < m->n_epochs; i++) {
        struct sums before;
        (void)session_epoch(s, m->epochs[i]->epoch, &before);
        double more = m->epochs[i]->examples - before.examples;
        s->examples += more > 0 ? more : 0;
    }
}

static void take_epochs(struct session *s, const Gradwire__Reply *m)
{
    count_examples(s, m);
    s->epochs = 0;
    for (size_t i = 0; i < m->n_epochs && i < SESSION_EPOCHS; i++) {
        const Gradwire__EpochSums *from = m->epochs[i];
        struct sums *to = &s->epoch[i].sums;
        s->epoch[s->epochs++].epoch = from->epoch;
        *to = (struct sums){.examples = from->examples, .loss = from->loss};
        for (size_t k = 0; k < from->n_metric && k < SUMS_MAX; k++)
            to->metric[k] = from->metric[k];
        if (from->n_slices == 0 || from->n_slices % SLICE_NUMBERS ||
            from->n_slices > SLICES_MAX * SLICE_NUMBERS)
            continue;
        s->slices.epoch = from->epoch;
        s->slices.n = (uint32_t)(from->n_slices / SLICE_NUMBERS);
        memcpy(s->slices.of, from->slices, from->n_slices * sizeof *from->slices);
    }
}

const struct session_slices *session_slices(const struct session *s)
{
    return &s->slices;
}

bool session_epoch(const struct session *s, uint64_t epoch, struct sums *sums)
{
    *sums = (struct sums){0};
    for (size_t i = 0; i < s->epochs; i++) {
        if (s->epoch[i].epoch == epoch) {
            *sums = s->epoch[i].sums;
            return true;
        }
    }
    return false;
}

double session_examples(const struct session *s)
{
    return s->examples;
}

void session_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored)
{
    session_check(s);
    if (stored && m->n_epochs)
        take_epochs(s, m);
    if (!m->averages)
        s->mode->on_reply(s, shard, m, stored);
    else if (stored)
        averages_on_reply(s, shard, m);
    session_check(s);
}

void session_on_refuse(struct session *s, uint32_t shard)
{
    /* the chief's WELCOME of the new generation restarts everything */
    if (s->link[shard].pull == PULL_ASKED)
        s->link[shard].pull = PULL_NONE;
}

/* ---- work ---- */

/* Send what needs no parameters: reports, and the pull of the final parameters. */
static void say_what_is_due(struct session *s)
{
    if (s->mode->leases)
        lease_report(s);
    else
        feedback_say_held(s);
    if ((s->final != FINAL_WANTED && s->stay != STAY_GOES) || session_running(s) ||
        !session_is_clean(s))
        return;
    if (s->final == FINAL_WANTED) {
        s->final = FINAL_ASKED;
        s->mode->pull_newest(s);
    }
    if (s->stay == STAY_GOES)
        say_going(s);
}

static bool may_begin(const struct session *s)
{
    bool leaves = s->stay >= STAY_SAID && s->lease.redo_left == 0;
    return s->phase == SESSION_READY && !leaves && (s->final == FINAL_NONE || !session_is_clean(s));
}

/* From here on, the whole push goes over the connections that are up. */
static void begin_task(struct session *s)
{
    s->phase = SESSION_COMPUTING;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++) {
        struct session_link *l = &s->link[i];
        l->got_chunks = l->acked_chunks = l->acked_parts = 0;
        l->made = false;
        if (l->pull == PULL_WHOLE)
            l->pull = PULL_NONE;
        if (l->state != LINK_DOWN)
            l->state = LINK_STREAMS;
    }
}

static struct session_task take_task(struct session *s)
{
    struct session_task t = s->mode->task(s);
    s->at_hand = t.kind;
    if (t.kind == TASK_NONE)
        return t;
    assert((t.kind == TASK_COMPUTE) == (t.runs > 0));
    assert(t.work || t.kind == TASK_PUSH || t.batch < t.end);
    s->averages.state = AVERAGES_NONE;
    if (s->terms.sync)
        t.whole = feedback_whole(s);
    if (s->terms.tables) {
        s->rows.task = t;
        s->phase = SESSION_ROWS;
    }
    return t;
}

struct session_task session_task(struct session *s)
{
    struct session_task t = {.kind = TASK_NONE};
    if (s->phase == SESSION_NEW)
        return t;
    session_check(s);
    say_what_is_due(s);
    if (may_begin(s))
        t = take_task(s);
    if (s->phase == SESSION_ROWS)
        t = rows_task(s);
    if (t.kind == TASK_COMPUTE || t.kind == TASK_PUSH)
        begin_task(s);
    session_check(s);
    return t;
}

bool session_may_stream(const struct session *s, uint32_t shard)
{
    return s->link[shard].state == LINK_STREAMS;
}

void session_computed(struct session *s)
{
    if (s->phase != SESSION_COMPUTING)
        return; /* a new generation has begun in between */
    session_check(s);
    if (s->mode->learned && s->at_hand == TASK_COMPUTE) {
        s->mode->learned(s);
        session_check(s);
        return;
    }
    s->phase = SESSION_PUSHED;
    for (uint32_t i = 0; i < s->terms.plan.shards; i++)
        if (s->link[i].state == LINK_UP) {
            session_push_again(s, i);
            rows_push_left(s, i);
        }
    s->mode->pushed(s);
    session_check(s);
}

bool session_take_made(struct session *s, struct session_made *made)
{
    session_check(s);
    *made = (struct session_made){.own = s->mode->leases, .id = s->lease.running};
    return made->own || s->mode->take_made(s, made);
}

void session_go(struct session *s)
{
    if (s->stay == STAY)
        s->stay = STAY_GOES;
}

bool session_may_leave(const struct session *s)
{
    return s->stay == STAY_ENDS;
}

void session_pull_final(struct session *s)
{
    if (s->final == FINAL_NONE)
        s->final = FINAL_WANTED;
}

bool session_is_final(const struct session *s)
{
    return s->final == FINAL_ASKED && s->phase == SESSION_READY;
}

void session_waits_for(const struct session *s, char *out, size_t bytes)
{
    static const char *const what[] = {"the chief's welcome",
                                       "work from the chief",
                                       "a clock",
                                       "parameters",
                                       "averages",
                                       "",
                                       "rows",
                                       "",
                                       "replies"};
    const char *of = what[s->phase]; /* "": it has all that it needs until it pushes */
    for (uint32_t i = 0; i < s->terms.plan.shards && s->phase >= SESSION_ENTERING; i++) {
        const struct session_link *l = &s->link[i];
        if ((*of && l->pull != PULL_WHOLE) || l->state == LINK_DOWN) {
            (void)snprintf(out, bytes, "step %" PRIu64 ": waiting for %s %s shard %u on ps %u%s",
                           s->step, *of ? of : "a connection", *of ? "of" : "to", i,
                           s->terms.plan.shard[i].ps,
                           l->state == LINK_DOWN ? " (not connected)" : "");
            return;
        }
    }
    bool over = s->phase == SESSION_READY && session_is_at_end(s);
    (void)snprintf(out, bytes, "waiting for %s",
                   over                ? "the chief to end the job"
                   : what[s->phase][0] ? what[s->phase]
                                       : "no other process");
}
