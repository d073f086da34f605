/* The history of a job's epochs: what reads back, what a rollback undoes, and whose lines count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "worker/chief/epoch_log.h"

static const struct job *job(void)
{
    static struct job j;
    j = (struct job){.model = {.metrics = 2,
                               .metric = {{METRIC_ACCURACY, "accuracy", 0},
                                          {METRIC_MEAN_ABSOLUTE_ERROR, "mean_absolute_error", 0}}}};
    return &j;
}

/* Of numbers that decimal digits do not have. */
static struct epoch_line line(uint64_t epoch)
{
    return (struct epoch_line){.epoch = epoch,
                               .step = 10 * epoch,
                               .seconds = (double)epoch / 3,
                               .trained = {.loss = 1 / 7.0, .metric = {2.0 / 3, 1e-300}},
                               .has_eval = true,
                               .eval = {.loss = 1e22 / 3, .metric = {0, 0.1}}};
}

static void add(struct epoch_log *l, uint64_t epoch)
{
    struct epoch_line one = line(epoch);
    assert_int_equal(epoch_log_add(l, &one), ERR_OK);
}

static struct epoch_log of(const char *uuid, uint64_t epochs)
{
    struct epoch_log l = {.n = 0};
    (void)epoch_log_begin(&l, uuid);
    for (uint64_t i = 1; i <= epochs; i++)
        add(&l, i);
    return l;
}

static void parse(struct epoch_log *l, const char *text)
{
    struct epoch_damage d;
    assert_int_equal(epoch_log_parse(l, job(), text, strlen(text), &d), ERR_OK);
}

static void an_epoch_reads_back_to_the_bit(void **state)
{
    (void)state;
    struct epoch_log l = of("a", 2), back = {.n = 0};
    l.line[1].trained.loss = l.line[1].eval.metric[0] = NAN;
    struct epoch_line none = line(3);
    none.has_eval = false;
    assert_int_equal(epoch_log_add(&l, &none), ERR_OK);
    char *text = epoch_log_text(&l, job(), NULL), *last = epoch_log_text(&l, job(), &l.line[2]);
    assert_true(text && last);
    assert_string_equal(text + strlen(text) - strlen(last), last);
    parse(&back, text);
    assert_string_equal(back.uuid, "a");
    assert_int_equal(back.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(epoch_line_equal(&back.line[i], &l.line[i], 2));
        assert_true(back.line[i].seconds == l.line[i].seconds);
    }
    assert_false(epoch_line_equal(&l.line[0], &l.line[1], 2));
    mem_free(text);
    mem_free(last);
    epoch_log_close(&l);
    epoch_log_close(&back);
}

static void results_that_differ_in_anything_but_the_time_are_others(void **state)
{
    (void)state;
    const struct epoch_line is = line(1);
    struct epoch_line other[] = {is, is, is, is, is, is, is};
    other[0].step++;
    other[1].has_eval = false;
    other[2].trained.loss = NAN;
    other[3].trained.metric[1] = 2;
    other[4].eval.loss = 2;
    other[5].eval.metric[0] = NAN;
    other[6].eval.metric[1] = 2;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (epoch_line_equal(&is, &other[i], 2) || epoch_line_equal(&other[i], &is, 2))
            fail_msg("%zu", i);
    assert_true(epoch_line_equal(&is, &other[6], 1)); /* it has no more */
    other[0] = is;
    other[0].seconds = 9;
    assert_true(epoch_line_equal(&is, &other[0], 2));
}

static void an_epoch_that_is_made_again_takes_the_place_of_all_behind_it(void **state)
{
    (void)state;
    struct epoch_log l = of("a", 4);
    add(&l, 3);
    assert_int_equal(l.n, 3);
    assert_non_null(epoch_log_find(&l, 3));
    assert_null(epoch_log_find(&l, 4));
    add(&l, 9); /* in async some are missing */
    assert_int_equal(l.n, 4);
    const uint64_t from[] = {0, 2, 3, 5, 8, 9}, whole[] = {3, 3, 3, 5, 9, 9};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        assert_int_equal(epoch_log_whole(&l, from[i]), whole[i]);
    epoch_log_close(&l);
}

static void a_rollback_undoes_the_epochs_that_its_cut_has_not(void **state)
{
    (void)state;
    struct epoch_log l = of("a", 4);
    assert_false(epoch_log_restore(&l, 40));
    assert_true(epoch_log_restore(&l, 39));
    assert_true(epoch_log_restore(&l, 20));
    assert_int_equal(l.n, 2);
    assert_true(epoch_log_restore(&l, 0));
    assert_int_equal(l.n, 0);
    assert_false(epoch_log_restore(&l, 0));
    epoch_log_close(&l);
}

