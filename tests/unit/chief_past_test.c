/* The chief by itself: a takeover by a chief whose DIR lacks a part of the run's past, and keys that make a job inexact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/quiet.h"
#include "worker/chief/core/chief_state.h"

enum { PER_EPOCH = 10 };
#define RUN "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"

struct fixture {
    struct chief *chief;
    struct layout layout;
    struct generation generation; /* of the last ENTER */
    int enters, warnings, journaled;
    char warning[400], journal[37];
    struct journal_entry entry; /* the last */
    struct journal_lines known; /* of the last ENTER or JOURNALED */
};

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    const Gradwire__Enter *enter = (const Gradwire__Enter *)m;
    const Gradwire__Journaled *journaled = (const Gradwire__Journaled *)m;
    (void)ps;
    if (type == FRAME_JOURNALED)
        f->known = (struct journal_lines){journaled->journal_lines, journaled->journal_crc};
    if (type != FRAME_ENTER)
        return;
    f->known = (struct journal_lines){enter->journal_lines, enter->journal_crc};
    f->enters++;
    f->generation = msg_generation_get(enter->generation);
    (void)snprintf(f->journal, sizeof f->journal, "%s", enter->journal);
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

/* The cut with which a generation begins; cut 0: there is none. */
static struct manifest base;

static enum err io_find_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e)
{
    *m = base;
    return base.cut ? ERR_OK : quiet_find_no_cut(ctx, below, m, e);
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = quiet_to_worker,
                                   .find_cut = io_find_cut,
                                   .publish = quiet_publish,
                                   .discard = quiet_discard,
                                   .restored = quiet_restored,
                                   .finish = quiet_finish,
                                   .ended = quiet_never_ends,
                                   .say = io_say,
                                   .random = quiet_random,
                                   .journal = io_journal};

/* A takeover: the shard has made `step` steps under a chief with the journal `journal`. */
struct found {
    const char *journal;
    uint64_t step;
    Gradwire__Redo *redo;
    struct journal_lines known; /* 0: as an earlier release */
};

static void ps_up(struct fixture *f, const struct found *at, uint64_t generation)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    Gradwire__ShardStatus status = GRADWIRE__SHARD_STATUS__INIT, *shards[] = {&status};
    Gradwire__Generation g = quiet_generation(generation);
    status.step = at->step;
    status.redo = at->redo;
    m.threads = 1;
    m.generation = &g;
    m.entered = generation > 0;
    m.uuid = (char *)(generation ? RUN : "");
    m.journal = (char *)at->journal;
    m.journal_lines = at->known.n;
    m.journal_crc = at->known.crc;
    m.shards = shards;
    m.n_shards = 1;
    chief_on_ps_up(f->chief, 0, &m, 1000);
}

/* The chief's own journal is "own", and its history has the first `epochs` epochs. */
static void begin(struct fixture *f, uint64_t epochs, const struct journal *journal, bool redo)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {4096}, .init = INIT_ZEROS};
    *f = (struct fixture){.enters = 0};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct chief_config config = {
        .layout = &f->layout,
        .settings = GRADWIRE__SETTINGS__INIT,
        .ps = 1,
        .workers = 1,
        .journal = journal,
        .past = {.journal = "own", .dir = "runs/a", .run = RUN, .epochs = epochs},
        .training.monitor = MONITOR_LOSS,
        .timeouts.start_s = 300,
        .timeouts.worker_rejoin_s = 300,
        .timeouts.ps_rejoin_s = 300};
    config.settings.microbatches = 1;
    config.settings.batches_per_epoch = config.settings.epochs = PER_EPOCH;
    config.settings.redo = redo;
    assert_int_equal(chief_new(&f->chief, &config, &io, f, 1000, &e), ERR_OK);
    const Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    assert_int_equal(chief_on_worker_up(f->chief, 0, &hello, 1000, &e), ERR_OK);
}

