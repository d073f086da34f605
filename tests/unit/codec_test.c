#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "common/codec/codec.h"
#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

/* A block of 5000 elements in chunks of 1024: weights, statistics in the middle of a chunk, weights again. */
enum { ELEMS = 5008, CHUNKS = 5, STATISTIC_FIRST = 1504, STATISTIC_ELEMS = 48 };

struct fixture {
    struct layout layout;
    struct plan plan;
    struct codec_shape shape;
    struct coder *coder;
    float x[ELEMS], back[ELEMS];
    uint8_t bytes[ELEMS * 4 + 64];
    uint64_t n;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct errmsg e;
    static const uint32_t elems[] = {1500, STATISTIC_ELEMS, 3443};
    for (uint32_t i = 0; i < 3; i++) {
        struct tensor t = {.rank = 1, .shape = {elems[i]}};
        t.role = i == 1 ? TENSOR_STATISTIC : TENSOR_WEIGHT;
        assert_int_equal(layout_add(&f->layout, &t, &e), ERR_OK);
    }
    assert_int_equal(f->layout.elems, ELEMS);
    assert_int_equal(f->layout.tensor[1].offset_elems, STATISTIC_FIRST);
    assert_int_equal(plan_init(&f->plan, ELEMS, (uint32_t[]){1}, 1, &e), ERR_OK);
    assert_int_equal(f->plan.chunks, CHUNKS);
    f->shape = (struct codec_shape){&f->plan, &f->layout, 0.1f};
    assert_int_equal(coder_new(&f->coder), ERR_OK);
    for (size_t i = 0; i < ELEMS; i++)
        f->x[i] = (2.0f * rng_unit(7, i) - 1.0f) *
                  (i % 3 == 0 ? 0.0f : powf(2.0f, (float)(i % 7) - 12.0f));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    coder_free(f->coder);
    plan_close(&f->plan);
    layout_close(&f->layout);
    free(f);
    return 0;
}

static const enum codec ALL[] = {CODEC_RAW,   CODEC_FP16, CODEC_BF16,     CODEC_INT8,
                                 CODEC_TOP_K, CODEC_ZSTD, CODEC_INT8_ZSTD};
enum { N_ALL = sizeof ALL / sizeof *ALL };

static enum err encode_run(struct fixture *f, enum codec c, uint64_t key, uint32_t first,
                           uint32_t chunks)
{
    return codec_encode(f->coder, &f->shape, &c, key, first, chunks,
                        f->x + plan_chunk_elem(&f->plan, first), f->bytes, &f->n);
}

static enum err decode_run(struct fixture *f, enum codec c, uint32_t first, uint32_t chunks,
                           uint64_t n)
{
    return codec_decode(f->coder, &f->shape, c, first, chunks, f->bytes, n,
                        f->back + plan_chunk_elem(&f->plan, first));
}

static void there_and_back(struct fixture *f, enum codec c, uint64_t key)
{
    assert_int_equal(encode_run(f, c, key, 0, CHUNKS), ERR_OK);
    assert_int_equal(decode_run(f, c, 0, CHUNKS, f->n), ERR_OK);
}

static bool in_statistic(size_t i)
{
    return i >= STATISTIC_FIRST && i < STATISTIC_FIRST + STATISTIC_ELEMS;
}

/* ---- numbers ---- */

/* By the definition, in doubles: the nearest of the values with `bits` of mantissa, of two the even one. */
static double rounded(double x, int mantissa_bits, int least_exponent)
{
    if (x == 0)
        return x;
    int e;
    (void)frexp(x, &e);
    e -= 1;
    if (e < least_exponent)
        e = least_exponent;
    double step = ldexp(1.0, e - mantissa_bits);
    return nearbyint(x / step) * step; /* ties to even, as the rounding mode is */
}

static void halves_are_the_nearest_ones_and_ties_go_to_even(void **state)
{
    (void)state;
    static const float ties[] = {
        1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 0x1p-25f, 0x3p-25f, 0x1.8p-14f + 0x1p-25f,
        65504.0f,        65519.996f,      1e-7f,    0x1p-24f, 0x1.ffcp-15f + 0x1p-26f};
    for (size_t i = 0; i < 200000; i++) {
        float x =
            i < 10 ? ties[i] : ldexpf(2.0f * rng_unit(1, i) - 1.0f, (int)(rng_u64(2, i) % 43) - 27);
        for (int sign = 0; sign < 2; sign++, x = -x) {
            uint8_t b[2];
            float back;
            kernels()->fp16_encode(b, &x, 1);
            kernels()->fp16_decode(&back, b, 1);
            assert_true((double)back == rounded((double)x, 10, -14));
            kernels()->bf16_encode(b, &x, 1);
            kernels()->bf16_decode(&back, b, 1);
            assert_true((double)back == rounded((double)x, 7, -126));
        }
    }
}

