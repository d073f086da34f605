#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/buffer.h"
#include "common/base/mem.h"

static void buffer_gives_the_last_one_freed_again(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    struct buffer *a = buffer_acquire(&pool, 1000), *b = buffer_acquire(&pool, 1000);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal((uintptr_t)a->data % MEM_ALIGN_BYTES, 0);
    buffer_unref(a);
    buffer_unref(b);
    assert_ptr_equal(buffer_acquire(&pool, 900), b);
    assert_ptr_equal(buffer_acquire(&pool, 900), a);
    buffer_unref(a);
    buffer_unref(b);
    buffer_pool_close(&pool);
}

static void buffer_lives_until_its_last_reference(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    struct buffer *a = buffer_acquire(&pool, 10);
    buffer_ref(a);
    buffer_unref(a);
    struct buffer *b = buffer_acquire(&pool, 10);
    assert_ptr_not_equal(a, b);
    buffer_unref(a);
    buffer_unref(b);
    buffer_unref(NULL);
    buffer_pool_close(&pool);
}

static void buffer_has_room_for_what_was_asked(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    for (size_t elems = 1; elems < 100000; elems = elems * 2 + 1) {
        struct buffer *b = buffer_acquire(&pool, elems);
        assert_non_null(b);
        for (size_t i = 0; i < elems; i++)
            b->data[i] = 1.0f; /* the sanitizer watches */
        buffer_unref(b);
    }
    buffer_pool_close(&pool);
}

static void buffer_refuses_what_no_class_holds(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    assert_null(buffer_acquire(&pool, (size_t)1 << 40));
    buffer_pool_close(&pool);
}

static void buffer_pool_keeps_a_bounded_number(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    struct buffer *all[BUFFER_KEEP_MAX + 10];
    for (int i = 0; i < BUFFER_KEEP_MAX + 10; i++)
        all[i] = buffer_acquire(&pool, 256);
    for (int i = 0; i < BUFFER_KEEP_MAX + 10; i++)
        buffer_unref(all[i]);
    assert_int_equal(pool.kept[8], BUFFER_KEEP_MAX);
    buffer_pool_close(&pool);
}

static void buffer_returns_null_without_memory(void **state)
{
    (void)state;
    struct buffer_pool pool = {0};
    long n = 0;
    for (;; n++) {
        mem_fail_at(n);
        struct buffer *b = buffer_acquire(&pool, 256);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_true(fired ? b == NULL : b != NULL);
        buffer_unref(b);
        if (!fired)
            break;
    }
    assert_int_equal(n, 2);
    buffer_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_gives_the_last_one_freed_again),
        cmocka_unit_test(buffer_lives_until_its_last_reference),
        cmocka_unit_test(buffer_has_room_for_what_was_asked),
        cmocka_unit_test(buffer_refuses_what_no_class_holds),
        cmocka_unit_test(buffer_pool_keeps_a_bounded_number),
        cmocka_unit_test(buffer_returns_null_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
