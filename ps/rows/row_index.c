#include "ps/rows/row_table.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/mem.h"

enum {
    PLACES_MIN = 256,
    ROOM_MIN_BYTES = 16 << 10,
    HUGE_ROOM_BYTES = 4 << 20,
    MOVED_A_TIME = 32,       /* positions visited for each added entry */
    SPARSE = 8,              /* positions for each entry: with more, the array shrinks */
    RUN_MAX = 512,           /* positions: evenly distributed keys make no such sequence */
    RUN_AGAIN = RUN_MAX / 2, /* for keys that come back from the crowd */
    PLACES_MOST = 32,        /* per entry, for keys that are not evenly distributed */
    MOVED_BACK_A_TIME = 2,   /* keys that come back from the crowd with each added entry */
    TENDED_A_STEP = 256,     /* the same with each step */
    AHEAD = 16               /* keys to prefetch before the first is read; more would stall */
};

/* Full at a load of 0.6, so that few searches leave their first cache line. Then the array grows by a quarter. */
static bool is_full(uint64_t entries, uint64_t places)
{
    return entries * 5 > places * 3;
}

/* The array has only these numbers of positions, however it grew or shrank. So it is never smaller than after a load of as
 * many keys, and a checkpoint of rows that fit in ps.memory fits there when it is read. */
static uint64_t places_of_at_least(uint64_t wanted)
{
    uint64_t places = PLACES_MIN;
    while (places < wanted)
        places += places / 4;
    return places;
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
    row_crowd_close(&x->crowd);
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
    if (x->shrinks && place < x->cursor && x->cursor < end)
        x->cursor--; /* an entry that has not moved yet is there now */
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
        return 0; /* the array already has more positions than it needs */
    while (is_full(x->entries + entries, places))
        places += places / 4;
    return (places - x->grown) * sizeof *x->entry;
}

/* ---- shrinking ---- */

/* Give back the memory after the last entry, if half of all can go. */
static void give_back_room(struct row_index *x)
{
    uint64_t end = next_free(x, x->grown) + 1, wanted = x->room_bytes;
    while (wanted > ROOM_MIN_BYTES && wanted / 2 / sizeof *x->entry > end)
        wanted /= 2;
    mem_map_shrink(x->entry, x->room_bytes, wanted);
    x->room = wanted / sizeof *x->entry;
    x->room_bytes = wanted;
}

/* Move the entry at `place` to its position among `places` positions; smaller keys have already moved. */
static void move_down(struct row_index *x, uint64_t place)
{
    struct row_entry entry = x->entry[place];
    take(x, place);
    x->kept = entry.mixed;
    uint64_t begin = home(x, entry.mixed), to = seek(x, begin, entry.mixed), gap = next_free(x, to);
    if (gap - begin > RUN_MAX && row_crowd_add(&x->crowd, entry.mixed, entry.row_1 - 1) == ERR_OK)
        return;
    put(x, to, gap, entry);
}

/* Continue to shrink: visit some positions from the cursor on. */
static void shrink_some(struct row_index *x)
{
    for (uint32_t i = 0; i < MOVED_A_TIME; i++) {
        const struct row_entry *at = x->entry + x->cursor;
        if (x->cursor >= x->grown && !at->row_1) {
            x->shrinks = false;
            x->kept = UINT64_MAX;
            x->grown = x->places;
            give_back_room(x);
            return;
        }
        if (at->row_1 && at->mixed > x->kept)
            move_down(x, x->cursor);
        else
            x->cursor++;
    }
}

/* An entry was removed. */
static void shrink(struct row_index *x)
{
    if (x->places == x->grown && x->places > PLACES_MIN && x->entries * SPARSE < x->places) {
        /* The first key has position 0 among any number of positions. */
        x->shrinks = true;
        x->places = places_of_at_least(x->entries * 5 / 2);
        x->kept = x->first;
        x->cursor = 0;
    }
    if (x->shrinks)
        shrink_some(x);
    else if (x->places != x->grown)
        (void)grow_some(x); /* else it could not begin to shrink */
}

/* ---- growing ---- */

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
    if (x->shrinks)
        shrink_some(x);
    if (x->shrinks)
        return ERR_OK;
    bool grows = x->places != x->grown;
    if (!grows && !is_full(x->entries + 1, x->places))
        return ERR_OK;
    enum err e = grows ? ERR_OK : grow_begin(x, x->places + x->places / 4);
    return e ? e : grow_some(x);
}

