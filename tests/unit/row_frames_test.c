/* Bodies of the messages about rows: what is put in comes out, and what cannot be is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/driver/row_frames.h"

#define BUCKET(b) ((uint64_t)(b) << 52)

/* Two tables of one list, one of another. */
static const struct row_layout layout = {
    .lists = 2,
    .tables = 3,
    .table = {{.name = "a", .dim = 2, .init = INIT_ONES},
              {.name = "b", .dim = 1, .init = INIT_RANDOM_UNIFORM, .init_value = 1},
              {.name = "c", .dim = 3, .list = 1, .init = INIT_ZEROS}}};
static const uint64_t first_keys[] = {1, BUCKET(100), BUCKET(2048), BUCKET(2048) + 9, BUCKET(4095)};
static const uint64_t second_keys[] = {BUCKET(2047) + 3, BUCKET(2050)};
static const struct bucket_range upper = {2048, 4096};

static const enum row_codec plain[ROW_TABLES_MAX];
static const struct row_way keyed = {NULL, plain, 0};

static void open_values(struct row_values *v)
{
    struct errmsg e;
    row_values_init(v, &layout);
    assert_int_equal(row_values_reserve(v, 0, 5, &e), ERR_OK);
    assert_int_equal(row_values_reserve(v, 1, 2, &e), ERR_OK);
    memcpy(v->list[0].mixed, first_keys, sizeof first_keys);
    memcpy(v->list[1].mixed, second_keys, sizeof second_keys);
}

static void an_ask_has_the_keys_of_the_shard_alone(void **state)
{
    (void)state;
    struct row_values v;
    uint32_t keys[2];
    uint64_t body[8];
    open_values(&v);
    assert_int_equal(row_frames_ask_bytes(&v, upper, keys), 4 * sizeof(uint64_t));
    assert_int_equal(keys[0], 3);
    assert_int_equal(keys[1], 1);
    row_frames_ask(&v, upper, (uint8_t *)body);
    const uint64_t want[] = {BUCKET(2048), BUCKET(2048) + 9, BUCKET(4095), BUCKET(2050)};
    assert_memory_equal(body, want, sizeof want);
    row_values_close(&v);
}

