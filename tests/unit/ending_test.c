/* A job's end, as the newest manifest shows it, and the news that a resting worker recognizes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/checkpoint/ending.h"
#include "worker/control/idle.h"
#include "tests/lib/folder.h"

static char identity[] = "name: digits\ntraining.seed: 1\n",
            other[] = "name: digits\ntraining.seed: 2\n";

static struct job job_of(uint32_t epochs, uint32_t patience)
{
    struct job job = {.name = "digits", .identity_text = identity};
    job.training.epochs = epochs;
    job.early_stopping.patience = patience;
    return job;
}

/* The final one of so many epochs; the sums of the last four are there, in a ring. */
static struct manifest learned(uint64_t epochs)
{
    struct manifest m = {.final = true, .identity_text = identity};
    for (uint64_t i = epochs > CHECKPOINT_EPOCHS ? epochs - CHECKPOINT_EPOCHS : 0; i < epochs; i++)
        m.epoch[i % CHECKPOINT_EPOCHS] = (struct epoch_sums){.epoch = i, .batches = 10};
    return m;
}

static void a_job_is_done_when_all_its_epochs_are_in_the_final_cut(void **state)
{
    (void)state;
    const struct job three = job_of(3, 0), seven = job_of(7, 0);
    struct manifest m = learned(3);
    assert_int_equal(ending_of(&m, &three), ENDING_DONE);
    assert_int_equal(ending_of(&m, &seven), ENDING_NONE); /* more epochs reopen it */
    m = learned(7);
    assert_int_equal(ending_of(&m, &seven), ENDING_DONE);
    assert_int_equal(ending_of(&m, &three), ENDING_DONE);
    m.final = false;
    assert_int_equal(ending_of(&m, &seven), ENDING_NONE);
}

static void a_job_that_may_stop_early_may_have_been(void **state)
{
    (void)state;
    const struct job job = job_of(100, 5);
    struct manifest m = learned(12);
    assert_int_equal(ending_of(&m, &job), ENDING_EARLY);
    m = learned(100);
    assert_int_equal(ending_of(&m, &job), ENDING_DONE);
}

static void what_is_told_of_a_job_suffices_for_no_more_epochs_and_no_other_run(void **state)
{
    (void)state;
    struct job job = job_of(3, 5);
    struct over over;
    over_set(&over, 3, "");
    assert_true(over_suffices(&over, &job));
    over.epochs = 2; /* stopped early: another patience might go on */
    assert_false(over_suffices(&over, &job));
    over_set(&over, 4, "monday");
    assert_true(over_suffices(&over, &job)); /* which names none */
    memcpy(job.checkpoint.run, "monday", sizeof "monday");
    assert_true(over_suffices(&over, &job));
    memcpy(job.checkpoint.run, "friday", sizeof "friday");
    assert_false(over_suffices(&over, &job));
    over_set(&over, 0, "friday");
    assert_false(over_suffices(&over, &job)); /* nothing is known */
}

static void another_jobs_end_is_not_ours(void **state)
{
    (void)state;
    const struct job job = job_of(3, 0);
    struct manifest m = learned(3);
    m.identity_text = other;
    assert_int_equal(ending_of(&m, &job), ENDING_NONE);
    m.identity_text = NULL;
    assert_int_equal(ending_of(&m, &job), ENDING_NONE);
    assert_int_equal(ending_find(folder_place("/no/such/folder"), &job, &m), ENDING_NONE);
}

