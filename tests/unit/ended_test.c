/* A final checkpoint that is not finite: weights, rows and losses are looked at, and the first that is not is named. */
#include "worker/chief/resume.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/checkpoint/checkpoint_rows.h"
#include "common/rows/key.h"
#include "tests/lib/folder.h"

enum { ELEMS = 32, KEY = 7 };
static char *const dir = folder_dir;

static struct tensor tensors[] = {
    {.name = "a/kernel", .rank = 1, .shape = {3}, .offset_elems = 0, .elems = 3},
    {.name = "b/kernel", .rank = 1, .shape = {2}, .offset_elems = 16, .elems = 2},
};
static const struct layout LAYOUT = {.tensors = 2, .tensor = tensors, .elems = ELEMS};
static const struct checkpoint_table WIDE = {"wide", 2, 1, 0};

/* A cut: all finite where nothing is broken. */
struct made {
    float w[ELEMS];
    float row[3]; /* two weights and a slot */
    struct manifest m;
};

struct source {
    const float *row;
    uint64_t mixed, stamp;
    uint32_t count;
    bool told;
};

static enum err next(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct source *s = ctx;
    (void)e;
    *g = (struct row_group){0};
    if (!s->told)
        *g = (struct row_group){
            key_bucket(s->mixed), 0, 1, &s->mixed, &s->stamp, &s->count, s->row, NULL, 0};
    s->told = true;
    return ERR_OK;
}

/* The answer of ended_look; "" or the words. */
static const char *look(struct made *made)
{
    static char words[ENDED_WORDS_BYTES];
    struct errmsg e = {""};
    struct checkpoint_file file;
    struct manifest m;
    struct source s = {.row = made->row, .mixed = key_mix(KEY)};
    const struct checkpoint_rows rows = {
        .buckets = {0, ROW_BUCKETS}, .tables = 1, .table = &WIDE, .next = next, .ctx = &s};
    const struct checkpoint_shard shard = {
        .generation = 1, .elems = ELEMS, .w = made->w, .rows = &rows};
    made->m.cut = made->m.generation = 1;
    made->m.tables = made->m.final = true;
    made->m.total_elems = ELEMS;
    made->m.files = 1;
    made->m.file = &file;
    made->m.step = 40;
    if (checkpoint_write_shard((struct cut){folder_place(dir), 1}, &shard, &file, &e) ||
        checkpoint_publish(folder_place(dir), &made->m, &e) ||
        checkpoint_load((struct cut){folder_place(dir), 1}, &m, &e) ||
        ended_look(folder_place(dir), &m, &LAYOUT, words, &e))
        fail_msg("%s", e.text);
    manifest_close(&m);
    return words;
}

static void assert_says(struct made made, const char *what)
{
    const char *words = look(&made);
    if (strncmp(words, "step 40: ", 9) != 0 || !strstr(words, what) ||
        !strstr(words, "remove checkpoints/cut-0000000001 to"))
        fail_msg("%s", words);
}

static void what_is_not_finite_is_named(void **state)
{
    (void)state;
    struct made made = {.w = {[16] = NAN}};
    assert_says(made, "the tensor b/kernel is not finite");
    made.w[2] = INFINITY;
    made.row[1] = NAN;
    assert_says(made, "the tensor a/kernel is not finite");
    made.w[2] = made.w[16] = 0;
    assert_says(made, "the row of key 7 of table wide is not finite");
    made.row[1] = 0;
    made.m.epoch[0] = (struct epoch_sums){.epoch = 1, .batches = 4, .loss = NAN};
    made.m.epoch[1] = (struct epoch_sums){.epoch = 2, .batches = 4, .loss = INFINITY};
    assert_says(made, "the loss of the last epoch is not finite");
    made.m.epoch[1].loss = 1;
    made.m.eval.valid = true;
    made.m.eval.loss = NAN;
    assert_says(made, "the loss of the evaluation is not finite");
}

static void a_finite_one_is_not_blamed(void **state)
{
    (void)state;
    struct made made = {.w = {1}, .row = {0, 0, NAN}}; /* a slot */
    made.m.epoch[0] = (struct epoch_sums){.epoch = 1, .batches = 4, .loss = NAN};
    made.m.epoch[2] = (struct epoch_sums){.epoch = 2, .batches = 4, .loss = 1};
    made.m.epoch[3] = (struct epoch_sums){.epoch = 3, .loss = NAN};
    made.m.eval.loss = NAN;
    assert_string_equal(look(&made), "");
}

static void the_last_epoch_is_the_one_of_the_highest_number_wherever_it_stands(void **state)
{
    (void)state;
    struct made made = {.w = {1}};
    made.m.epoch[0] = (struct epoch_sums){.epoch = 5, .batches = 4, .loss = 1};
    made.m.epoch[1] = (struct epoch_sums){.epoch = 2, .batches = 4, .loss = NAN};
    assert_string_equal(look(&made), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_not_finite_is_named, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_finite_one_is_not_blamed, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(
            the_last_epoch_is_the_one_of_the_highest_number_wherever_it_stands, folder_setup,
            folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
