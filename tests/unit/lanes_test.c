#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "common/base/rng.h"
#include "data/core/order.h"

enum { ROWS = 3000, LANES = 16, CASES = 4000, SEED = 7 };

struct shape {
    uint64_t rows, batch_size;
    uint32_t microbatches, window, mix;
};

/* ---- the contract once more, as lists: semantics.md, "The order of a stream" ---- */

struct lane_list {
    uint64_t row[ROWS + 1];   /* in the order of the data */
    uint64_t mixed[ROWS + 1]; /* as they are read */
    uint64_t rows, begin[ROWS + 1], windows;
};

static void add_window(struct lane_list *l, uint64_t *next, uint64_t rows)
{
    if (!rows)
        return;
    l->begin[l->windows++] = l->rows;
    for (uint64_t i = 0; i < rows; i++)
        l->row[l->rows++] = (*next)++;
    l->begin[l->windows] = l->rows;
}

static uint64_t window_of(const struct shape *s)
{
    uint64_t w = s->rows / (4 * (uint64_t)s->microbatches);
    w = w < s->window ? w : s->window;
    w = w > 4096 ? w / 4096 * 4096 : w;
    return w ? w : 1;
}

/* Every lane's windows, by dealing rows. */
static void deal(struct lane_list *lanes, const struct shape *s)
{
    const uint64_t w = window_of(s), m = s->microbatches;
    uint64_t next = 0;
    for (uint64_t j = 0; j < m; j++)
        lanes[j].rows = lanes[j].windows = 0;
    while (s->rows - next >= m * w)
        for (uint64_t j = 0; j < m; j++)
            add_window(&lanes[j], &next, w);
    const uint64_t rest = s->rows - next;
    for (uint64_t j = 0; j < m; j++)
        add_window(&lanes[j], &next, rest / m + (j < rest % m));
    assert_int_equal(next, s->rows);
}

static void mix(struct lane_list *l, const struct shape *s, uint32_t lane, uint64_t epoch)
{
    for (uint64_t w = 0, group = 0; w < l->windows; w += s->mix, group++) {
        const uint64_t end = w + s->mix < l->windows ? w + s->mix : l->windows;
        const uint64_t first = l->begin[w], rows = l->begin[end] - first;
        const uint64_t key = rng_key(SEED, RNG_SHUFFLE, epoch, group * s->microbatches + lane);
        for (uint64_t i = 0; i < rows; i++)
            l->mixed[first + i] = l->row[first + rng_permute(key, i, rows)];
    }
}

static struct shape random_shape(uint64_t run)
{
    const uint32_t most[] = {1, 5, 40, 300, ROWS};
    struct shape s = {.microbatches = 1U << rng_u64(run, 0) % 5,
                      .mix = 1 + (uint32_t)(rng_u64(run, 1) % 4)};
    s.rows = 1 + rng_u64(run, 2) % most[rng_u64(run, 3) % 5];
    s.window = 1 + (uint32_t)(rng_u64(run, 4) % most[rng_u64(run, 5) % 5]);
    s.batch_size = s.microbatches * (1 + rng_u64(run, 6) % 40);
    return s;
}

static struct lanes lanes_for(const struct shape *s)
{
    struct lanes l;
    lanes_init(&l, s->rows, s->batch_size, s->microbatches, s->window, s->mix, SEED);
    return l;
}

static struct lane_list lists[LANES];

/* True if a row of the list's places [first, end) is in another window than those of the span, or a window of the span is in a
 * group without such a row. */
static bool needs_others(const struct lane_list *l, uint32_t mix_windows, uint64_t first,
                         uint64_t end, struct lanes_span span)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (uint64_t w = 0; w < l->windows; w++)
        if (l->begin[w] < end && l->begin[w + 1] > first) {
            const uint64_t group_end = w / mix_windows * mix_windows + mix_windows;
            low = low == UINT64_MAX ? w / mix_windows * mix_windows : low;
            high = group_end < l->windows ? group_end : l->windows;
        }
    return first == end ? span.first != span.end : span.first != low || span.end != high;
}

