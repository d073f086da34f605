/* Reference-counted float buffers from a pool: the last one freed is the next one given, while it is still in the
 * cache. Reused receive buffers double the rate of large pushes (fresh pages cost more than the copy). */
#ifndef GRADWIRE_COMMON_BASE_BUFFER_H
#define GRADWIRE_COMMON_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

enum { BUFFER_CLASSES = 32, BUFFER_KEEP_MAX = 64 };

struct buffer {
    struct buffer_pool *pool;
    struct buffer *next; /* in the pool's free list */
    uint32_t refs, size_class;
    float *data; /* aligned to 64 bytes */
};

/* Thread: one pool belongs to one thread, with all of its buffers. */
struct buffer_pool {
    struct buffer *free[BUFFER_CLASSES]; /* by power of two of elements */
    uint32_t kept[BUFFER_CLASSES];
};

/* A buffer of at least `elems` floats with one reference, contents unspecified; NULL without memory. */
struct buffer *buffer_acquire(struct buffer_pool *pool, size_t elems);
void buffer_ref(struct buffer *b);
void buffer_unref(struct buffer *b); /* NULL is ignored */
/* Free what is in the pool. All buffers must have been given back. */
void buffer_pool_close(struct buffer_pool *pool);

#endif
