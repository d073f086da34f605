/* Buffers are of a power of two of floats. Each of these sizes has a list of free buffers, and the first one is taken. */
#include "common/base/buffer.h"

#include <assert.h>

#include "common/base/mem.h"

static uint32_t class_of(size_t elems)
{
    uint32_t c = 8; /* the smallest buffer has 256 floats */
    while (c < BUFFER_CLASSES - 1 && ((size_t)1 << c) < elems)
        c++;
    assert(c == 8 || ((size_t)1 << (c - 1)) < elems); /* no larger class than `elems` needs */
    return c;
}

static struct buffer *buffer_new(struct buffer_pool *pool, uint32_t size_class)
{
    struct buffer *b = mem_zalloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->data = mem_floats((size_t)1 << size_class);
    if (!b->data) {
        mem_free(b);
        return NULL;
    }
    b->pool = pool;
    b->size_class = size_class;
    return b;
}

struct buffer *buffer_acquire(struct buffer_pool *pool, size_t elems)
{
    uint32_t c = class_of(elems);
    if (((size_t)1 << c) < elems)
        return NULL;
    struct buffer *b = pool->free[c];
    if (b) {
        pool->free[c] = b->next;
        pool->kept[c]--;
    } else {
        b = buffer_new(pool, c);
        if (!b)
            return NULL;
    }
    assert(b->refs == 0 && b->size_class == c && b->pool == pool);
    assert((pool->free[c] == NULL) == (pool->kept[c] == 0));
    b->refs = 1;
    return b;
}

void buffer_ref(struct buffer *b)
{
    b->refs++;
}

static void buffer_free(struct buffer *b)
{
    mem_free(b->data);
    mem_free(b);
}

void buffer_unref(struct buffer *b)
{
    if (!b)
        return;
    assert(b->refs > 0);
    if (--b->refs > 0)
        return;
    struct buffer_pool *pool = b->pool;
    assert((pool->free[b->size_class] == NULL) == (pool->kept[b->size_class] == 0));
    if (pool->kept[b->size_class] >= BUFFER_KEEP_MAX) {
        buffer_free(b);
        return;
    }
    b->next = pool->free[b->size_class];
    pool->free[b->size_class] = b;
    pool->kept[b->size_class]++;
    assert(pool->kept[b->size_class] <= BUFFER_KEEP_MAX);
}

void buffer_pool_close(struct buffer_pool *pool)
{
    for (int c = 0; c < BUFFER_CLASSES; c++) {
        while (pool->free[c]) {
            struct buffer *b = pool->free[c];
            pool->free[c] = b->next;
            buffer_free(b);
        }
        pool->kept[c] = 0;
    }
}
