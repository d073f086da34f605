/* A worker's session by itself where it has clocks (ssp) or rounds (geo). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/core/session.h"

enum { CHUNK = PLAN_CHUNK_MIN_BYTES / 4, SHARDS = 2, WORKERS = 3 };

struct fixture {
    struct session *s;
    const struct layout *layout; /* of the session that is opened */
    bool bodies;                 /* a push is answered with parameters */
    uint64_t entry;              /* of the last tick */
    int pulls[SHARDS], ticks, helds, merges;
    Gradwire__GeoMerge merge; /* the job's; PADDLE if nothing is said */
    bool bounded, fresh;
    uint64_t clock, number, done; /* of the last pull; done: ids that were reported */
};

static void on_pull(struct fixture *f, uint32_t shard, const Gradwire__Pull *m)
{
    f->pulls[shard]++;
    f->bounded = m->bounded;
    f->clock = m->clock;
    f->number = m->number;
}

static void io_push_again(void *ctx, uint32_t shard)
{
    (void)ctx, (void)shard;
}

static void io_merge(void *ctx, bool fresh)
{
    struct fixture *f = ctx;
    f->merges++;
    f->fresh = fresh;
}

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type,
                        const ProtobufCMessage *head)
{
    struct fixture *f = ctx;
    if (type == FRAME_PULL) {
        on_pull(f, shard, (const Gradwire__Pull *)head);
        return;
    }
    assert_int_equal(type, FRAME_TICK);
    f->entry = ((const Gradwire__Tick *)head)->entry;
    f->ticks++;
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
        count_done(f, ask->n_done, ask->done);
    } else if (type == FRAME_HELD) {
        const Gradwire__Held *held = (const Gradwire__Held *)m;
        f->helds++;
        count_done(f, held->n_done, held->done);
    }
}

static const struct session_io io = {.to_shard = io_to_shard,
                                     .push_again = io_push_again,
                                     .to_chief = io_to_chief,
                                     .merge = io_merge};

/* Rounds of so many batches, epochs of so many. */
static void open_fixture(struct fixture *f, Gradwire__Update update, uint32_t every, uint64_t epoch)
{
    uint32_t threads[SHARDS] = {1, 1};
    struct errmsg e;
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    Gradwire__Welcome m = GRADWIRE__WELCOME__INIT;
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    *f = (struct fixture){
        .layout = f->layout, .merge = f->merge, .bodies = update == GRADWIRE__UPDATE__GEO};
    assert_int_equal(session_new(&f->s, &io, f, f->layout), ERR_OK);
    plan.elems = SHARDS * CHUNK;
    plan.threads = threads;
    plan.n_threads = SHARDS;
    settings.update = update;
    settings.microbatches = 1;
    settings.geo_every = every;
    settings.geo_merge = f->merge;
    settings.reply_codec = f->layout ? CODEC_FP16 : CODEC_RAW;
    settings.batches_per_epoch = epoch;
    settings.epochs = 100;
    m.generation = &g;
    m.uuid = (char *)"job";
    m.incarnation = 1;
    m.plan = &plan;
    m.settings = &settings;
    bool anew;
    assert_int_equal(session_on_welcome(f->s, &m, &anew, &e), ERR_OK);
    for (uint32_t i = 0; i < SHARDS; i++)
        session_on_link_up(f->s, i);
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
    m.workers = WORKERS;
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

static void reply(struct fixture *f, uint32_t shard, Gradwire__Reply m, uint32_t chunks)
{
    struct errmsg e;
    uint64_t first, body = f->bodies || m.pulled ? chunks * CHUNK * sizeof(float) : 0;
    bool wanted;
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    m.generation = &g;
    m.first_chunk = shard;
    m.chunks = chunks;
    assert_int_equal(session_reply_fits(f->s, shard, &m, body, &first, &wanted, &e), ERR_OK);
    assert_true(wanted);
    session_on_reply(f->s, shard, &m, wanted);
}

static void parameters(struct fixture *f)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    m.pulled = true;
    m.number = f->number;
    for (uint32_t i = 0; i < SHARDS; i++)
        reply(f, i, m, 1);
}

static void acknowledge(struct fixture *f, uint64_t name)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    m.name = name;
    for (uint32_t i = 0; i < SHARDS; i++)
        reply(f, i, m, 1);
}

static void computes(struct fixture *f, uint64_t batch)
{
    struct session_task t = session_task(f->s);
    assert_int_equal(t.kind, TASK_COMPUTE);
    assert_int_equal(t.name, batch);
    session_computed(f->s);
}

/* ---- geo ---- */

