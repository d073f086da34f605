/* A worker's session by itself: leases, holds, going, and steps that are gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/core/session.h"

enum { CHUNK = PLAN_CHUNK_MIN_BYTES / 4, SHARDS = 2 };

struct fixture {
    struct session *s;
    struct session_task task; /* the last */
    uint32_t replicas;        /* of the next welcome */
    int pulls[SHARDS], asks, helds, goings, pushes;
    bool any;
    uint64_t step, want, done; /* done: ids that were reported */
    bool withholds;
    int rejections;
    uint64_t rejected;
};

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type,
                        const ProtobufCMessage *head)
{
    struct fixture *f = ctx;
    const Gradwire__Pull *m = (const Gradwire__Pull *)head;
    assert_int_equal(type, FRAME_PULL);
    f->pulls[shard]++;
    f->any = m->any;
    f->step = m->step;
}

static void io_push_again(void *ctx, uint32_t shard)
{
    struct fixture *f = ctx;
    (void)shard;
    f->pushes++;
}

static void count_done(struct fixture *f, size_t n, Gradwire__Range **done)
{
    for (size_t i = 0; i < n; i++)
        f->done += done[i]->count;
}

static void io_to_chief(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    if (type == FRAME_LEASE_ASK) {
        const Gradwire__LeaseAsk *ask = (const Gradwire__LeaseAsk *)m;
        f->asks++;
        f->want = ask->want;
        count_done(f, ask->n_done, ask->done);
    } else if (type == FRAME_BATCH_REJECTED) {
        const Gradwire__BatchRejected *rejected = (const Gradwire__BatchRejected *)m;
        f->rejections++;
        f->rejected = rejected->batch;
        assert_string_equal(rejected->what, "the loss is not finite");
    } else if (type == FRAME_HELD) {
        const Gradwire__Held *held = (const Gradwire__Held *)m;
        f->helds++;
        count_done(f, held->n_done, held->done);
    } else if (type == FRAME_GOING) {
        const Gradwire__Going *going = (const Gradwire__Going *)m;
        f->goings++;
        count_done(f, going->n_done, going->done);
    }
}

static bool io_withholds(void *ctx)
{
    struct fixture *f = ctx;
    return f->withholds;
}

static const struct session_io io = {.to_shard = io_to_shard,
                                     .push_again = io_push_again,
                                     .to_chief = io_to_chief,
                                     .withholds = io_withholds};

static enum err welcome_with(struct fixture *f, uint64_t generation, Gradwire__Update update,
                             enum codec codec)
{
    uint32_t threads[SHARDS] = {1, 1};
    struct errmsg e;
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    Gradwire__Welcome m = GRADWIRE__WELCOME__INIT;
    Gradwire__Generation g = msg_generation((struct generation){generation, 7});
    plan.elems = SHARDS * CHUNK;
    plan.threads = threads;
    plan.n_threads = SHARDS;
    settings.update = update;
    settings.microbatches = 1;
    settings.replicas_to_aggregate = f->replicas;
    settings.batches_per_epoch = 100;
    settings.epochs = 1;
    settings.push_codec = codec;
    m.generation = &g;
    m.uuid = (char *)"job";
    m.incarnation = 1;
    m.plan = &plan;
    m.settings = &settings;
    bool anew;
    return session_on_welcome(f->s, &m, &anew, &e);
}

static enum err welcome(struct fixture *f, uint64_t generation, Gradwire__Update update)
{
    return welcome_with(f, generation, update, CODEC_RAW);
}

static void open_backed(struct fixture *f, Gradwire__Update update, uint32_t replicas)
{
    *f = (struct fixture){.replicas = replicas};
    assert_int_equal(session_new(&f->s, &io, f, NULL), ERR_OK);
    assert_int_equal(welcome(f, 5, update), ERR_OK);
    for (uint32_t i = 0; i < SHARDS; i++)
        session_on_link_up(f->s, i);
}

static void open_fixture(struct fixture *f, Gradwire__Update update)
{
    open_backed(f, update, 0);
}

static void deal_all_to_me(struct fixture *f)
{
    Gradwire__Part part = GRADWIRE__PART__INIT, *parts[] = {&part};
    Gradwire__Deal deal = GRADWIRE__DEAL__INIT;
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    part.leaves = 1;
    deal.generation = &g;
    deal.version = 1;
    deal.parts = parts;
    deal.n_parts = 1;
    session_on_chief(f->s, FRAME_DEAL, &deal.base);
}

