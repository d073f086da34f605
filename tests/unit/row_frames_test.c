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
static const struct row_layout layout = {.lists = 2,
                                         .tables = 3,
                                         .table = {{"a", 2, 0, INIT_ONES, 0, 0},
                                                   {"b", 1, 0, INIT_RANDOM_UNIFORM, 1, 0},
                                                   {"c", 3, 1, INIT_ZEROS, 0, 0}}};
static const uint64_t first_keys[] = {1, BUCKET(100), BUCKET(2048), BUCKET(2048) + 9, BUCKET(4095)};
static const uint64_t second_keys[] = {BUCKET(2047) + 3, BUCKET(2050)};
static const struct bucket_range upper = {2048, 4096};

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
    assert_int_equal(row_frames_part_bytes(&s, part), sizeof want);
    assert_int_equal(row_frames_part(&s, part, body), sizeof want);
    assert_memory_equal(body, &want, sizeof want);
    struct bucket_range none = {3000, 3001};
    assert_int_equal(row_frames_part(&s, none, body), 8);
    assert_memory_equal(body, "\0\0\0\0\0\0\0\0", 8);
}

static void an_answer_fills_rows_and_what_is_absent_has_its_first_value(void **state)
{
    (void)state;
    struct row_values v;
    open_values(&v);
    /* a: keys 0 and 2 of three are there; b: key 1; c: none of one */
    const struct {
        uint32_t a_bits;
        float a[4];
        uint32_t b_bits;
        float b[1];
        uint32_t c_bits;
    } body = {5, {1.5f, 2.5f, 3.5f, 4.5f}, 2, {9.5f}, 0};
    v.w[0][3] = 77; /* another shard's */
    assert_true(sizeof body <= row_frames_rows_most(&v, upper));
    assert_int_equal(row_frames_rows(&v, upper, 42, (const uint8_t *)&body, sizeof body), ERR_OK);
    const float a[] = {1.5f, 2.5f, 1, 1, 3.5f, 4.5f};
    float first;
    assert_memory_equal(v.w[0] + 4, a, sizeof a);
    assert_true(v.w[0][3] == 77);
    assert_true(v.w[1][3] == 9.5f);
    row_first_value(&layout.table[1], 42, BUCKET(2048), &first);
    assert_true(v.w[1][2] == first);
    assert_true(v.w[2][3] == 0 && v.w[2][5] == 0);
    row_values_close(&v);
}

static void an_answer_of_another_length_is_refused(void **state)
{
    (void)state;
    struct row_values v;
    open_values(&v);
    uint32_t body[32] = {7, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0};
    size_t whole = 15 * sizeof *body;
    assert_int_equal(row_frames_rows(&v, upper, 1, (const uint8_t *)body, whole), ERR_OK);
    struct bucket_range none = {3000, 3001};
    assert_int_equal(row_frames_rows(&v, none, 1, NULL, 0), ERR_OK); /* no keys there */
    for (size_t bytes = 0; bytes < sizeof body; bytes++)
        if (bytes != whole)
            assert_int_equal(row_frames_rows(&v, upper, 1, (const uint8_t *)body, bytes),
                             ERR_PROTO);
    row_values_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ask_has_the_keys_of_the_shard_alone),
        cmocka_unit_test(a_part_of_a_push_has_counts_keys_and_gradients),
        cmocka_unit_test(an_answer_fills_rows_and_what_is_absent_has_its_first_value),
        cmocka_unit_test(an_answer_of_another_length_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
