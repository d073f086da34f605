/* One shard's rows of one table. A mixed key (common/rows/key.h) identifies a row, which has weights, slots, a count of
 * updates and a stamp. Pure: no I/O, clock or locks.
 *
 * A row keeps its number and its address until row_table_remove or row_table_pack. The rows are in slabs of some MiB,
 * which are mapped as the table grows and never moved. When few rows are left, row_table_pack moves them to the first
 * slabs, and the others return to the system. A row has two pieces of memory in its slab: the body (weights,
 * then slots), and the head (stamp and count). A single slot float (row-wise adagrad) is in the head, so that weights
 * of 16 floats fill one cache line.
 *
 * row_index.c maps keys to rows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/err.h"
#include "common/rows/key.h"

/* The rows whose keys are too close together for the array of row_index.c. Evenly spread keys never come here, except for
 * a while in the first steps with large batches. But the words or integers of hostile data can be chosen so that their keys
 * are close together.
 *
 * A hash table finds a key in a few steps, however keys are spread: its order depends on a random number of this process,
 * and no result depends on that order. Blocks of entries, sorted by key, give the order in which a checkpoint is written. Pure. */

#define ROW_NONE UINT32_MAX /* the row of a key that an index lacks */

struct row_entry {
    uint64_t mixed;
    uint32_t row_1; /* the row + 1; 0: this position is free */
} __attribute__((packed, aligned(4)));

struct row_block;

struct row_crowd {
    uint64_t entries;
    struct row_entry *slot; /* (slots) a power of two, at most 2^32; NULL: no entries */
    uint64_t slots, secret[2];
    struct row_block **block; /* (blocks) in ascending order of their keys */
    uint64_t *least;          /* (blocks) the first key of each */
    uint32_t blocks;
    size_t capacity; /* blocks */
    uint64_t next;   /* row_index.c: the next key that may find room in the array */
};

/* {0} is a crowd without entries. Free with row_crowd_close. */
void row_crowd_close(struct row_crowd *c);

/* row[i] = the row of mixed[i], or ROW_NONE. The crowd has entries. */
void row_crowd_find(const struct row_crowd *c, const uint64_t *mixed, size_t n, uint32_t *row);

/* Add a key that the crowd lacks. Errors: ERR_NOMEM: nothing changes. */
enum err row_crowd_add(struct row_crowd *c, uint64_t mixed, uint32_t row) MUST_CHECK;
/* Remove a key that the crowd has. Returns its row. The last one frees all memory. */
uint32_t row_crowd_remove(struct row_crowd *c, uint64_t mixed);
/* The row of this key, which the crowd has, is this one from now on. */
void row_crowd_move(struct row_crowd *c, uint64_t mixed, uint32_t row);
/* A position in the order of the keys. */
struct row_crowd_at {
    uint32_t block, entry;
};
/* The position of the first key that is not below this one. */
struct row_crowd_at row_crowd_seek(const struct row_crowd *c, uint64_t mixed);
/* The entry there, or NULL at the end. */
const struct row_entry *row_crowd_entry(const struct row_crowd *c, struct row_crowd_at at);
struct row_crowd_at row_crowd_next(const struct row_crowd *c, struct row_crowd_at at);

uint64_t row_crowd_bytes(const struct row_crowd *c);

/* Maps a mixed key to its row: one array of (mixed key, row), with open addressing and linear probing. The position at which
 * the search for a key starts grows with the key, and the entries are sorted by key, so a range of keys is a range of the
 * array. A full array grows in place, from its upper end down, by some positions with each added entry: no single add
 * pays for the whole growth, and no second array is needed. Exception: if a sequence of occupied positions gets long (in
 * the first steps with large batches), the array grows immediately to the size that such keys need.
 *
 * A sequence that growth does not make shorter gets no more entries: their keys go to the crowd (row_crowd.c), so a search
 * visits a bounded number of positions however close together the keys are. When entries are removed, the array shrinks in
 * place, from its lower end up, by some positions with each removed or added entry. Pure. */

