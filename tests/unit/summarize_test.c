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

#include <jansson.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "worker/summarize.h"

static char folder[FOLDER_BYTES], path[128];

static int make_folder(void **state)
{
    (void)state;
    if (folder_make(folder) != 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/summary.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return folder_remove(folder);
}

static uint8_t *slurp(size_t *bytes)
{
    struct errmsg e;
    uint8_t *data;
    assert_int_equal(files_read(path, 1 << 20, &data, bytes, &e), ERR_OK);
    return data;
}

/* All that the process of a chief knows at the end. */
struct known {
    struct job job;
    struct cluster cluster;
    struct driver_result result;
    struct epoch_end_result learned;
    struct epoch_log epochs;
    struct manifest base;
    struct eval_log log;
    struct chief_facts facts;
    struct summary_worker worker[3];
    struct summarize what;
};

static struct epoch_line ends[] = {
    {.epoch = 3, .seconds = 1.25, .has_eval = true, .eval = {.loss = 0.5, .metric = {0.5, NAN}}},
    {.epoch = 4,
     .seconds = 2.5,
     .step = 900,
     .trained = {.loss = 0.375, .metric = {0.75, 0}},
     .has_eval = true,
     .eval = {.loss = 0.25, .metric = {0.75, INFINITY}}},
};

/* Not on the stack: a job and facts are large. */
static struct known *full(void)
{
    static struct known k;
    k = (struct known){
        .job = {.name = "mnist-mlp",
                .training = {.microbatches = 4},
                .model = {.metrics = 2,
                          .metric = {{METRIC_ACCURACY, "accuracy", 0},
                                     {METRIC_MEAN_ABSOLUTE_ERROR, "mean_absolute_error", 0}}},
                .optimizer = {.learning_rate = 0.125F, .use_ema = true},
                .compression = {.push = CODEC_INT8}},
        .cluster = {.n_ps = 2},
        .result = {.examples = 246913.578,
                   .train_s = 2,
                   .account.push = {.raw_bytes = 3000,
                                    .bytes = 400,
                                    .encode_s = 0.25,
                                    .error = 1,
                                    .norm = 10000}},
        .learned = {.first_step_s = 0.25,
                    .has_eval = true,
                    .eval = {.loss = NAN, .metric = {1, INFINITY}},
                    .seconds_before = 3,
                    .digest = "abcd"},
        .epochs = {.uuid = "u", .n = 2, .line = ends},
        .base = {.seconds = 3},
        .facts = {.steps = 9380,
                  .dealt = 9380,
                  .applied_min = 9379,
                  .applied_max = UINT64_C(1) << 60,
                  .duplicates = 7,
                  .lost = 5,
                  .clipped = 11,
                  .dropped = 14,
                  .redo = {.redone = 6},
                  .rejected = 12,
                  .recoveries = 13,
                  .push = {.decode_s = 0.25},
                  .uuid = "u",
                  .epoch = {{.epoch = 9,
                             .batches = 1,
                             .examples = 2,
                             .loss = 0.2,
                             .metric = {1.9753086420246912, 2.0 / 3}}}},
        .worker = {[0] = {.joined = true},
                   [1] = {.joined = true},
                   [2] = {.joined = true,
                          .accounted = true,
                          .account = {.tasks = 3,
                                      .examples = 192,
                                      .computed_s = 0.5,
                                      .waited_s = 1.5,
                                      .bytes_out = 10,
                                      .bytes_in = 20,
                                      .push = {.raw_bytes = 1000, .bytes = 600, .encode_s = 0.25}},
                          .dropped = 21}},
        .what = {.job = &k.job,
                 .cluster = &k.cluster,
                 .result = &k.result,
                 .learned = &k.learned,
                 .log = &k.epochs,
                 .base = &k.base,
                 .batches_per_epoch = 938,
                 .output = folder},
    };
    return &k;
}

static json_t *read_back(void)
{
    size_t bytes;
    uint8_t *file = slurp(&bytes);
    assert_int_equal(file[bytes - 1], '\n');
    json_t *json = json_loadb((char *)file, bytes, 0, NULL);
    assert_non_null(json);
    mem_free(file);
    return json;
}

static json_t *written(const struct known *k)
{
    struct errmsg e;
    assert_int_equal(summary_write(&k->what, &k->facts, k->worker, 3, &e), ERR_OK);
    return read_back();
}

static void the_summary_reads_back_to_the_bit(void **state)
{
    (void)state;
    struct known *k = full();
    json_t *json = written(k);
    const char *status, *job, *update, *digest;
    int code, ps, workers, microbatches, exact, averaged;
    json_int_t steps, epochs, restarts, dealt, least, most, duplicates, lost, clipped, rejected,
        recoveries, dropped, dropped_of, redone;
    double loss, accuracy, error, rate, seconds, first, learning_rate;
    json_t *train, *eval, *peak, *epochs_did, *workers_did, *compression;
    assert_int_equal(
        json_unpack(
            json,
            "{s:s s:i s:n s:s s:s s:i s:i s:i s:I s:I s:o s:o s:F s:F s:F s:o s:I "
            "s:{s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I !} s:b s:n s:n s:s s:n s:o s:o s:o s:n s:F "
            "s:b s:n s:n s:n s:[!] !}",
            "status", &status, "exit_code", &code, "error", "job", &job, "update", &update, "ps",
            &ps, "workers", &workers, "microbatches", &microbatches, "steps", &steps, "epochs",
            &epochs, "train", &train, "eval", &eval, "examples_per_s", &rate, "seconds", &seconds,
            "first_step_s", &first, "peak_rss_bytes", &peak, "restarts", &restarts, "batches",
            "dealt", &dealt, "applied_min", &least, "applied_max", &most, "duplicates", &duplicates,
            "lost", &lost, "clipped", &clipped, "dropped", &dropped, "redone", &redone, "rejected",
            &rejected, "recoveries", &recoveries, "exact", &exact, "blas", "inexact", "digest",
            &digest, "staleness", "history", &epochs_did, "per_worker", &workers_did, "compression",
            &compression, "evaluator", "learning_rate", &learning_rate, "averaged", &averaged,
            "planted", "tables", "export", "evaluations"),
        0);
    double ratio, encode_s, decode_s, l2, nothing;
    const char *push, *reply;
    json_int_t raw, bytes;
    assert_int_equal(json_unpack(compression,
                                 "{s:{s:s s:I s:I s:F s:F s:F s:F !} s:{s:s s:n s:F} !}", "push",
                                 "codec", &push, "raw_bytes", &raw, "bytes", &bytes, "ratio",
                                 &ratio, "encode_s", &encode_s, "decode_s", &decode_s, "error", &l2,
                                 "reply", "codec", &reply, "ratio", "error", &nothing),
                     0);
    assert_string_equal(push, "int8");
    assert_string_equal(reply, "none");
    assert_true(raw == 4000 && bytes == 1000 && ratio == 4 && encode_s == 0.5 && decode_s == 0.25 &&
                l2 == 0.01 && nothing == 0);
    assert_true(learning_rate == 0.125);
    assert_string_equal(status, "done");
    assert_int_equal(code, 0);
    assert_string_equal(job, "mnist-mlp");
    assert_string_equal(update, "sync");
    assert_int_equal(ps, 2);
    assert_int_equal(workers, 3);
    assert_int_equal(microbatches, 4);
    assert_int_equal(steps, 9380);
    assert_int_equal(epochs, 10);
    assert_int_equal(json_unpack(train, "{s:F s:F s:F !}", "loss", &loss, "accuracy", &accuracy,
                                 "mean_absolute_error", &error),
                     0);
    assert_true(loss == 0.1 && accuracy == 0.9876543210123456 && error == 1.0 / 3);
    assert_int_equal(
        json_unpack(eval, "{s:n s:F s:n !}", "loss", "accuracy", &accuracy, "mean_absolute_error"),
        0);
    assert_true(accuracy == 1);
    assert_true(rate == 246913.578 / 2 && seconds == 5 && first == 0.25);
    assert_true(json_is_object(peak) && json_object_size(peak) == 0);
    assert_int_equal(restarts, 0);
    assert_int_equal(dealt, 9380);
    assert_int_equal(least, 9379);
    assert_true(most == INT64_C(1) << 60);
    assert_int_equal(duplicates, 7);
    assert_int_equal(lost, 5);
    assert_int_equal(clipped, 11);
    assert_int_equal(dropped, 14);
    assert_int_equal(redone, 6);
    assert_int_equal(rejected, 12);
    assert_int_equal(recoveries, 13);
    assert_true(!exact && averaged);
    assert_string_equal(digest, "abcd");
    assert_int_equal(json_array_size(epochs_did), 2);
    int epoch;
    double trained_loss, trained_accuracy, trained_error;
    assert_int_equal(json_unpack(json_array_get(epochs_did, 1),
                                 "{s:i s:F s:{s:F s:F s:F !} s:{s:F s:F s:n !} !}", "epoch", &epoch,
                                 "seconds", &seconds, "train", "loss", &trained_loss, "accuracy",
                                 &trained_accuracy, "mean_absolute_error", &trained_error, "eval",
                                 "loss", &loss, "accuracy", &accuracy, "mean_absolute_error"),
                     0);
    assert_true(trained_loss == 0.375 && trained_accuracy == 0.75 && trained_error == 0);
    assert_true(epoch == 4 && seconds == 2.5 && loss == 0.25 && accuracy == 0.75);
    json_int_t worker, tasks, out, in;
    double examples, computed, waited;
    assert_int_equal(json_array_size(workers_did), 1);
    assert_int_equal(json_unpack(json_array_get(workers_did, 0),
                                 "{s:I s:I s:F s:F s:F s:I s:I s:I !}", "worker", &worker, "tasks",
                                 &tasks, "examples", &examples, "computed_s", &computed, "waited_s",
                                 &waited, "bytes_out", &out, "bytes_in", &in, "dropped",
                                 &dropped_of),
                     0);
    assert_int_equal(dropped_of, 21);
    assert_true(worker == 2 && tasks == 3 && examples == 192 && computed == 0.5 && waited == 1.5 &&
                out == 10 && in == 20);
    json_decref(json);
}

static void the_summary_has_no_epoch_that_will_be_learned_again(void **state)
{
    (void)state;
    struct known *k = full();
    for (uint64_t steps = 899; steps <= 900; steps++) {
        k->facts.steps = steps;
        json_t *json = written(k);
        assert_int_equal(json_array_size(json_object_get(json, "history")), steps == 900 ? 2 : 1);
        json_decref(json);
    }
}

static void the_summary_of_a_finished_job_does_not_count_lost_batches_as_applied(void **state)
{
    (void)state;
    struct known *k = full();
    struct errmsg e;
    struct journal journal = {0};
    char words[SUMMARY_WORDS_BYTES];
    k->base = (struct manifest){.step = 100, .dealt = 100, .lost = 4};
    k->what.finished = true;
    k->what.journal = &journal;
    k->what.words = words;
    assert_int_equal(summarize(&k->what, &e), ERR_OK);
    assert_non_null(strstr(words, "digest abcd, model in "));
    json_t *json = read_back();
    json_int_t dealt, least, most, lost;
    assert_int_equal(json_unpack(json, "{s:{s:I s:I s:I s:I}}", "batches", "dealt", &dealt,
                                 "applied_min", &least, "applied_max", &most, "lost", &lost),
                     0);
    assert_true(dealt == 100 && lost == 4 && least == 96 && most == 96);
    json_decref(json);
}

static void the_summary_counts_the_workers_that_are_listed_or_more_that_came(void **state)
{
    (void)state;
    struct known *k = full();
    for (uint32_t listed = 0; listed <= 4; listed++) {
        for (uint32_t came = 0; came < 4; came++) {
            k->cluster.n_workers = listed;
            for (uint32_t i = 0; i < 3; i++)
                k->worker[i].joined = i < came;
            json_t *json = written(k);
            json_int_t least = listed ? listed : 1, expected = came > least ? came : least;
            assert_int_equal(json_integer_value(json_object_get(json, "workers")), expected);
            json_decref(json);
        }
    }
}

static void the_summary_has_the_scores_of_a_planted_model(void **state)
{
    (void)state;
    struct known *k = full();
    double auc, logloss;
    k->what.planted = (struct planted){true, 0.75, 0.5};
    json_t *json = written(k);
    assert_int_equal(
        json_unpack(json, "{s:{s:F s:F !}}", "planted", "auc", &auc, "logloss", &logloss), 0);
    assert_true(auc == 0.75 && logloss == 0.5);
    json_decref(json);
    k->what.planted.auc = NAN; /* all rows of one class */
    json = written(k);
    assert_int_equal(json_unpack(json, "{s:{s:n s:F !}}", "planted", "auc", "logloss", &logloss),
                     0);
    json_decref(json);
}

static void the_summary_has_its_keys_in_the_order_of_the_contract(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "status",         "exit_code",   "error",        "job",
        "update",         "ps",          "workers",      "microbatches",
        "steps",          "epochs",      "train",        "eval",
        "examples_per_s", "seconds",     "first_step_s", "peak_rss_bytes",
        "restarts",       "batches",     "exact",        "blas",
        "inexact",        "digest",      "staleness",    "history",
        "per_worker",     "compression", "evaluator",    "learning_rate",
        "averaged",       "planted",     "tables",       "export",
        "evaluations",
    };
    json_t *json = written(full()), *value;
    const char *key;
    size_t i = 0;
    assert_int_equal(json_object_size(json), sizeof keys / sizeof *keys);
    json_object_foreach(json, key, value)
    {
        assert_string_equal(key, keys[i]);
        i++;
    }
    json_decref(json);
}

