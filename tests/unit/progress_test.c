/* The chief's reports to the launcher (launch/progress.h), and to its log (worker/control/progress.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "launch/progress.h"
#include "worker/control/progress.h"

static struct progress_event parse(const char *line)
{
    struct progress_event event = {0};
    assert_int_equal(progress_parse(&event, line, strlen(line)), ERR_OK);
    return event;
}

static void progress_reads_a_step_and_words_it_with_the_time_left(void **state)
{
    (void)state;
    struct progress_event event = parse(
        "{\"type\":\"progress\",\"epoch\":3,\"epochs\":10,\"step\":512,\"steps\":938,"
        "\"total_steps\":9380,\"loss\":0.12344,\"metric_name\":\"accuracy\",\"metric\":0.9612,"
        "\"examples_per_s\":91200,\"left_s\":4.4}");
    assert_int_equal(event.type, PROGRESS_STEP);
    assert_int_equal(progress_total_step(&event), 2 * 938 + 512);
    char text[256];
    progress_format_step(text, sizeof text, &event);
    assert_string_equal(text, "epoch 3/10  step 512/938  loss 0.1234  accuracy 0.9612  "
                              "91200 examples/s  ETA 0:04");
    event.left_s = 4905.6;
    event.early = true;
    progress_format_step(text, sizeof text, &event);
    assert_string_equal(strstr(text, "ETA"), "ETA about 1:21:46");
    event.at_most = true;
    progress_format_step(text, sizeof text, &event);
    assert_string_equal(strstr(text, "ETA"), "ETA at most about 1:21:46");
}

static void progress_draws_a_bar_that_fits_the_width(void **state)
{
    (void)state;
    struct progress_event event = parse(
        "{\"type\":\"progress\",\"epoch\":3,\"epochs\":10,\"step\":469,\"steps\":938,"
        "\"total_steps\":9380,\"loss\":0.12344,\"metric_name\":\"accuracy\",\"metric\":0.9612,"
        "\"examples_per_s\":91200,\"left_s\":4.4}");
    static const struct {
        size_t width;
        const char *want;
    } of[] = {
        {200,
         "epoch 3/10 [====================>                   ] 469/938  loss 0.1234  accuracy "
         "0.9612  91200 examples/s  ETA 0:04"},
        {99, "epoch 3/10 [==========>         ] 469/938  loss 0.1234  accuracy 0.9612  91200 "
             "examples/s  ETA 0:04"},
        {79, "epoch 3/10 [=========>        ] 469/938  loss 0.1234  accuracy 0.9612  ETA 0:04"},
        {60, "epoch 3/10 [========>       ] 469/938  loss 0.1234  ETA 0:04"},
        {40, "epoch 3/10 [====>    ] 469/938  ETA 0:04"},
        {29, "epoch 3/10 [====>   ] 469/938"},
        {22, "epoch 3/10  469/938"},
        {9, "epoch 3/1"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[256];
        progress_format_bar(text, sizeof text, &event, of[i].width);
        assert_string_equal(text, of[i].want);
        assert_true(strlen(text) <= of[i].width);
    }
    for (size_t width = 1; width < 150; width++) {
        char text[256];
        progress_format_bar(text, sizeof text, &event, width);
        assert_true(strlen(text) <= width);
    }
}

static void progress_leaves_out_what_is_null_or_missing(void **state)
{
    (void)state;
    struct progress_event event = parse(
        "{\"type\":\"progress\",\"epoch\":1,\"epochs\":1,\"step\":1,\"steps\":2,\"loss\":null}");
    char text[256];
    assert_true(isnan(event.loss));
    progress_format_step(text, sizeof text, &event);
    assert_string_equal(text, "epoch 1/1  step 1/2");
}

static void progress_words_an_epoch(void **state)
{
    (void)state;
    struct progress_event event = parse(
        "{\"type\":\"epoch\",\"epoch\":2,\"epochs\":10,\"train_loss\":0.25,\"eval_loss\":0.125,"
        "\"metrics\":[{\"name\":\"accuracy\",\"train\":0.9,\"eval\":0.95},"
        "{\"name\":\"auc\",\"train\":null,\"eval\":0.75},{\"name\":\"recall\",\"train\":0.5,"
        "\"eval\":null}],\"seconds\":3.21}");
    static const char epoch[] = "epoch 2/10 done in 3.2 s: loss 0.2500, accuracy 0.9000, recall "
                                "0.5000; eval loss 0.1250, accuracy 0.9500, auc 0.7500, recall -";
    char text[256], want[256];
    progress_format_epoch(text, sizeof text, &event);
    assert_string_equal(text, epoch);
    event.best = (struct progress_event_best){.epoch = 2, .name = "loss", .value = 0.125};
    progress_format_epoch(text, sizeof text, &event);
    (void)snprintf(want, sizeof want, "%s; best so far", epoch);
    assert_string_equal(text, want);
    event.best = (struct progress_event_best){
        .epoch = 1, .name = "auc", .value = 0.8, .waited = 1, .patience = 3};
    progress_format_epoch(text, sizeof text, &event);
    (void)snprintf(want, sizeof want,
                   "%s; best: epoch 1 (eval auc 0.8000), 1 of 3 epochs without a better one",
                   epoch);
    assert_string_equal(text, want);
    event = parse("{\"type\":\"epoch\",\"epoch\":2,\"epochs\":10,\"train_loss\":0,"
                  "\"eval_loss\":0.000012345,\"seconds\":3.21}");
    progress_format_epoch(text, sizeof text, &event);
    assert_string_equal(text, "epoch 2/10 done in 3.2 s: loss 0.0000; eval loss 1.23e-05");
}

static void progress_cuts_a_line_that_does_not_fit(void **state)
{
    (void)state;
    struct progress_event event =
        parse("{\"type\":\"progress\",\"epoch\":1,\"epochs\":1,\"step\":1,"
              "\"steps\":2,\"loss\":0.5,\"examples_per_s\":7}");
    char text[24];
    progress_format_step(text, sizeof text, &event);
    assert_string_equal(text, "epoch 1/1  step 1/2  lo");
}

static void progress_refuses_what_is_no_message_and_leaves_the_event_alone(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "{",
                                        "7",
                                        "[]",
                                        "{\"type\":7}",
                                        "{\"type\":\"else\"}",
                                        "{\"epoch\":1}",
                                        "{\"type\":\"log\"} trailing"};
    struct progress_event event = {.epoch = 42};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(progress_parse(&event, lines[i], strlen(lines[i])), ERR_PROTO);
    assert_int_equal(event.epoch, 42);
}

static void progress_takes_absurd_numbers_as_none(void **state)
{
    (void)state;
    struct progress_event event =
        parse("{\"type\":\"progress\",\"epoch\":-3,\"step\":1e300,\"steps\":\"x\"}");
    assert_int_equal(event.epoch, 0);
    assert_int_equal(event.step, 0);
    assert_int_equal(event.steps, 0);
}

static void take_line(void *arg, const char *line, size_t bytes)
{
    size_t at = strlen(arg);
    (void)snprintf((char *)arg + at, 64 - at, "<%.*s>", bytes > 8 ? 8 : (int)bytes, line);
}

static void
progress_lines_come_whole_however_they_arrive_and_too_long_ones_are_dropped(void **state)
{
    (void)state;
    static struct progress_lines lines;
    static const char bytes[] = "one\ntwo\n\nthree\nrest";
    for (size_t step = 1; step < sizeof bytes; step++) {
        char got[64] = "";
        lines = (struct progress_lines){.n = 0};
        for (size_t at = 0; at < sizeof bytes - 1; at += step) {
            size_t left = sizeof bytes - 1 - at;
            progress_lines_feed(&lines, bytes + at, left < step ? left : step, take_line, got);
        }
        assert_string_equal(got, "<one><two><three>");
    }
    static char longer[PROGRESS_LINE_BYTES + 2];
    char got[64] = "";
    lines = (struct progress_lines){.n = 0};
    memset(longer, 'x', sizeof longer);
    progress_lines_feed(&lines, longer, sizeof longer, take_line, got);
    progress_lines_feed(&lines, "\nnext\n", 6, take_line, got);
    assert_string_equal(got, "<next>");
}

static void assert_epoch_is_logged(const struct job *job, double examples,
                                   const struct evaluation *eval, const char *want)
{
    char got[200];
    struct progress p;
    progress_init(&p, job, -1, 0);
    const struct sums trained = {
        .loss = examples / 4, .examples = examples, .metric = {examples / 2}};
    progress_epoch(&p, 1, &trained, eval, NULL, 1);
    log_last_words(false, got, sizeof got);
    assert_string_equal(got, want);
}

static void progress_logs_of_an_epoch_what_there_is(void **state)
{
    (void)state;
    struct job job = {.training = {.epochs = 2}};
    const struct evaluation eval = {.loss = 0.125, .metric = {0.75}};
    assert_epoch_is_logged(&job, 8, &eval, "epoch 1/2: loss 0.25, eval loss 0.125");
    job.model.metrics = 1;
    job.model.metric[0] = job_metric_of(METRIC_ACCURACY);
    assert_epoch_is_logged(&job, 8, &eval,
                           "epoch 1/2: loss 0.25 accuracy 0.5, eval loss 0.125 accuracy 0.75");
    job.optimizer.use_ema = true;
    assert_epoch_is_logged(&job, 0, &eval,
                           "epoch 1/2: eval of the averages: loss 0.125 accuracy 0.75");
    assert_epoch_is_logged(&job, 8, NULL, "epoch 1/2: loss 0.25 accuracy 0.5");
}

static void progress_tells_the_launcher_all_metrics_and_the_best_epoch(void **state)
{
    (void)state;
    struct job job = {.training = {.epochs = 2}};
    struct progress p;
    int pipes[2];
    char line[2048], text[400];
    job.model.metrics = 2;
    job.model.metric[0] = job_metric_of(METRIC_ACCURACY);
    job.model.metric[1] = job_metric_of(METRIC_AUC);
    const struct sums trained = {.loss = 2, .examples = 8, .metric = {4}};
    const struct evaluation eval = {.loss = 0.125, .metric = {0.75, (double)NAN}};
    const struct progress_best best = {.name = "loss", .value = 0.1, .epoch = 1, .waited = 1};
    assert_int_equal(pipe(pipes), 0);
    progress_init(&p, &job, pipes[1], 0);
    progress_epoch(&p, 2, &trained, &eval, &best, 1);
    ssize_t n = read(pipes[0], line, sizeof line);
    assert_true(n > 0);
    struct progress_event event = {0};
    assert_int_equal(progress_parse(&event, line, (size_t)n), ERR_OK);
    progress_format_epoch(text, sizeof text, &event);
    assert_string_equal(text, "epoch 2/2 done in 1.0 s: loss 0.2500, accuracy 0.5000; eval loss "
                              "0.1250, accuracy 0.7500, auc -; best: epoch 1 (eval loss 0.1000)");
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

/* A step each 0.1 s of 10 examples, with two other workers; their examples become known at each `round`-th step. Returns the
 * rate of the last line; 0: none. */
