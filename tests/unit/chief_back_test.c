/* The chief by itself, in sync, with two ps of a shard each: an epoch's end that was the best, and whose chief was killed
 * before a cut had it, is made again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/quiet.h"
#include "worker/chief/core/chief_state.h"

enum { PS = 2, BEST_STEP = 30 };

static const struct manifest newest = {.cut = 8, .step = 27, .total_elems = 4096};

struct fixture {
    struct chief *chief;
    struct layout layout;
    int64_t now_ms;
    Gradwire__EnterMode mode; /* of the last ENTER */
    uint64_t base;
    uint64_t generation, number; /* number: of the last CUT */
    int enters, cut_ats, kept[KEPT_FAILED + 1];
};

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    f->cut_ats += type == FRAME_CUT_AT;
    if (type == FRAME_CUT)
        f->number = ((const Gradwire__Cut *)m)->cut;
    if (type != FRAME_ENTER || ps > 0)
        return;
    const Gradwire__Enter *enter = (const Gradwire__Enter *)m;
    f->enters++;
    f->mode = enter->mode;
    f->base = enter->cut;
    f->generation = enter->generation->number;
}

static enum err io_find_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e)
{
    (void)ctx, (void)below, (void)e;
    *m = newest;
    return ERR_OK;
}

static void io_kept(void *ctx, uint64_t ask, enum chief_kept what, uint64_t number, uint64_t step)
{
    (void)ask, (void)number, (void)step;
    ((struct fixture *)ctx)->kept[what]++;
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = quiet_to_worker,
                                   .find_cut = io_find_cut,
                                   .publish = quiet_publish,
                                   .discard = quiet_discard,
                                   .restored = quiet_restored,
                                   .finish = quiet_finish,
                                   .kept = io_kept,
                                   .ended = quiet_never_ends,
                                   .say = quiet_say,
                                   .random = quiet_random,
                                   .journal = quiet_journal};

static void entered(struct fixture *f)
{
    quiet_entered(f->chief, PS, (struct generation){f->generation, quiet_random(NULL)}, f->now_ms);
}

/* `generation`: of the ps; 0: they come empty. */
static void begin_with(struct fixture *f, uint64_t generation, uint64_t unkept_step)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {4096}, .init = INIT_ZEROS};
    *f = (struct fixture){.now_ms = 1000};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct chief_config config = {.layout = &f->layout,
                                  .settings = GRADWIRE__SETTINGS__INIT,
                                  .ps = PS,
                                  .workers = 1,
                                  .unkept_step = unkept_step,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = 300,
                                  .timeouts.ps_rejoin_s = 300};
    config.settings.update = GRADWIRE__UPDATE__SYNC;
    config.settings.microbatches = 1;
    config.settings.batches_per_epoch = 10;
    config.settings.epochs = 10;
    assert_int_equal(chief_new(&f->chief, &config, &io, f, f->now_ms, &e), ERR_OK);
    const Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    assert_int_equal(chief_on_worker_up(f->chief, 0, &hello, f->now_ms, &e), ERR_OK);
    for (uint32_t i = 0; i < PS; i++)
        quiet_ps_up(f->chief, i, generation, f->now_ms);
    entered(f);
    assert_int_equal(f->mode,
                     generation ? GRADWIRE__ENTER_MODE__TAKEOVER : GRADWIRE__ENTER_MODE__RESTORE);
}

static void begin(struct fixture *f, uint64_t generation)
{
    begin_with(f, generation, 0);
}

static void end(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

static void tick(struct fixture *f, int64_t ms)
{
    f->now_ms += ms;
    chief_tick(f->chief, f->now_ms);
}

static void stopped(struct fixture *f, uint32_t shard, uint64_t step)
{
    Gradwire__ShardStatus s = GRADWIRE__SHARD_STATUS__INIT;
    Gradwire__CutStopped m = GRADWIRE__CUT_STOPPED__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    s.shard = shard;
    s.step = s.t = step;
    m.generation = &g;
    m.cut = f->number;
    m.status = &s;
    chief_on_ps(f->chief, shard, FRAME_CUT_STOPPED, &m.base, f->now_ms);
}

/* A second generation begins, with the last cut. */
static void assert_back(const struct fixture *f)
{
    assert_int_equal(f->enters, 2);
    assert_int_equal(f->mode, GRADWIRE__ENTER_MODE__RESTORE);
    assert_int_equal(f->base, newest.cut);
}

static void the_chief_goes_back_to_the_last_cut_and_stays_there(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 7);
    chief_go_back(f.chief, BEST_STEP, f.now_ms);
    tick(&f, 1);
    assert_back(&f);
    entered(&f);
    tick(&f, 1);
    assert_back(&f);
    end(&f);
}

