#include "worker/warm_start/warm_start.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/checkpoint/ending.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/output.h"
#include "common/place/place.h"
#include "common/math/optimizer.h"
#include "common/base/rng.h"

/* ---- the first cut ---- */

/* elements of one file of the cut; in memory, plus as many for each slot */
enum { PIECE_ELEMS = 1 << 22 };

struct piece {
    uint64_t room;
    uint32_t slots;
    float *w, *slot[OPTIMIZER_SLOTS_MAX]; /* (room) each */
};

static void piece_close(struct piece *p)
{
    mem_free(p->w);
    for (uint32_t i = 0; i < p->slots; i++)
        mem_free(p->slot[i]);
}

static enum err piece_init(struct piece *p, const struct first_cut *c)
{
    uint64_t elems = c->layout->elems;
    uint64_t least = (elems + FIRST_CUT_FILES_MAX - 1) / FIRST_CUT_FILES_MAX;
    *p = (struct piece){.room = least > PIECE_ELEMS ? least : PIECE_ELEMS};
    p->room = p->room < elems ? p->room : elems;
    p->slots = c->job->training.update == UPDATE_GEO ? 0 : optimizer_slots(&c->job->optimizer);
    p->w = mem_floats(p->room);
    bool there = p->w;
    for (uint32_t i = 0; i < p->slots; i++)
        there = (p->slot[i] = mem_floats(p->room)) && there;
    if (there)
        return ERR_OK;
    piece_close(p);
    return ERR_NOMEM;
}

/* Also sets the slots to their state before the first update. */
static enum err piece_fill(struct piece *p, const struct first_cut *c, uint64_t first, uint64_t n,
                           struct errmsg *e)
{
    const struct optimizer *o = &c->job->optimizer;
    uint32_t average = optimizer_average_slot(o);
    memset(p->w, 0, n * sizeof *p->w);
    enum err err = c->fill(c->ctx, p->w, first, n, e);
    for (uint32_t i = 0; i < p->slots && !err; i++)
        for (uint64_t k = 0; k < n; k++)
            p->slot[i][k] = i == average ? p->w[k] : optimizer_slot_initial(o, i);
    return err;
}

/* With tables each file has a share of the buckets. */
static enum err write_pieces(struct piece *p, const struct first_cut *c, struct manifest *to,
                             struct errmsg *e)
{
    uint64_t room = p->room ? p->room : 1, pieces = (to->total_elems + room - 1) / room;
    uint32_t files = pieces ? (uint32_t)pieces : c->rows != NULL;
    enum err err = ERR_OK;
    while (to->files < files && !err) {
        uint64_t first = to->files * room;
        uint64_t left = to->total_elems - first, n = left < room ? left : room;
        err = piece_fill(p, c, first, n, e);
        struct checkpoint_shard shard = {.generation = to->generation,
                                         .shard = to->files,
                                         .first_elem = first,
                                         .elems = n,
                                         .slots = p->slots,
                                         .w = p->w};
        memcpy(shard.slot, p->slot, sizeof shard.slot);
        if (c->rows)
            shard.rows = c->rows(c->ctx, bucket_shard(to->files, files));
        if (!err)
            err = checkpoint_write_shard((struct cut){c->checkpoints, to->cut}, &shard,
                                         &to->file[to->files], e);
        to->files++;
    }
    return err;
}

enum err first_cut_name(const struct first_cut *c, struct manifest *m,
                        struct checkpoint_file files[FIRST_CUT_FILES_MAX], struct errmsg *e)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_set(e, ERR_IO, "no random numbers: %s", strerror(errno));
    uuid_make(m->uuid, random[0], random[1]);
    (void)snprintf(m->run, sizeof m->run, "%s", c->job->checkpoint.run);
    memcpy(m->data_fingerprint, c->data_fingerprint, sizeof m->data_fingerprint);
    m->total_elems = c->layout->elems;
    m->microbatches = c->job->training.microbatches;
    m->identity_text = c->job->identity_text;
    m->file = files;
    return ERR_OK;
}

