/* The end of an epoch at the chief: which evaluations may be the best. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/gathered.h"
#include "tests/lib/trained.h"
#include "worker/chief/epoch_end.h"
#include "worker/core/session_inner.h"
#include "worker/tensorboard/events.h"

static const char JOB[] =
    "name: t\noptimizer: sgd\ntraining: {batch_size: 2, microbatches: 1, epochs: 100, monitor: "
    "loss}\nworker: {threads: 1}\n"
    "data: {format: csv, train: train.txt, eval: eval.txt, columns: [number: x, label: {name: "
    "y}]}\n"
    "model: {input: {shape: auto}, loss: sparse_categorical_crossentropy, layers: [dense: {units: "
    "2, activation: softmax}]}\n";
/* Its evaluation needs memory for rows. */
static const char TABLE_JOB[] =
    "name: t\noptimizer: sgd\ntraining: {batch_size: 2, microbatches: 1, monitor: loss}\n"
    "worker: {threads: 1}\n"
    "data: {format: csv, train: train.txt, eval: eval.txt, columns: [key: x, label: y]}\n"
    "model: {input: {shape: auto}, loss: binary_crossentropy, layers: [linear: {inputs: x}, "
    "sigmoid]}\n";
enum { PER_EPOCH = 2 };

/* A chief whose session is at the end of an epoch; its letters to the control thread are read here. */
static struct fixture {
    struct trained t;
    struct order order;
    struct dataset_source source, eval_source;
    struct cluster cluster;
    struct train *train;
    struct session *session;
    float *w;
    struct control control;
    struct driver_result result;
    struct best best;
    struct epoch_log log;
    struct curves curves;
    struct epoch_end_result learned;
    struct epoch_end *end;
    uint64_t epoch;
    enum err rest;                   /* of what is written at the end */
    int evaluated, inexact, written; /* letters */
    char why[sizeof(struct errmsg) + 80];
} f;

static void on_letter(void *arg, struct mail *m)
{
    (void)arg;
    if (m->type == CONTROL_EPOCH_LINE)
        epoch_end_ops.noted(f.end);
    f.evaluated += m->type == CONTROL_EVALUATED;
    f.inexact += m->type == CONTROL_INEXACT;
    f.written += m->type == CONTROL_WRITTEN;
    if (m->type == CONTROL_INEXACT)
        (void)snprintf(f.why, sizeof f.why, "%s", (const char *)m->data);
    if (m->type == CONTROL_EPOCH_LINE || m->type == CONTROL_STEP || m->type == CONTROL_WRITTEN)
        loop_stop(&f.control.loop);
}

static void must(enum err err)
{
    if (err)
        fail_msg("%s", f.t.e.text);
}

/* Sets f.rest as its error. */
static enum err write_rest(void *arg, struct errmsg *e)
{
    (void)arg;
    return f.rest ? err_set(e, f.rest, "model/ is not written") : ERR_OK;
}

static int open_job(const char *job)
{
    f = (struct fixture){.learned.first_step_s = NAN};
    trained_init(&f.t, job, "1,0\n2,1\n3,0\n4,1\n", "1,1\n2,0\n");
    f.order = (struct order){4, 2, 1, 1, 0};
    const struct train_config config = {.job = &f.t.job,
                                        .cluster = &f.cluster,
                                        .model = f.t.model,
                                        .source = source_over(&f.source, &f.t.train, &f.order)};
    must(train_new(&f.train, &config, &f.t.e));
    const struct train_parts *parts = train_parts(f.train);
    must(best_init(&f.best, &f.t.job, model_layout(f.t.model), f.t.dir, folder_place(f.t.dir), NULL,
                   &f.t.e));
    const struct epoch_end_config end = {.job = &f.t.job,
                                         .model = f.t.model,
                                         .data = &f.t.train,
                                         .eval = source_over(&f.eval_source, &f.t.eval, NULL),
                                         .best = &f.best,
                                         .curves = &f.curves,
                                         .log = &f.log,
                                         .output = f.t.dir,
                                         .write_rest = write_rest,
                                         .progress_fd = -1};
    must(epoch_end_new(&f.end, &end, parts, &f.learned, &f.t.e));
    must(loop_init(&f.control.loop));
    must(mailbox_init(&f.control.in, &f.control.loop, on_letter, NULL));
    driver_start(parts->driver, &f.control, NULL, NULL, &f.result);
    f.session = driver_session(parts->driver);
    f.w = parts->w;
    return 0;
}