static void lease(struct fixture *f, uint64_t first, uint64_t count, bool redo)
{
    Gradwire__Range range = GRADWIRE__RANGE__INIT, *ranges[] = {&range};
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    Gradwire__Lease m = GRADWIRE__LEASE__INIT;
    range.first = first;
    range.count = count;
    m.generation = &g;
    m.ranges = ranges;
    m.n_ranges = 1;
    m.redo = redo;
    session_on_chief(f->s, FRAME_LEASE, &m.base);
}

static void no_lease(struct fixture *f)
{
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    Gradwire__Lease m = GRADWIRE__LEASE__INIT;
    m.generation = &g;
    session_on_chief(f->s, FRAME_LEASE, &m.base);
}

static void hold(struct fixture *f, uint64_t cut)
{
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    Gradwire__Hold m = GRADWIRE__HOLD__INIT;
    m.generation = &g;
    m.cut = cut;
    session_on_chief(f->s, FRAME_HOLD, &m.base);
}

static void resume(struct fixture *f, uint64_t cut)
{
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    Gradwire__Resume m = GRADWIRE__RESUME__INIT;
    m.generation = &g;
    m.cut = cut;
    session_on_chief(f->s, FRAME_RESUME, &m.base);
}

static void reply(struct fixture *f, uint32_t shard, uint64_t step, uint64_t name, bool pulled)
{
    struct errmsg e;
    uint64_t first;
    bool wanted;
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    m.generation = &g;
    m.step = step;
    m.name = name;
    m.pulled = pulled;
    m.first_chunk = shard;
    m.chunks = 1;
    assert_int_equal(
        session_reply_fits(f->s, shard, &m, CHUNK * sizeof(float), &first, &wanted, &e), ERR_OK);
    session_on_reply(f->s, shard, &m, wanted);
}

/* One batch from task to its last reply; returns its id. */
static uint64_t do_batch(struct fixture *f)
{
    f->task = session_task(f->s);
    assert_int_equal(f->task.kind, TASK_COMPUTE);
    session_computed(f->s);
    for (uint32_t i = 0; i < SHARDS; i++)
        reply(f, i, f->task.name + 1, f->task.name, false);
    return f->task.name;
}

static void session_pulls_anew_where_the_smallest_step_is_gone(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    deal_all_to_me(&f);
    assert_true(f.any);
    reply(&f, 0, 1, 0, true);
    reply(&f, 1, 3, 0, true);
    assert_false(f.any); /* the smallest, of shard 1 */
    assert_int_equal(f.step, 1);
    assert_int_equal(f.pulls[0], 1);
    assert_int_equal(f.pulls[1], 2);
    reply(&f, 1, 3, 0, true); /* gone there: so shard 0 has made more by now */
    assert_true(f.any);
    assert_int_equal(f.pulls[0], 2);
    assert_int_equal(f.pulls[1], 3);
    reply(&f, 0, 3, 0, true);
    reply(&f, 1, 3, 0, true);
    assert_int_equal(session_phase(f.s), SESSION_READY);
    assert_int_equal(session_step(f.s), 3);
    session_free(f.s);
}

/* Until it gets an answer; it repeats nothing of a generation that is over. */
static void session_repeats_what_it_rejects_when_the_chief_is_back(void **state)
{
    (void)state;
    for (int update = GRADWIRE__UPDATE__SYNC; update <= GRADWIRE__UPDATE__ASYNC; update++) {
        struct fixture f;
        open_fixture(&f, (Gradwire__Update)update);
        if (update == GRADWIRE__UPDATE__SYNC)
            deal_all_to_me(&f);
        else
            lease(&f, 3, 1, false);
        reply(&f, 0, 3, 0, true);
        reply(&f, 1, 3, 0, true);
        f.task = session_task(f.s);
        assert_int_equal(f.task.name, 3);
        session_on_chief_up(f.s);
        assert_int_equal(f.rejections, 0);
        session_reject(f.s, "the loss is not finite");
        session_on_chief_up(f.s);
        assert_int_equal(f.rejections, 2);
        assert_int_equal(f.rejected, 3);
        assert_int_equal(session_phase(f.s), SESSION_COMPUTING);
        assert_int_equal(welcome(&f, 6, (Gradwire__Update)update), ERR_OK);
        session_on_chief_up(f.s);
        assert_int_equal(f.rejections, 2);
        session_free(f.s);
    }
}

