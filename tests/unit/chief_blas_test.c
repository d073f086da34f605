/* The chief by itself, in sync, and workers whose OpenBLAS has other kernels than the chief's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/quiet.h"
#include "worker/chief/core/chief_state.h"

#define OWN "Zen (OpenBLAS 0.3.21)"
#define OTHER "Haswell (OpenBLAS 0.3.21)"
enum { WORKERS = 3 };

struct fixture {
    struct chief *chief;
    struct layout layout;
    struct generation generation;
    int welcomes[WORKERS], warnings, journaled;
    char warning[400];
    struct journal_entry entry; /* the last */
};

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ps;
    if (type == FRAME_ENTER)
        ((struct fixture *)ctx)->generation =
            msg_generation_get(((const Gradwire__Enter *)m)->generation);
}

static void io_to_worker(void *ctx, uint32_t worker, enum frame_type type,
                         const ProtobufCMessage *m)
{
    (void)m;
    ((struct fixture *)ctx)->welcomes[worker] += type == FRAME_WELCOME;
}

static void io_say(void *ctx, int is_warning, const char *text)
{
    struct fixture *f = ctx;
    f->warnings += is_warning;
    if (is_warning)
        (void)snprintf(f->warning, sizeof f->warning, "%s", text);
}

static void io_journal(void *ctx, const struct journal_entry *entry)
{
    struct fixture *f = ctx;
    f->journaled++;
    f->entry = *entry;
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = io_to_worker,
                                   .find_cut = quiet_find_no_cut,
                                   .publish = quiet_publish,
                                   .discard = quiet_discard,
                                   .restored = quiet_restored,
                                   .finish = quiet_finish,
                                   .ended = quiet_never_ends,
                                   .say = io_say,
                                   .random = quiet_random,
                                   .journal = io_journal};

static void up(struct fixture *f, uint32_t worker, const char *blas)
{
    struct errmsg e;
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    hello.worker = worker;
    hello.blas = (char *)blas;
    assert_int_equal(chief_on_worker_up(f->chief, worker, &hello, 1000, &e), ERR_OK);
}

/* The chief's session is welcomed. journal NULL: of the first chief. */
static void begin(struct fixture *f, const char *own, const struct journal *journal)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {4096}, .init = INIT_ZEROS};
    *f = (struct fixture){.journaled = 0};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct chief_config config = {.layout = &f->layout,
                                  .settings = GRADWIRE__SETTINGS__INIT,
                                  .ps = 1,
                                  .workers = WORKERS,
                                  .blas = own,
                                  .journal = journal,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = 300,
                                  .timeouts.ps_rejoin_s = 300};
    config.settings.microbatches = 4;
    config.settings.batches_per_epoch = config.settings.epochs = 10;
    assert_int_equal(chief_new(&f->chief, &config, &io, f, 1000, &e), ERR_OK);
    up(f, 0, own ? own : "");
    quiet_ps_up(f->chief, 0, 3, 1000);
    quiet_entered(f->chief, 1, f->generation, 1000);
    assert_int_equal(f->welcomes[0], 1);
}

static void end(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

static void
a_worker_of_other_kernels_is_named_once_and_welcomed_when_the_journal_has_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, OWN, NULL);
    up(&f, 1, OTHER);
    assert_int_equal(f.welcomes[1], 0); /* else a killed chief could forget it */
    assert_int_equal(f.journaled, 1);
    assert_int_equal(f.entry.kind, JOURNAL_BLAS);
    assert_string_equal(f.entry.what, "worker 1: " OTHER);
    assert_non_null(strstr(f.warning, "worker 1 multiplies with OpenBLAS's kernels for " OTHER
                                      ", the chief with those for " OWN));
    chief_on_journaled(f.chief, NULL, 1000);
    assert_int_equal(f.welcomes[1], 1);
    chief_on_worker_down(f.chief, 1, 1000);
    up(&f, 1, OTHER);
    assert_int_equal(f.welcomes[1], 2);
    assert_true(f.journaled == 1 && f.warnings == 1);
    end(&f);
}

static void a_later_chief_names_it_again_and_its_journal_has_it_already(void **state)
{
    (void)state;
    struct fixture f;
    struct journal_entry entry[] = {journal_blas_entry("chief", OWN),
                                    journal_blas_entry("worker 1", OTHER)};
    const struct journal journal = {.n = 2, .entry = entry};
    begin(&f, OWN, &journal);
    assert_false(journal_blas_same(chief_journal(f.chief)));
    up(&f, 1, OTHER);
    assert_true(f.welcomes[1] == 1 && f.journaled == 0 && f.warnings == 1);
    up(&f, 2, OTHER);
    assert_true(f.welcomes[2] == 0 && f.journaled == 1 && f.warnings == 2);
    end(&f);
}

static void the_same_kernels_and_models_that_need_none_are_not_noted(void **state)
{
    (void)state;
    static const char *const own[] = {OWN, OWN, "", NULL}, *const other[] = {OWN, "", OTHER, ""};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        struct fixture f;
        begin(&f, own[i], NULL);
        up(&f, 1, other[i]);
        assert_true(f.welcomes[1] == 1 && f.journaled == 0 && f.warnings == 0);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_worker_of_other_kernels_is_named_once_and_welcomed_when_the_journal_has_it),
        cmocka_unit_test(a_later_chief_names_it_again_and_its_journal_has_it_already),
        cmocka_unit_test(the_same_kernels_and_models_that_need_none_are_not_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