struct row_index {
    struct bucket_range buckets;
    uint64_t first,
        spread; /* the least key; the factor that stretches a key's distance from it to 64 bits */
    uint64_t entries;          /* those of the crowd, too */
    struct row_entry *entry;   /* (room) the last position is free */
    uint64_t room, room_bytes; /* allocated positions and bytes; a power of two */
    /* Keys up to `kept` are spread over `places` positions, larger keys over `grown` positions, which is not less. While
     * the array neither grows nor shrinks the two are equal. It grows from the largest key down: positions from `cursor` on
     * have only keys above `kept`. It shrinks from the least key up: positions below `cursor` have only keys up to `kept`. */
    uint64_t places, grown, kept, cursor;
    bool shrinks;
    struct row_crowd crowd;
    uint64_t most_places; /* bound for growing immediately; 0: no bound */
};

/* An index for keys of `buckets`. Errors: ERR_NOMEM. Free with row_index_close. */
enum err row_index_init(struct row_index *x, struct bucket_range buckets) MUST_CHECK;
void row_index_close(struct row_index *x);

/* row[i] = the row of mixed[i], or ROW_NONE. Returns the number of keys found. */
size_t row_index_find(const struct row_index *x, const uint64_t *mixed, size_t n, uint32_t *row);

/* Add a key that the index lacks, with a row below ROW_NONE. Errors: ERR_NOMEM: nothing changes. */
enum err row_index_add(struct row_index *x, uint64_t mixed, uint32_t row) MUST_CHECK;

/* Add many keys in ascending order, as a checkpoint has them, to an index that was filled by this function only. With
 * row_index_add the searches for the first of many keys start at neighbouring positions, so each call searches and
 * moves an ever longer sequence of entries. Here each entry is written once, and moved once by row_index_spread, which
 * the caller calls at the end. Until then only row_index_append and row_index_close are allowed. Errors: ERR_NOMEM:
 * nothing changes; after row_index_spread only row_index_close is allowed. */
enum err row_index_append(struct row_index *x, uint64_t mixed, uint32_t row) MUST_CHECK;
enum err row_index_spread(struct row_index *x) MUST_CHECK;

/* Remove a key that the index has. Returns its row. */
uint32_t row_index_remove(struct row_index *x, uint64_t mixed);

/* The row of this key, which the index has, is this one from now on. */
void row_index_move(struct row_index *x, uint64_t mixed, uint32_t row);

/* Move some keys from the crowd to the array, if there is room by now. Bounded time. */
void row_index_tend(struct row_index *x);

/* The same as row_table_scan (row_table.h). */
size_t row_index_scan(const struct row_index *x, uint64_t first, uint64_t last, uint64_t *mixed,
                      uint32_t *row, size_t room);

/* Bytes of the array's used positions, without the crowd (row_crowd_bytes). */
uint64_t row_index_bytes(const struct row_index *x);
/* Bytes by which the array grows with `entries` more entries; exact for 1. */
uint64_t row_index_growth_bytes(const struct row_index *x, uint64_t entries);

struct row_table {
    uint32_t dim, slot_floats;
    struct row_index index;
    uint32_t shift, mask; /* a slab has 2^shift rows */
    uint32_t body_floats; /* weights and slots; without a single slot */
    uint32_t head_bytes;  /* stamp, count, and a single slot if there is one */
    size_t heads_at;      /* offset of the heads in a slab, in bytes */
    size_t slab_bytes;
    uint32_t small_rows; /* with more rows the table uses huge pages */
    uint32_t slabs;
    size_t slabs_capacity;
    char **slab; /* (slabs) */
    uint32_t used,
        free;        /* rows in use or free; the head of the list of free rows, ROW_NONE: none */
    uint32_t listed; /* the list has all free rows below this one */
    struct row_packing {
        uint32_t limit; /* rows from here on move down; ROW_NONE: none do */
        uint64_t next;  /* keys below this one have been visited */
        bool again;     /* since the first key, a row from `limit` on did not move or was added */
        bool done;      /* no row is left from `limit` on */
    } pack;
};