enum err first_cut_write(const struct first_cut *c, struct manifest *m, struct errmsg *e)
{
    struct piece p;
    if (piece_init(&p, c))
        return err_memory_for(e, "the job's first checkpoint");
    m->slots = p.slots;
    m->tables = c->rows != NULL;
    enum err err = write_pieces(&p, c, m, e);
    piece_close(&p);
    if (!err && c->encoding)
        err = checkpoint_write_encoding((struct cut){c->checkpoints, m->cut}, c->encoding,
                                        strlen(c->encoding), &m->encoding, e);
    return err;
}

/* ---- rows of tables ---- */

/* A writer requests the next rows, but a reader pushes them: between the two is a copy of as many buckets as have
 * about 65,536 rows. */

/* The rows of a finished job, as the first cut of the next run has them: learned weights and the clock stay, slots
 * are as before the first update, and update counts are 0. With unseen_days, rows that were not touched for so long
 * are left out. */

struct warm_rows {
    const struct place *checkpoints;
    const struct manifest *from;
    uint64_t now;                               /* seconds since 1970 */
    uint32_t place[ROW_TABLES_MAX];             /* of each table: its index in the job's list */
    struct optimizer optimizer[ROW_TABLES_MAX]; /* of each table */
    uint64_t least[ROW_TABLES_MAX];             /* rows with an older stamp are left out */
    uint64_t gone[ROW_TABLES_MAX];              /* number of rows left out */
    struct checkpoint_tables tables;            /* as they are in the earlier checkpoint */
    struct checkpoint_rows head; /* the header of the written file; its ctx is this struct */
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct row_copy copy; /* of the buckets before next_bucket */
    uint32_t next_bucket, step_buckets;
    float *values;   /* values of one group */
    uint64_t *mixed; /* (2 * keys_room): keys, then stamps */
    size_t values_room, keys_room;
};

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

/* `w` must not move from here on. now: seconds since 1970, for unseen_days. Owns: warm_rows_close, also on error.
 * Errors: as checkpoint_load; ERR_INPUT: the job has other tables. */
