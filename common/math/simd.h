/* All of the kernels that depends on the processor: the intrinsics of x86-64 and of arm64, and what they must agree on.
 * The other code uses the compiler's vectors, which are the same for both. Two processors are known; a third one needs the
 * part for 4 lanes.
 *   SIMDn_SQRT(x)       square roots of n floats
 *   SIMDn_MAX(a, b)     a where a > b, b elsewhere; a denormal is 0 where the thread flushes denormals
 *   SIMDn_FMA(a, b, c)  a b + c; 4 lanes round twice, as an x86-64 CPU of any age can
 *   simd_equal_LEVEL    which of 64 bytes equal `byte`: bit i for p[i]
 *   simd_flush          sets flush-to-zero for results and operands, of the calling thread, and returns the state that
 *                       simd_restore takes */
#pragma once

#include <stdint.h>

#define SIMD_INLINE static inline __attribute__((always_inline))
#define SIMD4_FMA(a, b, c) ((a) * (b) + (c))

#if defined __x86_64__

#include <immintrin.h>

#define SIMD_X86 1
#define SIMD4_SQRT(x) ((vf)_mm_sqrt_ps((__m128)(x)))
#define SIMD4_MAX(a, b) ((vf)_mm_max_ps((__m128)(a), (__m128)(b)))
#define SIMD8_SQRT(x) ((vf)_mm256_sqrt_ps((__m256)(x)))
#define SIMD8_MAX(a, b) ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SIMD8_FMA(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define SIMD16_SQRT(x) ((vf)_mm512_sqrt_ps((__m512)(x)))
#define SIMD16_MAX(a, b) ((vf)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SIMD16_FMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))

SIMD_INLINE uint64_t simd_equal_base(const char *p, char byte)
{
    uint64_t m = 0;
    const __m128i wanted = _mm_set1_epi8(byte);
    for (int i = 0; i < 4; i++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
        m |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, wanted)) << (16 * i);
    }
    return m;
}

__attribute__((target("avx2"))) SIMD_INLINE uint64_t simd_equal_avx2(const char *p, char byte)
{
    const __m256i wanted = _mm256_set1_epi8(byte);
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
    uint32_t a = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted));
    uint32_t b = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted));
    return a | (uint64_t)b << 32;
}

__attribute__((target("avx512f,avx512bw"))) SIMD_INLINE uint64_t simd_equal_avx512(const char *p,
                                                                                   char byte)
{
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8(byte));
}

SIMD_INLINE unsigned simd_flush(void)
{
    const unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040, was = _mm_getcsr();
    _mm_setcsr(was | flush_to_zero | denormals_are_zero);
    return was;
}

SIMD_INLINE void simd_restore(unsigned was)
{
    _mm_setcsr(was);
}

#elif defined __aarch64__

#include <arm_neon.h>

#define SIMD_X86 0
#define SIMD4_SQRT(x) ((vf)vsqrtq_f32((float32x4_t)(x)))
#define SIMD4_MAX(a, b) ((vf)simd_max((float32x4_t)(a), (float32x4_t)(b)))

/* arm64's own maximum of 0 and -0, and of NaN and a number, is another than x86-64's. Here it only flushes denormals. */
SIMD_INLINE float32x4_t simd_max(float32x4_t a, float32x4_t b)
{
    float32x4_t larger = vbslq_f32(vcgtq_f32(a, b), a, b);
    return vmaxq_f32(larger, larger);
}

/* Each pairwise addition joins the bits of neighbouring bytes. */
SIMD_INLINE uint64_t simd_equal_base(const char *p, char byte)
{
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t wanted = vdupq_n_u8((uint8_t)byte), bit = vld1q_u8(bits);
    uint8x16_t v[4];
    for (int i = 0; i < 4; i++)
        v[i] = vandq_u8(vceqq_u8(vld1q_u8((const uint8_t *)p + 16 * i), wanted), bit);
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(v[0], v[1]), vpaddq_u8(v[2], v[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
}

/* FPCR's upper half has no bits that are in use. */
SIMD_INLINE unsigned simd_flush(void)
{
    const uint64_t flush_to_zero = UINT64_C(1) << 24;
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    __asm__ volatile("msr fpcr, %0" : : "r"(was | flush_to_zero));
    return (unsigned)was;
}

SIMD_INLINE void simd_restore(unsigned was)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)was));
}

#else
#error "common/math/simd.h knows x86-64 and arm64"
#endif