static void a_part_of_a_push_has_counts_keys_and_gradients(void **state)
{
    (void)state;
    float a[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, b[] = {11, 12, 13, 14, 15};
    float c[] = {21, 22, 23, 24, 25, 26};
    const struct row_sums s = {
        .layout = &layout,
        .list = {{5, 5, (uint64_t *)first_keys}, {2, 2, (uint64_t *)second_keys}},
        .g = {a, b, c}};
    uint8_t body[256];
    const struct {
        uint32_t count[2];
        uint64_t keys[3];
        float a[4], b[2], c[3];
        uint32_t zero;
    } want = {{2, 1},       {BUCKET(2048), BUCKET(2048) + 9, BUCKET(2050)},
              {5, 6, 7, 8}, {13, 14},
              {24, 25, 26}, 0};
    struct bucket_range part = {2048, 2304};
    memset(body, 0xff, sizeof body);
    assert_int_equal(row_frames_part_most(&s, &keyed, part), sizeof want);
    assert_int_equal(row_frames_part(&s, &keyed, part, body), sizeof want);
    assert_memory_equal(body, &want, sizeof want);
    struct bucket_range none = {3000, 3001};
    assert_int_equal(row_frames_part(&s, &keyed, none, body), 8);
    assert_memory_equal(body, "\0\0\0\0\0\0\0\0", 8);
}

/* Bits where some keys of the list that were asked for are there, nothing where all or none are. */
static void a_part_of_a_push_that_names_an_ask_has_bits_for_keys(void **state)
{
    (void)state;
    struct row_values asked;
    float a[] = {1, 2, 3, 4}, b[] = {11, 12}, c[] = {21, 22, 23};
    uint64_t mixed[] = {BUCKET(2048) + 9, BUCKET(4095)}, others[] = {BUCKET(2050)};
    const struct row_sums s = {
        .layout = &layout, .list = {{2, 2, mixed}, {1, 1, others}}, .g = {a, b, c}};
    uint8_t body[256];
    const struct {
        uint32_t count[2];
        uint64_t bits;
        float a[4], b[2], c[3];
        uint32_t zero;
    } want = {{2, 1}, 2 + 4, {1, 2, 3, 4}, {11, 12}, {21, 22, 23}, 0};
    const struct row_way named = {&asked, plain, 0};
    open_values(&asked);
    memset(body, 0xff, sizeof body);
    assert_int_equal(row_frames_part_most(&s, &named, upper), sizeof want);
    assert_int_equal(row_frames_part(&s, &named, upper, body), sizeof want);
    assert_memory_equal(body, &want, sizeof want);
    struct bucket_range last = {3000, 4096}; /* its one key */
    assert_int_equal(row_frames_part(&s, &named, last, body), 8 + 16);
    row_values_close(&asked);
}

static void an_answer_fills_rows_and_what_is_absent_has_its_first_value(void **state)
{
    (void)state;
    struct row_values v;
    open_values(&v);
    /* a: keys 0 and 2 of three are there; b: key 0; c: none of one */
    const struct {
        uint32_t a_bits;
        float a[4];
        uint32_t b_bits;
        float b[1];
        uint32_t c_bits;
    } body = {5, {1.5f, 2.5f, 3.5f, 4.5f}, 1, {9.5f}, 0};
    v.w[0][3] = 77; /* another shard's */
    assert_true(sizeof body <= row_frames_rows_most(&v, plain, upper));
    assert_int_equal(row_frames_rows(&v, plain, upper, 42, (const uint8_t *)&body, sizeof body),
                     ERR_OK);
    const float a[] = {1.5f, 2.5f, 1, 1, 3.5f, 4.5f};
    float first;
    assert_memory_equal(v.w[0] + 4, a, sizeof a);
    assert_true(v.w[0][3] == 77);
    assert_true(v.w[1][2] == 9.5f);
    row_first_value(&layout.table[1], 42, BUCKET(2048) + 9, &first);
    assert_true(v.w[1][3] == first);
    assert_true(v.w[2][3] == 0 && v.w[2][5] == 0);
    const uint8_t absent[] = {1, 1, 0, 1, 0}; /* in a and in b; the first two are another shard's */
    assert_memory_equal(v.absent[0], absent, sizeof absent);
    assert_true(v.absent[1][0] == 1 && v.absent[1][1] == 1);
    row_values_close(&v);
}

static void a_row_that_was_not_admitted_reads_as_the_table_says(void **state)
{
    (void)state;
    struct row_layout admits = layout;
    struct row_values v;
    float first;
    const uint32_t body[5] = {0};
    open_values(&v);
    v.layout = &admits;
    row_first_value(&admits.table[1], 42, BUCKET(2048), &first);
    assert_true(first != 0);
    for (int initial = 0; initial < 2; initial++) {
        admits.table[1].admission =
            (struct row_admission){.min_count = 2, .sketch_mb = 1, .initial = initial};
        v.w[1][2] = 77;
        assert_int_equal(
            row_frames_rows(&v, plain, upper, 42, (const uint8_t *)body, 3 * sizeof *body), ERR_OK);
        assert_true(v.w[1][2] == (initial ? first : 0.0f));
    }
    row_values_close(&v);
}

static void an_answer_of_another_length_is_refused(void **state)
{
    (void)state;
    struct row_values v;
    open_values(&v);
    uint32_t body[32] = {7, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0};
    size_t whole = 15 * sizeof *body;
    assert_int_equal(row_frames_rows(&v, plain, upper, 1, (const uint8_t *)body, whole), ERR_OK);
    struct bucket_range none = {3000, 3001};
    assert_int_equal(row_frames_rows(&v, plain, none, 1, NULL, 0), ERR_OK); /* no keys there */
    for (size_t bytes = 0; bytes < sizeof body; bytes++)
        if (bytes != whole)
            assert_int_equal(row_frames_rows(&v, plain, upper, 1, (const uint8_t *)body, bytes),
                             ERR_PROTO);
    row_values_close(&v);
}

/* Rows of 4,096 floats whose keys are all of one part: what no push may have is known before it is made. */
static void a_part_that_is_too_large_is_known_by_its_keys(void **state)
{
    (void)state;
    enum { KEYS = 65000 };
    static const struct row_layout wide = {
        .lists = 1, .tables = 1, .table = {{.name = "w", .dim = 4096, .list = 0}}};
    static uint64_t mixed[KEYS];
    const uint64_t row = 4096 * sizeof(float) + sizeof *mixed;
    struct row_sums s = {.layout = &wide};
    s.list[0] = (struct row_sums_list){.keys = KEYS, .mixed = mixed};
    for (uint32_t i = 0; i < KEYS; i++)
        mixed[i] = BUCKET(2304) + i; /* the second part of the upper half, from bucket 2176 on */
    assert_int_equal(row_frames_largest_part(&s, upper), KEYS * row + 8);
    assert_true(KEYS * row + 8 < ROWS_BODY_MAX && KEYS * row + 8 > ROWS_PART_MAX);
    s.list[0].keys = 10;
    assert_int_equal(row_frames_largest_part(&s, upper), 10 * row + 8);
    mixed[9] = BUCKET(4000); /* another part */
    assert_int_equal(row_frames_largest_part(&s, upper), 9 * row + 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ask_has_the_keys_of_the_shard_alone),
        cmocka_unit_test(a_part_of_a_push_has_counts_keys_and_gradients),
        cmocka_unit_test(a_part_of_a_push_that_names_an_ask_has_bits_for_keys),
        cmocka_unit_test(an_answer_fills_rows_and_what_is_absent_has_its_first_value),
        cmocka_unit_test(a_row_that_was_not_admitted_reads_as_the_table_says),
        cmocka_unit_test(an_answer_of_another_length_is_refused),
        cmocka_unit_test(a_part_that_is_too_large_is_known_by_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
