/* A worker's session by itself: replies that name different steps, questions that are over, other generations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/core/session.h"

enum { CHUNK = PLAN_CHUNK_MIN_BYTES / 4, CHUNKS = 2, SHARDS = 2 };

struct asked {
    int pulls[SHARDS];
    bool any, averages;
    uint64_t step, number;
};

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type,
                        const ProtobufCMessage *head)
{
    struct asked *asked = ctx;
    const Gradwire__Pull *m = (const Gradwire__Pull *)head;
    assert_int_equal(type, FRAME_PULL);
    asked->pulls[shard]++;
    asked->any = m->any;
    asked->step = m->step;
    asked->averages = m->averages;
    asked->number = m->number;
}

static void io_push_again(void *ctx, uint32_t shard)
{
    (void)ctx;
    (void)shard;
}

static void io_to_chief(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ctx;
    (void)type;
    (void)m;
}

static const struct session_io io = {
    .to_shard = io_to_shard, .push_again = io_push_again, .to_chief = io_to_chief};

/* Two ps of a thread each, two chunks on each; sync, one leaf, and it is mine: parameters are pulled. */
static struct session *open_session_of(struct asked *asked, uint64_t epochs, bool redo)
{
    struct session *s;
    bool anew;
    uint32_t threads[SHARDS] = {1, 1};
    struct errmsg e;
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    Gradwire__Welcome m = GRADWIRE__WELCOME__INIT;
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    plan.elems = SHARDS * CHUNKS * CHUNK;
    plan.threads = threads;
    plan.n_threads = SHARDS;
    settings.update = GRADWIRE__UPDATE__SYNC;
    settings.microbatches = 1;
    settings.batches_per_epoch = 100;
    settings.epochs = epochs;
    settings.redo = redo;
    m.generation = &g;
    m.uuid = (char *)"job";
    m.incarnation = 1;
    m.plan = &plan;
    m.settings = &settings;
    assert_int_equal(session_new(&s, &io, asked, NULL), ERR_OK);
    assert_int_equal(session_on_welcome(s, &m, &anew, &e), ERR_OK);
    for (uint32_t i = 0; i < SHARDS; i++)
        session_on_link_up(s, i);

    Gradwire__Part part = GRADWIRE__PART__INIT, *parts[] = {&part};
    Gradwire__Deal deal = GRADWIRE__DEAL__INIT;
    part.leaves = 1;
    deal.generation = &g;
    deal.version = 1;
    deal.parts = parts;
    deal.n_parts = 1;
    session_on_chief(s, FRAME_DEAL, &deal.base);
    assert_int_equal(session_phase(s), SESSION_PULLING);
    assert_int_equal(asked->pulls[0], 1);
    assert_int_equal(asked->pulls[1], 1);
    assert_true(asked->any);
    return s;
}

static struct session *open_session(struct asked *asked)
{
    return open_session_of(asked, 1, false);
}

struct reply {
    uint32_t shard, first, chunks;
    uint64_t step;
    bool pulled;
};

/* Was it wanted? examples: of the epochs 4 to 6; 0: none */
static bool reply_with_epochs(struct session *s, uint64_t generation, struct reply r,
                              const double examples[3])
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    Gradwire__Generation g = msg_generation((struct generation){generation, 7});
    struct errmsg e;
    uint64_t first_elem;
    bool wanted;
    m.generation = &g;
    m.step = r.step;
    m.pulled = r.pulled;
    m.first_chunk = r.shard * CHUNKS + r.first;
    m.chunks = r.chunks;
    Gradwire__EpochSums epoch[3], *epochs[3];
    for (size_t i = 0; i < 3; i++) {
        epoch[m.n_epochs] = (Gradwire__EpochSums)GRADWIRE__EPOCH_SUMS__INIT;
        epoch[m.n_epochs].epoch = 4 + i;
        epoch[m.n_epochs].examples = examples[i];
        epochs[m.n_epochs] = &epoch[m.n_epochs];
        m.n_epochs += examples[i] > 0;
    }
    m.epochs = epochs;
    assert_int_equal(session_reply_fits(s, r.shard, &m, r.chunks * CHUNK * sizeof(float),
                                        &first_elem, &wanted, &e),
                     ERR_OK);
    session_on_reply(s, r.shard, &m, wanted);
    return wanted;
}

static bool reply(struct session *s, uint64_t generation, struct reply r)
{
    return reply_with_epochs(s, generation, r, (const double[3]){0});
}

static void pulled(struct session *s, uint32_t shard, uint64_t step)
{
    assert_true(reply(s, 5, (struct reply){shard, 0, CHUNKS, step, true}));
}

static void begin_step(struct session *s)
{
    assert_int_equal(session_task(s).kind, TASK_COMPUTE);
    session_computed(s);
    assert_int_equal(session_phase(s), SESSION_PUSHED);
}

