#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "common/math/kernels.h"
#include "common/base/rng.h"

enum { ROOM = 700, LEVELS = 3 };

/* Lengths around every vector's width, and offsets that align to nothing. */
static const size_t LENGTHS[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,   15,
                                 16, 17, 31, 32, 33, 63, 64, 65, 257, 500};
enum { N_LENGTHS = sizeof LENGTHS / sizeof *LENGTHS };

static const struct kernels *level_table(int level)
{
    return kernels_use((enum kernels_level)level);
}

/* Values of all sizes and both signs, with the special ones among them. */
static float value_at(uint64_t key, uint64_t i)
{
    static const float special[] = {0.0f, -0.0f,     INFINITY, -INFINITY, NAN,    1e-42f,
                                    1.0f, -1.0f,     88.72f,   -87.34f,   3e38f,  -3e38f,
                                    0.5f, 0.707107f, 1e-38f,   -1e-42f,   0.625f, -0.625f};
    uint64_t r = rng_u64(key, i);
    if (r % 11 == 0)
        return special[(r >> 8) % (sizeof special / sizeof *special)];
    float u = 2.0f * rng_unit(key + 1, i) - 1.0f;
    return ldexpf(u, (int)((r >> 16) % 24) - 12);
}

static void fill(float *out, uint64_t key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = value_at(key, i);
}

/* ---- the same bits at every level ---- */

/* Run one kernel of the table into out; a, b, c, d are inputs (n), offset by `at` elements. */
struct bench {
    float a[ROOM], b[ROOM], c[ROOM], d[ROOM], out[ROOM];
    uint8_t bytes[2 * ROOM];
};

static void run_add(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->add(s->out + at, s->a + at, s->b + at, n);
}
static void run_add_in_place(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->add(s->a + at, s->a + at, s->b + at, n);
}
static void run_scale(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->scale(s->a + at, s->a + at, 0.3f, n);
}
static void run_u8(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    for (size_t i = 0; i < ROOM; i++)
        s->bytes[i] = (uint8_t)(i * 37);
    k->u8_to_float(s->out + at, s->bytes + at, 1.0f / 255.0f, n);
}
static const struct update_rates RATES = {.inv_n = 0.03f,
                                          .lr = 0.01f,
                                          .momentum = 0.9f,
                                          .one_minus_beta_1 = 0.1f,
                                          .one_minus_beta_2 = 0.001f,
                                          .epsilon = 1e-7f};
static void run_sgd(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->step[STEP_SGD](s->out + at, s->a + at, NULL, s->b + at, &RATES, n);
}
static void run_momentum(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->step[STEP_MOMENTUM](s->a + at, s->a + at, (float *[]){s->b + at}, s->c + at, &RATES, n);
}
static void run_nesterov(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->step[STEP_NESTEROV](s->out + at, s->a + at, (float *[]){s->b + at}, s->c + at, &RATES, n);
}
static void run_adam(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    for (size_t i = 0; i < ROOM; i++)
        s->c[i] = fabsf(s->c[i]);
    k->step[STEP_ADAM](s->a + at, s->a + at, (float *[]){s->b + at, s->c + at}, s->out + at, &RATES,
                       n);
}
static void run_exp(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->exp(s->out + at, s->a + at, n);
}
static void run_log(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->log(s->out + at, s->a + at, n);
}
static void run_tanh(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->tanh(s->out + at, s->a + at, n);
}
static void run_sigmoid(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->sigmoid(s->out + at, s->a + at, n);
}
static void run_elu(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->elu(s->out + at, s->a + at, 0.7f, n);
}
static void run_gelu(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->gelu(s->out + at, s->a + at, n);
}
static void run_gelu_backward(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->gelu_backward(s->b + at, s->a + at, n);
}
static void run_gelu_tanh(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->gelu_tanh(s->out + at, s->a + at, n);
}
static void run_gelu_tanh_backward(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->gelu_tanh_backward(s->b + at, s->a + at, n);
}
static void run_silu(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->silu(s->out + at, s->a + at, n);
}
static void run_silu_backward(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->silu_backward(s->b + at, s->a + at, n);
}
static void run_softplus(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->softplus(s->out + at, s->a + at, n);
}
static void run_softplus_backward(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->softplus_backward(s->b + at, s->a + at, n);
}
static void run_bias(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->bias_act(s->out + at, s->a + at, s->b + at, 0, 1, n);
}
static void run_bias_relu(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->bias_act(s->a + at, s->a + at, s->b + at, 1, n / 7, 7);
}
static void run_relu_backward(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->relu_backward(s->a + at, s->b + at, n);
}
static void run_dropout(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->dropout(s->a + at, s->bytes + at, UINT64_C(0x123456789abcdef), 0.2f, n);
}
static void run_dropout_backward(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    for (size_t i = 0; i < ROOM; i++)
        s->bytes[i] = (i * 37) % 5 > 1;
    k->dropout_backward(s->a + at, s->bytes + at, 0.2f, n);
}
static void run_column_sums(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    size_t cols = n < 40 ? n : n / 4;
    k->column_sums(s->out + at, s->a + at, cols ? n / cols : 0, cols);
}
static void run_max(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    s->out[0] = k->max(s->a + at, n);
}
static void run_sum(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    for (size_t i = 0; i < ROOM; i++) /* wide enough apart that the order of additions shows */
        s->a[i] = ldexpf(rng_unit(9, i) - 0.5f, (int)(i * 13 % 90) - 45);
    double sum = k->sum(s->a + at, n);
    memcpy(s->out, &sum, sizeof sum);
}
static void run_sum_squares(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    double sum = k->sum_squares(s->a + at, n);
    memcpy(s->out, &sum, sizeof sum);
}