static void epochs_of_another_job_do_not_count(void **state)
{
    (void)state;
    struct epoch_log l = of("a", 2), other = of("b", 1);
    char *text = epoch_log_text(&other, job(), NULL);
    assert_false(epoch_log_begin(&l, "a"));
    parse(&l, text); /* the last one's */
    assert_string_equal(l.uuid, "b");
    assert_int_equal(l.n, 1);
    assert_true(epoch_log_begin(&l, "c"));
    assert_int_equal(l.n, 0);
    assert_false(epoch_log_begin(&l, "d"));
    mem_free(text);
    epoch_log_close(&l);
    epoch_log_close(&other);
}

static void add_evaluation(struct epoch_log *l, uint64_t step, double loss)
{
    const struct epoch_line one = {
        .step = step, .seconds = 2, .has_eval = true, .eval = {.step = step, .loss = loss}};
    assert_int_equal(epoch_log_add(l, &one), ERR_OK);
}

static void evaluations_within_epochs_are_lines_of_their_own(void **state)
{
    (void)state;
    struct epoch_log l = {.n = 0}, back = {.n = 0};
    (void)epoch_log_begin(&l, "a");
    add_evaluation(&l, 3, 0.5);
    add(&l, 1); /* ends at step 10 */
    add_evaluation(&l, 6, 0.25);
    add_evaluation(&l, 9, 0.125);
    char *text = epoch_log_text(&l, job(), NULL),
         *last = epoch_log_text(&l, job(), &l.evaluation[2]);
    assert_non_null(strstr(text, last));
    assert_null(strstr(last, "epoch"));
    parse(&back, text);
    assert_int_equal(back.n, 1);
    assert_int_equal(back.evaluations, 3);
    assert_true(back.evaluation[1].step == 6 && back.evaluation[1].eval.loss == 0.25);
    add_evaluation(&back, 6, 1); /* trained again */
    assert_int_equal(back.evaluations, 2);
    assert_true(back.evaluation[1].eval.loss == 1);
    assert_true(epoch_log_restore(&back, 5));
    assert_int_equal(back.n, 0);
    assert_int_equal(back.evaluations, 1);
    assert_true(epoch_log_begin(&back, "b"));
    assert_int_equal(back.n + back.evaluations, 0);
    mem_free(text);
    mem_free(last);
    epoch_log_close(&l);
    epoch_log_close(&back);
}

static void lines_that_make_no_sense_are_passed_over(void **state)
{
    (void)state;
    struct epoch_log l = {.n = 0};
    parse(&l, "\n[]\n{\"job\":\"a\"}\n"
              "{\"job\":\"a\",\"epoch\":0,\"step\":1,\"seconds\":1,\"train\":{}}\n"
              "{\"job\":\"a\",\"epoch\":1,\"step\":-1,\"seconds\":1,\"train\":{}}\n"
              "{\"job\":\"a\",\"epoch\":1,\"step\":1,\"seconds\":null,\"train\":{}}\n"
              "{\"job\":\"a\",\"epoch\":1,\"step\":1,\"seconds\":1}\n"
              "{\"epoch\":1,\"step\":1,\"seconds\":1,\"train\":{}}\n"
              "{\"job\":\"a\",\"epoch\":2,\"step\":5,\"seconds\":1,\"train\":{\"loss\":3}}\n"
              "{\"job\":\"a\",\"epoch\":3,\"step\":6,\"seconds\":1,\"train\":{\"lo");
    assert_int_equal(l.n, 1);
    assert_int_equal(l.line[0].epoch, 2);
    assert_true(l.line[0].trained.loss == 3 && isnan(l.line[0].trained.metric[1]));
    assert_false(l.line[0].has_eval);
    epoch_log_close(&l);
}

/* A line without the key of the checksum counts, as those of an earlier release do: its bytes are left out. */
static void a_changed_byte_of_a_line_is_found(void **state)
{
    (void)state;
    struct epoch_log l = of("a", 3);
    char *text = epoch_log_text(&l, job(), NULL);
    char *second = strchr(text, '\n') + 1, *key = strstr(second, ",\"crc\":"), *third;
    third = strchr(second, '\n') + 1;
    assert_true(second < key && key < third);
    for (char *at = second; at < third - 1; at += at + 1 == key ? 8 : 1) {
        struct epoch_log got = {.n = 0};
        struct epoch_damage d;
        *at ^= 4;
        assert_int_equal(epoch_log_parse(&got, job(), text, strlen(text), &d), ERR_OK);
        if (d.damaged != 1 || d.first != 2 || got.n != 2)
            fail_msg("byte %td: %zu damaged, the first %zu", at - second, d.damaged, d.first);
        *at ^= 4;
        epoch_log_close(&got);
    }
    mem_free(text);
    epoch_log_close(&l);
}

static void an_epoch_that_was_evaluated_on_other_data_is_found(void **state)
{
    (void)state;
    struct contents one = {.fingerprint = {1}}, two = {.fingerprint = {2}};
    struct epoch_log l = of("a", 3), back = {.n = 0};
    assert_null(epoch_log_other_data(&l, &one)); /* an earlier release did not note it */
    epoch_log_name_data(&l.line[1], &one);
    char *text = epoch_log_text(&l, job(), NULL);
    parse(&back, text);
    assert_null(epoch_log_other_data(&back, &one));
    assert_int_equal(epoch_log_other_data(&back, &two)->epoch, 2);
    mem_free(text);
    epoch_log_close(&l);
    epoch_log_close(&back);
}

