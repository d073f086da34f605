#include "common/math/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/math/simd.h"

enum { LEVELS = 3 };

static _Atomic(const struct kernels *) in_use;

#if SIMD_X86
static const struct kernels *const tables[LEVELS] = {&kernels_base, &kernels_avx2, &kernels_avx512};

static int cpu_has(enum kernels_level level)
{
    switch (level) {
    case KERNELS_BASE:
        return 1;
    case KERNELS_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case KERNELS_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
    return 0;
}
#else
static const struct kernels *const tables[LEVELS] = {&kernels_base};

static int cpu_has(enum kernels_level level)
{
    return level == KERNELS_BASE;
}
#endif

static const struct kernels *best(void)
{
    int level = LEVELS - 1;
    while (!cpu_has((enum kernels_level)level))
        level--;
    return tables[level];
}

/* The level named by GRADWIRE_SIMD, or the best one. */
static const struct kernels *chosen(void)
{
    const char *name = getenv("GRADWIRE_SIMD");
    if (!name || !*name)
        return best();
    for (int level = 0; level < LEVELS; level++)
        if (cpu_has((enum kernels_level)level) && !strcmp(name, tables[level]->name))
            return tables[level];
    log_warn("GRADWIRE_SIMD=%s is not base, avx2 or avx512, or this CPU lacks it; using %s", name,
             best()->name);
    return best();
}

const struct kernels *kernels(void)
{
    const struct kernels *k = atomic_load_explicit(&in_use, memory_order_relaxed);
    if (!k) {
        k = chosen();
        atomic_store_explicit(&in_use, k, memory_order_relaxed);
    }
    return k;
}

const struct kernels *kernels_use(enum kernels_level level)
{
    if (!cpu_has(level))
        return NULL;
    atomic_store_explicit(&in_use, tables[level], memory_order_relaxed);
    return tables[level];
}

void kernels_flush_denormals(void)
{
    simd_flush();
}

unsigned kernels_flush_begin(void)
{
    return simd_flush();
}

void kernels_flush_end(unsigned was)
{
    simd_restore(was);
}
