/* A worker's session in a job with tables and backup workers: steps may be made without it, and with `redo` only the lead
 * knows what the next one is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/core/session.h"

/* One chunk, which is shard 0's; shard 1 has rows alone. */
enum { SHARDS = 2, ELEMS = 16, LEAVES = 4, BATCHES = 3, EPOCHS = 2 };

struct fixture {
    struct session *s;
    int pulls[SHARDS];
    bool any; /* the last pull */
    uint64_t pulled;
};

static void io_to_shard(void *ctx, uint32_t shard, enum frame_type type, const ProtobufCMessage *m)
{
    struct fixture *f = ctx;
    assert_int_equal(type, FRAME_PULL);
    f->pulls[shard]++;
    f->any = ((const Gradwire__Pull *)m)->any;
    f->pulled = ((const Gradwire__Pull *)m)->step;
}

static void io_push_again(void *ctx, uint32_t shard)
{
    (void)ctx, (void)shard;
}

static void io_ask_again(void *ctx, uint32_t shard, enum session_ask which)
{
    (void)ctx, (void)shard, (void)which;
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
    return msg_generation((struct generation){5, 7});
}

/* This worker has leaves 2 and 3. */
static void deal(struct fixture *f)
{
    Gradwire__Part part = GRADWIRE__PART__INIT, *parts[] = {&part};
    Gradwire__Deal m = GRADWIRE__DEAL__INIT;
    Gradwire__Generation g = generation();
    part.first_leaf = part.leaves = 2;
    m.generation = &g;
    m.version = 1;
    m.parts = parts;
    m.n_parts = 1;
    session_on_chief(f->s, FRAME_DEAL, &m.base);
}

static void open_session(struct fixture *f, bool redo)
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
    settings.update = GRADWIRE__UPDATE__SYNC;
    settings.microbatches = LEAVES;
    settings.batches_per_epoch = BATCHES;
    settings.epochs = EPOCHS;
    settings.replicas_to_aggregate = 1;
    settings.redo = redo;
    m.generation = &g;
    m.uuid = (char *)"job";
    m.incarnation = 1;
    m.plan = &plan;
    m.settings = &settings;
    *f = (struct fixture){0};
    assert_int_equal(session_new(&f->s, &io, f, NULL), ERR_OK);
    assert_int_equal(session_on_welcome(f->s, &m, &anew, &e), ERR_OK);
    for (uint32_t i = 0; i < SHARDS; i++)
        session_on_link_up(f->s, i);
    deal(f);
}

static void reply(struct fixture *f, uint32_t shard, uint64_t step, bool pulled,
                  Gradwire__StepWork *work)
{
    Gradwire__Reply m = GRADWIRE__REPLY__INIT;
    Gradwire__Generation g = generation();
    struct errmsg e;
    uint64_t first;
    bool wanted;
    m.generation = &g;
    m.step = step;
    m.pulled = pulled;
    m.chunks = shard == 0;
    m.made = true;
    m.work = shard == 0 ? work : NULL;
    assert_int_equal(
        session_reply_fits(f->s, shard, &m, m.chunks * ELEMS * sizeof(float), &first, &wanted, &e),
        ERR_OK);
    assert_true(wanted);
    session_on_reply(f->s, shard, &m, wanted);
}

/* Step `step` of epoch `epoch`, which began at `begin`; an extra one trains these leaves. */
static void arrive(struct fixture *f, uint64_t step, bool pulled, uint64_t epoch, uint64_t begin,
                   uint64_t *redo, size_t leaves)
{
    Gradwire__StepWork work = GRADWIRE__STEP_WORK__INIT;
    work.epoch = epoch;
    work.begin = begin;
    work.steps = BATCHES;
    work.redo = redo;
    work.n_redo = leaves;
    for (uint32_t i = 0; i < SHARDS; i++)
        reply(f, i, step, pulled, &work);
    assert_int_equal(session_phase(f->s), SESSION_READY);
}

static void rows(struct fixture *f, uint32_t shard, uint64_t step, bool gone)
{
    Gradwire__RowsAsk ask = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Rows m = GRADWIRE__ROWS__INIT;
    Gradwire__Generation g = generation();
    assert_true(session_ask_head(f->s, shard, ASK_TASK, &ask));
    m.generation = &g;
    m.number = ask.number;
    m.step = step;
    m.gone = gone;
    session_on_rows(f->s, shard, &m);
}

