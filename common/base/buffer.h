/* A pool of reference-counted float buffers. It hands out the buffer that was freed last, because that one is most
 * likely still in the CPU's cache. Reusing receive buffers doubles the rate of large pushes: page faults on fresh
 * memory cost more than the copy. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { BUFFER_CLASSES = 32, BUFFER_KEEP_MAX = 64 };

struct buffer {
    struct buffer_pool *pool;
    struct buffer *next; /* in the pool's free list */
    uint32_t refs, size_class;
    float *data; /* aligned to 64 bytes */
};

/* Initialize it with zeros. Thread: only one thread can use a pool and its buffers. */
struct buffer_pool {
    struct buffer *free[BUFFER_CLASSES]; /* indexed by size class: 2^i floats */
    uint32_t kept[BUFFER_CLASSES];
};

/* Returns a buffer of at least `elems` floats with one reference and unspecified contents, or NULL if memory runs
 * out. */
struct buffer *buffer_acquire(struct buffer_pool *pool, size_t elems);
void buffer_ref(struct buffer *b);
/* Without references, the buffer returns to its pool, or is freed if the pool keeps BUFFER_KEEP_MAX of its size. NULL
 * is ignored. */
void buffer_unref(struct buffer *b);
/* Frees the pool's buffers. The caller must have released every buffer before. */
void buffer_pool_close(struct buffer_pool *pool);