static void run_add_scaled(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->add_scaled(s->a + at, s->b + at, 0.7f, n);
}
static void run_average(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->average(s->a + at, s->b + at, 0.99f, n);
}
static const struct update_rates ALL_RATES = {.inv_n = 0.03f,
                                              .decay = 0.001f,
                                              .lr = 0.01f,
                                              .one_minus_beta_1 = 0.1f,
                                              .one_minus_beta_2 = 0.001f,
                                              .correction_1 = 0.3f,
                                              .correction_2 = 0.02f,
                                              .power = 0.4f,
                                              .l2_added = 0.5f,
                                              .shrinkage = 0.02f,
                                              .momentum = 0.9f,
                                              .epsilon = 1e-7f,
                                              .rho = 0.8f,
                                              .l1 = 0.05f};
static void run_steps(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    for (size_t i = 0; i < ROOM; i++) {
        s->b[i] = fabsf(s->b[i]);
        s->c[i] = fabsf(s->c[i]);
    }
    for (int step = 0; step < OPTIMIZER_STEP_KINDS; step++)
        k->step[step](s->a + at, s->a + at, (float *[]){s->b + at, s->c + at, s->d + at},
                      s->out + at, &ALL_RATES, n);
}
static void run_step_rows(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    const size_t each = n / 5;
    const struct kernel_row rows[] = {{s->a + at, s->b + at, s->c + at, 0.1f},
                                      {s->a + at + each, s->b + at + 2 * each, s->c + at, 0.2f}};
    k->step_rows[STEP_FTRL](rows, 2, &ALL_RATES, each);
}
static void run_lamb_direction(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->lamb_direction(s->out + at, s->d + at, s->a + at, (float *[]){s->b + at, s->c + at},
                      s->d + at, &ALL_RATES, n);
}
static void run_fp16(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->fp16_encode(s->bytes + at, s->a + at, n);
    for (size_t i = 0; i < n; i++) /* all patterns of 16 bits, in time */
        memcpy(s->b + i, (uint16_t[]){(uint16_t)(i * 131 + n), (uint16_t)(i * 7919)}, 4);
    k->fp16_decode(s->out + at, (const uint8_t *)s->b + at, n);
}
static void run_bf16(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    k->bf16_encode(s->bytes + at, s->a + at, n);
    k->bf16_decode(s->out + at, (const uint8_t *)s->b + at, n);
}
static void run_int8(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    for (size_t i = 0; i < ROOM; i++)
        s->a[i] = isfinite(s->a[i]) ? s->a[i] : 1e9f;
    k->int8_encode((int8_t *)s->bytes + at, s->a + at, 0.01f, UINT64_C(0x9e3779b97f4a7c15), 77, n);
    k->int8_decode(s->out + at, (const int8_t *)s->bytes + at, 0.01f, n);
}
static void run_abs_bits(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    uint32_t most = k->abs_bits(s->a + at, n);
    memcpy(s->bytes, &most, sizeof most);
}

