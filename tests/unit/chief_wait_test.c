/* The process that training waits for, as the chief finds it: sync, ssp and async with two ps of a shard each and three
 * workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/quiet.h"
#include "worker/chief/core/chief.h"
#include "worker/chief/core/chief_state.h"

enum { PS = 2, WORKERS = 3, LEAVES = 4 };

struct fixture {
    struct chief *chief;
    struct layout layout;
    struct generation entered;
    int64_t now_ms;
    uint64_t asked; /* the number of the last WAIT_ASK */
    uint64_t cut;   /* the number of the last CUT */
    int asks, told, warnings;
    struct chief_wait wait; /* the last one that was reported */
    char said[300];         /* the last warning */
    char noted[300];        /* the last other line */
    int parked;             /* PARK, and the last one's */
    uint32_t parked_worker, parked_ps;
    int ended; /* the job's exit code; 0: it goes on */
    char why[200];
};

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    if (type == FRAME_ENTER)
        f->entered = msg_generation_get(((const Gradwire__Enter *)m)->generation);
    if (type == FRAME_CUT)
        f->cut = ((const Gradwire__Cut *)m)->cut;
    if (type != FRAME_WAIT_ASK || ps > 0)
        return;
    f->asks++;
    f->asked = ((const Gradwire__WaitAsk *)m)->number;
}

static void io_to_worker(void *ctx, uint32_t worker, enum frame_type type,
                         const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    if (type != FRAME_PARK)
        return;
    f->parked++;
    f->parked_worker = worker;
    f->parked_ps = ((const Gradwire__Park *)m)->ps;
}

static void io_waits(void *ctx, const struct chief_wait *wait)
{
    struct fixture *f = ctx;
    f->told++;
    f->wait = *wait;
}

static void io_say(void *ctx, int is_warning, const char *text)
{
    struct fixture *f = ctx;
    f->warnings += is_warning;
    (void)snprintf(is_warning ? f->said : f->noted, sizeof f->said, "%s", text);
}

static void io_ended(void *ctx, int exit_code, const char *text)
{
    struct fixture *f = ctx;
    f->ended = exit_code;
    (void)snprintf(f->why, sizeof f->why, "%s", text);
}

static void io_epoch(void *ctx, uint64_t epoch)
{
    (void)ctx, (void)epoch;
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = io_to_worker,
                                   .find_cut = quiet_find_no_cut,
                                   .publish = quiet_publish,
                                   .discard = quiet_discard,
                                   .finish = quiet_finish,
                                   .ended = io_ended,
                                   .say = io_say,
                                   .waits = io_waits,
                                   .epoch = io_epoch,
                                   .restored = quiet_restored,
                                   .random = quiet_random,
                                   .journal = quiet_journal};

static void open_beside(struct fixture *f, Gradwire__Update update, bool separate_chief)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {PS * 1024}, .init = INIT_ZEROS};
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    *f = (struct fixture){.now_ms = 1000};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    settings.update = update;
    settings.microbatches = LEAVES;
    settings.batches_per_epoch = 100;
    settings.epochs = 1;
    struct chief_config config = {.layout = &f->layout,
                                  .settings = settings,
                                  .ps = PS,
                                  .workers = WORKERS,
                                  .separate_chief = separate_chief,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = 30,
                                  .timeouts.ps_rejoin_s = 600};
    assert_int_equal(chief_new(&f->chief, &config, &io, f, f->now_ms, &e), ERR_OK);
    for (uint32_t i = 0; i < PS; i++)
        quiet_ps_up(f->chief, i, 1, f->now_ms); /* a takeover: no cut is taken at the beginning */
    quiet_entered(f->chief, PS, f->entered, f->now_ms);
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(chief_on_worker_up(f->chief, i, &hello, f->now_ms, &e), ERR_OK);
}

static void open_fixture(struct fixture *f, Gradwire__Update update)
{
    open_beside(f, update, false);
}

