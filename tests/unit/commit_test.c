/* The chief's step commit by itself: sync, two ps of a shard each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/parameters/norm.h"
#include "tests/lib/quiet.h"
#include "worker/chief/core/chief.h"
#include "worker/chief/core/chief_state.h"

enum { PS = 2, CHUNKS = 4, CHUNKS_EACH = CHUNKS / PS };

struct said {
    int decisions[PS], asks[PS];
    Gradwire__StepDecision decision; /* the last */
    int exit_code;
    char end[256];
    int journaled;
    struct journal_entry entry; /* the last */
};

struct fixture {
    struct chief *chief;
    struct said said;
    struct layout layout;
    struct generation entered; /* of the last ENTER */
    Gradwire__EnterMode mode;
    int64_t now_ms;
};

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    if (type == FRAME_ENTER) {
        f->entered = msg_generation_get(((const Gradwire__Enter *)m)->generation);
        f->mode = ((const Gradwire__Enter *)m)->mode;
    }
    f->said.asks[ps] += type == FRAME_STEP_ASK;
    if (type != FRAME_STEP_DECISION)
        return;
    f->said.decisions[ps]++;
    f->said.decision = *(const Gradwire__StepDecision *)m;
}

static void io_ended(void *ctx, int exit_code, const char *text)
{
    struct said *said = &((struct fixture *)ctx)->said;
    said->exit_code = exit_code;
    (void)snprintf(said->end, sizeof said->end, "%s", text);
}

static void io_journal(void *ctx, const struct journal_entry *entry)
{
    struct said *said = &((struct fixture *)ctx)->said;
    said->journaled++;
    said->entry = *entry;
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = quiet_to_worker,
                                   .find_cut = quiet_find_no_cut,
                                   .publish = quiet_publish,
                                   .discard = quiet_discard,
                                   .finish = quiet_finish,
                                   .ended = io_ended,
                                   .say = quiet_say,
                                   .restored = quiet_restored,
                                   .random = quiet_random,
                                   .journal = io_journal};

/* The chief of a running generation: `before` is the ps' own, 0 for empty ones. */
static void open_settings(struct fixture *f, Gradwire__Settings settings, uint64_t before,
                          const struct journal *journal)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {CHUNKS * 1024}, .init = INIT_ZEROS};
    *f = (struct fixture){.now_ms = 1000};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct chief_config config = {.layout = &f->layout,
                                  .settings = settings,
                                  .ps = PS,
                                  .workers = 1,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = 30,
                                  .timeouts.ps_rejoin_s = 600,
                                  .training.max_rejected = 3,
                                  .training.max_recoveries = 2,
                                  .journal = journal};
    config.settings.microbatches = 1;
    config.settings.batches_per_epoch = 100;
    config.settings.epochs = 1;
    assert_int_equal(chief_new(&f->chief, &config, &io, f, f->now_ms, &e), ERR_OK);
    for (uint32_t i = 0; i < PS; i++)
        quiet_ps_up(f->chief, i, before, f->now_ms);
    quiet_entered(f->chief, PS, f->entered, f->now_ms);
    assert_int_equal(f->entered.number, before + 1);
    assert_int_equal(f->chief->plan.shards, PS);
}

static void open_guarded(struct fixture *f, float clip, uint64_t before, enum nan_guard guard,
                         const struct journal *journal)
{
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    settings.clip_norm = clip;
    settings.nan_guard = guard;
    open_settings(f, settings, before, journal);
}

static void open_fixture(struct fixture *f, float clip, uint64_t before)
{
    open_guarded(f, clip, before, NAN_GUARD_OFF, NULL);
}

