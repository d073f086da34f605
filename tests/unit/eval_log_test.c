/* The evaluator's choice of the next checkpoint, and the results that eval.json keeps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "worker/evaluator/eval_log.h"

static char *const folder = folder_dir;
static const struct job job = {
    .name = "digits",
    .model = {.metrics = 2, .metric = {{METRIC_ACCURACY, "accuracy", 0}, {METRIC_AUC, "auc", 0}}}};

static struct manifest cut(uint64_t generation, uint64_t number, const char *uuid)
{
    struct manifest m = {.cut = number, .generation = generation, .step = 100 * number};
    (void)snprintf(m.uuid, sizeof m.uuid, "%s", uuid);
    return m;
}

static bool add(struct eval_log *l, uint64_t generation, uint64_t number, uint64_t step)
{
    bool again = false;
    const struct eval_result r = {.cut = number,
                                  .generation = generation,
                                  .final = number == 9,
                                  .examples = 500,
                                  .seconds = 0.25,
                                  .eval = {.step = step,
                                           .loss = 1.0 / (double)(number + 3),
                                           .metric = {0.1 * (double)number, (double)NAN}}};
    assert_int_equal(eval_log_add(l, "a", &r, &again), ERR_OK);
    return again;
}

static void every_cut_is_taken_in_its_order_and_none_twice(void **state)
{
    (void)state;
    struct eval_log l = {.n = 0};
    const struct manifest m[] = {cut(1, 5, "a"), cut(1, 4, "a"), cut(1, 3, "a")};
    assert_int_equal(eval_log_choose(&l, m, 3, NULL), 2);
    assert_int_equal(eval_log_choose(&l, m, 0, NULL), -1);
    (void)add(&l, 1, 3, 300);
    assert_int_equal(eval_log_choose(&l, m, 3, NULL), 1);
    (void)add(&l, 1, 5, 500); /* 4 was gone when its turn came */
    assert_int_equal(eval_log_choose(&l, m, 3, NULL), -1);
    eval_log_close(&l);
}

static void a_cut_that_is_passed_over_is_not_tried_again(void **state)
{
    (void)state;
    struct eval_log l = {.n = 0};
    const struct manifest m[] = {cut(1, 5, "a"), cut(1, 4, "a")};
    assert_int_equal(eval_log_choose(&l, m, 2, &(struct eval_passed){1, 4, 0}), 0);
    assert_int_equal(eval_log_choose(&l, m, 2, &(struct eval_passed){1, 5, 0}), -1);
    eval_log_close(&l);
}

static void a_number_that_is_used_again_after_a_rollback_is_another_cut(void **state)
{
    (void)state;
    struct eval_log l = {.n = 0};
    const struct manifest m[] = {cut(2, 5, "a"), cut(1, 4, "a")};
    (void)add(&l, 1, 4, 400);
    (void)add(&l, 1, 5, 500);
    assert_int_equal(eval_log_choose(&l, m, 2, NULL), 0);
    assert_false(add(&l, 1, 6, 600));
    assert_true(add(&l, 2, 5, 500)); /* the results at 500 and 600 are gone */
    assert_int_equal(l.n, 2);
    assert_int_equal(eval_log_last(&l, "a")->generation, 2);
    assert_int_equal(eval_log_at(&l, "a", 400)->cut, 4);
    assert_null(eval_log_at(&l, "a", 600));
    eval_log_close(&l);
}

/* The cut as its manifest reads, of a job that writes different manifests. */
static struct manifest written(uint64_t generation, uint64_t number, uint32_t crc)
{
    struct manifest m = cut(generation, number, "a");
    m.crc = crc;
    return m;
}

static void judge(struct eval_log *l, const struct manifest *m)
{
    bool again;
    const struct eval_result r = {.cut = m->cut,
                                  .generation = m->generation,
                                  .manifest = m->crc,
                                  .final = m->final,
                                  .eval.step = m->step};
    assert_int_equal(eval_log_add(l, "a", &r, &again), ERR_OK);
}