static void close_fixture(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

static void pass(struct fixture *f, int64_t ms)
{
    f->now_ms += ms;
    chief_tick(f->chief, f->now_ms);
}

/* Steps of 0.1 s: now it is known how long they take. */
static void make_steps(struct fixture *f, uint64_t from, uint64_t end)
{
    for (uint64_t step = from; step < end; step++) {
        f->now_ms += 100;
        chief_on_step(f->chief, step, f->now_ms);
        chief_tick(f->chief, f->now_ms);
    }
}

static void answer(struct fixture *f, uint32_t shard, Gradwire__Wait m)
{
    Gradwire__Generation g = msg_generation(f->entered);
    m.generation = &g;
    m.shard = shard;
    m.number = f->asked;
    chief_on_ps(f->chief, shard, FRAME_WAIT, &m.base, f->now_ms);
}

/* The shard made `step` steps, and lacks these leaves. */
static void answer_leaves(struct fixture *f, uint32_t shard, uint64_t step, uint8_t leaves)
{
    Gradwire__Wait m = GRADWIRE__WAIT__INIT;
    m.step = step;
    m.missing.data = &leaves;
    m.missing.len = leaves ? 1 : 0;
    answer(f, shard, m);
}

static void assert_waits(const struct fixture *f, enum chief_wait_for who, uint32_t index,
                         enum chief_wait_why why)
{
    const struct chief_wait w = chief_wait(f->chief, f->now_ms);
    assert_int_equal(w.who, who);
    assert_int_equal(w.index, index);
    assert_int_equal(w.why, why);
    assert_int_equal(f->wait.who, who);
    assert_int_equal(f->wait.index, index);
}

static void a_worker_whose_leaves_are_missing_is_named_once(void **state)
{
    (void)state;
    struct fixture f;
    char text[256];
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    pass(&f, CHIEF_STALL_MS - 1);
    assert_int_equal(f.asks, 0);
    pass(&f, 1);
    assert_int_equal(f.asks, 1);
    answer_leaves(&f, 0, 3, 0x08); /* of four leaves worker 0 has 2, the others one each */
    answer_leaves(&f, 1, 4, 0x0f); /* is one ahead: nobody can have computed that yet */
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_SILENT);
    assert_string_equal(f.said,
                        "step 3: waiting 5 s for worker 2, which is connected but has not sent its "
                        "part: it is stopped, or slow");
    for (int i = 0; i < 5; i++) {
        answer_leaves(&f, 0, 3, 0x08);
        answer_leaves(&f, 1, 4, 0x0f);
        pass(&f, CHIEF_ANSWER_MS);
    }
    assert_int_equal(f.told, 1);
    assert_int_equal(f.warnings, 1);
    chief_waits_for(f.chief, f.now_ms, text, sizeof text);
    assert_non_null(strstr(text, "step 3: waiting 15 s for worker 2, "));
    make_steps(&f, 4, 5);
    assert_waits(&f, WAIT_NOBODY, 0, WAIT_AWAY);
    assert_int_equal(f.told, 2);
    close_fixture(&f);
}

static void the_chiefs_own_session_is_named_last_and_is_no_warning(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    pass(&f, CHIEF_STALL_MS);
    answer_leaves(&f, 0, 3, 0x09);
    answer_leaves(&f, 1, 3, 0x08);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_SILENT);
    answer_leaves(&f, 0, 3, 0x01);
    answer_leaves(&f, 1, 3, 0);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 0, WAIT_SILENT);
    assert_int_equal(f.warnings, 1);
    close_fixture(&f);
}

static void a_worker_whose_connection_is_lost_is_named_as_away(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    chief_on_worker_down(f.chief, 2, f.now_ms);
    pass(&f, CHIEF_STALL_MS);
    answer_leaves(&f, 0, 3, 0x08);
    answer_leaves(&f, 1, 3, 0x08);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_AWAY);
    assert_string_equal(f.said, "step 3: waiting 5 s for worker 2, which is not connected");
    close_fixture(&f);
}