static void close_fixture(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

struct reported {
    uint64_t generation, step;
    bool summed;
    double sum[CHUNKS_EACH];
    const Gradwire__StepDecision *last;
    const char *broken;
};

/* The additions of lamb: the two sums of each piece, and the scale that they were made with; 0: none is known yet. */
struct trusted {
    float scale;
    double weights, direction;
};

static void report_trusted(struct fixture *f, uint32_t shard, struct reported r, struct trusted t)
{
    double trust[TRUST_SUMS * CHUNKS_EACH] = {t.weights, t.direction, t.weights, t.direction};
    Gradwire__StepReport m = GRADWIRE__STEP_REPORT__INIT;
    Gradwire__Generation g = quiet_generation(r.generation);
    m.generation = &g;
    m.shard = shard;
    m.step = r.step;
    m.summed = r.summed;
    m.examples = m.divisor = 2;
    m.round = t.scale > 0 ? GRADWIRE__ROUND__TRUST : GRADWIRE__ROUND__NORM;
    m.scale = t.scale;
    m.trust = trust;
    m.n_trust = r.summed && f->chief->lamb ? TRUST_SUMS * CHUNKS_EACH : 0;
    m.sums = r.sum;
    m.n_sums = r.summed ? CHUNKS_EACH : 0;
    m.last = (Gradwire__StepDecision *)r.last;
    m.broken = (char *)(r.broken ? r.broken : "");
    chief_on_ps(f->chief, shard, FRAME_STEP_REPORT, &m.base, f->now_ms);
}

static void report(struct fixture *f, uint32_t shard, struct reported r)
{
    report_trusted(f, shard, r, (struct trusted){0, 0, 0});
}

static void all_shards_get_one_scale_when_all_have_reported(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 2, 0);
    report(&f, 1, (struct reported){1, 0, true, {16, 32}, NULL, NULL});
    report(&f, 1, (struct reported){1, 0, true, {16, 32}, NULL, NULL}); /* said twice */
    assert_int_equal(f.said.decisions[0] + f.said.decisions[1], 0);
    report(&f, 0, (struct reported){1, 0, true, {8, 8}, NULL, NULL});
    assert_int_equal(f.said.decisions[0], 1);
    assert_int_equal(f.said.decisions[1], 1);
    assert_true(f.said.decision.scale == 0.5f); /* 2 / (sqrt(64) / 2) */
    report(&f, 0, (struct reported){1, 1, true, {1, 0}, NULL, NULL});
    assert_int_equal(f.said.decisions[0], 1); /* the step before does not count for this one */
    report(&f, 1, (struct reported){1, 1, true, {0, 0}, NULL, NULL});
    assert_int_equal(f.said.decisions[0], 2);
    assert_true(f.said.decision.scale == 1.0f);
    assert_int_equal(f.said.decision.step, 1);
    close_fixture(&f);
}

static void a_ps_that_is_there_again_hears_the_last_decision_and_is_asked(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 2, 0);
    report(&f, 0, (struct reported){1, 0, true, {8, 8}, NULL, NULL});
    chief_on_ps_down(f.chief, 1, f.now_ms);
    quiet_ps_up(f.chief, 1, 1, f.now_ms);
    assert_int_equal(f.said.asks[1], 1);
    assert_int_equal(f.said.decisions[1], 0);
    report(&f, 1, (struct reported){1, 0, true, {16, 32}, NULL, NULL});
    assert_int_equal(f.said.decisions[1], 1);
    chief_on_ps_down(f.chief, 1, f.now_ms);
    quiet_ps_up(f.chief, 1, 1, f.now_ms);
    assert_int_equal(f.said.decisions[1], 2);
    assert_int_equal(f.said.decisions[0], 1);
    report(&f, 1, (struct reported){1, 0, true, {16, 32}, NULL, NULL}); /* it was lost again */
    assert_int_equal(f.said.decisions[1], 3);
    assert_true(f.said.decision.scale == 0.5f);
    close_fixture(&f);
}

