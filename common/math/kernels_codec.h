/* Part of kernels_impl.h: the kernels of the codecs (common/codec/codec.h). Number formats are converted with
 * integer arithmetic, so that neither flush-to-zero nor the CPU's own conversions affect the bits. */

typedef uint16_t vh __attribute__((vector_size(KERNELS_LANES * 2)));
typedef int8_t vq __attribute__((vector_size(KERNELS_LANES)));

INLINE vu pick_bits(vi mask, vu yes, vu no)
{
    return (vu)((mask & (vi)yes) | (~mask & (vi)no));
}

/* Rounds to nearest, ties to even. From 0x1p-14 on, an integer addition rebiases the exponent and rounds the
 * mantissa. Below, adding 0.5 makes the adder round to a multiple of 2^-24, fp16's smallest step. */
INLINE vu half_of(vf x)
{
    vu bits = (vu)x, sign = bits & 0x80000000u;
    vi a = (vi)(bits ^ sign);
    vu normal = ((vu)a + 0xc8000fffu + (((vu)a >> 13) & 1u)) >> 13;
    vu small = (vu)((vf)a + 0.5f) - 0x3f000000u;
    vu h = pick_bits(a < 0x38800000, small, normal);
    h = pick_bits(a >= 0x477ff000, (vu)all_int(0x7bff), h);
    h = pick_bits(a == 0x7f800000, (vu)all_int(0x7c00), h);
    h = pick_bits(a > 0x7f800000, (vu)all_int(0x7e00), h);
    return h | sign >> 16;
}

INLINE vf half_value(vu h)
{
    vu o = (h & 0x7fffu) << 13, e = o & 0x0f800000u;
    vf small = (vf)(o + 0x38800000u) - 0x1p-14f;
    o = pick_bits((vi)e == 0x0f800000, o + 0x70000000u, o + 0x38000000u);
    o = pick_bits((vi)e == 0, (vu)small, o);
    return (vf)(o | (h & 0x8000u) << 16);
}

INLINE vu bfloat_of(vf x)
{
    vu bits = (vu)x;
    vu rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return pick_bits((vi)(bits & 0x7fffffffu) > 0x7f800000, bits >> 16 | 0x40u, rounded);
}

INLINE vf bfloat_value(vu h)
{
    return (vf)(h << 16);
}

#define TO_HALVES(name, of)                                                                        \
    static void name(uint8_t *out, const float *a, size_t n)                                       \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + LANES <= n; i += LANES) {                                                       \
            vh h = __builtin_convertvector(of(load(a + i)), vh);                                   \
            memcpy(out + 2 * i, &h, sizeof h);                                                     \
        }                                                                                          \
        if (i < n) {                                                                               \
            vh h = __builtin_convertvector(of(load_part(a + i, n - i)), vh);                       \
            memcpy(out + 2 * i, &h, 2 * (n - i));                                                  \
        }                                                                                          \
    }
#define FROM_HALVES(name, value)                                                                   \
    static void name(float *out, const uint8_t *a, size_t n)                                       \
    {                                                                                              \
        size_t i = 0;                                                                              \
        vh h = {0};                                                                                \
        for (; i + LANES <= n; i += LANES) {                                                       \
            memcpy(&h, a + 2 * i, sizeof h);                                                       \
            store(out + i, value(__builtin_convertvector(h, vu)));                                 \
        }                                                                                          \
        if (i < n) {                                                                               \
            memcpy(&h, a + 2 * i, 2 * (n - i));                                                    \
            store_part(out + i, value(__builtin_convertvector(h, vu)), n - i);                     \
        }                                                                                          \
    }
TO_HALVES(code_fp16, half_of)
TO_HALVES(code_bf16, bfloat_of)
FROM_HALVES(decode_fp16, half_value)
FROM_HALVES(decode_bf16, bfloat_value)

/* floor(x / s + u), u = hash(key, position) / 2^24 */
INLINE vq quantum_of(vf x, float s, size_t position, uint64_t key)
{
    vu at = positions(position);
    vf u =
        __builtin_convertvector((vi)(hash_of(at, (uint32_t)key, (uint32_t)(key >> 32)) >> 8), vf) *
        0x1p-24f;
    vf t = x / s + u;
    /* processors differ in what a number outside of int32_t becomes */
    t = pick(t < 127.0f, t, all(127.0f));
    t = pick(t > -127.0f, t, all(-127.0f));
    vi q = __builtin_convertvector(t, vi);
    /* floor: where rounding went up, the comparison's mask adds -1 */
    q += __builtin_convertvector(q, vf) > t;
    return __builtin_convertvector(q, vq);
}

static void code_int8(int8_t *out, const float *a, float s, uint64_t key, size_t position, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vq q = quantum_of(load(a + i), s, position + i, key);
        memcpy(out + i, &q, sizeof q);
    }
    if (i < n) {
        vq q = quantum_of(load_part(a + i, n - i), s, position + i, key);
        memcpy(out + i, &q, n - i);
    }
}

/* Scalar code: compilers vectorize the conversion from bytes better than our vector types do. */
static void decode_int8(float *restrict out, const int8_t *restrict a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)a[i] * s;
}

/* Returns the bits of the largest |a[i]|: as integers, inf and NaN are above all numbers. */
static uint32_t reduce_abs_bits(const float *a, size_t n)
{
    vi max = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vi bits = (vi)((vu)load(a + i) & 0x7fffffffu);
        max = (vi)pick_bits(bits > max, (vu)bits, (vu)max);
    }
    if (i < n) {
        vi bits = (vi)((vu)load_part(a + i, n - i) & 0x7fffffffu);
        max = (vi)pick_bits(bits > max, (vu)bits, (vu)max);
    }
    int32_t most = 0;
    for (size_t k = 0; k < LANES; k++)
        most = max[k] > most ? max[k] : most;
    return (uint32_t)most;
}