/* Create a table for keys of `buckets`. Each row has `dim` weights and `slot_floats` slot floats.
 * Owns: *out, to free with row_table_free. Errors: ERR_NOMEM. */
enum err row_table_new(struct row_table **out, uint32_t dim, uint32_t slot_floats,
                       struct bucket_range buckets) MUST_CHECK;
/* Takes NULL. */
void row_table_free(struct row_table *t);

/* row[i] = the row of mixed[i], or ROW_NONE. Returns the number of rows found. The keys can be in any order. */
size_t row_table_find(const struct row_table *t, const uint64_t *mixed, size_t n, uint32_t *row);

/* Add a row for a key of the table's buckets that the table lacks. Weights, slots, count and stamp are 0.
 * Errors: ERR_NOMEM: no memory, or the table has 2^32 - 1 rows; the table is unchanged. */
enum err row_table_add(struct row_table *t, uint64_t mixed, uint32_t *row) MUST_CHECK;

/* The same as row_table_add for keys in ascending order, as in a checkpoint; the table has only rows added by this function.
 * Call row_table_loaded after the last one. Until then only row_table_load and row_table_free are allowed. */
enum err row_table_load(struct row_table *t, uint64_t mixed, uint32_t *row) MUST_CHECK;
/* All rows are loaded; from now on all functions are allowed. Errors: ERR_NOMEM. */
enum err row_table_loaded(struct row_table *t) MUST_CHECK;

/* Remove the row of this key, which must exist. The next added row uses its memory. */
void row_table_remove(struct row_table *t, uint64_t mixed);

/* If more than half of the memory of rows is free (`tight`: an eighth), move rows to other memory and return the rest to the
 * system: some rows or one slab with each call, in bounded time. Numbers and addresses of rows change. */
void row_table_pack(struct row_table *t, bool tight);

/* The first rows, at most `room`, whose mixed keys are in [first, last], in ascending order of the mixed key. `mixed` gets
 * their keys; it can be NULL. Returns their number; less than `room` means that there are no more.
 * To continue, call it with the last key + 1. Rows may be added and removed between two calls. */
size_t row_table_scan(const struct row_table *t, uint64_t first, uint64_t last, uint64_t *mixed,
                      uint32_t *row, size_t room);

/* The first and the last key of a bucket, for row_table_scan. */
static inline uint64_t row_bucket_first(uint32_t bucket)
{
    return (uint64_t)bucket << (64 - ROW_BUCKET_BITS);
}
static inline uint64_t row_bucket_last(uint32_t bucket)
{
    return row_bucket_first(bucket) | (UINT64_MAX >> ROW_BUCKET_BITS);
}

/* out (n, dim) = the weights of the rows; for ROW_NONE the values of `out` do not change. */
void row_table_gather(const struct row_table *t, const uint32_t *row, size_t n, float *out);

static inline uint64_t row_table_rows(const struct row_table *t)
{
    return t->index.entries;
}
/* Bytes of keys, weights and slots: the least that rows can take. */
uint64_t row_table_payload_bytes(const struct row_table *t);
/* Bytes of memory that the table uses. Removed rows count until their memory returns to the system (row_table_pack). */
uint64_t row_table_bytes(const struct row_table *t);
/* Bytes by which row_table_bytes grows with `rows` more rows, which first use the memory of removed rows; exact for 1. */
uint64_t row_table_growth_bytes(const struct row_table *t, uint64_t rows);
/* An upper bound for the bytes per row, including the row's share of the index. Not valid for the first few rows. */
uint64_t row_table_row_bytes(const struct row_table *t);

/* Stamps from this one on mark a free row (below t->used). */
#define ROW_FREE_STAMP (UINT64_MAX << 32)

/* ---- access to a row by the number that row_table_find, _add or _scan gave ---- */

static inline char *row_head(const struct row_table *t, uint32_t row)
{
    return t->slab[row >> t->shift] + t->heads_at + (size_t)(row & t->mask) * t->head_bytes;
}

