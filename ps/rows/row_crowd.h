/* The rows whose keys are too close together for the array of row_index.h. Evenly spread keys never come here, except for
 * a while in the first steps with large batches. But the words or integers of hostile data can be chosen so that their keys
 * are close together.
 *
 * A hash table finds a key in a few steps, however keys are spread: its order depends on a random number of this process,
 * and no result depends on that order. Blocks of entries, sorted by key, give the order in which a checkpoint is written. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_CROWD_H
#define GRADWIRE_PS_ROWS_ROW_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

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

#endif
