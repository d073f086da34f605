#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/parameters/epochs.h"
#include "common/base/rng.h"

enum { EPOCHS = 5, LIST = 4096 };

/* The same, written down with a plain list. */
struct oracle {
    uint64_t epoch, begin, redone;
    size_t n;
    uint64_t list[LIST];
};

static struct tree_leaves random_set(uint64_t key, uint64_t step, uint32_t leaves)
{
    struct tree_leaves s = {{0}};
    uint32_t one_in = 1 + (uint32_t)(rng_u64(key, 7) % 4);
    for (uint32_t i = 0; i < leaves; i++)
        if (rng_u64(rng_key(key, RNG_TEST, step, i), 0) % one_in == 0)
            tree_add_leaves(&s, i, i + 1);
    return s;
}

static void assert_work(const struct epochs *e, uint64_t step, const struct oracle *o)
{
    struct epochs_work w;
    uint64_t in = step - o->begin;
    epochs_work(e, step, &w);
    assert_int_equal(w.epoch, o->epoch);
    assert_int_equal(w.begin, o->begin);
    assert_int_equal(w.redo, in >= e->per_epoch);
    if (w.epoch == e->epoch) /* else it is the first of the next one, and this one is not over */
        assert_int_equal(epochs_is_extra(e, step), w.redo);
    if (!w.redo) {
        assert_int_equal(w.batch, o->epoch * e->per_epoch + in);
        return;
    }
    assert_int_equal(w.count, o->n < e->leaves ? o->n : e->leaves);
    assert_memory_equal(w.leaf, o->list, w.count * sizeof *w.leaf);
    assert_int_equal(w.steps, in + (o->n + e->leaves - 1) / e->leaves);
}

static void step_oracle(struct oracle *o, const struct epochs *e, uint64_t step,
                        const struct tree_leaves *set)
{
    uint64_t in = step - o->begin;
    if (in >= e->per_epoch) {
        size_t n = o->n < e->leaves ? o->n : e->leaves;
        o->n -= n;
        o->redone += n;
        memmove(o->list, o->list + n, o->n * sizeof *o->list);
    }
    for (uint32_t i = 0; i < e->leaves && in < e->per_epoch; i++)
        if (!tree_has_leaf(set, i))
            o->list[o->n++] = (o->epoch * e->per_epoch + in) * e->leaves + i;
    if (in + 1 >= e->per_epoch && o->n == 0) {
        o->epoch++;
        o->begin = step + 1;
    }
}

static void assert_saved(const struct epochs *e, uint64_t step, const struct oracle *o)
{
    struct epochs again;
    size_t bytes = epochs_saved_bytes(e, step);
    uint8_t *dropped = malloc(bytes + 1);
    memcpy(dropped, e->dropped, bytes); /* where a read beyond is seen */
    assert_int_equal(epochs_init(&again, e->per_epoch, e->leaves), ERR_OK);
    assert_int_equal(epochs_restore(&again, step, e->epoch, e->begin, e->redone, dropped, bytes),
                     ERR_OK);
    assert_work(&again, step, o);
    epochs_close(&again);
    free(dropped);
}

static void run(uint64_t seed)
{
    const uint64_t key = rng_key(seed, RNG_TEST, 0, 0);
    static struct oracle o;
    struct epochs e;
    o = (struct oracle){.epoch = 0};
    assert_int_equal(epochs_init(&e, 1 + rng_u64(key, 1) % 9, 1u << rng_u64(key, 2) % 5), ERR_OK);
    for (uint64_t step = 0; o.epoch < EPOCHS; step++) {
        struct tree_leaves set = random_set(key, step, e.leaves), other = {{0}};
        assert_work(&e, step, &o);
        epochs_note(&e, step, &other); /* the decision of another history */
        assert_saved(&e, step, &o);    /* and a cut before the step does not know */
        epochs_note(&e, step, &set);
        step_oracle(&o, &e, step, &set);
        assert_work(&e, step + 1, &o); /* said before it is made */
        epochs_turn(&e, step);
        assert_work(&e, step + 1, &o);
        assert_int_equal(e.epoch, o.epoch);
        assert_int_equal(e.begin, o.begin);
        assert_int_equal(e.redone, o.redone);
        assert_int_equal(epochs_regular(e.per_epoch, e.epoch, e.begin, o.begin),
                         o.epoch * e.per_epoch);
    }
    epochs_close(&e);
}

static void what_is_dropped_is_dealt_out_behind_the_last_batch(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++)
        run(seed);
}

static void without_drops_an_epoch_has_a_step_for_each_batch(void **state)
{
    (void)state;
    struct epochs e;
    struct epochs_work w;
    assert_int_equal(epochs_init(&e, 3, 4), ERR_OK);
    for (uint64_t step = 0; step < 10; step++) {
        epochs_work(&e, step, &w);
        assert_false(w.redo);
        assert_int_equal(w.epoch, step / 3);
        assert_int_equal(w.batch, step);
        epochs_turn(&e, step);
    }
    epochs_start(&e, 7);
    assert_int_equal(e.epoch, 2);
    assert_int_equal(e.begin, 6);
    epochs_close(&e);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct epochs e;
    uint8_t dropped[2] = {0xff, 0xff};
    assert_int_equal(epochs_init(&e, EPOCHS_LEAVES_MAX / 8 + 1, 8), ERR_TOOBIG);
    assert_int_equal(epochs_init(&e, 3, 4), ERR_OK);
    assert_int_equal(epochs_restore(&e, 4, 1, 5, 0, dropped, 0),
                     ERR_CORRUPT);                                        /* before its epoch */
    assert_int_equal(epochs_restore(&e, 8, 1, 3, 0, dropped, 2), ERR_OK); /* the last of 3 extra */
    assert_int_equal(epochs_restore(&e, 8, 1, 3, 0, dropped, 1), ERR_CORRUPT); /* there are 2 */
    assert_int_equal(epochs_restore(&e, 5, 1, 3, 0, (uint8_t[3]){0}, 3), ERR_CORRUPT);
    epochs_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_dropped_is_dealt_out_behind_the_last_batch),
        cmocka_unit_test(without_drops_an_epoch_has_a_step_for_each_batch),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
