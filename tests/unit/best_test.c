#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "worker/evaluator/best.h"

static char folder[FOLDER_BYTES];
static struct tensor tensors[] = {
    {.name = "dense/kernel", .rank = 2, .shape = {2, 2}, .elems = 4},
    {.name = "dense/bias", .rank = 1, .shape = {2}, .offset_elems = 16, .elems = 2},
};
static const struct layout layout = {.tensors = 2, .tensor = tensors, .elems = 32};
static struct job job;

static int begin(void **state)
{
    (void)state;
    job = (struct job){.model = {.metrics = 1, .metric = {{METRIC_ACCURACY, "accuracy", 0}}},
                       .training = {.monitor = MONITOR_LOSS},
                       .early_stopping = {.patience = 2}};
    return folder_make(folder);
}

static int end(void **state)
{
    (void)state;
    return folder_remove(folder);
}

/* The weights of a large model are many: nothing is allocated for a file that is not there. */
static void without_a_best_no_memory_is_taken(void **state)
{
    (void)state;
    struct best b;
    struct errmsg e = {""};
    mem_fail_at(0);
    enum err err = best_init(&b, &job, &layout, folder, folder_place(folder), NULL, &e);
    bool fired = mem_fail_fired();
    mem_fail_at(-1);
    assert_int_equal(err, ERR_OK);
    assert_false(fired || b.has || b.lost);
    best_close(&b);
}

static struct best opened_for(const struct contents *data)
{
    struct best b;
    struct errmsg e = {""};
    assert_int_equal(best_init(&b, &job, &layout, folder, folder_place(folder), data, &e), ERR_OK);
    return b;
}

static struct best opened(void)
{
    return opened_for(NULL);
}

/* An evaluation at the end of `epoch`, of weights that are all `loss`; is it the best now? */
static bool see(struct best *b, uint64_t epoch, double loss, double accuracy)
{
    struct errmsg e = {""};
    float w[32];
    for (int i = 0; i < 32; i++)
        w[i] = (float)loss;
    const struct evaluation eval = {.step = 10 * epoch, .loss = loss, .metric = {accuracy}};
    assert_int_equal(best_see(b, epoch, &eval, w, &e), ERR_OK);
    return b->has && b->epoch == epoch;
}

static void the_best_of_other_evaluation_data_is_refused(void **state)
{
    (void)state;
    const struct contents monday = {.fingerprint = {0x12, 0x34}}, other = {.fingerprint = {0xab}};
    struct contents text = {.fingerprint = {'x', '3'}, .fast = true};
    struct errmsg e = {""};
    struct best b = opened(); /* as of a release that did not note the data */
    assert_true(see(&b, 1, 0.5, 0.1));
    best_close(&b);
    b = opened_for(&monday);
    assert_true(b.has && see(&b, 2, 0.25, 0.1));
    best_close(&b);
    b = opened_for(&monday);
    assert_true(b.has && b.epoch == 2);
    best_close(&b);
    assert_int_equal(best_init(&b, &job, &layout, folder, folder_place(folder), &other, &e),
                     ERR_INPUT);
    assert_non_null(strstr(e.text, "/best: the best epoch was found on other evaluation data "
                                   "(fingerprint 123400000000 there, ab0000000000 here)"));
    best_close(&b);
    b = opened_for(&text); /* the note is an earlier release's, and so may be of the same text */
    best_close(&b);
    text.knows_before = true;
    assert_int_equal(best_init(&b, &job, &layout, folder, folder_place(folder), &text, &e),
                     ERR_INPUT);
    best_close(&b);
    memcpy(text.before, monday.fingerprint, sizeof text.before);
    b = opened_for(&text);
    best_close(&b);
}

static void what_a_killed_chief_was_writing_is_removed(void **state)
{
    (void)state;
    struct best b = opened();
    struct errmsg e = {""};
    char left[3][sizeof b.place.where + 64];
    (void)snprintf(left[0], sizeof left[0], "%s/weights.safetensors" FILES_TEMPORARY "1",
                   b.place.where);
    (void)snprintf(left[1], sizeof left[1], "%s/tables", b.place.where);
    assert_int_equal(files_mkdirs(left[1], &e), ERR_OK);
    (void)snprintf(left[1], sizeof left[1], "%s/tables/a" FILES_TEMPORARY "2", b.place.where);
    (void)snprintf(left[2], sizeof left[2], "%s/all" FILES_TEMPORARY "3/of/it", b.place.where);
    assert_int_equal(files_mkdirs(left[2], &e), ERR_OK);
    (void)snprintf(left[2], sizeof left[2], "%s/all" FILES_TEMPORARY "3/of/b", b.place.where);
    for (int i = 0; i < 3; i++)
        assert_int_equal(files_write(left[i], "x", 1, &e), ERR_OK);
    (void)snprintf(left[2], sizeof left[2], "%s/all" FILES_TEMPORARY "3", b.place.where);
    assert_true(see(&b, 1, 0.5, 0.1));
    assert_true(opened().has);
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(access(left[i], F_OK), 0);
}