static void end(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

/* The epoch that the history is found to lack; 0: none. */
static unsigned lacked(uint64_t epochs, uint64_t step, Gradwire__Redo *redo)
{
    struct fixture f;
    unsigned epoch = 0;
    begin(&f, epochs, NULL, redo != NULL);
    ps_up(&f, &(struct found){.journal = "own", .step = step, .redo = redo}, 3);
    assert_int_equal(f.enters, !f.journaled);
    assert_int_equal(f.warnings, f.journaled);
    const char *what = strstr(f.warning, "(history.jsonl has no line of epoch ");
    if (f.warnings)
        assert_true(what && sscanf(what, "(history.jsonl has no line of epoch %u)", &epoch) == 1);
    end(&f);
    return epoch;
}

static void a_history_may_lack_only_the_epoch_at_whose_end_the_shards_are(void **state)
{
    (void)state;
    static const struct {
        uint64_t epochs, step;
        unsigned lacked;
    } cases[] = {{0, 0, 0},  {0, 10, 0}, {0, 11, 1}, {1, 11, 0}, {1, 20, 0},
                 {1, 21, 2}, {5, 21, 0}, {0, 35, 1}, {2, 35, 3}, {3, 35, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(lacked(cases[i].epochs, cases[i].step, NULL), cases[i].lacked);
}

static void with_extra_steps_the_lead_shard_says_which_epochs_are_over(void **state)
{
    (void)state;
    Gradwire__Redo redo = GRADWIRE__REDO__INIT;
    assert_int_equal(lacked(0, 12, &redo), 0); /* extra steps of the first epoch */
    redo.epoch = 1;
    redo.begin = 13;
    assert_int_equal(lacked(0, 13, &redo), 0);
    assert_int_equal(lacked(0, 14, &redo), 1);
    assert_int_equal(lacked(1, 14, &redo), 0);
}

static void the_history_of_another_run_has_none_of_this_ones_epochs(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 5, NULL, false);
    f.chief->config.past.run[0] = '\0';
    ps_up(&f, &(struct found){.journal = "own", .step = 21}, 3);
    assert_non_null(strstr(f.warning, "no line of epoch 1)"));
    end(&f);
    begin(&f, 5, NULL, false);
    f.chief->config.past.run[0] = '\0';
    f.chief->config.past.from = 2; /* an earlier release wrote no history */
    ps_up(&f, &(struct found){.journal = "own", .step = 21}, 3);
    assert_int_equal(f.warnings, 0);
    end(&f);
}

static void in_another_directory_it_says_so_and_no_ps_enters_before_the_journal_has_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 0, NULL, false);
    ps_up(&f, &(struct found){.journal = "other", .step = 5}, 3);
    assert_true(f.enters == 0 && f.warnings == 1 && f.journaled == 1);
    assert_string_equal(
        f.warning,
        "generation 4: runs/a lacks a part of this run's past (it is not the "
        "directory of the chief before): the job goes on, but is never exact "
        "again, and its best epoch is only the best of those known there; a chief that is to be "
        "exact needs its output directory on storage that comes with it");
    assert_int_equal(f.entry.kind, JOURNAL_INEXACT);
    assert_string_equal(f.entry.what,
                        "generation 4 took over at step 5 without a part of the run's "
                        "past: it is not the directory of the chief before");
    /* its connection is lost before the line is written */
    chief_on_ps_down(f.chief, 0, 1000);
    chief_on_journaled(f.chief, NULL, 1000);
    assert_int_equal(f.enters, 0);
    ps_up(&f, &(struct found){.journal = "other", .step = 5}, 3);
    assert_true(f.enters == 1 && f.warnings == 1 && f.journaled == 1);
    assert_string_equal(f.journal, "own");
    end(&f);
}

static void while_the_line_is_written_a_ps_that_returns_waits_for_it_too(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 0, NULL, false);
    ps_up(&f, &(struct found){.journal = "other", .step = 5}, 3);
    chief_on_ps_down(f.chief, 0, 1000);
    ps_up(&f, &(struct found){.journal = "other", .step = 5}, 3);
    assert_true(f.enters == 0 && f.journaled == 1);
    chief_on_journaled(f.chief, NULL, 1000);
    assert_true(f.enters == 1 && f.warnings == 1 && f.journaled == 1);
    end(&f);
}