/* The rows are asked for before it begins, and are here. */
static struct session_task compute(struct fixture *f, uint64_t step, uint64_t batch)
{
    struct session_task t = session_task(f->s);
    assert_int_equal(t.kind, TASK_ROWS);
    session_ask_task(f->s, &t);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows(f, i, step, false);
    t = session_task(f->s);
    assert_int_equal(t.kind, TASK_COMPUTE);
    assert_int_equal(t.name, step);
    assert_int_equal(t.batch, batch);
    assert_true(t.first[0] == 2 && t.count[0] == 2);
    return t;
}

/* Epoch 1 began at step 5, as epoch 0 had two extra ones: the batch behind this step's is not the step's number + 1. */
static void a_guess_goes_by_the_batch_and_ends_with_the_epochs_batches(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    uint64_t redo[] = {2, 3, 7};
    open_session(&f, true);
    arrive(&f, 5, true, 1, 5, NULL, 0);
    assert_false(compute(&f, 5, 3).work->redo);
    assert_true(session_guess(f.s, &next));
    assert_true(next.name == 6 && next.batch == 4 && next.first[0] == 2 && next.count[0] == 2);
    session_ask_task(f.s, &next);
    session_computed(f.s);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows(&f, i, 6, false);
    arrive(&f, 6, false, 1, 5, NULL, 0);
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE); /* one exchange */
    assert_true(session_guess(f.s, &next) && next.batch == 5);
    session_ask_task(f.s, &next);
    session_computed(f.s);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows(&f, i, 7, false);
    arrive(&f, 7, false, 1, 5, NULL, 0);
    assert_int_equal(session_task(f.s).kind, TASK_COMPUTE);
    assert_false(session_guess(f.s, &next)); /* the epoch's last batch: extra steps, or none */
    session_computed(f.s);
    arrive(&f, 8, false, 1, 5, redo, 3);
    struct session_task t = compute(&f, 8, 6);
    assert_true(t.work->redo && t.work->count == 3 && t.work->leaf[2] == 7);
    assert_false(session_guess(f.s, &next));
    session_free(f.s);
}

static void without_redo_a_guess_is_the_next_step(void **state)
{
    (void)state;
    struct fixture f;
    struct session_task next;
    open_session(&f, false);
    arrive(&f, 2, true, 0, 0, NULL, 0);
    (void)compute(&f, 2, 2);
    assert_true(session_guess(f.s, &next) && next.name == 3 && next.batch == 3);
    session_free(f.s);
}

/* The others are two steps on: of its rows one shard has those of before, the other one no more. */
static void a_late_worker_whose_rows_are_gone_begins_with_the_newest_step(void **state)
{
    (void)state;
    struct fixture f;
    open_session(&f, true);
    arrive(&f, 0, true, 0, 0, NULL, 0);
    struct session_task t = session_task(f.s);
    assert_int_equal(t.kind, TASK_ROWS);
    session_ask_task(f.s, &t);
    rows(&f, 0, 0, false);
    int before = f.pulls[1];
    rows(&f, 1, 2, true);
    assert_int_equal(session_phase(f.s), SESSION_PULLING);
    assert_true(f.pulls[1] == before + 1 && f.any);
    Gradwire__StepWork work = GRADWIRE__STEP_WORK__INIT;
    reply(&f, 1, 2, true, NULL);
    reply(&f, 0, 1, true, &work); /* has not made the last step yet: it is asked for it */
    assert_true(!f.any && f.pulled == 2 && f.pulls[1] == before + 1);
    reply(&f, 0, 2, true, &work);
    assert_int_equal(session_phase(f.s), SESSION_READY);
    (void)compute(&f, 2, 2);
    session_free(f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guess_goes_by_the_batch_and_ends_with_the_epochs_batches),
        cmocka_unit_test(without_redo_a_guess_is_the_next_step),
        cmocka_unit_test(a_late_worker_whose_rows_are_gone_begins_with_the_newest_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
