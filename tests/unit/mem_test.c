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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_freed_queue_is_not_asked_of_the_system_again),
        cmocka_unit_test(a_part_of_a_mapping_is_zero_and_its_neighbours_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