static void the_least_loss_is_kept_and_read_back(void **state)
{
    (void)state;
    struct best b = opened();
    struct errmsg e = {""};
    float w[32];
    assert_int_equal(best_read(&b, w, &e), ERR_NOTFOUND);
    assert_true(see(&b, 1, 0.5, 0.1));
    assert_true(see(&b, 2, 0.25, 0.0));
    assert_false(see(&b, 3, 0.25, 1.0)); /* no better is not better */
    assert_false(see(&b, 4, NAN, 1.0));
    struct best again = opened(); /* another process knows it too */
    assert_true(again.has && again.epoch == 2 && again.eval.step == 20 && again.value == 0.25);
    assert_true(again.eval.loss == 0.25 && again.eval.metric[0] == 0.0);
    memset(w, 0xff, sizeof w);
    assert_int_equal(best_read(&again, w, &e), ERR_OK);
    for (int i = 0; i < 32; i++)
        assert_true(w[i] == (i < 4 || i == 16 || i == 17 ? 0.25f : 0.0f)); /* gaps are zero */
}

static void an_accuracy_is_better_when_it_is_larger(void **state)
{
    (void)state;
    job.training.monitor = MONITOR_METRIC + METRIC_ACCURACY;
    job.early_stopping.min_delta = 0.0625f;
    struct best b = opened();
    assert_true(see(&b, 1, 1, 0.5));
    assert_false(see(&b, 2, 0, 0.5625)); /* by min_delta is not by more than it */
    assert_true(see(&b, 3, 9, 0.625));
}

static void it_stops_after_patience_epochs_without_a_better_one(void **state)
{
    (void)state;
    struct best b = opened();
    assert_false(best_stops(&b, 1));
    assert_true(best_stops(&b, 2)); /* never was there one to compare with */
    see(&b, 3, 1, 0);
    assert_false(best_stops(&b, 2)); /* gone back to an earlier cut */
    assert_false(best_stops(&b, 4));
    assert_true(best_stops(&b, 5));
    see(&b, 5, 0.5, 0);
    assert_false(best_stops(&b, 6));
    job.early_stopping.patience = 0;
    assert_false(best_stops(&b, 1000));
}

static void a_metric_that_the_rows_do_not_have_is_undefined(void **state)
{
    (void)state;
    job.model.metric[0] = job_metric_of(METRIC_AUC);
    job.training.monitor = MONITOR_METRIC + METRIC_AUC;
    struct best b = opened();
    assert_true(best_is_undefined(&b, &(struct evaluation){.loss = 0.5, .metric = {(double)NAN}}));
    assert_false(best_is_undefined(&b, &(struct evaluation){.loss = 0.5, .metric = {0.5}}));
    /* the job diverged */
    assert_false(
        best_is_undefined(&b, &(struct evaluation){.loss = (double)NAN, .metric = {(double)NAN}}));
    best_close(&b);
    job.training.monitor = MONITOR_LOSS;
    b = opened();
    assert_false(best_is_undefined(&b, &(struct evaluation){.loss = 0.5, .metric = {(double)NAN}}));
    best_close(&b);
}

static void the_first_epochs_may_be_left_out(void **state)
{
    (void)state;
    job.early_stopping.start_from_epoch = 3;
    struct best b = opened();
    assert_false(see(&b, 3, 0.1, 0));
    assert_false(best_stops(&b, 4));
    assert_true(see(&b, 4, 0.9, 0));
    assert_false(best_stops(&b, 5));
}

static void what_is_monitored_by_another_name_counts_no_more(void **state)
{
    (void)state;
    struct best b = opened();
    assert_true(see(&b, 1, 0.5, 0.5));
    job.training.monitor = MONITOR_METRIC + METRIC_ACCURACY;
    b = opened();
    assert_false(b.has || b.lost);
}

