#include "ps/rows/row_index.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/mem.h"

enum {
    PLACES_MIN = 256,
    ROOM_MIN_BYTES = 16 << 10,
    HUGE_ROOM_BYTES = 4 << 20,
    MOVED_A_TIME = 32, /* positions visited for each added entry */
    RUN_MAX = 512,     /* positions: evenly distributed keys make no such sequence */
    PLACES_MOST = 256, /* per entry, for keys that are not evenly distributed */
    AHEAD = 16         /* keys to prefetch before the first is read; more would stall */
};

/* Full at a load of 0.6, so that few searches leave their first cache line. Then the array grows by a quarter. */
static bool is_full(uint64_t entries, uint64_t places)
{
    return entries * 5 > places * 3;
}

/* ---- positions ---- */

static uint64_t high_product(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

static bool is_inside(const struct row_index *x, uint64_t mixed)
{
    uint32_t bucket = key_bucket(mixed);
    return x->buckets.first <= bucket && bucket < x->buckets.end;
}

/* A key's distance from the first one, stretched over all 64 bits. */
static uint64_t spread_of(const struct row_index *x, uint64_t mixed)
{
    return (uint64_t)(((unsigned __int128)(mixed - x->first) * x->spread) >>
                      (64 - ROW_BUCKET_BITS));
}

/* The position at which a key's search starts. It is monotonic in the key, because `grown` is not below `places`. */
static uint64_t home(const struct row_index *x, uint64_t mixed)
{
    return high_product(spread_of(x, mixed), mixed <= x->kept ? x->places : x->grown);
}

/* The first position, from `place` on, that is free or has a key not below this one. */
static uint64_t seek(const struct row_index *x, uint64_t place, uint64_t mixed)
{
    while (x->entry[place].row_1 && x->entry[place].mixed < mixed)
        place++;
    return place;
}

static uint64_t next_free(const struct row_index *x, uint64_t place)
{
    while (x->entry[place].row_1)
        place++;
    return place;
}

/* ---- the array ---- */

/* Grow the memory to at least `places` positions and one free position after them. */
static enum err make_room(struct row_index *x, uint64_t places)
{
    if (places < x->room)
        return ERR_OK;
    uint64_t wanted = x->room_bytes ? x->room_bytes : ROOM_MIN_BYTES;
    while (wanted / sizeof *x->entry <= places)
        wanted *= 2;
    void *entry = mem_map_grow(x->entry, x->room_bytes, wanted);
    if (!entry)
        return ERR_NOMEM;
    if (wanted >= HUGE_ROOM_BYTES)
        mem_map_huge(entry, wanted);
    x->entry = entry;
    x->room = wanted / sizeof *x->entry;
    x->room_bytes = wanted;
    return ERR_OK;
}

enum err row_index_init(struct row_index *x, struct bucket_range buckets)
{
    uint64_t n = buckets.end - buckets.first;
    *x = (struct row_index){.buckets = buckets, .places = PLACES_MIN, .grown = PLACES_MIN};
    x->first = (uint64_t)buckets.first << (64 - ROW_BUCKET_BITS);
    x->spread = UINT64_MAX / (n ? n : 1);
    return make_room(x, PLACES_MIN);
}

void row_index_close(struct row_index *x)
{
    mem_unmap(x->entry, x->room_bytes);
    *x = (struct row_index){0};
}

uint64_t row_index_bytes(const struct row_index *x)
{
    uint64_t behind = next_free(x, x->grown);
    return (behind + 1) * sizeof *x->entry;
}

/* ---- entries ---- */

/* Insert an entry at `place`; the entries from there up to the next free position, `gap`, move up by one. */
static void put(struct row_index *x, uint64_t place, uint64_t gap, struct row_entry entry)
{
    memmove(x->entry + place + 1, x->entry + place, (gap - place) * sizeof *x->entry);
    x->entry[place] = entry;
}

/* Remove the entry at `place`; the entries after it move down, but not below the start of their search. */
static void take(struct row_index *x, uint64_t place)
{
    uint64_t end = place + 1;
    while (x->entry[end].row_1 && home(x, x->entry[end].mixed) < end)
        end++;
    memmove(x->entry + place, x->entry + place + 1, (end - place - 1) * sizeof *x->entry);
    x->entry[end - 1] = (struct row_entry){0};
}

/* Move the entry at `place` to its position among `grown` positions; larger keys have already moved. */
static enum err move_up(struct row_index *x, uint64_t place)
{
    struct row_entry entry = x->entry[place];
    uint64_t to = high_product(spread_of(x, entry.mixed), x->grown);
    enum err e = make_room(x, next_free(x, to > place ? to : place) + 1);
    if (e)
        return e;
    take(x, place);
    if (entry.mixed)
        x->kept = entry.mixed - 1;
    else
        x->places = x->grown; /* no smaller key is left */
    to = seek(x, to, entry.mixed);
    put(x, to, next_free(x, to), entry);
    return ERR_OK;
}

/* Continue to grow: visit some positions below the cursor. */
static enum err grow_some(struct row_index *x)
{
    for (uint32_t i = 0; i < MOVED_A_TIME && x->cursor; i++) {
        uint64_t place = x->cursor - 1;
        bool waits = x->entry[place].row_1 && x->entry[place].mixed <= x->kept;
        enum err e = waits ? move_up(x, place) : ERR_OK;
        if (e)
            return e;
        x->cursor = place;
    }
    if (!x->cursor)
        x->places = x->grown;
    return ERR_OK;
}

uint64_t row_index_growth_bytes(const struct row_index *x, uint64_t entries)
{
    uint64_t places = x->grown;
    if (entries == 1 && x->places != x->grown)
        return 0; /* it is already growing */
    while (is_full(x->entries + entries, places))
        places += places / 4;
    return (places - x->grown) * sizeof *x->entry;
}

static enum err grow_begin(struct row_index *x, uint64_t grown)
{
    enum err e = make_room(x, grown);
    if (e)
        return e;
    x->cursor = next_free(x, x->places);
    x->grown = grown;
    x->kept = UINT64_MAX;
    return ERR_OK;
}

static enum err grow(struct row_index *x)
{
    bool grows = x->places != x->grown;
    if (!grows && !is_full(x->entries + 1, x->places))
        return ERR_OK;
    enum err e = grows ? ERR_OK : grow_begin(x, x->places + x->places / 4);
    return e ? e : grow_some(x);
}

static enum err grow_to_the_end(struct row_index *x)
{
    enum err e = ERR_OK;
    while (x->places != x->grown && !e)
        e = grow_some(x);
    return e;
}

/* The new keys of a step arrive in ascending order, part by part. If there are many compared with the existing keys, their
 * searches start at neighbouring positions, so they form one long sequence of entries, and each add would search and move
 * all of it. The entries from `begin` to `gap` are such a sequence. The distance of their keys tells how many positions the
 * array needs until they are as far apart as other keys. If there is no memory for so many, they stay as they are. */
static void spread_run(struct row_index *x, uint64_t begin, uint64_t gap)
{
    uint64_t close = home(x, x->entry[gap - 1].mixed) - home(x, x->entry[begin].mixed) + 1;
    uint64_t most = PLACES_MOST * (x->entries + 1);
    unsigned __int128 wanted = (unsigned __int128)x->grown * (gap - begin) * 5 / (3 * close);
    uint64_t grown = wanted < most ? (uint64_t)wanted : most;
    if (x->most_places && grown > x->most_places)
        grown = x->most_places;
    if (grown <= x->grown + x->grown / 4)
        return;
    enum err e = grow_to_the_end(x);
    if (!e)
        e = grow_begin(x, grown);
    if (!e)
        e = grow_to_the_end(x);
    (void)e;
}

enum err row_index_add(struct row_index *x, uint64_t mixed, uint32_t row)
{
    assert(row != ROW_NONE && is_inside(x, mixed));
    enum err e = grow(x);
    if (e)
        return e;
    uint64_t begin = home(x, mixed), place = seek(x, begin, mixed), gap = next_free(x, place);
    if (gap - begin > RUN_MAX) {
        spread_run(x, begin, gap);
        place = seek(x, home(x, mixed), mixed);
        gap = next_free(x, place);
    }
    assert(!x->entry[place].row_1 || x->entry[place].mixed != mixed);
    e = make_room(x, gap + 1);
    if (e)
        return e;
    put(x, place, gap, (struct row_entry){mixed, row + 1});
    if (mixed <= x->kept && gap >= x->cursor)
        x->cursor = gap + 1;
    x->entries++;
    return ERR_OK;
}

/* ---- loading many keys ---- */

enum err row_index_append(struct row_index *x, uint64_t mixed, uint32_t row)
{
    uint64_t n = x->entries;
    assert(row != ROW_NONE && is_inside(x, mixed));
    assert(x->places == x->grown && (n == 0 || x->entry[n - 1].mixed < mixed));
    enum err e = make_room(x, n + 1);
    if (e)
        return e;
    x->entry[x->entries++] = (struct row_entry){mixed, row + 1};
    return ERR_OK;
}

/* The end of the entries, now packed from position 0 on, after they are spread. */
static uint64_t end_when_spread(const struct row_index *x)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < x->entries; i++) {
        uint64_t begin = home(x, x->entry[i].mixed);
        end = (begin > end ? begin : end) + 1;
    }
    return end;
}