static void the_summary_has_the_path_or_the_error_of_each_export(void **state)
{
    (void)state;
    struct known *k = full();
    const struct exports_end exports = {
        .n = 2, .of = {{EXPORT_ONNX, ""}, {EXPORT_KERAS, "caf\xe9: no room"}}};
    const char *first, *second, *file, *error;
    k->what.exports = &exports;
    json_t *json = written(k);
    assert_int_equal(json_unpack(json, "{s:[{s:s s:s s:n !} {s:s s:n s:s !} !]}", "export",
                                 "format", &first, "path", &file, "error", "format", &second,
                                 "path", "error", &error),
                     0);
    assert_string_equal(first, "onnx");
    assert_string_equal(file, "export/model.onnx");
    assert_string_equal(second, "keras");
    assert_string_equal(error, "caf?: no room");
    json_decref(json);
}

static void the_summary_has_the_counts_of_each_table(void **state)
{
    (void)state;
    struct known *k = full();
    k->job.model.tables = 2;
    memcpy(k->job.model.table[0].name, "wide", 5);
    memcpy(k->job.model.table[1].name, "ids", 4);
    k->facts.table[1] = (struct row_counts){1, 2, 3, 4, 5};
    json_t *json = written(k);
    json_int_t none, rows, admitted, refused, dropped, evicted;
    assert_int_equal(json_unpack(json, "{s:{s:{s:I} s:{s:I s:I s:I s:I s:I !} !}}", "tables",
                                 "wide", "rows", &none, "ids", "rows", &rows, "admitted", &admitted,
                                 "refused", &refused, "dropped", &dropped, "evicted", &evicted),
                     0);
    assert_true(none == 0 && rows == 1 && admitted == 2 && refused == 3 && dropped == 4 &&
                evicted == 5);
    json_decref(json);
}