static void a_damaged_file_counts_as_none_and_is_replaced(void **state)
{
    (void)state;
    char path[128];
    struct errmsg e = {""};
    (void)snprintf(path, sizeof path, "%s/best/weights.safetensors", folder);
    struct best b = opened();
    assert_true(see(&b, 1, 0.5, 0.5));
    uint8_t *data;
    size_t bytes;
    assert_int_equal(files_read(path, 1 << 20, &data, &bytes, &e), ERR_OK);
    for (size_t keep = 0; keep < bytes; keep++) {
        assert_int_equal(files_write(path, data, keep, &e), ERR_OK);
        b = opened();
        assert_true(!b.has && b.lost);
    }
    assert_int_equal(files_write(path, data, bytes, &e), ERR_OK);
    assert_true(opened().has);
    free(data);
    tensors[0].shape[0] = 4;
    tensors[0].shape[1] = 1;
    assert_false(opened().has); /* of another model */
    b = opened();
    assert_true(see(&b, 2, 0.75, 0.5));
    tensors[0].shape[0] = tensors[0].shape[1] = 2;
}

/* Of a file with a flipped bit: either it is damaged, or it says what was written. */
static void check_flipped(const struct best *kept, const char *path, uint8_t *data, size_t bytes,
                          size_t bit)
{
    struct errmsg e = {""};
    float w[32];
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(files_write(path, data, bytes, &e), ERR_OK);
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    struct best b = opened();
    bool same = b.has && b.epoch == kept->epoch && b.value == kept->value &&
                b.eval.step == kept->eval.step && b.eval.metric[0] == kept->eval.metric[0] &&
                best_read(&b, w, &e) == ERR_OK && w[0] == 0.5f && w[17] == 0.5f;
    if (!same && (b.has || !b.lost))
        fail_msg("byte %zu, bit %zu", bit / 8, bit % 8);
}

static void no_flipped_bit_is_taken_for_another_best(void **state)
{
    (void)state;
    char path[128];
    struct errmsg e = {""};
    uint8_t *data;
    size_t bytes, flips = 0;
    float w[32];
    (void)snprintf(path, sizeof path, "%s/best/weights.safetensors", folder);
    struct best b = opened(), now = b;
    assert_int_equal(best_begin(&b, "00000000-0000-0000-0000-000000000001", &e), ERR_OK);
    assert_true(see(&b, 1, 0.5, 0.25));
    assert_int_equal(files_read(path, 1 << 20, &data, &bytes, &e), ERR_OK);
    for (; flips < 8 * bytes; flips++)
        check_flipped(&b, path, data, bytes, flips);
    assert_true(flips > 8 * 24);
    now = b; /* damaged while the job runs */
    data[bytes - 1] ^= 1;
    assert_int_equal(files_write(path, data, bytes, &e), ERR_OK);
    assert_int_equal(best_read(&now, w, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "/best/weights.safetensors is damaged"));
    free(data);
}

static void a_best_of_another_job_or_of_an_undone_step_is_removed(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct best b = opened();
    assert_int_equal(best_begin(&b, "a", &e), ERR_OK);
    assert_true(see(&b, 2, 0.5, 0.5)); /* step 20 */
    best_undo(&b, 20, 7);
    assert_true(b.has);
    b = opened();
    assert_true(b.has);
    assert_int_equal(best_begin(&b, "a", &e), ERR_OK);
    assert_true(b.has);
    best_undo(&b, 19, 7);
    assert_true(!b.has && b.ahead == 2);
    assert_int_equal(best_begin(&b, "a", &e), ERR_OK);
    assert_true(see(&b, 2, 0.75, 0.5));
    b = opened();
    assert_int_equal(best_begin(&b, "b", &e), ERR_OK);
    assert_true(!b.has && !opened().has && !b.lost);
}

/* In async the evaluation comes a moment after the epoch's end: the history keeps that epoch, too. */
static void
a_best_that_ended_before_the_checkpoint_is_not_undone_though_evaluated_after_it(void **state)
{
    (void)state;
    struct best b = opened();
    assert_true(see(&b, 2, 0.5, 0.5)); /* step 20 */
    job.training.update = UPDATE_ASYNC;
    best_undo(&b, 18, 9);
    assert_true(b.has);
    best_undo(&b, 17, 9);
    assert_false(b.has);
}

static void expect(struct best *b, uint64_t epoch, double loss)
{
    const struct evaluation eval = {.step = 10 * epoch, .loss = loss};
    best_expect(b, epoch, &eval);
}