static enum err warm_rows_init(struct warm_rows *w, const struct place *checkpoints,
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

/* The contents of a file for these buckets; valid until the next call. */
static const struct checkpoint_rows *warm_rows_of(struct warm_rows *w, struct bucket_range of)
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

/* When all files are written: set the counts of each of the job's tables in the manifest; log the rows left out. */
static void warm_rows_count(const struct warm_rows *w, const struct job *job, struct manifest *to)
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

static void warm_rows_close(struct warm_rows *w)
{
    row_copy_close(&w->copy);
    mem_free(w->values);
    mem_free(w->mixed);
    w->values = NULL;
    w->mixed = NULL;
}

/* ---- the positions of old values in the new block ---- */

static enum err add_run(struct block_map *map, uint64_t at, uint64_t n, uint64_t from)
{
    struct block_run *grown = mem_resize(map->run, (size_t)map->runs + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    map->run = grown;
    map->run[map->runs++] = (struct block_run){at, n, from};
    return ERR_OK;
}

/* Consecutive rows of one kind make one run. *from: position of the next old row. */
static enum err add_tensor(struct block_map *map, const struct tensor *t, const uint8_t *fresh,
                           uint64_t *from)
{
    uint64_t rows = fresh ? t->shape[0] : 1, width = t->elems / rows;
    enum err err = ERR_OK;
    for (uint64_t row = 0, end; row < rows && !err; row = end) {
        bool is_new = fresh && fresh[row];
        for (end = row + 1; end < rows && (fresh[end] != 0) == is_new;)
            end++;
        uint64_t n = (end - row) * width;
        err = add_run(map, t->offset_elems + row * width, n, is_new ? BLOCK_MAP_NEW : *from);
        *from += is_new ? 0 : n;
    }
    return err;
}

enum err block_map_init(struct block_map *map, const struct layout *l, uint8_t *const *fresh,
                        struct errmsg *e)
{
    *map = (struct block_map){.runs = 0};
    for (uint32_t i = 0; i < l->tensors; i++) {
        if (add_tensor(map, &l->tensor[i], fresh ? fresh[i] : NULL, &map->old_elems))
            return err_memory_for(e, "the positions of new words");
        map->old_elems =
            (map->old_elems + LAYOUT_ALIGN_ELEMS - 1) / LAYOUT_ALIGN_ELEMS * LAYOUT_ALIGN_ELEMS;
    }
    assert(map->old_elems <= l->elems);
    return ERR_OK;
}

void block_map_close(struct block_map *map)
{
    mem_free(map->run);
    *map = (struct block_map){.runs = 0};
}

/* ---- the start ---- */

bool warm_start_is_due(const struct job *job, const struct manifest *newest)
{
    return newest->final && ending_is_of_another_run(newest, job);
}

static enum err check(const struct warm_start *s, const struct manifest *newest,
                      const struct block_map *map, struct errmsg *e)
{
    enum err err = job_identity_compare_model(newest->identity_text, s->job->identity_text, e);
    if (!err && newest->total_elems != map->old_elems)
        err = err_set(e, ERR_INPUT, "it has %" PRIu64 " parameters, this one %" PRIu64,
                      newest->total_elems, map->old_elems);
    if (err)
        return err_wrap(
            e, ERR_INPUT,
            "run \"%s\" would begin with the weights in %.150s, which has another model: ",
            s->job->checkpoint.run, s->output);
    return ERR_OK;
}

static enum err remove_old(const struct place *p, const char *name, struct errmsg *e)
{
    enum err err = place_remove(p, name, e);
    return err == ERR_NOTFOUND ? ERR_OK : err;
}

enum err warm_start_forget_best(const struct place *best, struct errmsg *e)
{
    enum err err = remove_old(best, "weights.safetensors", e);
    if (!err)
        place_clear(best, "tables", false);
    return err;
}

enum err warm_start_forget(const char *output, struct errmsg *e)
{
    struct place checkpoints, best;
    place_of_job(&checkpoints, output, OUTPUT_CHECKPOINTS);
    place_of_job(&best, output, OUTPUT_BEST);
    enum err err = remove_old(&checkpoints, OUTPUT_JOURNAL, e);
    return err ? err : warm_start_forget_best(&best, e);
}

/* ---- the cut ---- */

/* The contents of the cut. */
struct source {
    const struct warm_start *s;
    const struct manifest *from;
    const struct block_map *map;
    struct warm_rows rows;
};

/* Read learned weights [at, at + n) of the new block from their earlier positions; those of new words are first
 * values. */
static enum err run_read(float *w, const struct warm_start *s, const struct manifest *from,
                         const struct block_run *run, uint64_t at, uint64_t n, struct errmsg *e)
{
    float *slot[OPTIMIZER_SLOTS_MAX] = {0};
    uint32_t average = optimizer_average_slot(&s->job->optimizer);
    if (run->from == BLOCK_MAP_NEW) {
        layout_init_values(s->layout, s->job->training.seed, at, n, w);
        return ERR_OK;
    }
    if (average != UINT32_MAX)
        slot[average] = w;
    return checkpoint_read(s->checkpoints, from, run->from + (at - run->at), n,
                           average == UINT32_MAX ? w : NULL, slot, e);
}

static enum err fill(void *ctx, float *w, uint64_t first, uint64_t n, struct errmsg *e)
{
    const struct source *of = ctx;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < of->map->runs && !err; i++) {
        const struct block_run *run = &of->map->run[i];
        uint64_t at = run->at > first ? run->at : first, end = run->at + run->n;
        end = end < first + n ? end : first + n;
        if (at < end)
            err = run_read(w + (at - first), of->s, of->from, run, at, end - at, e);
    }
    return err;
}

static const struct checkpoint_rows *rows_of(void *ctx, struct bucket_range of)
{
    struct source *source = ctx;
    return warm_rows_of(&source->rows, of);
}

/* Also notes when the run begins: from that date a later run decides which rows are too old. */
static enum err write_with_rows(struct source *of, const struct first_cut *cut, struct manifest *to,
                                struct errmsg *e)
{
    uint64_t now = (uint64_t)clock_wall_ms() / 1000;
    enum err err = warm_rows_init(&of->rows, of->s->checkpoints, of->from, of->s->job, now, e);
    if (!err && beginnings_after(&to->begun, &of->from->begun, now, of->rows.tables.clock))
        err = err_memory_for(e, "a new job's first checkpoint");
    if (!err)
        err = first_cut_write(cut, to, e);
    if (!err)
        warm_rows_count(&of->rows, of->s->job, to);
    warm_rows_close(&of->rows);
    return err;
}

void warm_start_settle(const struct job *job, const struct place *checkpoints,
                       const struct manifest *newest)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    struct errmsg e;
    if (!job->checkpoint.run[0] || strcmp(newest->run, job->checkpoint.run) != 0 || newest->final ||
        newest->step)
        return;
    /* a newer cut is damaged: it would be the one that stays */
    if (checkpoint_list(checkpoints, &cuts, &n, &e) == ERR_OK && n > 1 && cuts[0] == newest->cut)
        checkpoint_prune(checkpoints, 1);
    mem_free(cuts);
}

