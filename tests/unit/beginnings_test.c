/* When the runs of a job began: which of them is old enough, and that manifests keep the list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "common/rows/key.h"
#include "tests/lib/folder.h"

enum { DAY = 86400 };
static const uint64_t NOW = 2000000000;

static void the_newest_run_that_is_old_enough_is_found(void **state)
{
    (void)state;
    uint64_t date[] = {NOW - 30 * DAY, NOW - 7 * DAY, NOW - 6 * DAY, NOW - 1};
    uint64_t clock[] = {5, 9, 9, 12};
    const struct beginnings b = {.runs = 4, .date = date, .clock = clock};
    static const struct {
        uint32_t days, want;
    } t[] = {{1, 2}, {6, 2}, {7, 1}, {8, 0}, {30, 0}, {31, 4}, {UINT32_MAX, 4}};
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        assert_int_equal(beginnings_find(&b, NOW, t[i].days), t[i].want);
    assert_int_equal(beginnings_find(&b, NOW - 1, 30), 4); /* a second too early */
    assert_int_equal(beginnings_find(&(struct beginnings){.runs = 0}, NOW, 1), 0);
}

/* A clock that was set back makes a later run look older. */
static void of_dates_in_disorder_the_last_one_counts(void **state)
{
    (void)state;
    uint64_t date[] = {NOW - 9 * DAY, NOW - 2 * DAY, NOW - 20 * DAY, NOW + DAY}, clock[4] = {0};
    const struct beginnings b = {.runs = 4, .date = date, .clock = clock};
    assert_int_equal(beginnings_find(&b, NOW, 5), 2);
    assert_int_equal(beginnings_find(&b, NOW, 1), 2);
}

static void a_list_that_is_full_keeps_every_second_one(void **state)
{
    (void)state;
    struct beginnings b = {.runs = 0};
    for (uint32_t i = 0; i <= BEGINNINGS_MAX; i++) {
        struct beginnings next;
        assert_int_equal(beginnings_after(&next, &b, 10 * (uint64_t)i, i), ERR_OK);
        beginnings_close(&b);
        b = next;
        assert_int_equal(b.runs, i < BEGINNINGS_MAX ? i + 1 : BEGINNINGS_MAX / 2 + 1);
    }
    for (uint32_t i = 0; i < b.runs; i++) {
        assert_int_equal(b.clock[i], 2 * i);
        assert_int_equal(b.date[i], 20 * i);
    }
    beginnings_close(&b);
}

static void without_memory_a_list_stays_as_it_was(void **state)
{
    (void)state;
    uint64_t date[] = {1}, clock[] = {2};
    const struct beginnings b = {.runs = 1, .date = date, .clock = clock};
    for (long i = 0; i < 2; i++) {
        struct beginnings next = b;
        mem_fail_at(i);
        assert_int_equal(beginnings_after(&next, &b, 3, 4), ERR_NOMEM);
        mem_fail_at(i);
        assert_int_equal(beginnings_copy(&next, 1, date, clock), ERR_NOMEM);
        mem_fail_at(-1);
        assert_true(next.runs == 1 && next.date == date && next.clock == clock);
    }
}

/* ---- manifests ---- */

static void read_back(const struct manifest *m, enum err want, struct manifest *out)
{
    char folder[FOLDER_BYTES], cut[FOLDER_BYTES + 16];
    struct errmsg e = {""};
    assert_int_equal(folder_make(folder), 0);
    (void)snprintf(cut, sizeof cut, "%s/cut-0000000001", folder);
    assert_int_equal(mkdir(cut, 0700), 0);
    assert_int_equal(checkpoint_publish(folder_place(folder), m, &e),
                     want); /* the writer has the reader's checks */
    if (want)
        assert_non_null(strstr(e.text, "its list of earlier runs is invalid"));
    else
        assert_int_equal(checkpoint_load_manifest((struct cut){folder_place(folder), 1}, out, &e),
                         ERR_OK);
    assert_int_equal(folder_remove(folder), 0);
}

static struct manifest manifest_of(struct checkpoint_file *file, bool tables, uint32_t runs)
{
    static uint64_t date[BEGINNINGS_MAX + 1], clock[BEGINNINGS_MAX + 1];
    for (uint32_t i = 0; i < runs; i++) {
        date[i] = NOW + i;
        clock[i] = i / 2;
    }
    *file = (struct checkpoint_file){
        .name = "shard-0.gw", .elems = 4, .end_bucket = tables ? ROW_BUCKETS : 0};
    return (struct manifest){.cut = 1,
                             .generation = 1,
                             .tables = tables,
                             .total_elems = 4,
                             .files = 1,
                             .file = file,
                             .begun = {.runs = runs, .date = date, .clock = clock}};
}

static void a_manifest_keeps_the_list(void **state)
{
    (void)state;
    const uint32_t runs[] = {0, 1, 3,
                             BEGINNINGS_MAX}; /* 0: as a release without the list wrote it */
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct checkpoint_file file;
        struct manifest m = manifest_of(&file, true, runs[i]), is;
        read_back(&m, ERR_OK, &is);
        assert_int_equal(is.begun.runs, runs[i]);
        assert_memory_equal(is.begun.date, m.begun.date, runs[i] * sizeof *m.begun.date);
        assert_memory_equal(is.begun.clock, m.begun.clock, runs[i] * sizeof *m.begun.clock);
        manifest_close(&is);
    }
}

static void a_manifest_with_a_list_that_cannot_be_is_damaged(void **state)
{
    (void)state;
    struct checkpoint_file file;
    struct manifest is, without_tables = manifest_of(&file, false, 1);
    read_back(&without_tables, ERR_STATE, &is);
    struct manifest too_long = manifest_of(&file, true, BEGINNINGS_MAX + 1);
    read_back(&too_long, ERR_STATE, &is);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_run_that_is_old_enough_is_found),
        cmocka_unit_test(of_dates_in_disorder_the_last_one_counts),
        cmocka_unit_test(a_list_that_is_full_keeps_every_second_one),
        cmocka_unit_test(without_memory_a_list_stays_as_it_was),
        cmocka_unit_test(a_manifest_keeps_the_list),
        cmocka_unit_test(a_manifest_with_a_list_that_cannot_be_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
