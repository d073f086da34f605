/* The chief by itself, in the modes that deal batches: when it says that an epoch is over, and what it leases of a stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/wire/msg.h"
#include "tests/lib/quiet.h"

enum { WORKERS = 2, PER_EPOCH = 3, EPOCHS = 4, TOLD_MAX = 16 };

struct fixture {
    struct chief *chief;
    struct layout layout;
    struct manifest base; /* the newest one on disk */
    uint64_t generation;
    bool welcome; /* the chief's own session, in this generation */
    int told, finishes;
    uint64_t epoch[TOLD_MAX];
    uint64_t first, count; /* of the last lease, which has one range */
};

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    (void)ps;
    if (type != FRAME_ENTER)
        return;
    f->generation = ((const Gradwire__Enter *)m)->generation->number;
    f->welcome = false;
}

static void io_to_worker(void *ctx, uint32_t worker, enum frame_type type,
                         const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    const Gradwire__Lease *lease = type == FRAME_LEASE ? (const Gradwire__Lease *)m : NULL;
    f->welcome = f->welcome || (worker == 0 && type == FRAME_WELCOME);
    if (!lease || !lease->n_ranges)
        return;
    assert_int_equal(lease->n_ranges, 1);
    f->first = lease->ranges[0]->first;
    f->count = lease->ranges[0]->count;
}

static enum err io_find_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e)
{
    const struct fixture *f = ctx;
    (void)below, (void)e;
    *m = f->base;
    return ERR_OK;
}

/* A session forgets with its welcome what it was asked before. */
static void io_epoch(void *ctx, uint64_t epoch)
{
    struct fixture *f = ctx;
    assert_true(f->welcome);
    assert_true(f->told < TOLD_MAX);
    f->epoch[f->told++] = epoch;
}

static void io_finish(void *ctx)
{
    ((struct fixture *)ctx)->finishes++;
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = io_to_worker,
                                   .find_cut = io_find_cut,
                                   .publish = quiet_publish,
                                   .discard = quiet_discard,
                                   .restored = quiet_restored,
                                   .epoch = io_epoch,
                                   .finish = io_finish,
                                   .ended = quiet_never_ends,
                                   .say = quiet_say,
                                   .random = quiet_random,
                                   .journal = quiet_journal};

static void ps_comes_empty(struct fixture *f)
{
    quiet_ps_up(f->chief, 0, 0, 0);
    const Gradwire__Generation g = quiet_generation(f->generation);
    quiet_entered(f->chief, 1, msg_generation_get(&g), 0);
    assert_true(f->welcome);
}

/* It resumes from a cut of the first `mark` batches; a cut is not taken then before batches are dealt. Of a stream, window: the
 * batches of a window. */
static void open_of(struct fixture *f, Gradwire__Update update, uint64_t mark, uint64_t per_epoch,
                    uint32_t window)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {4096}, .init = INIT_ZEROS};
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    *f = (struct fixture){.base = {.cut = 3,
                                   .generation = 1,
                                   .uuid = "job",
                                   .step = mark,
                                   .mark = mark,
                                   .total_elems = 4096}};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct chief_config config = {.layout = &f->layout,
                                  .settings = GRADWIRE__SETTINGS__INIT,
                                  .ps = 1,
                                  .workers = WORKERS,
                                  .window_batches = window,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = 30,
                                  .timeouts.ps_rejoin_s = 600};
    config.settings.update = update;
    config.settings.microbatches = 1;
    config.settings.geo_every = 1;
    config.settings.batches_per_epoch = per_epoch;
    config.settings.epochs = EPOCHS;
    assert_int_equal(chief_new(&f->chief, &config, &io, f, 0, &e), ERR_OK);
    for (hello.worker = 0; hello.worker < WORKERS; hello.worker++)
        assert_int_equal(chief_on_worker_up(f->chief, hello.worker, &hello, 0, &e), ERR_OK);
    ps_comes_empty(f);
}

static void open_fixture(struct fixture *f, Gradwire__Update update, uint64_t mark)
{
    open_of(f, update, mark, PER_EPOCH, 0);
}

