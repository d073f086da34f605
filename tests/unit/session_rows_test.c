/* A worker's session in a job with tables: rows are asked for and awaited, shards without chunks answer too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rows/key.h"
#include "worker/core/session.h"

/* One chunk, which is shard 0's; shard 1 has rows alone. */
enum { SHARDS = 2, ELEMS = 16, GENERATION = 5, LEAVES = 2 };

struct fixture {
    struct session *s;
    int pulls[SHARDS], pushed_again[SHARDS], asked_again[SHARDS], looked_again[SHARDS];
    int enters, idles;
    uint64_t clock, number; /* of the last pull */
    bool any;
};

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    f->enters += type == FRAME_TICK && ((const Gradwire__Tick *)m)->enter;
    f->idles += type == FRAME_TICK && ((const Gradwire__Tick *)m)->idle;
    if (type == FRAME_TICK)
        return;
    assert_int_equal(type, FRAME_PULL);
    f->pulls[shard]++;
    f->clock = ((const Gradwire__Pull *)m)->clock;
    f->number = ((const Gradwire__Pull *)m)->number;
    f->any = ((const Gradwire__Pull *)m)->any;
}

static void io_push_again(void *ctx, uint32_t shard)
{
    ((struct fixture *)ctx)->pushed_again[shard]++;
}

static void io_ask_again(void *ctx, uint32_t shard, enum session_ask which)
{
    struct fixture *f = ctx;
    int *again = which == ASK_TASK ? f->asked_again : f->looked_again;
    again[shard]++;
}

static void io_to_chief(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    (void)ctx, (void)type, (void)m;
}

static const struct session_io io = {.to_shard = io_to_shard,
                                     .push_again = io_push_again,
                                     .ask_again = io_ask_again,
                                     .to_chief = io_to_chief};

static Gradwire__Generation generation(void)
{
    return msg_generation((struct generation){GENERATION, 7});
}

static void deal(struct fixture *f, uint64_t version, uint32_t first, uint32_t leaves)
{
    Gradwire__Part part = GRADWIRE__PART__INIT, *parts[] = {&part};
    Gradwire__Deal m = GRADWIRE__DEAL__INIT;
    Gradwire__Generation g = generation();
    part.first_leaf = first;
    part.leaves = leaves;
    m.generation = &g;
    m.version = version;
    m.parts = parts;
    m.n_parts = 1;
    session_on_chief(f->s, FRAME_DEAL, &m.base);
}

static void lease(struct fixture *f, uint64_t first, uint64_t count)
{
    Gradwire__Range range = GRADWIRE__RANGE__INIT, *ranges[] = {&range};
    Gradwire__Lease m = GRADWIRE__LEASE__INIT;
    Gradwire__Generation g = generation();
    range.first = first;
    range.count = count;
    m.generation = &g;
    m.ranges = ranges;
    m.n_ranges = 1;
    session_on_chief(f->s, FRAME_LEASE, &m.base);
}

static void open_session(struct fixture *f, Gradwire__Update update)
{
    bool anew;
    uint32_t threads[SHARDS] = {1, 1};
    struct errmsg e;
    Gradwire__Table table = GRADWIRE__TABLE__INIT, *tables[] = {&table};
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    Gradwire__Welcome m = GRADWIRE__WELCOME__INIT;
    Gradwire__Generation g = generation();
    plan.elems = ELEMS;
    plan.threads = threads;
    plan.n_threads = SHARDS;
    plan.tables = tables;
    plan.n_tables = 1;
    settings.update = update;
    settings.microbatches = LEAVES;
    settings.batches_per_epoch = 100;
    settings.epochs = 1;
    m.generation = &g;
    m.uuid = (char *)"job";
    m.incarnation = 1;
    m.plan = &plan;
    m.settings = &settings;
    *f = (struct fixture){0};
    assert_int_equal(session_new(&f->s, &io, f, NULL), ERR_OK);
    assert_int_equal(session_on_welcome(f->s, &m, &anew, &e), ERR_OK);
    assert_int_equal(session_terms(f->s)->plan.shards, SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++)
        session_on_link_up(f->s, i);
    if (update == GRADWIRE__UPDATE__SYNC)
        deal(f, 1, 0, LEAVES);
    else
        lease(f, 10, 3);
    if (update != GRADWIRE__UPDATE__SSP)
        assert_int_equal(session_phase(f->s), SESSION_PULLING);
}

