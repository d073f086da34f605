/* The memory that the rows of one shard may take, and what is done when it is full. Pure.
 *
 * At a step's boundary (in async: when a batch is resolved) the rows that are there are counted. From 95 % of the budget on
 * either a floor goes up, so far that the rows below it free 5 % of the budget: these are gone at once, in all that reads,
 * counts or writes rows, and their memory is the next rows'. Or no row is made any more until they are less. Both follow
 * from the rows alone, so a shard that is restored decides as one that was not.
 *
 * The bound itself holds for each row that is made, with the index that grows with it: a step that makes more than the
 * last 5 % has the rest of its rows refused, or ends the job. */
#ifndef GRADWIRE_PS_ROWS_ROW_BUDGET_H
#define GRADWIRE_PS_ROWS_ROW_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rows/row_layout.h"

struct row_tables;
struct row_grads;

struct row_budget {
    enum row_full full;
    uint64_t bytes; /* 0: no bound, and nothing here is used */
    uint64_t left;  /* of them, while rows are made */
    /* Rows with a stamp up to this have gone for want of room, as of the present step, and of the one before. */
    uint64_t floor, floor_before;
    bool closed;         /* ROW_FULL_REFUSE: no row is made */
    bool loads;          /* rows of a checkpoint come in */
    uint64_t squeezed;   /* rows that have gone so, since the job began */
    uint32_t full_table; /* whose row had no room last */
    bool lacked;         /* a row had no room since the last step */
    /* `left` is as of this table, with an index of so many places. */
    uint32_t of;
    uint64_t grown;
};

enum {
    ROW_BUDGET_PERCENT = 95,       /* of the budget for rows: from here on something is done */
    ROW_BUDGET_FREE_PERCENT = 5,   /* that a floor frees */
    ROW_BUDGET_TABLE_BYTES = 8192, /* that are kept free for what a table takes without rows */
};

/* Bytes that tables without rows take of it: with less than that a budget has no room for a row. */
uint64_t row_budget_fixed_bytes(const struct row_tables *t);
/* Bytes of the rows that are there, each with its share of the index, as the decision counts them. */
uint64_t row_budget_bytes(const struct row_tables *t);

/* A step is made, or a batch resolved, or a checkpoint read: no part's clock is below this one. */
void row_budget_step(struct row_tables *t, uint64_t clock);
/* Rows for these gradients are about to be made: what is gone leaves its memory, as far as it is needed. */
void row_budget_begin(struct row_tables *t, const struct row_grads *g);
/* One more row in new memory. False: there is no room. */
bool row_budget_takes(struct row_tables *t, uint32_t table);

/* ---- a checkpoint that is read ---- */

/* Bytes of its rows, by their stamps: `width` stamps a place. */
enum { ROW_LOAD_PLACES = 4096 };
struct row_load {
    uint64_t width, bytes[ROW_LOAD_PLACES];
    bool full; /* some rows had no room */
    /* Bytes of the rows that have come in. */
    uint64_t taken[ROW_TABLES_MAX], all;
};

/* Rows of a checkpoint come in, in any order of their stamps; row_budget_step follows. `l` is the caller's. */
void row_load_begin(struct row_load *l, struct row_tables *t);
/* May this one come in? Then it does (row_table_load). If all rows fitted when the cut was taken, they fit now. Errors:
 * ERR_NOTFOUND: it is left out; ERR_TOOBIG: it has no room, and none may be left out. */
enum err row_load_takes(struct row_load *l, struct row_tables *t, uint32_t table,
                        uint64_t stamp) MUST_CHECK;
/* All have come, and l->full: into `t`, where no row is, they come once more, but for the oldest. */
void row_load_again(struct row_load *l, struct row_tables *t);

#endif
