/* Heap memory whose failure can be provoked by tests (fail the n-th allocation). */
#ifndef GRADWIRE_COMMON_BASE_MEM_H
#define GRADWIRE_COMMON_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

enum { MEM_ALIGN_BYTES = 64 }; /* what BLAS kernels and vector loads want */
enum { MEM_PAGE_BYTES = 4096, MEM_HUGE_PAGE_BYTES = 2 << 20 };

/* Zeroed memory, or NULL. `count * size` is checked. Free with mem_free. */
void *mem_zalloc(size_t count, size_t size);

/* Zeroed floats aligned to MEM_ALIGN_BYTES, room rounded up to a whole line; or NULL. */
float *mem_floats(size_t elems);

/* As realloc, with the product checked; new bytes are not zeroed. NULL leaves `p` as it was. */
void *mem_resize(void *p, size_t count, size_t size);

/* A copy of a string, or NULL. */
char *mem_strdup(const char *s);

void mem_free(void *p);

/* `bytes` of zeroed pages that take memory when they are touched first. NULL: no memory. Free with mem_unmap. */
void *mem_map(size_t bytes);
/* As mem_map, `from` moved to its beginning: no page is copied. NULL leaves `from` as it was. */
void *mem_map_grow(void *from, size_t from_bytes, size_t bytes);
/* What is touched from now on is huge pages, where the system has them: for mappings of many. */
void mem_map_huge(void *p, size_t bytes);
/* Takes NULL. */
void mem_unmap(void *p, size_t bytes);

/* Blocks of MEM_MAP_BYTES and more are the system's own and go back to it when freed; smaller ones stay with the heap until
 * twice as much is free at its end. Without this, glibc has 128 KiB for both until the first mapped block is freed
 * (mallopt(3)), and a thread that frees a queue of 64 KiB segments asks the system for the same pages again each time.
 * Thread: main's, before others start. */
enum { MEM_MAP_BYTES = 1 << 20 };
void mem_init(void);

/* What was freed goes back to the system, as far as it can: at the end of a job, in a process that stays. */
void mem_give_back(void);

/* Tests: make the n-th allocation from now (0 = the next) return NULL; -1 = never.
 * mem_fail_fired says whether it did. Thread: set before threads start. */
void mem_fail_at(long n);
int mem_fail_fired(void);

#endif