struct reply {
    uint32_t shard, chunks, parts;
    uint64_t step, name;
    bool pulled, made, bare;
    uint64_t number, clock, entry;
};

/* Was it wanted? */
static bool reply(struct fixture *f, struct reply r)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    Gradwire__Generation g = generation();
    struct errmsg e;
    uint64_t first;
    bool wanted;
    m.generation = &g;
    m.step = r.step;
    m.name = r.name;
    m.pulled = r.pulled;
    m.chunks = r.chunks;
    m.parts = r.parts;
    m.made = r.made;
    m.number = r.number;
    m.bounded = r.number > 0;
    m.clock = r.clock;
    m.entry = r.entry;
    uint64_t bytes = r.bare ? 0 : r.chunks * ELEMS * sizeof(float);
    assert_int_equal(session_reply_fits(f->s, r.shard, &m, bytes, &first, &wanted, &e), ERR_OK);
    session_on_reply(f->s, r.shard, &m, wanted);
    return wanted;
}

static void pulled(struct fixture *f, uint64_t step)
{
    assert_true(reply(f, (struct reply){0, 1, 0, step, .pulled = true, .made = true}));
    assert_int_equal(session_phase(f->s), SESSION_PULLING);
    assert_true(reply(f, (struct reply){1, 0, 0, step, .pulled = true, .made = true}));
    assert_int_equal(session_phase(f->s), SESSION_READY);
}

/* The number that the shard's ask has; 0: there is none. */
static uint64_t ask_number(struct fixture *f, uint32_t shard, uint64_t step)
{
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    if (!session_ask_head(f->s, shard, ASK_TASK, &m))
        return 0;
    assert_int_equal(m.step, step);
    return m.number;
}

static void rows(struct fixture *f, uint32_t shard, uint64_t number, uint64_t step, bool gone)
{
    Gradwire__Rows m = GRADWIRE__ROWS__INIT;
    Gradwire__Generation g = generation();
    m.generation = &g;
    m.number = number;
    m.step = step;
    m.gone = gone;
    session_on_rows(f->s, shard, &m);
}

/* Up to the computation of the first step, whose rows were asked for. */
static void begin_step(struct fixture *f, uint64_t step)
{
    struct session_task t;
    pulled(f, step);
    t = session_task(f->s);
    assert_int_equal(t.kind, TASK_ROWS);
    session_ask_task(f->s, &t);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows(f, i, ask_number(f, i, step), step, false);
    t = session_task(f->s);
    assert_int_equal(t.kind, TASK_COMPUTE);
    assert_int_equal(t.name, step);
}

static void a_task_waits_for_its_rows_from_every_shard(void **state)
{
    (void)state;
    struct fixture f;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    pulled(&f, 7);
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_ROWS);
    assert_int_equal(t.count[0], LEAVES);
    session_ask_task(f.s, &t);
    uint64_t number = ask_number(&f, 0, 7);
    assert_true(number > 0 && ask_number(&f, 1, 7) == number);
    rows(&f, 0, number, 7, false);
    assert_int_equal(ask_number(&f, 0, 7), 0); /* answered: it is not asked again */
    assert_int_equal(session_task(f.s).kind, TASK_NONE);
    rows(&f, 1, number - 1, 7, false); /* of another ask */
    assert_int_equal(session_task(f.s).kind, TASK_NONE);
    rows(&f, 1, number, 6, false); /* of another step: as if it were gone */
    assert_int_equal(session_phase(f.s), SESSION_PULLING);
    session_free(f.s);
}

/* The evaluation's request to this shard; number 0: there is none. */
static Gradwire__RowsAsk look_at(struct fixture *f, uint32_t shard)
{
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    if (!session_ask_head(f->s, shard, ASK_LOOK, &m))
        m.number = 0;
    return m;
}