static void halves_keep_infinity_and_nan_and_hold_what_is_too_large(void **state)
{
    (void)state;
    const float x[] = {INFINITY, -INFINITY, NAN, 65520.0f, -1e30f, 0.0f, -0.0f, FLT_MAX};
    const float fp16[] = {INFINITY, -INFINITY, NAN, 65504.0f, -65504.0f, 0.0f, -0.0f, 65504.0f};
    uint8_t b[16];
    float back[8];
    kernels()->fp16_encode(b, x, 8);
    kernels()->fp16_decode(back, b, 8);
    for (int i = 0; i < 8; i++)
        assert_true(isnan(fp16[i]) ? isnan(back[i])
                                   : back[i] == fp16[i] && signbit(back[i]) == signbit(fp16[i]));
    kernels()->bf16_encode(b, x, 8);
    kernels()->bf16_decode(back, b, 8);
    assert_true(back[0] == INFINITY && back[1] == -INFINITY && isnan(back[2]) && signbit(back[6]));
    float nan_low; /* a NaN whose mantissa is in the low half alone */
    uint32_t bits = 0x7f800001;
    memcpy(&nan_low, &bits, sizeof nan_low);
    kernels()->bf16_encode(b, &nan_low, 1);
    kernels()->bf16_decode(back, b, 1);
    assert_true(isnan(back[0]));
}

static void int8_is_off_by_less_than_one_step_of_its_block(void **state)
{
    struct fixture *f = *state;
    there_and_back(f, CODEC_INT8, 5);
    struct codec_unit u = {0};
    while (codec_next_unit(&f->shape, ELEMS, &u)) {
        for (size_t at = 0; at < u.elems && !u.statistic; at += CODEC_INT8_BLOCK_ELEMS) {
            size_t n =
                u.elems - at < CODEC_INT8_BLOCK_ELEMS ? u.elems - at : CODEC_INT8_BLOCK_ELEMS;
            const float *x = f->x + u.first_elem + at, *y = f->back + u.first_elem + at;
            float most = 0;
            for (size_t i = 0; i < n; i++)
                most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
            for (size_t i = 0; i < n; i++)
                assert_true(fabsf(y[i] - x[i]) <= most / 127.0f * 1.0001f);
        }
    }
}

static void int8_is_right_in_the_mean_over_keys(void **state)
{
    struct fixture *f = *state;
    enum { KEYS = 2000 };
    static double sum[ELEMS];
    double bias = 0, norm = 0;
    memset(sum, 0, sizeof sum);
    for (uint64_t key = 0; key < KEYS; key++) {
        there_and_back(f, CODEC_INT8, rng_key(3, RNG_TEST, key, 0));
        for (size_t i = 0; i < ELEMS; i++)
            sum[i] += (double)f->back[i];
    }
    for (size_t i = 0; i < ELEMS; i++) {
        double d = sum[i] / KEYS - (double)f->x[i];
        bias += d * d;
        norm += (double)f->x[i] * (double)f->x[i];
    }
    there_and_back(f, CODEC_INT8, 1);
    double once = 0;
    for (size_t i = 0; i < ELEMS; i++)
        once += pow((double)f->back[i] - (double)f->x[i], 2);
    /* the mean of N independent roundings has 1/N of the variance of one; 1.2: chance */
    assert_true(bias < once / KEYS * 1.2);
    assert_true(once / norm < 1e-3 && once > 0);
}

static void int8_of_zeros_is_zeros(void **state)
{
    struct fixture *f = *state;
    memset(f->x, 0, sizeof f->x);
    f->x[9] = -0.0f;
    there_and_back(f, CODEC_INT8, 5);
    for (size_t i = 0; i < ELEMS; i++)
        assert_true(f->back[i] == 0.0f);
    for (size_t i = 0; i < ELEMS; i++)
        f->x[i] = 1e-38f; /* s would be no normal number */
    there_and_back(f, CODEC_INT8, 5);
    assert_true(f->back[0] == 0.0f);
}