static void lanes_leaves_are_those_of_lists_of_windows(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < CASES; run++) {
        const struct shape s = random_shape(run);
        const struct lanes l = lanes_for(&s);
        const struct order o = {.rows = s.rows,
                                .batch_size = s.batch_size,
                                .microbatches = s.microbatches,
                                .seed = SEED};
        const uint64_t each = s.batch_size / s.microbatches, batches = lanes_batches(&l);
        const uint64_t epoch = run % 3;
        uint64_t got[64];
        assert_int_equal(batches, order_batches(&o));
        deal(lists, &s);
        for (uint32_t j = 0; j < s.microbatches; j++) {
            mix(&lists[j], &s, j, epoch);
            assert_int_equal(lanes_length(&l, j), lists[j].rows);
            for (uint64_t w = 0; w < lists[j].windows; w++) {
                const struct lanes_span rows = lanes_window_rows(&l, j, w);
                assert_int_equal(rows.first, lists[j].row[lists[j].begin[w]]);
                assert_int_equal(rows.end - rows.first, lists[j].begin[w + 1] - lists[j].begin[w]);
            }
        }
        for (uint64_t b = 0; b < batches; b++) {
            uint64_t of_batch = 0;
            for (uint32_t j = 0; j < s.microbatches; j++) {
                const uint64_t id = epoch * batches + b, rows = lists[j].rows;
                const uint64_t first = b * each < rows ? b * each : rows;
                const uint64_t end = first + each < rows ? first + each : rows;
                const uint32_t n = lanes_leaf(&l, id, j, got);
                assert_int_equal(n, end - first);
                assert_memory_equal(got, lists[j].mixed + first, n * sizeof *got);
                assert_false(needs_others(&lists[j], s.mix, first, end, lanes_windows(&l, id, j)));
                of_batch += n;
            }
            assert_int_equal(of_batch, order_batch_rows(&o, b));
        }
    }
}

static void lanes_deal_every_row_once_in_an_epoch(void **state)
{
    (void)state;
    for (uint64_t run = CASES; run < 2 * CASES; run++) {
        const struct shape s = random_shape(run);
        const struct lanes l = lanes_for(&s);
        uint8_t seen[ROWS] = {0};
        uint64_t rows[64], all = 0;
        for (uint64_t id = 5 * lanes_batches(&l); id < 6 * lanes_batches(&l); id++)
            for (uint32_t j = 0; j < s.microbatches; j++)
                for (uint32_t n = lanes_leaf(&l, id, j, rows); n--; all++)
                    assert_int_equal(seen[rows[n]]++, 0);
        assert_int_equal(all, s.rows);
    }
}

/* Where batches are leased: one lane, windows of whole batches, and each window is permuted by itself. */
static void leased_batches_are_pieces_of_windows(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < CASES; run++) {
        const struct shape s = random_shape(run);
        const struct order o = {.rows = s.rows,
                                .batch_size = s.batch_size,
                                .microbatches = s.microbatches,
                                .seed = SEED};
        struct lanes l;
        lanes_init_leased(&l, s.rows, s.batch_size, s.microbatches, s.window, s.mix, SEED);
        const uint64_t each = lanes_window_batches(&l), batches = order_batches(&o);
        const uint64_t most = (uint64_t)s.window * s.mix / s.batch_size;
        const uint64_t eighth = s.rows / 8 / s.batch_size, wanted = most < eighth ? most : eighth;
        assert_int_equal(each, wanted > 64 ? 64 : wanted ? wanted : 1);
        assert_int_equal(lanes_batches(&l), batches);
        uint64_t rows[64];
        uint8_t seen[ROWS] = {0};
        for (uint64_t b = 0; b < batches; b++) {
            const uint64_t first = b / each * each * s.batch_size, epoch = run % 3;
            const uint64_t left = s.rows - first, of = each * s.batch_size;
            const uint64_t key = rng_key(SEED, RNG_SHUFFLE, epoch, b / each);
            uint64_t at = b * s.batch_size - first, n = 0;
            for (uint32_t j = 0; j < s.microbatches; j++) {
                const uint32_t is = lanes_leaf(&l, epoch * batches + b, j, rows);
                n += is;
                assert_int_equal(n, order_batch_rows(&o, b) * (j + 1) / s.microbatches);
                for (uint32_t i = 0; i < is; i++, at++) {
                    assert_int_equal(rows[i], first + rng_permute(key, at, left < of ? left : of));
                    assert_int_equal(seen[rows[i]]++, 0);
                }
                const struct lanes_span w = lanes_windows(&l, epoch * batches + b, j);
                assert_int_equal(w.end - w.first, is > 0);
                assert_true(!is || w.first == b / each);
            }
        }
        for (uint64_t row = 0; row < s.rows; row++)
            assert_int_equal(seen[row], 1);
    }
}

