/* Eviction of one table's rows: with unseen_steps N a row is absent N clocks after its last touch, in all that reads,
 * counts or writes it, whether or not its memory was given back. How many rows are there is counted by their stamps, so
 * no row is looked at to know it. The sweeper takes the memory back, some rows at a time. Pure. */
#ifndef GRADWIRE_PS_ROWS_ROW_EVICT_H
#define GRADWIRE_PS_ROWS_ROW_EVICT_H

#include <stdbool.h>

#include "ps/rows/row_table.h"

/* The table clock of each part of a shard at the moment that is read, and its floor (row_budget.h). In sync the clocks are
 * equal. */
struct row_clocks {
    uint64_t of[ROW_PARTS];
    uint64_t floor;
};

/* Is a row with this stamp there at this clock? unseen_steps 0: rows stay. */
static inline bool row_is_there(uint32_t unseen_steps, uint64_t stamp, uint64_t clock)
{
    return unseen_steps == 0 || stamp + unseen_steps > clock;
}

/* A floor: rows with a stamp up to it are gone; 0: none are. */
static inline bool row_is_above(uint64_t floor, uint64_t stamp)
{
    return floor == 0 || stamp > floor;
}

struct row_evict {
    uint32_t unseen_steps; /* 0: rows stay, but for those below a floor */
    uint64_t floor;        /* rows with a stamp up to this are gone */
    uint64_t waiting;      /* unseen_steps 0: rows that are gone and still in memory */
    uint64_t rows;         /* else: that are there, with a stamp above the floor */
    uint64_t span;
    uint32_t *with; /* (span) how many have stamp s, at s % span */
    uint64_t next;  /* the sweeper's next key */
};

/* No row is there, at clock 0. Owns: row_evict_close. Errors: ERR_NOMEM: *e is zeros. */
enum err row_evict_init(struct row_evict *e, uint32_t unseen_steps) MUST_CHECK;
void row_evict_close(struct row_evict *e); /* zeros, too */

/* Count the table's rows anew, at this clock. */
void row_evict_count(struct row_evict *e, const struct row_table *t, uint64_t clock);
/* A row has this stamp from now on. */
void row_evict_enter(struct row_evict *e, uint64_t stamp);
/* A row has this stamp no more. Returns whether it was still counted as there. */
bool row_evict_leave(struct row_evict *e, uint64_t stamp);
/* No part's clock is below this one. Returns how many rows have gone since. */
uint64_t row_evict_advance(struct row_evict *e, uint64_t clock);
/* Rows of the table with a stamp up to this one are gone. Returns how many have gone by that: without unseen_steps all rows
 * are looked at. */
uint64_t row_evict_raise(struct row_evict *e, const struct row_table *t, uint64_t floor);
/* Rows that are there. */
uint64_t row_evict_rows(const struct row_evict *e, const struct row_table *t);
/* A row that is gone leaves its memory: it was removed, or a new one takes its place. */
void row_evict_left(struct row_evict *e);

/* Give back the memory of rows that are absent at this clock and floor: a bounded number of rows is looked at, in the order of
 * their keys, beginning behind the last call's. */
void row_evict_sweep(struct row_evict *e, struct row_table *t, uint64_t clock, uint64_t floor);

#endif