static void a_journal_that_has_the_line_needs_no_other(void **state)
{
    (void)state;
    struct fixture f;
    struct journal_entry entry = {.kind = JOURNAL_INEXACT, .what = "generation 2 took over"};
    const struct journal journal = {.n = 1, .entry = &entry};
    begin(&f, 0, &journal, false);
    ps_up(&f, &(struct found){.journal = "own", .step = 35}, 3);
    assert_true(f.enters == 1 && f.warnings == 0 && f.journaled == 0);
    end(&f);
    begin(&f, 0, &journal, false); /* another chief was there in between */
    ps_up(&f, &(struct found){.journal = "other", .step = 35}, 3);
    assert_true(f.enters == 1 && f.warnings == 1 && f.journaled == 0);
    end(&f);
}

static void a_journal_that_lacks_lines_of_the_chief_before_is_found_and_noted(void **state)
{
    (void)state;
    struct fixture f;
    struct journal_entry entry[] = {journal_name_entry("own", 0),
                                    journal_blas_entry("chief", "Haswell"),
                                    journal_blas_entry("worker 1", "Nehalem")};
    const struct journal whole = {.n = 3, .entry = entry}, older = {.n = 2, .entry = entry};
    const struct found found = {.journal = "own", .step = 5, .known = journal_lines(&whole, 3)};
    begin(&f, 0, &whole, false);
    ps_up(&f, &found, 3);
    assert_true(f.enters == 1 && f.warnings == 0 && f.journaled == 0);
    assert_true(f.known.n == 3 && f.known.crc == found.known.crc);
    end(&f);
    begin(&f, 0, &older, false);
    ps_up(&f, &found, 3);
    assert_true(f.enters == 0 && f.warnings == 1 && f.journaled == 1);
    assert_non_null(
        strstr(f.warning, "runs/a lacks a part of this run's past (checkpoints/journal lacks "
                          "lines of the chief before): the job goes on, but is never exact again"));
    assert_string_equal(f.entry.what,
                        "generation 4 took over at step 5 without a part of the run's "
                        "past: checkpoints/journal lacks lines of the chief before");
    chief_on_journaled(f.chief, NULL, 1000);
    assert_true(f.enters == 1 && f.known.n == 3 && f.known.crc != found.known.crc);
    end(&f);
}

static void a_line_that_is_added_is_known_to_the_ps_when_it_is_on_disk(void **state)
{
    (void)state;
    struct fixture f;
    struct journal_entry entry = journal_name_entry("own", 0);
    const struct journal journal = {.n = 1, .entry = &entry};
    begin(&f, 0, &journal, false);
    ps_up(&f, &(struct found){.journal = "", .step = 0}, 0);
    quiet_entered(f.chief, 1, f.generation, 1000);
    assert_int_equal(f.known.n, 1);
    chief_on_inexact(f.chief, "epoch 7 is the best, but could not be kept", 1000);
    struct journal_entry other = journal_blas_entry("worker 1", "Nehalem");
    chief_note(f.chief, &other);
    assert_int_equal(f.known.n, 1);
    for (uint64_t n = 2; n <= 3; n++) {
        chief_on_journaled(f.chief, NULL, 1000);
        assert_int_equal(f.known.n, n);
    }
    assert_true(journal_begins_with(chief_journal(f.chief), f.known));
    end(&f);
}

static void the_first_best_epoch_that_is_lost_is_noted(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 0, NULL, false);
    ps_up(&f, &(struct found){.journal = "own", .step = 0}, 3);
    assert_int_equal(f.journaled, 0);
    chief_on_inexact(f.chief, "epoch 7 is the best, but could not be kept", 1000);
    assert_int_equal(f.journaled, 1);
    assert_int_equal(f.entry.kind, JOURNAL_INEXACT);
    assert_string_equal(f.entry.what, "epoch 7 is the best, but could not be kept");
    chief_on_journaled(f.chief, NULL, 1000);
    chief_on_inexact(f.chief, "epoch 9", 1000);
    assert_int_equal(f.journaled, 1);
    end(&f);
}

static void its_own_generation_and_those_that_begin_without_the_shards_need_no_past(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 0, NULL, false);
    ps_up(&f, &(struct found){.journal = "", .step = 0}, 0);
    assert_true(f.enters == 1 && f.warnings == 0 && f.journaled == 0);
    quiet_entered(f.chief, 1, f.generation, 1000);
    chief_on_ps_down(f.chief, 0, 1000);
    ps_up(&f, &(struct found){.journal = "own", .step = 35}, 1); /* its history was read long ago */
    assert_true(f.enters == 1 && f.warnings == 0 && f.journaled == 0);
    generation_start(f.chief); /* another one, as for a worker that comes */
    assert_true(f.enters == 2 && f.warnings == 0 && f.journaled == 0);
    end(&f);
}

