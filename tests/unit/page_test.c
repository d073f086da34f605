/* The data behind the job's page: bounded curves, and the state of each process. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "worker/chief/host_state.h"
#include "worker/control/control_http.h"
#include "worker/control/idle.h"
#include "worker/control/progress.h"

static void add(struct history *h, uint64_t step)
{
    const struct history_point p = {.step = step, .value = {(double)step, NAN}};
    history_add(h, &p);
}

static void a_long_history_is_thinned_evenly_and_has_its_newest_point(void **state)
{
    (void)state;
    static struct history h;
    for (uint64_t step = 1; step <= 100000; step++) {
        add(&h, step);
        assert_true(h.n <= HISTORY_MAX);
        assert_int_equal(h.point[h.n - 1].step, step);
        assert_int_equal(h.point[0].step, 1);
    }
    assert_true(h.n > HISTORY_MAX / 2);
    for (uint32_t i = 2; i + 1 < h.n; i++)
        assert_int_equal(h.point[i].step - h.point[i - 1].step, h.every);
}

static void what_was_rolled_back_leaves_the_history(void **state)
{
    (void)state;
    static struct history h;
    for (uint64_t step = 1; step <= 1000; step++)
        add(&h, step);
    add(&h, 500);
    assert_int_equal(h.point[h.n - 1].step, 500);
    for (uint32_t i = 1; i < h.n; i++)
        assert_true(h.point[i].step > h.point[i - 1].step);
    add(&h, 501);
    assert_int_equal(h.point[h.n - 1].step, 501);
    add(&h, 1);
    assert_int_equal(h.n, 1);
    json_t *all = history_json(&h, 2);
    char *text = json_dumps(all, JSON_COMPACT);
    assert_string_equal(text, "[[1,1.0,null]]");
    free(text);
    json_decref(all);
}

static void the_point_of_an_epoch_has_all_metrics_and_those_of_the_evaluation(void **state)
{
    (void)state;
    static struct history h;
    struct evaluation eval = {.loss = 3, .metric = {4, 5}};
    const struct evaluation found = {.loss = 1, .metric = {2, (double)NAN}};
    struct history_point with = history_epoch(7, 2, &found, &eval);
    struct history_point without = history_epoch(8, 2, &found, NULL);
    history_add(&h, &with);
    history_add(&h, &without);
    json_t *all = history_json(&h, 6);
    char *text = json_dumps(all, JSON_COMPACT);
    assert_string_equal(text, "[[7,1.0,2.0,null,3.0,4.0,5.0],[8,1.0,2.0,null,null,null,null]]");
    free(text);
    json_decref(all);
}

static void hear(struct health *h, uint64_t tasks, double computed_s, int64_t now_ms)
{
    Gradwire__Vitals m = GRADWIRE__VITALS__INIT;
    m.tasks = tasks;
    m.computed_s = computed_s;
    m.waited_s = computed_s;
    m.examples = (double)tasks * 32;
    m.http = (char *)":8080";
    health_hear(h, &m, "[::1]:2222", now_ms);
}

static void a_worker_is_slow_beside_the_others_alone(void **state)
{
    (void)state;
    static struct health h[3];
    for (int64_t s = 1; s < 10; s++)
        for (int i = 0; i < 3; i++)
            hear(&h[i], (uint64_t)s * 10, (double)s * (i == 2 ? 0.4 : 0.1), s * 1000);
    assert_float_equal(h[0].task_s, 0.01, 1e-9);
    assert_float_equal(h[2].task_s, 0.04, 1e-9);
    assert_float_equal(h[0].examples_s, 320, 1e-6);
    assert_float_equal(h[0].wait_share, 0.5, 1e-9);
    assert_float_equal(health_slow_s(h, 3), 0.015, 1e-9);
    assert_true(isinf(health_slow_s(h, 1)));
    assert_string_equal(h[0].http, "[::1]:8080");
    hear(&h[2], 1, 0.001, 20000); /* another process of its name */
    assert_true(isnan(h[2].task_s));
}

static void an_arrival_says_how_far_it_is_until_it_says_no_more(void **state)
{
    (void)state;
    Gradwire__Loading loading = GRADWIRE__LOADING__INIT;
    struct loading now;
    loading.bytes = 100;
    loading.of_bytes = 400;
    loading.rows = 7;
    loading.left_s = 1.5;
    arrival_note(3, &loading);
    assert_true(loading_heard(3, &now));
    json_t *all = loading_json(&now);
    char *text = json_dumps(all, JSON_COMPACT);
    assert_string_equal(text, "{\"bytes\":100,\"of_bytes\":400,\"rows\":7,\"left_s\":1.5}");
    free(text);
    json_decref(all);
    arrival_note(3, NULL);
    assert_false(loading_heard(3, &now));
    assert_int_equal(now.bytes, 0);
}

/* A peer may send what it likes. */
static void a_warning_that_is_no_text_is_shown_all_the_same(void **state)
{
    (void)state;
    static struct health h;
    char longer[1000];
    memset(longer, 0xff, sizeof longer);
    Gradwire__Warning w = GRADWIRE__WARNING__INIT, *many[LOG_KEPT + 5];
    Gradwire__Vitals m = GRADWIRE__VITALS__INIT;
    w.text.data = (uint8_t *)longer;
    w.text.len = sizeof longer;
    for (size_t i = 0; i < LOG_KEPT + 5; i++)
        many[i] = &w;
    m.warnings = many;
    m.n_warnings = LOG_KEPT + 5;
    health_hear(&h, &m, "127.0.0.1:1", 1000);
    assert_int_equal(h.warnings, LOG_KEPT);
    json_t *one = health_warning(&h.warning[0], "ps 0");
    const char *text = json_string_value(json_object_get(one, "text"));
    assert_int_equal(strlen(text), LOG_KEPT_BYTES - 1);
    assert_int_equal(text[0], '?');
    json_decref(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_history_is_thinned_evenly_and_has_its_newest_point),
        cmocka_unit_test(what_was_rolled_back_leaves_the_history),
        cmocka_unit_test(the_point_of_an_epoch_has_all_metrics_and_those_of_the_evaluation),
        cmocka_unit_test(a_worker_is_slow_beside_the_others_alone),
        cmocka_unit_test(an_arrival_says_how_far_it_is_until_it_says_no_more),
        cmocka_unit_test(a_warning_that_is_no_text_is_shown_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
