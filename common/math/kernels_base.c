/* The kernels for any x86-64 CPU (SSE2), and for arm64 (NEON). */
#include "common/math/simd.h"

#define KERNELS_LANES 4
#define KERNELS_TABLE kernels_base
#define KERNELS_NAME "base"
#define KERNELS_SQRT SIMD4_SQRT
#define KERNELS_MAX SIMD4_MAX
#define KERNELS_FMA SIMD4_FMA
#include "common/math/kernels_impl.h"
