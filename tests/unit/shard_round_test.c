/* One shard in a round of the step commit: it sums, reports, waits, and carries out the decision, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/quiet.h"
#include "ps/core/shard.h"

enum { CHUNK = QUIET_CHUNK, CHUNKS = 3, ELEMS = CHUNK * CHUNKS };

/* The shard's last messages. */
struct said {
    int reports, replies, saves, stopped;
    Gradwire__StepReport report; /* without what it points to */
    double sum[CHUNKS], trust;   /* of the first chunk's direction */
    bool has_last;
    char broken[192];
    Gradwire__StepDecision last;
    uint64_t reply_step;
    uint32_t reply_chunks;
    Gradwire__Outcome outcome;
    double reply_examples;
    float saved_w;
};

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct said *said = ctx;
    (void)to, (void)body, (void)bytes;
    const Gradwire__Reply *head = quiet_reply(type, m);
    said->replies++;
    said->reply_step = head->step;
    said->reply_chunks = head->chunks;
    said->outcome = head->outcome;
    if (head->sums)
        said->reply_examples = head->sums->examples;
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *message)
{
    struct said *said = ctx;
    said->stopped += type == FRAME_CUT_STOPPED;
    if (type != FRAME_STEP_REPORT)
        return;
    const Gradwire__StepReport *m = (const Gradwire__StepReport *)message;
    said->reports++;
    said->report = *m;
    for (size_t i = 0; i < m->n_sums; i++)
        said->sum[i] = m->sums[i];
    said->trust = m->n_trust ? m->trust[1] : 0;
    (void)snprintf(said->broken, sizeof said->broken, "%s", m->broken);
    said->has_last = m->last != NULL;
    if (m->last)
        said->last = *m->last;
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    struct said *said = ctx;
    said->saves++;
    said->saved_w = take_image->blocks.w[0];
    shard_image_free(take_image);
}

static const struct shard_io io = {.send = io_send,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .save_end = quiet_save_end,
                                   .load = quiet_load_no_cut,
                                   .drop_peers = quiet_drop_peers};

/* ---- a shard of three chunks, all zeros, sgd with a rate of 1, two leaves, clip on ---- */

struct fixture {
    struct shard *shard;
    struct said said;
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    struct shard_peer peer;
};

static void enter(struct fixture *f, uint64_t number, Gradwire__EnterMode mode)
{
    quiet_enter(f->shard, &f->plan, &f->settings, number, mode, 0);
    assert_true(shard_facts(f->shard).entered);
}

static void let_in(struct fixture *f, uint64_t number)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = quiet_generation(number);
    Gradwire__Refuse refuse;
    m.generation = &g;
    m.incarnation = 1;
    assert_int_equal(shard_on_hello(f->shard, &f->peer, &m, &refuse), ERR_OK);
}

static void open_guarded(struct fixture *f, float clip, enum nan_guard guard, float momentum)
{
    *f = (struct fixture){.plan = GRADWIRE__PLAN__INIT, .settings = GRADWIRE__SETTINGS__INIT};
    quiet_plan(&f->layout, &f->plan, CHUNKS);
    f->settings.optimizer = OPT_SGD;
    f->settings.learning_rate = 1;
    f->settings.microbatches = 2;
    f->settings.batches_per_epoch = 100;
    f->settings.momentum = momentum;
    f->settings.clip_norm = clip;
    f->settings.nan_guard = guard;
    assert_int_equal(shard_new(&f->shard, 0, 0, &io, &f->said), ERR_OK);
    enter(f, 5, GRADWIRE__ENTER_MODE__INIT);
    let_in(f, 5);
}

static void open_fixture(struct fixture *f)
{
    open_guarded(f, 1, NAN_GUARD_OFF, 0);
}

static void close_fixture(struct fixture *f)
{
    shard_free(f->shard);
    buffer_pool_close(&f->pool);
    msg_plan_close(&f->plan);
    layout_close(&f->layout);
}

/* One example of `g` everywhere. */
static void push(struct fixture *f, uint64_t number, uint64_t step, uint32_t leaf, float g)
{
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation of = quiet_generation(number);
    struct errmsg e = {""};
    double sums[] = {3};
    m.generation = &of;
    m.name = step;
    m.index = leaf;
    m.examples = 1;
    m.chunks = CHUNKS;
    m.sums = sums;
    m.n_sums = 1;
    struct buffer *body = buffer_acquire(&f->pool, ELEMS);
    for (size_t i = 0; i < ELEMS; i++)
        body->data[i] = g;
    assert_int_equal(shard_on_push(f->shard, &f->peer, &m, body, &e), ERR_OK);
    buffer_unref(body);
}

