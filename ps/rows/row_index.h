/* Which row a mixed key has: one array of (mixed key, row), open addressing with linear probing. The first place of a key
 * grows with the key and entries stand in ascending order of it, so a range of keys is a run of the array. An array that
 * is full grows in place, from its upper end down, some places with each entry that is added: no add waits for a whole
 * one, and there is no second array. But where a run of new keys grows long (the first steps of large batches), the array
 * grows at once to what such keys take. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_INDEX_H
#define GRADWIRE_PS_ROWS_ROW_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/key.h"

#define ROW_NONE UINT32_MAX /* the row of a key that is not there */

struct row_entry {
    uint64_t mixed;
    uint32_t row_1; /* the row + 1; 0: the place is free */
} __attribute__((packed, aligned(4)));

struct row_index {
    struct bucket_range buckets;
    uint64_t first, spread; /* the least key, and what stretches a distance from it over 64 bits */
    uint64_t entries;
    struct row_entry *entry;   /* (room) the last place is free */
    uint64_t room, room_bytes; /* of memory: a power of two */
    /* Keys up to `kept` are spread over `places` places, those above over `grown`; the two are equal unless it grows. It
     * grows from the largest key down: no place from `cursor` on has a key up to `kept`. */
    uint64_t places, grown, kept, cursor;
    uint64_t most_places; /* that a long run may make it grow to at once; 0: any */
};

/* An index for keys of `buckets`. Errors: ERR_NOMEM. Free with row_index_close. */
enum err row_index_init(struct row_index *x, struct bucket_range buckets) MUST_CHECK;
void row_index_close(struct row_index *x);

/* row[i] = the row of mixed[i], or ROW_NONE; returns how many are there. */
size_t row_index_find(const struct row_index *x, const uint64_t *mixed, size_t n, uint32_t *row);

/* Enter a key that is not there, with a row below ROW_NONE. Errors: ERR_NOMEM; nothing changes. */
enum err row_index_add(struct row_index *x, uint64_t mixed, uint32_t row) MUST_CHECK;

/* Many keys at once, as a checkpoint has them: each one above all that are there, into an index that has only such.
 * row_index_add would search and move a run that gets ever longer, as the least keys of many begin side by side; here
 * each entry is written once, and moved once by row_index_spread, which must be called before anything but
 * row_index_append and row_index_close. Errors: ERR_NOMEM; nothing changes. */
enum err row_index_append(struct row_index *x, uint64_t mixed, uint32_t row) MUST_CHECK;
enum err row_index_spread(struct row_index *x) MUST_CHECK;

/* Take out a key that is there; returns its row. */
uint32_t row_index_remove(struct row_index *x, uint64_t mixed);

/* As row_table_scan. */
size_t row_index_scan(const struct row_index *x, uint64_t first, uint64_t last, uint64_t *mixed,
                      uint32_t *row, size_t room);

/* Bytes of the array that are in use. */
uint64_t row_index_bytes(const struct row_index *x);
/* How many more it takes with so many more entries; the next one alone: exactly. */
uint64_t row_index_growth_bytes(const struct row_index *x, uint64_t entries);

#endif
