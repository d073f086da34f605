/* The journal: what its lines say, what is counted, and what a torn one does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/files.h"
#include "common/base/mem.h"
#include "worker/chief/journal_file.h"
#include "tests/lib/folder.h"

static struct journal_damage damage;

static struct journal_entry entry(enum journal_kind kind, uint64_t batch, uint64_t cut)
{
    struct journal_entry e = {.kind = kind, .batch = batch, .cut = cut, .generation = 3};
    (void)snprintf(e.what, sizeof e.what, "the gradient of dense/kernel is not finite");
    return e;
}

static void add(struct journal *j, enum journal_kind kind, uint64_t batch, uint64_t cut)
{
    struct journal_entry e = entry(kind, batch, cut);
    assert_int_equal(journal_add(j, &e), ERR_OK);
}

static void batches_count_once_and_recoveries_by_their_cut(void **state)
{
    (void)state;
    struct journal j = {0};
    assert_int_equal(journal_row(&j, 5), 0);
    add(&j, JOURNAL_REJECTED, 3, 1);
    add(&j, JOURNAL_REJECTED, 4, 1);
    add(&j, JOURNAL_REJECTED, 4, 2); /* in a replay */
    add(&j, JOURNAL_RECOVERED, 9, 2);
    add(&j, JOURNAL_RECOVERED, 9, 3);
    assert_true(journal_has(&j, 4) && journal_has(&j, 9) && !journal_has(&j, 5));
    assert_true(journal_skips(&j, 9) && !journal_skips(&j, 4));
    assert_int_equal(journal_rejected(&j), 3);
    assert_int_equal(journal_recoveries(&j, 2), 1);
    assert_int_equal(journal_recoveries(&j, 1), 0);
    assert_int_equal(journal_all_recoveries(&j), 2);
    assert_int_equal(journal_row(&j, 5), 2);
    assert_int_equal(journal_row(&j, 6), 0);
    assert_int_equal(journal_row(&j, 0), 0);
    journal_close(&j);
}

static void lines_of_kernels_are_compared_and_are_no_batches(void **state)
{
    (void)state;
    struct journal j = {0};
    const struct journal_entry entry[] = {journal_blas_entry("chief", "Zen (OpenBLAS 0.3.21)"),
                                          journal_blas_entry("worker 1", "Zen (OpenBLAS 0.3.21)"),
                                          journal_blas_entry("worker 2", "Haswell\n(OpenBLAS 1)")};
    assert_true(journal_blas_same(&j) && !journal_blas(&j, 0));
    for (int i = 0; i < 3; i++) {
        char line[JOURNAL_LINE_MAX];
        assert_false(journal_has_blas(&j, &entry[i]));
        assert_int_equal(journal_parse(&j, line, journal_line(&entry[i], line), &damage), ERR_OK);
        assert_true(journal_has_blas(&j, &entry[i]));
        assert_int_equal(journal_blas_same(&j), i < 2);
    }
    assert_string_equal(journal_blas(&j, 1), "worker 1: Zen (OpenBLAS 0.3.21)");
    assert_string_equal(journal_blas_other(&j, "Zen (OpenBLAS 0.3.21)"),
                        "worker 2: Haswell?(OpenBLAS 1)");
    assert_null(journal_blas(&j, 3));
    add(&j, JOURNAL_REJECTED, 0, 1);
    assert_int_equal(journal_rejected(&j), 1);
    assert_int_equal(journal_row(&j, 1), 1);
    j.n--;
    assert_true(!journal_has(&j, 0) && journal_rejected(&j) == 0 && journal_row(&j, 1) == 0);
    journal_close(&j);
}

static void a_journal_has_a_name_and_the_first_chief_that_lacked_the_past(void **state)
{
    (void)state;
    struct journal j = {0};
    const struct journal_entry all[] = {journal_name_entry("a", 8), journal_name_entry("b", 9),
                                        entry(JOURNAL_INEXACT, 0, UINT64_MAX)};
    assert_string_equal(journal_name(&j), "");
    assert_int_equal(journal_named_epochs(&j), 0);
    assert_null(journal_inexact(&j));
    for (int i = 0; i < 3; i++) {
        char line[JOURNAL_LINE_MAX];
        assert_int_equal(journal_parse(&j, line, journal_line(&all[i], line), &damage), ERR_OK);
        assert_string_equal(journal_name(&j), "a");
        assert_int_equal(journal_named_epochs(&j), 8);
    }
    assert_string_equal(journal_inexact(&j), all[2].what);
    assert_true(!journal_has(&j, 0) && journal_rejected(&j) == 0 && journal_blas_same(&j));
    journal_close(&j);
}

