/* The memory that a shard's rows may take: the bound holds while they grow, and what goes for it is the oldest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/rows/row_tables.h"

enum { STEP_KEYS = 400, DIM = 4 };

static const struct row_layout plain = {
    .lists = 1, .tables = 1, .table = {{.name = "ids", .dim = DIM, .init = INIT_ZEROS}}};
static const struct row_layout aging = {
    .lists = 1,
    .tables = 2,
    .table = {{.name = "ids", .dim = DIM, .init = INIT_ZEROS},
              {.name = "old", .dim = 1, .init = INIT_ZEROS, .unseen_steps = 30}}};
static const struct optimizer sgd = {.kind = OPT_SGD, .learning_rate = 1};
static const struct bucket_range all = {0, ROW_BUCKETS};
static const uint64_t BOUND = 1 << 20;
static struct buffer_pool pool;

struct rows {
    struct row_tables tables;
    uint64_t clock;
    struct row_counts before; /* of the first table, before the last part */
};

static struct rows *rows_new(const struct row_layout *l, enum row_full full)
{
    struct rows *r = calloc(1, sizeof *r);
    assert_int_equal(row_tables_init(&r->tables, l, all, &sgd, 1, &pool), ERR_OK);
    row_budget_set(&r->tables, BOUND, full);
    return r;
}