/* Two rows of pixels with 16 channels, three taps of a pixel. */
static struct kernel_conv conv_of(size_t n)
{
    static const uint32_t tap[] = {0, 1, 5};
    size_t pixels = 2 * (n % 5);
    return (struct kernel_conv){tap, 3, 2, 2 * pixels + 5, 16 * pixels, 2, pixels, 16};
}
static void run_conv(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    const struct kernel_conv conv = conv_of(n);
    k->conv(s->out + at, s->a + at, s->b + at, s->c + at, &conv);
}
static void run_conv_dw(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    const struct kernel_conv conv = conv_of(n);
    k->conv_dw(s->out + at, s->a + at, s->b + at, &conv);
}
static void run_conv_pool(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    const struct kernel_conv conv = conv_of(n);
    k->conv_pool(s->out + at, s->bytes + at, s->a + at, s->b + at, s->c + at, n % 2, &conv);
}
static void run_max_pool(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    const struct kernel_pool pool = {3, 2, 2, 10, n % 5, 19, n % 3 == 1};
    const size_t below = n % 2 ? 0 : ROOM; /* so that zeros and denormals are maxima, too */
    for (size_t i = 0; i < below; i++)
        s->a[i] = s->a[i] > 1e-37f ? -s->a[i] : s->a[i];
    k->max_pool(s->out + at, s->bytes + at, s->a + at, n % 2 ? s->b + at : NULL, &pool);
    k->max_unpool(s->c + at, s->out + at, s->bytes + at, &pool);
}
static void run_dense(const struct kernels *k, struct bench *s, size_t at, size_t n)
{
    const struct kernel_dense dense = {n % 9, 1 + n % 19, 1 + n % KERNEL_PANEL, 20, 33};
    k->dense(s->out + at, s->a + at, s->b + at, s->c + at, &dense);
    k->dense_one(s->d + at, s->a + at, s->b + at, 0.5f, &dense);
}

static const struct {
    const char *name;
    void (*run)(const struct kernels *k, struct bench *s, size_t at, size_t n);
    uint64_t bits; /* of all results at the level base, on any processor */
} RUNS[] = {
    {"add", run_add, UINT64_C(0x103646a01777a330)},
    {"add in place", run_add_in_place, UINT64_C(0x1089848cccb329b0)},
    {"scale", run_scale, UINT64_C(0x291ae76eebb6db77)},
    {"u8_to_float", run_u8, UINT64_C(0x76b13306a1228757)},
    {"sgd", run_sgd, UINT64_C(0xa1aea09f1abbab7e)},
    {"momentum", run_momentum, UINT64_C(0x138e23c9a8ef5cd9)},
    {"nesterov", run_nesterov, UINT64_C(0x1bc61827aeb99c8f)},
    {"adam", run_adam, UINT64_C(0x7a070d0755737b9c)},
    {"exp", run_exp, UINT64_C(0xfe9f2b1d48c579af)},
    {"log", run_log, UINT64_C(0x7eba846e0247efea)},
    {"tanh", run_tanh, UINT64_C(0xa02309a68ec740aa)},
    {"sigmoid", run_sigmoid, UINT64_C(0x1bdf6491176d1432)},
    {"elu", run_elu, UINT64_C(0x87270a8e77f8112c)},
    {"gelu", run_gelu, UINT64_C(0x3ea639af767e7406)},
    {"gelu_backward", run_gelu_backward, UINT64_C(0xc3bd13589b03db99)},
    {"gelu_tanh", run_gelu_tanh, UINT64_C(0x3007ac5d1e205417)},
    {"gelu_tanh_backward", run_gelu_tanh_backward, UINT64_C(0x53a85f540a2338d3)},
    {"silu", run_silu, UINT64_C(0x33075e37e632e258)},
    {"silu_backward", run_silu_backward, UINT64_C(0x297e0ad1a3d70bb9)},
    {"softplus", run_softplus, UINT64_C(0x8d6d0904b29b73b0)},
    {"softplus_backward", run_softplus_backward, UINT64_C(0xb6b6b60877ee39cd)},
    {"bias", run_bias, UINT64_C(0x103646a01777a330)},
    {"bias and relu", run_bias_relu, UINT64_C(0x38681a8f7d6dfae7)},
    {"relu_backward", run_relu_backward, UINT64_C(0x8b37ebf7f5396b7b)},
    {"dropout", run_dropout, UINT64_C(0xdaaf29b0a0cc7a39)},
    {"dropout_backward", run_dropout_backward, UINT64_C(0x0dfea177c73014cc)},
    {"column_sums", run_column_sums, UINT64_C(0x37873edcfc8a2aa7)},
    {"max", run_max, UINT64_C(0xf86fbc824f2c1eaa)},
    {"sum", run_sum, UINT64_C(0x3497c497228ea611)},
    {"sum_squares", run_sum_squares, UINT64_C(0xc98d5b5ab1aad4f6)},
    {"add_scaled", run_add_scaled, UINT64_C(0x9e3c6cc54ac696be)},
    {"average", run_average, UINT64_C(0xe07da486862b29d2)},
    {"steps", run_steps, UINT64_C(0xd4508d9f58789b53)},
    {"step_rows", run_step_rows, UINT64_C(0x13f9eb609abfc020)},
    {"lamb_direction", run_lamb_direction, UINT64_C(0x298e08eab430b987)},
    {"fp16", run_fp16, UINT64_C(0x435d75d4a3ec5db4)},
    {"bf16", run_bf16, UINT64_C(0xb205276f2fe27ae4)},
    {"int8", run_int8, UINT64_C(0xd9d06a1427dff115)},
    {"abs_bits", run_abs_bits, UINT64_C(0xf314b301b66f2caa)},
    {"conv", run_conv, UINT64_C(0xbe9e6848aac3a43c)},
    {"conv_dw", run_conv_dw, UINT64_C(0xae5dcee24b863d57)},
    {"conv_pool", run_conv_pool, UINT64_C(0xc46340b35ce6f476)},
    {"max_pool and max_unpool", run_max_pool, UINT64_C(0x5cd2705492707ae2)},
    {"dense", run_dense,
     UINT64_C(0x4c84ae14f430aabe)}, /* the last: each level has bits of its own */
};
enum { N_RUNS = sizeof RUNS / sizeof *RUNS, N_SAME = N_RUNS - 1 };