/* The step that one shard has made all others make: the largest is pulled, until all name one. */
static void session_of_a_late_worker_pulls_the_largest_step(void **state)
{
    (void)state;
    struct fixture f;
    open_backed(&f, GRADWIRE__UPDATE__SYNC, 1);
    deal_all_to_me(&f);
    reply(&f, 0, 1, 0, true);
    reply(&f, 1, 3, 0, true);
    assert_false(f.any);
    assert_int_equal(f.step, 3);
    assert_int_equal(f.pulls[0], 2);
    assert_int_equal(f.pulls[1], 1);
    reply(&f, 0, 4, 0, true); /* gone: the others are further */
    assert_int_equal(f.step, 4);
    assert_int_equal(f.pulls[0], 2);
    assert_int_equal(f.pulls[1], 2);
    reply(&f, 1, 4, 0, true);
    assert_int_equal(session_phase(f.s), SESSION_READY);
    assert_int_equal(session_step(f.s), 4);
    session_free(f.s);
}

/* Its push came to one shard before the set was closed, to the other one steps later; then both late. */
static void session_of_a_late_worker_goes_on_with_one_step_of_all_shards(void **state)
{
    (void)state;
    struct fixture f;
    open_backed(&f, GRADWIRE__UPDATE__SYNC, 1);
    deal_all_to_me(&f);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE);
    session_computed(f.s);
    reply(&f, 0, 1, 0, false);
    assert_int_equal(session_phase(f.s), SESSION_PUSHED);
    reply(&f, 1, 3, 0, false);
    assert_int_equal(session_phase(f.s), SESSION_PULLING);
    assert_int_equal(f.pulls[0], 2);
    assert_int_equal(f.pulls[1], 1);
    session_on_link_down(f.s, 0); /* the pull is lost */
    session_on_link_up(f.s, 0);
    assert_int_equal(f.step, 3);
    assert_int_equal(f.pulls[0], 3);
    reply(&f, 0, 3, 0, true);
    assert_int_equal(session_phase(f.s), SESSION_READY);
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_COMPUTE);
    assert_int_equal(t.name, 3);
    session_computed(f.s);
    reply(&f, 0, 6, 0, false);
    reply(&f, 1, 6, 0, false); /* the same of both: nothing is pulled */
    assert_int_equal(session_phase(f.s), SESSION_READY);
    assert_int_equal(session_task(f.s).name, 6);
    assert_int_equal(f.pulls[0], 3);
    assert_int_equal(f.pulls[1], 1);
    session_free(f.s);
}

static void session_pushes_again_what_a_broken_link_may_have_lost(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    deal_all_to_me(&f);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE);
    session_on_link_down(f.s, 1);
    assert_false(session_may_stream(f.s, 1));
    session_on_link_up(f.s, 1);
    assert_false(
        session_may_stream(f.s, 1)); /* its beginning is lost: it gets all of it at the end */
    assert_true(session_may_stream(f.s, 0));
    session_computed(f.s);
    assert_int_equal(f.pushes, 1);
    session_on_link_down(f.s, 0);
    session_on_link_up(f.s, 0);
    assert_int_equal(f.pushes, 2);
    session_free(f.s);
}

static void session_does_its_leases_in_order_and_reports_them(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    assert_int_equal(session_task(f.s).kind, TASK_NONE);
    assert_int_equal(f.asks, 1);
    lease(&f, 10, 2, false);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(do_batch(&f), 10);
    struct session_range held[4];
    assert_int_equal(session_leases(f.s, held, 4), 1);
    assert_int_equal(held[0].first, 11);
    assert_int_equal(do_batch(&f), 11);
    (void)session_task(f.s);
    assert_int_equal(f.done, 2);
    session_free(f.s);
}

/* Of a stream: the next window is asked for in time to read it, and the chief hears as often as of short leases. */
static void session_asks_in_the_middle_of_a_long_lease_and_reports_before(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    lease(&f, 32, 16, false);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    f.asks = 0;
    for (uint64_t id = 32; id < 39; id++)
        assert_int_equal(do_batch(&f), id);
    assert_int_equal(f.done, 4);
    assert_int_equal(f.want, 0);
    assert_int_equal(do_batch(&f), 39);
    (void)session_task(f.s);
    assert_true(f.want > 0);
    assert_int_equal(f.done, 8);
    assert_int_equal(f.asks, 2);
    session_free(f.s);
}

