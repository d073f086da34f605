#include "common/parameters/ids.h"

#include <assert.h>
#include <string.h>

static bool bit(const struct ids *s, uint64_t id)
{
    return s->bits[id % IDS_WINDOW / 64] >> (id % 64) & 1;
}

/* Checks that `count` matches the window and that the mark itself is not in the set. */
static void check(const struct ids *s)
{
    uint64_t above = 0;
    for (size_t i = 0; i < IDS_WINDOW / 64; i++)
        above += (uint64_t)__builtin_popcountll(s->bits[i]);
    assert(s->count == s->mark + above);
    assert(!bit(s, s->mark));
    (void)above;
}

bool ids_has(const struct ids *s, uint64_t id)
{
    return id < s->mark || (id - s->mark < IDS_WINDOW && bit(s, id));
}

enum err ids_add(struct ids *s, uint64_t id)
{
    if (ids_has(s, id))
        return ERR_OK;
    if (id - s->mark >= IDS_WINDOW)
        return ERR_TOOBIG;
    s->bits[id % IDS_WINDOW / 64] |= UINT64_C(1) << (id % 64);
    s->count++;
    while (bit(s, s->mark)) {
        s->bits[s->mark % IDS_WINDOW / 64] &= ~(UINT64_C(1) << (s->mark % 64));
        s->mark++;
    }
    check(s);
    return ERR_OK;
}

uint64_t ids_end(const struct ids *s)
{
    for (uint64_t i = IDS_WINDOW; i-- > 0;)
        if (bit(s, s->mark + i))
            return s->mark + i + 1;
    return s->mark;
}

bool ids_equal(const struct ids *a, const struct ids *b)
{
    return a->mark == b->mark && memcmp(a->bits, b->bits, sizeof a->bits) == 0;
}

size_t ids_pack(const struct ids *s, uint8_t out[IDS_WINDOW_BYTES])
{
    size_t bytes = (ids_end(s) - s->mark + 7) / 8;
    memset(out, 0, bytes);
    for (uint64_t i = 0; i < bytes * 8 && i < IDS_WINDOW; i++)
        if (bit(s, s->mark + i))
            out[i / 8] = (uint8_t)(out[i / 8] | 1u << (i % 8));
    assert(bytes <= IDS_WINDOW_BYTES && (bytes == 0) == (s->count == s->mark));
    assert(bytes == 0 || out[bytes - 1]);
    return bytes;
}

enum err ids_unpack(struct ids *s, uint64_t mark, const uint8_t *window, size_t bytes)
{
    if (bytes > IDS_WINDOW_BYTES || (bytes > 0 && (window[0] & 1)))
        return ERR_PROTO;
    struct ids set = {.mark = mark, .count = mark};
    for (size_t i = 0; i < bytes * 8; i++) {
        if (window[i / 8] >> (i % 8) & 1) {
            set.bits[(mark + i) % IDS_WINDOW / 64] |= UINT64_C(1) << ((mark + i) % 64);
            set.count++;
        }
    }
    check(&set);
    *s = set;
    return ERR_OK;
}