static void a_journal_begins_with_the_lines_that_it_had_and_lacks_none(void **state)
{
    (void)state;
    struct journal j = {0}, less = {0};
    const struct journal_entry all[] = {journal_name_entry("a", 8),
                                        journal_blas_entry("chief", "Zen (OpenBLAS 0.3.21)"),
                                        entry(JOURNAL_REJECTED, 3, 1)};
    for (int i = 0; i < 3; i++)
        assert_int_equal(journal_add(&j, &all[i]), ERR_OK);
    for (uint64_t n = 0; n <= 3; n++)
        assert_true(journal_begins_with(&j, journal_lines(&j, n)));
    const struct journal_lines known = journal_lines(&j, 3);
    assert_true(journal_begins_with(&less, (struct journal_lines){0})); /* an earlier release */
    assert_int_equal(journal_add(&less, &all[0]), ERR_OK);
    assert_int_equal(journal_add(&less, &all[2]), ERR_OK);
    assert_false(journal_begins_with(&less, known)); /* it has fewer */
    assert_int_equal(journal_add(&less, &all[1]), ERR_OK);
    assert_false(journal_begins_with(&less, known)); /* as many, but others */
    assert_int_equal(journal_add(&j, &all[0]), ERR_OK);
    assert_true(journal_begins_with(&j, known));
    j.entry[1].what[0] = 'C';
    assert_false(journal_begins_with(&j, known));
    journal_close(&j);
    journal_close(&less);
}

static void a_line_reads_back(void **state)
{
    (void)state;
    struct journal j = {0};
    char line[JOURNAL_LINE_MAX];
    struct journal_entry e = entry(JOURNAL_RECOVERED, UINT64_MAX - 1, UINT64_MAX);
    size_t bytes = journal_line(&e, line);
    assert_int_equal(line[bytes - 1], '\n');
    assert_int_equal(journal_parse(&j, line, bytes, &damage), ERR_OK);
    assert_int_equal(j.n, 1);
    assert_int_equal(j.entry[0].kind, JOURNAL_RECOVERED);
    assert_true(j.entry[0].batch == e.batch && j.entry[0].cut == e.cut);
    assert_int_equal(j.entry[0].generation, 3);
    assert_string_equal(j.entry[0].what, e.what);
    assert_non_null(strstr(line, " cut none: "));
    static const char before[] = "recovered batch 4 generation 1 cut 18446744073709551615: a\n";
    assert_int_equal(journal_parse(&j, before, sizeof before - 1, &damage), ERR_OK);
    assert_int_equal(j.n, 2);
    assert_true(j.entry[1].cut == UINT64_MAX);
    journal_close(&j);
}

static void lines_that_make_no_sense_are_counted_and_the_first_is_named(void **state)
{
    (void)state;
    static const char text[] = "rejected batch 1 generation 1 cut 0: a\n"
                               "\n"
                               "mistaken batch 2 generation 1 cut 0: a\n"
                               "rejected batch x generation 1 cut 0: a\n"
                               "rejected batch 3 generation 1\n"
                               "rejected batch 6 generation 1 cut 0x: a\n"
                               "rejected batch 6 generation 1 cut no: a\n"
                               "rejected batch 5 generation 1 cut 0: b\n"
                               "rejected batch 4 generation 1 cut 0: torn";
    struct journal j = {0};
    assert_int_equal(journal_parse(&j, text, sizeof text - 1, &damage), ERR_OK);
    assert_int_equal(j.n, 2);
    assert_true(journal_has(&j, 1) && journal_has(&j, 5));
    assert_true(damage.lines == 8 && damage.damaged == 6 && damage.first == 2 && damage.torn);
    journal_close(&j);
}