/* A window is at most a quarter of a lane. */
static void lanes_windows_are_multiples_of_4096_rows_where_they_are_larger(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows;
        uint32_t microbatches, window;
        uint64_t wanted;
    } cases[] = {{1 << 30, 8, 32768, 32768},
                 {1 << 30, 8, 32767, 28672},
                 {1 << 30, 1, 4097, 4096},
                 {1 << 30, 1, 4095, 4095},
                 {1 << 20, 8, 32768, 32768},
                 {1000000, 8, 32768, 28672},
                 {100000, 8, 32768, 3125},
                 {31, 8, 32768, 1},
                 {32, 8, 32768, 1},
                 {64, 8, 32768, 2},
                 {1, 8, 32768, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lanes l;
        lanes_init(&l, cases[i].rows, 8, cases[i].microbatches, cases[i].window, 2, 0);
        assert_int_equal(l.window, cases[i].wanted);
    }
}

/* No number of a lane is too large for 2^60 rows. */
static void lanes_of_very_many_rows_end_with_the_last_row(void **state)
{
    (void)state;
    struct lanes l;
    uint64_t rows[4], last = 0;
    const uint64_t all = (UINT64_C(1) << 60) + 12345;
    lanes_init(&l, all, 32, 8, 32768, 2, SEED);
    const struct lanes_span end = lanes_window_rows(&l, 7, l.turns);
    assert_int_equal(end.end, all);
    for (uint64_t id = 2 * lanes_batches(&l) - 2; id < 2 * lanes_batches(&l); id++) {
        uint32_t n = lanes_leaf(&l, id, 7, rows);
        for (uint32_t i = 0; i < n; i++)
            last = rows[i] > last ? rows[i] : last;
    }
    assert_in_range(last, end.first - 32768 * 8, all - 1);
}

static unsigned same_places(const struct lanes *a, uint64_t epoch_a, const struct lanes *b,
                            uint64_t epoch_b)
{
    unsigned same = 0;
    for (uint64_t i = 0; i < lanes_batches(a); i++)
        for (uint32_t j = 0; j < a->lanes; j++) {
            uint64_t x[64], y[64];
            const uint32_t n = lanes_leaf(a, epoch_a * lanes_batches(a) + i, j, x);
            assert_int_equal(n, lanes_leaf(b, epoch_b * lanes_batches(b) + i, j, y));
            for (uint32_t k = 0; k < n; k++)
                same += x[k] == y[k];
        }
    return same;
}

static void lanes_order_is_another_one_in_each_epoch_and_for_each_seed(void **state)
{
    (void)state;
    const struct shape s = {
        .rows = ROWS, .batch_size = 64, .microbatches = 4, .window = 100, .mix = 2};
    const struct lanes l = lanes_for(&s);
    struct lanes other = l;
    other.seed++;
    assert_int_equal(same_places(&l, 5, &l, 5), ROWS);
    assert_in_range(same_places(&l, 0, &l, 1), 0, 40); /* 15 on average: one of each group */
    assert_in_range(same_places(&l, 0, &other, 0), 0, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_leaves_are_those_of_lists_of_windows),
        cmocka_unit_test(lanes_deal_every_row_once_in_an_epoch),
        cmocka_unit_test(leased_batches_are_pieces_of_windows),
        cmocka_unit_test(lanes_windows_are_multiples_of_4096_rows_where_they_are_larger),
        cmocka_unit_test(lanes_of_very_many_rows_end_with_the_last_row),
        cmocka_unit_test(lanes_order_is_another_one_in_each_epoch_and_for_each_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
