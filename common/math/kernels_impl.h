/* The kernels, compiled once per level by kernels_{base,avx2,avx512}.c, which define KERNELS_LANES (floats in a
 * vector: 4, 8, 16), KERNELS_TABLE (the table's name), KERNELS_NAME, KERNELS_SQRT,
 * KERNELS_MAX(a, b), which is a where a > b, and b elsewhere, and KERNELS_FMA(a, b, c), which is a b + c.
 * The bits are the same at every level for three reasons. Each element goes through the same IEEE operations in the
 * same order: no contraction, no approximate instruction. A tail goes through the same vector code, padded with
 * zeros. Reductions keep 16 partial sums whatever the vector's width, and combine them in one order. The vectors are
 * gcc's and clang's "vector extensions"; both compilers emit one instruction per operation.
 * exp, log and tanh are Cephes's single-precision functions (Moshier, Cephes 2.2, expf.c, logf.c, tanhf.c). */
#include <math.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/real.h"

enum { LANES = KERNELS_LANES, REDUCE_LANES = 16, PARTS = REDUCE_LANES / LANES };

typedef float vf __attribute__((vector_size(KERNELS_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(KERNELS_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(KERNELS_LANES * 4)));
typedef uint8_t vb __attribute__((vector_size(KERNELS_LANES)));
typedef double vd __attribute__((vector_size(KERNELS_LANES * 8)));

#define INLINE static inline __attribute__((always_inline))

/* ---- load, store, select ---- */

INLINE vf load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

/* Loads k < LANES elements; the other lanes are 0. */
INLINE vf load_part(const float *p, size_t k)
{
    float room[LANES] = {0};
    for (size_t i = 0; i < k; i++)
        room[i] = p[i];
    return load(room);
}

INLINE void store_part(float *p, vf v, size_t k)
{
    float room[LANES];
    store(room, v);
    for (size_t i = 0; i < k; i++)
        p[i] = room[i];
}

INLINE vf all(float x)
{
    return x - (vf){0};
}

INLINE vi all_int(int32_t x)
{
    return x - (vi){0};
}

INLINE vf pick(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

/* `yes` where the mask is set, 0 elsewhere */
INLINE vf keep(vi mask, vf yes)
{
    return (vf)(mask & (vi)yes);
}

/* ---- math functions of one vector ---- */

INLINE vf power_of_two(vi n)
{
    return (vf)((vu)(n + 127) << 23);
}

/* exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2: Cephes expf.c. 2^n is applied as two factors, so that
 * n = 128 works. Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits. */
INLINE vf exp_of(vf x)
{
    const float shift = 12582912.0f;
    vf shifted = x * 1.44269504088896341f + shift;
    vf n = shifted - shift;
    vi k = (vi)((vu)shifted - (vu)all(shift));
    vf r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    vf p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    vf y = p * (r * r) + r + 1.0f;
    vi half = k >> 1;
    y = y * power_of_two(half) * power_of_two((vi)((vu)k - (vu)half));
    y = keep(x >= -87.33654f, y);
    y = pick(x > 88.72283f, all(INFINITY), y);
    return pick(x != x, x, y);
}

/* log(x) = e ln 2 + log(m), m in [sqrt(1/2), sqrt(2)): Cephes logf.c. A denormal is treated as 0. */
INLINE vf log_of(vf x)
{
    vi bits = (vi)x;
    vi e = (bits >> 23) - 126;
    vf m = (vf)((bits & 0x007fffff) | 0x3f000000);
    vi low = m < 0.707106781186547524f;
    e = e + low; /* a set mask is -1 */
    vf r = m + keep(low, m) - 1.0f;
    vf z = r * r;
    vf p = all(7.0376836292e-2f);
    p = p * r + -1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r + -1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r + -1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r + -2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    vf n = __builtin_convertvector(e, vf);
    vf y = p * r * z + n * -2.12194440e-4f - z * 0.5f;
    y = (r + y) + n * 0.693359375f;
    y = pick(x == INFINITY, x, y);
    y = pick((bits & 0x7fffffff) < 0x00800000, all(-INFINITY), y);
    y = pick((bits < 0) & ((bits & 0x7fffffff) >= 0x00800000), all(NAN), y);
    return pick(x != x, x, y);
}

/* Cephes tanhf.c: an odd polynomial for |x| < 0.625, otherwise 1 - 2 / (exp(2|x|) + 1) with the sign of x. */
INLINE vf tanh_of(vf x)
{
    vi sign = (vi)x & all_int(INT32_MIN);
    vf a = (vf)((vi)x & 0x7fffffff);
    vf large = 1.0f - 2.0f / (exp_of(a + a) + 1.0f);
    large = (vf)((vi)large | sign);
    vf z = x * x;
    vf p = all(-5.70498872745e-3f);
    p = p * z + 2.06390887954e-2f;
    p = p * z + -5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z + -3.33332819422e-1f;
    vf y = pick(a < 0.625f, p * z * x + x, large);
    return pick(x != x, x, y);
}

INLINE vf sigmoid_of(vf x)
{
    vf y = 1.0f / (1.0f + exp_of(-x));
    return pick(x != x, x, y);
}

/* ---- elementwise ---- */

#define MAP(name, params, value)                                                                   \
    static void name params                                                                        \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + LANES <= n; i += LANES) {                                                       \
            vf x = load(a + i);                                                                    \
            store(out + i, value);                                                                 \
        }                                                                                          \
        if (i < n) {                                                                               \
            vf x = load_part(a + i, n - i);                                                        \
            store_part(out + i, value, n - i);                                                     \
        }                                                                                          \
    }
MAP(map_scale, (float *out, const float *a, float s, size_t n), x *s)
MAP(map_exp, (float *out, const float *a, size_t n), exp_of(x))
MAP(map_log, (float *out, const float *a, size_t n), log_of(x))
MAP(map_tanh, (float *out, const float *a, size_t n), tanh_of(x))
MAP(map_sigmoid, (float *out, const float *a, size_t n), sigmoid_of(x))

static void map_add(float *out, const float *a, const float *b, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, load(a + i) + load(b + i));
    for (; i < n; i++)
        out[i] = a[i] + b[i];
}