static uintmax_t told_rate(enum update_mode update, int round)
{
    const struct job job = {.training = {.epochs = 1, .update = update, .batch_size = 10}};
    const struct sums trained = {.loss = 1, .examples = 1};
    struct progress p;
    struct progress_event event = {0};
    char line[2048];
    int pipes[2];
    double now_s = 100, examples = 0, rate = 0;
    assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
    progress_init(&p, &job, pipes[1], now_s);
    for (int step = 1; step <= 60; step++) {
        now_s += 0.1;
        if (step % round == 0)
            examples = 30.0 * step;
        progress_step(&p, examples, &trained, 1, (uint64_t)step, 60, now_s);
        ssize_t n = read(pipes[0], line, sizeof line);
        for (char *at = line, *end; n > 0 && (end = memchr(at, '\n', (size_t)(line + n - at)));
             at = end + 1)
            if (!progress_parse(&event, at, (size_t)(end - at)) && event.type == PROGRESS_STEP)
                rate = event.examples_per_s;
    }
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    return rate > 0 ? (uintmax_t)lround(rate) : 0;
}

static void progress_tells_the_rate_of_all_workers(void **state)
{
    (void)state;
    assert_in_range(told_rate(UPDATE_SYNC, 1), 299, 301);
    assert_in_range(told_rate(UPDATE_ASYNC, 1), 299, 301);
    assert_float_equal(told_rate(UPDATE_GEO, 7), 300,
                       1); /* rounds are longer than the time between lines */
}

