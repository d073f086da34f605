/* A scale can make different numbers equal in float32, and borders can be far from all of them: a sample of rows shows in which
 * columns. */
#include "data/readers.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "data/core/rounding.h"

enum {
    COLUMNS = 256, /* of more the first ones: a sample takes 8 KiB for each */
    BLOCKS = 16,   /* of rows, spread over all */
    ROWS = 4096    /* of all blocks together */
};

struct noted {
    uint32_t columns, column[COLUMNS];
    struct rounding_counts count[COLUMNS];
};

static void choose(struct noted *n, const struct table_schema *s)
{
    for (uint32_t i = 0; i < s->inputs && n->columns < COLUMNS; i++)
        if (s->input[i].kind == COLUMN_NUMBER &&
            (s->input[i].scale != SCALE_NONE || s->input[i].bucketing != BUCKETS_NONE))
            n->column[n->columns++] = i;
}

/* The number as its scale leaves it. Floats near 0 differ, but they must next to a range from 0 to 1, too. */
static double left_of(const struct schema_input *in, double v)
{
    const float range = in->scale == SCALE_MIN_MAX ? 1 : 0;
    const uint32_t cell = schema_scaled_cell(in, v);
    return in->bucketing == BUCKETS_NONE ? (double)(schema_float(cell) + range) : cell;
}

static void note_row(struct noted *n, const struct table_schema *s, const uint32_t *cells)
{
    const uint32_t *high = schema_high_cells(s, cells);
    for (uint32_t k = 0; k < n->columns; k++) {
        double v = schema_number(s, cells, high, n->column[k]);
        if (!isnan(v))
            rounding_count(&n->count[k], rounding_key(v), left_of(&s->input[n->column[k]], v));
    }
}

/* Rows from `row` on. */
static enum err note_block(struct noted *n, const struct table *t, uint64_t row, uint64_t rows,
                           uint32_t *buffer, struct errmsg *e)
{
    const struct table_schema *s = t->schema;
    for (const uint64_t end = row + rows; row < end;) {
        const uint32_t *cells;
        uint64_t held = end - row;
        enum err err = table_look(t, row, &held, buffer, TABLE_ROW_CELLS_MAX, &cells, e);
        if (err)
            return err;
        row += held;
        for (; held > 0; held--, cells += schema_packed_raw_cells(s, cells))
            if (!isnan(schema_float(cells[s->inputs]))) /* not a bad row */
                note_row(n, s, cells);
    }
    return ERR_OK;
}

static enum err note_blocks(struct noted *n, const struct table *t, uint32_t *buffer,
                            struct errmsg *e)
{
    enum err err = ERR_OK;
    if (t->rows <= ROWS)
        return note_block(n, t, 0, t->rows, buffer, e);
    for (uint64_t i = 0; i < BLOCKS && !err; i++)
        err = note_block(n, t, (t->rows - ROWS / BLOCKS) / (BLOCKS - 1) * i, ROWS / BLOCKS, buffer,
                         e);
    return err;
}

static void say(const struct noted *n, const struct table_schema *s, const struct reading *r)
{
    static const char *const scale[] = {[SCALE_STANDARD] = "standard",
                                        [SCALE_MIN_MAX] = "min_max",
                                        [SCALE_LOG1P] = "log1p",
                                        [SCALE_LOG2] = "log2"};
    double numbers, left;
    for (uint32_t k = 0; k < n->columns; k++) {
        const uint32_t i = n->column[k];
        const enum column_scale by = s->input[i].scale;
        if (!rounding_counts_lose(&n->count[k], ROUNDING_OF_FLOATS, &numbers, &left))
            continue;
        if (s->input[i].bucketing != BUCKETS_NONE) {
            if (left < 1.5)
                dataset_warn(r,
                             "%s: column %s: a sample has about %.0f different numbers, all in one "
                             "bucket: are its borders in the numbers' unit?",
                             r->key,
                             SHOWN(s->input[i].name[0] ? s->input[i].name : "without a name"),
                             numbers);
            continue;
        }
        dataset_warn(
            r,
            "%s: column %s: a sample has about %.0f different numbers, but scale: %s makes "
            "them about %.0f features in float32; %s",
            r->key, SHOWN(s->input[i].name[0] ? s->input[i].name : "without a name"), numbers,
            scale[by], left,
            by == SCALE_LOG1P || by == SCALE_LOG2
                ? "use scale: standard, or buckets"
                : "remove the numbers that are far from the others, or use buckets");
    }
}

enum err scale_note(const struct table *t, const struct reading *r, struct errmsg *e)
{
    struct noted *n = mem_zalloc(1, sizeof *n);
    uint32_t *buffer = mem_resize(NULL, TABLE_ROW_CELLS_MAX, sizeof *buffer);
    enum err err = n && buffer ? ERR_OK : err_memory(e);
    if (!err)
        choose(n, t->schema);
    if (!err && n->columns > 0)
        err = note_blocks(n, t, buffer, e);
    if (!err)
        say(n, t->schema, r);
    mem_free(buffer);
    mem_free(n);
    return err;
}
