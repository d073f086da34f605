/* Backup workers, the chief by itself: two ps of a shard each, three workers with the leaves 0-2, 3-5 and 6-7. The
 * chief waits for two of the workers. */
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

enum { PS = 2, LEAVES = 8, WORKERS = 3, PER_EPOCH = 10, REJOIN_S = 30 };

struct fixture {
    struct chief *chief;
    struct layout layout;
    struct generation entered;
    int decisions[PS], asks[PS];
    uint64_t step;   /* of the last decision */
    uint32_t leaves; /* it accepts, as bits */
    int64_t now_ms;
};

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *message)
{
    struct fixture *f = ctx;
    if (type == FRAME_ENTER)
        f->entered = msg_generation_get(((const Gradwire__Enter *)message)->generation);
    f->asks[ps] += type == FRAME_STEP_ASK;
    const Gradwire__StepDecision *m = (const Gradwire__StepDecision *)message;
    if (type != FRAME_STEP_DECISION || m->round != GRADWIRE__ROUND__ACCEPT)
        return;
    f->decisions[ps]++;
    f->step = m->step;
    assert_int_equal(m->accepted.len, 1);
    f->leaves = m->accepted.data[0];
}

static const struct chief_io io = {.to_ps = io_to_ps,
                                   .to_worker = quiet_to_worker,
                                   .find_cut = quiet_find_no_cut,
                                   .publish = quiet_publish,
                                   .discard = quiet_discard,
                                   .finish = quiet_finish,
                                   .ended = quiet_never_ends,
                                   .say = quiet_say,
                                   .restored = quiet_restored,
                                   .random = quiet_random,
                                   .journal = quiet_journal};

/* `before`: the generation of the ps, 0: they are empty. */
static void open_fixture(struct fixture *f, uint64_t before)
{
    struct errmsg e;
    struct tensor t = {.name = "w", .rank = 1, .shape = {4096}, .init = INIT_ZEROS};
    *f = (struct fixture){.now_ms = 1000};
    assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    struct chief_config config = {.layout = &f->layout,
                                  .settings = GRADWIRE__SETTINGS__INIT,
                                  .ps = PS,
                                  .workers = WORKERS,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = REJOIN_S,
                                  .timeouts.ps_rejoin_s = 600};
    config.settings.microbatches = LEAVES;
    config.settings.batches_per_epoch = PER_EPOCH;
    config.settings.epochs = 2;
    config.settings.replicas_to_aggregate = 2;
    assert_int_equal(chief_new(&f->chief, &config, &io, f, f->now_ms, &e), ERR_OK);
    for (uint32_t i = 0; i < PS; i++)
        quiet_ps_up(f->chief, i, before, f->now_ms);
    quiet_entered(f->chief, PS, f->entered, f->now_ms);
    assert_int_equal(f->chief->plan.shards, PS);
}

static void close_fixture(struct fixture *f)
{
    chief_free(f->chief);
    layout_close(&f->layout);
}

/* The nodes that are whole, with those above whose two halves are: as (level, index), ended by level 9. */
static struct tree_nodes nodes_of(const struct tree_node *node)
{
    struct tree_nodes s = {{0}};
    for (; node->level < TREE_LEVELS_MAX; node++)
        for (uint32_t bit = tree_node_bit(LEAVES, *node); bit;) {
            s.bits[0] |= UINT64_C(1) << bit;
            bit = tree_has_node(&s, bit ^ 1) ? bit / 2 : 0;
        }
    return s;
}

#define NODES(...) ((const struct tree_node[]){__VA_ARGS__, {TREE_LEVELS_MAX, 0}})
#define PART_0                                                                                     \
    {1, 0},                                                                                        \
    {                                                                                              \
        0, 2                                                                                       \
    }
#define PART_1                                                                                     \
    {0, 3},                                                                                        \
    {                                                                                              \
        1, 2                                                                                       \
    }
#define PART_2                                                                                     \
    {                                                                                              \
        1, 3                                                                                       \
    }
enum { BITS_0 = 0x07, BITS_1 = 0x38, BITS_2 = 0xc0 };

static void report_last(struct fixture *f, uint32_t shard, uint64_t step,
                        const struct tree_node *node, const Gradwire__StepDecision *last)
{
    Gradwire__StepReport m = GRADWIRE__STEP_REPORT__INIT;
    Gradwire__Generation g = msg_generation(f->entered);
    const struct tree_nodes whole = node ? nodes_of(node) : (struct tree_nodes){{0}};
    uint8_t bytes[2 * LEAVES / 8];
    m.generation = &g;
    m.shard = shard;
    m.step = step;
    m.round = GRADWIRE__ROUND__ACCEPT;
    m.whole.data = bytes;
    m.whole.len = node ? tree_pack(whole.bits, 2 * LEAVES, bytes) : 0;
    m.last = (Gradwire__StepDecision *)last;
    chief_on_ps(f->chief, shard, FRAME_STEP_REPORT, &m.base, f->now_ms);
}