/* First move all entries to the end of the range. From there each entry moves down to its position, or stays. */
enum err row_index_spread(struct row_index *x)
{
    uint64_t n = x->entries, places = x->places;
    while (is_full(n, x->places))
        x->places += x->places / 4;
    x->grown = x->places;
    uint64_t end = end_when_spread(x), from = end - n, to = 0;
    enum err e = make_room(x, end > x->places ? end : x->places);
    if (e) {
        x->grown = x->places = places;
        return e;
    }
    memmove(x->entry + from, x->entry, n * sizeof *x->entry);
    memset(x->entry, 0, (from < n ? from : n) * sizeof *x->entry);
    for (; from < end; from++) {
        struct row_entry entry = x->entry[from];
        x->entry[from] = (struct row_entry){0};
        uint64_t begin = home(x, entry.mixed);
        to = begin > to ? begin : to;
        assert(to <= from);
        x->entry[to++] = entry;
    }
    return ERR_OK;
}

uint32_t row_index_remove(struct row_index *x, uint64_t mixed)
{
    uint64_t place = seek(x, home(x, mixed), mixed);
    assert(x->entry[place].row_1 && x->entry[place].mixed == mixed);
    uint32_t row = x->entry[place].row_1 - 1;
    take(x, place);
    x->entries--;
    return row;
}

