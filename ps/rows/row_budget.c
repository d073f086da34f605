#include "ps/rows/row_tables.h"

#include <string.h>

enum { BINS = 4096, SCAN_ROWS = 256 };

uint64_t row_budget_fixed_bytes(const struct row_tables *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        bytes += ROW_BUDGET_TABLE_BYTES + row_admit_bytes(&t->admit[i]);
    return bytes;
}

uint64_t row_budget_bytes(const struct row_tables *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        bytes += row_evict_rows(&t->evict[i], t->table[i]) * row_table_row_bytes(t->table[i]);
    return bytes;
}

/* A percentage of the budget for rows. */
static uint64_t percent(const struct row_tables *t, uint64_t of_100)
{
    uint64_t fixed = row_budget_fixed_bytes(t);
    return t->budget.bytes > fixed ? (t->budget.bytes - fixed) * of_100 / 100 : 0;
}

/* ---- the floor ---- */

/* The lowest floor up to `most` that frees `wanted` bytes; `most` if none does. */
static uint64_t find_floor(const struct row_tables *t, uint64_t most, uint64_t wanted)
{
    uint64_t lo = t->budget.floor, hi = most;
    while (lo < hi) {
        uint64_t bytes[BINS] = {0}, width = (hi - lo - 1) / BINS + 1;
        for (uint32_t i = 0; i < t->layout->tables; i++) {
            /* bytes[k] += bytes of the rows with a stamp in (lo + k width, lo + (k + 1) width], up to hi. Rows with a
             * stamp up to the evicted floor are absent and do not count. */
            uint64_t each = row_table_row_bytes(t->table[i]);
            for (uint32_t row = 0; row < t->table[i]->used; row++) {
                uint64_t stamp = row_stamp(t->table[i], row);
                if (stamp > lo && stamp <= hi && stamp > t->evict[i].floor)
                    bytes[(stamp - lo - 1) / width] += each;
            }
        }
        uint32_t bin = 0;
        while (bin < BINS && bytes[bin] < wanted)
            wanted -= bytes[bin++];
        if (bin == BINS)
            return most;
        lo += bin * width;
        hi = hi - lo > width ? lo + width : hi;
        if (width == 1)
            return hi;
    }
    return most;
}

/* Raise the floor. Rows with the newest stamp stay. */
static void squeeze(struct row_tables *t, uint64_t clock)
{
    struct row_budget *b = &t->budget;
    uint64_t gone = 0, most = clock ? clock - 1 : 0;
    uint64_t bytes = row_budget_bytes(t), fits = percent(t, ROW_BUDGET_PERCENT);
    uint64_t wanted = percent(t, ROW_BUDGET_FREE_PERCENT);
    if (bytes >
        fits + wanted) /* otherwise a shard restored after this step would raise the floor again */
        wanted = bytes - fits;
    uint64_t floor = find_floor(t, most, wanted);
    if (floor <= b->floor)
        return;
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        uint64_t of_table = row_evict_raise(&t->evict[i], t->table[i], floor);
        t->counts[i].evicted += of_table;
        gone += of_table;
    }
    b->floor = floor;
    b->squeezed += gone;
}

/* ---- the room for new rows ---- */

static void count_room(struct row_tables *t)
{
    uint64_t all = percent(t, 100), bytes = row_budget_bytes(t);
    t->budget.room = all > bytes ? all - bytes : 0;
    memset(t->budget.taken, 0, sizeof t->budget.taken);
}

void row_budget_set(struct row_tables *t, uint64_t bytes, enum row_full full)
{
    struct row_budget *b = &t->budget;
    bool same = b->bytes == bytes && b->full == full;
    b->bytes = bytes;
    b->full = full;
    b->closed &= bytes > 0 && full == ROW_FULL_REFUSE;
    b->lacked &= same;
    if (!same)
        count_room(t);
}

void row_budget_step(struct row_tables *t, uint64_t clock)
{
    struct row_budget *b = &t->budget;
    b->floor_before = b->floor;
    b->clock = clock;
    if (b->bytes == 0)
        return;
    bool full = row_budget_bytes(t) > percent(t, ROW_BUDGET_PERCENT) || b->lacked;
    b->lacked = false;
    b->closed = full && b->full == ROW_FULL_REFUSE;
    if (full && b->full == ROW_FULL_EVICT)
        squeeze(t, clock);
    count_room(t);
}

/* The part's share of the room, in whole rows of the table with the largest ones. The rows that are left over go to other
 * parts at each step. */
static uint64_t share(const struct row_tables *t, uint32_t part)
{
    uint64_t each = 1;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        each = row_table_row_bytes(t->table[i]) > each ? row_table_row_bytes(t->table[i]) : each;
    uint64_t rows = t->budget.room / each;
    bool one_more = (part + t->budget.clock) % ROW_PARTS < rows % ROW_PARTS;
    return (rows / ROW_PARTS + one_more) * each;
}

