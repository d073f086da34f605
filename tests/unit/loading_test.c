/* How far the data are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "common/base/clock.h"
#include "common/process/process_state.h"

static struct loading told;
static int times;

static void tell(void *ctx, const struct loading *now)
{
    (void)ctx;
    told = *now;
    times++;
}

static void bytes_and_rows_count_while_data_are_read_alone(void **state)
{
    (void)state;
    struct loading now;
    loading_read(1000);
    loading_rows(10);
    assert_false(loading_now(&now));
    loading_begin(400, NULL, NULL);
    assert_true(loading_now(&now));
    assert_int_equal(now.bytes + now.rows, 0);
    assert_true(isnan(now.left_s));
    loading_read(100);
    loading_rows(7);
    assert_true(loading_now(&now));
    assert_int_equal(now.bytes, 100);
    assert_int_equal(now.of_bytes, 400);
    assert_int_equal(now.rows, 7);
    loading_read(350); /* a part of a file was read twice */
    assert_true(loading_now(&now));
    assert_int_equal(now.bytes, 400);
    assert_true(now.left_s == 0);
    loading_end();
    assert_false(loading_now(&now));
}

static void it_is_told_once_a_second_with_the_time_left(void **state)
{
    (void)state;
    loading_begin(1 << 30, tell, NULL);
    int64_t began_ms = clock_now_ms();
    while (times == 0 && clock_now_ms() < began_ms + 10000)
        loading_read(1);
    int64_t took_ms = clock_now_ms() - began_ms;
    loading_end();
    assert_int_equal(times, 1);
    assert_true(took_ms >= 1000);
    assert_true(told.bytes > 0);
    double seconds = 1.0 / (double)told.bytes * (double)(told.of_bytes - told.bytes);
    assert_true(told.left_s >= 0.9 * seconds);
}

static void what_another_worker_tells_is_shown_until_it_tells_no_more(void **state)
{
    (void)state;
    const struct loading far = {.bytes = 1, .of_bytes = 2, .rows = 3, .left_s = 4};
    struct loading now;
    loading_hear(LOADING_WORKERS - 1, &far);
    assert_false(loading_heard(0, &now));
    assert_true(loading_heard(LOADING_WORKERS - 1, &now));
    assert_memory_equal(&now, &far, sizeof far);
    loading_hear(LOADING_WORKERS - 1, NULL);
    assert_false(loading_heard(LOADING_WORKERS - 1, &now));
    assert_int_equal(now.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_rows_count_while_data_are_read_alone),
        cmocka_unit_test(it_is_told_once_a_second_with_the_time_left),
        cmocka_unit_test(what_another_worker_tells_is_shown_until_it_tells_no_more),
    };
    return cmocka_run_group_tests_name("loading", tests, NULL, NULL);
}