/* An arrival is no connection of the worker: the deadline stays, and the others take over its work. */
static void a_worker_that_reads_its_data_is_named_so_and_no_longer_waited_for(void **state)
{
    (void)state;
    struct fixture f;
    char text[256];
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    struct errmsg e;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    chief_on_worker_down(f.chief, 2, f.now_ms);
    chief_on_worker_loads(f.chief, 2, true, f.now_ms);
    chief_on_worker_loads(f.chief, WORKERS, true, f.now_ms); /* not in the list: no place for it */
    assert_int_equal(chief_workers(f.chief), WORKERS);
    chief_waits_for(f.chief, f.now_ms, text, sizeof text);
    assert_string_equal(text, "step 3: worker 2, which reads its data, is away, last seen 0 s ago");
    pass(&f, CHIEF_STALL_MS);
    answer_leaves(&f, 0, 3, 0x08);
    answer_leaves(&f, 1, 3, 0x08);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_LOADS);
    assert_string_equal(f.said, "step 3: waiting 5 s for worker 2, which reads its data");
    chief_on_worker_loads(f.chief, 2, false, f.now_ms);
    answer_leaves(&f, 0, 3, 0x08);
    answer_leaves(&f, 1, 3, 0x08);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_AWAY);
    chief_on_worker_loads(f.chief, 2, true, f.now_ms);
    pass(&f, 30000);
    assert_string_equal(f.said, "worker 2 was away for 37 s: the others take over its work");
    assert_int_equal(chief_on_worker_up(f.chief, 2, &hello, f.now_ms, &e), ERR_OK);
    chief_on_worker_loads(f.chief, 2, true, f.now_ms); /* of a process that another has replaced */
    chief_on_worker_down(f.chief, 2, f.now_ms);
    answer_leaves(&f, 0, 3, 0x08);
    answer_leaves(&f, 1, 3, 0x08);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_AWAY);
    close_fixture(&f);
}

static void a_worker_beside_a_separate_chief_has_the_number_that_users_give_it(void **state)
{
    (void)state;
    struct fixture f;
    char text[256];
    open_beside(&f, GRADWIRE__UPDATE__SYNC, true);
    make_steps(&f, 1, 4);
    chief_on_worker_down(f.chief, 2, f.now_ms);
    chief_waits_for(f.chief, f.now_ms, text, sizeof text);
    assert_string_equal(text, "step 3: worker 1 is away, last seen 0 s ago");
    pass(&f, CHIEF_STALL_MS);
    answer_leaves(&f, 0, 3, 0x08);
    answer_leaves(&f, 1, 3, 0x08);
    pass(&f, CHIEF_ANSWER_MS);
    assert_string_equal(f.said, "step 3: waiting 5 s for worker 1, which is not connected");
    make_steps(&f, 4, 5);
    assert_string_equal(f.noted, "no longer waiting for worker 1");
    pass(&f, 30000);
    assert_string_equal(f.said, "worker 1 was away for 35 s: the others take over its work");
    const struct chief_wait own = {.who = WAIT_WORKER, .separate_chief = true, .why = WAIT_SILENT};
    assert_string_equal(chief_wait_words(&own, text, sizeof text),
                        "the chief, which computes or evaluates");
    close_fixture(&f);
}

static void a_ps_that_does_not_answer_is_named_and_not_who_waits_for_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    pass(&f, CHIEF_STALL_MS);
    answer_leaves(&f, 0, 3, 0x0f);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_NOBODY, 0, WAIT_AWAY); /* it may be slow, once */
    answer_leaves(&f, 0, 3, 0x0f);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_PS, 1, WAIT_SILENT);
    assert_string_equal(
        f.said, "step 3: waiting 7 s for ps 1, which is connected but does not answer: it is "
                "stopped, or slow");
    chief_on_ps_down(f.chief, 1, f.now_ms);
    pass(&f, 50);
    assert_waits(&f, WAIT_PS, 1, WAIT_AWAY);
    close_fixture(&f);
}

static void a_ps_that_answers_the_ask_before_is_late_and_not_silent(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    pass(&f, CHIEF_STALL_MS);
    for (int i = 0; i < 3; i++) {
        uint64_t before = f.asked;
        answer_leaves(&f, 0, 3, 0x08);
        pass(&f, CHIEF_ANSWER_MS);
        const uint64_t now = f.asked;
        f.asked = before;
        answer_leaves(&f, 1, 3, 0x08);
        f.asked = now;
    }
    assert_waits(&f, WAIT_WORKER, 2, WAIT_SILENT);
    assert_int_equal(f.told, 1);
    close_fixture(&f);
}