static uint64_t left_of_room(const struct row_tables *t, uint32_t part)
{
    const struct row_budget *b = &t->budget;
    bool divided = b->full != ROW_FULL_STOP;
    uint64_t taken = 0, room = divided ? share(t, part) : b->room;
    for (uint32_t i = 0; i < ROW_PARTS; i++)
        taken += divided && i != part ? 0 : b->taken[i];
    return taken < room ? room - taken : 0;
}

bool row_budget_takes(struct row_tables *t, uint32_t part, uint32_t table)
{
    struct row_budget *b = &t->budget;
    uint64_t bytes = row_table_row_bytes(t->table[table]);
    if (b->bytes == 0)
        return true;
    if (b->closed || bytes > b->left) {
        b->lacked |= b->full == ROW_FULL_EVICT;
        return false;
    }
    b->left -= bytes;
    b->taken[part] += bytes;
    return true;
}

/* ---- memory ---- */

/* Bytes of the budget that are not allocated. */
static uint64_t unused(const struct row_tables *t, uint64_t bytes)
{
    for (uint32_t i = 0; i < t->layout->tables; i++)
        bytes += ROW_BUDGET_TABLE_BYTES / 2; /* for the end of the index, and for lists of slabs */
    return bytes < t->budget.bytes ? t->budget.bytes - bytes : 0;
}

/* Free the memory of some absent rows, in the order of their keys. A running cut can still contain them. */
static void reclaim_some(struct row_tables *t, uint32_t table)
{
    struct row_table *of = t->table[table];
    struct row_evict *e = &t->evict[table];
    uint64_t mixed[SCAN_ROWS];
    uint32_t row[SCAN_ROWS];
    size_t n = row_table_scan(of, e->next, UINT64_MAX, mixed, row, SCAN_ROWS);
    for (size_t i = 0; i < n; i++) {
        if (row_is_above(e->floor, row_stamp(of, row[i])))
            continue;
        row_cut_keep(&t->cut, table, &mixed[i], &row[i], 1);
        row_table_remove(of, mixed[i]);
        row_evict_left(e);
    }
    e->next = n == SCAN_ROWS ? mixed[n - 1] + 1 : 0;
}

/* The positions for all rows that there can be, if each table has an equal share. The index does not grow beyond them for
 * keys that are close together. */
static uint64_t most_places(const struct row_tables *t, const struct row_table *of)
{
    uint64_t most = 2 * percent(t, 100) / t->layout->tables / row_table_row_bytes(of);
    return most > of->index.grown ? most : of->index.grown;
}

void row_budget_begin(struct row_tables *t, uint32_t part, const struct row_grads *g,
                      uint64_t allocated)
{
    uint64_t bytes = unused(t, allocated);
    t->budget.left = left_of_room(t, part);
    for (uint32_t i = 0; i < t->layout->tables; i++) {
        const struct row_table *of = t->table[i];
        uint64_t rows = g->keys[t->layout->table[i].list];
        while (row_table_growth_bytes(of, rows) > bytes &&
               row_table_rows(of) > row_evict_rows(&t->evict[i], of))
            reclaim_some(t, i);
        uint64_t taken = row_table_growth_bytes(of, rows);
        bytes -= taken < bytes ? taken : bytes;
        t->table[i]->index.most_places = most_places(t, of);
    }
}

/* ---- a checkpoint that is read ---- */

void row_load_begin(struct row_load *l, const struct row_tables *t)
{
    *l = (struct row_load){.width = 1, .most = percent(t, 100)};
}

enum err row_load_takes(struct row_load *l, struct row_tables *t, uint32_t table, uint64_t stamp)
{
    struct row_budget *b = &t->budget;
    if (b->bytes == 0)
        return ERR_OK;
    uint64_t bytes = row_table_row_bytes(t->table[table]);
    while (stamp / l->width >= ROW_LOAD_PLACES) {
        for (uint32_t i = 0; i < ROW_LOAD_PLACES; i += 2)
            l->bytes[i / 2] = l->bytes[i] + l->bytes[i + 1];
        memset(l->bytes + ROW_LOAD_PLACES / 2, 0, sizeof l->bytes / 2);
        l->width *= 2;
    }
    l->bytes[stamp / l->width] += bytes;
    if (row_is_above(b->floor, stamp) && l->all + bytes <= l->most) {
        l->all += bytes;
        return ERR_OK;
    }
    if (b->full != ROW_FULL_EVICT)
        return ERR_TOOBIG;
    l->full = true;
    t->counts[table].evicted++;
    b->squeezed++;
    return ERR_NOTFOUND;
}

void row_load_again(struct row_load *l, struct row_tables *t)
{
    uint64_t all = 0, fits = percent(t, ROW_BUDGET_PERCENT);
    uint32_t newest = 0, place = 0;
    for (uint32_t i = 0; i < ROW_LOAD_PLACES; i++) {
        all += l->bytes[i];
        newest = l->bytes[i] ? i : newest;
    }
    while (place < newest && all > fits)
        all -= l->bytes[place++];
    t->budget.floor = place ? place * l->width - 1 : 0;
    for (uint32_t i = 0; i < t->layout->tables; i++)
        t->evict[i].floor = t->budget.floor;
    row_load_begin(l, t);
}