static void prepare(struct bench *s, int special)
{
    memset(s, 0x5a, sizeof *s);
    fill(s->a, 1, ROOM);
    fill(s->b, 2, ROOM);
    fill(s->c, 3, ROOM);
    fill(s->d, 4, ROOM);
    for (size_t i = 0; i < ROOM && !special; i++) {
        s->a[i] = isfinite(s->a[i]) ? s->a[i] : 0.25f;
        s->b[i] = isfinite(s->b[i]) ? s->b[i] : -0.5f;
        s->c[i] = isfinite(s->c[i]) ? s->c[i] : 2.0f;
        s->d[i] = isfinite(s->d[i]) ? s->d[i] : 1.0f;
    }
}

/* NaN where the other is NaN, whatever its payload (of two NaN operands an instruction keeps the
 * first, and which one that is belongs to the compiler); all else by its bits. */
static int same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) && !(isnan(a[i]) && isnan(b[i])))
            return 0;
    return 1;
}

static void assert_same(const char *name, const char *level, const struct bench *a,
                        const struct bench *b, size_t at, size_t n)
{
    int same = same_bits(a->out, b->out, ROOM) && same_bits(a->a, b->a, ROOM) &&
               same_bits(a->b, b->b, ROOM) && same_bits(a->c, b->c, ROOM) &&
               same_bits(a->d, b->d, ROOM) && !memcmp(a->bytes, b->bytes, sizeof a->bytes);
    if (!same)
        fail_msg("%s differs between base and %s at offset %zu, n %zu", name, level, at, n);
}

static void compare_levels(int special)
{
    static struct bench expected, got;
    for (int run = 0; run < N_SAME; run++)
        for (int i = 0; i < N_LENGTHS; i++)
            for (size_t at = 2; at < 6; at++) {
                prepare(&expected, special);
                RUNS[run].run(level_table(KERNELS_BASE), &expected, at, LENGTHS[i]);
                for (int level = KERNELS_AVX2; level < LEVELS; level++) {
                    const struct kernels *k = level_table(level);
                    if (!k)
                        continue;
                    prepare(&got, special);
                    RUNS[run].run(k, &got, at, LENGTHS[i]);
                    assert_same(RUNS[run].name, k->name, &expected, &got, at, LENGTHS[i]);
                }
            }
}

static void every_kernel_gives_the_same_bits_at_every_level(void **state)
{
    (void)state;
    compare_levels(0);
    compare_levels(1);
}

