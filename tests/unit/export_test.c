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

#include "common/process/files.h"
#include "common/base/mem.h"
#include "worker/export/export.h"

static char folder[64], path[128];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/export_test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/it", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    files_fail_at(-1, 0);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Three tensors with gaps between them, in an order that is not that of their names. */
static struct tensor tensors[] = {
    {.name = "dense/kernel", .rank = 2, .shape = {2, 3}, .offset_elems = 0, .elems = 6},
    {.name = "dense/bias", .rank = 1, .shape = {3}, .offset_elems = 16, .elems = 3},
    {.name = "a \"scale\" \\", .rank = 0, .offset_elems = 32, .elems = 1},
};
static const struct layout layout = {.tensors = 3, .tensor = tensors, .elems = 48};
static const float w[48] = {
    [0] = 1.5f, -2, 3, 4, 5, 1e-40f, [16] = 7, 8, 9, [32] = -0.0f, [40] = 99,
};

static uint8_t *slurp(size_t *bytes)
{
    struct errmsg e;
    uint8_t *data;
    assert_int_equal(files_read(path, 1 << 20, &data, bytes, &e), ERR_OK);
    return data;
}

/* ---- safetensors ---- */

static void assert_tensor(json_t *header, const char *name, const struct tensor *t,
                          const uint8_t *data, size_t data_bytes)
{
    json_t *d = json_object_get(header, name);
    assert_non_null(d);
    assert_int_equal(json_object_size(d), 3);
    assert_string_equal(json_string_value(json_object_get(d, "dtype")), "F32");
    json_t *shape = json_object_get(d, "shape"), *offsets = json_object_get(d, "data_offsets");
    assert_int_equal(json_array_size(shape), t->rank);
    for (uint32_t i = 0; i < t->rank; i++)
        assert_int_equal(json_integer_value(json_array_get(shape, i)), t->shape[i]);
    assert_int_equal(json_array_size(offsets), 2);
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t end = json_integer_value(json_array_get(offsets, 1));
    assert_int_equal(end - begin, t->elems * 4);
    assert_true(begin >= 0 && (size_t)end <= data_bytes);
    assert_memory_equal(data + begin, w + t->offset_elems, t->elems * 4);
}

static void safetensors_hold_each_tensor_where_their_header_says(void **state)
{
    (void)state;
    struct errmsg e;
    size_t bytes;
    assert_int_equal(export_safetensors(path, &layout, w, NULL, 0, &e), ERR_OK);
    uint8_t *file = slurp(&bytes);
    uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | file[i];
    assert_int_equal(header_bytes % 8, 0);
    assert_true(header_bytes <= bytes - 8);
    assert_int_equal(file[8], '{');
    json_t *header = json_loadb((char *)file + 8, header_bytes, 0, NULL);
    assert_non_null(header);
    assert_int_equal(json_object_size(header), 3);
    const uint8_t *data = file + 8 + header_bytes;
    size_t data_bytes = bytes - 8 - header_bytes;
    assert_int_equal(data_bytes, (6 + 3 + 1) * 4); /* no gaps: the format forbids them */
    for (int i = 0; i < 3; i++)
        assert_tensor(header, tensors[i].name, &tensors[i], data, data_bytes);
    /* in the order of the layout, back to back */
    json_int_t at = 0;
    const char *name;
    json_t *d;
    int i = 0;
    json_object_foreach(header, name, d)
    {
        assert_string_equal(name, tensors[i].name);
        json_t *offsets = json_object_get(d, "data_offsets");
        assert_int_equal(json_integer_value(json_array_get(offsets, 0)), at);
        at = json_integer_value(json_array_get(offsets, 1));
        i++;
    }
    json_decref(header);
    mem_free(file);
}

static void a_model_without_tensors_is_an_empty_file_of_safetensors(void **state)
{
    (void)state;
    struct errmsg e;
    struct layout none = {0};
    size_t bytes;
    assert_int_equal(export_safetensors(path, &none, w, NULL, 0, &e), ERR_OK);
    uint8_t *file = slurp(&bytes);
    assert_int_equal(bytes, 16);
    assert_memory_equal(file, "\10\0\0\0\0\0\0\0{}      ", 16);
    mem_free(file);
}