/* The same job, so far exact. */
static struct known *exact(void)
{
    struct known *k = full();
    k->job.compression.push = CODEC_RAW;
    k->facts.dropped = 0;
    return k;
}

static bool is_exact(const struct known *k)
{
    json_t *json = written(k);
    bool exact = json_is_true(json_object_get(json, "exact"));
    json_decref(json);
    return exact;
}

static void a_job_whose_rows_had_no_room_is_not_exact(void **state)
{
    (void)state;
    struct known *k = exact();
    k->job.model.tables = 2;
    memcpy(k->job.model.table[0].name, "wide", 5);
    memcpy(k->job.model.table[1].name, "ids", 4);
    k->facts.table[1].dropped = k->facts.table[1].evicted = 7; /* by rules of the job */
    assert_true(is_exact(k));
    k->facts.table[1].refused = 1;
    assert_false(is_exact(k));
    k->facts.table[1].refused = 0;
    k->facts.squeezed = 1;
    assert_false(is_exact(k));
}

static void a_job_that_dropped_microbatches_in_an_earlier_run_is_not_exact(void **state)
{
    (void)state;
    struct known *k = exact();
    assert_true(is_exact(k));
    k->facts.dropped = 1;
    assert_false(is_exact(k));
}

static void a_job_that_is_done_in_the_middle_of_an_epoch_is_not_exact_and_says_where(void **state)
{
    (void)state;
    struct known *k = exact();
    const char *inexact;
    double loss;
    k->job.training.epochs = 10;
    k->facts.steps = 9399;
    k->facts.epoch[1] = (struct epoch_sums){.epoch = 10, .batches = 19, .examples = 2, .loss = 7};
    json_t *json = written(k);
    assert_int_equal(
        json_unpack(json, "{s:s s:{s:F}}", "inexact", &inexact, "train", "loss", &loss), 0);
    assert_string_equal(inexact,
                        "step 9399, in the middle of epoch 11: training.epochs was lowered to 10");
    assert_true(loss == 0.1); /* of epoch 10 */
    json_decref(json);
    assert_false(is_exact(k));
    k->result.exit_code = 143; /* it will continue there */
    assert_true(is_exact(k));
    k->result.exit_code = 0;
    k->facts.redo = (struct manifest_redo){.there = true, .epoch = 10, .begin = 9399};
    assert_true(is_exact(k)); /* with extra steps, that is an epoch's end */
    k->facts.redo.begin = 9390;
    assert_false(is_exact(k));
}