static void report_status(struct fixture *f, enum frame_type type, uint32_t shard, uint64_t step)
{
    Gradwire__Generation g = msg_generation(f->entered);
    Gradwire__ShardStatus s = GRADWIRE__SHARD_STATUS__INIT;
    Gradwire__CutStopped stopped = GRADWIRE__CUT_STOPPED__INIT;
    Gradwire__CutCopied copied = GRADWIRE__CUT_COPIED__INIT;
    s.shard = shard;
    s.step = s.t = step;
    stopped.generation = copied.generation = &g;
    stopped.cut = copied.cut = f->cut;
    stopped.status = copied.status = &s;
    chief_on_ps(f->chief, shard, type, type == FRAME_CUT_STOPPED ? &stopped.base : &copied.base,
                f->now_ms);
}

/* Before a cut is copied, its shards continue to the step of the one that is furthest, which needs all parts. */
static void a_worker_that_a_cut_waits_for_is_named_and_not_the_ps(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    chief_keep(f.chief, 1, UINT64_MAX, f.now_ms);
    report_status(&f, FRAME_CUT_STOPPED, 0, 3);
    report_status(&f, FRAME_CUT_STOPPED, 1, 4);
    report_status(&f, FRAME_CUT_COPIED, 1, 4);
    pass(&f, CHIEF_STALL_MS);
    answer_leaves(&f, 0, 3, 0x08);
    answer_leaves(&f, 1, 4, 0x0f);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_SILENT);
    answer_leaves(&f, 0, 3, 0); /* it has all parts, and does not make the step */
    answer_leaves(&f, 1, 4, 0x0f);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_PS, 0, WAIT_SILENT);
    answer_leaves(&f, 0, 4, 0x0f); /* it has made the step, and does not copy it */
    answer_leaves(&f, 1, 4, 0x0f);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_PS, 0, WAIT_SILENT);
    close_fixture(&f);
}

/* Held workers send nothing, and their clocks do not hold up the copy. */
static void a_ps_that_does_not_copy_is_named_where_workers_are_held(void **state)
{
    (void)state;
    struct fixture f;
    Gradwire__Held held = GRADWIRE__HELD__INIT;
    Gradwire__Wait behind = GRADWIRE__WAIT__INIT;
    open_fixture(&f, GRADWIRE__UPDATE__SSP);
    chief_keep(f.chief, 1, UINT64_MAX, f.now_ms);
    Gradwire__Generation g = msg_generation(f.entered);
    held.generation = &g;
    for (uint32_t i = 0; i < WORKERS; i++)
        chief_on_worker(f.chief, i, FRAME_HELD, &held.base, f.now_ms);
    report_status(&f, FRAME_CUT_STOPPED, 0, 3);
    report_status(&f, FRAME_CUT_STOPPED, 1, 3);
    report_status(&f, FRAME_CUT_COPIED, 0, 3);
    pass(&f, CHIEF_SAY_WAIT_MS);
    behind.behind = true;
    behind.worker = 2;
    answer(&f, 0, behind);
    answer(&f, 1, behind);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_PS, 1, WAIT_SILENT);
    close_fixture(&f);
}

static void steps_that_take_long_are_no_stall(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    pass(&f, CHIEF_SAY_WAIT_MS - CHIEF_STALL_STEPS);
    assert_int_equal(f.asks, 0); /* how long the first one takes is not known */
    for (uint64_t step = 1; step < 4; step++) {
        pass(&f, 8000);
        chief_on_step(f.chief, step, f.now_ms);
        pass(&f, 0);
    }
    pass(&f, 20000);
    assert_int_equal(f.asks, 1); /* of the first one, which took 18 s */
    pass(&f, 4000);
    assert_int_equal(f.asks, 2);
    chief_on_step(f.chief, 4, f.now_ms); /* one that is late says nothing of the next */
    pass(&f, 0);
    make_steps(&f, 5, 6);
    pass(&f, CHIEF_STALL_MS);
    assert_int_equal(f.asks, 3);
    assert_int_equal(f.told, 0);
    close_fixture(&f);
}