static void two_tensors_of_one_name_are_refused(void **state)
{
    (void)state;
    struct errmsg e;
    struct tensor two[2] = {tensors[0], tensors[0]};
    struct layout l = {.tensors = 2, .tensor = two, .elems = 16};
    assert_int_equal(export_safetensors(path, &l, w, NULL, 0, &e), ERR_STATE);
    assert_non_null(strstr(e.text, "dense/kernel"));
    assert_int_equal(access(path, F_OK), -1);
}

static void a_failed_export_leaves_the_older_file(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(files_write(path, "old", 3, &e), ERR_OK);
    for (long n = 0;; n++) {
        files_fail_at(n, ENOSPC);
        enum err err = export_safetensors(path, &layout, w, NULL, 0, &e);
        if (!files_fail_fired()) {
            assert_int_equal(err, ERR_OK);
            assert_true(n >= 10);
            break;
        }
        assert_int_equal(err, ERR_IO);
        assert_non_null(strstr(e.text, "it: No space left on device"));
        size_t bytes;
        uint8_t *file = slurp(&bytes);
        /* the last step is the folder's fsync: the new file is there, whole */
        assert_true(memcmp(file, "old", 4) == 0 || bytes > 40);
        mem_free(file);
    }
}

/* ---- digest ---- */

/* Python's hashlib, over b"dense/kernel" + pack("<3I", 2, 2, 3) + pack("<6f", 1.5, -2, 3, 4, 5,
 * 1e-40)
 * + b"dense/bias" + pack("<2I", 1, 3) + pack("<3f", 7, 8, 9)
 * + b'a "scale" \\\\' + pack("<I", 0) + pack("<f", -0.0) */
static void the_digest_is_sha256_over_names_shapes_and_bytes(void **state)
{
    (void)state;
    char got[65];
    export_digest(&layout, w, got);
    assert_string_equal(got, "0651e03b2f67e15203835fa2b0cae7a6ec7065b82d99f28555572e025920471e");
}

static void without_memory_there_is_no_digest(void **state)
{
    (void)state;
    char got[65] = "x";
    mem_fail_at(0);
    export_digest(&layout, w, got);
    mem_fail_at(-1);
    assert_string_equal(got, "");
}