/* ---- reading ---- */

/* The first step has no branch, because no processor can predict if the key is one position further. */
static uint32_t row_at(const struct row_index *x, uint64_t place, uint64_t mixed)
{
    place += (x->entry[place].row_1 != 0) & (x->entry[place].mixed < mixed);
    place = seek(x, place, mixed);
    const struct row_entry *entry = x->entry + place;
    return entry->row_1 && entry->mixed == mixed ? entry->row_1 - 1 : ROW_NONE;
}

/* The position at which the search for this key starts. Prefetches the entry's first and last byte, since an entry can be in
 * two cache lines. Always inlined, because gcc removes calls of a function that only prefetches. */
__attribute__((always_inline)) static inline uint64_t ask(const struct row_index *x, uint64_t mixed)
{
    uint64_t place = home(x, mixed);
    __builtin_prefetch(x->entry + place);
    __builtin_prefetch((const char *)(x->entry + place + 1) - 1);
    return place;
}

size_t row_index_find(const struct row_index *x, const uint64_t *mixed, size_t n, uint32_t *row)
{
    uint64_t place[AHEAD];
    size_t found = 0;
    for (size_t i = 0; i < n && i < AHEAD; i++)
        place[i] = ask(x, mixed[i]);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin = place[i % AHEAD];
        if (i + AHEAD < n)
            place[i % AHEAD] = ask(x, mixed[i + AHEAD]);
        row[i] = row_at(x, begin, mixed[i]);
        found += row[i] != ROW_NONE;
    }
    return found;
}

size_t row_index_scan(const struct row_index *x, uint64_t first, uint64_t last, uint64_t *mixed,
                      uint32_t *row, size_t room)
{
    size_t n = 0;
    first = first < x->first ? x->first : first;
    uint64_t place = is_inside(x, first) ? seek(x, home(x, first), first) : x->room - 1;
    for (; n < room && (place < x->grown || x->entry[place].row_1); place++) {
        const struct row_entry *entry = x->entry + place;
        if (entry->row_1 && entry->mixed > last)
            break;
        if (entry->row_1 && mixed)
            mixed[n] = entry->mixed;
        if (entry->row_1)
            row[n++] = entry->row_1 - 1;
    }
    return n;
}
