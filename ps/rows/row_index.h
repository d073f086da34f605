/* Maps a mixed key to its row: one array of (mixed key, row), with open addressing and linear probing. The position at which
 * the search for a key starts grows with the key, and the entries are sorted by key, so a range of keys is a range of the
 * array. A full array grows in place, from its upper end down, by some positions with each added entry: no single add
 * pays for the whole growth, and no second array is needed. Exception: if a sequence of occupied positions gets long (in
 * the first steps with large batches), the array grows immediately to the size that such keys need.
 *
 * A sequence that growth does not make shorter gets no more entries: their keys go to the crowd (row_crowd.h), so a search
 * visits a bounded number of positions however close together the keys are. When entries are removed, the array shrinks in
 * place, from its lower end up, by some positions with each removed or added entry. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_INDEX_H
#define GRADWIRE_PS_ROWS_ROW_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/key.h"
#include "ps/rows/row_crowd.h" /* ROW_NONE: the row of a key that the index lacks */

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

#endif
