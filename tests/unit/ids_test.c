#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/parameters/ids.h"
#include "common/base/rng.h"

enum { TOTAL = 3 * IDS_WINDOW };

/* A plain array of flags, to compare the set with. */
struct model {
    uint8_t in[TOTAL];
    uint64_t count;
};

static uint64_t model_mark(const struct model *m)
{
    uint64_t i = 0;
    while (i < TOTAL && m->in[i])
        i++;
    return i;
}

static void assert_same(const struct ids *s, const struct model *m)
{
    uint64_t mark = model_mark(m), end = 0;
    assert_int_equal(s->mark, mark);
    assert_int_equal(s->count, m->count);
    for (uint64_t i = 0; i < TOTAL; i++) {
        if (ids_has(s, i) != (m->in[i] != 0))
            fail_msg("id %llu", (unsigned long long)i);
        end = m->in[i] ? i + 1 : end;
    }
    assert_int_equal(ids_end(s), end);
}

static void ids_is_the_set_of_what_was_added(void **state)
{
    (void)state;
    static struct model m;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct ids s = {0};
        memset(&m, 0, sizeof m);
        uint64_t key = rng_key(seed, RNG_TEST, 2, 0);
        uint64_t ahead = seed % 2 ? 20 : IDS_WINDOW;
        for (uint64_t i = 0; i < 8000; i++) {
            uint64_t id = s.mark + rng_u64(key, i) % ahead;
            if (i % 3 == 0)
                id = s.mark;
            if (i % 7 == 0 && s.mark)
                id = rng_u64(key, i) % s.mark; /* again */
            if (id >= TOTAL)
                break;
            assert_int_equal(ids_add(&s, id), ERR_OK);
            m.count += !m.in[id];
            m.in[id] = 1;
            if (i % 500 == 0)
                assert_same(&s, &m);
        }
        assert_same(&s, &m);
    }
}

static void ids_refuses_what_is_beyond_the_window(void **state)
{
    (void)state;
    struct ids s = {0};
    assert_int_equal(ids_add(&s, IDS_WINDOW), ERR_TOOBIG);
    assert_int_equal(ids_add(&s, UINT64_MAX), ERR_TOOBIG);
    assert_int_equal(ids_add(&s, IDS_WINDOW - 1), ERR_OK);
    assert_int_equal(s.mark, 0);
    assert_int_equal(ids_add(&s, 0), ERR_OK);
    assert_int_equal(ids_add(&s, IDS_WINDOW), ERR_OK);
    assert_int_equal(ids_add(&s, IDS_WINDOW + 1), ERR_TOOBIG);
    assert_int_equal(s.count, 3);
}

static void ids_mark_runs_over_a_full_window(void **state)
{
    (void)state;
    struct ids s = {0};
    for (uint64_t i = IDS_WINDOW; i-- > 0;)
        assert_int_equal(ids_add(&s, i), ERR_OK);
    assert_int_equal(s.mark, IDS_WINDOW);
    assert_int_equal(ids_end(&s), IDS_WINDOW);
    struct ids whole = {.mark = IDS_WINDOW, .count = IDS_WINDOW};
    assert_true(ids_equal(&s, &whole));
}

static void ids_come_back_whole_from_their_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        uint64_t key = rng_key(seed, RNG_TEST, 3, 0);
        struct ids s = {.mark = rng_u64(key, 0) % 100000};
        s.count = s.mark;
        s.count = s.mark;
        for (uint64_t i = 1; i < 1 + seed % 60; i++)
            assert_int_equal(ids_add(&s, s.mark + rng_u64(key, i) % IDS_WINDOW), ERR_OK);
        uint8_t bytes[IDS_WINDOW_BYTES];
        size_t n = ids_pack(&s, bytes);
        assert_true(n == 0 || bytes[n - 1]); /* no trailing zeros */
        struct ids back;
        assert_int_equal(ids_unpack(&back, s.mark, bytes, n), ERR_OK);
        assert_memory_equal(&back, &s, sizeof s);
        assert_true(ids_equal(&back, &s));
    }
}

static void ids_unpack_refuses_what_no_set_packs(void **state)
{
    (void)state;
    struct ids s = {.mark = 9, .count = 9};
    uint8_t bytes[IDS_WINDOW_BYTES + 1] = {1};
    assert_int_equal(ids_unpack(&s, 4, bytes, 1), ERR_PROTO);
    bytes[0] = 2;
    assert_int_equal(ids_unpack(&s, 4, bytes, sizeof bytes), ERR_PROTO);
    assert_int_equal(s.mark, 9); /* unchanged on error */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_is_the_set_of_what_was_added),
        cmocka_unit_test(ids_refuses_what_is_beyond_the_window),
        cmocka_unit_test(ids_mark_runs_over_a_full_window),
        cmocka_unit_test(ids_come_back_whole_from_their_bytes),
        cmocka_unit_test(ids_unpack_refuses_what_no_set_packs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
