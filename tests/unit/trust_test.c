#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "common/parameters/norm.h"

enum { CHUNK = PLAN_CHUNK_MIN_BYTES / 4 };

/* 10 weights and a gap, a statistic, weights over three chunks; 3 chunks in all. */
static struct layout small(void)
{
    struct layout l = {0};
    static const uint32_t elems[] = {10, 16, 2 * CHUNK};
    for (uint32_t i = 0; i < 3; i++) {
        struct tensor t = {
            .rank = 1, .shape = {elems[i]}, .role = i == 1 ? TENSOR_STATISTIC : TENSOR_WEIGHT};
        (void)snprintf(t.name, sizeof t.name, "t%u", i);
        assert_int_equal(layout_add(&l, &t, NULL), ERR_OK);
    }
    return l;
}

static void pieces_are_where_chunks_and_weights_meet(void **state)
{
    static const struct trust_piece expected[] = {
        {.tensor = 0, .first = 0, .elems = 10, .last = true},
        {.tensor = 2, .first = 32, .elems = CHUNK - 32},
        {.tensor = 2, .first = CHUNK, .elems = CHUNK},
        {.tensor = 2, .first = 2 * CHUNK, .elems = 32, .last = true}};
    static const uint32_t chunk_of[] = {0, 0, 1, 2};
    (void)state;
    struct layout l = small();
    struct plan p;
    uint32_t one = 1, first[4], n = 0;
    assert_int_equal(plan_init(&p, l.elems, &one, 1, NULL), ERR_OK);
    assert_int_equal(p.chunks, 3);
    for (uint32_t c = 0; c < p.chunks; c++) {
        uint64_t at = plan_chunk_elem(&p, c);
        struct trust_piece piece;
        while (trust_next(&l, &at, plan_chunk_elem(&p, c + 1), &piece)) {
            assert_int_equal(chunk_of[n], c);
            assert_int_equal(piece.tensor, expected[n].tensor);
            assert_int_equal(piece.first, expected[n].first);
            assert_int_equal(piece.elems, expected[n].elems);
            assert_int_equal(piece.last, expected[n].last);
            n++;
        }
    }
    assert_int_equal(n, 4);
    trust_index(&l, &p, 0, 3, first);
    assert_true(first[0] == 0 && first[1] == 2 && first[2] == 3 && first[3] == 4);
    trust_index(&l, &p, 1, 2, first);
    assert_true(first[0] == 0 && first[1] == 1 && first[2] == 2);
    plan_close(&p);
    layout_close(&l);
}

static void ratios_are_of_whole_tensors(void **state)
{
    static const double sums[] = {4, 1, 1, 10, 3, 20, 5, 6};
    (void)state;
    struct layout l = small();
    struct plan p;
    uint32_t one = 1;
    float ratio[3];
    assert_int_equal(plan_init(&p, l.elems, &one, 1, NULL), ERR_OK);
    trust_ratios(&l, &p, sums, ratio);
    assert_true(ratio[0] == 2.0f && ratio[1] == 1.0f && ratio[2] == 0.5f);
    plan_close(&p);
    layout_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_where_chunks_and_weights_meet),
        cmocka_unit_test(ratios_are_of_whole_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