/* Shard 0 has carried it out, shard 1 has not heard of it; what shard 1 reports would decide otherwise. */
static void a_new_chief_takes_the_decision_of_the_former_one(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 2, 4);
    assert_int_equal(f.said.asks[0], 1);
    assert_int_equal(f.said.asks[1], 1);
    Gradwire__StepDecision last = GRADWIRE__STEP_DECISION__INIT;
    last.step = 9;
    last.rejected = true;
    report(&f, 1, (struct reported){5, 9, true, {16, 32}, NULL, NULL});
    assert_int_equal(f.said.decisions[1], 0);
    report(&f, 0, (struct reported){5, 10, false, {0, 0}, &last, NULL});
    assert_int_equal(f.said.decisions[1], 1);
    assert_int_equal(f.said.decision.step, 9);
    assert_true(f.said.decision.rejected);
    last.step = 8; /* an older one changes nothing */
    last.rejected = false;
    report(&f, 1, (struct reported){5, 10, true, {1, 0}, &last, NULL});
    assert_int_equal(f.said.decisions[1], 1);
    close_fixture(&f);
}

static void a_new_chief_takes_lambs_ratios_with_the_decision(void **state)
{
    (void)state;
    struct fixture f;
    float ratio = 0.25F;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    Gradwire__StepDecision last = GRADWIRE__STEP_DECISION__INIT;
    settings.optimizer = OPT_LAMB;
    open_settings(&f, settings, 1, NULL);
    last.step = 5;
    last.scale = 1;
    report(&f, 0, (struct reported){2, 6, false, {0, 0}, &last, NULL});
    assert_int_equal(f.said.decisions[1], 0); /* without a ratio for each tensor it is not valid */
    last.ratios = &ratio;
    last.n_ratios = 1;
    report(&f, 0, (struct reported){2, 6, false, {0, 0}, &last, NULL});
    assert_int_equal(f.said.decisions[1], 1);
    assert_int_equal(f.said.decision.n_ratios, 1);
    assert_true(f.said.decision.ratios[0] == 0.25F);
    close_fixture(&f);
}

static void open_clipped_lamb(struct fixture *f, float clip, uint64_t before)
{
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    settings.optimizer = OPT_LAMB;
    settings.clip_norm = clip;
    open_settings(f, settings, before, NULL);
}

/* The ratios are of the scaled gradient, so the shards report again when the scale is known. */
static void lambs_ratios_are_made_when_the_scale_is_known(void **state)
{
    (void)state;
    struct fixture f;
    open_clipped_lamb(&f, 2, 0);
    report_trusted(&f, 1, (struct reported){1, 0, true, {16, 32}, NULL, NULL},
                   (struct trusted){0, 1, 1});
    assert_int_equal(f.said.decisions[0] + f.said.decisions[1], 0);
    report_trusted(&f, 0, (struct reported){1, 0, true, {8, 8}, NULL, NULL},
                   (struct trusted){0, 1, 1});
    assert_int_equal(f.said.decisions[0], 1);
    assert_int_equal(f.said.decisions[1], 1);
    assert_int_equal(f.said.decision.round, GRADWIRE__ROUND__TRUST);
    assert_true(f.said.decision.scale == 0.5f);
    report_trusted(&f, 0, (struct reported){1, 0, true, {8, 8}, NULL, NULL},
                   (struct trusted){0.5f, 4, 1});
    assert_int_equal(f.said.decisions[0], 1);
    chief_on_ps_down(f.chief, 1, f.now_ms); /* it may not have heard of the scale */
    quiet_ps_up(f.chief, 1, 1, f.now_ms);
    assert_int_equal(f.said.decisions[1], 2);
    assert_int_equal(f.said.decision.round, GRADWIRE__ROUND__TRUST);
    report_trusted(&f, 1, (struct reported){1, 0, true, {16, 32}, NULL, NULL},
                   (struct trusted){0.5f, 4, 1});
    assert_int_equal(f.said.decisions[0], 2);
    assert_int_equal(f.said.decisions[1], 3);
    assert_int_equal(f.said.decision.round, GRADWIRE__ROUND__NORM);
    assert_true(f.said.decision.scale == 0.5f && f.said.decision.ratios[0] == 2.0f);
    report_trusted(&f, 0, (struct reported){1, 1, true, {1, 0}, NULL, NULL},
                   (struct trusted){0, 9, 1});
    report_trusted(&f, 1, (struct reported){1, 1, true, {0, 0}, NULL, NULL},
                   (struct trusted){0, 9, 1});
    assert_int_equal(f.said.decisions[0], 3); /* nothing is clipped: immediately */
    assert_true(f.said.decision.scale == 1.0f && f.said.decision.ratios[0] == 3.0f);
    close_fixture(&f);
}

