/* Rows in fewer bits: what comes back, what travels as it is, what rounding depends on, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "common/rows/key.h"
#include "common/rows/row_codec.h"
#include "common/wire/msg.h"

enum { ROWS = 100, DIM = 13, ROOM = ROWS * (DIM + 1) * 4 + 64 };

static const struct row_table_spec table = {.name = "ids", .dim = DIM},
                                   other = {.name = "others", .dim = DIM};

static void draw(float *w)
{
    srand(3);
    for (int i = 0; i < ROWS * DIM; i++)
        w[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * powf(10, (float)(i / DIM % 7 - 3));
}

static size_t encode(enum row_codec c, const struct row_table_spec *t, uint64_t key, const float *w,
                     uint8_t *out)
{
    struct row_encoder e;
    row_encoder_begin(&e, c, t, key, ROWS, out);
    for (uint32_t i = 0; i < ROWS; i++)
        row_encoder_put(&e, i, key_mix(i), w + (size_t)i * DIM);
    assert_true((size_t)(e.out - out) <= row_codec_most(c, ROWS, DIM));
    return (size_t)(e.out - out);
}

static enum err decode(enum row_codec c, const uint8_t *in, size_t bytes, float *w)
{
    struct row_decoder d;
    enum err err = row_decoder_begin(&d, c, DIM, ROWS, in, bytes);
    for (uint32_t i = 0; i < ROWS && !err; i++)
        err = row_decoder_take(&d, i, w ? w + (size_t)i * DIM : NULL);
    return !err && d.left ? ERR_PROTO : err;
}

static float largest(const float *w)
{
    float most = 0;
    for (int i = 0; i < DIM; i++)
        most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    return most;
}

static void values_come_back_as_near_as_the_codec_has_them(void **state)
{
    (void)state;
    static const size_t row[] = {4 * DIM, 2 * DIM, 2 * DIM, 4 + DIM};
    static float w[ROWS * DIM], back[ROWS * DIM];
    uint8_t body[ROOM];
    draw(w);
    for (enum row_codec c = ROW_CODEC_NONE; c <= ROW_CODEC_INT8; c++) {
        size_t bytes = encode(c, &table, 7, w, body), bits = c ? (ROWS + 31) / 32 * 4 : 0;
        assert_int_equal(bytes, bits + ROWS * row[c]);
        assert_int_equal(decode(c, body, bytes, NULL), ERR_OK);
        assert_int_equal(decode(c, body, bytes, back), ERR_OK);
        for (int i = 0; i < ROWS * DIM; i++) {
            float of = c == ROW_CODEC_INT8   ? largest(w + i / DIM * DIM) / 126
                       : c == ROW_CODEC_BF16 ? fabsf(w[i]) / 250
                       : c == ROW_CODEC_FP16 ? fabsf(w[i]) / 2000 + 1e-7f
                                             : 0;
            assert_true(fabsf(back[i] - w[i]) <= of);
        }
    }
}

static void a_row_that_is_not_finite_travels_as_it_is(void **state)
{
    (void)state;
    static float w[ROWS * DIM], back[ROWS * DIM];
    uint8_t body[ROOM];
    for (enum row_codec c = ROW_CODEC_FP16; c <= ROW_CODEC_INT8; c++) {
        draw(w);
        w[0] = INFINITY;
        w[40 * DIM + DIM - 1] = NAN;
        w[(ROWS - 1) * DIM + 3] = -INFINITY;
        size_t bytes = encode(c, &table, 7, w, body);
        assert_int_equal(decode(c, body, bytes, back), ERR_OK);
        static const size_t raw[] = {0, 40, ROWS - 1};
        for (int i = 0; i < 3; i++)
            assert_memory_equal(back + raw[i] * DIM, w + raw[i] * DIM, DIM * sizeof *w);
        for (int i = DIM; i < 2 * DIM; i++)
            assert_true(isfinite(back[i]));
    }
}

/* So it is the same for any number of ps, and whatever else the push has. */
static void int8_rounds_by_push_table_key_and_column_alone(void **state)
{
    (void)state;
    static float w[ROWS * DIM];
    uint8_t body[ROOM], again[ROOM], one[ROOM];
    struct row_encoder e;
    for (int i = 0; i < ROWS * DIM; i++)
        w[i] = i % DIM ? 0.37f : 100; /* the same row over and over */
    uint64_t key = row_codec_key(1, 2, 3, 4);
    size_t bytes = encode(ROW_CODEC_INT8, &table, key, w, body), bits = (ROWS + 31) / 32 * 4;
    assert_int_equal(encode(ROW_CODEC_INT8, &table, key, w, again), bytes);
    assert_memory_equal(body, again, bytes);
    row_encoder_begin(&e, ROW_CODEC_INT8, &table, key, 1, one); /* row 57 by itself */
    row_encoder_put(&e, 0, key_mix(57), w);
    assert_memory_equal(one + 4, body + bits + 57 * (4 + DIM), 4 + DIM);
    const uint64_t others[] = {row_codec_key(9, 2, 3, 4), row_codec_key(1, 9, 3, 4),
                               row_codec_key(1, 2, 9, 4), row_codec_key(1, 2, 3, 9)};
    for (int i = 0; i < 4; i++) {
        (void)encode(ROW_CODEC_INT8, &table, others[i], w, again);
        assert_memory_not_equal(body, again, bytes);
    }
    (void)encode(ROW_CODEC_INT8, &other, key, w, again);
    assert_memory_not_equal(body, again, bytes);
    int differ = 0;
    for (int i = 1; i < ROWS; i++)
        differ += memcmp(body + bits, body + bits + i * (4 + DIM), 4 + DIM) != 0;
    assert_true(differ > ROWS / 2); /* by the key */
}