/* The smallest is still there wherever it is over, and its missing leaf may be mine. */
static void session_never_computes_on_parameters_of_two_steps(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    pulled(s, 0, 4);
    pulled(s, 1, 3);
    assert_int_equal(session_phase(s), SESSION_PULLING);
    assert_int_equal(asked.pulls[0], 2); /* the one that is ahead, and not the other */
    assert_int_equal(asked.pulls[1], 1);
    assert_false(asked.any);
    assert_int_equal(asked.step, 3);
    pulled(s, 0, 3);
    assert_int_equal(session_phase(s), SESSION_READY);
    assert_int_equal(session_task(s).name, 3);
    session_free(s);
}

static void session_that_others_left_behind_pulls_anew(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    pulled(s, 0, 3);
    pulled(s, 1, 3);
    begin_step(s);
    assert_true(reply(s, 5, (struct reply){0, 0, CHUNKS, 5, false}));
    assert_true(reply(s, 5, (struct reply){1, 0, CHUNKS, 5, false}));
    assert_int_equal(session_phase(s), SESSION_PULLING);
    assert_int_equal(asked.pulls[0], 2);
    assert_int_equal(asked.pulls[1], 2);
    assert_true(asked.any);
    session_free(s);
}

static void session_counts_runs_of_one_step_only(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    pulled(s, 0, 3);
    pulled(s, 1, 3);
    begin_step(s);
    assert_true(reply(s, 5, (struct reply){1, 0, CHUNKS, 4, false}));
    assert_true(reply(s, 5, (struct reply){0, 0, 1, 4, false}));
    assert_true(reply(s, 5, (struct reply){0, 1, 1, 5, false})); /* half of 4 and half of 5 */
    assert_int_equal(session_phase(s), SESSION_PUSHED);
    session_free(s);
}

/* Leaves that a newer deal gives are computed on whole parameters of the step, not on what has begun to change. */
static void session_waits_for_the_answer_to_its_latest_question(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    session_pull_final(s); /* the second question while the first is on its way */
    (void)session_task(s);
    assert_int_equal(asked.pulls[0], 1);
    pulled(s, 0, 3);
    pulled(s, 1, 3);
    assert_int_equal(session_phase(s), SESSION_PULLING);
    assert_false(session_is_final(s));
    assert_int_equal(asked.pulls[0], 2);
    assert_int_equal(asked.pulls[1], 2);
    pulled(s, 0, 4);
    pulled(s, 1, 4);
    assert_true(session_is_final(s));
    session_free(s);
}

/* Was it wanted? */
static bool averages(struct session *s, uint32_t shard, uint64_t step, uint64_t number)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    Gradwire__Generation g = msg_generation((struct generation){5, 7});
    struct errmsg e;
    uint64_t first_elem;
    bool wanted;
    m.generation = &g;
    m.step = step;
    m.averages = true;
    m.number = number;
    m.first_chunk = shard * CHUNKS;
    m.chunks = CHUNKS;
    assert_int_equal(
        session_reply_fits(s, shard, &m, CHUNKS * CHUNK * sizeof(float), &first_elem, &wanted, &e),
        ERR_OK);
    assert_int_equal(first_elem, shard * CHUNKS * CHUNK);
    session_on_reply(s, shard, &m, wanted);
    return wanted;
}

static void session_takes_averages_of_the_step_that_it_holds(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    assert_false(averages(s, 0, 3, 0)); /* nobody asked */
    pulled(s, 0, 3);
    pulled(s, 1, 3);
    session_pull_averages(s);
    assert_true(asked.averages && asked.step == 3 && !asked.any);
    assert_int_equal(session_task(s).kind, TASK_NONE);
    assert_false(averages(s, 0, 3, asked.number - 1)); /* to a question that is over */
    assert_true(averages(s, 0, 3, asked.number));
    session_on_link_down(s, 0);
    int before = asked.pulls[0];
    session_on_link_up(s, 0);
    assert_int_equal(asked.pulls[0], before + 1);
    assert_true(averages(s, 1, 3, asked.number));
    assert_false(session_take_averages(s)); /* replies over the lost connection do not count */
    assert_true(averages(s, 0, 3, asked.number));
    assert_true(session_take_averages(s));
    assert_false(session_take_averages(s)); /* once */
    assert_int_equal(session_task(s).name, 3);
    session_free(s);
}

static void session_pulls_anew_where_a_shard_has_the_averages_no_more(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    pulled(s, 0, 3);
    pulled(s, 1, 3);
    session_pull_averages(s);
    assert_true(averages(s, 0, 5, asked.number));
    assert_true(averages(s, 1, 3, asked.number));
    assert_false(session_take_averages(s));
    assert_int_equal(session_phase(s), SESSION_PULLING);
    assert_true(asked.any && !asked.averages);
    session_free(s);
}

static void session_drops_replies_of_another_generation(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    assert_false(reply(s, 4, (struct reply){0, 0, CHUNKS, 9, true}));
    assert_false(reply(s, 6, (struct reply){1, 0, CHUNKS, 9, true}));
    assert_int_equal(session_phase(s), SESSION_PULLING);
    session_free(s);
}