static void session_holds_behind_the_running_batch_and_redoes_what_it_must(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    lease(&f, 10, 4, false);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(session_task(f.s).name, 10);
    hold(&f, 3);
    assert_int_equal(f.helds, 0);
    session_computed(f.s);
    reply(&f, 0, 1, 10, false);
    assert_int_equal(f.helds, 0);
    reply(&f, 1, 1, 10, false);
    assert_int_equal(f.helds, 1);
    assert_int_equal(f.done, 1);
    assert_int_equal(session_task(f.s).kind, TASK_NONE);
    lease(&f, 7, 1, true); /* another's half-applied batch */
    assert_int_equal(do_batch(&f), 7);
    assert_int_equal(f.helds, 2);
    assert_int_equal(f.done, 2);
    assert_int_equal(session_task(f.s).kind, TASK_NONE);
    resume(&f, 3);
    assert_int_equal(do_batch(&f), 11); /* its own lease is still there */
    session_free(f.s);
}

static void session_that_is_told_to_go_finishes_its_batch_first(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    lease(&f, 10, 4, false);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(session_task(f.s).name, 10);
    session_go(f.s);
    session_computed(f.s);
    (void)session_task(f.s);
    assert_int_equal(f.goings, 0);
    reply(&f, 0, 1, 10, false);
    reply(&f, 1, 1, 10, false);
    assert_int_equal(session_task(f.s).kind, TASK_NONE);
    assert_int_equal(f.goings, 1);
    assert_int_equal(f.done, 1);
    Gradwire__Leave leave = GRADWIRE__LEAVE__INIT;
    assert_false(session_may_leave(f.s));
    session_on_chief(f.s, FRAME_LEAVE, &leave.base);
    assert_true(session_may_leave(f.s));
    session_free(f.s);
}

static void session_drops_everything_at_a_new_generation(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    lease(&f, 10, 4, false);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(session_task(f.s).name, 10);
    assert_int_equal(welcome(&f, 6, GRADWIRE__UPDATE__ASYNC), ERR_OK);
    session_computed(f.s); /* of parameters that are no more */
    struct session_range held[4];
    assert_int_equal(session_leases(f.s, held, 4), 0);
    assert_int_equal(session_phase(f.s), SESSION_IDLE);
    lease(&f, 20, 1, false); /* a message of the generation before */
    assert_int_equal(session_leases(f.s, held, 4), 0);
    session_free(f.s);
}

static void a_welcome_of_a_mode_or_codec_that_is_none_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    assert_int_equal(welcome(&f, 6, GRADWIRE__UPDATE__GEO + 1), ERR_PROTO);
    assert_int_equal(welcome_with(&f, 6, GRADWIRE__UPDATE__ASYNC, CODECS), ERR_PROTO);
    session_free(f.s);
}

static void ranges_beyond_the_last_id_are_left_out(void **state)
{
    (void)state;
    struct fixture f;
    struct session_range held[4];
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    lease(&f, UINT64_MAX, 1, false); /* its end is no id */
    lease(&f, 10, UINT64_MAX, false);
    assert_int_equal(session_leases(f.s, held, 4), 0);
    lease(&f, 10, 4, false);
    assert_int_equal(session_leases(f.s, held, 4), 1);
    session_free(f.s);
}

static void session_is_as_before_when_a_welcome_finds_no_memory(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    long n = 0;
    for (;; n++) {
        mem_fail_at(n);
        enum err err = welcome(&f, 6, GRADWIRE__UPDATE__SYNC);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        assert_int_equal(session_terms(f.s)->generation.number, fired ? 5 : 6);
        if (!fired)
            break;
    }
    assert_int_equal(n, 3);
    session_free(f.s);
}

static void open_top_k(struct fixture *f, Gradwire__Update update)
{
    *f = (struct fixture){.withholds = true};
    assert_int_equal(session_new(&f->s, &io, f, NULL), ERR_OK);
    assert_int_equal(welcome_with(f, 5, update, CODEC_TOP_K), ERR_OK);
    for (uint32_t i = 0; i < SHARDS; i++)
        session_on_link_up(f->s, i);
}

static void session_goes_on_through_a_hold_in_sync_until_nothing_is_withheld(void **state)
{
    (void)state;
    struct fixture f;
    open_top_k(&f, GRADWIRE__UPDATE__SYNC);
    deal_all_to_me(&f);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(do_batch(&f), 0);
    assert_false(f.task.whole);
    hold(&f, 3);
    assert_int_equal(f.helds, 0);
    assert_int_equal(do_batch(&f), 1);
    assert_true(f.task.whole);
    assert_int_equal(f.helds, 0); /* it was rejected, for one */
    f.withholds = false;
    assert_int_equal(do_batch(&f), 2);
    assert_int_equal(do_batch(&f), 3);
    assert_true(f.task.whole);
    assert_int_equal(f.helds, 1);
    resume(&f, 3);
    assert_int_equal(do_batch(&f), 4);
    assert_false(f.task.whole);
    assert_int_equal(f.helds, 1);
    session_free(f.s);
}