static void what_int8_and_top_k_cannot_carry_is_refused(void **state)
{
    struct fixture *f = *state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    static const enum codec numbers_only[] = {CODEC_INT8, CODEC_INT8_ZSTD, CODEC_TOP_K};
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < 3; i++) {
            float was = f->x[4000];
            f->x[4000] = bad[i];
            assert_int_equal(encode_run(f, numbers_only[c], 1, 0, CHUNKS), ERR_INPUT);
            f->x[4000] = was;
            assert_int_equal(encode_run(f, numbers_only[c], 1, 0, CHUNKS), ERR_OK);
        }
    }
    f->x[STATISTIC_FIRST] = NAN; /* travels raw */
    assert_int_equal(encode_run(f, CODEC_INT8, 1, 0, CHUNKS), ERR_OK);
}

static int by_size(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void top_k_keeps_the_largest_as_they_are(void **state)
{
    struct fixture *f = *state;
    there_and_back(f, CODEC_TOP_K, 0);
    struct codec_unit u = {0};
    while (codec_next_unit(&f->shape, ELEMS, &u)) {
        if (u.statistic)
            continue;
        float sorted[ELEMS];
        size_t k = codec_top_k(&f->shape, u.elems), kept = 0;
        memcpy(sorted, f->x + u.first_elem, u.elems * sizeof *sorted);
        qsort(sorted, u.elems, sizeof *sorted, by_size);
        for (size_t i = u.first_elem; i < u.first_elem + u.elems; i++) {
            if (f->back[i] != 0.0f) {
                kept++;
                assert_true(f->back[i] == f->x[i]);
                assert_true(fabsf(f->x[i]) >= fabsf(sorted[k - 1]));
            } else {
                assert_true(fabsf(f->x[i]) <= fabsf(sorted[k - 1]));
            }
        }
        assert_int_equal(kept, k);
    }
}

static void of_equal_sizes_top_k_keeps_the_first(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < ELEMS; i++)
        f->x[i] = i % 2 ? 1.0f : -1.0f;
    there_and_back(f, CODEC_TOP_K, 0);
    size_t k = codec_top_k(&f->shape, 1024);
    for (size_t i = 0; i < 1024; i++)
        assert_true((f->back[i] != 0.0f) == (i < k));
}

/* ---- units, lengths ---- */

static void statistics_and_lossless_codecs_travel_bit_for_bit(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_ALL; c++) {
        memset(f->back, 0x5a, sizeof f->back);
        there_and_back(f, ALL[c], 11);
        for (size_t i = 0; i < ELEMS; i++)
            if (codec_is_lossless(ALL[c]) || in_statistic(i))
                assert_memory_equal(&f->back[i], &f->x[i], sizeof(float));
        if (!codec_is_lossless(ALL[c]))
            assert_memory_not_equal(f->back, f->x, sizeof f->x);
    }
}

static void a_chunk_is_the_same_whatever_run_it_travels_in(void **state)
{
    struct fixture *f = *state;
    static float whole[ELEMS];
    for (int c = 0; c < N_ALL; c++) {
        there_and_back(f, ALL[c], 11);
        memcpy(whole, f->back, sizeof whole);
        for (uint32_t first = 0; first < CHUNKS; first++) {
            for (uint32_t n = 1; first + n <= CHUNKS; n++) {
                uint64_t at = plan_chunk_elem(&f->plan, first),
                         elems = plan_run_elems(&f->plan, first, n);
                assert_int_equal(encode_run(f, ALL[c], 11, first, n), ERR_OK);
                assert_int_equal(decode_run(f, ALL[c], first, n, f->n), ERR_OK);
                assert_memory_equal(f->back + at, whole + at, elems * sizeof(float));
                assert_true(f->n <= elems * sizeof(float));
                if (codec_is_sized(ALL[c]))
                    assert_int_equal(f->n, codec_body_bytes(&f->shape, ALL[c], first, n));
                else
                    assert_true(f->n < codec_body_bytes(&f->shape, ALL[c], first, n));
            }
        }
    }
}

