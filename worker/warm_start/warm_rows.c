/* A writer asks for the next rows, and a reader hands them on: between the two is a copy of as many buckets as have about
 * 65,536 rows. */
#include "worker/warm_start/warm_rows.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/math/optimizer.h"

enum { STEP_ROWS = 1 << 16 };

static enum err take(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct warm_rows *w = ctx;
    enum err err = row_copy_add(&w->copy, g);
    return err ? err_set(e, err, "no memory for the rows of a new job's first checkpoint") : ERR_OK;
}

/* The next buckets' rows into the copy. */
static enum err read_more(struct warm_rows *w, struct errmsg *e)
{
    uint32_t left = w->head.buckets.end - w->next_bucket;
    struct bucket_range of = {w->next_bucket,
                              w->next_bucket + (left < w->step_buckets ? left : w->step_buckets)};
    row_copy_close(&w->copy);
    row_copy_init(&w->copy, w->tables.table, w->tables.tables, of, w->tables.clock);
    w->next_bucket = of.end;
    return checkpoint_read_rows(w->checkpoints, w->from, of, &(struct row_sink){take, w, take}, e);
}

/* The same rows with their weights alone, and slots as they begin. */
static enum err begin_anew(struct warm_rows *w, struct row_group *g, struct errmsg *e)
{
    const struct checkpoint_table *was = &w->tables.table[g->table], *is = &w->table[g->table];
    size_t width = is->dim + is->slots, floats = g->rows * width + g->rows;
    if (floats > w->values_room) {
        float *p = mem_resize(w->values, floats, sizeof *p);
        if (!p)
            return err_set(e, ERR_NOMEM, "no memory for the rows of a new job's first checkpoint");
        w->values = p;
        w->values_room = floats;
    }
    const float *from = g->values;
    float *to = w->values;
    for (uint32_t i = 0; i < g->rows; i++, from += was->dim + was->slots, to += width) {
        memcpy(to, from, is->dim * sizeof *to);
        optimizer_row_initial(&w->optimizer[g->table], to + is->dim, is->dim);
    }
    memset(to, 0, g->rows * sizeof *to); /* the counts, as wide as a float, are behind the values */
    g->values = w->values;
    g->count = (const uint32_t *)(const void *)to;
    return ERR_OK;
}

static enum err next(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct warm_rows *w = ctx;
    enum err err = w->copy.head.next(&w->copy, g, e);
    while (!err && row_group_ends(g) && w->next_bucket < w->head.buckets.end) {
        err = read_more(w, e);
        if (!err)
            err = w->copy.head.next(&w->copy, g, e);
    }
    return err || g->rows == 0 ? err : begin_anew(w, g, e);
}

/* What updates the table's rows in the new job. Errors: ERR_INPUT: it has no such table. */
static enum err take_optimizer(struct warm_rows *w, uint32_t table, const struct job *job,
                               struct errmsg *e)
{
    const char *name = w->tables.table[table].name;
    uint32_t i = 0;
    while (i < job->model.tables && strcmp(job->model.table[i].name, name) != 0)
        i++;
    if (i == job->model.tables)
        return err_set(e, ERR_INPUT,
                       "cut %" PRIu64 " has rows of table %s, and the job has no such table",
                       w->from->cut, name);
    w->optimizer[table] = job->model.table[i].optimizer;
    return ERR_OK;
}

enum err warm_rows_init(struct warm_rows *w, const char *checkpoints, const struct manifest *from,
                        const struct job *job, struct errmsg *e)
{
    *w = (struct warm_rows){.checkpoints = checkpoints, .from = from};
    enum err err = checkpoint_read_tables(checkpoints, from, &w->tables, e);
    uint64_t rows = 1;
    for (uint32_t i = 0; i < w->tables.tables && !err; i++) {
        rows += w->tables.rows[i];
        w->table[i] = w->tables.table[i];
        err = take_optimizer(w, i, job, e);
        w->table[i].slots = optimizer_row_slots(&w->optimizer[i], w->table[i].dim);
    }
    uint64_t step = (uint64_t)ROW_BUCKETS * STEP_ROWS / rows;
    w->step_buckets = step < 1 ? 1 : step > ROW_BUCKETS ? ROW_BUCKETS : (uint32_t)step;
    row_copy_init(&w->copy, w->table, 0, (struct bucket_range){0, 0}, 0);
    return err;
}

const struct checkpoint_rows *warm_rows_of(struct warm_rows *w, struct bucket_range of)
{
    row_copy_close(&w->copy);
    row_copy_init(&w->copy, w->tables.table, w->tables.tables, of, w->tables.clock);
    w->next_bucket = of.first;
    w->head = (struct checkpoint_rows){.buckets = of,
                                       .clock = w->tables.clock,
                                       .tables = w->tables.tables,
                                       .table = w->table,
                                       .next = next,
                                       .ctx = w};
    return &w->head;
}

void warm_rows_close(struct warm_rows *w)
{
    row_copy_close(&w->copy);
    mem_free(w->values);
    w->values = NULL;
}