static enum err grow_to_the_end(struct row_index *x)
{
    enum err e = ERR_OK;
    while (x->shrinks)
        shrink_some(x);
    while (x->places != x->grown && !e)
        e = grow_some(x);
    return e;
}

/* The new keys of a step arrive in ascending order, part by part. If there are many compared with the existing keys, their
 * searches start at neighbouring positions, so they form one long sequence of entries, and each add would search and move
 * all of it. The entries from `begin` to `gap` are such a sequence. The distance of their keys tells how many positions the
 * array needs until they are as far apart as other keys. If it must not have so many, it stays as it is, since keys that are
 * chosen to be close together would need ever more. */
static void spread_run(struct row_index *x, uint64_t begin, uint64_t gap)
{
    uint64_t close = home(x, x->entry[gap - 1].mixed) - home(x, x->entry[begin].mixed) + 1;
    uint64_t most = PLACES_MOST * (x->entries + 1);
    unsigned __int128 wanted = (unsigned __int128)x->grown * (gap - begin) * 5 / (3 * close);
    if (x->most_places && most > x->most_places)
        most = x->most_places;
    uint64_t grown = wanted < most ? places_of_at_least((uint64_t)wanted) : UINT64_MAX;
    if (grown > most || grown <= x->grown + x->grown / 4)
        return;
    enum err e = grow_to_the_end(x);
    if (!e)
        e = grow_begin(x, grown);
    if (!e)
        e = grow_to_the_end(x);
    (void)e;
}

/* Insert an entry while the array may grow or shrink: an entry that must still move stays on the cursor's side. */
static void insert(struct row_index *x, uint64_t place, uint64_t gap, struct row_entry entry)
{
    put(x, place, gap, entry);
    if (!x->shrinks && entry.mixed <= x->kept && gap >= x->cursor)
        x->cursor = gap + 1;
    if (x->shrinks && entry.mixed > x->kept && place < x->cursor)
        x->cursor = place;
}

/* Move keys from the crowd to the array, up to the first one that finds no room. */
static void come_back(struct row_index *x, uint32_t keys)
{
    for (uint32_t i = 0; i < keys && x->crowd.entries; i++) {
        const struct row_entry *next =
            row_crowd_entry(&x->crowd, row_crowd_seek(&x->crowd, x->crowd.next));
        if (!next) { /* at the end: again from the first */
            x->crowd.next = 0;
            return;
        }
        struct row_entry entry = *next;
        uint64_t begin = home(x, entry.mixed), place = seek(x, begin, entry.mixed);
        uint64_t gap = next_free(x, place);
        x->crowd.next = entry.mixed + 1;
        if (gap - begin > RUN_AGAIN || make_room(x, gap + 1))
            return;
        (void)row_crowd_remove(&x->crowd, entry.mixed);
        insert(x, place, gap, entry);
    }
}

void row_index_tend(struct row_index *x)
{
    come_back(x, TENDED_A_STEP);
}