static void in_ssp_the_least_clock_is_named(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SSP);
    Gradwire__Wait nobody = GRADWIRE__WAIT__INIT, behind = GRADWIRE__WAIT__INIT;
    behind.behind = true;
    behind.worker = 2;
    pass(&f, CHIEF_SAY_WAIT_MS);
    answer(&f, 0, nobody);
    answer(&f, 1, nobody);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_NOBODY, 0, WAIT_AWAY);
    answer(&f, 0, nobody);
    answer(&f, 1, behind);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 2, WAIT_SILENT);
    close_fixture(&f);
}

static void lease_ask(struct fixture *f, uint32_t worker, uint64_t first, uint64_t done)
{
    Gradwire__Generation g = msg_generation(f->entered);
    Gradwire__LeaseAsk m = GRADWIRE__LEASE_ASK__INIT;
    Gradwire__Range range = GRADWIRE__RANGE__INIT, *at = &range;
    range.first = first;
    range.count = done;
    m.generation = &g;
    m.want = CHIEF_LEASE_IDS;
    m.done = &at;
    m.n_done = done > 0;
    chief_on_worker(f->chief, worker, FRAME_LEASE_ASK, &m.base, f->now_ms);
}

/* While there are batches nobody waits for anybody. */
static void in_async_who_has_the_last_batches_is_named(void **state)
{
    (void)state;
    struct fixture f;
    Gradwire__Wait nobody = GRADWIRE__WAIT__INIT;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC);
    lease_ask(&f, 1, 0, 0); /* 0 .. 3 */
    for (uint64_t first = 4; first < 100; first += CHIEF_LEASE_IDS) {
        lease_ask(&f, 0, first, 0);
        pass(&f, CHIEF_SAY_WAIT_MS);
        answer(&f, 0, nobody);
        answer(&f, 1, nobody);
        pass(&f, CHIEF_ANSWER_MS);
        assert_waits(&f, WAIT_NOBODY, 0, WAIT_AWAY);
    }
    lease_ask(&f, 0, 4, 96);
    pass(&f, CHIEF_ANSWER_MS);
    pass(&f, 60000);
    answer(&f, 0, nobody);
    answer(&f, 1, nobody);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 1, WAIT_SILENT);
    close_fixture(&f);
}

/* ---- a worker that does not reach a ps ---- */

static void unreached(struct fixture *f, uint32_t worker, bool any, uint32_t ps, uint64_t away_ms)
{
    Gradwire__Generation g = msg_generation(f->entered);
    Gradwire__Unreached m = GRADWIRE__UNREACHED__INIT;
    m.generation = &g;
    m.any = any;
    m.ps = ps;
    m.away_ms = away_ms;
    chief_on_worker(f->chief, worker, FRAME_UNREACHED, &m.base, f->now_ms);
}

/* timeouts.worker_rejoin_s is 30. */
static void a_worker_that_does_not_reach_a_ps_is_parked(Gradwire__Update update)
{
    struct fixture f;
    open_fixture(&f, update);
    unreached(&f, 1, true, 1, 9000);
    pass(&f, 21000);
    assert_int_equal(f.parked, 0);
    pass(&f, 1);
    assert_int_equal(f.parked, 1);
    assert_int_equal(f.parked_worker, 1);
    assert_int_equal(f.parked_ps, 1);
    assert_string_equal(
        f.said, "worker 1 has not reached ps 1 for 30 s, but others do: they take over its work");
    assert_false(chief_peer_worker(f.chief, 1, f.now_ms).member);
    pass(&f, 60000);
    assert_int_equal(f.parked, 1);
    chief_on_worker_down(f.chief, 1, f.now_ms);
    struct errmsg e;
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    assert_int_equal(chief_on_worker_up(f.chief, 1, &hello, f.now_ms, &e), ERR_OK);
    assert_true(chief_peer_worker(f.chief, 1, f.now_ms).member);
    pass(&f, 60000);
    assert_int_equal(f.parked, 1);
    close_fixture(&f);
}

static void a_worker_that_does_not_reach_a_ps_is_parked_in_each_mode(void **state)
{
    (void)state;
    a_worker_that_does_not_reach_a_ps_is_parked(GRADWIRE__UPDATE__SYNC);
    a_worker_that_does_not_reach_a_ps_is_parked(GRADWIRE__UPDATE__ASYNC);
    a_worker_that_does_not_reach_a_ps_is_parked(GRADWIRE__UPDATE__SSP);
    a_worker_that_does_not_reach_a_ps_is_parked(GRADWIRE__UPDATE__GEO);
}