static void pushes(struct fixture *f, uint64_t round, float part)
{
    struct session_task t = session_task(f->s);
    assert_int_equal(t.kind, TASK_PUSH);
    assert_int_equal(t.name, round);
    assert_true(t.part == part);
    session_computed(f->s);
    acknowledge(f, round);
}

static void a_round_is_a_part_of_what_moved_and_the_last_one_all_of_it(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL};
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 2, 100);
    lease(&f, 10, 4, false);
    parameters(&f);
    assert_true(f.merges == 1 && f.fresh);
    computes(&f, 10);
    computes(&f, 11);
    pushes(&f, 1, 1.0f / WORKERS);
    assert_true(f.merges == 2 && !f.fresh); /* the rest of the others' stays with us */
    computes(&f, 12);
    computes(&f, 13);
    pushes(&f, 2, 1); /* there is no lease left */
    assert_true(f.merges == 3 && f.fresh);
    (void)session_task(f.s);
    assert_int_equal(f.done, 4);
    assert_int_equal(session_phase(f.s), SESSION_IDLE);
    session_free(f.s);
}

static void before_a_hold_what_is_left_of_a_round_is_pushed(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL};
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 2, 100);
    lease(&f, 10, 8, false);
    parameters(&f);
    computes(&f, 10);
    computes(&f, 11);
    pushes(&f, 1, 1.0f / WORKERS);
    hold(&f, 3);
    assert_int_equal(f.helds, 0);
    pushes(&f, 2, 1);
    assert_int_equal(f.helds, 1);
    assert_int_equal(f.done, 2);
    assert_int_equal(session_task(f.s).kind, TASK_NONE);
    session_free(f.s);
}

static void averaging_takes_the_servers_parameters_behind_every_round(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL, .merge = GRADWIRE__GEO_MERGE__AVERAGE};
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 2, 100);
    lease(&f, 10, 7, false);
    parameters(&f);
    computes(&f, 10);
    computes(&f, 11);
    pushes(&f, 1, 1.5f / WORKERS);
    assert_true(f.merges == 2 && f.fresh);
    hold(&f, 3);
    (void)session_task(f.s);
    assert_int_equal(f.helds, 1); /* there is nothing left to be pushed */
    session_free(f.s);
}

static void averaging_pushes_the_same_part_before_a_hold_and_at_the_end(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL, .merge = GRADWIRE__GEO_MERGE__AVERAGE};
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 2, 100);
    lease(&f, 10, 1, false);
    parameters(&f);
    computes(&f, 10);
    pushes(&f, 1, 1.5f / WORKERS);
    assert_true(f.merges == 2 && f.fresh);
    (void)session_task(f.s);
    assert_int_equal(f.done, 1);
    assert_int_equal(session_phase(f.s), SESSION_IDLE);
    session_free(f.s);
}

/* A shard keeps the sums of a few epochs alone. */
static void a_round_touches_few_epochs(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL};
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 100, 2);
    lease(&f, 1, 20, false);
    parameters(&f);
    for (uint64_t batch = 1; batch <= 6; batch++) /* of epochs 0 to 3 */
        computes(&f, batch);
    pushes(&f, 1, 1.0f / WORKERS);
    session_free(f.s);
}

/* A report may have been lost with a connection: what was learned must not be learned again. */
static void the_last_rounds_batches_are_known_to_the_hello(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL};
    struct session_range held[4];
    open_fixture(&f, GRADWIRE__UPDATE__GEO, 2, 100);
    lease(&f, 10, 5, false);
    parameters(&f);
    computes(&f, 10);
    assert_int_equal(session_leases(f.s, held, 4), 2); /* in no round yet, and those to come */
    assert_true(held[0].first == 10 && held[0].count == 1 && held[1].first == 11);
    computes(&f, 11);
    pushes(&f, 1, 1.0f / WORKERS);
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    struct session_hello room;
    session_hello_chief(f.s, &room, &m);
    assert_int_equal(m.n_done, 1);
    assert_true(m.done[0]->first == 10 && m.done[0]->count == 2);
    assert_int_equal(session_leases(f.s, held, 4), 1);
    assert_int_equal(held[0].first, 12);
    session_free(f.s);
}

/* ---- ssp ---- */

static void enter(struct fixture *f, uint64_t one, uint64_t other)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    m.entry = f->entry;
    m.clock = one;
    reply(f, 0, m, 0);
    m.clock = other;
    reply(f, 1, m, 0);
}