/* The generation can have the same number again, too: the cut to which the job went back may not know of it. */
static void a_result_counts_for_no_other_cut_of_the_same_number(void **state)
{
    (void)state;
    struct eval_log l = {.n = 0};
    struct errmsg e;
    struct eval_result r;
    struct manifest five = written(1, 5, 55), six = written(2, 6, 66), other = written(2, 6, 67);
    six.final = other.final = true;
    judge(&l, &five);
    judge(&l, &six);
    assert_non_null(eval_log_of(&l, &six));
    assert_null(eval_log_of(&l, &other));
    const struct manifest m[] = {other, five};
    assert_int_equal(eval_log_choose(&l, m, 2, NULL), 0);
    assert_int_equal(eval_log_choose(&l, m, 1, NULL), 0); /* the older one was removed */
    const struct eval_passed passed = {2, 6, 66}, is_passed = {2, 6, 67};
    assert_int_equal(eval_log_choose(&l, m, 2, &passed), 0);
    assert_int_equal(eval_log_choose(&l, m, 2, &is_passed), -1);
    assert_int_equal(eval_log_write(&l, &job, folder, &e), ERR_OK);
    assert_true(eval_log_judged(&job, folder, &six, &r, &e) && r.manifest == 66 && r.final);
    assert_true(eval_log_judged(&job, folder, &five, &r, &e) && r.cut == 5);
    assert_false(eval_log_judged(&job, folder, &other, &r, &e));
    eval_log_close(&l);
}

static void results_of_a_history_that_was_rolled_back_are_undone(void **state)
{
    (void)state;
    const struct manifest four = written(1, 4, 44), five = written(1, 5, 55),
                          six = written(1, 6, 66), seven = written(1, 7, 77),
                          new_six = written(2, 6, 67);
    const struct {
        struct manifest m[2];
        size_t n;
        uint64_t first, left; /* left: the results that stay */
    } cases[] = {
        {{seven, six}, 2, UINT64_MAX, 4}, {{seven, four}, 2, UINT64_MAX, 4},
        {{five, four}, 2, 600, 2},        {{new_six, five}, 2, 600, 2},
        {{new_six, four}, 2, 600, 2},     {{seven, new_six}, 2, 600, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eval_log l = {.n = 0};
        assert_int_equal(eval_log_undo(&l, cases[i].m, cases[i].n), UINT64_MAX);
        judge(&l, &four);
        judge(&l, &five);
        judge(&l, &six);
        judge(&l, &seven);
        assert_int_equal(eval_log_undo(&l, cases[i].m, cases[i].n), cases[i].first);
        assert_int_equal(l.n, cases[i].left);
        eval_log_close(&l);
    }
}

static void a_result_of_an_earlier_release_is_found_by_its_numbers(void **state)
{
    (void)state;
    static const char text[] = "{\"job\": \"digits\", \"uuid\": \"a\", \"results\": [{\"cut\": 6, "
                               "\"generation\": 1, \"step\": 600, \"final\": true}]}";
    char path[128];
    struct errmsg e;
    struct eval_result r;
    const struct manifest six = written(1, 6, 66), other = written(2, 6, 67);
    (void)snprintf(path, sizeof path, "%s/eval.json", folder);
    assert_int_equal(files_write(path, text, strlen(text), &e), ERR_OK);
    assert_true(eval_log_judged(&job, folder, &six, &r, &e) && r.final);
    assert_false(eval_log_judged(&job, folder, &other, &r, &e));
}

static void another_job_begins_anew(void **state)
{
    (void)state;
    struct eval_log l = {.n = 0};
    const struct manifest m[] = {cut(1, 1, "b")};
    (void)add(&l, 3, 7, 700);
    assert_int_equal(eval_log_choose(&l, m, 1, NULL), 0);
    assert_null(eval_log_last(&l, "b"));
    bool again;
    const struct eval_result r = {.cut = 1, .generation = 1};
    assert_int_equal(eval_log_add(&l, "b", &r, &again), ERR_OK);
    assert_int_equal(l.n, 1);
    assert_null(eval_log_last(&l, "a"));
    eval_log_close(&l);
}

static void the_file_reads_back_to_the_bit(void **state)
{
    (void)state;
    struct eval_log l = {.n = 0}, got;
    struct errmsg e = {""};
    assert_int_equal(eval_log_read(&got, &job, folder, &e), ERR_OK);
    assert_int_equal(got.n, 0); /* there is none yet */
    (void)add(&l, 1, 0, 0);
    (void)add(&l, 2, 9, 900);
    l.result[1].manifest = UINT32_MAX;
    eval_log_add_blas(&l, "Zen");
    eval_log_add_blas(&l, "");
    eval_log_add_blas(&l, "Zen");
    eval_log_add_blas(&l, "Haswell");
    strcpy(l.data, "12ab");
    assert_int_equal(eval_log_write(&l, &job, folder, &e), ERR_OK);
    assert_int_equal(eval_log_read(&got, &job, folder, &e), ERR_OK);
    assert_int_equal(got.n, 2);
    assert_string_equal(got.data, "12ab");
    assert_int_equal(got.kernels, 2);
    assert_string_equal(got.blas[0], "Zen");
    assert_string_equal(got.blas[1], "Haswell");
    const struct eval_result *last = eval_log_last(&got, "a");
    assert_non_null(last);
    assert_true(last->final && !got.result[0].final);
    assert_int_equal(last->cut, 9);
    assert_int_equal(last->generation, 2);
    assert_true(last->manifest == UINT32_MAX && got.result[0].manifest == 0);
    assert_int_equal(last->eval.step, 900);
    assert_true(last->eval.loss == 1.0 / 12 && last->eval.metric[0] == 0.1 * 9);
    assert_true(isnan(last->eval.metric[1]));
    eval_log_close(&got);
    struct job other = job;
    strcpy(other.name, "letters");
    assert_int_equal(eval_log_read(&got, &other, folder, &e), ERR_OK);
    assert_int_equal(got.n, 0);
    eval_log_close(&l);
}

static void a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    struct eval_log l = {.n = 0}, got;
    struct errmsg e = {""};
    (void)add(&l, 1, 1, 100);
    assert_int_equal(eval_log_write(&l, &job, folder, &e), ERR_OK);
    (void)add(&l, 1, 2, 200);
    for (long n = 0;; n++) {
        files_fail_at(n, 28);
        enum err err = eval_log_write(&l, &job, folder, &e);
        if (!files_fail_fired())
            break;
        files_fail_at(-1, 0);
        assert_int_equal(err, ERR_IO);
        assert_int_equal(eval_log_read(&got, &job, folder, &e), ERR_OK);
        assert_in_range(got.n, 1, 2);
        eval_log_close(&got);
    }
    files_fail_at(-1, 0);
    eval_log_close(&l);
}