/* After a takeover one shard may have made the step behind the evaluated one, and another not. */
static void in_sync_an_evaluation_reads_the_rows_of_its_step(void **state)
{
    (void)state;
    struct fixture f;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    pulled(&f, 7);
    session_ask_look(f.s);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_true(!look_at(&f, i).any && look_at(&f, i).step == 7);
        rows(&f, i, look_at(&f, i).number, 7, false);
    }
    assert_true(session_look_is_here(f.s));
    session_free(f.s);
    open_session(&f, GRADWIRE__UPDATE__ASYNC);
    pulled(&f, 7);
    session_ask_look(f.s);
    assert_true(look_at(&f, 0).any);
    session_free(f.s);
}

static void an_evaluation_whose_step_is_gone_reads_the_rows_that_are_there(void **state)
{
    (void)state;
    struct fixture f;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    pulled(&f, 7);
    session_ask_look(f.s);
    uint64_t number = look_at(&f, 0).number;
    rows(&f, 0, number, 9, true);
    assert_false(session_look_is_here(f.s));
    assert_int_equal(f.looked_again[0], 1);
    assert_true(look_at(&f, 0).any && look_at(&f, 0).number == number);
    rows(&f, 1, number, 7, false); /* an answer to the first request is taken, too */
    rows(&f, 0, number, 9, false);
    assert_true(session_look_is_here(f.s));
    assert_int_equal(session_phase(f.s), SESSION_READY);
    session_free(f.s);
}

static void a_right_guess_needs_no_second_ask(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    begin_step(&f, 0);
    assert_true(session_guess(f.s, &next));
    assert_int_equal(next.name, 1);
    session_ask_task(f.s, &next);
    session_computed(f.s);
    rows(&f, 1, ask_number(&f, 1, 1), 1, false);
    assert_true(reply(&f, (struct reply){0, 1, 0, 1, .made = true}));
    assert_true(reply(&f, (struct reply){1, 0, 0, 1, .made = true}));
    assert_int_equal(session_task(f.s).kind, TASK_NONE); /* shard 0's rows */
    rows(&f, 0, ask_number(&f, 0, 1), 1, false);
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE);
    session_free(f.s);
}

/* Not the one that leaves with it; an evaluation's is not kept, and a new connection has none. */
static void a_push_names_the_ask_whose_rows_its_task_has(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    assert_int_equal(session_push_ask(f.s, 0), 0);
    begin_step(&f, 0);
    uint64_t own = session_push_ask(f.s, 0);
    assert_true(own > 0 && session_guess(f.s, &next));
    session_ask_task(f.s, &next);
    uint64_t guessed = ask_number(&f, 0, 1);
    assert_true(guessed > own && ask_number(&f, 1, 1) == guessed);
    session_computed(f.s);
    assert_true(session_push_ask(f.s, 0) == own && session_push_ask(f.s, 1) == own);
    session_on_link_down(f.s, 1);
    assert_int_equal(session_push_ask(f.s, 1), 0);
    session_on_link_up(f.s, 1);
    assert_int_equal(session_push_ask(f.s, 1), 0);
    assert_int_equal(ask_number(&f, 1, 1), guessed);
    assert_int_equal(session_push_ask(f.s, 1), 0);
    session_ask_look(f.s);
    for (int i = 0; i < 3; i++) {
        Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
        assert_true(session_ask_head(f.s, 0, ASK_LOOK, &m) && m.once && m.number > guessed);
    }
    assert_int_equal(session_push_ask(f.s, 0), own);
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    assert_true(session_ask_head(f.s, 0, ASK_TASK, &m) && !m.once);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows(&f, i, guessed, 1, false);
    assert_true(reply(&f, (struct reply){0, 1, 0, 1, .made = true}));
    assert_true(reply(&f, (struct reply){1, 0, 0, 1, .made = true}));
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE);
    assert_true(session_push_ask(f.s, 0) == guessed && session_push_ask(f.s, 1) == guessed);
    session_free(f.s);
}