static void a_job_of_different_kernels_is_not_exact_and_names_them(void **state)
{
    (void)state;
    struct known *k = exact();
    const char *own, *other;
    struct journal_entry entry[] = {journal_blas_entry("chief", "Zen (OpenBLAS 0.3.21)"),
                                    journal_blas_entry("worker 1", "Haswell (OpenBLAS 0.3.21)")};
    struct journal journal = {.n = 1, .entry = entry};
    k->what.journal = &journal;
    assert_true(is_exact(k));
    journal.n = 2;
    assert_false(is_exact(k));
    json_t *json = written(k);
    assert_int_equal(json_unpack(json, "{s:[s s !]}", "blas", &own, &other), 0);
    assert_string_equal(own, "chief: Zen (OpenBLAS 0.3.21)");
    assert_string_equal(other, "worker 1: Haswell (OpenBLAS 0.3.21)");
    json_decref(json);
}

static void a_job_whose_evaluator_has_other_kernels_is_not_exact_and_names_them(void **state)
{
    (void)state;
    struct known *k = exact();
    const char *own, *other;
    struct journal_entry entry[] = {journal_blas_entry("chief", "Zen (OpenBLAS 0.3.21)")};
    struct journal journal = {.n = 1, .entry = entry};
    k->what.journal = &journal;
    k->what.evaluator = &k->log;
    assert_true(is_exact(k)); /* an earlier release wrote eval.json */
    eval_log_add_blas(&k->log, "Zen (OpenBLAS 0.3.21)");
    assert_true(is_exact(k));
    eval_log_add_blas(&k->log, "Haswell (OpenBLAS 0.3.21)");
    assert_false(is_exact(k));
    json_t *json = written(k);
    assert_int_equal(json_unpack(json, "{s:[s s !]}", "blas", &own, &other), 0);
    assert_string_equal(own, "chief: Zen (OpenBLAS 0.3.21)");
    assert_string_equal(other, "evaluator: Haswell (OpenBLAS 0.3.21)");
    json_decref(json);
    journal.n = 0; /* the job is async, or its model needs no OpenBLAS */
    assert_true(is_exact(k));
    json = written(k);
    assert_true(json_is_null(json_object_get(json, "blas")));
    json_decref(json);
}