static void decide(struct fixture *f, uint64_t number, uint64_t step, bool rejected, float scale)
{
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    Gradwire__Generation g = quiet_generation(number);
    m.generation = &g;
    m.step = step;
    m.rejected = rejected;
    m.scale = scale;
    shard_on_chief(f->shard, FRAME_STEP_DECISION, &m.base);
}

static void ask(struct fixture *f, uint64_t number)
{
    Gradwire__StepAsk m = GRADWIRE__STEP_ASK__INIT;
    Gradwire__Generation g = quiet_generation(number);
    m.generation = &g;
    shard_on_chief(f->shard, FRAME_STEP_ASK, &m.base);
}

static float weight(const struct fixture *f)
{
    uint64_t first, elems;
    return quiet_weights(f->shard, &first, &elems)[ELEMS - 1];
}

static uint64_t step(const struct fixture *f)
{
    return shard_status(f->shard)->step;
}

static void a_summed_step_is_reported_once_and_waits(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    push(&f, 5, 0, 0, 1);
    assert_int_equal(f.said.reports, 0);
    push(&f, 5, 0, 1, 2);
    assert_int_equal(f.said.reports, 1);
    assert_true(f.said.report.summed && !f.said.has_last);
    assert_int_equal(f.said.report.n_sums, CHUNKS);
    assert_int_equal(f.said.report.examples, 2);
    for (int i = 0; i < CHUNKS; i++)
        assert_true(f.said.sum[i] == 9.0 * CHUNK);
    push(&f, 5, 0, 1, 7); /* a leaf that is summed already */
    assert_int_equal(f.said.reports, 1);
    assert_int_equal(step(&f), 0);
    assert_int_equal(f.said.replies, 0);
    assert_int_equal(shard_status(f.shard)->n_epochs, 0); /* its loss does not count yet */
    close_fixture(&f);
}

static void the_decision_scales_the_mean_gradient(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, 2);
    decide(&f, 5, 0, false, 0.5f);
    assert_int_equal(step(&f), 1);
    assert_true(weight(&f) == -0.75f);
    assert_int_equal(f.said.reply_step, 1);
    assert_int_equal(f.said.outcome, GRADWIRE__OUTCOME__APPLIED);
    const Gradwire__ShardStatus *status = shard_status(f.shard);
    assert_int_equal(status->t, 1);
    assert_true(status->epochs[0]->loss == 6.0);
    close_fixture(&f);
}

/* The mean of all that is accumulated is clipped, at the step that updates. */
static void the_norm_is_of_the_accumulated_gradients(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    f.settings.gradient_accumulation_steps = 2;
    shard_peer_gone(f.shard, &f.peer);
    enter(&f, 6, GRADWIRE__ENTER_MODE__INIT);
    let_in(&f, 6);
    push(&f, 6, 0, 0, 1);
    push(&f, 6, 0, 1, 2);
    assert_true(f.said.report.divisor == 0 && f.said.sum[0] == 0);
    decide(&f, 6, 0, false, 1);
    assert_true(weight(&f) == 0);
    push(&f, 6, 1, 0, 1);
    push(&f, 6, 1, 1, 1);
    assert_int_equal(f.said.report.divisor, 2);
    assert_true(f.said.sum[0] == 6.25 * CHUNK); /* 1.5 and 1 */
    decide(&f, 6, 1, false, 0.5f);
    assert_true(weight(&f) == -0.625f);
    close_fixture(&f);
}

static void decide_lamb(struct fixture *f, Gradwire__Round round, float scale)
{
    Gradwire__StepDecision m = GRADWIRE__STEP_DECISION__INIT;
    Gradwire__Generation g = quiet_generation(6);
    float ratio = 2;
    m.generation = &g;
    m.round = round;
    m.scale = scale;
    m.ratios = &ratio;
    m.n_ratios = round == GRADWIRE__ROUND__NORM;
    shard_on_chief(f->shard, FRAME_STEP_DECISION, &m.base);
}