static void the_digest_of_nothing_is_that_of_the_empty_string(void **state)
{
    (void)state;
    char got[65];
    export_digest(&(struct layout){0}, w, got);
    assert_string_equal(got, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void the_digest_sees_each_weight_and_no_gap(void **state)
{
    (void)state;
    char is[65], other[65];
    float v[48];
    memcpy(v, w, sizeof v);
    export_digest(&layout, w, is);
    v[6] = 1;
    v[40] = 1;
    export_digest(&layout, v, other);
    assert_string_equal(is, other);
    v[32] = 0.0f; /* was -0 */
    export_digest(&layout, v, other);
    assert_string_not_equal(is, other);
}

/* ---- summary ---- */

static const struct summary_epoch history[] = {
    {.epoch = 3, .seconds = 1.25, .eval_loss = 0.5, .eval_metric = {0.5, NAN}},
    {.epoch = 4, .seconds = 2.5, .eval_loss = 0.25, .eval_metric = {0.75, INFINITY}},
};
static const struct summary_worker account[] = {
    {.worker = 2,
     .tasks = 3,
     .examples = 192,
     .computed_s = 0.5,
     .waited_s = 1.5,
     .bytes_out = 10,
     .bytes_in = 20,
     .dropped = 21},
};

static struct summary full(void)
{
    return (struct summary){
        .status = "done",
        .job = "mnist-mlp",
        .update = "sync",
        .ps = 2,
        .workers = 3,
        .microbatches = 4,
        .steps = 9380,
        .epochs = 10,
        .train_loss = 0.1,
        .eval_loss = NAN,
        .metrics = 2,
        .metric_name = {"accuracy", "mean_absolute_error"},
        .train_metric = {0.9876543210123456, 1.0 / 3},
        .eval_metric = {1, INFINITY},
        .examples_per_s = 123456.789,
        .seconds = 5,
        .first_step_s = 0.25,
        .learning_rate = 0.125,
        .restarts = 1,
        .dealt = 9380,
        .applied_min = 9379,
        .applied_max = UINT64_C(1) << 60,
        .duplicates = 7,
        .lost = 5,
        .clipped = 11,
        .dropped = 14,
        .redone = 6,
        .rejected = 12,
        .recoveries = 13,
        .exact = 1,
        .averaged = 1,
        .digest = "abcd",
        .push = {"int8", 4000, 1000, 0.5, 0.25, 0.01, false, 0},
        .reply = {"none", 0, 0, 0, 0, NAN, false, 0},
        .history_epochs = 2,
        .accounts = 1,
        .history = history,
        .account = account,
    };
}

static json_t *written(const struct summary *s)
{
    struct errmsg e;
    size_t bytes;
    assert_int_equal(export_summary(path, s, &e), ERR_OK);
    uint8_t *file = slurp(&bytes);
    assert_int_equal(file[bytes - 1], '\n');
    json_t *json = json_loadb((char *)file, bytes, 0, NULL);
    assert_non_null(json);
    mem_free(file);
    return json;
}

static void the_summary_reads_back_to_the_bit(void **state)
{
    (void)state;
    struct summary s = full();
    json_t *json = written(&s);
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
            "s:{s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I !} s:b s:s s:n s:o s:o s:o s:n s:F s:b !}",
            "status", &status, "exit_code", &code, "error", "job", &job, "update", &update, "ps",
            &ps, "workers", &workers, "microbatches", &microbatches, "steps", &steps, "epochs",
            &epochs, "train", &train, "eval", &eval, "examples_per_s", &rate, "seconds", &seconds,
            "first_step_s", &first, "peak_rss_bytes", &peak, "restarts", &restarts, "batches",
            "dealt", &dealt, "applied_min", &least, "applied_max", &most, "duplicates", &duplicates,
            "lost", &lost, "clipped", &clipped, "dropped", &dropped, "redone", &redone, "rejected",
            &rejected, "recoveries", &recoveries, "exact", &exact, "digest", &digest, "staleness",
            "history", &epochs_did, "per_worker", &workers_did, "compression", &compression,
            "evaluator", "learning_rate", &learning_rate, "averaged", &averaged),
        0);
    double ratio, encode_s, decode_s, l2;
    const char *push, *reply;
    json_int_t raw, bytes;
    assert_int_equal(json_unpack(compression,
                                 "{s:{s:s s:I s:I s:F s:F s:F s:F !} s:{s:s s:n s:n} !}", "push",
                                 "codec", &push, "raw_bytes", &raw, "bytes", &bytes, "ratio",
                                 &ratio, "encode_s", &encode_s, "decode_s", &decode_s, "error", &l2,
                                 "reply", "codec", &reply, "ratio", "error"),
                     0);
    assert_string_equal(push, "int8");
    assert_string_equal(reply, "none");
    assert_true(raw == 4000 && bytes == 1000 && ratio == 4 && encode_s == 0.5 && decode_s == 0.25 &&
                l2 == 0.01);
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
    assert_true(loss == s.train_loss && accuracy == s.train_metric[0] &&
                error == s.train_metric[1]);
    assert_int_equal(
        json_unpack(eval, "{s:n s:F s:n !}", "loss", "accuracy", &accuracy, "mean_absolute_error"),
        0);
    assert_true(accuracy == 1);
    assert_true(rate == s.examples_per_s && seconds == 5 && first == 0.25);
    assert_true(json_is_object(peak) && json_object_size(peak) == 0);
    assert_int_equal(restarts, 1);
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
    assert_true(exact && averaged);
    assert_string_equal(digest, "abcd");
    assert_int_equal(json_array_size(epochs_did), 2);
    int epoch;
    assert_int_equal(json_unpack(json_array_get(epochs_did, 1), "{s:i s:F s:{s:F s:F s:n !} !}",
                                 "epoch", &epoch, "seconds", &seconds, "eval", "loss", &loss,
                                 "accuracy", &accuracy, "mean_absolute_error"),
                     0);
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

static void the_summary_has_its_keys_in_the_order_of_the_contract(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "status",         "exit_code",
        "error",          "job",
        "update",         "ps",
        "workers",        "microbatches",
        "steps",          "epochs",
        "train",          "eval",
        "examples_per_s", "seconds",
        "first_step_s",   "peak_rss_bytes",
        "restarts",       "batches",
        "exact",          "digest",
        "staleness",      "history",
        "per_worker",     "compression",
        "evaluator",      "learning_rate",
        "averaged",
    };
    struct summary s = full();
    json_t *json = written(&s), *value;
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

static void the_summary_says_how_far_the_evaluator_came(void **state)
{
    (void)state;
    struct summary s = full();
    json_int_t cut, step;
    int final;
    s.has_evaluator = s.evaluated = 1;
    s.evaluated_cut = 7;
    s.evaluated_step = 900;
    json_t *json = written(&s);
    assert_int_equal(json_unpack(json_object_get(json, "evaluator"), "{s:I s:I s:b !}", "cut", &cut,
                                 "step", &step, "final", &final),
                     0);
    assert_true(cut == 7 && step == 900 && !final);
    json_decref(json);
    s.evaluated = 0;
    json = written(&s);
    assert_int_equal(json_unpack(json_object_get(json, "evaluator"), "{s:n s:n s:b !}", "cut",
                                 "step", "final", &final),
                     0);
    json_decref(json);
}

static void the_summary_has_the_staleness_of_each_worker_and_of_all(void **state)
{
    (void)state;
    struct summary_staleness stale[2] = {{.worker = 0}, {.worker = 2}};
    struct summary s = full();
    staleness_add(&stale[0].counted, 0);
    staleness_add(&stale[0].counted, 1);
    staleness_add(&stale[1].counted, 3);
    staleness_add(&stale[1].counted, 4);
    s.stales = 2;
    s.stale = stale;
    json_t *json = written(&s), *from, *workers, *histogram;
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
    struct summary s = {.status = "failed",
                        .error = "no \"b\xff"
                                 "d\"\nline",
                        .exit_code = 1,
                        .digest = ""};
    json_t *json = written(&s);
    assert_string_equal(json_string_value(json_object_get(json, "error")), "no \"b?d\"\nline");
    assert_int_equal(json_integer_value(json_object_get(json, "exit_code")), 1);
    assert_true(json_is_null(json_object_get(json, "digest")));
    assert_true(json_is_null(json_object_get(json, "job")));
    assert_true(json_is_false(json_object_get(json, "exact")));
    json_decref(json);
}

static void a_summary_that_cannot_be_written_leaves_the_older_one(void **state)
{
    (void)state;
    struct errmsg e;
    struct summary s = full();
    assert_int_equal(files_write(path, "old", 3, &e), ERR_OK);
    for (long n = 0; n < 4; n++) {
        files_fail_at(n, EIO);
        assert_int_equal(export_summary(path, &s, &e), ERR_IO);
        assert_true(files_fail_fired());
        size_t bytes;
        uint8_t *file = slurp(&bytes);
        assert_string_equal((char *)file, "old");
        mem_free(file);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(safetensors_hold_each_tensor_where_their_header_says),
        TEST(a_model_without_tensors_is_an_empty_file_of_safetensors),
        TEST(two_tensors_of_one_name_are_refused),
        TEST(a_failed_export_leaves_the_older_file),
        TEST(the_digest_is_sha256_over_names_shapes_and_bytes),
        TEST(without_memory_there_is_no_digest),
        TEST(the_digest_of_nothing_is_that_of_the_empty_string),
        TEST(the_digest_sees_each_weight_and_no_gap),
        TEST(the_summary_reads_back_to_the_bit),
        TEST(the_summary_has_its_keys_in_the_order_of_the_contract),
        TEST(the_summary_says_how_far_the_evaluator_came),
        TEST(the_summary_has_the_staleness_of_each_worker_and_of_all),
        TEST(a_failed_job_has_an_error_and_no_digest),
        TEST(a_summary_that_cannot_be_written_leaves_the_older_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