/* Its session is in the chief's process: a call makes it hang up. */
static void the_chiefs_own_worker_is_parked_and_comes_back_as_any_other(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    unreached(&f, 0, true, 1, 1000);
    pass(&f, 29001);
    assert_int_equal(f.parked, 1);
    assert_int_equal(f.parked_worker, 0);
    assert_string_equal(f.said,
                        "worker 0, the chief's own, has not reached ps 1 for 30 s, but others "
                        "do: they take over its work");
    assert_false(chief_peer_worker(f.chief, 0, f.now_ms).member);
    for (int i = 0; i < 2; i++) {
        answer_leaves(&f, 0, 3, 0);
        answer_leaves(&f, 1, 3, 0);
        pass(&f, CHIEF_ANSWER_MS);
    }
    assert_waits(&f, WAIT_WORKER, 0, WAIT_UNREACHED); /* the end is not made without it */
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    assert_int_equal(chief_on_worker_up(f.chief, 0, &hello, f.now_ms, &e), ERR_OK);
    assert_true(chief_peer_worker(f.chief, 0, f.now_ms).member);
    pass(&f, 700000);
    assert_int_equal(f.parked, 1);
    assert_int_equal(f.ended, 0);
    close_fixture(&f);
}

/* Parked it could not evaluate, and the others would pass by the best epoch, or the last. */
static void own_without_ps(Gradwire__Update update, bool parked)
{
    struct fixture f;
    open_fixture(&f, update);
    f.chief->config.training.monitor = MONITOR_LOSS;
    unreached(&f, 0, true, 1, 1000);
    pass(&f, 100000);
    assert_int_equal(f.parked, parked);
    unreached(&f, 1, true, 1, 1000); /* another one is */
    unreached(&f, 0, false, 0, 0);
    pass(&f, 30000);
    assert_int_equal(f.parked, parked + 1);
    assert_int_equal(f.parked_worker, 1);
    close_fixture(&f);
}

static void the_chiefs_own_worker_is_waited_for_in_sync_with_a_monitor(void **state)
{
    (void)state;
    own_without_ps(GRADWIRE__UPDATE__SYNC, false);
    own_without_ps(GRADWIRE__UPDATE__ASYNC, true);
}

/* timeouts.ps_rejoin_s is 600. */
static void the_job_fails_where_the_chiefs_own_worker_stays_without_a_ps(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    unreached(&f, 0, true, 1, 1000);
    pass(&f, 609000); /* the chief connects to a ps that is back by then, and reports it */
    assert_int_equal(f.ended, 0);
    pass(&f, 1);
    assert_int_equal(f.ended, 1);
    assert_string_equal(
        f.why, "the chief's own worker could not reach ps 1 for 600 s "
               "(timeouts.ps_rejoin_s), although the chief's control connection to it is up");
    close_fixture(&f);
}

/* It came back, restores, and is for nobody to reach yet. */
static void a_ps_that_is_not_back_yet_does_not_end_the_job_by_the_chiefs_own_worker(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    unreached(&f, 0, true, 1, 1000);
    chief_on_ps_down(f.chief, 1, f.now_ms);
    pass(&f, 590000);
    Gradwire__HelloReply fresh = GRADWIRE__HELLO_REPLY__INIT;
    chief_on_ps_up(f.chief, 1, &fresh, f.now_ms);
    assert_false(f.chief->entered);
    pass(&f, 30000);
    assert_int_equal(f.ended, 0);
    close_fixture(&f);
}

static void a_ps_that_no_worker_reaches_parks_nobody(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    for (uint32_t i = 0; i < WORKERS; i++)
        unreached(&f, i, true, 1, 1000);
    pass(&f, 40000);
    assert_int_equal(f.parked, 0);
    unreached(&f, 0, false, 0, 0); /* one does */
    unreached(&f, 2, false, 0, 0);
    pass(&f, 50);
    assert_int_equal(f.parked, 1);
    assert_int_equal(f.parked_worker, 1);
    close_fixture(&f);
}