static void map_add_scaled(float *sum, const float *a, float s, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(sum + i, load(sum + i) + load(a + i) * s);
    for (; i < n; i++)
        sum[i] = sum[i] + a[i] * s;
}

static void map_average(float *average, const float *w, float momentum, size_t n)
{
    const float rest = 1.0f - momentum;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(average + i, load(average + i) * momentum + load(w + i) * rest);
    for (; i < n; i++)
        average[i] = average[i] * momentum + w[i] * rest;
}

static void map_u8_to_float(float *restrict out, const uint8_t *restrict a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)a[i] * s;
}

/* ---- optimizers ---- */

#include "common/math/kernels_optimizers.h"

/* ---- layers ---- */

/* NaN stays NaN, so that the NaN guard sees it. */
INLINE vf relu_of(vf x)
{
    return (vf)((vi)x & ~(x <= 0.0f));
}

INLINE float relu_of_one(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

static void bias_row(float *out, const float *x, const float *bias, int relu, size_t cols)
{
    size_t i = 0;
    for (; i + LANES <= cols; i += LANES) {
        vf z = load(x + i) + load(bias + i);
        store(out + i, relu ? relu_of(z) : z);
    }
    for (; i < cols; i++) {
        float z = x[i] + bias[i];
        out[i] = relu ? relu_of_one(z) : z;
    }
}

static void map_bias_act(float *out, const float *x, const float *bias, int relu, size_t rows,
                         size_t cols)
{
    for (size_t row = 0; row < rows; row++)
        bias_row(out + row * cols, x + row * cols, bias, relu, cols);
}

static void map_relu_backward(float *dy, const float *y, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(dy + i, (vf)((vi)load(dy + i) & ~(load(y + i) <= 0.0f)));
    for (; i < n; i++)
        dy[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

#include "common/math/kernels_activations.h"

INLINE vu hash_of(vu position, uint32_t low, uint32_t high)
{
    vu h = position + low;
    h = (h ^ (h >> 17)) * 0xed5ad4bbu;
    h ^= high;
    h = (h ^ (h >> 11)) * 0xac4c1b51u;
    h = (h ^ (h >> 15)) * 0x31848babu;
    return h ^ (h >> 14);
}

/* first, first + 1, ... */
INLINE vu positions(size_t first)
{
    static const uint32_t iota[REDUCE_LANES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                8, 9, 10, 11, 12, 13, 14, 15};
    vu position;
    memcpy(&position, iota, sizeof position);
    return position + (uint32_t)first;
}

/* The mask is set where the element is kept. 31 bits, so that a signed comparison works. */
INLINE vi dropout_keeps(size_t first, uint64_t key, float rate)
{
    vu h = hash_of(positions(first), (uint32_t)key, (uint32_t)(key >> 32));
    return (vi)(h >> 1) >= (int32_t)((double)rate * 0x1p31);
}

static void map_dropout(float *x, uint8_t *mask, uint64_t key, float rate, size_t n)
{
    const float scale = 1.0f / (1.0f - rate);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vi kept = dropout_keeps(i, key, rate);
        vb bytes = __builtin_convertvector((vu)kept & 1u, vb);
        memcpy(mask + i, &bytes, sizeof bytes);
        store(x + i, keep(kept, load(x + i) * scale));
    }
    if (i < n) {
        vi kept = dropout_keeps(i, key, rate);
        store_part(x + i, keep(kept, load_part(x + i, n - i) * scale), n - i);
        for (size_t k = 0; i + k < n; k++)
            mask[i + k] = (uint8_t)(kept[k] & 1);
    }
}

/* Scalar code: compilers vectorize the conversion from bytes better than our vector types do. */
static void map_dropout_backward(float *restrict dx, const uint8_t *restrict mask, float rate,
                                 size_t n)
{
    const float scale = 1.0f / (1.0f - rate);
    for (size_t i = 0; i < n; i++) {
        float scaled = dx[i] * scale;
        uint32_t bits;
        memcpy(&bits, &scaled, sizeof bits);
        bits &= 0u - mask[i];
        memcpy(dx + i, &bits, sizeof bits);
    }
}

/* ---- reductions ---- */

/* Keeps the sums of four vectors of columns in registers; each column is summed in row order. */
static void map_column_sums(float *out, const float *x, size_t rows, size_t cols)
{
    enum { BLOCK = 4 };
    size_t col = 0;
    for (; col + BLOCK * LANES <= cols; col += BLOCK * LANES) {
        vf sum[BLOCK] = {{0}};
        for (size_t row = 0; row < rows; row++)
            for (size_t b = 0; b < BLOCK; b++)
                sum[b] += load(x + row * cols + col + b * LANES);
        for (size_t b = 0; b < BLOCK; b++)
            store(out + col + b * LANES, sum[b]);
    }
    for (size_t c = col; c < cols; c++)
        out[c] = 0.0f;
    for (size_t row = 0; row < rows; row++)
        for (size_t c = col; c < cols; c++)
            out[c] += x[row * cols + c];
}

INLINE vf larger(vf a, vf b)
{
    return pick(a > b, a, b);
}

static float reduce_max(const float *a, size_t n)
{
    vf max[PARTS];
    for (size_t p = 0; p < PARTS; p++)
        max[p] = all(-INFINITY);
    size_t i = 0;
    for (; i + REDUCE_LANES <= n; i += REDUCE_LANES)
        for (size_t p = 0; p < PARTS; p++)
            max[p] = larger(load(a + i + p * LANES), max[p]);
    float lane[REDUCE_LANES];
    for (size_t p = 0; p < PARTS; p++)
        store(lane + p * LANES, max[p]);
    for (size_t k = 0; i + k < n; k++)
        lane[k] = a[i + k] > lane[k] ? a[i + k] : lane[k];
    for (size_t width = REDUCE_LANES / 2; width; width /= 2)
        for (size_t k = 0; k < width; k++)
            lane[k] = lane[k + width] > lane[k] ? lane[k + width] : lane[k];
    return lane[0];
}

/* The sum of the elements, or of their squares. */
INLINE double sum_of(const float *a, size_t n, bool squares)
{
    vd sum[PARTS];
    memset(sum, 0, sizeof sum);
    size_t i = 0;
    for (; i + REDUCE_LANES <= n; i += REDUCE_LANES) {
        for (size_t p = 0; p < PARTS; p++) {
            vd x = __builtin_convertvector(load(a + i + p * LANES), vd);
            sum[p] += squares ? x * x : x;
        }
    }
    double lane[REDUCE_LANES];
    memcpy(lane, sum, sizeof lane);
    for (size_t k = 0; i + k < n; k++)
        lane[k] += squares ? (double)a[i + k] * (double)a[i + k] : (double)a[i + k];
    for (size_t width = REDUCE_LANES / 2; width; width /= 2)
        for (size_t k = 0; k < width; k++)
            lane[k] += lane[k + width];
    return lane[0];
}

static double reduce_sum(const float *a, size_t n)
{
    return sum_of(a, n, false);
}

static double reduce_sum_squares(const float *a, size_t n)
{
    return sum_of(a, n, true);
}

#include "common/math/kernels_codec.h"
#include "common/math/kernels_image.h"
#include "common/math/kernels_dense.h"

const struct kernels KERNELS_TABLE = {
    .name = KERNELS_NAME,
    .add = map_add,
    .add_scaled = map_add_scaled,
    .scale = map_scale,
    .average = map_average,
    .u8_to_float = map_u8_to_float,
#define STEP(NUMBER, name, ...) [STEP_##NUMBER] = update_##name,
    .step = {OPTIMIZER_STEPS(STEP)},
#define STEP_ROWS(NUMBER, name, ...) [STEP_##NUMBER] = update_rows_##name,
    .step_rows = {OPTIMIZER_STEPS(STEP_ROWS)},
    .lamb_direction = lamb_direction,
    .exp = map_exp,
    .log = map_log,
    .tanh = map_tanh,
    .sigmoid = map_sigmoid,
    .elu = map_elu,
    .gelu = map_gelu,
    .gelu_tanh = map_gelu_tanh,
    .silu = map_silu,
    .softplus = map_softplus,
    .gelu_backward = map_gelu_backward,
    .gelu_tanh_backward = map_gelu_tanh_backward,
    .silu_backward = map_silu_backward,
    .softplus_backward = map_softplus_backward,
    .bias_act = map_bias_act,
    .relu_backward = map_relu_backward,
    .dropout = map_dropout,
    .dropout_backward = map_dropout_backward,
    .column_sums = map_column_sums,
    .max = reduce_max,
    .sum = reduce_sum,
    .sum_squares = reduce_sum_squares,
    .fp16_encode = code_fp16,
    .fp16_decode = decode_fp16,
    .bf16_encode = code_bf16,
    .bf16_decode = decode_bf16,
    .int8_encode = code_int8,
    .int8_decode = decode_int8,
    .abs_bits = reduce_abs_bits,
    .conv = image_conv,
    .conv_dw = image_conv_dw,
    .max_pool = image_max_pool,
    .max_unpool = image_max_unpool,
    .conv_pool = image_conv_pool,
    .dense = map_dense,
    .dense_one = map_dense_one,
};