static void a_deal_that_changed_after_the_ask_is_asked_for_anew(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    begin_step(&f, 0);
    assert_true(session_guess(f.s, &next));
    session_ask_task(f.s, &next);
    uint64_t guessed = ask_number(&f, 0, 1);
    session_computed(f.s);
    deal(&f, 2, 1, 1);
    assert_true(reply(&f, (struct reply){0, 1, 0, 1, .made = true}));
    assert_true(reply(&f, (struct reply){1, 0, 0, 1, .made = true}));
    for (uint32_t i = 0; i < SHARDS; i++)
        rows(&f, i, guessed, 1, false);
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_ROWS);
    assert_int_equal(t.first[0], 1);
    session_ask_task(f.s, &t);
    assert_true(ask_number(&f, 0, 1) > guessed);
    session_free(f.s);
}

static void a_step_whose_rows_are_gone_is_pulled_anew(void **state)
{
    (void)state;
    struct fixture f;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    pulled(&f, 3);
    struct session_task t = session_task(f.s);
    session_ask_task(f.s, &t);
    rows(&f, 1, ask_number(&f, 1, 3), 5, true);
    assert_int_equal(session_phase(f.s), SESSION_PULLING);
    assert_true(f.any);
    begin_step(&f, 5);
    session_free(f.s);
}

static void a_step_is_not_taken_before_every_shard_has_made_it(void **state)
{
    (void)state;
    struct fixture f;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    begin_step(&f, 0);
    session_computed(f.s);
    assert_true(reply(&f, (struct reply){1, 0, 0, 1, .made = true}));
    assert_true(reply(&f, (struct reply){.chunks = 1, .step = 1}));
    assert_int_equal(session_phase(f.s), SESSION_PUSHED); /* shard 0 has parts that are not made */
    assert_true(reply(&f, (struct reply){0, 0, 0, 1, .made = true}));
    assert_int_equal(session_phase(f.s), SESSION_READY);
    session_free(f.s);
}

static void a_new_connection_is_asked_for_what_it_has_not_answered(void **state)
{
    (void)state;
    struct fixture f;
    open_session(&f, GRADWIRE__UPDATE__SYNC);
    pulled(&f, 0);
    struct session_task t = session_task(f.s);
    session_ask_task(f.s, &t);
    rows(&f, 0, ask_number(&f, 0, 0), 0, false);
    for (uint32_t i = 0; i < SHARDS; i++) {
        session_on_link_down(f.s, i);
        assert_int_equal(ask_number(&f, i, 0), 0);
        session_on_link_up(f.s, i);
    }
    assert_int_equal(f.asked_again[0], 0);
    assert_int_equal(f.asked_again[1], 1);
    rows(&f, 1, ask_number(&f, 1, 0), 0, false);
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE);
    session_free(f.s);
}

static void an_async_push_is_answered_when_all_parts_are(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    open_session(&f, GRADWIRE__UPDATE__ASYNC);
    pulled(&f, 0);
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_ROWS);
    session_ask_task(f.s, &t);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows(&f, i, ask_number(&f, i, 0), 0, false);
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE);
    assert_true(session_guess(f.s, &next) && next.name == 11);
    session_computed(f.s);
    assert_true(reply(&f, (struct reply){0, 1, 0, 1, .name = 10}));
    assert_true(reply(&f, (struct reply){1, 0, ROW_PARTS, 1, .name = 10}));
    assert_true(reply(&f, (struct reply){0, 0, ROW_PARTS - 1, 1, .name = 10}));
    assert_int_equal(session_phase(f.s), SESSION_PUSHED);
    assert_false(reply(&f, (struct reply){0, 0, 1, 1, .name = 9})); /* of another push */
    assert_true(reply(&f, (struct reply){0, 0, 1, 1, .name = 10}));
    assert_int_equal(session_phase(f.s), SESSION_READY);
    session_free(f.s);
}

/* Entered at this clock, and the pull at it is answered. */
static void enter_ssp(struct fixture *f, uint64_t entry, uint64_t clock)
{
    assert_int_equal(f->enters, (int)entry * SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++)
        assert_true(reply(f, (struct reply){.shard = i, .entry = entry, .clock = clock}));
    assert_int_equal(f->clock, clock);
    assert_true(reply(f, (struct reply){0, 1, .pulled = true, .made = true, .number = f->number}));
    assert_true(reply(f, (struct reply){1, 0, .pulled = true, .made = true, .number = f->number}));
    assert_int_equal(session_phase(f->s), SESSION_READY);
}

