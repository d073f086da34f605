/* Lazy updates of rows compared with plain ones: each row of the oracle is a block of its own, with a count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "ps/rows/row_update.h"

enum { ROWS = 60, STEPS = 12, DIM_MAX = 37, SLOTS_MAX = 4, SEED = 3 };

#define ADAM .learning_rate = 0.25f, .beta_1 = 0.9f, .beta_2 = 0.75f, .epsilon = 1e-7f

static const struct optimizer OPTIMIZERS[] = {
    {.kind = OPT_SGD, .learning_rate = 0.25f, .weight_decay = 0.5f},
    {.kind = OPT_SGD, .learning_rate = 0.25f, .momentum = 0.9f},
    {.kind = OPT_SGD, .learning_rate = 0.25f, .momentum = 0.9f, .nesterov = true},
    {.kind = OPT_ADAM, ADAM},
    {.kind = OPT_ADAM, ADAM, .amsgrad = true},
    {.kind = OPT_ADAMW, ADAM, .weight_decay = 0.125f},
    {.kind = OPT_ADAGRAD, .learning_rate = 0.25f, .initial_accumulator_value = 0.1f},
    {.kind = OPT_RMSPROP, .learning_rate = 0.25f, .rho = 0.9f, .epsilon = 1e-3f},
    {.kind = OPT_RMSPROP,
     .learning_rate = 0.25f,
     .rho = 0.9f,
     .epsilon = 1e-3f,
     .momentum = 0.5f,
     .centered = true},
    {.kind = OPT_FTRL,
     .learning_rate = 0.25f,
     .learning_rate_power = -0.5f,
     .initial_accumulator_value = 0.1f,
     .l1 = 0.01f,
     .l2 = 0.01f,
     .beta = 1.0f},
};
enum { OPTIMIZERS_N = sizeof OPTIMIZERS / sizeof *OPTIMIZERS };

static const uint32_t DIMS[] = {1, 4, 16, 37};

/* The rate is 1/4 up to update 6 and 1/16 from then on: exact in float, as the oracle wants. */
static struct optimizer scheduled(struct optimizer o)
{
    o.schedule.kind = SCHEDULE_PIECEWISE_CONSTANT_DECAY;
    o.schedule.boundaries = (struct schedule_integers){1, {6}};
    o.schedule.values = (struct schedule_reals){2, {0.25f, 0.0625f}};
    return o;
}

static float unit(uint64_t stream, uint64_t i)
{
    return rng_unit(rng_key(SEED, RNG_TEST, stream, 0), i) - 0.5f;
}

/* ---- a table, and plain rows to compare it with ---- */

struct plain {
    uint32_t count;
    uint64_t stamp;
    float w[DIM_MAX], slots[SLOTS_MAX * DIM_MAX];
};

struct both {
    struct optimizer o;
    uint32_t dim, row[ROWS];
    struct row_table *table;
    struct plain plain[ROWS];
};

static void both_init(struct both *b, const struct optimizer *o, uint32_t dim)
{
    *b = (struct both){.o = *o, .dim = dim};
    assert_int_equal(row_table_new(&b->table, dim, row_update_slot_floats(o, dim),
                                   (struct bucket_range){0, ROW_BUCKETS}),
                     ERR_OK);
    for (uint32_t r = 0; r < ROWS; r++) {
        assert_int_equal(row_table_add(b->table, key_mix(r), &b->row[r]), ERR_OK);
        row_update_begin(b->table, o, b->row[r]);
        for (uint32_t i = 0; i < dim; i++)
            b->plain[r].w[i] = row_weights(b->table, b->row[r])[i] = unit(r, i);
        for (uint32_t i = 0; i < row_update_slot_floats(o, dim); i++)
            b->plain[r].slots[i] = optimizer_slot_initial(o, i / dim);
    }
}

static void both_close(struct both *b)
{
    row_table_free(b->table);
}

static bool is_touched(uint32_t row, uint64_t t)
{
    return rng_u64(rng_key(SEED, RNG_TEST, t, 1), row) % 3 != 0;
}