static void int8_is_right_on_average(void **state)
{
    (void)state;
    static float w[ROWS * DIM], back[ROWS * DIM];
    uint8_t body[ROOM];
    double sum = 0;
    for (int i = 0; i < ROWS * DIM; i++)
        w[i] = i % DIM ? 0.37f : 127;
    for (uint64_t name = 0; name < 100; name++) {
        size_t bytes = encode(ROW_CODEC_INT8, &table, row_codec_key(1, name, 0, 0), w, body);
        assert_int_equal(decode(ROW_CODEC_INT8, body, bytes, back), ERR_OK);
        for (int i = 0; i < ROWS * DIM; i++)
            sum += i % DIM ? (double)back[i] : 0;
    }
    double mean = sum / (100.0 * ROWS * (DIM - 1));
    assert_true(fabs(mean - 0.37) < 6 * 0.483 / sqrt(100.0 * ROWS * (DIM - 1)));
}

static void rows_that_are_cut_off_or_have_no_scale_are_refused(void **state)
{
    (void)state;
    static float w[ROWS * DIM], back[ROWS * DIM];
    static const float scales[] = {-1, INFINITY, NAN, 3e38f};
    uint8_t body[ROOM];
    draw(w);
    for (enum row_codec c = ROW_CODEC_NONE; c <= ROW_CODEC_INT8; c++) {
        size_t bytes = encode(c, &table, 7, w, body);
        for (size_t left = 0; left < bytes; left += 1 + left % 3) {
            uint8_t *exact = malloc(left + 1); /* the sanitizer sees a byte too many */
            memcpy(exact, body, left);
            assert_int_equal(decode(c, exact, left, back), ERR_PROTO);
            free(exact);
        }
        struct row_decoder d;
        if (c)
            assert_int_equal(row_decoder_begin(&d, c, DIM, ROWS, body, 12), ERR_PROTO);
    }
    for (int i = 0; i < 4; i++) {
        size_t bytes = encode(ROW_CODEC_INT8, &table, 7, w, body), at = (ROWS + 31) / 32 * 4;
        memcpy(body + at + 5 * (4 + DIM), &scales[i], sizeof *scales);
        assert_int_equal(decode(ROW_CODEC_INT8, body, bytes, NULL), ERR_PROTO);
        assert_int_equal(decode(ROW_CODEC_INT8, body, bytes, back), ERR_PROTO);
    }
}

static void a_plan_whose_rows_travel_in_no_known_way_is_refused(void **state)
{
    (void)state;
    Gradwire__Table first = GRADWIRE__TABLE__INIT, second = GRADWIRE__TABLE__INIT;
    Gradwire__Table *tables[] = {&first, &second};
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    struct row_codecs codecs;
    plan.tables = tables;
    plan.n_tables = 2;
    second.push_codec = ROW_CODEC_INT8;
    second.reply_codec = ROW_CODEC_BF16;
    assert_int_equal(msg_row_codecs_get(&plan, &codecs), ERR_OK);
    assert_int_equal(codecs.push[0], ROW_CODEC_NONE);
    assert_int_equal(codecs.push[1], ROW_CODEC_INT8);
    assert_int_equal(codecs.reply[1], ROW_CODEC_BF16);
    second.push_codec = ROW_CODEC_INT8 + 1;
    assert_int_equal(msg_row_codecs_get(&plan, &codecs), ERR_PROTO);
    second.push_codec = 0;
    first.reply_codec = ROW_CODEC_INT8;
    assert_int_equal(msg_row_codecs_get(&plan, &codecs), ERR_PROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_as_near_as_the_codec_has_them),
        cmocka_unit_test(a_row_that_is_not_finite_travels_as_it_is),
        cmocka_unit_test(int8_rounds_by_push_table_key_and_column_alone),
        cmocka_unit_test(int8_is_right_on_average),
        cmocka_unit_test(rows_that_are_cut_off_or_have_no_scale_are_refused),
        cmocka_unit_test(a_plan_whose_rows_travel_in_no_known_way_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