/* The first step comes 20 s after the process began; then one each 0.1 s. */
static void progress_tells_rate_and_time_left_from_the_first_step_on(void **state)
{
    (void)state;
    const struct job job = {.training = {.epochs = 2, .batch_size = 10},
                            .early_stopping = {.patience = 3}};
    const struct sums trained = {.loss = 1, .examples = 1};
    struct progress p;
    struct progress_event event = {0};
    char line[2048];
    int pipes[2], told = 0;
    assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
    progress_init(&p, &job, pipes[1], 100);
    for (uint64_t step = 1; step <= 20; step++) {
        progress_step(&p, 10.0 * (double)step, &trained, 1, step, 100, 120 + 0.1 * (double)step);
        ssize_t n = read(pipes[0], line, sizeof line);
        for (char *at = line, *end; n > 0 && (end = memchr(at, '\n', (size_t)(line + n - at)));
             at = end + 1) {
            assert_int_equal(progress_parse(&event, at, (size_t)(end - at)), ERR_OK);
            if (event.type != PROGRESS_STEP || told++ == 0)
                continue;
            assert_true(fabs(event.examples_per_s - 100) < 0.1);
            assert_true(fabs(event.left_s - 0.1 * (double)(200 - step)) < 0.1);
            assert_true(event.at_most);
            assert_int_equal(event.early, step < 10);
        }
    }
    assert_in_range(told, 3, 5);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void progress_words_how_far_the_data_are_read(void **state)
{
    (void)state;
    const struct loading loading[] = {{100000000, 400000000, 500000, 3.5},
                                      {2000000, 0, 7, (double)NAN}};
    static const char *const want[] = {"reading the data: 100 of 400 MB, 500000 rows  ETA 0:04",
                                       "reading the data: 2 MB, 7 rows"};
    for (int i = 0; i < 2; i++) {
        int pipes[2];
        char line[512], text[200];
        assert_int_equal(pipe(pipes), 0);
        progress_loading(pipes[1], &loading[i], false);
        ssize_t n = read(pipes[0], line, sizeof line);
        assert_true(n > 0);
        struct progress_event event = {0};
        assert_int_equal(progress_parse(&event, line, (size_t)n), ERR_OK);
        assert_int_equal(event.type, PROGRESS_LOADING);
        assert_int_equal(event.n_loading, 1);
        progress_format_loading(text, sizeof text, event.loading, 1, 0, 0);
        assert_string_equal(text, want[i]);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
    }
}

static struct progress_event told_loading(const struct loading *now)
{
    struct progress_event event = {0};
    char line[2048];
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    progress_loading(pipes[1], now, true);
    ssize_t n = read(pipes[0], line, sizeof line);
    assert_true(n > 0 && line[n - 1] == '\n');
    assert_int_equal(progress_parse(&event, line, (size_t)n), ERR_OK);
    assert_int_equal(event.type, PROGRESS_LOADING);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    return event;
}

static void progress_words_how_far_each_worker_has_read_its_data(void **state)
{
    (void)state;
    const struct loading own = {100000000, 400000000, 500000, 3.5},
                         far = {50000000, 200000000, 7, 65},
                         huge = {UINT64_MAX / 4, UINT64_MAX / 4, UINT64_MAX / 4, 1e300};
    char text[200];
    loading_hear(1, &far); /* the chief is a process of its own: worker 0 has the id 1 */
    loading_hear(3, &far);
    struct progress_event event = told_loading(&own);
    progress_format_loading(text, sizeof text, event.loading, event.n_loading, event.more_loading,
                            199);
    assert_string_equal(text,
                        "reading the data [====>           ] 100 of 400 MB, 500000 rows  ETA 0:04; "
                        "worker 0 25 %  ETA 1:05; worker 2 25 %  ETA 1:05");
    progress_format_loading(text, sizeof text, event.loading, event.n_loading, event.more_loading,
                            115);
    assert_string_equal(text,
                        "reading the data [====>           ] 100 of 400 MB, 500000 rows  ETA 0:04; "
                        "worker 0 25 %  ETA 1:05; and 1 more");
    progress_format_loading(text, sizeof text, event.loading, event.n_loading, event.more_loading,
                            100);
    assert_string_equal(
        text,
        "reading the data [====>           ] 100 of 400 MB, 500000 rows  ETA 0:04; and 2 more");
    progress_format_loading(text, sizeof text, event.loading, event.n_loading, event.more_loading,
                            60);
    assert_string_equal(text, "reading the data: 100 of 400 MB, 500000 rows  ETA 0:04");
    event = told_loading(NULL);
    assert_int_equal(event.n_loading, 2);
    progress_format_loading(text, sizeof text, &event.loading[1], 1, 0, 0);
    assert_string_equal(text, "worker 2 reads its data: 50 of 200 MB, 7 rows  ETA 1:05");
    for (uint32_t i = 1; i < LOADING_WORKERS; i++)
        loading_hear(i, &far);
    event = told_loading(&own);
    assert_in_range(event.n_loading, 10, PROGRESS_LOADING_MAX);
    assert_int_equal(event.n_loading - 1 + event.more_loading, LOADING_WORKERS - 1);
    for (uint32_t i = 1; i < LOADING_WORKERS; i++)
        loading_hear(i, &huge);
    event = told_loading(&huge); /* no line is too long */
    assert_int_equal(event.n_loading - (event.n_loading > 0) + event.more_loading,
                     LOADING_WORKERS - 1);
    for (uint32_t i = 1; i < LOADING_WORKERS; i++)
        loading_hear(i, NULL);
    event = told_loading(NULL);
    assert_int_equal(event.n_loading + event.more_loading, 0);
}

static void progress_logs_the_planted_scores_beside_an_evaluation(void **state)
{
    (void)state;
    struct job job = {.training = {.epochs = 2}};
    const struct evaluation eval = {.loss = 0.125};
    struct progress p;
    const struct sums none = {0};
    char got[256];
    progress_init(&p, &job, -1, 0);
    p.planted = (struct planted){true, 0.79121, 0.44098};
    progress_epoch(&p, 1, &none, &eval, NULL, 1);
    log_last_words(false, got, sizeof got);
    assert_string_equal(got, "epoch 1/2: eval loss 0.125 (planted: auc 0.7912 logloss 0.4410)");
    progress_epoch(&p, 2, &none, NULL, NULL, 1);
    log_last_words(false, got, sizeof got);
    assert_string_equal(got, "epoch 2/2:");
}

static void progress_says_any_text_as_one_line_that_the_launcher_takes(void **state)
{
    (void)state;
    int ends[2];
    char got[256] = "";
    assert_int_equal(pipe(ends), 0);
    progress_say(ends[1], "new word \"%s\"\n\x1b[31m", "M\xfcnchen");
    assert_true(read(ends[0], got, sizeof got - 1) > 0);
    assert_string_equal(got, "{\"type\":\"log\",\"text\":\"new word \\\"M?nchen\\\"??[31m\"}\n");
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_reads_a_step_and_words_it_with_the_time_left),
        cmocka_unit_test(progress_draws_a_bar_that_fits_the_width),
        cmocka_unit_test(progress_leaves_out_what_is_null_or_missing),
        cmocka_unit_test(progress_words_an_epoch),
        cmocka_unit_test(progress_logs_of_an_epoch_what_there_is),
        cmocka_unit_test(progress_tells_the_launcher_all_metrics_and_the_best_epoch),
        cmocka_unit_test(progress_words_how_far_the_data_are_read),
        cmocka_unit_test(progress_words_how_far_each_worker_has_read_its_data),
        cmocka_unit_test(progress_tells_the_rate_of_all_workers),
        cmocka_unit_test(progress_tells_rate_and_time_left_from_the_first_step_on),
        cmocka_unit_test(progress_logs_the_planted_scores_beside_an_evaluation),
        cmocka_unit_test(progress_says_any_text_as_one_line_that_the_launcher_takes),
        cmocka_unit_test(progress_cuts_a_line_that_does_not_fit),
        cmocka_unit_test(progress_refuses_what_is_no_message_and_leaves_the_event_alone),
        cmocka_unit_test(progress_takes_absurd_numbers_as_none),
        cmocka_unit_test(
            progress_lines_come_whole_however_they_arrive_and_too_long_ones_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