static void an_evaluation_within_an_epoch_on_other_data_is_found_too(void **state)
{
    (void)state;
    struct contents one = {.fingerprint = {1}}, two = {.fingerprint = {2}};
    struct epoch_log l = {.n = 0};
    add_evaluation(&l, 3, 0.5);
    epoch_log_name_data(&l.evaluation[0], &one);
    assert_null(epoch_log_other_data(&l, &one));
    assert_int_equal(epoch_log_other_data(&l, &two)->step, 3);
    add(&l, 1); /* ends at step 10 */
    epoch_log_name_data(&l.line[0], &one);
    assert_int_equal(epoch_log_other_data(&l, &two)->epoch, 1);
    add_evaluation(&l, 13, 0.5);
    epoch_log_name_data(&l.evaluation[1], &one);
    assert_int_equal(epoch_log_other_data(&l, &two)->step, 13);
    epoch_log_close(&l);
}

static void what_is_appended_is_read_behind_a_torn_line_too(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], path[4200];
    struct errmsg e = {""};
    struct epoch_damage d;
    struct epoch_log l = of("a", 2), back = {.n = 0};
    assert_int_equal(folder_make(folder), 0);
    assert_int_equal(epoch_log_read(&back, job(), folder, &d, &e),
                     ERR_OK); /* none is an empty one */
    assert_int_equal(back.n, 0);
    epoch_log_path(path, folder);
    assert_int_equal(line_file_sync(path, &e), ERR_IO);
    for (size_t i = 0; i < l.n; i++) {
        char *text = epoch_log_text(&l, job(), &l.line[i]);
        *strchr(text, '\n') = '\0';
        assert_int_equal(line_file_append(path, "{\"torn", 6, &e), ERR_OK);
        assert_int_equal(line_file_append(path, text, strlen(text), &e), ERR_OK);
        assert_int_equal(line_file_append(path, "\n", 1, &e), ERR_OK);
        mem_free(text);
    }
    assert_int_equal(line_file_sync(path, &e), ERR_OK);
    assert_int_equal(epoch_log_read(&back, job(), folder, &d, &e), ERR_OK);
    assert_int_equal(back.n, 2);
    assert_int_equal(folder_remove(folder), 0);
    epoch_log_close(&l);
    epoch_log_close(&back);
}

static void the_last_best_epoch_is_the_one_of_this_monitor(void **state)
{
    (void)state;
    struct job by_loss = *job(), by_accuracy = *job();
    by_loss.training.monitor = MONITOR_LOSS;
    by_accuracy.training.monitor = MONITOR_METRIC + METRIC_ACCURACY;
    struct epoch_damage d;
    struct epoch_log l = of("a", 5), back = {.n = 0}, other = {.n = 0};
    assert_null(epoch_log_best(&l, UINT64_MAX));
    l.line[1].best = l.line[3].best = true;
    char *text = epoch_log_text(&l, &by_loss, NULL);
    assert_int_equal(epoch_log_parse(&back, &by_loss, text, strlen(text), &d), ERR_OK);
    const uint64_t to[] = {2, 3, 4, UINT64_MAX}, best[] = {2, 2, 4, 4};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        assert_int_equal(epoch_log_best(&back, to[i])->epoch, best[i]);
    assert_null(epoch_log_best(&back, 1));
    assert_true(epoch_log_restore(&back, 39));
    assert_int_equal(epoch_log_best(&back, UINT64_MAX)->epoch, 2);
    assert_int_equal(epoch_log_parse(&other, &by_accuracy, text, strlen(text), &d), ERR_OK);
    assert_null(epoch_log_best(&other, UINT64_MAX));
    mem_free(text);
    epoch_log_close(&l);
    epoch_log_close(&back);
    epoch_log_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_reads_back_to_the_bit),
        cmocka_unit_test(a_changed_byte_of_a_line_is_found),
        cmocka_unit_test(an_epoch_that_was_evaluated_on_other_data_is_found),
        cmocka_unit_test(an_evaluation_within_an_epoch_on_other_data_is_found_too),
        cmocka_unit_test(results_that_differ_in_anything_but_the_time_are_others),
        cmocka_unit_test(an_epoch_that_is_made_again_takes_the_place_of_all_behind_it),
        cmocka_unit_test(a_rollback_undoes_the_epochs_that_its_cut_has_not),
        cmocka_unit_test(epochs_of_another_job_do_not_count),
        cmocka_unit_test(evaluations_within_epochs_are_lines_of_their_own),
        cmocka_unit_test(lines_that_make_no_sense_are_passed_over),
        cmocka_unit_test(what_is_appended_is_read_behind_a_torn_line_too),
        cmocka_unit_test(the_last_best_epoch_is_the_one_of_this_monitor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
