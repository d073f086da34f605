#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "ps/core/once.h"

enum { CHUNKS = 11, IDS = 200 };

/* Random retries and redoings, with a restore now and then: whatever survives is applied once on
 * every chunk. */
static void once_applies_each_id_once_on_every_chunk_across_restores(void **state)
{
    (void)state;
    static uint8_t applied[IDS][CHUNKS], saved[IDS][CHUNKS];
    for (uint64_t seed = 0; seed < 60; seed++) {
        uint64_t key = rng_key(seed, RNG_TEST, 7, 0);
        struct once o;
        struct ids cut = {0};
        once_init(&o, CHUNKS);
        memset(applied, 0, sizeof applied);
        memset(saved, 0, sizeof saved);
        for (uint64_t i = 0; o.resolved.mark < IDS; i++) {
            uint64_t r = rng_u64(key, i), id = o.resolved.mark + r % 7;
            uint32_t chunk = (uint32_t)(r >> 16) % CHUNKS;
            if (id >= IDS)
                continue;
            if (o.partials == 0 && r >> 40 & 1) { /* as a cut is: no id half applied */
                cut = o.resolved;
                memcpy(saved, applied, sizeof applied);
            }
            if ((r >> 44) % 300 == 0) {
                once_restore(&o, &cut);
                memcpy(applied, saved, sizeof applied);
                continue;
            }
            enum once_verdict v = once_admit(&o, id, chunk);
            if (v == ONCE_DUPLICATE) {
                assert_int_equal(applied[id][chunk], 1);
                continue;
            }
            assert_true(v == ONCE_APPLY || v == ONCE_LAST);
            assert_int_equal(applied[id][chunk]++, 0);
            uint32_t sum = 0;
            for (uint32_t c = 0; c < CHUNKS; c++)
                sum += applied[id][c];
            assert_int_equal(v, sum == CHUNKS ? ONCE_LAST : ONCE_APPLY);
        }
        for (uint32_t id = 0; id < IDS; id++)
            for (uint32_t c = 0; c < CHUNKS; c++)
                assert_int_equal(applied[id][c], 1);
        assert_int_equal(o.partials, 0);
        once_close(&o);
    }
}

static void once_refuses_what_is_beyond_the_window(void **state)
{
    (void)state;
    struct once o;
    once_init(&o, 1);
    assert_int_equal(once_admit(&o, IDS_WINDOW, 0), ONCE_TOO_FAR);
    assert_int_equal(once_admit(&o, UINT64_MAX, 0), ONCE_TOO_FAR);
    assert_int_equal(once_admit(&o, IDS_WINDOW - 1, 0), ONCE_LAST);
    assert_int_equal(once_admit(&o, IDS_WINDOW - 1, 0), ONCE_DUPLICATE);
    assert_int_equal(o.partials, 0);
    once_close(&o);
    once_init(&o, 2);
    assert_int_equal(once_admit(&o, IDS_WINDOW, 0), ONCE_TOO_FAR); /* before any of it is applied */
    assert_int_equal(o.partials, 0);
    once_close(&o);
}

static void once_can_be_asked_again_after_memory_ran_out(void **state)
{
    (void)state;
    long n = 0;
    for (;; n++) {
        struct once o;
        once_init(&o, 9);
        mem_fail_at(n);
        enum once_verdict v = ONCE_APPLY;
        for (uint64_t id = 0; id < 40 && v == ONCE_APPLY;
             id++) /* enough to let the list grow twice */
            v = once_admit(&o, id, 8);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(v, fired ? ONCE_NO_MEMORY : ONCE_APPLY);
        uint64_t next = o.partials;
        assert_int_equal(once_admit(&o, next, 8), ONCE_APPLY);
        once_close(&o);
        if (!fired)
            break;
    }
    assert_true(n > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_applies_each_id_once_on_every_chunk_across_restores),
        cmocka_unit_test(once_refuses_what_is_beyond_the_window),
        cmocka_unit_test(once_can_be_asked_again_after_memory_ran_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