/* A chief that was paused: a replacement with a copy of DIR took over, and has ended. */
static void a_generation_of_another_chief_after_its_own_is_a_past_that_it_lacks(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 0, NULL, false);
    ps_up(&f, &(struct found){.journal = "", .step = 0}, 0);
    quiet_entered(f.chief, 1, f.generation, 1000);
    chief_on_ps_down(f.chief, 0, 1000);
    ps_up(&f, &(struct found){.journal = "own", .step = 35}, 2);
    assert_true(f.enters == 1 && f.warnings == 1 && f.journaled == 1);
    assert_non_null(strstr(f.warning, "(another chief has led the run meanwhile)"));
    chief_on_journaled(f.chief, NULL, 1000);
    assert_true(f.enters == 2 && f.generation.number == 3);
    end(&f);
}

/* The note of a chief with such a key that takes over at `step` (0: it begins the job); "": none. */
static const char *noted_at(uint64_t step, const struct journal *journal)
{
    static struct fixture f;
    begin(&f, PER_EPOCH, journal, false);
    (void)snprintf(f.chief->config.inexact, sizeof f.chief->config.inexact,
                   "compression.push: int8");
    ps_up(&f, &(struct found){.journal = step ? "own" : "", .step = step}, step ? 3 : 0);
    assert_int_equal(f.enters, !f.journaled);
    assert_int_equal(f.warnings, 0);
    if (f.journaled)
        chief_on_journaled(f.chief, NULL, 1000);
    assert_int_equal(f.enters, 1);
    assert_true(f.journaled == 0 || f.entry.kind == JOURNAL_INEXACT);
    end(&f);
    return f.entry.what;
}

static void a_key_that_makes_the_job_inexact_is_noted_before_any_ps_enters(void **state)
{
    (void)state;
    struct journal_entry entry = {.kind = JOURNAL_INEXACT, .what = "generation 2 took over"};
    const struct journal journal = {.n = 1, .entry = &entry};
    assert_string_equal(noted_at(0, NULL),
                        "generation 1 trained from step 0 on with compression.push: int8");
    assert_string_equal(noted_at(99, NULL),
                        "generation 4 trained from step 99 on with compression.push: int8");
    assert_string_equal(noted_at(100, NULL), ""); /* all is trained */
    assert_string_equal(noted_at(99, &journal), "");
    base = (struct manifest){.cut = 4, .step = 57};
    assert_string_equal(noted_at(0, NULL),
                        "generation 1 trained from step 57 on with compression.push: int8");
    base.step = 104; /* training.epochs was lowered */
    assert_string_equal(noted_at(0, NULL), "");
    base = (struct manifest){.cut = 0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_history_may_lack_only_the_epoch_at_whose_end_the_shards_are),
        cmocka_unit_test(with_extra_steps_the_lead_shard_says_which_epochs_are_over),
        cmocka_unit_test(the_history_of_another_run_has_none_of_this_ones_epochs),
        cmocka_unit_test(
            in_another_directory_it_says_so_and_no_ps_enters_before_the_journal_has_it),
        cmocka_unit_test(while_the_line_is_written_a_ps_that_returns_waits_for_it_too),
        cmocka_unit_test(a_journal_that_has_the_line_needs_no_other),
        cmocka_unit_test(a_journal_that_lacks_lines_of_the_chief_before_is_found_and_noted),
        cmocka_unit_test(a_line_that_is_added_is_known_to_the_ps_when_it_is_on_disk),
        cmocka_unit_test(the_first_best_epoch_that_is_lost_is_noted),
        cmocka_unit_test(a_key_that_makes_the_job_inexact_is_noted_before_any_ps_enters),
        cmocka_unit_test(its_own_generation_and_those_that_begin_without_the_shards_need_no_past),
        cmocka_unit_test(a_generation_of_another_chief_after_its_own_is_a_past_that_it_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
