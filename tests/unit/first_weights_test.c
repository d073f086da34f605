/* First weights from a file: the first cut has them, the initializers' values and fresh slots; it is there completely or not at
 * all, whichever allocation or write fails; and a job that resumes takes the same file, none, or is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "export/export.h"
#include "worker/warm_start/first_weights.h"

enum { TENSORS = 3, FIRST_ELEMS = 5 };

static char file[FOLDER_BYTES + 32], checkpoints[FOLDER_BYTES + 32];
static struct layout layout;
static const uint8_t fingerprint[32] = {3};

/* Two tensors that the file has, and one between them that it lacks. */
static int begin(void **state)
{
    static const char *const names[TENSORS] = {"a/kernel", "b/kernel", "c/kernel"};
    struct errmsg e;
    int failed = folder_setup(state);
    (void)snprintf(file, sizeof file, "%s/w.safetensors", folder_dir);
    (void)snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder_dir);
    layout = (struct layout){.tensors = 0};
    for (uint32_t i = 0; i < TENSORS && !failed; i++) {
        struct tensor t = {
            .rank = 1, .shape = {FIRST_ELEMS + i}, .init = INIT_CONSTANT, .init_value = 7};
        (void)snprintf(t.name, sizeof t.name, "%s", names[i]);
        failed = layout_add(&layout, &t, &e) != ERR_OK;
    }
    return failed;
}

static int end(void **state)
{
    layout_close(&layout);
    return folder_teardown(state);
}

static void write_file(float first)
{
    struct layout some = {.tensors = 2};
    struct errmsg e = {""};
    struct tensor t[2] = {layout.tensor[0], layout.tensor[2]};
    float w[64];
    for (int i = 0; i < 64; i++)
        w[i] = first + (float)i;
    some.tensor = t;
    if (export_safetensors(file, &some, w, NULL, 0, &e))
        fail_msg("%s", e.text);
}

/* A job's own copy, with an identity text that a call may replace; released by job_close. */
static struct job job_of(const char *identity)
{
    struct job job = {.optimizer = {.kind = OPT_ADAM, .use_ema = true},
                      .training = {.microbatches = 2}};
    job.model.weights = mem_strdup(file);
    job.identity_text = mem_strdup(identity);
    return job;
}

static enum err begin_job(struct job *job, char words[FIRST_WEIGHTS_WORDS_BYTES], struct errmsg *e)
{
    const struct first_weights s = {.job = job,
                                    .data_fingerprint = fingerprint,
                                    .checkpoints = folder_place(checkpoints),
                                    .layout = &layout,
                                    .encoding = "{}",
                                    .words = words};
    return first_weights_begin(&s, e);
}

static struct manifest loaded(void)
{
    struct manifest m;
    struct errmsg e = {""};
    if (checkpoint_load((struct cut){folder_place(checkpoints), 0}, &m, &e))
        fail_msg("%s", e.text);
    return m;
}

static bool is_published(void)
{
    char path[sizeof checkpoints + 40];
    (void)snprintf(path, sizeof path, "%s/cut-0000000000/manifest.gw", checkpoints);
    return access(path, F_OK) == 0;
}

static void the_first_cut_has_the_files_values_and_the_initializers(void **state)
{
    (void)state;
    struct job job = job_of("x = 1\n");
    struct errmsg e = {""};
    char words[FIRST_WEIGHTS_WORDS_BYTES], digest[65];
    float w[64], average[64], *slot[OPTIMIZER_SLOTS_MAX] = {0};
    write_file(10);
    if (begin_job(&job, words, &e))
        fail_msg("%s", e.text);
    assert_non_null(strstr(words, "which has 2 of the model's 3 tensors; it lacks b/kernel"));
    struct manifest m = loaded();
    assert_true(m.step == 0 && m.t == 0 && !m.final && m.slots == 3 && m.uuid[0]);
    assert_memory_equal(m.data_fingerprint, fingerprint, sizeof fingerprint);
    assert_true(job_weights_of(m.identity_text, digest, sizeof digest) && strlen(digest) == 64);
    slot[optimizer_average_slot(&job.optimizer)] = average;
    assert_int_equal(checkpoint_read(folder_place(checkpoints), &m, 0, layout.elems, w, slot, &e),
                     ERR_OK);
    for (uint32_t i = 0; i < TENSORS; i++)
        for (uint64_t k = 0; k < layout.tensor[i].elems; k++) {
            uint64_t at = layout.tensor[i].offset_elems + k;
            assert_true(w[at] == (i == 1 ? 7.0f : 10.0f + (float)at));
            assert_true(average[at] == w[at]);
        }
    manifest_close(&m);
    job_close(&job);
}

