/* A writer requests the next rows, but a reader pushes them: between the two is a copy of as many buckets as have
 * about 65,536 rows. */
#include "worker/warm_start/warm_rows.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/math/optimizer.h"

enum { STEP_ROWS = 1 << 16 };

static enum err take(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct warm_rows *w = ctx;
    enum err err = row_copy_add(&w->copy, g);
    return err ? err_set(e, err, "no memory for the rows of a new job's first checkpoint") : ERR_OK;
}

/* Read the next buckets' rows into the copy. */
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

static bool make_room(struct warm_rows *w, size_t floats, size_t keys)
{
    if (floats > w->values_room) {
        float *p = mem_resize(w->values, floats, sizeof *p);
        if (!p)
            return false;
        w->values = p;
        w->values_room = floats;
    }
    if (keys > w->keys_room) {
        uint64_t *p = mem_resize(w->mixed, 2 * keys, sizeof *p);
        if (!p)
            return false;
        w->mixed = p;
        w->keys_room = keys;
    }
    return true;
}

/* Keep the group's rows that stay, with only their weights, and with initial slots. */
static enum err begin_anew(struct warm_rows *w, struct row_group *g, struct errmsg *e)
{
    const struct checkpoint_table *was = &w->tables.table[g->table], *is = &w->table[g->table];
    size_t width = is->dim + is->slots;
    if (!make_room(w, g->rows * width + g->rows, g->rows))
        return err_memory_for(e, "the rows of a new job's first checkpoint");
    const float *from = g->values;
    float *to = w->values;
    uint64_t *stamp = w->mixed + w->keys_room;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->rows; i++, from += was->dim + was->slots) {
        if (g->stamp[i] < w->least[g->table]) {
            w->gone[g->table]++;
            continue;
        }
        w->mixed[n] = g->mixed[i];
        stamp[n++] = g->stamp[i];
        memcpy(to, from, is->dim * sizeof *to);
        optimizer_row_initial(&w->optimizer[g->table], to + is->dim, is->dim);
        to += width;
    }
    memset(to, 0, n * sizeof *to); /* the counts, as wide as a float, follow the values */
    g->rows = n;
    g->mixed = w->mixed;
    g->stamp = stamp;
    g->values = w->values;
    g->count = (const uint32_t *)(const void *)to;
    return ERR_OK;
}

/* Read the next group as the earlier job had it. */
static enum err read_group(struct warm_rows *w, struct row_group *g, struct errmsg *e)
{
    enum err err = w->copy.head.next(&w->copy, g, e);
    while (!err && row_group_ends(g) && w->next_bucket < w->head.buckets.end) {
        err = read_more(w, e);
        if (!err)
            err = w->copy.head.next(&w->copy, g, e);
    }
    return err;
}

static enum err next(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct warm_rows *w = ctx;
    do {
        enum err err = read_group(w, g, e);
        if (err || g->rows == 0)
            return err;
        err = begin_anew(w, g, e);
        if (err)
            return err;
    } while (g->rows == 0); /* all its rows are left out */
    return ERR_OK;
}

/* Find the table's index and its rows' optimizer in the new job. Errors: ERR_INPUT: the job has no such table. */
static enum err take_place(struct warm_rows *w, uint32_t table, const struct job *job,
                           struct errmsg *e)
{
    const char *name = w->tables.table[table].name;
    uint32_t i = 0;
    while (i < job->model.tables && strcmp(job->model.table[i].name, name) != 0)
        i++;
    if (i == job->model.tables)
        return err_set(e, ERR_INPUT,
                       "checkpoint %" PRIu64 " has rows of table %s, but the job has no such table",
                       w->from->cut, name);
    w->place[table] = i;
    w->optimizer[table] = job->model.table[i].optimizer;
    return ERR_OK;
}

/* Rows with an earlier stamp are too old. */
static uint64_t least_stamp(const struct warm_rows *w, const struct job_table *t, uint64_t now)
{
    const struct beginnings *b = &w->from->begun;
    uint32_t i = beginnings_find(b, now, t->unseen_days);
    return t->unseen_days && i < b->runs ? b->clock[i] + 1 : 0;
}

enum err warm_rows_init(struct warm_rows *w, const struct place *checkpoints,
                        const struct manifest *from, const struct job *job, uint64_t now,
                        struct errmsg *e)
{
    *w = (struct warm_rows){.checkpoints = checkpoints, .from = from, .now = now};
    enum err err = checkpoint_read_tables(checkpoints, from, &w->tables, e);
    uint64_t rows = 1;
    for (uint32_t i = 0; i < w->tables.tables && !err; i++) {
        rows += w->tables.rows[i];
        w->table[i] = w->tables.table[i];
        err = take_place(w, i, job, e);
        if (err)
            break;
        w->least[i] = least_stamp(w, &job->model.table[w->place[i]], now);
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

static void say(const struct warm_rows *w, uint32_t table, uint32_t days)
{
    const char *name = w->tables.table[table].name;
    const struct beginnings *b = &w->from->begun;
    uint32_t i = beginnings_find(b, w->now, days);
    if (i == b->runs) {
        log_info("table %s keeps all of its rows: no run is known that began %" PRIu32
                 " days ago or earlier (unseen_days)",
                 name, days);
        return;
    }
    char date[32] = "?";
    time_t at = (time_t)b->date[i];
    struct tm tm;
    if (gmtime_r(&at, &tm))
        (void)strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &tm);
    log_info("table %s: %" PRIu64 " of %" PRIu64 " rows are removed (unseen_days %" PRIu32
             "): they were not touched since the run that began at %s, at table clock %" PRIu64,
             name, w->gone[table], w->tables.rows[table], days, date, b->clock[i]);
}

void warm_rows_count(const struct warm_rows *w, const struct job *job, struct manifest *to)
{
    to->counted = job->model.tables;
    for (uint32_t i = 0; i < w->tables.tables; i++) {
        struct row_counts *counts = &to->table[w->place[i]];
        counts->evicted = w->gone[i];
        counts->rows = w->tables.rows[i] - w->gone[i];
        uint32_t days = job->model.table[w->place[i]].unseen_days;
        if (days)
            say(w, i, days);
    }
}

void warm_rows_close(struct warm_rows *w)
{
    row_copy_close(&w->copy);
    mem_free(w->values);
    mem_free(w->mixed);
    w->values = NULL;
    w->mixed = NULL;
}
