/* The heap, with a fail point in front of each allocation; and large blocks as mappings of their own, which grow without being copied
 * and can be given back to the system. */
#include "common/base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fail_point_set(struct fail_point *f, long n, int error)
{
    atomic_store(&f->fired, 0);
    atomic_store(&f->error, error);
    atomic_store(&f->countdown, n);
}

int fail_point_fired(struct fail_point *f)
{
    return atomic_load(&f->fired);
}

bool fail_point_hit(struct fail_point *f)
{
    if (atomic_load_explicit(&f->countdown, memory_order_relaxed) < 0)
        return false;
    if (atomic_fetch_sub(&f->countdown, 1) != 0)
        return false;
    atomic_store(&f->fired, 1);
    errno = atomic_load(&f->error);
    return true;
}

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

void *mem_huge(size_t count, size_t size)
{
    size_t bytes;
    void *p;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes < MEM_HUGE_PAGE_BYTES)
        return mem_resize(NULL, count, size);
    if (must_fail() || posix_memalign(&p, MEM_HUGE_PAGE_BYTES, bytes) != 0)
        return NULL;
    mem_map_huge(p, bytes);
    return p;
}

void *mem_resize(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || must_fail())
        return NULL;
    return realloc(p, bytes ? bytes : 1);
}

/* Of an array that has grown to n > 0 elements: 16, 32, 64... */
static size_t doubled(size_t n)
{
    size_t capacity = 16;
    while (capacity < n)
        capacity = capacity > SIZE_MAX / 2 ? SIZE_MAX : 2 * capacity;
    return capacity;
}

void *mem_grow(void *p, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return p;
    void *grown = mem_resize(p, doubled(need), size);
    if (grown)
        *capacity = doubled(need);
    return grown;
}

void *mem_extend(void *p, size_t n, size_t more, size_t size)
{
    size_t capacity = n ? doubled(n) : 0;
    if (more > SIZE_MAX - n)
        return NULL;
    return mem_grow(p, &capacity, n + more, size);
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

/* 4 KiB on x86-64; 4, 16 or 64 KiB on arm64, as the kernel was built */
static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Maps whole pages at a multiple of `align`, which must be a multiple of the page size. */
static char *map_aligned(size_t bytes, size_t align)
{
    size_t all = bytes + align - page_bytes();
    char *p =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *begin = p + (align - (uintptr_t)p % align) % align;
    mem_unmap(p, (size_t)(begin - p));
    mem_unmap(begin + bytes, all - bytes - (size_t)(begin - p));
    return begin;
}

static size_t whole_pages(size_t bytes)
{
    const size_t page = page_bytes();
    return (bytes + page - 1) & ~(page - 1);
}

void *mem_map(size_t bytes)
{
    if (bytes > SIZE_MAX / 2 || must_fail())
        return NULL;
    bytes = whole_pages(bytes ? bytes : 1);
    return map_aligned(bytes, bytes < MEM_HUGE_PAGE_BYTES ? page_bytes() : MEM_HUGE_PAGE_BYTES);
}

void *mem_map_grow(void *from, size_t from_bytes, size_t bytes)
{
    void *to = mem_map(bytes);
    if (!to || !from)
        return to;
    size_t moved = whole_pages(from_bytes);
    if (mremap(from, moved, moved, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
        return to;
    mem_unmap(to, bytes);
    return NULL;
}

void mem_map_shrink(void *p, size_t from_bytes, size_t bytes)
{
    size_t kept = whole_pages(bytes);
    if (kept < whole_pages(from_bytes))
        (void)munmap((char *)p + kept, whole_pages(from_bytes) - kept);
}

void mem_map_zero(void *p, size_t bytes)
{
    const size_t page = page_bytes();
    char *begin = p, *end = begin + bytes;
    char *first = begin + (page - (uintptr_t)begin % page) % page;
    char *last = end - (uintptr_t)end % page;
    if (first >= last || madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) {
        memset(begin, 0, bytes);
        return;
    }
    memset(begin, 0, (size_t)(first - begin));
    memset(last, 0, (size_t)(end - last));
}

void mem_map_huge(void *p, size_t bytes)
{
    /* without huge pages, small ones are used */
    (void)madvise(p, whole_pages(bytes), MADV_HUGEPAGE);
}

void mem_unmap(void *p, size_t bytes)
{
    if (p && bytes)
        (void)munmap(p, whole_pages(bytes));
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