static void what_is_no_log_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{", "{\"job\": \"digits\"}", "{\"job\": \"digits\", \"uuid\": \"a\", \"results\": 3}",
        "{\"job\": \"digits\", \"uuid\": \"a\", \"results\": [{\"cut\": -1}]}",
        "{\"job\": \"digits\", \"uuid\": \"a\", \"results\": [7]}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char path[128];
        struct errmsg e = {""};
        struct eval_log l;
        (void)snprintf(path, sizeof path, "%s/eval.json", folder);
        assert_int_equal(files_write(path, texts[i], strlen(texts[i]), &e), ERR_OK);
        assert_int_equal(eval_log_read(&l, &job, folder, &e), ERR_CORRUPT);
        assert_non_null(strstr(e.text, path));
        assert_int_equal(l.n, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_cut_is_taken_in_its_order_and_none_twice),
        TEST(a_cut_that_is_passed_over_is_not_tried_again),
        TEST(a_number_that_is_used_again_after_a_rollback_is_another_cut),
        TEST(a_result_counts_for_no_other_cut_of_the_same_number),
        TEST(results_of_a_history_that_was_rolled_back_are_undone),
        TEST(a_result_of_an_earlier_release_is_found_by_its_numbers),
        TEST(another_job_begins_anew),
        TEST(the_file_reads_back_to_the_bit),
        TEST(a_full_disk_leaves_the_old_file),
        TEST(what_is_no_log_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