static int open_fixture(void **state)
{
    (void)state;
    return open_job(JOB);
}

static int open_tables(void **state)
{
    (void)state;
    return open_job(TABLE_JOB);
}

static int close_fixture(void **state)
{
    (void)state;
    f.session->phase = SESSION_NEW; /* it has no connections to close */
    epoch_end_free(f.end);
    train_free(f.train);
    mailbox_close(&f.control.in);
    loop_close(&f.control.loop);
    best_close(&f.best);
    epoch_log_close(&f.log);
    trained_close(&f.t);
    return 0;
}

static void begin(bool sync)
{
    f.session->phase = SESSION_READY;
    f.session->terms.sync = sync;
    f.session->terms.settings.batches_per_epoch = PER_EPOCH;
    f.session->terms.generation.number = 1;
    epoch_end_ops.welcomed(f.end);
}

/* The next epoch's end in sync, with a kernel of these values: the nearer to 0, the better is the loss. */
static void epoch_ends(float value)
{
    uint64_t elems = model_layout(f.t.model)->elems;
    for (uint64_t i = 0; i < elems; i++)
        f.w[i] = i == 0 ? value : 0;
    f.session->step = ++f.epoch * PER_EPOCH;
    int evaluated = f.evaluated;
    assert_false(epoch_end_ops.between(f.end)); /* the history's line is on its way */
    assert_int_equal(loop_run(&f.control.loop), ERR_OK);
    assert_true(epoch_end_ops.between(f.end));
    assert_int_equal(loop_run(&f.control.loop), ERR_OK);
    assert_int_equal(f.evaluated, evaluated + 1);
}

static void
epochs_that_ended_while_the_chiefs_own_worker_was_parked_make_a_job_that_monitors_inexact(
    void **state)
{
    (void)state;
    begin(true);
    epoch_ends(-4);
    epoch_end_ops.parked(f.end);
    f.epoch = 5;
    epoch_ends(-5); /* worse: it could not have been the best */
    assert_int_equal(f.inexact, 1);
    assert_string_equal(f.why, "epochs 2 to 5 ended while the chief's own worker was away, without "
                               "an evaluation");
    epoch_ends(-3); /* nothing is missed any more */
    assert_int_equal(f.inexact, 1);

    epoch_end_ops.parked(f.end);
    f.epoch++;
    epoch_ends(-5);
    assert_int_equal(f.inexact, 2);
    assert_string_equal(f.why, "epoch 8 ended while the chief's own worker was away, without an "
                               "evaluation");
}

/* In sync, in the middle of an epoch. Returns whether it was evaluated. */
static bool step_is_made(uint64_t step)
{
    const int evaluated = f.evaluated;
    f.session->step = step;
    if (epoch_end_ops.between(f.end))
        return false;
    assert_int_equal(loop_run(&f.control.loop), ERR_OK);
    assert_true(epoch_end_ops.between(f.end));
    return f.evaluated > evaluated;
}

