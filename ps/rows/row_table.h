/* One table's rows as one shard holds them: a mixed key (common/rows/key.h) leads to a row of weights, slots, a count of
 * updates and a stamp. Pure: no I/O, clock, locks.
 *
 * A row's number stays the same, and its memory in its place, from row_table_add to row_table_remove. The rows lie in
 * slabs of some MiB, which are mapped as the table grows and never moved. A row is two pieces of its slab: weights and
 * slots side by side, and a head with stamp and count; a single slot float (row-wise adagrad) is in the head, so that
 * weights of 16 floats fill a cache line.
 *
 * row_index.h is how a key finds its row. */
#ifndef GRADWIRE_PS_ROWS_ROW_TABLE_H
#define GRADWIRE_PS_ROWS_ROW_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/err.h"
#include "common/rows/key.h"
#include "ps/rows/row_index.h" /* ROW_NONE: the row of a key that is not there */

struct row_table {
    uint32_t dim, slot_floats;
    struct row_index index;
    uint32_t shift, mask; /* a slab has 2^shift rows */
    uint32_t body_floats; /* weights, and slots but for a single one */
    uint32_t head_bytes;  /* stamp, count, and a single slot */
    size_t heads_at;      /* bytes from a slab's begin to its heads */
    size_t slab_bytes;
    uint32_t small_rows; /* so many rows, and the table takes huge pages */
    uint32_t slabs, slabs_room;
    char **slab;         /* (slabs) */
    uint32_t used, free; /* rows ever used; the first free one below them, ROW_NONE: none */
};

/* A table for keys of `buckets`, each row with `dim` weights and `slot_floats` floats beside them (0: none).
 * Owns: *out, to free with row_table_free. Errors: ERR_NOMEM. */
enum err row_table_new(struct row_table **out, uint32_t dim, uint32_t slot_floats,
                       struct bucket_range buckets) MUST_CHECK;
/* Takes NULL. */
void row_table_free(struct row_table *t);

/* row[i] = the row of mixed[i], or ROW_NONE; returns how many are there. The keys may be in any order. */
size_t row_table_find(const struct row_table *t, const uint64_t *mixed, size_t n, uint32_t *row);

/* A row for a key of the table's buckets that is not there yet. Weights, slots, count and stamp are 0.
 * Errors: ERR_NOMEM: no memory, or 2^32 - 1 rows are there; the table is as it was. */
enum err row_table_add(struct row_table *t, uint64_t mixed, uint32_t *row) MUST_CHECK;

/* As row_table_add, for keys in ascending order, as a checkpoint has them, in a table that has only such. Behind the last
 * one comes row_table_loaded; before it the table takes nothing else but row_table_free. */
enum err row_table_load(struct row_table *t, uint64_t mixed, uint32_t *row) MUST_CHECK;
/* Errors: ERR_NOMEM. */
enum err row_table_loaded(struct row_table *t) MUST_CHECK;

/* The row of this key, which must be there, goes; its memory is the next one's that is added. */
void row_table_remove(struct row_table *t, uint64_t mixed);

/* The first rows, at most `room`, whose keys are in first .. last (included), in ascending order of the mixed key;
 * `mixed` gets their keys, and may be NULL. Returns how many: less than `room` if there are no more.
 * Go on with the last key + 1. Adding and removing between two calls is allowed. */
size_t row_table_scan(const struct row_table *t, uint64_t first, uint64_t last, uint64_t *mixed,
                      uint32_t *row, size_t room);

/* The first and the last key that a bucket can have: what row_table_scan takes for a bucket. */
static inline uint64_t row_bucket_first(uint32_t bucket)
{
    return (uint64_t)bucket << (64 - ROW_BUCKET_BITS);
}
static inline uint64_t row_bucket_last(uint32_t bucket)
{
    return row_bucket_first(bucket) | (UINT64_MAX >> ROW_BUCKET_BITS);
}

/* out (n, dim) = the weights of the rows; places of ROW_NONE stay as they are. */
void row_table_gather(const struct row_table *t, const uint32_t *row, size_t n, float *out);

static inline uint64_t row_table_rows(const struct row_table *t)
{
    return t->index.entries;
}
/* Bytes of keys, weights and slots: what a row costs at least. */
uint64_t row_table_payload_bytes(const struct row_table *t);
/* Bytes of memory that the table takes, as far as it is in use; what rows took stays when they go. */
uint64_t row_table_bytes(const struct row_table *t);
/* How many more it takes with so many more rows; those that have gone left their memory. The next one alone: exactly. */
uint64_t row_table_growth_bytes(const struct row_table *t, uint64_t rows);
/* While it is loaded (row_table_load): what it takes with one more row, beyond a table without rows. */
uint64_t row_table_load_bytes(const struct row_table *t);
/* At most so many bytes of memory a row, its share of the index included, but for the first few rows. */
uint64_t row_table_row_bytes(const struct row_table *t);

/* A row below t->used that is free has a stamp from this one on. */
#define ROW_FREE_STAMP (UINT64_MAX << 32)

/* ---- a row: of a number that row_table_find, _add or _scan gave ---- */

static inline char *row_head(const struct row_table *t, uint32_t row)
{
    return t->slab[row >> t->shift] + t->heads_at + (size_t)(row & t->mask) * t->head_bytes;
}

/* (dim) */
static inline float *row_weights(const struct row_table *t, uint32_t row)
{
    return (float *)(void *)t->slab[row >> t->shift] + (size_t)(row & t->mask) * t->body_floats;
}

/* As memcpy, which for so few floats costs more than they do. */
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

/* The cache that memory is asked to come to. A core waits for some 20 lines to its first cache; a request for more than
 * that stops it. More can be on their way to the second one. */
enum row_cache { ROW_FIRST_CACHE, ROW_SECOND_CACHE };

/* The line of `at` comes to the cache. Inlined always, as row_ask: gcc drops calls of a function that only prefetches, as
 * without effect. */
__attribute__((always_inline)) static inline void row_ask_line(const void *at, enum row_cache to)
{
    if (to == ROW_FIRST_CACHE)
        __builtin_prefetch(at, 0, 3);
    else
        __builtin_prefetch(at, 0, 2);
}

/* `floats` from `at` on come to the cache. Most rows have a line or two; rows that are not whole lines long begin anywhere
 * in one, and end in a line more. */
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

enum { ROW_HEAD_COUNT = 8, ROW_HEAD_SLOT = 12 }; /* bytes of the head, behind the stamp */

/* (slot_floats) of the row of these weights and this head. */
static inline float *row_slots_at(const struct row_table *t, float *w, char *head)
{
    return t->body_floats == t->dim ? (float *)(void *)(head + ROW_HEAD_SLOT) : w + t->dim;
}

/* (slot_floats) */
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

/* One more update of the row of this head; returns how many there were, this one included, up to UINT32_MAX. */
static inline uint32_t row_head_touch(char *head, uint64_t stamp)
{
    uint32_t count;
    memcpy(&count, head + ROW_HEAD_COUNT, sizeof count);
    count += count != UINT32_MAX;
    memcpy(head, &stamp, sizeof stamp);
    memcpy(head + ROW_HEAD_COUNT, &count, sizeof count);
    return count;
}

#endif
