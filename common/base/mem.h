/* Heap memory. Tests can make the n-th allocation fail. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { MEM_ALIGN_BYTES = 64 }; /* BLAS kernels and vector loads need it */
enum { MEM_HUGE_PAGE_BYTES = 2 << 20 };

/* Returns zeroed memory, or NULL; an overflow of `count * size` gives NULL. Free with mem_free. */
void *mem_zalloc(size_t count, size_t size);

/* Returns zeroed floats aligned to MEM_ALIGN_BYTES, or NULL. The size is rounded up to a multiple of
 * MEM_ALIGN_BYTES. Free with mem_free. */
float *mem_floats(size_t elems);

/* As mem_resize of NULL. A block of MEM_HUGE_PAGE_BYTES and more is in huge pages, if the system has them: worth it for one that is
 * filled soon. */
void *mem_huge(size_t count, size_t size);

/* As realloc, but an overflow of `count * size` gives NULL, too. New bytes are not zeroed. On NULL, `p` is
 * unchanged. */
void *mem_resize(void *p, size_t count, size_t size);

/* Arrays that grow by doubling, from 16 elements on. Both return `p`, or where it is moved to; on NULL, as mem_resize.
 * mem_grow: an array with room for *capacity elements, and now for `need` > 0, too.
 * mem_extend: an array of `n` elements and, from now on, `more` > 0. Its capacity follows from n, so only mem_extend may have
 * allocated it. */
void *mem_grow(void *p, size_t *capacity, size_t need, size_t size);
void *mem_extend(void *p, size_t n, size_t more, size_t size);

/* Returns a copy of the string, or NULL. Free with mem_free. */
char *mem_strdup(const char *s);

void mem_free(void *p); /* NULL is ignored */

/* Maps `bytes` of zeroed pages; each page uses memory only after its first access. Returns NULL if memory runs
 * out. Free with mem_unmap. */
void *mem_map(size_t bytes);
/* Returns a larger mapping that begins with the pages of `from` (NULL: none); no page is copied. Afterwards `from` is
 * no longer valid. On NULL, `from` is unchanged. */
void *mem_map_grow(void *from, size_t from_bytes, size_t bytes);
/* Unmap the end of a mapping: the pages of its first `bytes` stay. From now on mem_unmap takes `bytes`. */
void mem_map_shrink(void *p, size_t from_bytes, size_t bytes);
/* Set a part of a mapping to zero. Its whole pages return to the system until they are accessed again. */
void mem_map_zero(void *p, size_t bytes);
/* Use huge pages, if the system has them, for pages that are first accessed after this call. Worth it for large
 * mappings. */
void mem_map_huge(void *p, size_t bytes);
/* `bytes`: as given to mem_map or mem_map_grow. `p` can be NULL. */
void mem_unmap(void *p, size_t bytes);

/* Configures glibc's malloc. Blocks of MEM_MAP_BYTES and more are mapped separately and return to the system when
 * freed. Smaller blocks stay in the heap until twice as much is free at its end. By default, both limits are 128
 * KiB until the first mapped block is freed (mallopt(3)): a thread that frees a queue of 64 KiB segments would
 * request the same pages from the system again each time. Thread: main's, before others start. */
enum { MEM_MAP_BYTES = 1 << 20 };
void mem_init(void);

/* Return freed memory to the system as far as possible. For a process that stays up after its job has ended. */
void mem_give_back(void);

/* Tests: make the n-th allocation from now (0 = the next) return NULL; -1: none. mem_fail_fired returns nonzero if
 * that happened. Thread: any. */
void mem_fail_at(long n);
int mem_fail_fired(void);

/* Fault injection for tests: one call of a module fails on purpose. A test repeats the same run with n = 0, 1, 2, ...,
 * where call n fails, until a run ends without a failed call. Thread: any. */

struct fail_point {
    atomic_long countdown; /* calls left before the failure; negative: never */
    atomic_int error, fired;
};

#define FAIL_POINT_NEVER                                                                           \
    {                                                                                              \
        .countdown = -1                                                                            \
    }

/* The n-th call from now (0 = the next) fails with `error` (an errno value). n = -1: no call fails. */
void fail_point_set(struct fail_point *f, long n, int error);

/* Nonzero if the call that fail_point_set chose has failed. */
int fail_point_fired(struct fail_point *f);

/* Counts a call. Returns true, with errno set, if this call must fail. */
bool fail_point_hit(struct fail_point *f);
