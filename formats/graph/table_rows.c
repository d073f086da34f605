/* Copies the rows of a table's file, if they fit the limit. The file's keys ascend as numbers without a sign, the graph's with one. */
#include "formats/graph/table_rows.h"

#include "common/rows/key.h"
#include "predict/table_file.h"

/* Write row i of the file at place `at`. */
static void put(const struct table_file *file, uint64_t i, int64_t *key, float *row, uint64_t at,
                uint32_t dim)
{
    uint64_t bits;
    table_file_row(file, i, &bits, row + at * dim);
    key[at] = (int64_t)bits;
}

/* The file's keys ascend as numbers without a sign: those above INT64_MAX, which come last, are the lowest ones as signed
 * numbers. */
static void copy(const struct table_file *file, int64_t *key, float *row, uint32_t dim)
{
    uint64_t rows = table_file_rows(file), high = rows, at = 0, bits;
    for (; high > 0; high--) {
        table_file_row(file, high - 1, &bits, row);
        if (bits <= INT64_MAX)
            break;
    }
    for (uint64_t i = high; i < rows; i++)
        put(file, i, key, row, at++, dim);
    for (uint64_t i = 0; i < high; i++)
        put(file, i, key, row, at++, dim);
}

/* Whether the keys and rows take at most tables_inside_bytes in the file. row: room for one row */
static bool fits(const struct build *b, const struct table_file *file, float *row, uint32_t dim)
{
    const struct graph_options *o = b->options;
    uint64_t rows = table_file_rows(file), left = o->tables_inside_bytes, key;
    for (uint64_t i = 0; i < rows && i <= INT32_MAX; i++) {
        uint64_t bytes = dim * sizeof(float) + sizeof key;
        if (o->key_bytes) {
            table_file_row(file, i, &key, row);
            bytes += o->key_bytes(key, i) - sizeof key;
        }
        if (bytes > left)
            return false;
        left -= bytes;
    }
    return rows <= INT32_MAX;
}

bool table_rows_read(struct build *b, uint32_t table, struct table_rows *out)
{
    const struct table_file *file = b->folder->table[table];
    const struct row_table_spec *t = &model_layout(b->folder->model)->rows->table[table];
    uint64_t rows = table_file_rows(file);
    float one[ROW_DIM_MAX];
    if (!fits(b, file, one, t->dim))
        return false;
    int64_t *key = build_own(b, rows ? rows : 1, sizeof *key);
    float *row = build_own(b, (rows ? rows : 1) * t->dim, sizeof *row);
    if (!row)
        return false;
    if (rows)
        copy(file, key, row, t->dim);
    else
        row_absent_value(t, b->folder->job.training.seed, key_mix(0), row);
    *out = (struct table_rows){.rows = rows ? rows : 1, .key = key, .row = row};
    return true;
}
