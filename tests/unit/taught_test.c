#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "worker/taught/taught.h"
#include "tests/lib/gathered.h"

/* ---- a job, its data and its cuts ---- */

struct fixture {
    struct job job;
    struct dataset d;
    struct taught t;
    char dir[FOLDER_BYTES], checkpoints[300];
    struct errmsg e;
};

static const char TOWNS[] =
    "{\"columns\": [{\"name\": \"town\", \"kind\": \"category\", \"feature\": 0, \"width\": 1, "
    "\"category\": {\"encode\": \"id\", \"words\": [\"Rome\", \"Oslo\"]}}]}";

/* input_dim 4: two words more have no room. how: of data.encoding. */
static void setup(struct fixture *f, const char *how, const char *run)
{
    char text[2048];
    *f = (struct fixture){.e = {""}};
    assert_int_equal(folder_make(f->dir), 0);
    snprintf(f->checkpoints, sizeof f->checkpoints, "%s/checkpoints", f->dir);
    snprintf(
        text, sizeof text,
        "model: {input: {shape: auto}, loss: mse, layers: [embedding: {input_dim: 4, "
        "output_dim: 2, inputs: [town], name: places}, flatten, dense: 1]}\n"
        "optimizer: sgd\nworker: {threads: 1}\ncheckpoint: {run: %s}\n"
        "data: {format: csv, train: '%s/a.csv', encoding: %s, columns: [category: {name: town, "
        "encode: id}, label: y]}\n",
        run, f->dir, how);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void teardown(struct fixture *f)
{
    taught_close(&f->t);
    dataset_close(&f->d);
    job_close(&f->job);
    assert_int_equal(folder_remove(f->dir), 0);
}

static void put(struct fixture *f, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    if (files_write(path, text, strlen(text), &f->e))
        fail_msg("%s", f->e.text);
}

/* A cut of run "monday" that says this of its rows; NULL: nothing. */
static void publish(struct fixture *f, uint64_t cut, bool final, const char *encoding)
{
    float w[4] = {0};
    uint32_t threads[] = {1};
    struct checkpoint_file file;
    const struct checkpoint_shard s = {.elems = 4, .w = w};
    struct manifest m = {.cut = cut,
                         .final = final,
                         .run = "monday",
                         .total_elems = 4,
                         .identity_text = f->job.identity_text,
                         .files = 1,
                         .file = &file,
                         .ps = 1,
                         .ps_threads = threads};
    if (checkpoint_write_shard((struct cut){folder_place(f->checkpoints), cut}, &s, &file, &f->e) ||
        (encoding && checkpoint_write_encoding((struct cut){folder_place(f->checkpoints), cut},
                                               encoding, strlen(encoding), &m.encoding, &f->e)) ||
        checkpoint_publish(folder_place(f->checkpoints), &m, &f->e))
        fail_msg("%s", f->e.text);
}

static enum err finds(struct fixture *f)
{
    taught_close(&f->t);
    return taught_find(&f->t, &f->job, f->dir, folder_place(f->checkpoints), NULL, &f->e);
}

/* Which numbers its words get, as "1 2 "; *encoding is the caller's. */
static enum err reads(struct fixture *f, const char *rows, char numbers[32], char **encoding)
{
    size_t n = 0;
    put(f, "a.csv", rows);
    dataset_close(&f->d);
    enum err err = dataset_load_given(&f->d, &f->job, taught_given(&f->t), 0, &f->e);
    for (uint64_t row = 0; row < f->d.rows && !err; row++) {
        float x = 0, y;
        uint32_t there;
        err = gathered_rows(&f->d, &row, 1, &x, &y, &there, &f->e);
        n += (size_t)snprintf(numbers + n, 32 - n, "%g ", (double)x);
    }
    return err ? err : taught_agree(&f->t, &f->job, &f->d, -1, encoding, &f->e);
}

static void reads_as(struct fixture *f, const char *rows, const char *wanted)
{
    char numbers[32] = "", *encoding = NULL;
    if (finds(f) || reads(f, rows, numbers, &encoding))
        fail_msg("%s", f->e.text);
    assert_string_equal(numbers, wanted);
    assert_true(f->job.encoded);
    assert_non_null(strstr(encoding, "\"words\""));
    free(encoding);
}

/* ---- tests ---- */

static const char NIGHT[] = "Lima,0\nOslo,1\nRome,0\n";

static void without_a_cut_the_rows_teach(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "extend", "tuesday");
    reads_as(&f, NIGHT, "1 2 3 ");
    teardown(&f);
}