static void a_new_chief_takes_the_scale_of_the_former_one(void **state)
{
    (void)state;
    struct fixture f;
    open_clipped_lamb(&f, 1000, 4); /* by itself it would not clip */
    report_trusted(&f, 1, (struct reported){5, 9, true, {16, 32}, NULL, NULL},
                   (struct trusted){0, 1, 1});
    report_trusted(&f, 0, (struct reported){5, 9, true, {8, 8}, NULL, NULL},
                   (struct trusted){0.5f, 4, 1});
    assert_int_equal(f.said.decisions[1], 1);
    assert_int_equal(f.said.decision.round, GRADWIRE__ROUND__TRUST);
    assert_true(f.said.decision.scale == 0.5f && f.said.decision.step == 9);
    report_trusted(&f, 1, (struct reported){5, 9, true, {16, 32}, NULL, NULL},
                   (struct trusted){0.5f, 4, 1});
    assert_int_equal(f.said.decision.round, GRADWIRE__ROUND__NORM);
    assert_true(f.said.decision.scale == 0.5f && f.said.decision.ratios[0] == 2.0f);
    close_fixture(&f);
}

static void reports_of_another_generation_or_shape_are_left_alone(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 2, 0);
    report(&f, 0, (struct reported){9, 0, true, {8, 8}, NULL, NULL});
    report(&f, 1, (struct reported){1, 0, true, {16, 32}, NULL, NULL});
    assert_int_equal(f.said.decisions[0], 0);
    Gradwire__StepReport m = GRADWIRE__STEP_REPORT__INIT;
    Gradwire__Generation g = quiet_generation(1);
    double sums[CHUNKS_EACH + 1] = {0};
    m.generation = &g;
    m.summed = true;
    m.sums = sums;
    m.n_sums = CHUNKS_EACH + 1;
    chief_on_ps(f.chief, 0, FRAME_STEP_REPORT, &m.base, f.now_ms);
    m.n_sums = CHUNKS_EACH;
    m.shard = PS;
    chief_on_ps(f.chief, 0, FRAME_STEP_REPORT, &m.base, f.now_ms);
    assert_int_equal(f.said.decisions[0], 0);
    close_fixture(&f);
}

/* Both shards report `step`; shard 1 says `broken`. */
static void both(struct fixture *f, uint64_t step, const char *broken)
{
    report(f, 0, (struct reported){f->entered.number, step, true, {1, 1}, NULL, NULL});
    report(f, 1, (struct reported){f->entered.number, step, true, {1, 1}, NULL, broken});
}

static void written(struct fixture *f)
{
    chief_on_journaled(f->chief, NULL, f->now_ms);
}

static const char nan_text[] = "the gradient of w is not finite";

static void skip_rejects_the_step_on_all_shards(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, 0, NAN_GUARD_SKIP, NULL);
    both(&f, 0, nan_text);
    both(&f, 0, nan_text); /* sent again meanwhile */
    assert_int_equal(f.said.decisions[0], 0);
    written(&f);
    assert_true(f.said.decision.rejected);
    assert_int_equal(f.said.decisions[0], 1);
    assert_int_equal(f.said.decisions[1], 1);
    assert_int_equal(f.said.journaled, 1);
    assert_int_equal(f.said.entry.kind, JOURNAL_REJECTED);
    assert_string_equal(f.said.entry.what, nan_text);
    both(&f, 1, NULL);
    assert_true(!f.said.decision.rejected && f.said.decision.scale == 1);
    struct chief_facts facts;
    facts = chief_facts(f.chief);
    assert_int_equal(facts.rejected, 1);
    close_fixture(&f);
}