static void a_job_whose_past_a_chief_did_not_know_is_not_exact_and_says_why(void **state)
{
    (void)state;
    struct known *k = exact();
    const char *why;
    struct journal_entry entry[] = {journal_name_entry("a", 0),
                                    {.kind = JOURNAL_INEXACT, .what = "b"}};
    struct journal journal = {.n = 1, .entry = entry};
    k->what.journal = &journal;
    assert_true(is_exact(k));
    journal.n = 2;
    assert_false(is_exact(k));
    json_t *json = written(k);
    assert_int_equal(json_unpack(json, "{s:s}", "inexact", &why), 0);
    assert_string_equal(why, "b");
    json_decref(json);
}

static void the_summary_says_how_far_the_evaluator_came(void **state)
{
    (void)state;
    struct known *k = full();
    json_int_t cut, step;
    int final;
    struct eval_result judged = {
        .cut = 7, .final = true, .eval = {.step = 900, .loss = 0.125, .metric = {0.5, 0.25}}};
    double loss;
    k->log = (struct eval_log){.uuid = "u", .n = 1, .result = &judged};
    k->what.evaluator = &k->log;
    json_t *json = written(k);
    assert_int_equal(json_unpack(json_object_get(json, "evaluator"), "{s:I s:I s:b !}", "cut", &cut,
                                 "step", &step, "final", &final),
                     0);
    assert_true(cut == 7 && step == 900 && !final); /* steps were made behind it */
    assert_int_equal(json_unpack(json, "{s:{s:F} s:[{s:{s:n}}, {s:{s:F}}]}", "eval", "loss", &loss,
                                 "history", "eval", "loss", "eval", "loss", &loss),
                     0);
    json_decref(json);
    k->facts.steps = 900;
    json = written(k);
    assert_true(json_is_true(json_object_get(json_object_get(json, "evaluator"), "final")));
    json_decref(json);
    k->log.n = 0;
    json = written(k);
    assert_int_equal(json_unpack(json_object_get(json, "evaluator"), "{s:n s:n s:b !}", "cut",
                                 "step", "final", &final),
                     0);
    json_decref(json);
}

