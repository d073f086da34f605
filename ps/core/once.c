#include "ps/core/once.h"

#include <assert.h>

#include "common/base/mem.h"

void once_init(struct once *o, uint32_t chunks)
{
    *o = (struct once){.chunks = chunks};
}

static void partial_remove(struct once *o, size_t i)
{
    assert(i < o->partials && o->partials <= o->capacity);
    mem_free(o->partial[i].bits);
    o->partial[i] = o->partial[--o->partials];
}

void once_close(struct once *o)
{
    while (o->partials)
        partial_remove(o, o->partials - 1);
    mem_free(o->partial);
    *o = (struct once){0};
}

void once_restore(struct once *o, const struct ids *resolved)
{
    while (o->partials)
        partial_remove(o, o->partials - 1);
    o->resolved = *resolved;
}

static struct once_partial *partial_find(struct once *o, uint64_t id)
{
    for (size_t i = 0; i < o->partials; i++)
        if (o->partial[i].id == id)
            return &o->partial[i];
    return NULL;
}

static struct once_partial *partial_new(struct once *o, uint64_t id)
{
    struct once_partial *grown = mem_grow(o->partial, &o->capacity, o->partials + 1, sizeof *grown);
    if (!grown)
        return NULL;
    o->partial = grown;
    uint8_t *bits = mem_zalloc(((size_t)o->chunks + 7) / 8, 1);
    if (!bits)
        return NULL;
    struct once_partial *p = &o->partial[o->partials++];
    *p = (struct once_partial){.id = id, .bits = bits};
    return p;
}

enum once_verdict once_look(struct once *o, uint64_t id, uint32_t chunk)
{
    assert(chunk < o->chunks);
    if (ids_has(&o->resolved, id))
        return ONCE_DUPLICATE;
    if (id - o->resolved.mark >= IDS_WINDOW)
        return ONCE_TOO_FAR;
    struct once_partial *p = partial_find(o, id);
    assert(!p || p->applied < o->chunks); /* an id with all chunks would be resolved */
    if (!p)
        p = partial_new(o, id);
    if (!p)
        return ONCE_NO_MEMORY;
    return p->bits[chunk / 8] >> (chunk % 8) & 1 ? ONCE_DUPLICATE : ONCE_APPLY;
}

enum once_verdict once_admit(struct once *o, uint64_t id, uint32_t chunk)
{
    enum once_verdict v = once_look(o, id, chunk);
    if (v != ONCE_APPLY)
        return v;
    struct once_partial *p = partial_find(o, id);
    p->bits[chunk / 8] |= (uint8_t)(1u << (chunk % 8));
    if (++p->applied < o->chunks)
        return ONCE_APPLY;
    partial_remove(o, (size_t)(p - o->partial));
    if (ids_add(&o->resolved, id))
        return ONCE_TOO_FAR; /* cannot happen: the window was checked above */
    assert(ids_has(&o->resolved, id) && !partial_find(o, id));
    return ONCE_LAST;
}