static void a_journal_that_cannot_be_written_ends_the_job_and_decides_nothing(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, 0, NAN_GUARD_SKIP, NULL);
    both(&f, 0, nan_text);
    chief_on_journaled(f.chief, "checkpoints/journal: No space left on device", f.now_ms);
    assert_int_equal(f.said.decisions[0], 0);
    assert_int_equal(f.said.exit_code, 1);
    assert_string_equal(f.said.end, "the journal could not be written: checkpoints/journal: No "
                                    "space left on device");
    close_fixture(&f);
}

static void what_the_lowest_shard_has_found_is_named(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, 0, NAN_GUARD_SKIP, NULL);
    report(&f, 1, (struct reported){1, 0, true, {1, 1}, NULL, "the gradient of z is not finite"});
    report(&f, 0, (struct reported){1, 0, true, {1, 1}, NULL, nan_text});
    assert_string_equal(f.said.entry.what, nan_text);
    close_fixture(&f);
}

static void too_many_rejected_in_a_row_end_the_job_and_name_the_tensor(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, 0, NAN_GUARD_SKIP, NULL);
    for (uint64_t i = 0; i < 5; i++) {
        both(&f, i, i == 2 ? NULL : nan_text); /* not in a row */
        if (i != 2)
            written(&f);
    }
    assert_int_equal(f.said.exit_code, 0);
    both(&f, 5, nan_text);
    assert_int_equal(f.said.exit_code, 1);
    assert_string_equal(f.said.end, "step 5: the gradient of w is not finite; 3 in a row were "
                                    "rejected (training.max_rejected)");
    assert_int_equal(f.said.decision.step, 4);
    close_fixture(&f);
}

static void stop_ends_the_job(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, 0, NAN_GUARD_STOP, NULL);
    both(&f, 0, NULL);
    both(&f, 1, nan_text);
    assert_int_equal(f.said.exit_code, 1);
    assert_string_equal(f.said.end,
                        "step 1: the gradient of w is not finite (training.nan_guard: stop)");
    assert_int_equal(f.said.journaled, 1);
    close_fixture(&f);
}

static void a_rollback_waits_for_the_journal_and_is_not_decided_otherwise(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, 4, NAN_GUARD_ROLLBACK,
                 NULL); /* all ps agree: a takeover, for another reason */
    both(&f, 7, nan_text);
    both(&f, 7, NULL); /* sent again, and now otherwise */
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.said.decisions[0], 0);
    assert_int_equal(f.said.journaled, 1);
    assert_int_equal(f.said.entry.kind, JOURNAL_RECOVERED);
    assert_int_equal(f.entered.number, 5);
    chief_on_journaled(f.chief, NULL, f.now_ms);
    assert_int_equal(f.entered.number, 6);
    assert_true(f.mode != GRADWIRE__ENTER_MODE__TAKEOVER);
    close_fixture(&f);
}

static void a_rollback_waits_for_every_ps(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, 0, NAN_GUARD_ROLLBACK, NULL);
    both(&f, 7, nan_text);
    chief_on_ps_down(f.chief, 1, f.now_ms);
    chief_on_journaled(f.chief, NULL, f.now_ms);
    assert_int_equal(f.entered.number, 1);
    quiet_ps_up(f.chief, 1, 1, f.now_ms);
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.entered.number, 2);
    assert_true(f.mode != GRADWIRE__ENTER_MODE__TAKEOVER);
    close_fixture(&f);
}