/* sync.dropped: redo: the lead says with the parameters what the step is made of. */
static void reply_of_work(struct session *s, uint64_t step, uint64_t epoch, uint64_t begin,
                          size_t redo)
{
    static uint64_t leaf[] = {99};
    for (uint32_t i = 0; i < SHARDS; i++) {
        Gradwire__Reply m = GRADWIRE__REPLY__INIT;
        Gradwire__Generation g = msg_generation((struct generation){5, 7});
        Gradwire__StepWork work = GRADWIRE__STEP_WORK__INIT;
        work.epoch = epoch;
        work.begin = begin;
        work.steps = 101;
        work.redo = leaf;
        work.n_redo = redo;
        m.generation = &g;
        m.step = step;
        m.pulled = session_phase(s) == SESSION_PULLING;
        m.first_chunk = i * CHUNKS;
        m.chunks = CHUNKS;
        m.work = i == 0 ? &work : NULL;
        session_on_reply(s, i, &m, true);
    }
}

static void session_is_told_what_a_step_is_made_of(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session_of(&asked, 2, true);
    reply_of_work(s, 100, 0, 0, 1); /* the epoch's 100 batches are over */
    assert_int_equal(session_place(s).steps, 100);
    struct session_task t = session_task(s);
    assert_int_equal(t.name, 100);
    assert_true(t.work && t.work->redo);
    assert_int_equal(t.work->count, 1);
    assert_int_equal(t.work->leaf[0], 99);
    session_computed(s);
    reply_of_work(s, 101, 1, 101, 0);
    t = session_task(s);
    assert_int_equal(t.name, 101);
    assert_int_equal(t.batch, 100);
    assert_false(t.work->redo);
    session_computed(s);
    reply_of_work(s, 102, 2, 102, 0); /* the job's end, wherever it is */
    assert_true(session_is_at_end(s));
    assert_int_equal(session_place(s).epochs, 2);
    assert_int_equal(session_task(s).kind, TASK_NONE);
    session_free(s);
}

static void session_that_is_not_told_computes_nothing(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session_of(&asked, 1, true);
    pulled(s, 0, 3);
    pulled(s, 1, 3);
    assert_int_equal(session_phase(s), SESSION_READY);
    assert_int_equal(session_task(s).kind, TASK_NONE);
    session_free(s);
}

static void session_says_which_shard_it_is_not_connected_to_in_each_phase(void **state)
{
    (void)state;
    struct asked asked = {0};
    char text[200];
    struct session *s = open_session(&asked);
    session_waits_for(s, text, sizeof text);
    assert_string_equal(text, "step 0: waiting for parameters of shard 0 on ps 0");
    pulled(s, 0, 3);
    pulled(s, 1, 3);
    session_on_link_down(s, 1);
    session_waits_for(s, text, sizeof text);
    assert_string_equal(text,
                        "step 3: waiting for a connection to shard 1 on ps 1 (not connected)");
    assert_int_equal(session_task(s).kind, TASK_COMPUTE);
    session_waits_for(s, text, sizeof text);
    assert_string_equal(text,
                        "step 3: waiting for a connection to shard 1 on ps 1 (not connected)");
    session_on_link_up(s, 1);
    session_waits_for(s, text, sizeof text);
    assert_string_equal(text, "waiting for no other process");
    session_free(s);
}

static void session_counts_the_examples_of_all_workers_from_its_first_reply_on(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct session *s = open_session(&asked);
    assert_true(
        reply_with_epochs(s, 5, (struct reply){0, 0, 1, 0, true}, (const double[3]){100, 40}));
    assert_float_equal(session_examples(s), 0, 0);
    assert_true(
        reply_with_epochs(s, 5, (struct reply){0, 1, 1, 0, true}, (const double[3]){107, 50, 3}));
    assert_float_equal(session_examples(s), 20, 0);
    assert_true(reply_with_epochs(s, 5, (struct reply){1, 0, 1, 0, true},
                                  (const double[3]){0, 50, 2})); /* trained again */
    assert_float_equal(session_examples(s), 20, 0);
    assert_true(
        reply_with_epochs(s, 5, (struct reply){1, 1, 1, 0, true}, (const double[3]){0, 60, 4}));
    assert_float_equal(session_examples(s), 32, 0);
    session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_counts_the_examples_of_all_workers_from_its_first_reply_on),
        cmocka_unit_test(session_never_computes_on_parameters_of_two_steps),
        cmocka_unit_test(session_that_others_left_behind_pulls_anew),
        cmocka_unit_test(session_counts_runs_of_one_step_only),
        cmocka_unit_test(session_waits_for_the_answer_to_its_latest_question),
        cmocka_unit_test(session_takes_averages_of_the_step_that_it_holds),
        cmocka_unit_test(session_pulls_anew_where_a_shard_has_the_averages_no_more),
        cmocka_unit_test(session_drops_replies_of_another_generation),
        cmocka_unit_test(session_is_told_what_a_step_is_made_of),
        cmocka_unit_test(session_that_is_not_told_computes_nothing),
        cmocka_unit_test(session_says_which_shard_it_is_not_connected_to_in_each_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