/* The result of a shard's answer to a pull of one chunk. */
static enum err fits(struct fixture *f, Gradwire__Codec codec, bool bounded, bool difference,
                     uint64_t bytes)
{
    struct errmsg e;
    uint64_t first;
    bool wanted;
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    m.generation = &g;
    m.pulled = true;
    m.bounded = bounded;
    m.difference = difference;
    m.number = f->number;
    m.codec = codec;
    m.chunks = 1;
    return session_reply_fits(f->s, 0, &m, bytes, &first, &wanted, &e);
}

static void reads_at_a_clock_alone_have_the_codec_of_the_job(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL};
    struct layout layout = {0};
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {SHARDS * CHUNK}, .init = INIT_ZEROS};
    assert_int_equal(layout_add(&layout, &t, &e), ERR_OK);
    f.layout = &layout;
    open_fixture(&f, GRADWIRE__UPDATE__SSP, 0, 100);
    const uint64_t raw = CHUNK * sizeof(float), half = CHUNK * 2;
    assert_int_equal(fits(&f, GRADWIRE__CODEC__RAW, true, false, raw), ERR_OK);
    assert_int_equal(fits(&f, GRADWIRE__CODEC__FP16, true, false, half), ERR_OK);
    assert_int_equal(fits(&f, GRADWIRE__CODEC__FP16, true, false, half + 1), ERR_PROTO);
    assert_int_equal(fits(&f, GRADWIRE__CODEC__BF16, true, false, half), ERR_PROTO);
    assert_int_equal(fits(&f, GRADWIRE__CODEC__FP16, true, true, half), ERR_PROTO);
    assert_int_equal(fits(&f, GRADWIRE__CODEC__FP16, false, false, half), ERR_PROTO);
    assert_int_equal(fits(&f, GRADWIRE__CODEC__RAW, false, false, raw), ERR_OK);
    assert_int_equal(fits(&f, GRADWIRE__CODEC__RAW, false, false, half), ERR_PROTO);
    layout_close(&layout);
    session_free(f.s);
}

static void what_is_redone_in_a_hold_is_outside_the_clocks(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL};
    open_fixture(&f, GRADWIRE__UPDATE__SSP, 0, 100);
    lease(&f, 10, 4, false);
    enter(&f, 5, 7);
    assert_true(f.bounded && f.clock == 7); /* the largest */
    parameters(&f);
    computes(&f, 10);
    assert_true(f.bounded && f.clock == 8); /* behind the push */
    hold(&f, 3);
    acknowledge(&f, 10);
    assert_int_equal(f.helds, 1);
    lease(&f, 4, 1, true);
    assert_false(f.bounded);
    parameters(&f);
    int before = f.pulls[0];
    computes(&f, 4);
    assert_int_equal(f.pulls[0], before); /* nothing is said of a clock */
    acknowledge(&f, 4);
    assert_int_equal(f.helds, 2);
    assert_true(f.bounded && f.clock == 8); /* back to where it was */
    assert_int_equal(f.ticks, SHARDS);      /* it entered, once */
    session_free(f.s);
}

/* A ps that answers a push before the hello of a link that is dialled again. */
static void reply_on_a_link_that_is_down_is_not_wanted(void **state)
{
    (void)state;
    struct fixture f = {.layout = NULL};
    struct errmsg e;
    uint64_t first;
    bool wanted;
    open_fixture(&f, GRADWIRE__UPDATE__SSP, 0, 100);
    lease(&f, 10, 4, false);
    enter(&f, 5, 7);
    parameters(&f);
    computes(&f, 10);
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    m.generation = &g;
    m.name = 10;
    m.chunks = 1;
    assert_int_equal(session_reply_fits(f.s, 0, &m, 0, &first, &wanted, &e), ERR_OK);
    assert_true(wanted);
    session_on_link_down(f.s, 0);
    assert_int_equal(session_reply_fits(f.s, 0, &m, 0, &first, &wanted, &e), ERR_OK);
    assert_false(wanted);
    session_free(f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_a_part_of_what_moved_and_the_last_one_all_of_it),
        cmocka_unit_test(before_a_hold_what_is_left_of_a_round_is_pushed),
        cmocka_unit_test(averaging_takes_the_servers_parameters_behind_every_round),
        cmocka_unit_test(averaging_pushes_the_same_part_before_a_hold_and_at_the_end),
        cmocka_unit_test(a_round_touches_few_epochs),
        cmocka_unit_test(the_last_rounds_batches_are_known_to_the_hello),
        cmocka_unit_test(reads_at_a_clock_alone_have_the_codec_of_the_job),
        cmocka_unit_test(what_is_redone_in_a_hold_is_outside_the_clocks),
        cmocka_unit_test(reply_on_a_link_that_is_down_is_not_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