static void *compare_flushed(void *arg)
{
    (void)arg;
    kernels_flush_denormals();
    compare_levels(1);
    return NULL;
}

static void the_levels_agree_with_denormals_flushed(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, compare_flushed, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- the same bits on every processor ---- */

/* All NaN count as one: also its sign depends on the processor. */
static void hash_floats(XXH3_state_t *hash, const float *a)
{
    float same[ROOM];
    for (size_t i = 0; i < ROOM; i++)
        same[i] = isnan(a[i]) ? NAN : a[i];
    XXH3_64bits_update(hash, same, sizeof same);
}

static void hash_run(XXH3_state_t *hash, int run, int special)
{
    static struct bench s;
    for (int i = 0; i < N_LENGTHS; i++) {
        prepare(&s, special);
        RUNS[run].run(level_table(KERNELS_BASE), &s, 3, LENGTHS[i]);
        hash_floats(hash, s.a);
        hash_floats(hash, s.b);
        hash_floats(hash, s.c);
        hash_floats(hash, s.d);
        hash_floats(hash, s.out);
        XXH3_64bits_update(hash, s.bytes, sizeof s.bytes);
    }
}

static void *hash_all(void *arg)
{
    uint64_t *bits = arg;
    XXH3_state_t *hash = XXH3_createState();
    kernels_flush_denormals();
    for (int run = 0; run < N_RUNS; run++) {
        XXH3_64bits_reset(hash);
        hash_run(hash, run, 0);
        hash_run(hash, run, 1);
        bits[run] = XXH3_64bits_digest(hash);
    }
    XXH3_freeState(hash);
    return NULL;
}

static void every_kernel_gives_the_noted_bits(void **state)
{
    (void)state;
    uint64_t bits[N_RUNS];
    int differ = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hash_all, bits), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int run = 0; run < N_RUNS; run++)
        if (bits[run] != RUNS[run].bits) {
            print_error("%s: 0x%016" PRIx64 ", noted 0x%016" PRIx64 "\n", RUNS[run].name, bits[run],
                        RUNS[run].bits);
            differ++;
        }
    assert_int_equal(differ, 0);
}

/* ---- accuracy ---- */

/* How many units in the last place of the true value `got` is off. */
static double ulps(float got, double truth)
{
    if (isinf(got) && isinf((float)truth))
        return 0;
    double unit = ldexp(1.0, ilogb(truth) - 23);
    return fabs((double)got - truth) / unit;
}

