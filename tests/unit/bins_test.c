#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "common/math/bins.h"

enum { ROWS = 600, SLICES = 3 };

struct row {
    float logit;
    bool positive;
    uint8_t slice;
};

/* The share of pairs that are in order, ties counting half, by looking at each pair; slice SLICES: all rows. */
static double exact_auc(const struct row *row, uint32_t slice)
{
    double right = 0, pairs = 0;
    for (uint32_t p = 0; p < ROWS; p++)
        for (uint32_t n = 0; n < ROWS; n++) {
            if (!row[p].positive || row[n].positive ||
                (slice < SLICES && (row[p].slice != slice || row[n].slice != slice)))
                continue;
            pairs++;
            right += row[p].logit > row[n].logit ? 1.0 : row[p].logit == row[n].logit ? 0.5 : 0.0;
        }
    return right / pairs;
}

static void draw(struct row *row, uint64_t seed, float spread)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        uint64_t key = rng_key(seed, RNG_TEST, i, 0);
        row[i].positive = rng_u64(key, 0) % 4 == 0;
        row[i].logit =
            ((float)(rng_u64(key, 1) % 1000) / 1000.0f + (row[i].positive ? 0.3f : 0.0f)) * spread -
            4.0f;
        row[i].slice = (uint8_t)(rng_u64(key, 2) % SLICES);
    }
}

/* In pushes of `each` rows. */
static void add(struct bins *b, const struct row *row, uint32_t each)
{
    uint8_t marks[ROWS * 3];
    for (uint32_t from = 0; from < ROWS; from += each) {
        uint32_t n = ROWS - from < each ? ROWS - from : each;
        for (uint32_t i = 0; i < n; i++) {
            uint16_t mark = bins_mark(row[from + i].logit, row[from + i].positive ? 1.0f : 0.0f);
            memcpy(marks + 2 * (size_t)i, &mark, sizeof mark);
            marks[2 * (size_t)n + i] = row[from + i].slice;
        }
        bins_add(b, marks, n);
    }
}

static void bins_auc_differs_from_the_exact_one_by_its_error_at_most(void **state)
{
    struct row row[ROWS];
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct bins b;
        draw(row, seed, seed % 3 == 0 ? 0.05f : seed % 3 == 1 ? 3.0f : 60.0f); /* up to 56, too */
        assert_int_equal(bins_init(&b, SLICES), ERR_OK);
        add(&b, row, 1 + (uint32_t)seed * 7);
        assert_int_equal(b.rows, ROWS);
        for (uint32_t block = 0; block <= SLICES; block++) {
            struct bins_auc is = bins_auc(&b, block);
            double exact = exact_auc(row, block ? block - 1 : SLICES);
            assert_true(is.error > 0 && is.error < 0.5);
            assert_true(fabs(is.auc - exact) <= is.error + 1e-12);
        }
        bins_close(&b);
    }
}

static void bins_of_equal_scores_are_exact(void **state)
{
    struct row row[ROWS];
    (void)state;
    struct bins b;
    draw(row, 5, 1.0f);
    for (uint32_t i = 0; i < ROWS; i++)
        row[i].logit = row[i].logit > -3.5f ? 2.0f : -2.0f;
    assert_int_equal(bins_init(&b, SLICES), ERR_OK);
    add(&b, row, ROWS);
    assert_true(fabs(bins_auc(&b, 0).auc - exact_auc(row, SLICES)) < 1e-12);
    bins_close(&b);
}

static void bins_of_one_class_have_no_auc(void **state)
{
    (void)state;
    struct bins b;
    const uint16_t mark[] = {bins_mark(1.0f, 1.0f), bins_mark(NAN, 1.0f), bins_mark(-1e30f, 1.0f),
                             bins_mark(1e30f, 1.0f)};
    assert_int_equal(bins_init(&b, 0), ERR_OK);
    assert_true(isnan(bins_auc(&b, 0).auc));
    bins_add(&b, (const uint8_t *)mark, 4);
    assert_true(isnan(bins_auc(&b, 0).auc) && isnan(bins_auc(&b, 0).error));
    assert_int_equal(b.count[2 * (BINS / 2 + 128) + 1], 1); /* logit 1 */
    assert_int_equal(b.count[1], 2); /* NaN, and all that is below the bins */
    assert_int_equal(b.count[2 * BINS - 1], 1);
    bins_close(&b);
}

static void bins_are_the_same_after_they_were_packed(void **state)
{
    struct row row[ROWS];
    struct bins b, back, copied;
    (void)state;
    draw(row, 9, 3.0f);
    assert_int_equal(bins_init(&b, SLICES), ERR_OK);
    assert_int_equal(bins_init(&back, SLICES), ERR_OK);
    assert_int_equal(bins_pack(&b, NULL), 0);
    add(&b, row, 50);
    size_t n = bins_pack(&b, NULL), bytes = (1 + SLICES) * (size_t)BINS * 2 * sizeof(uint64_t);
    uint64_t *packed = calloc(n, sizeof *packed);
    assert_int_equal(bins_pack(&b, packed), n);
    back.count[17] = 5; /* of an earlier epoch */
    assert_true(bins_unpack(&back, packed, n));
    assert_memory_equal(back.count, b.count, bytes);
    assert_int_equal(back.rows, ROWS);
    assert_int_equal(bins_copy(&copied, &b), ERR_OK);
    assert_memory_equal(copied.count, b.count, bytes);
    assert_int_equal(copied.rows, ROWS);
    packed[0] += 2 * BINS * (1 + SLICES);
    assert_false(bins_unpack(&back, packed, n));
    assert_false(bins_unpack(&back, packed + 2, 3));
    free(packed);
    bins_close(&b);
    bins_close(&back);
    bins_close(&copied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_auc_differs_from_the_exact_one_by_its_error_at_most),
        cmocka_unit_test(bins_of_equal_scores_are_exact),
        cmocka_unit_test(bins_of_one_class_have_no_auc),
        cmocka_unit_test(bins_are_the_same_after_they_were_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
