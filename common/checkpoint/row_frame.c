#include "common/checkpoint/row_frame.h"

#include <string.h>

enum { ROW_FIXED_BYTES = 8 + 8 + 4 }; /* key, stamp, count */

size_t row_group_bytes(uint64_t rows, uint32_t width)
{
    uint64_t row = ROW_FIXED_BYTES + (uint64_t)width * sizeof(float);
    return ROW_GROUP_HEAD_BYTES + (rows * row + 7) / 8 * 8;
}

uint32_t row_group_fits(size_t bytes, uint32_t width)
{
    if (bytes <= ROW_GROUP_HEAD_BYTES)
        return 0;
    uint64_t row = ROW_FIXED_BYTES + (uint64_t)width * sizeof(float);
    return (uint32_t)((bytes - ROW_GROUP_HEAD_BYTES) / 8 * 8 / row);
}

static uint8_t *put(uint8_t *at, const void *from, size_t bytes)
{
    memcpy(at, from, bytes);
    return at + bytes;
}

void row_group_encode(void *out, const struct row_group *g, uint32_t first, uint32_t n,
                      uint32_t width)
{
    uint8_t *at = out, *end = at + row_group_bytes(n, width);
    uint32_t head[4] = {g->table, g->bucket, n, 0};
    at = put(at, head, sizeof head);
    at = put(at, g->mixed + first, n * sizeof *g->mixed);
    at = put(at, g->stamp + first, n * sizeof *g->stamp);
    at = put(at, g->count + first, n * sizeof *g->count);
    at = put(at, g->values + (size_t)first * width, (size_t)n * width * sizeof *g->values);
    memset(at, 0, (size_t)(end - at));
}

size_t row_group_decode(const void *data, size_t bytes, const struct checkpoint_table *table,
                        uint32_t tables, struct row_group *g)
{
    uint32_t head[4];
    if (bytes < sizeof head)
        return 0;
    memcpy(head, data, sizeof head);
    uint32_t rows = head[2];
    if (head[0] >= tables || head[1] >= ROW_BUCKETS || rows == 0)
        return 0;
    size_t all = row_group_bytes(rows, table[head[0]].dim + table[head[0]].slots);
    if (all > bytes)
        return 0;
    const uint64_t *mixed = (const uint64_t *)data + ROW_GROUP_HEAD_BYTES / 8;
    const uint32_t *count = (const uint32_t *)(mixed + 2 * (size_t)rows);
    *g = (struct row_group){.table = head[0],
                            .bucket = head[1],
                            .rows = rows,
                            .mixed = mixed,
                            .stamp = mixed + rows,
                            .count = count,
                            .values = (const float *)(count + rows)};
    return all;
}

/* Does the group begin behind `at`? */
static bool is_behind(const struct row_place *at, const struct row_group *g)
{
    if (!at->there || g->bucket > at->bucket)
        return true;
    if (g->bucket < at->bucket || g->table < at->table)
        return false;
    return g->table > at->table || g->mixed[0] > at->mixed;
}

bool row_place_advance(struct row_place *at, const struct row_group *g)
{
    uint32_t last = g->rows - 1;
    if (!is_behind(at, g))
        return false;
    for (uint32_t i = 1; i < g->rows; i++)
        if (g->mixed[i] <= g->mixed[i - 1])
            return false;
    if (key_bucket(g->mixed[0]) != g->bucket || key_bucket(g->mixed[last]) != g->bucket)
        return false;
    *at = (struct row_place){true, g->bucket, g->table, g->mixed[last]};
    return true;
}