/* By the first update a direction is g / (|g| + epsilon). */
static void lambs_direction_is_of_the_scaled_gradient(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    f.settings.optimizer = OPT_LAMB;
    f.settings.beta_1 = f.settings.beta_2 = 0.5f;
    f.settings.epsilon = 1;
    shard_peer_gone(f.shard, &f.peer);
    enter(&f, 6, GRADWIRE__ENTER_MODE__INIT);
    let_in(&f, 6);
    push(&f, 6, 0, 0, 1);
    push(&f, 6, 0, 1, 1);
    assert_int_equal(f.said.report.round, GRADWIRE__ROUND__NORM);
    assert_true(f.said.trust == 0.25 * CHUNK);
    decide_lamb(&f, GRADWIRE__ROUND__TRUST, 3.0f / 4);
    assert_int_equal(f.said.reports, 2);
    assert_int_equal(f.said.report.round, GRADWIRE__ROUND__TRUST);
    assert_true(f.said.report.scale == 0.75f && f.said.sum[0] == 4.0 * CHUNK);
    assert_true(fabs(f.said.trust / CHUNK - 9.0 / 49) < 1e-6);
    decide_lamb(&f, GRADWIRE__ROUND__TRUST, 0.5f); /* it is decided */
    assert_int_equal(f.said.reports, 2);
    assert_int_equal(step(&f), 0);
    decide_lamb(&f, GRADWIRE__ROUND__NORM, 0.75f);
    assert_int_equal(step(&f), 1);
    assert_true(fabs((double)weight(&f) + 2 * 3.0 / 7) < 1e-6);
    push(&f, 6, 1, 0, 1);
    push(&f, 6, 1, 1, 1);
    assert_int_equal(f.said.report.round, GRADWIRE__ROUND__NORM);
    close_fixture(&f);
}

static void takeover(struct fixture *f, uint64_t number, float clip, uint64_t from)
{
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    Gradwire__Generation g = quiet_generation(number);
    f->settings.clip_norm = clip;
    m.generation = &g;
    m.uuid = (char *)"job";
    m.mode = GRADWIRE__ENTER_MODE__TAKEOVER;
    m.plan = &f->plan;
    m.settings = &f->settings;
    m.round_from = from;
    shard_peer_gone(f->shard, &f->peer);
    shard_on_chief(f->shard, FRAME_ENTER, &m.base);
    let_in(f, number);
}

static void a_guard_that_checks_adds_no_round(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, NAN_GUARD_CHECK, 0);
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, NAN);
    assert_true(step(&f) == 1 && f.said.reports == 0);
    close_fixture(&f);
}

/* Another shard may have made this step without a round, or wait in one: all turn at a step that nobody has begun. */
static void a_new_chief_begins_and_ends_rounds_at_the_step_it_says(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, NAN_GUARD_OFF, 0);
    push(&f, 5, 0, 0, 1);
    takeover(&f, 6, 1, 2);
    push(&f, 6, 0, 1, 1);
    push(&f, 6, 1, 0, 1);
    push(&f, 6, 1, 1, 1);
    assert_true(step(&f) == 2 && f.said.reports == 0);
    push(&f, 6, 2, 0, 1);
    push(&f, 6, 2, 1, 1);
    assert_true(step(&f) == 2 && f.said.reports == 1);
    takeover(&f, 7, 0, 3);
    assert_int_equal(step(&f), 2); /* it waits in the round that it is in */
    decide(&f, 7, 2, false, 0.5f);
    assert_int_equal(step(&f), 3);
    push(&f, 7, 3, 0, 1);
    push(&f, 7, 3, 1, 1);
    assert_true(step(&f) == 4 && weight(&f) == -3.5f);
    close_fixture(&f);
}

/* Another shard, which is one step ahead, has begun step 2 in the round of the chief before. */
static void a_new_chief_leaves_what_the_chief_before_has_said_of_earlier_steps(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 0, NAN_GUARD_OFF, 0);
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, 1);
    takeover(&f, 6, 1, 2);
    takeover(&f, 7, 0, 3);
    push(&f, 7, 1, 0, 1);
    push(&f, 7, 1, 1, 1);
    assert_true(step(&f) == 2 && f.said.reports == 0);
    push(&f, 7, 2, 0, 1);
    push(&f, 7, 2, 1, 1);
    assert_true(step(&f) == 2 && f.said.reports == 1);
    decide(&f, 7, 2, false, 1);
    push(&f, 7, 3, 0, 1);
    push(&f, 7, 3, 1, 1);
    assert_true(step(&f) == 4 && f.said.reports == 1);
    close_fixture(&f);
}

/* Another shard waits in the last round, and the chief that decided is gone. */
static void a_shard_without_further_rounds_tells_the_last_decision(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, 1);
    takeover(&f, 6, 0, 1);
    decide(&f, 6, 0, false, 0.5f);
    assert_int_equal(step(&f), 1);
    int reports = f.said.reports;
    takeover(&f, 7, 0, 3);
    ask(&f, 7);
    assert_int_equal(f.said.reports, reports + 1);
    assert_true(f.said.has_last && f.said.last.step == 0 && !f.said.report.summed);
    close_fixture(&f);
}