static void rows_free(struct rows *r)
{
    row_tables_close(&r->tables);
    free(r);
    buffer_pool_close(&pool);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* With several tables the memory of removed rows may come on top for a while. */
static uint64_t bounded_bytes(const struct row_tables *t)
{
    return t->layout->tables == 1 ? row_tables_bytes(t)
                                  : row_budget_fixed_bytes(t) + row_budget_bytes(t);
}

/* A step touches these keys, part by part from `part` on. */
static enum err touch(struct rows *r, uint64_t *mixed, uint32_t keys, uint32_t part)
{
    static float ones[4 * STEP_KEYS * DIM];
    const struct row_step u = {.t = r->clock + 1, .inv_n = 1, .scale = 1, .clock = r->clock + 1};
    enum err err = ERR_OK;
    assert_true(keys <= 4 * STEP_KEYS);
    qsort(mixed, keys, sizeof *mixed, ascending);
    row_tables_sweep(&r->tables, r->clock);
    for (uint32_t i = 0; i < ROW_PARTS && !err; i++) {
        struct bucket_range of = bucket_part(all, (part + i) % ROW_PARTS);
        size_t begin = key_below(mixed, keys, of.first), end = key_below(mixed, keys, of.end);
        const struct row_grads g = {
            .keys = {(uint32_t)(end - begin)}, .mixed = {mixed + begin}, .g = {ones, ones}};
        r->before = row_tables_counts(&r->tables, 0);
        err = row_tables_update(&r->tables, (part + i) % ROW_PARTS, &g, &u);
    }
    assert_true(bounded_bytes(&r->tables) <= BOUND);
    if (!err)
        row_tables_advance(&r->tables, ++r->clock);
    return err;
}

/* A step touches keys first, first + 1, .. */
static enum err step(struct rows *r, uint64_t first, uint32_t keys)
{
    static uint64_t mixed[4 * STEP_KEYS];
    for (uint32_t i = 0; i < keys; i++)
        mixed[i] = key_mix(first + i);
    return touch(r, mixed, keys, 0);
}

/* Is the row of this mixed key there, as of now? */
static bool has_mixed(struct rows *r, uint64_t mixed)
{
    uint32_t row;
    return row_table_find(r->tables.table[0], &mixed, 1, &row) &&
           row_is_above(r->tables.budget.floor, row_stamp(r->tables.table[0], row));
}

static bool has(struct rows *r, uint64_t key)
{
    return has_mixed(r, key_mix(key));
}

static uint64_t fits(const struct rows *r)
{
    return (BOUND - row_budget_fixed_bytes(&r->tables)) / row_table_row_bytes(r->tables.table[0]);
}

static void rows_are_refused_where_there_is_no_room(void **state)
{
    (void)state;
    struct rows *r = rows_new(&plain, ROW_FULL_REFUSE);
    uint64_t steps = 0;
    for (; !r->tables.budget.closed; steps++)
        assert_int_equal(step(r, steps * STEP_KEYS, STEP_KEYS), ERR_OK);
    struct row_counts before = row_tables_counts(&r->tables, 0);
    assert_int_equal(before.refused, 0);
    assert_in_range(before.rows, fits(r) * ROW_BUDGET_PERCENT / 100, fits(r));
    assert_int_equal(step(r, steps * STEP_KEYS - 10, 30), ERR_OK); /* 10 of them are there */
    struct row_counts is = row_tables_counts(&r->tables, 0);
    assert_true(is.rows == before.rows && is.admitted == before.admitted && is.refused == 20);
    assert_false(has(r, steps * STEP_KEYS));
    rows_free(r);
}

/* More than the last 5 %: the step's rows are made as far as there is room, also while the index grows. */
static void a_step_that_makes_too_many_rows_is_held_to_the_bound(void **state)
{
    (void)state;
    for (uint32_t keys = STEP_KEYS; keys <= 4 * STEP_KEYS; keys += STEP_KEYS / 8) {
        struct rows *r = rows_new(&plain, ROW_FULL_REFUSE);
        uint64_t steps = 2 * fits(r) / keys;
        for (uint64_t i = 0; i < steps; i++) {
            r->tables.budget.closed = false; /* as if each step began below 95 % */
            assert_int_equal(step(r, i * keys, keys), ERR_OK);
        }
        struct row_counts is = row_tables_counts(&r->tables, 0);
        assert_true(is.refused > 0 && is.admitted == is.rows);
        assert_true(is.rows >= fits(r) * 9 / 10);
        assert_int_equal(is.rows + is.refused, steps * keys);
        rows_free(r);
    }
}

static void the_oldest_rows_go_and_their_memory_is_the_next_ones(void **state)
{
    (void)state;
    struct rows *r = rows_new(&plain, ROW_FULL_EVICT);
    uint64_t most = fits(r), steps = 10 * most / STEP_KEYS, floor = 0;
    for (uint64_t i = 0; i < steps; i++) {
        assert_int_equal(step(r, i * STEP_KEYS, STEP_KEYS), ERR_OK);
        assert_true(r->tables.budget.floor >= floor);
        floor = r->tables.budget.floor;
        for (uint64_t s = i > 60 ? i - 60 : 0; s <= i;
             s++) /* the rows of step s have stamp s + 1 */
            assert_int_equal(has(r, s * STEP_KEYS), s + 1 > floor);
    }
    struct row_counts is = row_tables_counts(&r->tables, 0);
    assert_int_equal(is.refused, 0);
    assert_int_equal(is.admitted, steps * STEP_KEYS);
    assert_int_equal(is.rows, (steps - floor) * STEP_KEYS);
    assert_int_equal(is.evicted, floor * STEP_KEYS);
    assert_int_equal(r->tables.budget.squeezed, is.evicted);
    assert_in_range(is.rows, most * 85 / 100, most * ROW_BUDGET_PERCENT / 100);
    rows_free(r);
}

/* A floor frees 5 %, and no more than it has to. */
static void a_floor_is_the_least_that_frees_enough(void **state)
{
    (void)state;
    struct rows *r = rows_new(&plain, ROW_FULL_EVICT);
    uint64_t most = fits(r), of_step = most / 200, before = 0;
    r->clock = 100000; /* many clocks without a row: a floor is looked for in bins of some */
    for (uint64_t i = 0; r->tables.budget.floor == 0; i++) {
        r->clock += 13 * i;
        before = row_tables_counts(&r->tables, 0).rows + of_step;
        assert_int_equal(step(r, i * of_step, (uint32_t)of_step), ERR_OK);
    }
    uint64_t gone = before - row_tables_counts(&r->tables, 0).rows;
    uint64_t each = row_table_row_bytes(r->tables.table[0]);
    uint64_t wanted = (BOUND - row_budget_fixed_bytes(&r->tables)) * ROW_BUDGET_FREE_PERCENT / 100;
    assert_true(gone * each >= wanted && (gone - of_step) * each < wanted);
    rows_free(r);
}

/* The rows that the last step touched stay, though they alone are too many. */
static void rows_that_were_just_touched_stay(void **state)
{
    (void)state;
    struct rows *r = rows_new(&plain, ROW_FULL_EVICT);
    for (uint64_t i = 0; row_tables_counts(&r->tables, 0).refused == 0; i++) {
        r->clock = 5; /* all of it in one step */
        assert_int_equal(step(r, i * STEP_KEYS, STEP_KEYS), ERR_OK);
    }
    assert_true(has(r, 0));
    assert_int_equal(row_tables_counts(&r->tables, 0).evicted, 0);
    rows_free(r);
}

static void rows_go_by_age_and_for_want_of_room(void **state)
{
    (void)state;
    enum { KEYS = STEP_KEYS / 2 };
    struct rows *r = rows_new(&aging, ROW_FULL_EVICT);
    for (uint64_t i = 0; i < 400; i++) {
        assert_int_equal(step(r, i * KEYS, KEYS), ERR_OK);
        uint64_t floor = r->tables.budget.floor, aged = r->clock > 30 ? r->clock - 30 : 0;
        uint64_t gone = floor > aged ? floor : aged;
        assert_int_equal(row_tables_counts(&r->tables, 0).rows, (r->clock - floor) * KEYS);
        assert_int_equal(row_tables_counts(&r->tables, 1).rows, (r->clock - gone) * KEYS);
        assert_true(row_budget_bytes(&r->tables) <=
                    (BOUND - row_budget_fixed_bytes(&r->tables)) * ROW_BUDGET_PERCENT / 100);
    }
    assert_true(r->tables.budget.floor > 0);
    rows_free(r);
}

/* The memory of the second table's rows, which are too old, goes back to the system, so the first table can have it. */
static void a_table_takes_the_memory_that_another_does_not_need_any_more(void **state)
{
    (void)state;
    struct rows *r = rows_new(&aging, ROW_FULL_EVICT);
    uint64_t key = 0;
    for (; r->tables.budget.floor == 0; key += STEP_KEYS)
        assert_int_equal(step(r, key, STEP_KEYS), ERR_OK);
    uint64_t before = row_table_bytes(r->tables.table[1]);
    for (int i = 0; i < 400; i++, key += STEP_KEYS / 8)
        assert_int_equal(step(r, key, STEP_KEYS / 8), ERR_OK);
    assert_in_range(row_tables_bytes(&r->tables), 0, BOUND);
    assert_in_range(row_table_bytes(r->tables.table[1]), 0, before / 3);
    rows_free(r);
}

static void a_full_budget_ends_the_job_and_changes_nothing(void **state)
{
    (void)state;
    struct rows *r = rows_new(&aging, ROW_FULL_STOP);
    enum err err = ERR_OK;
    uint64_t i = 0;
    for (; !err; i++)
        err = step(r, i * STEP_KEYS, STEP_KEYS);
    struct row_counts is = row_tables_counts(&r->tables, 0);
    assert_int_equal(err, ERR_TOOBIG);
    assert_memory_equal(&is, &r->before, sizeof is);
    assert_int_equal(is.rows, row_table_rows(r->tables.table[0]));
    assert_int_equal(step(r, 0, STEP_KEYS), ERR_OK); /* rows that are there are updated */
    rows_free(r);
}

/* The cut began before: it has all rows of then, though their memory was needed meanwhile. */
static void a_cut_has_rows_that_went_for_want_of_room_while_it_was_copied(void **state)
{
    (void)state;
    struct rows *r = rows_new(&plain, ROW_FULL_EVICT);
    struct row_cut_rows g;
    uint64_t i = 0, seen = 0;
    for (; r->tables.budget.floor == 0; i++)
        assert_int_equal(step(r, i * STEP_KEYS, STEP_KEYS), ERR_OK);
    uint64_t rows = row_tables_counts(&r->tables, 0).rows, floor = r->tables.budget.floor;
    const struct row_moment now = {r->clock, floor, r->tables.evict};
    assert_int_equal(row_tables_begin_cut(&r->tables, now, UINT64_MAX), ERR_OK);
    for (uint64_t k = 0; k < 100; k++, i++)
        assert_int_equal(step(r, i * STEP_KEYS, STEP_KEYS), ERR_OK);
    assert_true(r->tables.budget.floor > now.clock && r->tables.cut.kept_rows > rows / 2);
    while (!row_cut_is_out(&r->tables.cut)) {
        row_cut_copy(&r->tables.cut, &g);
        for (uint32_t k = 0; k < g.rows; k++, seen++)
            assert_true(g.stamp[k] > floor && g.stamp[k] <= now.clock);
    }
    assert_false(r->tables.cut.failed);
    assert_int_equal(seen, rows);
    rows_free(r);
}

/* Rows get other numbers while the cut is copied, and some are updated or removed. */
static void a_cut_has_all_rows_though_they_move_while_it_is_copied(void **state)
{
    (void)state;
    struct rows *r = rows_new(&aging, ROW_FULL_EVICT);
    const struct row_table *moving = r->tables.table[1];
    struct row_cut_rows g;
    uint64_t key = 0, seen = 0;
    uint32_t calls = 0;
    for (; r->tables.budget.floor == 0; key += STEP_KEYS)
        assert_int_equal(step(r, key, STEP_KEYS), ERR_OK);
    for (int i = 0; i < 1000 && moving->pack.limit == ROW_NONE; i++, key += STEP_KEYS / 8)
        assert_int_equal(step(r, key, STEP_KEYS / 8), ERR_OK);
    assert_int_not_equal(moving->pack.limit, ROW_NONE);
    const struct row_moment now = {r->clock, r->tables.budget.floor, r->tables.evict};
    uint64_t rows = row_tables_rows(&r->tables);
    assert_int_equal(row_tables_begin_cut(&r->tables, now, UINT64_MAX), ERR_OK);
    while (!row_cut_is_out(&r->tables.cut)) {
        if (calls++ % 50 == 0) {
            assert_int_equal(step(r, key - STEP_KEYS / 2, STEP_KEYS), ERR_OK);
            key += STEP_KEYS / 8;
        }
        row_cut_copy(&r->tables.cut, &g);
        seen += g.rows;
        for (uint32_t k = 0; k < g.rows; k++)
            assert_true(g.stamp[k] > now.floor && g.stamp[k] <= now.clock);
    }
    assert_false(r->tables.cut.failed);
    assert_int_equal(seen, rows);
    rows_free(r);
}

/* ---- what the decisions depend on ---- */

/* Step `i` of a job that makes more rows than there is room for: some keys come back, most are new. */
static void crowded_step(struct rows *r, uint64_t i, uint32_t part)
{
    enum { KEYS = 4 * STEP_KEYS, NEW = 1 << 20 };
    static uint64_t mixed[KEYS];
    uint32_t keys = (uint32_t)(i * 577 % KEYS);
    for (uint64_t k = 0; k < keys; k++)
        mixed[k] = key_mix(k % 3 ? NEW + i * KEYS + k : k + i % 50 * KEYS);
    assert_int_equal(touch(r, mixed, keys, part), ERR_OK);
}

/* These rows, written to a checkpoint and read again. */
static struct rows *restored(struct rows *from, const struct row_layout *l)
{
    static struct row_load load;
    struct rows *r = rows_new(l, from->tables.budget.full);
    row_load_begin(&load, &r->tables);
    for (uint32_t t = 0; t < l->tables; t++) {
        struct row_table *of = from->tables.table[t], *to = r->tables.table[t];
        uint64_t first = 0, mixed;
        for (uint32_t row, at; row_table_scan(of, first, UINT64_MAX, &mixed, &row, 1);
             first = mixed + 1) {
            uint64_t stamp = row_stamp(of, row);
            if (!row_is_above(from->tables.budget.floor, stamp) ||
                !row_is_there(l->table[t].unseen_steps, stamp, from->clock))
                continue;
            assert_int_equal(row_load_takes(&load, &r->tables, t, stamp), ERR_OK);
            assert_int_equal(row_table_load(to, mixed, &at), ERR_OK);
            row_set_stamp(to, at, stamp);
        }
        assert_int_equal(row_table_loaded(to), ERR_OK);
        r->tables.counts[t] = from->tables.counts[t];
    }
    r->tables.budget.squeezed = from->tables.budget.squeezed;
    assert_false(load.full);
    r->clock = from->clock;
    row_tables_count(&r->tables, r->clock);
    return r;
}

/* Both have the same counts, and the first table has the same rows. */
static void assert_same(struct rows *a, struct rows *b)
{
    for (uint32_t t = 0; t < a->tables.layout->tables; t++) {
        struct row_counts x = row_tables_counts(&a->tables, t),
                          y = row_tables_counts(&b->tables, t);
        assert_memory_equal(&x, &y, sizeof x);
    }
    assert_int_equal(a->tables.budget.squeezed, b->tables.budget.squeezed);
    uint64_t first = 0, mixed;
    for (uint32_t row; row_table_scan(a->tables.table[0], first, UINT64_MAX, &mixed, &row, 1);
         first = mixed + 1)
        assert_int_equal(has_mixed(a, mixed), has_mixed(b, mixed));
}

/* The job that ran on still has the memory of rows that it removed, and an index for more rows than there are. */
static void a_restored_job_evicts_and_refuses_as_the_one_that_ran_on(void **state)
{
    (void)state;
    static const enum row_full full[] = {ROW_FULL_EVICT, ROW_FULL_REFUSE};
    uint64_t refused = 0;  /* by jobs that evict */
#ifdef __SANITIZE_THREAD__ /* slow, and there is one thread */
    enum { NEXT = 5 };
#else
    enum { NEXT = 1 };
#endif
    for (uint64_t i = 0; i < 2 * 60; i += NEXT) {
        const struct row_layout *l = i % 2 ? &aging : &plain;
        struct rows *r = rows_new(l, full[i / 60]);
        uint64_t steps = 20 + i % 60;
        for (uint64_t k = 0; k < steps; k++)
            crowded_step(r, k, 0);
        struct rows *again = restored(r, l);
        uint64_t before = row_tables_counts(&r->tables, 0).refused;
        for (uint64_t k = steps; k < steps + 15; k++) {
            crowded_step(r, k, 0);
            crowded_step(again, k, 0);
        }
        assert_same(r, again);
        refused += i < 60 ? row_tables_counts(&r->tables, 0).refused - before : 0;
        row_tables_close(&again->tables);
        free(again);
        rows_free(r);
    }
    assert_true(refused > 1000 / NEXT);
}

static void the_order_of_parts_does_not_change_which_rows_are_refused(void **state)
{
    (void)state;
    static const enum row_full full[] = {ROW_FULL_EVICT, ROW_FULL_REFUSE};
    for (int i = 0; i < 2; i++) {
        struct rows *a = rows_new(&aging, full[i]), *b = rows_new(&aging, full[i]);
        for (uint64_t k = 0; k < 80; k++) {
            crowded_step(a, k, 0);
            crowded_step(b, k, 1 + (uint32_t)k % (ROW_PARTS - 1));
        }
        assert_true(row_tables_counts(&a->tables, 0).refused > 0);
        assert_same(a, b);
        row_tables_close(&b->tables);
        free(b);
        rows_free(a);
    }
}

/* ---- a checkpoint's rows ---- */

static uint64_t unit = 1; /* of the stamps of a checkpoint's rows: 100 different ones */

static bool same; /* the newest of them all */

static uint64_t stamp_of(uint64_t k)
{
    return same ? 100 : (1 + k % 100) * unit;
}

/* The keys come in their order. Returns the first error. */
static enum err load_once(struct rows *r, struct row_load *l, uint64_t keys)
{
    struct row_table *t = r->tables.table[0];
    for (uint64_t k = 0; k < keys; k++) {
        uint32_t row;
        enum err err = row_load_takes(l, &r->tables, 0, stamp_of(k));
        if (err == ERR_NOTFOUND)
            continue;
        if (err)
            return err;
        assert_int_equal(row_table_load(t, k << 40, &row), ERR_OK);
        row_set_stamp(t, row, stamp_of(k));
    }
    return ERR_OK;
}

/* As a shard does. */
static enum err load(struct rows **r, uint64_t keys)
{
    static struct row_load l;
    enum row_full full = (*r)->tables.budget.full;
    row_load_begin(&l, &(*r)->tables);
    enum err err = load_once(*r, &l, keys);
    if (!err && l.full) {
        rows_free(*r);
        *r = rows_new(&plain, full);
        row_load_again(&l, &(*r)->tables);
        err = load_once(*r, &l, keys);
    }
    if (err)
        return err;
    assert_int_equal(row_table_loaded((*r)->tables.table[0]), ERR_OK);
    assert_true(row_tables_bytes(&(*r)->tables) <= BOUND);
    row_tables_count(&(*r)->tables, 100 * unit);
    return ERR_OK;
}

/* Is key k of a checkpoint there? */
static bool has_loaded(struct rows *r, uint64_t k)
{
    uint64_t mixed = k << 40;
    uint32_t row;
    return row_table_find(r->tables.table[0], &mixed, 1, &row) == 1;
}

static void of_a_checkpoint_that_is_too_large_the_newest_rows_are_taken(void **state)
{
    (void)state;
    for (unit = 1; unit <= 1000; unit *= 1000) {
        struct rows *r = rows_new(&plain, ROW_FULL_EVICT);
        uint64_t keys = fits(r) * 2, rows = 0;
        assert_int_equal(load(&r, keys), ERR_OK);
        uint64_t floor = r->tables.budget.floor; /* 95 % of the half of 100 stamps stay */
        assert_in_range(floor, 52 * unit, 53 * unit + 31);
        for (uint64_t k = 0; k < keys; k++) {
            assert_int_equal(has_loaded(r, k), stamp_of(k) > floor);
            rows += stamp_of(k) > floor;
        }
        struct row_counts is = row_tables_counts(&r->tables, 0);
        assert_true(is.rows == rows && is.evicted == keys - rows);
        assert_int_equal(r->tables.budget.squeezed, is.evicted);
        r->clock = 100 * unit;
        for (uint64_t i = 0; i < 30; i++) /* and it goes on */
            assert_int_equal(step(r, i * STEP_KEYS, STEP_KEYS), ERR_OK);
        assert_int_equal(row_tables_counts(&r->tables, 0).refused, 0);
        rows_free(r);
    }
    unit = 1;
}

static void of_rows_with_one_stamp_some_are_taken(void **state)
{
    (void)state;
    struct rows *r = rows_new(&plain, ROW_FULL_EVICT);
    uint64_t most = fits(r);
    same = true;
    assert_int_equal(load(&r, 2 * most), ERR_OK);
    same = false;
    struct row_counts is = row_tables_counts(&r->tables, 0);
    assert_in_range(is.rows, most * 95 / 100, most * 115 / 100);
    assert_int_equal(is.rows + is.evicted, 2 * most);
    rows_free(r);
}

static void a_checkpoint_that_is_too_large_is_refused_where_no_row_may_go(void **state)
{
    (void)state;
    static const enum row_full full[] = {ROW_FULL_STOP, ROW_FULL_REFUSE};
    for (int i = 0; i < 2; i++) {
        struct rows *r = rows_new(&plain, full[i]);
        assert_int_equal(load(&r, fits(r) * 2), ERR_TOOBIG);
        rows_free(r);
        r = rows_new(&plain, full[i]);
        assert_int_equal(load(&r, fits(r) * 9 / 10), ERR_OK);
        assert_int_equal(row_tables_counts(&r->tables, 0).rows, fits(r) * 9 / 10);
        rows_free(r);
    }
}

static void without_a_bound_rows_take_what_they_take(void **state)
{
    (void)state;
    static struct row_load l;
    struct rows *r = rows_new(&plain, ROW_FULL_EVICT);
    const struct row_budget *b = &r->tables.budget;
    row_budget_set(&r->tables, 0, ROW_FULL_EVICT);
    row_load_begin(&l, &r->tables);
    assert_int_equal(row_load_takes(&l, &r->tables, 0, 1), ERR_OK);
    row_budget_step(&r->tables, 1000);
    assert_true(row_budget_takes(&r->tables, 0, 0) && !b->closed && b->floor == 0 && !l.full);
    rows_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_refused_where_there_is_no_room),
        cmocka_unit_test(a_step_that_makes_too_many_rows_is_held_to_the_bound),
        cmocka_unit_test(the_oldest_rows_go_and_their_memory_is_the_next_ones),
        cmocka_unit_test(a_floor_is_the_least_that_frees_enough),
        cmocka_unit_test(rows_that_were_just_touched_stay),
        cmocka_unit_test(rows_go_by_age_and_for_want_of_room),
        cmocka_unit_test(a_table_takes_the_memory_that_another_does_not_need_any_more),
        cmocka_unit_test(a_full_budget_ends_the_job_and_changes_nothing),
        cmocka_unit_test(a_cut_has_rows_that_went_for_want_of_room_while_it_was_copied),
        cmocka_unit_test(a_cut_has_all_rows_though_they_move_while_it_is_copied),
        cmocka_unit_test(a_restored_job_evicts_and_refuses_as_the_one_that_ran_on),
        cmocka_unit_test(the_order_of_parts_does_not_change_which_rows_are_refused),
        cmocka_unit_test(of_a_checkpoint_that_is_too_large_the_newest_rows_are_taken),
        cmocka_unit_test(of_rows_with_one_stamp_some_are_taken),
        cmocka_unit_test(a_checkpoint_that_is_too_large_is_refused_where_no_row_may_go),
        cmocka_unit_test(without_a_bound_rows_take_what_they_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