static void a_best_whose_weights_are_gone_is_still_to_be_beaten(void **state)
{
    (void)state;
    const struct evaluation worse = {.loss = 0.75}, better = {.loss = 0.25}, same = {.loss = 0.5};
    struct errmsg e = {""};
    float w[32];
    struct best b = opened();
    assert_true(see(&b, 3, 0.5, 0));
    expect(&b, 3, 0.5);
    expect(&b, 2, 0.1); /* the file has a later one than the history */
    assert_true(b.has && !b.gone && b.epoch == 3);
    expect(&b, 4, 0.5);
    assert_true(b.has && b.gone && b.epoch == 4);
    assert_int_equal(best_read(&b, w, &e), ERR_NOTFOUND);
    assert_false(best_stops(&b, 5));
    assert_true(best_stops(&b, 6));
    assert_false(best_is_beaten(&b, 5, &worse) || best_is_beaten(&b, 5, &same));
    assert_true(best_is_beaten(&b, 5, &better) && best_is_beaten(&b, 4, &same));
    struct best other = b;
    assert_true(see(&other, 4, 0.5, 0) && !other.gone);
    assert_int_equal(best_read(&other, w, &e), ERR_OK);
    best_undo(&b, 39, 7);
    assert_true(!b.has && !b.gone && b.ahead == 4);
    expect(&b, 2, 0.5);
    job.training.epochs = 3;
    assert_true(best_is_given_up(&b, 3, &worse)); /* there is no epoch 4 any more */
    job.training.epochs = 9;
    assert_true(b.gone && !best_is_given_up(&b, 3, &worse) && !best_is_given_up(&b, 4, &better));
    assert_true(best_is_given_up(&b, 4, &worse)); /* epoch 4 is not what it was */
    best_give_up(&b);
    assert_false(best_is_given_up(&b, 4, &worse));
    assert_true(see(&b, 5, 9, 0));
}

/* To begin without it would be to train another model. */
static void a_file_that_cannot_be_read_now_is_an_error_and_not_lost(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum err err;
    } of[] = {{EIO, ERR_IO}, {EMFILE, ERR_FILES}, {ENOMEM, ERR_NOMEM}};
    struct best b = opened();
    assert_true(see(&b, 1, 0.5, 0.5));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        long n = 0;
        for (;; n++) {
            struct errmsg e = {""};
            files_fail_read_at(n, of[i].error);
            enum err err = best_init(&b, &job, &layout, folder, folder_place(folder), NULL, &e);
            if (!files_fail_read_fired())
                break;
            assert_int_equal(err, of[i].err);
            assert_false(b.has);
            assert_non_null(strstr(e.text, "/best/weights.safetensors"));
        }
        assert_true(n > 3);
        files_fail_read_at(-1, 0);
        assert_true(opened().has);
    }
    struct errmsg e = {""};
    char path[sizeof b.path];
    (void)snprintf(path, sizeof path, "%s", b.path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("weights.safetensors", path), 0); /* to itself: is it there? */
    assert_int_equal(best_init(&b, &job, &layout, folder, folder_place(folder), NULL, &e), ERR_IO);
    assert_non_null(strstr(e.text, "/best/weights.safetensors"));
    assert_int_equal(unlink(path), 0);
}

static void a_full_disk_keeps_the_former_best(void **state)
{
    (void)state;
    struct best b = opened();
    struct errmsg e = {""};
    float w[32] = {0};
    assert_true(see(&b, 1, 0.5, 0.5));
    const struct evaluation eval = {.step = 20, .loss = 0.25};
    files_fail_at(1, 28 /* ENOSPC */);
    assert_int_equal(best_see(&b, 2, &eval, w, &e), ERR_IO);
    files_fail_at(-1, 0);
    assert_true(b.epoch == 1 && opened().epoch == 1);
    assert_true(see(&b, 3, 0.25, 0.5));
}

/* A chief was killed in between, or its disk was full. */
static void a_better_evaluation_of_a_later_epoch_that_is_not_kept_is_lacking(void **state)
{
    (void)state;
    struct best b = opened();
    const struct evaluation better = {.step = 20, .loss = 0.25}, worse = {.step = 20, .loss = 0.75};
    assert_true(best_lacks(&b, 1, &worse));
    assert_true(see(&b, 2, 0.5, 0.5));
    assert_true(best_lacks(&b, 3, &better));
    assert_false(best_lacks(&b, 3, &worse));
    assert_false(best_lacks(&b, 2, &better)); /* another evaluation of the epoch that is kept */
    assert_false(best_lacks(&b, 1, &better));
    job.training.monitor = MONITOR_NONE;
    assert_false(best_lacks(&b, 3, &better));
}

