/* The kernels for AVX-512 (F, BW, DQ, VL); compiled with these options. */
#include "common/math/simd.h"

#define KERNELS_LANES 16
#define KERNELS_TABLE kernels_avx512
#define KERNELS_NAME "avx512"
#define KERNELS_SQRT SIMD16_SQRT
#define KERNELS_MAX SIMD16_MAX
#define KERNELS_FMA SIMD16_FMA
#include "common/math/kernels_impl.h"