static void a_job_that_resumes_takes_the_same_values_or_none(void **state)
{
    (void)state;
    struct errmsg e = {""};
    char words[FIRST_WEIGHTS_WORDS_BYTES];
    struct job job = job_of("x = 1\n");
    write_file(10);
    assert_int_equal(begin_job(&job, words, &e), ERR_OK);
    job_close(&job);
    struct manifest m = loaded();
    static const struct {
        const char *identity;
        float first; /* 0: no file */
        enum err err;
        const char *words;
    } cases[] = {
        {"x = 1\n", 10, ERR_OK, ""},
        {"x = 1\n", 11, ERR_INPUT, "has other values than when the job began (checkpoint 0)"},
        {"x = 1\n", 0, ERR_OK, ""},
        {"x = 2\n", 11, ERR_OK, ""}, /* the caller refuses x */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job = job_of(cases[i].identity);
        (void)unlink(file);
        if (cases[i].first != 0)
            write_file(cases[i].first);
        assert_int_equal(first_weights_check(&job, &layout, &m, &e), cases[i].err);
        assert_true(!cases[i].err || strstr(e.text, cases[i].words));
        bool same = strcmp(job.identity_text, m.identity_text) == 0;
        assert_int_equal(same, cases[i].err == ERR_OK && i != 3);
        job_close(&job);
    }
    manifest_close(&m);
    job = job_of("x = 1\n");
    struct manifest without = {.identity_text = job.identity_text};
    assert_int_equal(first_weights_check(&job, &layout, &without, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "the job began without it"));
    job_close(&job);
}

static void a_run_that_began_with_an_earlier_one_takes_any_file(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct job begun = job_of("x = 1\n"), job = job_of("x = 1\n");
    assert_int_equal(first_weights_pass(&begun, &e), ERR_OK);
    struct manifest m = {.identity_text = begun.identity_text};
    write_file(99);
    assert_int_equal(first_weights_check(&job, &layout, &m, &e), ERR_OK);
    assert_string_equal(job.identity_text, begun.identity_text);
    job_close(&begun);
    job_close(&job);
}

static void without_memory_or_disk_there_is_no_cut_and_the_next_try_makes_it(void **state)
{
    (void)state;
    struct errmsg e = {""};
    char words[FIRST_WEIGHTS_WORDS_BYTES];
    int memory = 0, disk = 0;
    write_file(10);
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0;; i++) {
            struct job job = job_of("x = 1\n");
            char remove[FOLDER_BYTES + 64];
            (void)snprintf(remove, sizeof remove, "%s/cut-0000000000/manifest.gw", checkpoints);
            (void)unlink(remove);
            if (kind == 0)
                mem_fail_at(i);
            else
                files_fail_at(i, 28); /* ENOSPC */
            enum err err = begin_job(&job, words, &e);
            mem_fail_at(-1);
            files_fail_at(-1, 0);
            job_close(&job);
            assert_true(is_published() == (err == ERR_OK));
            if (err == ERR_OK)
                break;
            assert_int_equal(err, kind == 0 ? ERR_NOMEM : ERR_IO);
            memory += kind == 0;
            disk += kind == 1;
        }
    assert_true(memory > 5 && disk > 2);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_cut_has_the_files_values_and_the_initializers,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_job_that_resumes_takes_the_same_values_or_none, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_run_that_began_with_an_earlier_one_takes_any_file, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            without_memory_or_disk_there_is_no_cut_and_the_next_try_makes_it, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
