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
    (void)snprintf(file, sizeof file, "%s/weights.safetensors", folder_dir);
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
    if (export_safetensors(folder_place(folder_dir), &some, w, NULL, 0, &e))
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

static const char *encoding = "{}";

static enum err begin_job(struct job *job, char words[FIRST_WEIGHTS_WORDS_BYTES], struct errmsg *e)
{
    const struct first_weights s = {.job = job,
                                    .data_fingerprint = fingerprint,
                                    .checkpoints = folder_place(checkpoints),
                                    .layout = &layout,
                                    .encoding = encoding,
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

/* The last warning of a job that begins with the weights, with and next to which are these columns. */
static const char *warning(const char *is, const char *was)
{
    static char said[1200];
    char path[sizeof file + 16], text[1000], words[FIRST_WEIGHTS_WORDS_BYTES];
    struct errmsg e = {""};
    struct job job = job_of("x = 1\n");
    (void)snprintf(path, sizeof path, "%s/encoding.json", folder_dir);
    (void)unlink(path);
    FILE *f = was ? fopen(path, "w") : NULL;
    if (f) {
        assert_true(fprintf(f, "{\"columns\": [%s]}", was) > 0);
        assert_int_equal(fclose(f), 0);
    }
    (void)snprintf(text, sizeof text, "{\"columns\": [%s]}", is);
    encoding = text;
    log_init("test", LOG_WARN);
    log_warn("nothing");
    if (begin_job(&job, words, &e))
        fail_msg("%s", e.text);
    log_last_words(false, said, sizeof said);
    log_init("test", LOG_ERROR);
    encoding = "{}";
    job_close(&job);
    assert_int_equal(folder_remove(checkpoints), 0);
    return said;
}

static void columns_that_mean_something_else_than_in_the_file_are_named(void **state)
{
    (void)state;
#define COLUMN(name, feature, rest) "{\"name\": \"" name "\", \"feature\": " #feature ", " rest "}"
#define WORDS(list) "\"category\": {\"words\": [" list "]}"
#define SCALE(shift, divisor) "\"number\": {\"shift\": " #shift ", \"divisor\": " #divisor "}"
#define BORDERS(list) "\"buckets\": {\"borders\": [" list "]}"
    static const struct {
        const char *is, *was, *said;
    } of[] = {
        {COLUMN("c", 0, WORDS("\"q\", \"p\"")), NULL, "nothing"},
        {COLUMN("c", 0, WORDS("\"q\", \"p\"")), COLUMN("c", 0, WORDS("\"q\"")), "nothing"},
        {COLUMN("c", 0, WORDS("\"q\", \"p\"")), COLUMN("other", 0, WORDS("\"p\"")), "nothing"},
        {COLUMN("c", 0, WORDS("\"q\", \"p\"")), COLUMN("c", 0, WORDS("\"p\", \"q\"")),
         "column \"c\": word 1 is \"q\", and was \"p\"; give a layer"},
        {COLUMN("n", 0, SCALE(2.5, 3)), COLUMN("n", 0, SCALE(2.5, 3.0)), "nothing"},
        {COLUMN("n", 0, SCALE(2.5, 3)), COLUMN("n", 0, SCALE(1, 4)),
         "column \"n\": its scale is (x - 2.5) / 3, and was (x - 1) / 4; give a layer"},
        {COLUMN("b", 0, BORDERS("1.5, 2")), COLUMN("b", 0, BORDERS("1.5, 2")), "nothing"},
        {COLUMN("b", 0, BORDERS("1.5, 2")), COLUMN("b", 0, BORDERS("1.5, 3")),
         "column \"b\": its buckets have other borders; give a layer"},
        {COLUMN("b", 1, BORDERS("2")), COLUMN("b", 3, BORDERS("2")),
         "column \"b\": its first feature is 1, and was 3; give a layer"},
        {COLUMN("a", 1, "\"x\": 1") ", " COLUMN("b", 2, "\"x\": 1") ", " COLUMN(
             "c", 3, "\"x\": 1") ", " COLUMN("d", 0, "\"x\": 1"),
         COLUMN("d", 3, "\"x\": 1") ", " COLUMN("c", 2, "\"x\": 1") ", " COLUMN(
             "b", 1, "\"x\": 1") ", " COLUMN("a", 0, "\"x\": 1"),
         "column \"c\": its first feature is 3, and was 2 (and 1 more); give a layer"},
    };
    write_file(10);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        const char *said = warning(of[i].is, of[i].was);
        if (!strstr(said, of[i].said))
            fail_msg("%zu: %s", i, said);
    }
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
        cmocka_unit_test_setup_teardown(columns_that_mean_something_else_than_in_the_file_are_named,
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