static void report(struct fixture *f, uint32_t shard, uint64_t step, const struct tree_node *node)
{
    report_last(f, shard, step, node, NULL);
}

static void the_set_is_closed_when_enough_workers_are_whole_on_every_shard(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    report(&f, 0, 0, NODES(PART_0, PART_2));
    report(&f, 1, 0, NODES(PART_0));
    assert_int_equal(f.decisions[0], 0); /* worker 2 is whole on one of them */
    report(&f, 1, 0, NODES(PART_0, PART_1));
    assert_int_equal(f.decisions[0], 0); /* nor on both is any other one */
    report(&f, 1, 0, NODES(PART_0, PART_1, PART_2));
    assert_int_equal(f.decisions[0], 1);
    assert_int_equal(f.decisions[1], 1);
    assert_int_equal(f.step, 0);
    assert_int_equal(f.leaves, BITS_0 | BITS_2); /* worker 1 was late on shard 0 */
    assert_int_equal(chief_dropped(f.chief, 0), 0);
    assert_int_equal(chief_dropped(f.chief, 1), 3);
    assert_int_equal(chief_dropped(f.chief, 2), 0);
    report(&f, 0, 0, NODES(PART_0, PART_1, PART_2)); /* it comes too late: sent again, the same */
    assert_int_equal(f.decisions[0], 2);
    assert_int_equal(f.decisions[1], 1);
    assert_int_equal(f.leaves, BITS_0 | BITS_2);
    assert_int_equal(chief_dropped(f.chief, 1), 3);
    close_fixture(&f);
}

/* Leaf 2 came with leaf 3 of a former deal: what cannot be taken apart is accepted whole, though worker 1 has not all. */
static void a_node_of_a_former_deal_is_not_taken_apart(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, 0, NODES({1, 0}, {1, 1}, PART_2));
    assert_int_equal(f.decisions[0], 1);
    assert_int_equal(f.leaves, BITS_0 | 0x08 | BITS_2);
    assert_int_equal(chief_dropped(f.chief, 1), 2);
    close_fixture(&f);
}

/* If one shard has a whole node and the other its halves, only that node is whole on both. */
static void a_node_counts_where_every_shard_can_make_it(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    report(&f, 0, 0, NODES({2, 0}, PART_2));
    report(&f, 1, 0, NODES({0, 0}, {0, 1}, {0, 2}, PART_2));
    assert_int_equal(f.decisions[0],
                     0); /* leaf 3 is not there on shard 1, and 0 to 2 alone not on shard 0 */
    report(&f, 1, 0, NODES({0, 0}, {0, 1}, {0, 2}, {0, 3}, PART_2));
    assert_int_equal(f.decisions[0], 1);
    assert_int_equal(f.leaves, 0x0f | BITS_2);
    close_fixture(&f);
}

/* The chief waits for a lost worker as long as its place is kept; then only the others get work. */
static void no_more_workers_are_waited_for_than_are_dealt(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    open_fixture(&f, 0);
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    assert_int_equal(chief_on_worker_up(f.chief, 0, &hello, f.now_ms, &e), ERR_OK);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, 0, NODES(PART_0));
    f.now_ms += (REJOIN_S - 1) * 1000;
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.decisions[0], 0);
    f.now_ms += 2000; /* workers 1 and 2 lose their places: all leaves are worker 0's */
    chief_tick(f.chief, f.now_ms);
    assert_int_equal(f.decisions[0], 0);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, 0, NODES(PART_0, PART_1, PART_2));
    assert_int_equal(f.decisions[0], 1);
    assert_int_equal(f.leaves, 0xff);
    close_fixture(&f);
}

static void leaves_of_a_former_deal_count_for_who_has_them_now(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, 0, NODES({2, 1}));
    assert_int_equal(f.decisions[0], 0); /* worker 2's and two of worker 1's */
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, 0, NODES({2, 1}, {1, 0}, {0, 3}));
    assert_int_equal(f.decisions[0], 1);
    assert_int_equal(f.leaves, BITS_1 | BITS_2);
    close_fixture(&f);
}

static void a_new_chief_takes_the_set_of_the_former_one(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 4);
    assert_int_equal(f.asks[0], 1);
    uint8_t accepted = BITS_1 | BITS_2;
    Gradwire__StepDecision last = GRADWIRE__STEP_DECISION__INIT;
    last.step = 3;
    last.round = GRADWIRE__ROUND__ACCEPT;
    last.accepted.data = &accepted;
    last.accepted.len = 1;
    report(&f, 1, 3, NODES(PART_0, PART_1, PART_2));
    assert_int_equal(f.decisions[1], 0); /* shard 0 may know more */
    report_last(&f, 0, 4, NODES(PART_0), &last);
    assert_int_equal(f.decisions[1], 1);
    assert_int_equal(f.step, 3);
    assert_int_equal(f.leaves, BITS_1 | BITS_2);
    report(&f, 1, 4, NODES(PART_0, PART_1));
    assert_int_equal(f.step, 3); /* one worker is whole on both */
    report(&f, 0, 4, NODES(PART_0, PART_1));
    assert_int_equal(f.step, 4);
    assert_int_equal(f.leaves, BITS_0 | BITS_1);
    close_fixture(&f);
}