static void what_would_get_longer_is_not_made(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < ELEMS; i++) {
        uint32_t noise = (uint32_t)rng_u64(9, i);
        memcpy(&f->x[i], &noise, sizeof noise);
    }
    assert_int_equal(encode_run(f, CODEC_ZSTD, 0, 0, CHUNKS), ERR_TOOBIG);
    struct layout tiny = {0}; /* one element has no shorter form */
    struct plan plan;
    struct errmsg e;
    float x = 3.25f, back = 0;
    uint64_t n;
    assert_int_equal(layout_add(&tiny, &(struct tensor){.rank = 1, .shape = {1}}, &e), ERR_OK);
    assert_int_equal(plan_init(&plan, 1, (uint32_t[]){1}, 1, &e), ERR_OK);
    struct codec_shape shape = {&plan, &tiny, 0.1f};
    static const enum codec longer[] = {CODEC_INT8, CODEC_TOP_K};
    for (int i = 0; i < 2; i++) {
        enum codec codec = longer[i];
        assert_int_equal(codec_encode(f->coder, &shape, &codec, 1, 0, 1, &x, f->bytes, &n), ERR_OK);
        assert_int_equal(n, sizeof x);
        assert_int_equal(codec_decode(f->coder, &shape, longer[i], 0, 1, f->bytes, n, &back),
                         ERR_OK);
        assert_true(back == x);
    }
    plan_close(&plan);
    layout_close(&tiny);
}

static void every_level_makes_the_same_bytes(void **state)
{
    struct fixture *f = *state;
    static uint8_t bytes[N_ALL][ELEMS * 4 + 64];
    static float back[N_ALL][ELEMS];
    f->x[17] = 1e-42f; /* flushed or not: worth 0 here */
    for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
        if (!kernels_use((enum kernels_level)level))
            continue;
        for (int c = 0; c < N_ALL; c++) {
            there_and_back(f, ALL[c], 23);
            if (level == KERNELS_BASE) {
                memcpy(bytes[c], f->bytes, f->n);
                memcpy(back[c], f->back, sizeof f->back);
            }
            assert_memory_equal(f->bytes, bytes[c], f->n);
            assert_memory_equal(f->back, back[c], sizeof f->back);
        }
    }
}

static void the_key_decides_how_int8_rounds_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    uint8_t once[sizeof f->bytes];
    there_and_back(f, CODEC_INT8, 1);
    memcpy(once, f->bytes, f->n);
    there_and_back(f, CODEC_INT8, 1);
    assert_memory_equal(f->bytes, once, f->n);
    there_and_back(f, CODEC_INT8, 2);
    assert_memory_not_equal(f->bytes, once, f->n);
}

/* ---- hostile bytes ---- */

static void bytes_that_no_encoder_made_are_refused(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < N_ALL; c++) {
        there_and_back(f, ALL[c], 1);
        uint64_t n = f->n;
        if (codec_is_sized(ALL[c]))
            assert_int_equal(decode_run(f, ALL[c], 0, CHUNKS, n + 1), ERR_PROTO);
        else
            f->bytes[n] = 1, assert_int_equal(decode_run(f, ALL[c], 0, CHUNKS, n + 1), ERR_PROTO);
        assert_int_equal(decode_run(f, ALL[c], 0, CHUNKS, n - 1), ERR_PROTO);
        assert_int_equal(decode_run(f, ALL[c], 0, CHUNKS, 0), ERR_PROTO);
    }
    assert_int_equal(decode_run(f, CODECS, 0, CHUNKS, 8), ERR_PROTO);
    assert_int_equal(decode_run(f, (enum codec) - 1, 0, CHUNKS, 8), ERR_PROTO);

    static const float bad_scales[] = {NAN, INFINITY, -1.0f, FLT_MAX};
    for (int i = 0; i < 4; i++) {
        there_and_back(f, CODEC_INT8, 1);
        memcpy(f->bytes + 4, &bad_scales[i], sizeof(float));
        assert_int_equal(decode_run(f, CODEC_INT8, 0, CHUNKS, f->n), ERR_PROTO);
    }
    static const uint32_t bad_index[] = {1024, UINT32_MAX,
                                         0}; /* outside, far outside, not ascending */
    for (int i = 0; i < 3; i++) {
        there_and_back(f, CODEC_TOP_K, 1);
        memcpy(f->bytes + CODEC_TOP_K_ENTRY_BYTES * 5, &bad_index[i], sizeof(uint32_t));
        assert_int_equal(decode_run(f, CODEC_TOP_K, 0, CHUNKS, f->n), ERR_PROTO);
    }
    there_and_back(f, CODEC_TOP_K, 1); /* twice the same */
    memcpy(f->bytes + CODEC_TOP_K_ENTRY_BYTES, f->bytes, sizeof(uint32_t));
    assert_int_equal(decode_run(f, CODEC_TOP_K, 0, CHUNKS, f->n), ERR_PROTO);

    there_and_back(f, CODEC_ZSTD, 1); /* a frame of another length */
    assert_int_equal(decode_run(f, CODEC_ZSTD, 0, 2, f->n), ERR_PROTO);
    f->bytes[f->n / 2] ^= 0xff;
    f->bytes[5] ^= 0xff;
    (void)!decode_run(f, CODEC_ZSTD, 0, CHUNKS,
                      f->n); /* with any result, it writes only inside the range */
}