/* One step over the rows that are touched; room for a row that is not there among them. */
static size_t touch(struct both *b, uint64_t t, float inv_n, float *g)
{
    uint32_t row[ROWS];
    size_t n = 0;
    for (uint32_t r = 0; r < ROWS; r++)
        if (is_touched(r, t) || r == 7) {
            for (uint32_t i = 0; i < b->dim; i++)
                g[n * b->dim + i] = unit(1000 + t, (uint64_t)r * b->dim + i);
            row[n++] = r == 7 ? ROW_NONE : b->row[r];
        }
    row_update_apply(b->table, &b->o,
                     &(struct row_update){.t = t, .inv_n = inv_n, .scale = 1, .stamp = t + 9}, row,
                     n, g);
    return n;
}

/* The same bits by the dense update of a block that is the row; where Adam corrects, it gets the row's count. */
static void plain_update(const struct optimizer *o, struct plain *p, uint64_t t, float inv_n,
                         const float *g, uint32_t dim)
{
    struct optimizer own = *o;
    own.schedule = (struct schedule){0};
    own.learning_rate = (float)optimizer_rate(o, t);
    float *slot[OPTIMIZER_SLOTS_MAX] = {p->slots, p->slots + dim, p->slots + 2 * (size_t)dim};
    p->count++;
    p->stamp = t + 9;
    optimizer_apply(&own, p->count, (struct optimizer_factors){inv_n, 1, 1}, p->w, p->w, slot, g,
                    dim);
}

static void check_row(const struct both *b, uint32_t r)
{
    const struct plain *p = &b->plain[r];
    size_t slots = row_update_slot_floats(&b->o, b->dim);
    assert_memory_equal(row_weights(b->table, b->row[r]), p->w, b->dim * sizeof(float));
    assert_memory_equal(row_slots(b->table, b->row[r]), p->slots, slots * sizeof(float));
    assert_int_equal(row_count(b->table, b->row[r]), p->count);
    assert_int_equal(row_stamp(b->table, b->row[r]), p->stamp);
}

static void run(const struct optimizer *o, uint32_t dim)
{
    static struct both b;
    static float g[ROWS * DIM_MAX];
    both_init(&b, o, dim);
    for (uint64_t t = 1; t <= STEPS; t++) {
        size_t n = touch(&b, t, 0.125f, g), at = 0;
        for (uint32_t r = 0; r < ROWS; r++)
            if (is_touched(r, t) || r == 7) {
                if (r != 7)
                    plain_update(o, &b.plain[r], t, 0.125f, g + at * dim, dim);
                at++;
            }
        assert_int_equal(at, n);
        for (uint32_t r = 0; r < ROWS; r++)
            check_row(&b, r);
    }
    both_close(&b);
}

/* ---- the tests ---- */

static void only_touched_rows_move_by_the_steps_rate_and_their_own_count(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTIMIZERS_N; i++)
        for (size_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++) {
            const struct optimizer o = scheduled(OPTIMIZERS[i]);
            run(&o, DIMS[d]);
        }
}

static const struct optimizer ROWWISE = {.kind = OPT_ADAGRAD,
                                         .learning_rate = 0.25f,
                                         .initial_accumulator_value = 0.1f,
                                         .epsilon = 0.5f,
                                         .weight_decay = 0.25f,
                                         .rowwise = true};

static void rowwise_adagrad_has_one_accumulator_the_mean_of_squares(void **state)
{
    (void)state;
    static struct both b;
    static float g[ROWS * DIM_MAX];
    enum { DIM = 5 };
    both_init(&b, &ROWWISE, DIM);
    assert_int_equal(row_update_slot_floats(&ROWWISE, DIM), 1);
    double a = (double)0.1f, w[DIM];
    for (int i = 0; i < DIM; i++)
        w[i] = (double)b.plain[0].w[i];
    for (uint64_t t = 1; t <= STEPS; t++) {
        if (!is_touched(0, t))
            continue;
        (void)touch(&b, t, 0.25f, g); /* the first gradient belongs to row 0 */
        double squares = 0;
        for (int i = 0; i < DIM; i++)
            squares += (double)g[i] / 4 * (double)g[i] / 4;
        a += squares / DIM;
        for (int i = 0; i < DIM; i++)
            w[i] = w[i] * (1 - 0.25 * 0.25) - 0.25 * (double)g[i] / 4 / (sqrt(a) + 0.5);
        for (int i = 0; i < DIM; i++)
            assert_true(fabs(w[i] - (double)row_weights(b.table, b.row[0])[i]) < 1e-6);
        assert_true(fabs(a - (double)row_slots(b.table, b.row[0])[0]) < 1e-6);
    }
    both_close(&b);
}