static double sigmoid_double(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* The worst error over a grid of [from, to], in ulp of the true value. */
static double worst(void (*f)(float *, const float *, size_t), double (*truth)(double), float from,
                    float to)
{
    enum { POINTS = 400000 };
    double most = 0;
    for (int i = 0; i <= POINTS; i++) {
        float x = from + (to - from) * ((float)i / POINTS), y;
        if (x == 0.0f)
            continue;
        f(&y, &x, 1);
        double off = truth((double)x) == 0.0 ? fabs((double)y) * 0x1p23 : ulps(y, truth((double)x));
        most = off > most ? off : most;
    }
    return most;
}

static void exp_and_log_are_within_1_ulp(void **state)
{
    (void)state;
    const struct kernels *k = level_table(KERNELS_BASE);
    assert_true(worst(k->exp, exp, -87.33f, 88.72f) <= 1.0);
    assert_true(worst(k->exp, exp, -1.0f, 1.0f) <= 1.0);
    assert_true(worst(k->log, log, 1e-37f, 1e-6f) <= 1.0);
    assert_true(worst(k->log, log, 1e-6f, 4.0f) <= 1.0);
    assert_true(worst(k->log, log, 4.0f, 3e38f) <= 1.0);
}

static void tanh_is_within_1_5_ulp_and_sigmoid_within_2_5(void **state)
{
    (void)state;
    const struct kernels *k = level_table(KERNELS_BASE);
    assert_true(worst(k->tanh, tanh, -10.0f, 10.0f) <= 1.5);
    assert_true(worst(k->tanh, tanh, -0.7f, 0.7f) <= 1.5);
    assert_true(worst(k->sigmoid, sigmoid_double, -87.0f, 20.0f) <= 2.5);
    assert_true(worst(k->sigmoid, sigmoid_double, -2.0f, 2.0f) <= 2.5);
}

static double gelu_double(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2.0));
}
static double gelu_tanh_double(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
static double silu_double(double x)
{
    return x / (1.0 + exp(-x));
}
static double softplus_double(double x)
{
    return log1p(exp(x));
}
static void elu_1(float *out, const float *a, size_t n)
{
    level_table(KERNELS_BASE)->elu(out, a, 1.0f, n);
}

static void activations_are_within_a_few_ulps(void **state)
{
    (void)state;
    const struct kernels *k = level_table(KERNELS_BASE);
    assert_true(worst(elu_1, expm1, -20.0f, -1e-6f) <= 1.5);
    assert_true(worst(k->gelu, gelu_double, -3.0f, 10.0f) <= 16.0); /* of exp(-x^2 / 2) */
    assert_true(worst(k->gelu, gelu_double, -1.0f, 10.0f) <= 8.0);
    assert_true(worst(k->gelu_tanh, gelu_tanh_double, -1.0f, 10.0f) <= 4.0);
    assert_true(worst(k->silu, silu_double, -80.0f, 20.0f) <= 3.0);
    assert_true(worst(k->softplus, softplus_double, -80.0f, 20.0f) <= 3.0);
}

static float of(void (*f)(float *, const float *, size_t), float x)
{
    float y;
    f(&y, &x, 1);
    return y;
}

static void special_values_are_what_mathematics_says(void **state)
{
    (void)state;
    const struct kernels *k = level_table(KERNELS_BASE);
    assert_true(of(k->exp, 0.0f) == 1.0f && of(k->exp, INFINITY) == INFINITY);
    assert_true(of(k->exp, -INFINITY) == 0.0f && of(k->exp, 89.0f) == INFINITY);
    assert_true(of(k->exp, -1e30f) == 0.0f && of(k->exp, 1e30f) == INFINITY);
    assert_true(of(k->log, 1.0f) == 0.0f && of(k->log, 0.0f) == -INFINITY);
    assert_true(of(k->log, INFINITY) == INFINITY && isnan(of(k->log, -1.0f)));
    assert_true(of(k->tanh, 100.0f) == 1.0f && of(k->tanh, -INFINITY) == -1.0f);
    assert_true(of(k->sigmoid, 0.0f) == 0.5f && of(k->sigmoid, -INFINITY) == 0.0f);
    assert_true(isnan(of(k->exp, NAN)) && isnan(of(k->log, NAN)));
    void (*const more[])(float *, const float *, size_t) = {k->gelu, k->gelu_tanh, k->silu,
                                                            k->softplus};
    for (int i = 0; i < 4; i++) {
        assert_true(isnan(of(more[i], NAN)) && of(more[i], -INFINITY) == 0.0f);
        assert_true(of(more[i], INFINITY) == INFINITY && of(more[i], -1e30f) == 0.0f);
        assert_true(of(more[i], 1e10f) == 1e10f);
    }
    assert_true(isnan(of(elu_1, NAN)) && of(elu_1, -INFINITY) == -1.0f);
    assert_true(isnan(of(k->tanh, NAN)) && isnan(of(k->sigmoid, NAN)));
}

/* ---- meaning ---- */

static void dropout_keeps_its_share_scales_it_and_repeats(void **state)
{
    (void)state;
    enum { N = 200000 };
    static float x[N], again[N];
    static uint8_t mask[N], mask_again[N];
    const struct kernels *k = kernels();
    for (size_t i = 0; i < N; i++)
        x[i] = again[i] = 1.0f;
    k->dropout(x, mask, 42, 0.3f, N);
    k->dropout(again, mask_again, 42, 0.3f, N);
    assert_memory_equal(x, again, sizeof x);
    assert_memory_equal(mask, mask_again, sizeof mask);
    double kept = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(x[i] == (mask[i] ? 1.0f / (1.0f - 0.3f) : 0.0f));
        kept += mask[i];
    }
    assert_true(fabs(kept / N - 0.7) < 5 * sqrt(0.21 / N));
    for (size_t apart = 1; apart < N; apart *= 2) { /* neighbours are independent, and columns */
        double pairs = 0;
        for (size_t i = apart; i < N; i++)
            pairs += mask[i] && mask[i - apart];
        assert_true(fabs(pairs / (double)(N - apart) - 0.49) < 0.01);
    }
}