/* The clock in the request to this shard. */
static bool ask_bounded(struct fixture *f, uint32_t shard, uint64_t *clock, uint64_t *number)
{
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    bool there = session_ask_head(f->s, shard, ASK_TASK, &m);
    *clock = m.bounded ? m.clock : UINT64_MAX;
    *number = m.number;
    return there;
}

static void compute_ssp(struct fixture *f, uint64_t name)
{
    struct session_task t = session_task(f->s);
    uint64_t clock, number;
    assert_int_equal(t.kind, TASK_ROWS);
    assert_int_equal(t.name, name);
    session_ask_task(f->s, &t);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_true(ask_bounded(f, i, &clock, &number) && clock == UINT64_MAX);
        rows(f, i, number, 0, false);
    }
    assert_int_equal(session_task(f->s).kind, TASK_COMPUTE);
}

/* With the push, at the clock of the pull behind it; a connection that gets its push later gets the ask behind it. */
static void ssp_asks_for_the_next_rows_at_the_clock_of_the_next_pull(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    uint64_t clock, number;
    open_session(&f, GRADWIRE__UPDATE__SSP);
    enter_ssp(&f, 1, 7);
    compute_ssp(&f, 10);
    session_on_link_down(f.s, 1);
    session_on_link_up(f.s, 1);
    assert_true(session_guess(f.s, &next) && next.name == 11);
    session_ask_task(f.s, &next);
    assert_true(ask_bounded(&f, 0, &clock, &number) && clock == 8);
    assert_false(ask_bounded(&f, 1, &clock, &number)); /* the shard lacks batch 10 */
    session_computed(f.s);
    assert_int_equal(f.clock, 8);
    assert_int_equal(f.pushed_again[1], 1);
    assert_int_equal(f.asked_again[0], 0);
    assert_int_equal(f.asked_again[1], 1);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_true(ask_bounded(&f, i, &clock, &number) && clock == 8);
        rows(&f, i, number, 1, false);
    }
    assert_true(reply(&f, (struct reply){0, 1, 0, 1, .name = 10, .bare = true}));
    assert_true(reply(&f, (struct reply){0, 0, ROW_PARTS, 1, .name = 10}));
    assert_true(reply(&f, (struct reply){1, 0, ROW_PARTS, 1, .name = 10}));
    assert_true(reply(&f, (struct reply){0, 1, .pulled = true, .made = true, .number = f.number}));
    assert_true(reply(&f, (struct reply){1, 0, .pulled = true, .made = true, .number = f.number}));
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_COMPUTE); /* one exchange */
    assert_int_equal(t.name, 11);
    session_free(f.s);
}

/* Told to go, it pulls no more: nothing is asked for at a clock that it does not come to. */
static void ssp_guesses_nothing_where_no_pull_follows(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    open_session(&f, GRADWIRE__UPDATE__SSP);
    enter_ssp(&f, 1, 0);
    compute_ssp(&f, 10);
    assert_true(session_guess(f.s, &next));
    session_go(f.s);
    assert_false(session_guess(f.s, &next));
    session_computed(f.s);
    assert_int_equal(f.idles, SHARDS);
    session_free(f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_waits_for_its_rows_from_every_shard),
        cmocka_unit_test(in_sync_an_evaluation_reads_the_rows_of_its_step),
        cmocka_unit_test(an_evaluation_whose_step_is_gone_reads_the_rows_that_are_there),
        cmocka_unit_test(a_right_guess_needs_no_second_ask),
        cmocka_unit_test(a_push_names_the_ask_whose_rows_its_task_has),
        cmocka_unit_test(a_deal_that_changed_after_the_ask_is_asked_for_anew),
        cmocka_unit_test(a_step_whose_rows_are_gone_is_pulled_anew),
        cmocka_unit_test(a_step_is_not_taken_before_every_shard_has_made_it),
        cmocka_unit_test(a_new_connection_is_asked_for_what_it_has_not_answered),
        cmocka_unit_test(ssp_asks_for_the_next_rows_at_the_clock_of_the_next_pull),
        cmocka_unit_test(ssp_guesses_nothing_where_no_pull_follows),
        cmocka_unit_test(an_async_push_is_answered_when_all_parts_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
