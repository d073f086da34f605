/* The kernels for AVX2 and FMA; compiled with -mavx2 and -mfma. */
#include <immintrin.h>

#define KERNELS_LANES 8
#define KERNELS_TABLE kernels_avx2
#define KERNELS_NAME "avx2"
#define KERNELS_SQRT(x) ((vf)_mm256_sqrt_ps((__m256)(x)))
#define KERNELS_MAX(a, b) ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define KERNELS_FMA(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "common/math/kernels_impl.h"
