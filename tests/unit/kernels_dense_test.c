/* The kernel of dense layers at each level: against sums in double, and rows alone against rows together. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/math/kernels.h"

enum { LEVELS = 3, ROWS_MAX = 30, IN_MAX = 40, X_ROW = IN_MAX + 3, Y_ROW = KERNEL_PANEL + 5 };

struct product {
    float x[ROWS_MAX * X_ROW], w[IN_MAX * KERNEL_PANEL], bias[KERNEL_PANEL];
    float y[ROWS_MAX * Y_ROW];
    struct kernel_dense s;
};

static float unit_at(uint64_t key, size_t i)
{
    return 2.0f * rng_unit(key, i) - 1.0f;
}

static void product_init(struct product *p, size_t rows, size_t in, size_t cols)
{
    for (size_t i = 0; i < sizeof p->x / sizeof *p->x; i++)
        p->x[i] = unit_at(1, i);
    for (size_t i = 0; i < sizeof p->w / sizeof *p->w; i++)
        p->w[i] = unit_at(2, i);
    for (size_t i = 0; i < KERNEL_PANEL; i++)
        p->bias[i] = unit_at(3, i);
    for (size_t i = 0; i < sizeof p->y / sizeof *p->y; i++)
        p->y[i] = unit_at(4, i);
    p->s =
        (struct kernel_dense){.rows = rows, .in = in, .cols = cols, .x_row = X_ROW, .y_row = Y_ROW};
}

/* Check all elements of y; those beyond `cols` must have their old values. */
static void assert_product(const struct product *p, bool with_bias)
{
    for (size_t r = 0; r < ROWS_MAX; r++)
        for (size_t c = 0; c < Y_ROW; c++) {
            float is = p->y[r * Y_ROW + c], old = unit_at(4, r * Y_ROW + c);
            if (r >= p->s.rows || c >= p->s.cols) {
                assert_true(is == old);
                continue;
            }
            double sum = (double)(with_bias ? p->bias[c] : old);
            for (size_t i = 0; i < p->s.in; i++)
                sum += (double)p->x[r * X_ROW + i] * (double)p->w[i * KERNEL_PANEL + c];
            assert_true(fabs((double)is - sum) < 1e-5);
        }
}

static void each_level_computes_the_product(void **state)
{
    (void)state;
    static const size_t cols[] = {1, 3, 4, 7, 8, 9, 15, 16, 17, 20, 31, 32};
    static struct product p;
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = kernels_use((enum kernels_level)level);
        for (size_t rows = 1; k && rows <= ROWS_MAX; rows++)
            for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
                product_init(&p, rows, IN_MAX, cols[i]);
                k->dense(p.y, p.x, p.w, i % 2 ? p.bias : NULL, &p.s);
                assert_product(&p, i % 2);
            }
    }
}

static void a_row_has_the_same_bits_with_other_rows_beside_it(void **state)
{
    (void)state;
    static struct product all, one;
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = kernels_use((enum kernels_level)level);
        if (!k)
            continue;
        product_init(&all, ROWS_MAX, IN_MAX, KERNEL_PANEL);
        k->dense(all.y, all.x, all.w, all.bias, &all.s);
        for (size_t r = 0; r < ROWS_MAX; r++) {
            product_init(&one, 1, IN_MAX, KERNEL_PANEL);
            k->dense(one.y, one.x + r * X_ROW, one.w, one.bias, &one.s);
            assert_memory_equal(one.y, all.y + r * Y_ROW, KERNEL_PANEL * sizeof *one.y);
        }
    }
}

static void inputs_in_two_parts_add_up(void **state)
{
    (void)state;
    enum { FIRST = 17 };
    static struct product p;
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = kernels_use((enum kernels_level)level);
        if (!k)
            continue;
        product_init(&p, ROWS_MAX, FIRST, 20);
        k->dense(p.y, p.x, p.w, p.bias, &p.s);
        p.s.in = IN_MAX - FIRST;
        k->dense(p.y, p.x + FIRST, p.w + FIRST * KERNEL_PANEL, NULL, &p.s);
        p.s.in = IN_MAX;
        assert_product(&p, true);
    }
}

static void a_single_column_is_the_sum_of_its_products(void **state)
{
    (void)state;
    enum { IN = 150, ROWS = 3 };
    static float x[ROWS * IN], w[IN], y[2 * ROWS];
    for (size_t i = 0; i < ROWS * IN; i++)
        x[i] = unit_at(1, i);
    for (size_t i = 0; i < IN; i++)
        w[i] = unit_at(2, i);
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = kernels_use((enum kernels_level)level);
        for (size_t in = 1; k && in <= IN; in++) {
            const struct kernel_dense s = {
                .rows = ROWS, .in = in, .cols = 1, .x_row = IN, .y_row = 2};
            for (size_t i = 0; i < 2 * ROWS; i++)
                y[i] = unit_at(4, i);
            k->dense_one(y, x, w, 0.25f, &s);
            for (size_t r = 0; r < ROWS; r++) {
                double sum = 0.25;
                for (size_t i = 0; i < in; i++)
                    sum += (double)x[r * IN + i] * (double)w[i];
                assert_true(fabs((double)y[2 * r] - sum) < 1e-5);
                assert_true(y[2 * r + 1] == unit_at(4, 2 * r + 1));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_level_computes_the_product),
        cmocka_unit_test(a_row_has_the_same_bits_with_other_rows_beside_it),
        cmocka_unit_test(inputs_in_two_parts_add_up),
        cmocka_unit_test(a_single_column_is_the_sum_of_its_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