/* Masks of keys that differ by little, or in one half only, agree no more than chance has it. */
static void dropout_masks_of_other_keys_are_independent(void **state)
{
    (void)state;
    enum { N = 100000 };
    static float x[N];
    static uint8_t mask[N], other[N];
    const uint64_t keys[] = {1, 2, 17, UINT64_C(1) << 32, UINT64_C(1) << 63};
    const struct kernels *k = kernels();
    k->dropout(x, mask, 0, 0.5f, N);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        k->dropout(x, other, keys[i], 0.5f, N);
        for (size_t shift = 0; shift < 20; shift++) {
            double same = 0;
            for (size_t j = shift; j < N; j++)
                same += mask[j] == other[j - shift];
            assert_true(shift == keys[i] || fabs(same / N - 0.5) < 0.01);
        }
    }
}

static void relu_lets_nan_through_in_both_directions(void **state)
{
    (void)state;
    float x[20], bias[20] = {0}, dy[20];
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = level_table(level);
        if (!k)
            continue;
        for (int i = 0; i < 20; i++)
            x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -2.0f : 2.0f, dy[i] = 7.0f;
        k->bias_act(x, x, bias, 1, 1, 20);
        k->relu_backward(dy, x, 20);
        for (int i = 0; i < 20; i++) {
            assert_true(i % 3 == 0 ? isnan(x[i]) : x[i] == (i % 3 == 1 ? 0.0f : 2.0f));
            assert_true(dy[i] == (i % 3 == 1 ? 0.0f : 7.0f));
        }
    }
}

static void sum_and_max_are_right(void **state)
{
    (void)state;
    float a[100];
    for (int i = 0; i < 100; i++)
        a[i] = (float)((i * 37) % 100) - 60.0f;
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = level_table(level);
        if (!k)
            continue;
        assert_true(k->sum(a, 100) == 4950.0 - 6000.0);
        assert_true(k->max(a, 100) == 39.0f);
        double squares = 0;
        for (int i = 0; i < 100; i++)
            squares += (double)a[i] * (double)a[i];
        assert_true(k->sum_squares(a, 100) == squares);
        const float huge[] = {3e38f, -3e38f}, broken[] = {1, INFINITY}, unknown[] = {NAN};
        assert_true(k->sum_squares(huge, 2) > 1.7e77 && isfinite(k->sum_squares(huge, 2)));
        assert_true(!isfinite(k->sum_squares(broken, 2)));
        assert_true(!isfinite(k->sum_squares(unknown, 1)));
        assert_true(k->sum(a, 0) == 0.0 && k->max(a, 0) == -INFINITY);
    }
}

static void int8_clamps_on_both_sides(void **state)
{
    (void)state;
    const float a[] = {3e38f, -3e38f, 1e12f, -1e12f, 128.0f, -129.0f, 126.0f, -126.0f};
    const int8_t expected[] = {127, -127, 127, -127, 127, -127, 126, -126};
    int8_t got[8];
    for (int level = KERNELS_BASE; level < LEVELS; level++) {
        const struct kernels *k = level_table(level);
        if (!k)
            continue;
        k->int8_encode(got, a, 1.0f, 7, 0, 8);
        assert_memory_equal(got, expected, sizeof got);
        k->int8_encode(got, a, 1e-38f, 7, 0, 2); /* infinite after the division */
        assert_memory_equal(got, expected, 2);
    }
}

static void denormals_are_flushed_on_the_thread_that_asks(void **state)
{
    (void)state;
    volatile float small = 1e-38f, tenth = 0.1f;
    assert_true(small * tenth > 0.0f);
    kernels_flush_denormals();
    assert_true(small * tenth == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gives_the_same_bits_at_every_level),
        cmocka_unit_test(the_levels_agree_with_denormals_flushed),
        cmocka_unit_test(every_kernel_gives_the_noted_bits),
        cmocka_unit_test(exp_and_log_are_within_1_ulp),
        cmocka_unit_test(tanh_is_within_1_5_ulp_and_sigmoid_within_2_5),
        cmocka_unit_test(activations_are_within_a_few_ulps),
        cmocka_unit_test(special_values_are_what_mathematics_says),
        cmocka_unit_test(dropout_keeps_its_share_scales_it_and_repeats),
        cmocka_unit_test(dropout_masks_of_other_keys_are_independent),
        cmocka_unit_test(relu_lets_nan_through_in_both_directions),
        cmocka_unit_test(sum_and_max_are_right),
        cmocka_unit_test(int8_clamps_on_both_sides),
        cmocka_unit_test(denormals_are_flushed_on_the_thread_that_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
