#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/mem.h"

enum { SEGMENTS = 4, SEGMENT_BYTES = 64 << 10, TIMES = 100, PAGE_BYTES = 4096 };

static long faults(void)
{
    struct rusage used;
    assert_int_equal(getrusage(RUSAGE_THREAD, &used), 0);
    return used.ru_minflt;
}

static void fill_and_free(void)
{
    void *segments[SEGMENTS];
    for (int i = 0; i < SEGMENTS; i++) {
        segments[i] = mem_zalloc(1, SEGMENT_BYTES);
        assert_non_null(segments[i]);
        memset(segments[i], 1, SEGMENT_BYTES);
    }
    for (int i = 0; i < SEGMENTS; i++)
        mem_free(segments[i]);
}

/* In a thread of its own, as a shard: its heap's end goes back to the system at each free of more than is kept. */
static void *flush_queues(void *faulted)
{
    fill_and_free();
    long before = faults();
    for (int i = 0; i < TIMES; i++)
        fill_and_free();
    *(long *)faulted = faults() - before;
    return NULL;
}

static void a_freed_queue_is_not_asked_of_the_system_again(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators are not glibc's */
#endif
    pthread_t thread;
    long faulted = 0;
    mem_init();
    assert_int_equal(pthread_create(&thread, NULL, flush_queues, &faulted), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(faulted, 0, SEGMENTS * SEGMENT_BYTES / PAGE_BYTES);
}

static void a_part_of_a_mapping_is_zero_and_its_neighbours_stay(void **state)
{
    (void)state;
    enum { BYTES = 1 << 18 };
    static const size_t begin[] = {0, 1, 100, 65536, 70000, 131071};
    static const size_t bytes[] = {1, 50, 4096, 65536, 130001};
    for (int i = 0; i < 6 * 5; i++) {
        size_t first = begin[i / 5], end = first + bytes[i % 5];
        char *p = mem_map(BYTES);
        assert_non_null(p);
        memset(p, 1, BYTES);
        mem_map_zero(p + first, end - first);
        for (size_t k = 0; k < BYTES; k++)
            assert_int_equal(p[k], k < first || k >= end);
        mem_unmap(p, BYTES);
    }
}

static void an_array_grows_by_doubling_and_stays_as_it_was_without_memory(void **state)
{
    (void)state;
    size_t capacity = 0;
    uint64_t *p = mem_grow(NULL, &capacity, 1, sizeof *p);
    assert_non_null(p);
    assert_int_equal(capacity, 16);
    p[0] = 7;
    mem_fail_at(0); /* an array that is long enough allocates nothing */
    assert_ptr_equal(mem_grow(p, &capacity, 16, sizeof *p), p);
    assert_null(mem_grow(p, &capacity, 17, sizeof *p));
    assert_true(mem_fail_fired());
    assert_int_equal(capacity, 16);
    p = mem_grow(p, &capacity, 33, sizeof *p);
    assert_non_null(p);
    assert_true(p[0] == 7 && capacity == 64);
    assert_null(mem_grow(p, &capacity, SIZE_MAX / 4, sizeof *p));
    assert_null(mem_grow(p, &capacity, SIZE_MAX, 2));
    assert_int_equal(capacity, 64);
    mem_free(p);
}

static void
an_array_whose_capacity_follows_from_its_length_grows_at_each_doubling_only(void **state)
{
    (void)state;
    uint32_t *p = NULL;
    for (uint32_t n = 0; n < 100; n++) {
        bool grows = n == 0 || n == 16 || n == 32 || n == 64;
        mem_fail_at(0);
        uint32_t *without = mem_extend(p, n, 1, sizeof *p);
        assert_int_equal(mem_fail_fired(), grows);
        assert_ptr_equal(without, grows ? NULL : p);
        mem_fail_at(-1);
        p = mem_extend(p, n, 1, sizeof *p);
        p[n] = n;
    }
    for (uint32_t n = 0; n < 100; n++)
        assert_int_equal(p[n], n);
    assert_null(mem_extend(p, 100, SIZE_MAX - 99, sizeof *p));
    mem_free(p);
}

static void a_huge_block_begins_at_a_huge_page_and_can_fail(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 4 * MEM_HUGE_PAGE_BYTES; bytes += MEM_HUGE_PAGE_BYTES) {
        char *p = mem_huge(bytes, 1);
        assert_non_null(p);
        assert_true(bytes == 1 || (uintptr_t)p % MEM_HUGE_PAGE_BYTES == 0);
        memset(p, 7, bytes);
        p = mem_resize(p, bytes + 1, 1);
        assert_non_null(p);
        assert_true(p[0] == 7 && p[bytes - 1] == 7);
        mem_free(p);
    }
    assert_null(mem_huge(SIZE_MAX, 2));
    mem_fail_at(0);
    assert_null(mem_huge(1, 1));
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_grows_by_doubling_and_stays_as_it_was_without_memory),
        cmocka_unit_test(
            an_array_whose_capacity_follows_from_its_length_grows_at_each_doubling_only),
        cmocka_unit_test(a_huge_block_begins_at_a_huge_page_and_can_fail),
        cmocka_unit_test(a_freed_queue_is_not_asked_of_the_system_again),
        cmocka_unit_test(a_part_of_a_mapping_is_zero_and_its_neighbours_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
