#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/files.h"
#include "worker/lr_finder.h"

/* A loss that falls from 2 to 0.5 around `middle` (in steps) and explodes from `end` on. */
static void curve(struct lr_found *f, double middle, double end)
{
    f->points = LR_FINDER_STEPS;
    for (uint32_t i = 0; i < LR_FINDER_STEPS; i++) {
        f->point[i].rate = 1e-7 * pow(1e8, i / (LR_FINDER_STEPS - 1.0));
        f->point[i].loss = 0.5 + 1.5 / (1 + exp((i - middle) / 4)) + (i > end ? i - end : 0);
    }
    lr_finder_judge(f);
}

static void the_steepest_fall_is_found_a_little_behind(void **state)
{
    (void)state;
    struct lr_found f;
    for (uint32_t middle = 30; middle < 150; middle += 10) {
        curve(&f, middle, middle + 40);
        assert_in_range((uint64_t)(log10(f.steepest) * 1000 + 100000),
                        (uint64_t)(log10(f.point[middle].rate) * 1000 + 100000),
                        (uint64_t)(log10(f.point[middle + 10].rate) * 1000 + 100000));
        assert_true(f.tenth_of_least * 10 >= f.point[middle + 20].rate);
        assert_true(f.tenth_of_least * 10 <= f.point[middle + 45].rate);
    }
}

static void a_constant_loss_is_its_own_running_mean_and_suggests_nothing(void **state)
{
    (void)state;
    struct lr_found f = {.points = 100};
    for (uint32_t i = 0; i < f.points; i++)
        f.point[i] = (struct lr_point){.rate = 1e-7 * (i + 1), .loss = 2};
    lr_finder_judge(&f);
    for (uint32_t i = 0; i < f.points; i++)
        assert_true(fabs(f.point[i].smooth - 2) < 1e-12);
    for (uint32_t i = 0; i < f.points; i++)
        f.point[i].loss = 2 + i;
    lr_finder_judge(&f);
    assert_true(isnan(f.steepest));
    f.points = 3; /* too few to say anything */
    lr_finder_judge(&f);
    assert_true(isnan(f.steepest));
}

static void the_table_is_written(void **state)
{
    (void)state;
    char folder[] = "/tmp/lr_finder_test-XXXXXX", path[64], command[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/learning-rates.csv", folder);
    struct lr_found f;
    struct errmsg e = {""};
    curve(&f, 50, 90);
    f.point[LR_FINDER_STEPS - 1].loss = f.point[LR_FINDER_STEPS - 1].smooth = -(double)NAN;
    assert_int_equal(lr_finder_report(&f, folder, &e), ERR_OK);
    uint8_t *text;
    size_t bytes, lines = 0;
    assert_int_equal(files_read(path, 1 << 20, &text, &bytes, &e), ERR_OK);
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    assert_int_equal(lines, 1 + LR_FINDER_STEPS);
    assert_non_null(strstr((char *)text, ",nan,nan\n")); /* a NaN that an x86 computes has a sign */
    free(text);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steepest_fall_is_found_a_little_behind),
        cmocka_unit_test(a_constant_loss_is_its_own_running_mean_and_suggests_nothing),
        cmocka_unit_test(the_table_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