static void a_ps_that_is_there_again_hears_the_last_set(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, 0, NODES(PART_0, PART_1));
    chief_on_ps_down(f.chief, 1, f.now_ms);
    quiet_ps_up(f.chief, 1, 1, f.now_ms);
    assert_int_equal(f.decisions[1], 2);
    assert_int_equal(f.asks[1], 1);
    assert_int_equal(f.leaves, BITS_0 | BITS_1);
    close_fixture(&f);
}

/* It may be the slow one, and what an epoch's end decides must come first. */
static void an_epoch_begins_when_the_chief_has_evaluated_the_one_before(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, PER_EPOCH, NODES(PART_1, PART_2));
    assert_int_equal(f.decisions[0], 0);
    chief_on_step(f.chief, PER_EPOCH - 1, f.now_ms);
    assert_int_equal(f.decisions[0], 0);
    chief_on_step(f.chief, PER_EPOCH, f.now_ms);
    assert_int_equal(f.decisions[0], 1);
    assert_int_equal(f.leaves, BITS_1 | BITS_2);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, PER_EPOCH + 1, NODES(PART_1, PART_2));
    assert_int_equal(f.decisions[0], 2); /* the next steps do not wait for it */
    close_fixture(&f);
}

static void no_step_is_made_after_the_last(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    chief_enough(f.chief, PER_EPOCH, f.entered.number, f.now_ms); /* early stopping */
    chief_on_step(f.chief, PER_EPOCH, f.now_ms);
    for (uint32_t i = 0; i < PS; i++)
        report(&f, i, PER_EPOCH, NODES(PART_0, PART_1, PART_2));
    assert_int_equal(f.decisions[0], 0);
    close_fixture(&f);
}

/* sync.dropped: redo: what a shard says of the step counts, not its number. */
static void report_place(struct fixture *f, uint64_t step, const struct tree_node *node,
                         bool begins, bool extra)
{
    for (uint32_t i = 0; i < PS; i++) {
        Gradwire__StepReport m = GRADWIRE__STEP_REPORT__INIT;
        Gradwire__Generation g = msg_generation(f->entered);
        const struct tree_nodes whole = nodes_of(node);
        uint8_t bytes[2 * LEAVES / 8];
        m.generation = &g;
        m.shard = i;
        m.step = step;
        m.round = GRADWIRE__ROUND__ACCEPT;
        m.whole.data = bytes;
        m.whole.len = tree_pack(whole.bits, 2 * LEAVES, bytes);
        m.begins = begins;
        m.extra = extra;
        chief_on_ps(f->chief, i, FRAME_STEP_REPORT, &m.base, f->now_ms);
    }
}

static void an_extra_step_waits_for_all_leaves(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    f.chief->config.settings.redo = true;
    report_place(&f, PER_EPOCH, NODES(PART_1, PART_2), false, true);
    assert_int_equal(f.decisions[0], 0);
    report_place(&f, PER_EPOCH, NODES(PART_0, PART_1, PART_2), false, true);
    assert_int_equal(f.decisions[0], 1);
    assert_int_equal(f.leaves, BITS_0 | BITS_1 | BITS_2);
    report_place(&f, PER_EPOCH + 1, NODES(PART_1, PART_2), true, false);
    assert_int_equal(f.decisions[0], 1); /* the next epoch, which waits for the evaluation */
    chief_on_step(f.chief, PER_EPOCH + 1, f.now_ms);
    assert_int_equal(f.decisions[0], 2);
    assert_int_equal(f.leaves, BITS_1 | BITS_2);
    close_fixture(&f);
}

static void an_end_that_a_former_generation_came_to_is_none(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0);
    f.chief->config.settings.redo = true;
    chief_enough(f.chief, PER_EPOCH, f.entered.number - 1, f.now_ms);
    chief_on_step(f.chief, PER_EPOCH, f.now_ms);
    report_place(&f, PER_EPOCH, NODES(PART_0, PART_1, PART_2), false, true);
    assert_int_equal(f.decisions[0], 1);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_set_is_closed_when_enough_workers_are_whole_on_every_shard),
        cmocka_unit_test(a_node_of_a_former_deal_is_not_taken_apart),
        cmocka_unit_test(a_node_counts_where_every_shard_can_make_it),
        cmocka_unit_test(no_more_workers_are_waited_for_than_are_dealt),
        cmocka_unit_test(leaves_of_a_former_deal_count_for_who_has_them_now),
        cmocka_unit_test(a_new_chief_takes_the_set_of_the_former_one),
        cmocka_unit_test(a_ps_that_is_there_again_hears_the_last_set),
        cmocka_unit_test(an_epoch_begins_when_the_chief_has_evaluated_the_one_before),
        cmocka_unit_test(no_step_is_made_after_the_last),
        cmocka_unit_test(an_extra_step_waits_for_all_leaves),
        cmocka_unit_test(an_end_that_a_former_generation_came_to_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