static void every_so_many_steps_are_evaluated_once_and_keep_no_weights(void **state)
{
    (void)state;
    f.t.job.evaluate.every_steps = 3;
    begin(true);
    f.session->terms.settings.batches_per_epoch = 1000;
    assert_false(step_is_made(2));
    assert_true(step_is_made(3));
    assert_false(step_is_made(3));
    assert_false(step_is_made(4));
    assert_true(step_is_made(7)); /* this process was away at step 6 */
    assert_false(step_is_made(8));
    assert_true(step_is_made(9));
    assert_int_equal(f.log.evaluations, 3);
    assert_int_equal(f.log.evaluation[1].step, 7);
    assert_false(f.best.has);
    begin(true); /* the next process, at a step that the last one has noted */
    f.session->terms.settings.batches_per_epoch = 1000;
    assert_false(step_is_made(9));
    assert_false(step_is_made(11));
    assert_true(step_is_made(12));
    begin(true); /* a step that was made, and not evaluated */
    f.session->terms.settings.batches_per_epoch = 1000;
    assert_true(step_is_made(15));
}

/* In async, in the middle of an epoch. Returns whether it was evaluated. */
static bool batch_is_made(uint64_t batches)
{
    const struct sums none = {.examples = 0};
    const size_t evaluations = f.log.evaluations;
    epoch_end_ops.step(f.end, batches - 1, &none, 0);
    assert_true(epoch_end_ops.between(f.end));
    return f.log.evaluations != evaluations;
}

static void a_chief_that_makes_an_old_batch_first_keeps_the_later_evaluations(void **state)
{
    (void)state;
    f.t.job.evaluate.every_steps = 3;
    begin(false);
    f.session->terms.settings.batches_per_epoch = 1000;
    assert_true(batch_is_made(3));
    assert_true(batch_is_made(6));
    assert_true(batch_is_made(9));
    begin(false); /* the next process, with the batch of a worker that died */
    f.session->terms.settings.batches_per_epoch = 1000;
    assert_false(batch_is_made(6));
    assert_false(batch_is_made(8));
    assert_false(batch_is_made(10));
    assert_true(batch_is_made(12));
    assert_int_equal(f.log.evaluations, 4);
}

static void an_evaluation_that_fails_has_no_line(void **state)
{
    (void)state;
    struct session_task task;
    begin(true);
    f.session->step = PER_EPOCH;
    mem_fail_at(0);
    (void)epoch_end_ops.between(f.end);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    assert_int_not_equal(f.result.exit_code, 0);
    assert_non_null(strstr(f.result.error, "evaluation: "));
    assert_int_equal(f.log.n, 0);
    assert_false(driver_next(train_parts(f.train)->driver, &task)); /* no step follows */
}

/* The next checkpoint would have an earlier evaluation. */
static void an_evaluation_that_does_not_reach_the_control_thread_ends_the_process(void **state)
{
    (void)state;
    begin(true);
    epoch_ends(0.5F);
    f.session->step = 2 * PER_EPOCH;
    mem_fail_at(0);
    (void)epoch_end_ops.between(f.end);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    assert_int_not_equal(f.result.exit_code, 0);
    assert_int_equal(f.log.n, 1);
}

static void epochs_that_ended_before_the_first_evaluation_are_missed_too(void **state)
{
    (void)state;
    begin(true);
    epoch_end_ops.parked(f.end);
    f.epoch = 2;
    f.t.job.early_stopping.start_from_epoch = 3; /* this one cannot be the best */
    epoch_ends(-4);
    assert_int_equal(f.inexact, 1);
    assert_string_equal(f.why, "epochs 1 to 2 ended while the chief's own worker was away, without "
                               "an evaluation");
}

static void a_chief_that_was_killed_while_it_was_parked_misses_those_epochs_too(void **state)
{
    (void)state;
    begin(true);
    epoch_ends(-4);
    begin(true); /* of the next process, with the lines of the last one */
    f.epoch = 3;
    epoch_ends(-5);
    assert_int_equal(f.inexact, 1);
    assert_string_equal(f.why, "epochs 2 to 3 ended while the chief's own worker was away, without "
                               "an evaluation");
}