static void a_line_with_any_other_bit_is_damaged(void **state)
{
    (void)state;
    char line[JOURNAL_LINE_MAX];
    struct journal_entry e = entry(JOURNAL_RECOVERED, 9, 2);
    size_t bytes = journal_line(&e, line);
    for (size_t i = 0; i < 8 * bytes; i++) {
        struct journal j = {0};
        line[i / 8] ^= (char)(1 << i % 8);
        assert_int_equal(journal_parse(&j, line, bytes, &damage), ERR_OK);
        assert_int_equal(j.n, 0);
        assert_true(damage.damaged > 0 || damage.torn);
        line[i / 8] ^= (char)(1 << i % 8);
        journal_close(&j);
    }
    char whole[1200];
    (void)snprintf(whole, sizeof whole, "%s%.*s%300s\n%s", line, (int)bytes - 1, line, "", line);
    struct journal j = {0};
    assert_int_equal(journal_parse(&j, whole, strlen(whole), &damage), ERR_OK);
    assert_true(j.n == 2 && damage.lines == 3 && damage.damaged == 1 && damage.first == 2 &&
                !damage.torn);
    journal_close(&j);
}

static void a_torn_line_is_skipped_and_removed_before_the_next_is_written(void **state)
{
    (void)state;
    char dir[] = "/tmp/gradwire-journal-XXXXXX", folder[64], path[80];
    struct errmsg e = {""};
    struct journal j = {0};
    assert_non_null(mkdtemp(dir));
    (void)snprintf(folder, sizeof folder, "%s/checkpoints", dir);
    (void)snprintf(path, sizeof path, "%s/journal", folder);
    assert_int_equal(journal_read(&j, folder_place(folder), &damage, &e),
                     ERR_OK); /* none is an empty one */
    assert_int_equal(j.n, 0);
    struct journal_entry some[] = {entry(JOURNAL_REJECTED, 1, 0), entry(JOURNAL_RECOVERED, 2, 0)};
    assert_int_equal(journal_append(folder_place(folder), some, 1, &e), ERR_OK);
    assert_int_equal(journal_append(folder_place(folder), some + 1, 1, &e), ERR_OK);
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(files_read(path, 4096, (uint8_t **)&text, &bytes, &e), ERR_OK);
    assert_true(text[0] != '\n' && !strstr(text, "\n\n"));
    mem_free(text);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs("rejected batch 7 gener", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(journal_read(&j, folder_place(folder), &damage, &e), ERR_OK);
    assert_true(j.n == 2 && damage.torn && damage.damaged == 0);
    journal_close(&j);
    some[0].batch = 3;
    assert_int_equal(journal_append(folder_place(folder), some, 1, &e), ERR_OK);
    assert_int_equal(journal_read(&j, folder_place(folder), &damage, &e), ERR_OK);
    assert_int_equal(j.n, 3);
    assert_true(damage.lines == 3 && damage.damaged == 0 && !damage.torn);
    assert_true(journal_has(&j, 1) && journal_skips(&j, 2) && journal_has(&j, 3));
    journal_close(&j);
    assert_int_equal(unlink(path), 0);
    assert_false(journal_begins(folder_place(folder), "a"));
    assert_int_equal(journal_mark(folder_place(folder), "a", &e), ERR_OK);
    assert_true(journal_begins(folder_place(folder), "a"));
    assert_false(journal_begins(folder_place(folder), "b"));
    journal_unmark(folder_place(folder));
    assert_false(journal_begins(folder_place(folder), "a"));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_count_once_and_recoveries_by_their_cut),
        cmocka_unit_test(lines_of_kernels_are_compared_and_are_no_batches),
        cmocka_unit_test(a_journal_has_a_name_and_the_first_chief_that_lacked_the_past),
        cmocka_unit_test(a_journal_begins_with_the_lines_that_it_had_and_lacks_none),
        cmocka_unit_test(a_line_reads_back),
        cmocka_unit_test(lines_that_make_no_sense_are_counted_and_the_first_is_named),
        cmocka_unit_test(a_line_with_any_other_bit_is_damaged),
        cmocka_unit_test(a_torn_line_is_skipped_and_removed_before_the_next_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