/* The worker may have reached it before it was welcomed: then it has nothing to take back. */
static void a_ps_that_comes_back_in_another_generation_parks_nobody(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    unreached(&f, 1, true, 1, 1000);
    chief_on_ps_down(f.chief, 1, f.now_ms);
    const uint64_t before = f.entered.number;
    quiet_ps_up(f.chief, 1, 0, f.now_ms); /* empty */
    assert_true(f.entered.number > before);
    quiet_entered(f.chief, PS, f.entered, f.now_ms);
    assert_true(chief_peer_worker(f.chief, 1, f.now_ms).member);
    pass(&f, 40000);
    assert_int_equal(f.parked, 0);
    close_fixture(&f);
}

static void a_ps_that_is_away_for_the_chief_parks_nobody(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    chief_on_ps_down(f.chief, 1, f.now_ms);
    unreached(&f, 1, true, 1, 1000);
    pass(&f, 40000);
    assert_int_equal(f.parked, 0);
    close_fixture(&f);
}

static void a_worker_that_does_not_reach_a_ps_is_named_with_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    make_steps(&f, 1, 4);
    unreached(&f, 1, true, 1, 1000);
    pass(&f, CHIEF_STALL_MS);
    answer_leaves(&f, 0, 3, 0);
    answer_leaves(&f, 1, 3, 0x04);
    pass(&f, CHIEF_ANSWER_MS);
    assert_waits(&f, WAIT_WORKER, 1, WAIT_UNREACHED);
    assert_string_equal(f.said, "step 3: waiting 5 s for worker 1, which cannot reach ps 1");
    close_fixture(&f);
}

static void a_silent_worker_is_away_since_it_was_last_heard(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__SYNC);
    chief_on_worker_silent(f.chief, 2, 9000);
    chief_on_worker_down(f.chief, 2, f.now_ms);
    pass(&f, 21000);
    assert_true(chief_peer_worker(f.chief, 2, f.now_ms).member);
    pass(&f, 1);
    assert_false(chief_peer_worker(f.chief, 2, f.now_ms).member);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_whose_leaves_are_missing_is_named_once),
        cmocka_unit_test(the_chiefs_own_session_is_named_last_and_is_no_warning),
        cmocka_unit_test(a_worker_whose_connection_is_lost_is_named_as_away),
        cmocka_unit_test(a_worker_that_reads_its_data_is_named_so_and_no_longer_waited_for),
        cmocka_unit_test(a_worker_beside_a_separate_chief_has_the_number_that_users_give_it),
        cmocka_unit_test(a_ps_that_does_not_answer_is_named_and_not_who_waits_for_it),
        cmocka_unit_test(a_ps_that_answers_the_ask_before_is_late_and_not_silent),
        cmocka_unit_test(a_worker_that_a_cut_waits_for_is_named_and_not_the_ps),
        cmocka_unit_test(a_ps_that_does_not_copy_is_named_where_workers_are_held),
        cmocka_unit_test(steps_that_take_long_are_no_stall),
        cmocka_unit_test(in_ssp_the_least_clock_is_named),
        cmocka_unit_test(in_async_who_has_the_last_batches_is_named),
        cmocka_unit_test(a_worker_that_does_not_reach_a_ps_is_parked_in_each_mode),
        cmocka_unit_test(the_chiefs_own_worker_is_parked_and_comes_back_as_any_other),
        cmocka_unit_test(the_chiefs_own_worker_is_waited_for_in_sync_with_a_monitor),
        cmocka_unit_test(the_job_fails_where_the_chiefs_own_worker_stays_without_a_ps),
        cmocka_unit_test(a_ps_that_is_not_back_yet_does_not_end_the_job_by_the_chiefs_own_worker),
        cmocka_unit_test(a_ps_that_no_worker_reaches_parks_nobody),
        cmocka_unit_test(a_ps_that_comes_back_in_another_generation_parks_nobody),
        cmocka_unit_test(a_ps_that_is_away_for_the_chief_parks_nobody),
        cmocka_unit_test(a_worker_that_does_not_reach_a_ps_is_named_with_it),
        cmocka_unit_test(a_silent_worker_is_away_since_it_was_last_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
