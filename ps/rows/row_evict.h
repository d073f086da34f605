/* Eviction of one table's rows. With unseen_steps N a row becomes absent when the table clock is N above the row's
 * stamp: from then on everything that reads, counts or writes rows treats it as missing, even if its memory is not
 * freed yet. Present rows are counted by stamp, so that no row must be visited to know their number. The sweeper frees
 * the memory, some rows at a time. Pure. */
#pragma once

#include <stdbool.h>

#include "ps/rows/row_table.h"

/* The moment of a read: the table clock of each part of a shard, and the floor (row_budget.c). In sync mode all clocks are
 * equal. */
struct row_clocks {
    uint64_t of[ROW_PARTS];
    uint64_t floor;
};

/* True: a row with this stamp is present at this clock. unseen_steps 0: rows are never evicted by age. */
static inline bool row_is_there(uint32_t unseen_steps, uint64_t stamp, uint64_t clock)
{
    return unseen_steps == 0 || stamp + unseen_steps > clock;
}

/* True: the stamp is above the floor. Rows with a stamp up to the floor are absent; floor 0: none are. */
static inline bool row_is_above(uint64_t floor, uint64_t stamp)
{
    return floor == 0 || stamp > floor;
}

struct row_evict {
    uint32_t unseen_steps; /* 0: only a floor evicts rows */
    uint64_t floor;        /* rows with a stamp up to this are absent */
    uint64_t waiting;      /* unseen_steps 0: absent rows that are still in memory */
    uint64_t rows;         /* otherwise: present rows, with a stamp above the floor */
    uint64_t span;         /* present stamps differ by less than this */
    uint32_t *with;        /* (span) number of rows with stamp s, at s % span */
    uint64_t next;         /* the sweeper's next key */
};

/* No rows, clock 0. Free with row_evict_close. Errors: ERR_NOMEM: *e is zeros. */
enum err row_evict_init(struct row_evict *e, uint32_t unseen_steps) MUST_CHECK;
void row_evict_close(struct row_evict *e); /* takes zeros, too */

/* Count the table's rows from scratch, at this clock. */
void row_evict_count(struct row_evict *e, const struct row_table *t, uint64_t clock);
/* A row gets this stamp. */
void row_evict_enter(struct row_evict *e, uint64_t stamp);
/* A row loses this stamp, because it gets another one or is removed. True: the row was counted as present; never with
 * unseen_steps 0, which counts no stamps. */
bool row_evict_leave(struct row_evict *e, uint64_t stamp);
/* `clock`: the least clock of all parts. Returns the number of rows that became absent since the last call. */
uint64_t row_evict_advance(struct row_evict *e, uint64_t clock);
/* Raise the floor: rows of the table with a stamp up to it become absent. Returns their number. With unseen_steps 0 this
 * visits all rows. */
uint64_t row_evict_raise(struct row_evict *e, const struct row_table *t, uint64_t floor);
/* The number of present rows. */
uint64_t row_evict_rows(const struct row_evict *e, const struct row_table *t);
/* An absent row has left memory: it was removed, or a new row uses its memory. */
void row_evict_left(struct row_evict *e);

/* Free the memory of rows that are absent at this clock and floor. Visits a bounded number of rows, in the order of their
 * keys, after those of the last call. */
void row_evict_sweep(struct row_evict *e, struct row_table *t, uint64_t clock, uint64_t floor);