/* (dim) */
static inline float *row_weights(const struct row_table *t, uint32_t row)
{
    return (float *)(void *)t->slab[row >> t->shift] + (size_t)(row & t->mask) * t->body_floats;
}

/* The same as memcpy, whose call costs more than the copy of so few floats. */
static inline void row_copy(float *restrict out, const float *restrict w, uint32_t dim)
{
    enum { STRIDE = 8 };
    uint32_t i = 0;
    for (; i + STRIDE <= dim; i += STRIDE)
        memcpy(out + i, w + i, STRIDE * sizeof *w);
    for (; i < dim; i++)
        out[i] = w[i];
}

enum { ROW_LINE_BYTES = 64 };

/* The cache to prefetch into. A core can have about 20 outstanding lines for its first-level cache, and stalls on one more.
 * The second-level cache allows more. */
enum row_cache { ROW_FIRST_CACHE, ROW_SECOND_CACHE };

/* Prefetch the cache line of `at`. Always inlined, like row_ask, because gcc removes calls of a function that only
 * prefetches: it sees no effect. */
__attribute__((always_inline)) static inline void row_ask_line(const void *at, enum row_cache to)
{
    if (to == ROW_FIRST_CACHE)
        __builtin_prefetch(at, 0, 3);
    else
        __builtin_prefetch(at, 0, 2);
}

/* Prefetch `floats` floats from `at` on. Most rows have one or two cache lines. A row whose length is not a multiple of a line
 * can begin anywhere in a line, and can reach into one more line. */
__attribute__((always_inline)) static inline void row_ask(const float *at, uint32_t floats,
                                                          enum row_cache to)
{
    enum { LINE_FLOATS = ROW_LINE_BYTES / sizeof *at };
    row_ask_line(at, to);
    if (floats > LINE_FLOATS)
        row_ask_line(at + LINE_FLOATS, to);
    for (uint32_t i = 2 * LINE_FLOATS; i < floats; i += LINE_FLOATS)
        row_ask_line(at + i, to);
    if (floats % LINE_FLOATS != 0)
        row_ask_line(at + floats - 1, to);
}

enum {
    ROW_HEAD_COUNT = 8,
    ROW_HEAD_SLOT = 12
}; /* offsets in the head, which begins with the stamp */

/* The slots, (slot_floats), of the row with these weights and this head. */
static inline float *row_slots_at(const struct row_table *t, float *w, char *head)
{
    return t->body_floats == t->dim ? (float *)(void *)(head + ROW_HEAD_SLOT) : w + t->dim;
}

/* The slots, (slot_floats), of a row. */
static inline float *row_slots(const struct row_table *t, uint32_t row)
{
    return row_slots_at(t, row_weights(t, row), row_head(t, row));
}

static inline uint64_t row_stamp(const struct row_table *t, uint32_t row)
{
    uint64_t stamp;
    memcpy(&stamp, row_head(t, row), sizeof stamp);
    return stamp;
}

static inline void row_set_stamp(struct row_table *t, uint32_t row, uint64_t stamp)
{
    memcpy(row_head(t, row), &stamp, sizeof stamp);
}

static inline uint32_t row_count(const struct row_table *t, uint32_t row)
{
    uint32_t count;
    memcpy(&count, row_head(t, row) + ROW_HEAD_COUNT, sizeof count);
    return count;
}

static inline void row_set_count(struct row_table *t, uint32_t row, uint32_t count)
{
    memcpy(row_head(t, row) + ROW_HEAD_COUNT, &count, sizeof count);
}

/* Count one more update of the row with this head, and set its stamp. Returns the number of updates, this one included; at
 * most UINT32_MAX. */
static inline uint32_t row_head_touch(char *head, uint64_t stamp)
{
    uint32_t count;
    memcpy(&count, head + ROW_HEAD_COUNT, sizeof count);
    count += count != UINT32_MAX;
    memcpy(head, &stamp, sizeof stamp);
    memcpy(head + ROW_HEAD_COUNT, &count, sizeof count);
    return count;
}
