#include "worker/warm_start/warm_start.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/checkpoint/ending.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/uuid.h"
#include "common/process/files.h"
#include "worker/warm_start/block_map.h"
#include "worker/warm_start/warm_rows.h"

enum {
    /* elements of one file of the cut; in memory, plus as many for each slot */
    PIECE_ELEMS = 1 << 22,
    FILES_MAX = 1 << 10,
};

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

/* Remove the files that belong to the earlier job alone, except its cuts. */
static enum err forget(const struct warm_start *s, struct errmsg *e)
{
    static const char *const files[] = {"checkpoints/journal", "best/weights.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[4300];
        (void)snprintf(path, sizeof path, "%s/%s", s->output, files[i]);
        if (unlink(path) && errno != ENOENT)
            return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    }
    char tables[4300];
    (void)snprintf(tables, sizeof tables, "%s/best/tables", s->output);
    return files_remove_folder(tables, e);
}

/* ---- the cut ---- */

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

static enum err piece_init(struct piece *p, const struct warm_start *s)
{
    uint64_t least = (s->layout->elems + FILES_MAX - 1) / FILES_MAX;
    const struct job *job = s->job;
    *p = (struct piece){.room = least > PIECE_ELEMS ? least : PIECE_ELEMS};
    p->room = p->room < s->layout->elems ? p->room : s->layout->elems;
    p->slots = job->training.update == UPDATE_GEO ? 0 : optimizer_slots(&job->optimizer);
    p->w = mem_floats(p->room);
    bool there = p->w;
    for (uint32_t i = 0; i < p->slots; i++)
        there = (p->slot[i] = mem_floats(p->room)) && there;
    if (there)
        return ERR_OK;
    piece_close(p);
    return ERR_NOMEM;
}

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

/* Also sets the slots to their state before the first update. */
static enum err piece_read(struct piece *p, const struct warm_start *s, const struct manifest *from,
                           const struct block_map *map, uint64_t first, uint64_t n,
                           struct errmsg *e)
{
    const struct optimizer *o = &s->job->optimizer;
    uint32_t average = optimizer_average_slot(o);
    enum err err = ERR_OK;
    memset(p->w, 0, n * sizeof *p->w);
    for (uint32_t i = 0; i < map->runs && !err; i++) {
        const struct block_run *run = &map->run[i];
        uint64_t at = run->at > first ? run->at : first, end = run->at + run->n;
        end = end < first + n ? end : first + n;
        if (at < end)
            err = run_read(p->w + (at - first), s, from, run, at, end - at, e);
    }
    for (uint32_t i = 0; i < p->slots && !err; i++)
        for (uint64_t k = 0; k < n; k++)
            p->slot[i][k] = i == average ? p->w[k] : optimizer_slot_initial(o, i);
    return err;
}

/* rows: NULL without tables; otherwise each file has a share of the buckets. */
static enum err write_pieces(struct piece *p, const struct warm_start *s,
                             const struct manifest *from, const struct block_map *map,
                             struct warm_rows *rows, struct manifest *to, struct errmsg *e)
{
    uint64_t room = p->room ? p->room : 1, pieces = (to->total_elems + room - 1) / room;
    uint32_t files = pieces ? (uint32_t)pieces : rows != NULL;
    enum err err = ERR_OK;
    while (to->files < files && !err) {
        uint64_t first = to->files * room;
        uint64_t left = to->total_elems - first, n = left < room ? left : room;
        err = piece_read(p, s, from, map, first, n, e);
        struct checkpoint_shard shard = {.generation = to->generation,
                                         .shard = to->files,
                                         .first_elem = first,
                                         .elems = n,
                                         .slots = p->slots,
                                         .w = p->w};
        memcpy(shard.slot, p->slot, sizeof shard.slot);
        if (rows)
            shard.rows = warm_rows_of(rows, bucket_shard(to->files, files));
        if (!err)
            err = checkpoint_write_shard(s->checkpoints, to->cut, &shard, &to->file[to->files], e);
        to->files++;
    }
    return err;
}

/* Also notes when the run begins: from that date a later run decides which rows are too old. */
static enum err write_with_rows(struct piece *p, const struct warm_start *s,
                                const struct manifest *from, const struct block_map *map,
                                struct manifest *to, struct errmsg *e)
{
    struct warm_rows rows;
    uint64_t now = (uint64_t)clock_wall_ms() / 1000;
    enum err err = warm_rows_init(&rows, s->checkpoints, from, s->job, now, e);
    if (!err && beginnings_after(&to->begun, &from->begun, now, rows.tables.clock))
        err = err_set(e, ERR_NOMEM, "no memory for a new job's first checkpoint");
    if (!err)
        err = write_pieces(p, s, from, map, &rows, to, e);
    if (!err)
        warm_rows_count(&rows, s->job, to);
    warm_rows_close(&rows);
    return err;
}

static enum err write_cut(const struct warm_start *s, const struct manifest *from,
                          const struct block_map *map, struct manifest *to, struct errmsg *e)
{
    struct piece p;
    if (piece_init(&p, s))
        return err_set(e, ERR_NOMEM, "no memory for a new job's first checkpoint");
    to->slots = p.slots;
    to->tables = from->tables;
    enum err err = from->tables ? write_with_rows(&p, s, from, map, to, e)
                                : write_pieces(&p, s, from, map, NULL, to, e);
    piece_close(&p);
    if (!err && s->encoding)
        err = checkpoint_write_encoding(s->checkpoints, to->cut, s->encoding, strlen(s->encoding),
                                        &to->encoding, e);
    if (!err) /* a full disk would have failed before this */
        err = forget(s, e);
    return err ? err : checkpoint_publish(s->checkpoints, to, e);
}

void warm_start_settle(const struct job *job, const char *checkpoints,
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
    uint64_t random[2];
    enum err err = next_cut(s, newest, &to->cut, e);
    if (err)
        return err;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_set(e, ERR_IO, "no random numbers: %s", strerror(errno));
    uuid_make(to->uuid, random[0], random[1]);
    (void)snprintf(to->run, sizeof to->run, "%s", s->job->checkpoint.run);
    memcpy(to->data_fingerprint, s->data_fingerprint, sizeof to->data_fingerprint);
    return write_cut(s, newest, map, to, e);
}

enum err warm_start_begin(const struct warm_start *s, const struct manifest *newest,
                          struct errmsg *e)
{
    struct checkpoint_file files[FILES_MAX];
    struct manifest to = {.generation = newest->generation,
                          .total_elems = s->layout->elems,
                          .microbatches = s->job->training.microbatches,
                          .identity_text = s->job->identity_text,
                          .file = files,
                          .ps = newest->ps,
                          .ps_threads = newest->ps_threads};
    struct block_map map;
    enum err err = block_map_init(&map, s->layout, s->fresh, e);
    if (!err)
        err = check(s, newest, &map, e);
    if (!err)
        err = begin(s, newest, &map, &to, e);
    block_map_close(&map);
    beginnings_close(&to.begun);
    if (err)
        return err;
    checkpoint_prune(s->checkpoints, 1); /* a rollback past it would lead to the earlier job */
    log_info("run \"%s\" begins with the weights of checkpoint %" PRIu64 ", step %" PRIu64
             " of run \"%s\", which is done",
             to.run, newest->cut, newest->step, newest->run);
    return ERR_OK;
}