static void a_step_that_was_rolled_back_for_is_skipped_whatever_it_is_now(void **state)
{
    (void)state;
    struct fixture f;
    struct journal journal = {0};
    struct journal_entry entry = {.kind = JOURNAL_RECOVERED, .batch = 3, .cut = UINT64_MAX};
    assert_int_equal(journal_add(&journal, &entry), ERR_OK);
    open_guarded(&f, 0, 0, NAN_GUARD_ROLLBACK, &journal);
    both(&f, 3, NULL);
    assert_true(f.said.decision.rejected && f.said.decision.step == 3);
    assert_int_equal(f.said.journaled, 0);
    both(&f, 4, NULL);
    assert_false(f.said.decision.rejected);
    close_fixture(&f);
    journal_close(&journal);
}

static void too_many_recoveries_from_one_cut_end_the_job(void **state)
{
    (void)state;
    struct fixture f;
    struct journal journal = {0};
    struct journal_entry entry = {.kind = JOURNAL_RECOVERED, .cut = UINT64_MAX};
    for (entry.batch = 0; entry.batch < 2; entry.batch++)
        assert_int_equal(journal_add(&journal, &entry), ERR_OK);
    entry.cut = 5; /* of another cut */
    assert_int_equal(journal_add(&journal, &entry), ERR_OK);
    open_guarded(&f, 0, 0, NAN_GUARD_ROLLBACK, &journal);
    both(&f, 8, nan_text);
    assert_int_equal(f.said.exit_code, 1);
    assert_string_equal(f.said.end, "step 8: the gradient of w is not finite, after 2 recoveries "
                                    "from the first weights (there is no checkpoint yet) "
                                    "(training.max_recoveries)");
    close_fixture(&f);
    journal_close(&journal);
}

static void a_job_that_goes_on_counts_its_row_from_the_journal(void **state)
{
    (void)state;
    struct fixture f;
    struct journal journal = {0};
    struct journal_entry entry = {.kind = JOURNAL_REJECTED, .batch = 0};
    assert_int_equal(journal_add(&journal, &entry), ERR_OK);
    open_guarded(&f, 0, 0, NAN_GUARD_SKIP, &journal);
    both(&f, 0, nan_text); /* in the replay it is counted again, and not noted again */
    assert_int_equal(f.said.journaled, 0);
    both(&f, 1, nan_text);
    written(&f);
    assert_int_equal(f.said.exit_code, 0);
    both(&f, 2, nan_text);
    assert_int_equal(f.said.exit_code, 1);
    close_fixture(&f);
    journal_close(&journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shards_get_one_scale_when_all_have_reported),
        cmocka_unit_test(a_ps_that_is_there_again_hears_the_last_decision_and_is_asked),
        cmocka_unit_test(a_new_chief_takes_the_decision_of_the_former_one),
        cmocka_unit_test(a_new_chief_takes_lambs_ratios_with_the_decision),
        cmocka_unit_test(lambs_ratios_are_made_when_the_scale_is_known),
        cmocka_unit_test(a_new_chief_takes_the_scale_of_the_former_one),
        cmocka_unit_test(reports_of_another_generation_or_shape_are_left_alone),
        cmocka_unit_test(skip_rejects_the_step_on_all_shards),
        cmocka_unit_test(a_journal_that_cannot_be_written_ends_the_job_and_decides_nothing),
        cmocka_unit_test(what_the_lowest_shard_has_found_is_named),
        cmocka_unit_test(too_many_rejected_in_a_row_end_the_job_and_name_the_tensor),
        cmocka_unit_test(stop_ends_the_job),
        cmocka_unit_test(a_rollback_waits_for_the_journal_and_is_not_decided_otherwise),
        cmocka_unit_test(a_rollback_waits_for_every_ps),
        cmocka_unit_test(a_step_that_was_rolled_back_for_is_skipped_whatever_it_is_now),
        cmocka_unit_test(too_many_recoveries_from_one_cut_end_the_job),
        cmocka_unit_test(a_job_that_goes_on_counts_its_row_from_the_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
