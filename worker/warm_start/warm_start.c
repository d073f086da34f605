#include "worker/warm_start/warm_start.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/checkpoint/ending.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "worker/warm_start/block_map.h"
#include "worker/warm_start/first_cut.h"
#include "worker/warm_start/warm_rows.h"

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

static enum err remove_file(const char *folder, const char *name, struct errmsg *e)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return unlink(path) && errno != ENOENT ? err_set(e, ERR_IO, "%s: %s", path, strerror(errno))
                                           : ERR_OK;
}

enum err warm_start_forget_best(const char *best, struct errmsg *e)
{
    char tables[4400];
    enum err err = remove_file(best, "weights.safetensors", e);
    (void)snprintf(tables, sizeof tables, "%s/tables", best);
    if (!err)
        err = files_remove_folder(tables, e);
    /* after a power failure the file must not be back, with its checkpoint gone */
    return err || access(best, F_OK) ? err : files_sync_folder(best, e);
}

enum err warm_start_forget(const char *output, struct errmsg *e)
{
    char best[4300];
    enum err err = remove_file(output, OUTPUT_CHECKPOINTS "/" OUTPUT_JOURNAL, e);
    (void)snprintf(best, sizeof best, "%s/" OUTPUT_BEST, output);
    return err ? err : warm_start_forget_best(best, e);
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