/* A few bytes of zstd that unpack to 16 MiB; said: the frame tells its size. */
static void make_bomb(struct fixture *f, bool said)
{
    enum { BOMB_BYTES = 16 << 20 };
    ZSTD_CCtx *z = ZSTD_createCCtx();
    uint8_t *zeros = calloc(1, BOMB_BYTES);
    assert_non_null(zeros);
    assert_non_null(z);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, said)));
    f->n = ZSTD_compress2(z, f->bytes, sizeof f->bytes, zeros, BOMB_BYTES);
    assert_false(ZSTD_isError(f->n));
    ZSTD_freeCCtx(z);
    free(zeros);
}

static void a_frame_that_grows_beyond_the_plan_is_refused_and_writes_nothing(void **state)
{
    struct fixture *f = *state;
    for (int said = 0; said < 2; said++) {
        make_bomb(f, said);
        memset(f->back, 0x5a, sizeof f->back);
        assert_int_equal(decode_run(f, CODEC_ZSTD, 0, CHUNKS, f->n), ERR_PROTO);
        assert_int_equal(decode_run(f, CODEC_INT8_ZSTD, 0, CHUNKS, f->n), ERR_PROTO);
        for (size_t i = 0; i < sizeof f->back; i++)
            assert_int_equal(((const uint8_t *)f->back)[i], 0x5a);
    }
}

static void an_encoder_without_memory_says_so(void **state)
{
    struct fixture *f = *state;
    struct coder *c;
    enum codec zstd = CODEC_ZSTD;
    mem_fail_at(0);
    assert_int_equal(coder_new(&c), ERR_NOMEM);
    assert_int_equal(coder_new(&c), ERR_OK);
    mem_fail_at(0);
    assert_int_equal(codec_encode(c, &f->shape, &zstd, 0, 0, 1, f->x, f->bytes, &f->n), ERR_NOMEM);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    coder_free(c);
}

static void what_may_travel_is_raw_and_what_is_configured(void **state)
{
    (void)state;
    assert_int_equal(codec_mask(CODEC_RAW, ~0u), 1u << CODEC_RAW);
    assert_int_equal(codec_mask(CODEC_INT8, ~0u), 1u << CODEC_RAW | 1u << CODEC_INT8);
    assert_int_equal(codec_mask(CODEC_AUTO, 1u << CODEC_FP16),
                     1u << CODEC_RAW | 1u << CODEC_ZSTD | 1u << CODEC_FP16);
    assert_int_equal(codec_mask((enum codec)77, ~0u), 1u << CODEC_RAW);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(halves_are_the_nearest_ones_and_ties_go_to_even),
        T(halves_keep_infinity_and_nan_and_hold_what_is_too_large),
        T(int8_is_off_by_less_than_one_step_of_its_block),
        T(int8_is_right_in_the_mean_over_keys),
        T(int8_of_zeros_is_zeros),
        T(what_int8_and_top_k_cannot_carry_is_refused),
        T(top_k_keeps_the_largest_as_they_are),
        T(of_equal_sizes_top_k_keeps_the_first),
        T(statistics_and_lossless_codecs_travel_bit_for_bit),
        T(a_chunk_is_the_same_whatever_run_it_travels_in),
        T(what_would_get_longer_is_not_made),
        T(every_level_makes_the_same_bytes),
        T(the_key_decides_how_int8_rounds_and_nothing_else),
        T(bytes_that_no_encoder_made_are_refused),
        T(a_frame_that_grows_beyond_the_plan_is_refused_and_writes_nothing),
        T(an_encoder_without_memory_says_so),
        T(what_may_travel_is_raw_and_what_is_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
