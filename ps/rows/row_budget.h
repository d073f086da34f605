/* The memory budget of the rows of one shard, and the actions when it is full. Pure.
 *
 * At each step's boundary (in async: when a batch is resolved) the existing rows are counted. If they take more than 95
 * % of the budget, the key ps.when_full decides. `evict` (ROW_FULL_EVICT): a floor is raised so far that the rows below
 * it free 5 % of the budget, also if rows of the step had no room. From then on the rows below do not exist for anything
 * that reads, counts or writes rows, and new rows use their memory. `refuse` (ROW_FULL_REFUSE): no row is created until
 * the rows take less. `stop` (ROW_FULL_STOP): nothing happens until the budget is used up.
 *
 * The budget itself is a hard bound. The room that is left at a step's boundary is divided among the parts, since parts
 * are updated in any order: each can create rows for its share. If a step touches more missing rows, the remaining ones
 * are refused, or, with `stop`, which does not divide the room, the job ends.
 *
 * All decisions depend on the existing rows and the step's gradients alone, not on memory that is still allocated for
 * removed rows or for the index: a row of a table has a fixed number of bytes. So a restored shard decides the same as
 * one that ran on. */
#ifndef GRADWIRE_PS_ROWS_ROW_BUDGET_H
#define GRADWIRE_PS_ROWS_ROW_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rows/row_layout.h"

struct row_tables;
struct row_grads;

struct row_budget {
    enum row_full full;
    uint64_t bytes; /* the budget; 0: no bound, and the other fields are unused */
    /* Rows with a stamp up to this are evicted for lack of memory: at the present step, and at the step before. */
    uint64_t floor, floor_before;
    bool closed;         /* ROW_FULL_REFUSE: no row is created */
    uint64_t squeezed;   /* rows evicted for lack of memory since the job began */
    uint32_t full_table; /* the table of the last row without room */
    bool lacked;         /* ROW_FULL_EVICT: since the last step's boundary some row had no room */
    uint64_t room;       /* bytes for new rows at the last step's boundary, which had this clock */
    uint64_t clock;
    uint64_t taken[ROW_PARTS]; /* of `room`, by each part since then */
    uint64_t left;             /* for the part whose rows are created now */
};

enum {
    ROW_BUDGET_PERCENT = 95,       /* of the budget: from here on evict or refuse */
    ROW_BUDGET_FREE_PERCENT = 5,   /* of the budget: freed by raising the floor */
    ROW_BUDGET_TABLE_BYTES = 8192, /* reserved for a table without rows */
};

/* Bytes that the tables take without rows. A budget must be larger to have room for a row. */
uint64_t row_budget_fixed_bytes(const struct row_tables *t);
/* Bytes of the existing rows, each with its share of the index. Decisions use this number. */
uint64_t row_budget_bytes(const struct row_tables *t);

/* Set the budget and the action. If they are others than before, the room is counted again. */
void row_budget_set(struct row_tables *t, uint64_t bytes, enum row_full full);
/* A step is complete, a batch is resolved, or a checkpoint is read. `clock`: the least clock of all parts. */
void row_budget_step(struct row_tables *t, uint64_t clock);
/* Rows of this part for these gradients are about to be created: free the memory of evicted rows as far as it is needed,
 * and compute `left`. `allocated`: bytes that the tables take. Call before row_budget_takes, if there is a budget. */
void row_budget_begin(struct row_tables *t, uint32_t part, const struct row_grads *g,
                      uint64_t allocated);
/* Account for one more row of this part. False: there is no room for it. */
bool row_budget_takes(struct row_tables *t, uint32_t part, uint32_t table);

/* ---- a checkpoint that is read ---- */

/* A histogram of bytes by stamp: each bin has `width` stamps. */
enum { ROW_LOAD_PLACES = 4096 };
struct row_load {
    uint64_t width, bytes[ROW_LOAD_PLACES];
    bool full;          /* some rows did not fit */
    uint64_t all, most; /* bytes of the rows taken so far; the bound for them */
};

/* Begin to read rows of a checkpoint, in any order of their stamps; the caller calls row_budget_step at the end. `l`
 * belongs to the caller; nothing must be freed. */
void row_load_begin(struct row_load *l, const struct row_tables *t);
/* ERR_OK: the caller loads this row (row_table_load). If all rows fitted when the cut was taken, they fit now.
 * Errors: ERR_NOTFOUND: leave this row out; ERR_TOOBIG: it does not fit, and no row may be left out. */
enum err row_load_takes(struct row_load *l, struct row_tables *t, uint32_t table,
                        uint64_t stamp) MUST_CHECK;
/* After all rows were read, if l->full: set the floor so that the newest rows fit, and begin again. The caller has
 * emptied the tables `t`, and reads all rows once more. */
void row_load_again(struct row_load *l, struct row_tables *t);

#endif