/* A number above all cuts: a damaged newer one would otherwise stay when the others are removed. */
static enum err next_cut(const struct warm_start *s, const struct manifest *newest, uint64_t *cut,
                         struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    enum err err = checkpoint_list(s->checkpoints, &cuts, &n, e);
    if (err)
        return err;
    *cut = (n > 0 && cuts[0] > newest->cut ? cuts[0] : newest->cut) + 1;
    mem_free(cuts);
    return ERR_OK;
}

static enum err begin(const struct warm_start *s, const struct manifest *newest,
                      const struct block_map *map, struct manifest *to, struct errmsg *e)
{
    struct checkpoint_file files[FIRST_CUT_FILES_MAX];
    struct source of = {.s = s, .from = newest, .map = map};
    const struct first_cut cut = {.job = s->job,
                                  .checkpoints = s->checkpoints,
                                  .layout = s->layout,
                                  .data_fingerprint = s->data_fingerprint,
                                  .encoding = s->encoding,
                                  .fill = fill,
                                  .rows = newest->tables ? rows_of : NULL,
                                  .ctx = &of};
    enum err err = next_cut(s, newest, &to->cut, e);
    if (!err)
        err = first_cut_name(&cut, to, files, e);
    if (!err)
        err = newest->tables ? write_with_rows(&of, &cut, to, e) : first_cut_write(&cut, to, e);
    if (!err) /* a full disk would have failed before this */
        err = warm_start_forget(s->output, e);
    return err ? err : checkpoint_publish(s->checkpoints, to, e);
}

enum err warm_start_begin(const struct warm_start *s, const struct manifest *newest,
                          struct errmsg *e)
{
    struct manifest to = {
        .generation = newest->generation, .ps = newest->ps, .ps_threads = newest->ps_threads};
    struct block_map map;
    struct errmsg what;
    enum err err = block_map_init(&map, s->layout, s->fresh, e);
    if (!err)
        err = check(s, newest, &map, e);
    if (!err)
        err = begin(s, newest, &map, &to, e);
    block_map_close(&map);
    beginnings_close(&to.begun);
    if (err)
        return err;
    if (job_identity_compare_fields(newest->identity_text, s->job->identity_text, &what))
        log_warn(WARM_START_FIELDS, to.run, what.text);
    checkpoint_prune(s->checkpoints, 1); /* a rollback past it would lead to the earlier job */
    log_info("run \"%s\" begins with the weights of checkpoint %" PRIu64 ", step %" PRIu64
             " of run \"%s\", which is done",
             to.run, newest->cut, newest->step, newest->run);
    return ERR_OK;
}