enum err row_index_add(struct row_index *x, uint64_t mixed, uint32_t row)
{
    assert(row != ROW_NONE && is_inside(x, mixed));
    enum err e = grow(x);
    if (e)
        return e;
    come_back(x, MOVED_BACK_A_TIME);
    uint64_t begin = home(x, mixed), place = seek(x, begin, mixed), gap = next_free(x, place);
    if (gap - begin > RUN_MAX) {
        spread_run(x, begin, gap);
        begin = home(x, mixed);
        place = seek(x, begin, mixed);
        gap = next_free(x, place);
    }
    if (gap - begin > RUN_MAX) {
        e = row_crowd_add(&x->crowd, mixed, row);
        x->entries += e == ERR_OK;
        return e;
    }
    assert(!x->entry[place].row_1 || x->entry[place].mixed != mixed);
    e = make_room(x, gap + 1);
    if (e)
        return e;
    insert(x, place, gap, (struct row_entry){mixed, row + 1});
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

/* The entries, now packed from position 0 on, that find no room near enough go to the crowd. *end = the end of the others
 * when they are spread; returns their number in *n. */
static enum err end_when_spread(struct row_index *x, uint64_t *n, uint64_t *end)
{
    *n = *end = 0;
    for (uint64_t i = 0; i < x->entries; i++) {
        struct row_entry entry = x->entry[i];
        uint64_t begin = home(x, entry.mixed);
        if (begin + RUN_MAX < *end) {
            enum err e = row_crowd_add(&x->crowd, entry.mixed, entry.row_1 - 1);
            if (e)
                return e;
            continue;
        }
        *end = (begin > *end ? begin : *end) + 1;
        x->entry[(*n)++] = entry;
    }
    memset(x->entry + *n, 0, (x->entries - *n) * sizeof *x->entry);
    return ERR_OK;
}

/* First move all entries to the end of the range. From there each entry moves down to its position, or stays. */
enum err row_index_spread(struct row_index *x)
{
    uint64_t n, end, to = 0;
    while (is_full(x->entries, x->places))
        x->places += x->places / 4;
    x->grown = x->places;
    x->kept = UINT64_MAX;
    enum err e = end_when_spread(x, &n, &end);
    if (!e)
        e = make_room(x, end > x->places ? end : x->places);
    if (e)
        return e;
    uint64_t from = end - n;
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

static bool has_at(const struct row_index *x, uint64_t place, uint64_t mixed)
{
    return x->entry[place].row_1 && x->entry[place].mixed == mixed;
}

uint32_t row_index_remove(struct row_index *x, uint64_t mixed)
{
    uint64_t place = seek(x, home(x, mixed), mixed);
    bool there = has_at(x, place, mixed);
    uint32_t row = there ? x->entry[place].row_1 - 1 : row_crowd_remove(&x->crowd, mixed);
    if (there)
        take(x, place);
    x->entries--;
    shrink(x);
    return row;
}

void row_index_move(struct row_index *x, uint64_t mixed, uint32_t row)
{
    uint64_t place = seek(x, home(x, mixed), mixed);
    if (has_at(x, place, mixed))
        x->entry[place].row_1 = row + 1;
    else
        row_crowd_move(&x->crowd, mixed, row);
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

/* The crowd first: if there is one, most of what is looked up may be in it. Not inlined, so that the loop for tables without
 * a crowd has the registers to itself. */
__attribute__((noinline)) static size_t find_in_both(const struct row_index *x,
                                                     const uint64_t *mixed, size_t n, uint32_t *row)
{
    size_t found = 0;
    row_crowd_find(&x->crowd, mixed, n, row);
    for (size_t i = 0; i < n; i++) {
        if (row[i] == ROW_NONE)
            row[i] = row_at(x, home(x, mixed[i]), mixed[i]);
        found += row[i] != ROW_NONE;
    }
    return found;
}

size_t row_index_find(const struct row_index *x, const uint64_t *mixed, size_t n, uint32_t *row)
{
    uint64_t place[AHEAD];
    if (x->crowd.entries)
        return find_in_both(x, mixed, n, row);
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

/* The next entry of the array from `place` on, or NULL: there is none with a key up to `last`, whose search starts below
 * `end`. */
static const struct row_entry *next_entry(const struct row_index *x, uint64_t *place, uint64_t end,
                                          uint64_t last)
{
    while (*place < end && !x->entry[*place].row_1)
        ++*place;
    const struct row_entry *entry = x->entry + *place;
    return entry->row_1 && entry->mixed <= last ? entry : NULL;
}

size_t row_index_scan(const struct row_index *x, uint64_t first, uint64_t last, uint64_t *mixed,
                      uint32_t *row, size_t room)
{
    size_t n = 0;
    first = first < x->first ? x->first : first;
    if (!is_inside(x, first))
        return 0;
    uint64_t place = seek(x, home(x, first), first);
    uint64_t end = is_inside(x, last) ? home(x, last) + 1 : x->grown;
    struct row_crowd_at at = row_crowd_seek(&x->crowd, first);
    while (n < room) {
        const struct row_entry *one = next_entry(x, &place, end, last);
        const struct row_entry *crowded = row_crowd_entry(&x->crowd, at);
        bool of_crowd = crowded && crowded->mixed <= last && (!one || crowded->mixed < one->mixed);
        const struct row_entry *entry = of_crowd ? crowded : one;
        if (!entry)
            break;
        if (mixed)
            mixed[n] = entry->mixed;
        row[n++] = entry->row_1 - 1;
        if (of_crowd)
            at = row_crowd_next(&x->crowd, at);
        else
            place++;
    }
    return n;
}