static void the_summary_has_the_staleness_of_each_worker_and_of_all(void **state)
{
    (void)state;
    struct known *k = full();
    staleness_add(&k->worker[0].stale, 0);
    staleness_add(&k->worker[0].stale, 1);
    staleness_add(&k->worker[2].stale, 3);
    staleness_add(&k->worker[2].stale, 4);
    k->worker[0].stales = k->worker[2].stales = true;
    json_t *json = written(k), *from, *workers, *histogram;
    double mean;
    int max, worker;
    assert_int_equal(json_unpack(json_object_get(json, "staleness"), "{s:F s:i s:o s:o !}", "mean",
                                 &mean, "max", &max, "from", &from, "workers", &workers),
                     0);
    assert_true(mean == 2 && max == 4);
    assert_int_equal(json_array_size(from), 5);
    assert_int_equal(json_integer_value(json_array_get(from, 4)), 4);
    assert_int_equal(json_array_size(workers), 2);
    assert_int_equal(json_unpack(json_array_get(workers, 1), "{s:i s:F s:i s:o !}", "worker",
                                 &worker, "mean", &mean, "max", &max, "histogram", &histogram),
                     0);
    assert_true(worker == 2 && mean == 3.5 && max == 4);
    assert_int_equal(json_array_size(histogram), 5);
    assert_int_equal(json_integer_value(json_array_get(histogram, 3)), 1);
    json_decref(json);
}

static void a_failed_job_has_an_error_and_no_digest(void **state)
{
    (void)state;
    struct known *k = exact();
    k->result.exit_code = 1;
    strcpy(k->result.error, "no \"b\xff"
                            "d\"\nline");
    k->learned.digest[0] = 0;
    json_t *json = written(k);
    assert_string_equal(json_string_value(json_object_get(json, "error")), "no \"b?d\"?line");
    assert_int_equal(json_integer_value(json_object_get(json, "exit_code")), 1);
    assert_true(json_is_null(json_object_get(json, "digest")));
    assert_string_equal(json_string_value(json_object_get(json, "status")), "failed");
    assert_true(json_is_true(json_object_get(json, "exact")));
    json_decref(json);
}

