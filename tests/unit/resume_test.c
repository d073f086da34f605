#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "worker/chief/resume.h"

static struct job asks_for(uint32_t epochs)
{
    struct job job = {.name = ""};
    job.training.epochs = epochs;
    return job;
}

static void a_job_that_goes_on_is_told_from_where(void **state)
{
    (void)state;
    char text[RESUME_WORDS_BYTES];
    const struct job job = asks_for(4);
    struct manifest m = {.cut = 5, .step = 90};
    assert_true(resume_words(text, &m, &job, 40));
    assert_string_equal(text,
                        "resuming from checkpoint 5: epoch 3/4, after step 10/40 (step 90 in all)");
    m.redo.there =
        true; /* three extra steps: the epoch began later than by the count of its batches */
    m.redo.epoch = 2;
    m.redo.begin = 83;
    assert_true(resume_words(text, &m, &job, 40));
    assert_string_equal(text,
                        "resuming from checkpoint 5: epoch 3/4, after step 7/40 (step 90 in all)");
}

static void a_job_that_has_its_epochs_is_told_why_nothing_was_trained_and_what_to_do(void **state)
{
    (void)state;
    char text[RESUME_WORDS_BYTES];
    const struct job job = asks_for(2);
    for (uint64_t step = 80; step < 100; step += 5) {
        const struct manifest m = {.cut = 5, .step = step};
        assert_false(resume_words(text, &m, &job, 40));
        assert_non_null(strstr(text, "nothing was trained: training.epochs is 2, and "
                                     "checkpoint 5 (step "));
        assert_non_null(strstr(text, step == 80
                                         ? ") already has 2; "
                                         : ") is already in the middle of epoch 3, so the model is "
                                           "not that of a job with training.epochs: 2; "));
        assert_non_null(strstr(text, "; to train more, set training.epochs above 2; "
                                     "to train from scratch (with another rate, for example), use "
                                     "--fresh or another --output"));
    }
    const struct manifest m = {.cut = 5, .step = 79};
    assert_true(resume_words(text, &m, &job, 40));
}

static void a_job_that_was_stopped_early_is_told_which_patience_would_do(void **state)
{
    (void)state;
    char text[RESUME_WORDS_BYTES];
    const struct job job = asks_for(60);
    const struct manifest m = {.cut = 9, .final = true, .step = 280};
    resume_words_done(text, &m, &job, 40, 3);
    assert_string_equal(
        text,
        "nothing was trained: training had stopped early, after 7 of 60 epochs (checkpoint 9, "
        "step 280); to train more, set early_stopping.patience above 3; to train from scratch "
        "(with another rate, for example), use --fresh or another --output");
}

static void the_longest_words_are_whole(void **state)
{
    (void)state;
    char text[RESUME_WORDS_BYTES];
    const struct job job = asks_for(UINT32_MAX);
    const struct manifest m = {.cut = UINT32_MAX, .step = UINT64_MAX};
    resume_words_done(text, &m, &job, 1, 0);
    assert_non_null(strstr(text, "another --output"));
    resume_words_done(text, &m, &job, UINT32_MAX, UINT32_MAX);
    assert_non_null(strstr(text, "another --output"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_goes_on_is_told_from_where),
        cmocka_unit_test(a_job_that_has_its_epochs_is_told_why_nothing_was_trained_and_what_to_do),
        cmocka_unit_test(a_job_that_was_stopped_early_is_told_which_patience_would_do),
        cmocka_unit_test(the_longest_words_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
