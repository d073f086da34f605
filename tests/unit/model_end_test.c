/* manifest.json of a finished job's model, where the other files cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/process/files.h"
#include "tests/lib/gathered.h"
#include "tests/lib/trained.h"
#include "worker/chief/model_end.h"
#include "export/export.h"

static const char JOB[] =
    "name: t\noptimizer: sgd\ntraining: {batch_size: 2}\n"
    "data: {format: csv, train: train.txt, eval: eval.txt, columns: [number: x, label: {name: "
    "y}]}\n"
    "model: {input: {shape: auto}, loss: sparse_categorical_crossentropy, layers: [dense: {units: "
    "2, activation: softmax}]}\n";

static struct trained t;
static struct dataset_source source;
static struct best best;
static struct epoch_log no_epochs;
static struct epoch_end_config config;
static struct epoch_end_result learned;

static char *path_of(const char *name)
{
    static char path[FOLDER_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/%s", t.model_dir, name);
    return path;
}

static void write_weights(void)
{
    struct export_note notes[] = {{.key = "step", .value = "7"}, {.key = "digest"}};
    memset(notes[1].value, 'a', 64);
    assert_int_equal(
        export_safetensors(folder_place(t.model_dir), model_layout(t.model), t.w, notes, 2, &t.e),
        ERR_OK);
}

static int open_fixture(void **state)
{
    (void)state;
    trained_init(&t, JOB, "1,0\n2,1\n3,0\n", "1,1\n2,0\n");
    write_weights();
    best = (struct best){.job = &t.job};
    config = (struct epoch_end_config){.job = &t.job,
                                       .model = t.model,
                                       .data = &t.train,
                                       .eval = source_over(&source, &t.eval, NULL),
                                       .best = &best,
                                       .log = &no_epochs,
                                       .output = t.dir};
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    trained_close(&t);
    return 0;
}

static enum err write_end(struct errmsg *e)
{
    const struct model_end end = {.config = &config, .learned = &learned};
    return model_end_write(&end, e);
}

static void a_file_that_cannot_be_read_is_named_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum err err;
    } of[] = {{EIO, ERR_IO}, {EMFILE, ERR_FILES}, {ENOMEM, ERR_NOMEM}};
    struct errmsg e = {""};
    assert_int_equal(write_end(&e), ERR_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        long n = 0;
        for (;; n++) {
            files_fail_read_at(n, of[i].error);
            enum err err = write_end(&e);
            if (!files_fail_read_fired())
                break;
            if (!strstr(e.text, t.model_dir) || !strstr(e.text, strerror(of[i].error)))
                fail_msg("%ld: %s", n, e.text);
            assert_int_equal(err, of[i].err);
        }
        assert_true(n > 8); /* the header twice, and each of three files */
        files_fail_read_at(-1, 0);
    }
    assert_int_equal(write_end(&e), ERR_OK);
}

/* No manifest says that such a model is whole. */
static void weights_that_are_cut_off_are_refused(void **state)
{
    (void)state;
    struct errmsg e = {""};
    int fd;
    assert_int_equal(model_manifest_remove(folder_place(t.model_dir), &e), ERR_OK);
    assert_int_equal(files_open(path_of("weights.safetensors"), &fd, &e), ERR_OK);
    off_t bytes = lseek(fd, 0, SEEK_END);
    (void)close(fd);
    for (off_t left = bytes - 1; left >= 0; left -= 13) {
        assert_int_equal(truncate(path_of("weights.safetensors"), left), 0);
        assert_int_equal(write_end(&e), ERR_CORRUPT);
        assert_non_null(strstr(e.text, path_of("weights.safetensors")));
        assert_int_not_equal(access(path_of(MODEL_MANIFEST), F_OK), 0);
    }
}

static void a_file_of_which_nobody_knows_whether_it_is_there_is_no_missing_one(void **state)
{
    (void)state;
    static const char *const names[] = {"job.yaml", "encoding.json", "weights.safetensors"};
    struct errmsg e = {""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)unlink(path_of(names[i]));
        assert_int_equal(symlink(names[i], path_of(names[i])), 0); /* to itself */
        assert_int_equal(write_end(&e), ERR_IO);
        assert_non_null(strstr(e.text, path_of(names[i])));
        assert_non_null(strstr(e.text, strerror(ELOOP)));
        assert_int_equal(unlink(path_of(names[i])), 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_cannot_be_read_is_named_with_its_reason),
        TEST(weights_that_are_cut_off_are_refused),
        TEST(a_file_of_which_nobody_knows_whether_it_is_there_is_no_missing_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