static void close_fixture(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

/* The worker has done `count` batches from `first`, and asks for others. */
static void report(struct fixture *f, uint32_t worker, uint64_t first, uint64_t count)
{
    Gradwire__LeaseAsk m = GRADWIRE__LEASE_ASK__INIT;
    Gradwire__Generation g = quiet_generation(f->generation);
    Gradwire__Range range = GRADWIRE__RANGE__INIT, *at = &range;
    range.first = first;
    range.count = count;
    m.generation = &g;
    m.done = &at;
    m.n_done = count > 0;
    m.want = CHIEF_LEASE_IDS;
    chief_on_worker(f->chief, worker, FRAME_LEASE_ASK, &m.base, 0);
}

static void assert_told(const struct fixture *f, int n, uint64_t last)
{
    assert_int_equal(f->told, n);
    assert_int_equal(f->epoch[n - 1], last);
}

static const Gradwire__Update modes[] = {GRADWIRE__UPDATE__ASYNC, GRADWIRE__UPDATE__SSP,
                                         GRADWIRE__UPDATE__GEO};
enum { MODES = sizeof modes / sizeof *modes };

/* Whichever batches they are; the last epoch is the end of the job. */
static void an_epoch_is_over_with_the_report_that_ends_it(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        struct fixture f;
        open_fixture(&f, modes[i], 0);
        report(&f, 0, 0, 0); /* is dealt 0 to 3 */
        report(&f, 1, 0, 0); /* 4 to 7 */
        report(&f, 0, 0, 2);
        assert_int_equal(f.told, 0);
        report(&f, 1, 5, 1);
        assert_told(&f, 1, 1);
        report(&f, 1, 5, 1); /* again: it counts once */
        report(&f, 1, 4, 1);
        report(&f, 0, 2, 2);
        assert_told(&f, 2, 2);
        report(&f, 1, 6, 2);
        report(&f, 0, 8, 3);
        assert_told(&f, 3, 3);
        assert_int_equal(f.finishes, 0);
        report(&f, 1, 11, 1);
        assert_told(&f, 3, 3);
        assert_int_equal(f.finishes, 1);
        close_fixture(&f);
    }
}

static void a_report_that_ends_two_epochs_tells_both(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, GRADWIRE__UPDATE__ASYNC, 0);
    report(&f, 0, 0, 0);
    report(&f, 0, 0, 2);
    report(&f, 0, 2, 5);
    assert_told(&f, 2, 2);
    assert_int_equal(f.epoch[0], 1);
    close_fixture(&f);
}

static void a_rollback_tells_again_what_is_trained_again(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        struct fixture f;
        open_fixture(&f, modes[i], 1);
        report(&f, 0, 0, 0); /* 1 to 4 */
        report(&f, 0, 1, 4);
        assert_told(&f, 1, 1);
        report(&f, 0, 5, 1);
        assert_told(&f, 2, 2);
        chief_on_ps_down(f.chief, 0, 0);
        ps_comes_empty(&f);
        assert_told(&f, 2, 2);
        report(&f, 0, 0, 0);
        report(&f, 0, 1, 4);
        assert_told(&f, 3, 1);
        close_fixture(&f);
    }
}

/* Of a chief that ended before it could look at it. */
static void a_chief_that_comes_later_tells_the_last_epoch_that_is_over(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        struct fixture f;
        open_fixture(&f, modes[i], 2 * PER_EPOCH + 1);
        assert_told(&f, 1, 2);
        report(&f, 0, 0, 0);
        report(&f, 0, 2 * PER_EPOCH + 1, 2);
        assert_told(&f, 2, 3);
        close_fixture(&f);
    }
}

/* ---- a stream ---- */

static void assert_leases(struct fixture *f, uint32_t worker, uint64_t first, uint64_t count)
{
    f->count = 0;
    report(f, worker, 0, 0);
    assert_int_equal(f->count, count);
    assert_int_equal(f->first, first);
}

static void a_lease_of_a_stream_is_the_rest_of_a_window(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        open_of(&f, modes[i], 1, 100, 16);
        assert_leases(&f, 0, 1, 15);
        assert_leases(&f, 1, 16, 16);
        for (uint64_t first = 32; first < 96; first += 16)
            assert_leases(&f, 0, first, 16);
        assert_leases(&f, 0, 96, 4); /* windows begin again with an epoch */
        assert_leases(&f, 0, 100, 16);
        close_fixture(&f);
    }
}

static void a_window_of_a_dead_worker_goes_to_another(void **state)
{
    (void)state;
    struct fixture f;
    open_of(&f, GRADWIRE__UPDATE__ASYNC, 0, 100, 16);
    assert_leases(&f, 1, 0, 16);
    assert_leases(&f, 0, 16, 16);
    report(&f, 1, 0, 6); /* 32 to 47 */
    chief_on_worker_down(f.chief, 1, 0);
    for (int64_t now_ms = 0; now_ms <= 31000; now_ms += 1000)
        chief_tick(f.chief, now_ms);
    assert_leases(&f, 0, 6, 10);
    assert_leases(&f, 0, 32, 16);
    assert_leases(&f, 0, 48, 16);
    close_fixture(&f);
}

static void workers_share_the_last_windows(void **state)
{
    (void)state;
    struct fixture f;
    open_of(&f, GRADWIRE__UPDATE__ASYNC, EPOCHS * 100 - 20, 100, 16);
    assert_leases(&f, 0, 380, 10); /* half of what is left */
    assert_leases(&f, 1, 390, 5);
    assert_leases(&f, 0, 395, 1); /* a window ends there */
    assert_leases(&f, 1, 396, 4);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_is_over_with_the_report_that_ends_it),
        cmocka_unit_test(a_report_that_ends_two_epochs_tells_both),
        cmocka_unit_test(a_rollback_tells_again_what_is_trained_again),
        cmocka_unit_test(a_chief_that_comes_later_tells_the_last_epoch_that_is_over),
        cmocka_unit_test(a_lease_of_a_stream_is_the_rest_of_a_window),
        cmocka_unit_test(a_window_of_a_dead_worker_goes_to_another),
        cmocka_unit_test(workers_share_the_last_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