static void a_summary_that_cannot_be_written_leaves_the_older_one(void **state)
{
    (void)state;
    struct errmsg e;
    struct known *k = full();
    assert_int_equal(files_write(path, "old", 3, &e), ERR_OK);
    for (long n = 0; n < 4; n++) {
        files_fail_at(n, EIO);
        assert_int_equal(summary_write(&k->what, &k->facts, k->worker, 3, &e), ERR_IO);
        assert_true(files_fail_fired());
        size_t bytes;
        uint8_t *file = slurp(&bytes);
        assert_string_equal((char *)file, "old");
        mem_free(file);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

static void a_failure_before_the_start_is_written_but_not_over_a_job_that_is_done(void **state)
{
    (void)state;
    const struct job job = {.name = "people", .training.update = UPDATE_SSP};
    struct errmsg e = {""};
    assert_int_equal(summary_write_failed(&job, folder, 2, "rows.csv: \xff", &e), ERR_OK);
    json_t *all = json_load_file(path, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(all, "status")), "failed");
    assert_int_equal(json_integer_value(json_object_get(all, "exit_code")), 2);
    assert_string_equal(json_string_value(json_object_get(all, "error")), "rows.csv: ?");
    assert_string_equal(json_string_value(json_object_get(all, "job")), "people");
    assert_string_equal(json_string_value(json_object_get(all, "update")), "ssp");
    json_decref(all);

    static const char done[] = "{\"status\": \"done\", \"digest\": \"d\"}";
    assert_int_equal(files_write(path, done, sizeof done - 1, &e), ERR_OK);
    assert_int_equal(summary_write_failed(&job, folder, 2, "rows.csv", &e), ERR_OK);
    all = json_load_file(path, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(all, "digest")), "d");
    json_decref(all);
}

static void restarts_are_those_that_the_launcher_has_noted_even_if_it_was_killed(void **state)
{
    (void)state;
    static const char noted[] = "{\"time\":1,\"restarts\":7}";
    char file[sizeof folder + 40];
    struct errmsg e;
    struct known *k = full();
    (void)snprintf(file, sizeof file, "%s/processes", folder);
    assert_int_equal(files_mkdirs(file, &e), ERR_OK);
    (void)snprintf(file, sizeof file, "%s/processes/progress.json", folder);
    assert_int_equal(files_write(file, noted, sizeof noted - 1, &e), ERR_OK);
    for (int launched = 0; launched < 2; launched++) {
        k->what.launched = launched;
        json_t *json = written(k);
        assert_int_equal(json_integer_value(json_object_get(json, "restarts")), launched ? 7 : 0);
        json_decref(json);
    }
    assert_int_equal(unlink(file), 0);
    (void)snprintf(file, sizeof file, "%s/processes", folder);
    assert_int_equal(rmdir(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(restarts_are_those_that_the_launcher_has_noted_even_if_it_was_killed),
        TEST(a_failure_before_the_start_is_written_but_not_over_a_job_that_is_done),
        TEST(the_summary_reads_back_to_the_bit),
        TEST(the_summary_has_its_keys_in_the_order_of_the_contract),
        TEST(the_summary_has_no_epoch_that_will_be_learned_again),
        TEST(the_summary_of_a_finished_job_does_not_count_lost_batches_as_applied),
        TEST(the_summary_counts_the_workers_that_are_listed_or_more_that_came),
        TEST(the_summary_has_the_scores_of_a_planted_model),
        TEST(the_summary_has_the_path_or_the_error_of_each_export),
        TEST(the_summary_has_the_counts_of_each_table),
        TEST(a_job_whose_rows_had_no_room_is_not_exact),
        TEST(a_job_that_dropped_microbatches_in_an_earlier_run_is_not_exact),
        TEST(a_job_that_is_done_in_the_middle_of_an_epoch_is_not_exact_and_says_where),
        TEST(a_job_of_different_kernels_is_not_exact_and_names_them),
        TEST(a_job_whose_evaluator_has_other_kernels_is_not_exact_and_names_them),
        TEST(a_job_whose_past_a_chief_did_not_know_is_not_exact_and_says_why),
        TEST(the_summary_says_how_far_the_evaluator_came),
        TEST(the_summary_has_the_staleness_of_each_worker_and_of_all),
        TEST(a_failed_job_has_an_error_and_no_digest),
        TEST(a_summary_that_cannot_be_written_leaves_the_older_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