/* Publish cut 3 with these weights. */
static void publish(const float *w, double seconds)
{
    struct errmsg e;
    struct checkpoint_file file;
    const struct checkpoint_shard shard = {.generation = 1, .elems = 32, .w = (float *)w};
    struct manifest m = {.cut = 3,
                         .generation = 1,
                         .step = 10,
                         .total_elems = 32,
                         .files = 1,
                         .file = &file,
                         .seconds = seconds};
    assert_int_equal(
        checkpoint_write_shard((struct cut){folder_place(folder), 3}, &shard, &file, &e), ERR_OK);
    assert_int_equal(checkpoint_publish(folder_place(folder), &m, &e), ERR_OK);
}

/* A job that went back uses the number again. */
static void rows_of_another_cut_with_the_same_number_are_not_the_bests(void **state)
{
    (void)state;
    const struct row_layout rows = {.tables = 1};
    struct layout with_rows = layout;
    const struct evaluation eval = {.step = 10, .loss = 0.5};
    const float w[32] = {0.5f};
    struct best b, again;
    struct errmsg e = {""};
    int hold;
    with_rows.rows = (struct row_layout *)&rows;
    publish(w, 1);
    assert_int_equal(best_init(&b, &job, &with_rows, folder, folder_place(folder), NULL, &e),
                     ERR_OK);
    assert_int_equal(best_begin(&b, "a", &e), ERR_OK);
    assert_int_equal(checkpoint_hold((struct cut){folder_place(folder), 3}, &hold, &e), ERR_OK);
    assert_int_equal(best_keep_cut(&b, 1, &eval, 3, hold, &e), ERR_OK);
    assert_int_equal(best_init(&again, &job, &with_rows, folder, folder_place(folder), NULL, &e),
                     ERR_OK);
    assert_true(again.has && again.cut == 3 && again.cut_manifest == b.cut_manifest);
    best_close(&again);
    publish(w, 2);
    assert_int_equal(best_init(&again, &job, &with_rows, folder, folder_place(folder), NULL, &e),
                     ERR_OK);
    assert_true(!again.has && again.lost);
    assert_int_equal(best_begin(&again, "a", &e), ERR_OK);
    assert_true(again.lost);
    /* the file of another run: a power failure brought it back, but not its checkpoint */
    assert_int_equal(best_init(&again, &job, &with_rows, folder, folder_place(folder), NULL, &e),
                     ERR_OK);
    assert_int_equal(best_begin(&again, "b", &e), ERR_OK);
    assert_true(!again.has && !again.lost);
    best_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_best_no_memory_is_taken, begin, end),
        cmocka_unit_test_setup_teardown(the_best_of_other_evaluation_data_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(what_a_killed_chief_was_writing_is_removed, begin, end),
        cmocka_unit_test_setup_teardown(the_least_loss_is_kept_and_read_back, begin, end),
        cmocka_unit_test_setup_teardown(an_accuracy_is_better_when_it_is_larger, begin, end),
        cmocka_unit_test_setup_teardown(it_stops_after_patience_epochs_without_a_better_one, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_metric_that_the_rows_do_not_have_is_undefined, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_first_epochs_may_be_left_out, begin, end),
        cmocka_unit_test_setup_teardown(what_is_monitored_by_another_name_counts_no_more, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_damaged_file_counts_as_none_and_is_replaced, begin, end),
        cmocka_unit_test_setup_teardown(no_flipped_bit_is_taken_for_another_best, begin, end),
        cmocka_unit_test_setup_teardown(
            a_best_that_ended_before_the_checkpoint_is_not_undone_though_evaluated_after_it, begin,
            end),
        cmocka_unit_test_setup_teardown(a_best_of_another_job_or_of_an_undone_step_is_removed,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_best_whose_weights_are_gone_is_still_to_be_beaten, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_full_disk_keeps_the_former_best, begin, end),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_read_now_is_an_error_and_not_lost,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_better_evaluation_of_a_later_epoch_that_is_not_kept_is_lacking, begin, end),
        cmocka_unit_test_setup_teardown(rows_of_another_cut_with_the_same_number_are_not_the_bests,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