static void a_new_run_does_as_the_job_says(void **state)
{
    (void)state;
    static const struct {
        const char *how, *numbers;
    } cases[] = {{"extend", "3 2 1 "}, {"keep", "0 2 1 "}, {"learn", "1 2 3 "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        setup(&f, cases[i].how, "tuesday");
        publish(&f, 7, true, TOWNS);
        reads_as(&f, NIGHT, cases[i].numbers);
        teardown(&f);
    }
}

static void a_job_that_goes_on_reads_its_rows_as_before_whatever_the_job_says(void **state)
{
    (void)state;
    static const char *const how[] = {"extend", "keep", "learn"};
    for (size_t i = 0; i < 3; i++) {
        struct fixture f;
        setup(&f, how[i], "monday");
        publish(&f, 7, true, TOWNS);
        publish(&f, 8, false, TOWNS);
        reads_as(&f, NIGHT, "0 2 1 ");
        teardown(&f);
    }
}

static void a_damaged_one_is_passed_over(void **state)
{
    (void)state;
    struct fixture f;
    char path[400];
    setup(&f, "keep", "tuesday");
    publish(&f, 6, true, TOWNS);
    publish(&f, 7, true, TOWNS);
    snprintf(path, sizeof path, "%s/cut-0000000007/encoding.json", f.checkpoints);
    assert_int_equal(remove(path), 0);
    reads_as(&f, NIGHT, "0 2 1 ");
    assert_non_null(strstr(f.t.from, "checkpoint 6"));
    teardown(&f);
}

/* As the chief does when it looks for the checkpoint to begin with. */
static void one_on_failing_storage_is_passed_over_and_none_for_lack_of_descriptors(void **state)
{
    (void)state;
    static const int errors[] = {EIO, EMFILE};
    struct fixture f;
    setup(&f, "keep", "tuesday");
    publish(&f, 6, true, TOWNS);
    publish(&f, 7, true, TOWNS);
    for (size_t i = 0; i < 2; i++) {
        long n = 0;
        for (;; n++) {
            files_fail_read_at(n, errors[i]);
            enum err err = finds(&f);
            if (!files_fail_read_fired())
                break;
            assert_int_equal(err, errors[i] == EIO ? ERR_OK : ERR_FILES);
            assert_non_null(err ? strstr(f.e.text, "cut-0000000007/")
                                : strstr(f.t.from, "checkpoint 6"));
        }
        assert_true(n > 3);
        files_fail_read_at(-1, 0);
    }
    teardown(&f);
}

static void of_an_earlier_release_the_models_is_read_and_without_it_no_run_begins(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "keep", "tuesday");
    publish(&f, 7, true, NULL);
    assert_int_equal(finds(&f), ERR_INPUT);
    assert_non_null(
        strstr(f.e.text, "run \"tuesday\" would begin with the weights of checkpoint 7"));
    assert_non_null(strstr(f.e.text, "data.encoding: learn"));
    char path[400];
    snprintf(path, sizeof path, "%s/model", f.dir);
    assert_int_equal(mkdir(path, 0755), 0);
    put(&f, "model/encoding.json", TOWNS);
    reads_as(&f, NIGHT, "0 2 1 ");
    teardown(&f);
    setup(&f, "keep", "monday"); /* the same data teach the same again */
    publish(&f, 7, false, NULL);
    reads_as(&f, NIGHT, "1 2 3 ");
    assert_false(encoding_given_teaches(taught_given(&f.t)));
    assert_non_null(taught_given(&f.t)); /* with the arithmetic of that release */
    teardown(&f);
}

static void ids_that_the_embedding_has_no_row_for_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    char numbers[32], *encoding = NULL;
    setup(&f, "extend", "tuesday");
    publish(&f, 7, true, TOWNS);
    assert_int_equal(finds(&f), ERR_OK);
    assert_int_equal(reads(&f, "Lima,0\nCali,1\n", numbers, &encoding), ERR_INPUT);
    assert_string_equal(
        f.e.text, "column town has 4 words with the new ones, so ids from 0 to 4, but layer "
                  "places has rows 0 to 3: use input_dim 5 in a job that starts from scratch, "
                  "or data.encoding: keep, which reads new words as unknown");
    assert_null(encoding);
    teardown(&f);
}

static void processes_that_read_alike_have_one_digest(void **state)
{
    (void)state;
    struct fixture f;
    uint8_t first[sizeof f.job.encoding];
    char numbers[32], *grown = NULL, *encoding = NULL;
    setup(&f, "extend", "tuesday");
    publish(&f, 7, true, TOWNS);
    assert_int_equal(finds(&f), ERR_OK);
    assert_int_equal(reads(&f, NIGHT, numbers, &grown), ERR_OK);
    memcpy(first, f.job.encoding, sizeof first);
    publish(&f, 8, false, grown); /* one comes late: it sees the run's own cut */
    assert_int_equal(finds(&f), ERR_OK);
    assert_int_equal(reads(&f, NIGHT, numbers, &encoding), ERR_OK);
    assert_memory_equal(f.job.encoding, first, sizeof first);
    assert_string_equal(encoding, grown);
    free(encoding);
    taught_close(&f.t); /* it sees no cut */
    assert_int_equal(reads(&f, NIGHT, numbers, &encoding), ERR_OK);
    assert_memory_not_equal(f.job.encoding, first, sizeof first);
    free(encoding);
    free(grown);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_cut_the_rows_teach),
        cmocka_unit_test(a_new_run_does_as_the_job_says),
        cmocka_unit_test(a_job_that_goes_on_reads_its_rows_as_before_whatever_the_job_says),
        cmocka_unit_test(a_damaged_one_is_passed_over),
        cmocka_unit_test(one_on_failing_storage_is_passed_over_and_none_for_lack_of_descriptors),
        cmocka_unit_test(of_an_earlier_release_the_models_is_read_and_without_it_no_run_begins),
        cmocka_unit_test(ids_that_the_embedding_has_no_row_for_are_refused),
        cmocka_unit_test(processes_that_read_alike_have_one_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