static void a_worker_that_is_back_before_the_epoch_ends_has_missed_none(void **state)
{
    (void)state;
    begin(true);
    epoch_ends(-4);
    epoch_end_ops.parked(f.end);
    epoch_ends(-5);
    begin(true);
    epoch_ends(-6);
    assert_int_equal(f.inexact, 0);
}

static void without_a_monitor_missed_epochs_change_no_result(void **state)
{
    (void)state;
    f.t.job.training.monitor = MONITOR_NONE;
    begin(true);
    epoch_ends(-4);
    epoch_end_ops.parked(f.end);
    f.epoch = 5;
    epoch_ends(-3);
    assert_int_equal(f.inexact, 0);
}

/* The checkpoint is final, and model/ cannot be written. */
static void the_job_is_published(enum err rest)
{
    begin(true);
    f.rest = rest;
    f.session->terms.settings.epochs = 1;
    epoch_ends(-4);
    epoch_end_ops.finish(f.end);
    assert_true(epoch_end_ops.between(f.end));
    epoch_end_ops.published(f.end, PER_EPOCH);
}

static void a_job_that_ends_without_the_weights_of_its_best_epoch_is_not_exact(void **state)
{
    (void)state;
    begin(true);
    f.t.job.early_stopping.restore_best_weights = true;
    f.session->terms.settings.epochs = 1;
    epoch_ends(-4);
    f.best.gone = true;
    epoch_end_ops.finish(f.end);
    assert_true(epoch_end_ops.between(f.end));
    assert_int_equal(loop_tick(&f.control.loop, NULL), ERR_OK);
    assert_int_equal(f.inexact, 1);
    assert_non_null(strstr(f.why, "epoch 1 is the best, but could not be kept"));
}

static void a_best_epoch_for_whose_request_memory_ran_out_is_not_asked_for(void **state)
{
    (void)state;
    const struct evaluation eval = {.step = 1};
    struct best_cut c = {.asks = 0};
    mem_fail_at(0);
    assert_false(best_cut_ask(&c, NULL, 1, 1, &eval));
    mem_fail_at(-1);
    assert_false(best_cut_is_open(&c));
}

static void a_model_that_cannot_be_written_fails_the_job(void **state)
{
    (void)state;
    the_job_is_published(ERR_IO);
    assert_int_equal(loop_run(&f.control.loop), ERR_OK);
    assert_int_equal(f.written, 1);
    assert_int_equal(f.result.exit_code, 0); /* the chief decides */
}

static void a_model_for_which_memory_ran_out_is_written_by_the_next_process(void **state)
{
    (void)state;
    the_job_is_published(ERR_NOMEM);
    assert_int_equal(f.result.exit_code, 138);
    assert_string_equal(f.result.error, "model/ is not written");
    assert_int_equal(f.written, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(
            epochs_that_ended_while_the_chiefs_own_worker_was_parked_make_a_job_that_monitors_inexact),
        TEST(an_evaluation_that_does_not_reach_the_control_thread_ends_the_process),
        TEST(epochs_that_ended_before_the_first_evaluation_are_missed_too),
        TEST(every_so_many_steps_are_evaluated_once_and_keep_no_weights),
        TEST(a_chief_that_makes_an_old_batch_first_keeps_the_later_evaluations),
        cmocka_unit_test_setup_teardown(an_evaluation_that_fails_has_no_line, open_tables,
                                        close_fixture),
        TEST(a_chief_that_was_killed_while_it_was_parked_misses_those_epochs_too),
        TEST(a_worker_that_is_back_before_the_epoch_ends_has_missed_none),
        TEST(without_a_monitor_missed_epochs_change_no_result),
        TEST(a_job_that_ends_without_the_weights_of_its_best_epoch_is_not_exact),
        cmocka_unit_test(a_best_epoch_for_whose_request_memory_ran_out_is_not_asked_for),
        TEST(a_model_that_cannot_be_written_fails_the_job),
        TEST(a_model_for_which_memory_ran_out_is_written_by_the_next_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
