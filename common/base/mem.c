#include "common/base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail_point.h"

static struct fail_point fail = FAIL_POINT_NEVER;

static bool must_fail(void)
{
    return fail_point_hit(&fail);
}

void mem_fail_at(long n)
{
    fail_point_set(&fail, n, ENOMEM);
}

int mem_fail_fired(void)
{
    return fail_point_fired(&fail);
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

void mem_init(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MEM_MAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * MEM_MAP_BYTES);
}

void mem_give_back(void)
{
    (void)malloc_trim(0);
}