static void a_cut_that_cannot_be_used_ends_nothing(void **state)
{
    (void)state;
    char dir[] = "/tmp/ending_test-XXXXXX", path[96], command[64];
    const struct job job = job_of(3, 0);
    uint32_t threads[] = {1};
    float w[16] = {0};
    struct checkpoint_file file;
    struct checkpoint_shard shard = {.generation = 2, .elems = 16, .w = w};
    struct errmsg e = {""};
    struct manifest m = learned(3), found = {0};
    m.generation = 2;
    assert_non_null(mkdtemp(dir));
    m.total_elems = 16;
    m.files = m.ps = m.microbatches = 1;
    m.file = &file;
    m.ps_threads = threads;
    strcpy(m.uuid, "3b241101-e2bb-4255-8caf-4136c566a962");
    assert_int_equal(checkpoint_write_shard((struct cut){folder_place(dir), 0}, &shard, &file, &e),
                     ERR_OK);
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &e), ERR_OK);
    assert_int_equal(ending_find(folder_place(dir), &job, &found), ENDING_DONE);
    manifest_close(&found);
    assert_true(ending_seen(folder_place(dir), &job, 0) &&
                ending_seen(folder_place(dir), &job, m.generation));
    assert_false(
        ending_seen(folder_place(dir), &job, m.generation + 1)); /* it was reopened since */
    const struct job early = job_of(7, 5);
    assert_true(ending_seen(folder_place(dir), &early, m.generation));
    assert_false(ending_seen(folder_place(dir), &early, 0)); /* of another patience, perhaps */
    (void)snprintf(path, sizeof path, "%s/cut-0000000000/%s", dir, file.name);
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(ending_find(folder_place(dir), &job, &found), ENDING_NONE);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes into it: it is not waited for */
    assert_int_equal(ending_find(folder_place(dir), &job, &found), ENDING_NONE);
    (void)snprintf(path, sizeof path, "%s/cut-0000000000/manifest.gw", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ending_find(folder_place(dir), &job, &found), ENDING_NONE);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void another_runs_end_is_not_ours(void **state)
{
    (void)state;
    struct job job = job_of(3, 0);
    struct manifest m = learned(3);
    strcpy(m.run, "monday");
    assert_int_equal(ending_of(&m, &job), ENDING_DONE); /* a job that names none takes any */
    strcpy(job.checkpoint.run, "monday");
    assert_int_equal(ending_of(&m, &job), ENDING_DONE);
    strcpy(job.checkpoint.run, "tuesday");
    assert_int_equal(ending_of(&m, &job), ENDING_NONE);
}

static void news_is_another_run_or_a_later_generation(void **state)
{
    (void)state;
    const struct idle_run none = {"", 0}, over = {"a", 4};
    assert_true(idle_is_news(&none, "a", 1));
    assert_false(idle_is_news(&over, "a", 4));
    assert_true(idle_is_news(&over, "a", 5));
    assert_true(idle_is_news(&over, "b", 1));
}

static void assert_state(struct idle_end end, enum process_state state, int code)
{
    int exit_code = -1;
    assert_int_equal(idle_state(&end, &exit_code), state);
    assert_int_equal(exit_code, code);
}

static void a_worker_whose_training_ended_rests_or_ends(void **state)
{
    (void)state;
    assert_state((struct idle_end){.exit_code = 0, .waits = true}, STATE_DONE, 0);
    assert_state((struct idle_end){.exit_code = 1, .waits = true}, STATE_LOADING, 1);
    assert_state((struct idle_end){.exit_code = 1, .waits = true, .nobody_came = true}, STATE_IDLE,
                 0);
    assert_state((struct idle_end){.exit_code = 1, .nobody_came = true}, STATE_LOADING, 1);
    assert_state((struct idle_end){.exit_code = 1, .nobody_came = true, .known_over = true},
                 STATE_DONE, 0);
}

static void told_to_go_it_never_rests(void **state)
{
    (void)state;
    assert_state((struct idle_end){.exit_code = 0, .waits = true, .going = true}, STATE_LOADING, 0);
    assert_state(
        (struct idle_end){.exit_code = 1, .waits = true, .going = true, .nobody_came = true},
        STATE_LOADING, 143);
    assert_state((struct idle_end){.exit_code = 143,
                                   .waits = true,
                                   .going = true,
                                   .nobody_came = true,
                                   .known_over = true},
                 STATE_LOADING, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_done_when_all_its_epochs_are_in_the_final_cut),
        cmocka_unit_test(a_job_that_may_stop_early_may_have_been),
        cmocka_unit_test(what_is_told_of_a_job_suffices_for_no_more_epochs_and_no_other_run),
        cmocka_unit_test(another_jobs_end_is_not_ours),
        cmocka_unit_test(a_cut_that_cannot_be_used_ends_nothing),
        cmocka_unit_test(another_runs_end_is_not_ours),
        cmocka_unit_test(news_is_another_run_or_a_later_generation),
        cmocka_unit_test(a_worker_whose_training_ended_rests_or_ends),
        cmocka_unit_test(told_to_go_it_never_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
