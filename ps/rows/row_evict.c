#include "ps/rows/row_evict.h"

#include <assert.h>

#include "common/base/mem.h"
#include "common/parameters/ids.h"

enum {
    SWEEP_ROWS = 256, /* rows visited at a time */
    SWEEP_TIMES = 8
};

/* The clocks of parts differ by at most IDS_WINDOW, the number of batches that only some parts can have had. */
enum err row_evict_init(struct row_evict *e, uint32_t unseen_steps)
{
    *e = (struct row_evict){.unseen_steps = unseen_steps};
    if (unseen_steps == 0)
        return ERR_OK;
    uint64_t span = (uint64_t)unseen_steps + IDS_WINDOW + 1;
    e->with = mem_map(span * sizeof *e->with);
    e->span = e->with ? span : 0;
    if (!e->with)
        e->unseen_steps = 0;
    return e->with ? ERR_OK : ERR_NOMEM;
}

void row_evict_close(struct row_evict *e)
{
    mem_unmap(e->with, e->span * sizeof *e->with);
    *e = (struct row_evict){.unseen_steps = 0};
}

void row_evict_enter(struct row_evict *e, uint64_t stamp)
{
    if (!e->with || stamp <= e->floor)
        return;
    assert(stamp - e->floor < e->span);
    e->with[stamp % e->span]++;
    e->rows++;
}

bool row_evict_leave(struct row_evict *e, uint64_t stamp)
{
    if (!e->with || stamp <= e->floor)
        return false;
    assert(stamp - e->floor < e->span && e->with[stamp % e->span] > 0);
    e->with[stamp % e->span]--;
    e->rows--;
    return true;
}

/* Advance to this floor. Rows are counted by stamp. */
static uint64_t go_to(struct row_evict *e, uint64_t floor)
{
    uint64_t gone = 0;
    if (floor <= e->floor)
        return 0;
    uint64_t first = floor - e->floor > e->span ? floor - e->span + 1 : e->floor + 1;
    for (uint64_t stamp = first; stamp <= floor; stamp++) {
        gone += e->with[stamp % e->span];
        e->with[stamp % e->span] = 0;
    }
    e->floor = floor;
    e->rows -= gone;
    return gone;
}

uint64_t row_evict_advance(struct row_evict *e, uint64_t clock)
{
    return e->with && clock > e->unseen_steps ? go_to(e, clock - e->unseen_steps) : 0;
}

uint64_t row_evict_raise(struct row_evict *e, const struct row_table *t, uint64_t floor)
{
    uint64_t gone = 0;
    if (floor <= e->floor)
        return 0;
    if (e->with)
        return go_to(e, floor);
    for (uint32_t row = 0; row < t->used; row++)
        gone += row_stamp(t, row) <= floor && row_is_above(e->floor, row_stamp(t, row));
    e->floor = floor;
    e->waiting += gone;
    return gone;
}

uint64_t row_evict_rows(const struct row_evict *e, const struct row_table *t)
{
    return e->with ? e->rows : row_table_rows(t) - e->waiting;
}

void row_evict_left(struct row_evict *e)
{
    if (e->with)
        return;
    assert(e->waiting > 0);
    e->waiting--;
}

void row_evict_count(struct row_evict *e, const struct row_table *t, uint64_t clock)
{
    uint64_t first = 0, mixed[SWEEP_ROWS];
    uint32_t row[SWEEP_ROWS];
    size_t n;
    (void)row_evict_advance(e, clock);
    do {
        n = e->with ? row_table_scan(t, first, UINT64_MAX, mixed, row, SWEEP_ROWS) : 0;
        for (size_t i = 0; i < n; i++)
            row_evict_enter(e, row_stamp(t, row[i]));
        first = n ? mixed[n - 1] + 1 : 0;
    } while (n == SWEEP_ROWS && first != 0);
}

static bool is_absent(const struct row_evict *e, uint64_t stamp, uint64_t clock, uint64_t floor)
{
    return !row_is_there(e->unseen_steps, stamp, clock) || !row_is_above(floor, stamp);
}

void row_evict_sweep(struct row_evict *e, struct row_table *t, uint64_t clock, uint64_t floor)
{
    uint64_t mixed[SWEEP_ROWS];
    uint32_t row[SWEEP_ROWS];
    for (int times = 0; (e->with || e->waiting) && times < SWEEP_TIMES; times++) {
        size_t n = row_table_scan(t, e->next, UINT64_MAX, mixed, row, SWEEP_ROWS);
        for (size_t i = 0; i < n; i++) {
            if (!is_absent(e, row_stamp(t, row[i]), clock, floor))
                continue;
            row_table_remove(t, mixed[i]);
            row_evict_left(e);
        }
        e->next = n == SWEEP_ROWS ? mixed[n - 1] + 1 : 0;
        if (n < SWEEP_ROWS)
            return;
    }
}
