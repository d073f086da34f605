/* The values of a cut that are not finite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "common/checkpoint/checkpoint_rows.h"

enum { ELEMS = 10000, FIRST = 70 };

static struct broken look(float *w)
{
    const struct checkpoint_shard blocks = {.first_elem = FIRST, .elems = ELEMS, .w = w};
    struct broken b = {.kind = BROKEN_NONE};
    broken_find(&b, &blocks);
    return b;
}

static void the_first_element_that_is_not_finite_is_found_wherever_it_stands(void **state)
{
    (void)state;
    static const uint64_t at[] = {ELEMS - 1, 8192, 8191, 4096, 4095, 1, 0};
    static const float values[] = {NAN, INFINITY, -INFINITY};
    static float w[ELEMS];
    for (int i = 0; i < ELEMS; i++)
        w[i] = 3.4e38f; /* finite, and their squares are no floats */
    assert_int_equal(look(w).kind, BROKEN_NONE);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        w[at[i]] = values[i % 3];
        assert_int_equal(look(w).kind, BROKEN_ELEM);
        assert_int_equal(look(w).elem, FIRST + at[i]);
    }
}

static void a_row_is_found_by_its_weights_not_by_its_slots(void **state)
{
    (void)state;
    const uint64_t mixed[] = {7, 8, 9};
    float values[] = {1, 2, NAN, 3, 4, 5, 6, INFINITY, 7};
    const struct checkpoint_table of = {.dim = 2, .slots = 1};
    const struct row_group g = {.table = 4, .rows = 3, .mixed = mixed, .values = values};
    struct broken b = {.kind = BROKEN_NONE};
    values[7] = 6;
    broken_find_in_rows(&b, &g, &of);
    assert_int_equal(b.kind, BROKEN_NONE);
    values[7] = INFINITY;
    broken_find_in_rows(&b, &g, &of);
    assert_true(b.kind == BROKEN_ROW && b.table == 4 && b.mixed == 9);
    values[3] = NAN; /* it is the first that is named */
    broken_find_in_rows(&b, &g, &of);
    assert_int_equal(b.mixed, 9);
    struct broken elem = {.kind = BROKEN_ELEM, .elem = 1};
    broken_find_in_rows(&elem, &g, &of);
    assert_int_equal(elem.kind, BROKEN_ELEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_element_that_is_not_finite_is_found_wherever_it_stands),
        cmocka_unit_test(a_row_is_found_by_its_weights_not_by_its_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