static void a_rejected_step_publishes_the_old_parameters_and_does_not_move_t(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, 1);
    decide(&f, 5, 0, false, 1);
    push(&f, 5, 1, 0, 4);
    push(&f, 5, 1, 1, 4);
    f.said.reply_examples = -1;
    decide(&f, 5, 1, true, 0);
    const Gradwire__ShardStatus *status = shard_status(f.shard);
    assert_int_equal(status->step, 2);
    assert_int_equal(status->t, 1);
    assert_int_equal(status->epochs[0]->batches, 2);
    assert_true(status->epochs[0]->examples == 2.0 && status->epochs[0]->loss == 6.0);
    assert_true(weight(&f) == -1.0f);
    assert_int_equal(f.said.outcome, GRADWIRE__OUTCOME__REJECTED);
    assert_int_equal(f.said.reply_step, 2);
    assert_true(f.said.reply_examples == 0);
    f.peer.sync.answered_step = 0;
    push(&f, 5, 1, 1, 4); /* a retry gets the same outcome */
    assert_int_equal(f.said.outcome, GRADWIRE__OUTCOME__REJECTED);
    f.peer.sync.answered_step = 0;
    push(&f, 5, 0, 1, 4);
    assert_int_equal(f.said.outcome, GRADWIRE__OUTCOME__DUPLICATE);
    close_fixture(&f);
}

/* Of a worker whose leaves others have computed, too: steps go by without it, and it pushes more than one that is over
 * while the same step is present. It waits for an answer to each. */
static void each_push_of_a_step_that_is_over_is_answered_once(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    for (uint64_t step = 0; step < 2; step++) {
        push(&f, 5, step, 0, 1);
        push(&f, 5, step, 1, 1);
        decide(&f, 5, step, false, 1);
    }
    f.peer.sync.answered_step = f.peer.sync.answered_push = 0;
    for (uint64_t step = 0; step < 2; step++) {
        f.said.replies = 0;
        push(&f, 5, step, 1, 1);
        int whole = f.said.replies;
        assert_true(whole > 0);
        assert_int_equal(f.said.reply_step, 2);
        push(&f, 5, step, 1, 1); /* its other frames */
        assert_int_equal(f.said.replies, whole);
    }
    close_fixture(&f);
}

static void a_decision_counts_once_and_for_its_step_alone(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    push(&f, 5, 0, 0, 1);
    decide(&f, 5, 0, true, 0); /* not summed yet: nobody can have decided it */
    push(&f, 5, 0, 1, 1);
    decide(&f, 4, 0, true, 0); /* another generation's */
    decide(&f, 5, 1, true, 0); /* another step's */
    assert_int_equal(step(&f), 0);
    decide(&f, 5, 0, false, 1);
    decide(&f, 5, 0, false, 1);
    decide(&f, 5, 1, false, 1);
    assert_int_equal(step(&f), 1);
    assert_true(weight(&f) == -1.0f);
    close_fixture(&f);
}

static void what_was_reported_and_decided_is_told_again_to_who_asks(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    ask(&f, 5);
    assert_true(f.said.reports == 1 && !f.said.report.summed && !f.said.has_last);
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, 1);
    decide(&f, 5, 0, false, 0.25f);
    ask(&f, 5);
    assert_true(!f.said.report.summed && f.said.has_last);
    assert_true(f.said.last.step == 0 && f.said.last.scale == 0.25f && !f.said.last.rejected);
    push(&f, 5, 1, 0, 1);
    push(&f, 5, 1, 1, 1);
    enter(&f, 6, GRADWIRE__ENTER_MODE__TAKEOVER);
    f.said.report = (Gradwire__StepReport)GRADWIRE__STEP_REPORT__INIT;
    ask(&f, 6);
    assert_true(f.said.report.summed && f.said.report.step == 1 && f.said.has_last);
    assert_true(f.said.sum[1] == 4.0 * CHUNK);
    decide(&f, 6, 1, false, 1);
    assert_int_equal(step(&f), 2);
    close_fixture(&f);
}

static void a_cut_holds_the_decision_and_copies_what_was_before_it(void **state)
{
    (void)state;
    struct fixture f;
    Gradwire__Generation g = quiet_generation(5);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__CutAt at = GRADWIRE__CUT_AT__INIT;
    open_fixture(&f);
    cut.generation = at.generation = &g;
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, 1);
    shard_on_chief(f.shard, FRAME_CUT, &cut.base);
    assert_int_equal(f.said.stopped, 1); /* summed is not made */
    decide(&f, 5, 0, false, 1);
    assert_int_equal(step(&f), 0);
    ask(&f, 5);
    assert_true(f.said.has_last && f.said.last.step == 0); /* it holds for all the same */
    shard_on_chief(f.shard, FRAME_CUT_AT, &at.base);
    assert_int_equal(f.said.saves, 1);
    assert_true(f.said.saved_w == 0.0f);
    assert_int_equal(step(&f), 1);
    assert_true(weight(&f) == -1.0f);
    close_fixture(&f);
}

