/* Local SGD at the worker: what a round takes, what a merge leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "worker/driver/local.h"

enum { ELEMS = 32 };

static struct local *local_of_role(struct layout *layout, enum tensor_role role)
{
    struct errmsg e;
    struct local *l = NULL;
    struct tensor t = {.name = "w",
                       .rank = 1,
                       .shape = {ELEMS},
                       .init = INIT_ZEROS,
                       .role = role,
                       .momentum = 0.5f};
    const struct optimizer o = {.kind = OPT_SGD, .learning_rate = 0.5f};
    *layout = (struct layout){0};
    assert_int_equal(layout_add(layout, &t, &e), ERR_OK);
    assert_int_equal(local_new(&l, layout, &o, &e), ERR_OK);
    return l;
}

static struct local *local_of(struct layout *layout)
{
    return local_of_role(layout, TENSOR_WEIGHT);
}

static void servers_are(struct local *l, float value)
{
    for (int i = 0; i < ELEMS; i++)
        l->server[i] = value;
}

static void step(struct local *l, float *w, float g, uint64_t id)
{
    float value[ELEMS];
    struct gradient_node n = {.examples = 2, .value = value};
    n.sums.loss = 1;
    n.sums.examples = 2;
    for (int i = 0; i < ELEMS; i++)
        value[i] = 2 * g;
    local_step(l, w, &n, id, id / 10);
}

static void all_are(const float *x, float value)
{
    for (int i = 0; i < ELEMS; i++)
        assert_true(x[i] == value);
}

static void a_round_takes_its_part_and_the_rest_stays_at_the_worker(void **state)
{
    (void)state;
    struct layout layout;
    struct local *l = local_of(&layout);
    float w[ELEMS];
    servers_are(l, 8);
    local_merge(l, w, true);
    all_are(w, 8);
    step(l, w, 4, 0); /* w = 6 */
    all_are(w, 6);
    local_round(l, w, 0.25f);
    all_are(l->round.value, -0.5f);
    all_are(w, 6);
    servers_are(l, 7); /* 8 - 0.5 of ours - 0.5 of another's */
    local_merge(l, w, false);
    all_are(w, 5.5f); /* the other's, on top of what is left of ours */
    local_round(l, w, 1);
    all_are(l->round.value, -1.5f);
    servers_are(l, 5.5f);
    local_merge(l, w, true);
    all_are(w, 5.5f);
    local_free(l);
    layout_close(&layout);
}

static void a_round_has_what_its_batches_add_to_a_moving_average(void **state)
{
    (void)state;
    struct layout layout;
    struct local *l = local_of_role(&layout, TENSOR_STATISTIC);
    struct gradient_node empty = {.examples = 0};
    float w[ELEMS];
    servers_are(l, 8);
    local_merge(l, w, true);
    step(l, w, 4, 0);
    all_are(w, 6); /* 0.5 * 8 + 0.5 * 4 */
    local_step(l, w, &empty, 1, 0);
    step(l, w, 2, 2);
    all_are(w, 4);
    local_round(l, w, 0.25f);   /* with any part of the weights */
    all_are(l->round.value, 2); /* 4 - 0.5 * 0.5 * 8 */
    assert_int_equal(l->updates, 2);
    servers_are(l, 3);
    local_merge(l, w, false);
    all_are(w, 3);
    step(l, w, 1, 3);
    local_round(l, w, 0.25f);
    all_are(l->round.value, 0.5f);
    assert_int_equal(l->updates, 1);
    local_free(l);
    layout_close(&layout);
}

static void the_sums_of_a_round_are_kept_by_epoch(void **state)
{
    (void)state;
    struct layout layout;
    struct local *l = local_of(&layout);
    float w[ELEMS];
    servers_are(l, 1);
    local_merge(l, w, true);
    step(l, w, 0, 8);
    step(l, w, 0, 9);
    step(l, w, 0, 10);
    assert_int_equal(l->epochs, 2);
    assert_int_equal(l->epoch[0].batches, 2);
    assert_true(l->epoch[0].loss == 2 && l->epoch[0].examples == 4);
    assert_int_equal(l->epoch[1].epoch, 1);
    local_merge(l, w, false);
    assert_int_equal(l->epochs, 0);
    local_free(l);
    layout_close(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_takes_its_part_and_the_rest_stays_at_the_worker),
        cmocka_unit_test(a_round_has_what_its_batches_add_to_a_moving_average),
        cmocka_unit_test(the_sums_of_a_round_are_kept_by_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