static void while_a_ps_is_away_it_waits(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 7);
    chief_go_back(f.chief, BEST_STEP, f.now_ms);
    chief_on_ps_down(f.chief, 0, f.now_ms);
    tick(&f, 1);
    assert_int_equal(f.enters, 1);
    quiet_ps_up(f.chief, 0, f.generation, f.now_ms);
    tick(&f, 1);
    assert_back(&f);
    end(&f);
}

static void after_a_takeover_an_ask_that_comes_too_late_goes_back(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 7);
    chief_keep(f.chief, 1, BEST_STEP, f.now_ms);
    stopped(&f, 0, BEST_STEP);
    stopped(&f, 1, BEST_STEP + 1);
    tick(&f, 1);
    assert_back(&f);
    assert_int_equal(f.kept[KEPT_FAILED], 0);
    end(&f);
}

static void after_a_takeover_a_cut_that_no_one_asked_for_is_taken(void **state)
{
    (void)state;
    struct fixture f;
    const Gradwire__Going going = GRADWIRE__GOING__INIT;
    begin(&f, 7);
    chief_on_ps(f.chief, 0, FRAME_GOING, &going.base, f.now_ms);
    for (uint32_t i = 0; i < PS; i++)
        stopped(&f, i, BEST_STEP + 1);
    tick(&f, 1);
    assert_int_equal(f.enters, 1);
    assert_int_equal(f.cut_ats, PS);
    end(&f);
}

/* A cut of a later step would be the one to go back to. */
static void no_cut_begins_while_an_evaluation_may_have_to_be_made_again(void **state)
{
    (void)state;
    struct fixture f;
    const Gradwire__Going going = GRADWIRE__GOING__INIT;
    begin_with(&f, 7, BEST_STEP);
    chief_on_ps(f.chief, 0, FRAME_GOING, &going.base, f.now_ms);
    tick(&f, 100);
    assert_int_equal(f.number, 0);
    chief_go_back(f.chief, BEST_STEP, f.now_ms);
    tick(&f, 1);
    assert_back(&f);
    end(&f);
    begin_with(&f, 7, BEST_STEP);
    chief_on_ps(f.chief, 0, FRAME_GOING, &going.base, f.now_ms);
    chief_on_step(f.chief, BEST_STEP, f.now_ms);
    tick(&f, 1);
    assert_int_equal(f.number, 0);
    chief_on_step(f.chief, BEST_STEP + 1, f.now_ms);
    tick(&f, 1);
    assert_true(f.number > 0);
    end(&f);
    begin_with(&f, 7, BEST_STEP);
    chief_keep(f.chief, 1, BEST_STEP, f.now_ms);
    assert_true(f.number > 0);
    end(&f);
}

/* In the middle of the step, a shard stops only with gradients of the one that asks and waits. */
static void after_a_takeover_an_ask_whose_shards_do_not_stop_goes_back(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 7);
    chief_keep(f.chief, 1, BEST_STEP, f.now_ms);
    stopped(&f, 0, BEST_STEP);
    tick(&f, CHIEF_KEEP_MS - 1);
    assert_int_equal(f.enters, 1);
    tick(&f, 1);
    tick(&f, 1);
    assert_back(&f);
    assert_int_equal(f.kept[KEPT_FAILED], 0);
    end(&f);
}

/* There, nobody has begun the step: shards that take long to stop are slow. */
static void after_a_restore_an_ask_waits_for_shards_that_do_not_stop(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 0);
    chief_keep(f.chief, 1, BEST_STEP, f.now_ms);
    stopped(&f, 0, BEST_STEP);
    tick(&f, 10 * CHIEF_KEEP_MS);
    tick(&f, 1);
    assert_int_equal(f.enters, 1);
    assert_int_equal(f.kept[KEPT_FAILED], 0);
    stopped(&f, 1, BEST_STEP);
    assert_int_equal(f.cut_ats, PS);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chief_goes_back_to_the_last_cut_and_stays_there),
        cmocka_unit_test(while_a_ps_is_away_it_waits),
        cmocka_unit_test(after_a_takeover_an_ask_that_comes_too_late_goes_back),
        cmocka_unit_test(after_a_takeover_a_cut_that_no_one_asked_for_is_taken),
        cmocka_unit_test(no_cut_begins_while_an_evaluation_may_have_to_be_made_again),
        cmocka_unit_test(after_a_takeover_an_ask_whose_shards_do_not_stop_goes_back),
        cmocka_unit_test(after_a_restore_an_ask_waits_for_shards_that_do_not_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