/* The result of a run, as one sum that depends on every bit. */
static uint64_t bits_of_run(const struct optimizer *o, uint32_t dim)
{
    static struct both b;
    static float g[ROWS * DIM_MAX];
    uint64_t bits = 0;
    both_init(&b, o, dim);
    for (uint64_t t = 1; t <= STEPS; t++)
        (void)touch(&b, t, 0.3f, g);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < dim + row_update_slot_floats(o, dim); i++) {
            const float *at = i < dim ? row_weights(b.table, b.row[r]) + i
                                      : row_slots(b.table, b.row[r]) + i - dim;
            uint32_t of;
            memcpy(&of, at, sizeof of);
            bits = bits * UINT64_C(0x9E3779B97F4A7C15) + of;
        }
    }
    both_close(&b);
    return bits;
}

static void rows_have_the_same_bits_at_every_level(void **state)
{
    (void)state;
    for (size_t i = 0; i <= OPTIMIZERS_N; i++)
        for (size_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++) {
            const struct optimizer *o = i < OPTIMIZERS_N ? &OPTIMIZERS[i] : &ROWWISE;
            assert_non_null(kernels_use(KERNELS_BASE));
            uint64_t base = bits_of_run(o, DIMS[d]);
            if (kernels_use(KERNELS_AVX2))
                assert_true(bits_of_run(o, DIMS[d]) == base);
            if (kernels_use(KERNELS_AVX512))
                assert_true(bits_of_run(o, DIMS[d]) == base);
        }
}

static void ftrl_stands_still_where_a_schedule_has_come_down_to_0(void **state)
{
    (void)state;
    static struct both b;
    static float g[ROWS * DIM_MAX];
    struct optimizer o = scheduled(OPTIMIZERS[OPTIMIZERS_N - 1]);
    o.schedule.values.value[1] = 0.0f;
    both_init(&b, &o, 4);
    (void)touch(&b, 9, 1.0f, g);
    for (uint32_t r = 0; r < ROWS; r++)
        assert_memory_equal(row_weights(b.table, b.row[r]), b.plain[r].w, 4 * sizeof(float));
    both_close(&b);
}

static void a_count_ends_at_its_largest(void **state)
{
    (void)state;
    struct both b;
    const float g[1] = {1.0f};
    both_init(&b, &OPTIMIZERS[3], 1);
    row_set_count(b.table, b.row[0], UINT32_MAX);
    row_update_apply(b.table, &b.o,
                     &(struct row_update){.t = 1, .inv_n = 1, .scale = 1, .stamp = 1}, b.row, 1, g);
    assert_int_equal(row_count(b.table, b.row[0]), UINT32_MAX);
    both_close(&b);
}

static void clipping_scales_the_mean_gradient(void **state)
{
    (void)state;
    struct both b;
    const float g[1] = {2.0f};
    const struct optimizer sgd = {.kind = OPT_SGD, .learning_rate = 1.0f};
    both_init(&b, &sgd, 1);
    row_update_apply(b.table, &sgd, &(struct row_update){.t = 1, .inv_n = 0.5f, .scale = 0.25f},
                     b.row, 1, g);
    assert_true(row_weights(b.table, b.row[0])[0] == b.plain[0].w[0] - 0.25f);
    both_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_touched_rows_move_by_the_steps_rate_and_their_own_count),
        cmocka_unit_test(rowwise_adagrad_has_one_accumulator_the_mean_of_squares),
        cmocka_unit_test(rows_have_the_same_bits_at_every_level),
        cmocka_unit_test(ftrl_stands_still_where_a_schedule_has_come_down_to_0),
        cmocka_unit_test(a_count_ends_at_its_largest),
        cmocka_unit_test(clipping_scales_the_mean_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