static void session_withholds_nothing_from_the_last_step(void **state)
{
    (void)state;
    struct fixture f;
    open_top_k(&f, GRADWIRE__UPDATE__SYNC);
    deal_all_to_me(&f);
    reply(&f, 0, 98, 0, true);
    reply(&f, 1, 98, 0, true);
    assert_int_equal(do_batch(&f), 98);
    assert_false(f.task.whole);
    assert_int_equal(do_batch(&f), 99);
    assert_true(f.task.whole);
    session_free(f.s);
}

static void end_remainder(struct fixture *f, uint64_t name)
{
    session_computed(f->s);
    f->withholds = false;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct errmsg e;
        uint64_t first;
        bool wanted;
        Gradwire__Generation g = msg_generation((struct generation){5, 7});
        Gradwire__Reply m = GRADWIRE__REPLY__INIT;
        m.generation = &g;
        m.name = name;
        m.first_chunk = i;
        m.chunks = 1;
        assert_int_equal(
            session_reply_fits(f->s, i, &m, CHUNK * sizeof(float), &first, &wanted, &e), ERR_OK);
        assert_false(wanted); /* that is a batch's */
        m.remainder = true;
        assert_int_equal(
            session_reply_fits(f->s, i, &m, CHUNK * sizeof(float), &first, &wanted, &e), ERR_OK);
        session_on_reply(f->s, i, &m, wanted);
    }
}

static void session_pushes_what_is_withheld_before_it_holds_in_async(void **state)
{
    (void)state;
    struct fixture f;
    open_top_k(&f, GRADWIRE__UPDATE__ASYNC);
    lease(&f, 10, 4, false);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(do_batch(&f), 10);
    hold(&f, 3);
    assert_int_equal(f.helds, 0);
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_PUSH);
    end_remainder(&f, t.name);
    assert_int_equal(f.helds, 1);
    assert_int_equal(f.done, 1);
    session_free(f.s);
}

/* All are learned when all are reported: not before what the last one left is pushed. */
static void session_reports_its_last_batch_when_nothing_of_it_is_withheld(void **state)
{
    (void)state;
    struct fixture f;
    open_top_k(&f, GRADWIRE__UPDATE__ASYNC);
    lease(&f, 10, 2, false);
    reply(&f, 0, 0, 0, true);
    reply(&f, 1, 0, 0, true);
    assert_int_equal(do_batch(&f), 10);
    assert_int_equal(do_batch(&f), 11);
    assert_int_equal(session_task(f.s).kind, TASK_NONE); /* the next lease may be on its way */
    no_lease(&f);
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_PUSH);
    assert_int_equal(f.done, 0);
    end_remainder(&f, t.name);
    (void)session_task(f.s);
    assert_int_equal(f.done, 2);
    session_free(f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_pulls_anew_where_the_smallest_step_is_gone),
        cmocka_unit_test(session_repeats_what_it_rejects_when_the_chief_is_back),
        cmocka_unit_test(session_of_a_late_worker_pulls_the_largest_step),
        cmocka_unit_test(session_of_a_late_worker_goes_on_with_one_step_of_all_shards),
        cmocka_unit_test(session_pushes_again_what_a_broken_link_may_have_lost),
        cmocka_unit_test(session_does_its_leases_in_order_and_reports_them),
        cmocka_unit_test(session_asks_in_the_middle_of_a_long_lease_and_reports_before),
        cmocka_unit_test(session_holds_behind_the_running_batch_and_redoes_what_it_must),
        cmocka_unit_test(session_that_is_told_to_go_finishes_its_batch_first),
        cmocka_unit_test(session_drops_everything_at_a_new_generation),
        cmocka_unit_test(session_goes_on_through_a_hold_in_sync_until_nothing_is_withheld),
        cmocka_unit_test(session_withholds_nothing_from_the_last_step),
        cmocka_unit_test(session_pushes_what_is_withheld_before_it_holds_in_async),
        cmocka_unit_test(session_reports_its_last_batch_when_nothing_of_it_is_withheld),
        cmocka_unit_test(a_welcome_of_a_mode_or_codec_that_is_none_is_refused),
        cmocka_unit_test(ranges_beyond_the_last_id_are_left_out),
        cmocka_unit_test(session_is_as_before_when_a_welcome_finds_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