static void a_new_generation_forgets_sums_and_decisions(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    push(&f, 5, 0, 0, 1);
    push(&f, 5, 0, 1, 1);
    enter(&f, 6, GRADWIRE__ENTER_MODE__INIT);
    ask(&f, 6);
    assert_true(!f.said.report.summed && !f.said.has_last);
    decide(&f, 6, 0, false, 1);
    assert_int_equal(step(&f), 0);
    close_fixture(&f);
}

static void the_guard_names_what_is_not_finite_or_absurd(void **state)
{
    (void)state;
    const struct {
        float clip, g;
        const char *broken;
    } all[] = {
        {0, 1, ""},
        {0, NAN, "the gradient of w is not finite"},
        {0, -INFINITY, "the gradient of w is not finite"},
        {0, 1e17f, "the gradient of w is absurdly large"},
        {1, 1e17f, ""}, /* clipping takes care of it */
        {1, NAN, "the gradient of w is not finite"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct fixture f;
        open_guarded(&f, all[i].clip, NAN_GUARD_SKIP, 0);
        push(&f, 5, 0, 0, all[i].g);
        push(&f, 5, 0, 1, 1);
        assert_string_equal(f.said.broken, all[i].broken);
        decide(&f, 5, 0, true, 0);
        push(&f, 5, 1, 0, 1); /* the next step is judged by itself */
        push(&f, 5, 1, 1, 1);
        assert_string_equal(f.said.broken, "");
        close_fixture(&f);
    }
}

static void the_guard_looks_at_slots_as_they_stand_before_the_step(void **state)
{
    (void)state;
    struct fixture f;
    open_guarded(&f, 1, NAN_GUARD_ROLLBACK, 0.9f);
    push(&f, 5, 0, 0, 1e35f);
    push(&f, 5, 0, 1, 1e35f);
    assert_string_equal(f.said.broken, "");
    decide(&f, 5, 0, false, 1); /* not scaled down, as it should have been */
    push(&f, 5, 1, 0, 1);
    push(&f, 5, 1, 1, 1);
    assert_string_equal(f.said.broken, "slot momentum of w is absurdly large");
    close_fixture(&f);
}

static void without_the_guard_nothing_is_found(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    push(&f, 5, 0, 0, NAN);
    push(&f, 5, 0, 1, 1);
    assert_int_equal(f.said.reports, 1);
    assert_string_equal(f.said.broken, "");
    close_fixture(&f);
}

static void clipped_steps_are_counted(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    const float scale[] = {0.5f, 1, 0.25f, 0};
    for (uint64_t i = 0; i < 4; i++) {
        push(&f, 5, i, 0, 1);
        push(&f, 5, i, 1, 1);
        decide(&f, 5, i, i == 3, scale[i]);
    }
    assert_int_equal(shard_status(f.shard)->clipped, 2);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_summed_step_is_reported_once_and_waits),
        cmocka_unit_test(a_guard_that_checks_adds_no_round),
        cmocka_unit_test(the_decision_scales_the_mean_gradient),
        cmocka_unit_test(the_norm_is_of_the_accumulated_gradients),
        cmocka_unit_test(lambs_direction_is_of_the_scaled_gradient),
        cmocka_unit_test(a_new_chief_begins_and_ends_rounds_at_the_step_it_says),
        cmocka_unit_test(a_new_chief_leaves_what_the_chief_before_has_said_of_earlier_steps),
        cmocka_unit_test(a_shard_without_further_rounds_tells_the_last_decision),
        cmocka_unit_test(a_rejected_step_publishes_the_old_parameters_and_does_not_move_t),
        cmocka_unit_test(each_push_of_a_step_that_is_over_is_answered_once),
        cmocka_unit_test(a_decision_counts_once_and_for_its_step_alone),
        cmocka_unit_test(what_was_reported_and_decided_is_told_again_to_who_asks),
        cmocka_unit_test(a_cut_holds_the_decision_and_copies_what_was_before_it),
        cmocka_unit_test(a_new_generation_forgets_sums_and_decisions),
        cmocka_unit_test(the_guard_names_what_is_not_finite_or_absurd),
        cmocka_unit_test(the_guard_looks_at_slots_as_they_stand_before_the_step),
        cmocka_unit_test(without_the_guard_nothing_is_found),
        cmocka_unit_test(clipped_steps_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
