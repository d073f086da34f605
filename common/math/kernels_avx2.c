/* The kernels for AVX2 and FMA; compiled with -mavx2 and -mfma. */
#include "common/math/simd.h"

#define KERNELS_LANES 8
#define KERNELS_TABLE kernels_avx2
#define KERNELS_NAME "avx2"
#define KERNELS_SQRT SIMD8_SQRT
#define KERNELS_MAX SIMD8_MAX
#define KERNELS_FMA SIMD8_FMA
#include "common/math/kernels_impl.h"
