#include "common/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_countdown = -1;
static atomic_int fail_fired;

static int must_fail(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) < 0)
        return 0;
    if (atomic_fetch_sub(&fail_countdown, 1) != 0)
        return 0;
    atomic_store(&fail_fired, 1);
    return 1;
}

void mem_fail_at(long n)
{
    atomic_store(&fail_fired, 0);
    atomic_store(&fail_countdown, n);
}

int mem_fail_fired(void)
{
    return atomic_load(&fail_fired);
}

void *mem_zalloc(size_t count, size_t size)
{
    return must_fail() ? NULL : calloc(count ? count : 1, size ? size : 1);
}

float *mem_floats(size_t elems)
{
    if (elems > SIZE_MAX / sizeof(float) - MEM_ALIGN_BYTES || must_fail())
        return NULL;
    size_t bytes = (elems * sizeof(float) + MEM_ALIGN_BYTES - 1) & ~(size_t)(MEM_ALIGN_BYTES - 1);
    float *p = aligned_alloc(MEM_ALIGN_BYTES, bytes ? bytes : MEM_ALIGN_BYTES);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *mem_resize(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || must_fail())
        return NULL;
    return realloc(p, bytes ? bytes : 1);
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = must_fail() ? NULL : malloc(n);
    return p ? memcpy(p, s, n) : NULL;
}

void mem_free(void *p)
{
    free(p);
}

void mem_give_back(void)
{
    (void)malloc_trim(0);
}
