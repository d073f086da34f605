/* The kernels for AVX-512 (F, BW, DQ, VL); compiled with these options. */
#include <immintrin.h>

#define KERNELS_LANES 16
#define KERNELS_TABLE kernels_avx512
#define KERNELS_NAME "avx512"
#define KERNELS_SQRT(x) ((vf)_mm512_sqrt_ps((__m512)(x)))
#define KERNELS_MAX(a, b) ((vf)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define KERNELS_FMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "common/math/kernels_impl.h"
