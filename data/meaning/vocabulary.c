#include "data/meaning/vocabulary.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

enum { SLOTS_FIRST = 64, TEXT_FIRST = 1024 };

/* Eight bytes at a time, mixed as in splitmix64; the result never affects what is learned. */
static uint32_t hash_of(const char *word, size_t bytes)
{
    uint64_t h = bytes * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t w = 0;
        memcpy(&w, word + i, bytes - i < 8 ? bytes - i : 8);
        h = (h ^ w) * UINT64_C(0xBF58476D1CE4E5B9);
        h ^= h >> 29;
    }
    return (uint32_t)(h ^ (h >> 32));
}

/* Asserts that the text ends with the last word, with room after it, and that at most half of the slots are used. */
static void check(const struct vocabulary *v)
{
    const struct vocabulary_word *last = v->count ? &v->word[v->count - 1] : NULL;
    assert(v->text_bytes == (last ? last->at + last->bytes : 0));
    assert(2 * (uint64_t)v->count <= v->slots);
    assert(v->count == 0 || v->text_bytes < v->text_room);
    (void)last;
}

static uint32_t find(const struct vocabulary *v, const char *word, size_t bytes, uint32_t hash)
{
    if (!v->slots)
        return VOCABULARY_NONE;
    for (uint32_t i = hash & (v->slots - 1);; i = (i + 1) & (v->slots - 1)) {
        if (!v->slot[i])
            return VOCABULARY_NONE;
        const struct vocabulary_word *w = &v->word[v->slot[i] - 1];
        if (w->hash == hash && w->bytes == bytes && memcmp(v->text + w->at, word, bytes) == 0)
            return v->slot[i] - 1;
    }
}

uint32_t vocabulary_find(const struct vocabulary *v, const char *word, size_t bytes)
{
    return find(v, word, bytes, hash_of(word, bytes));
}

static void put(struct vocabulary *v, uint32_t hash, uint32_t number)
{
    uint32_t i = hash & (v->slots - 1);
    while (v->slot[i])
        i = (i + 1) & (v->slots - 1);
    v->slot[i] = number + 1;
}

/* Double the slots, so that at most half are used. */
static enum err grow_slots(struct vocabulary *v)
{
    uint32_t slots = v->slots ? 2 * v->slots : SLOTS_FIRST;
    uint32_t *slot = mem_zalloc(slots, sizeof *slot);
    if (!slot)
        return ERR_NOMEM;
    mem_free(v->slot);
    v->slot = slot;
    v->slots = slots;
    for (uint32_t i = 0; i < v->count; i++)
        put(v, v->word[i].hash, i);
    return ERR_OK;
}

static enum err grow_words(struct vocabulary *v)
{
    struct vocabulary_word *word = mem_extend(v->word, v->count, 1, sizeof *word);
    if (word)
        v->word = word;
    return word ? ERR_OK : ERR_NOMEM;
}

static enum err grow_text(struct vocabulary *v, size_t bytes)
{
    size_t need = v->text_bytes + bytes;
    char *text = mem_grow(v->text, &v->text_room, need > TEXT_FIRST ? need : TEXT_FIRST, 1);
    if (text)
        v->text = text;
    return text ? ERR_OK : ERR_NOMEM;
}

enum err vocabulary_add(struct vocabulary *v, const char *word, size_t bytes, uint32_t *number)
{
    uint32_t hash = hash_of(word, bytes), known = find(v, word, bytes, hash);
    if (known != VOCABULARY_NONE) {
        *number = known;
        return ERR_OK;
    }
    if (v->count == VOCABULARY_MAX || bytes > UINT32_MAX)
        return ERR_TOOBIG;
    enum err err = 2 * (v->count + 1) > v->slots ? grow_slots(v) : ERR_OK;
    if (!err)
        err = grow_words(v);
    if (!err && v->text_room - v->text_bytes <= bytes)
        err = grow_text(v, bytes + 1);
    if (err)
        return err;
    memcpy(v->text + v->text_bytes, word, bytes);
    v->word[v->count] = (struct vocabulary_word){v->text_bytes, (uint32_t)bytes, hash};
    v->text_bytes += bytes;
    put(v, hash, v->count);
    *number = v->count++;
    check(v);
    return ERR_OK;
}

const char *vocabulary_text(const struct vocabulary *v, uint32_t number, size_t *bytes)
{
    *bytes = v->word[number].bytes;
    return v->text + v->word[number].at;
}

void vocabulary_clear(struct vocabulary *v)
{
    if (v->count)
        memset(v->slot, 0, v->slots * sizeof *v->slot);
    v->count = 0;
    v->text_bytes = 0;
    check(v);
}

void vocabulary_close(struct vocabulary *v)
{
    mem_free(v->word);
    mem_free(v->slot);
    mem_free(v->text);
    *v = (struct vocabulary){0};
}
