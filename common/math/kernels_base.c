/* The kernels for any x86-64 CPU (SSE2). */
#include <immintrin.h>

#define KERNELS_LANES 4
#define KERNELS_TABLE kernels_base
#define KERNELS_NAME "base"
#define KERNELS_SQRT(x) ((vf)_mm_sqrt_ps((__m128)(x)))
#define KERNELS_MAX(a, b) ((vf)_mm_max_ps((__m128)(a), (__m128)(b)))
#define KERNELS_FMA(a, b, c) ((a) * (b) + (c))
#include "common/math/kernels_impl.h"
