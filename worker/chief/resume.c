#include "worker/chief/resume.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/rows/key.h"

const char *resume_ways(bool done)
{
    return done ? ", or start from scratch with --fresh or another --output; a new checkpoint.run "
                  "starts with the learned weights"
                : ", or start from scratch with --fresh or another --output";
}

/* The steps of the epoch that is not complete. */
static uint64_t steps_within(const struct manifest *m, uint64_t per_epoch)
{
    return m->step - (m->redo.there ? m->redo.begin : manifest_epochs(m, per_epoch) * per_epoch);
}

void resume_words_done(char out[RESUME_WORDS_BYTES], const struct manifest *m,
                       const struct job *job, uint64_t per_epoch, uint64_t waited)
{
    static const char anew[] =
        "to train from scratch (with another rate, for example), use --fresh or another --output";
    uint64_t epochs = manifest_epochs(m, per_epoch);
    char has[128];
    if (steps_within(m, per_epoch))
        (void)snprintf(has, sizeof has,
                       "is already in the middle of epoch %" PRIu64
                       ", so the model is not that of a job with training.epochs: %" PRIu32,
                       epochs + 1, job->training.epochs);
    else
        (void)snprintf(has, sizeof has, "already has %" PRIu64, epochs);
    assert(waited || epochs >= job->training.epochs);
    if (waited)
        (void)snprintf(out, RESUME_WORDS_BYTES,
                       "nothing was trained: training had stopped early, after %" PRIu64
                       " of %" PRIu32 " epochs (checkpoint %" PRIu64 ", step %" PRIu64
                       "); to train more, set early_stopping.patience above %" PRIu64 "; %s",
                       epochs, job->training.epochs, m->cut, m->step, waited, anew);
    else
        (void)snprintf(out, RESUME_WORDS_BYTES,
                       "nothing was trained: training.epochs is %" PRIu32
                       ", and checkpoint %" PRIu64 " (step %" PRIu64
                       ") %s; to train more, set training.epochs above %" PRIu64 "; %s",
                       job->training.epochs, m->cut, m->step, has, epochs, anew);
}

bool resume_words(char out[RESUME_WORDS_BYTES], const struct manifest *m, const struct job *job,
                  uint64_t per_epoch)
{
    uint64_t epochs = manifest_epochs(m, per_epoch);
    if (epochs >= job->training.epochs) {
        resume_words_done(out, m, job, per_epoch, 0);
        return false;
    }
    (void)snprintf(out, RESUME_WORDS_BYTES,
                   "resuming from checkpoint %" PRIu64 ": epoch %" PRIu64 "/%" PRIu32
                   ", after step %" PRIu64 "/%" PRIu64 " (step %" PRIu64 " in all)",
                   m->cut, epochs + 1, job->training.epochs, steps_within(m, per_epoch), per_epoch,
                   m->step);
    return true;
}

enum { WHAT_BYTES = 192 };

struct look {
    struct checkpoint_tables tables;
    struct broken broken;
};

static enum err take(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct look *look = ctx;
    (void)e;
    broken_find_in_rows(&look->broken, g, &look->tables.table[g->table]);
    return ERR_OK;
}

static enum err look_at_blocks(struct look *look, const struct place *checkpoints,
                               const struct manifest *m, struct errmsg *e)
{
    struct checkpoint_shard all = {.elems = m->total_elems, .w = mem_floats(m->total_elems)};
    float *const no_slots[OPTIMIZER_SLOTS_MAX] = {NULL};
    if (!all.w)
        return err_memory_for(e, "the parameters");
    enum err err = checkpoint_read(checkpoints, m, 0, all.elems, all.w, no_slots, e);
    if (!err)
        broken_find(&look->broken, &all);
    mem_free(all.w);
    return err;
}

/* The loss of the last epoch's training, or of the last evaluation, if it is not finite; NULL: both are finite, or
 * unknown. */
static const char *broken_loss(const struct manifest *m)
{
    const struct epoch_sums *last = epochs_last(m->epoch, UINT64_MAX);
    if (last && !isfinite(last->loss))
        return "the loss of the last epoch";
    return m->eval.valid && !isfinite(m->eval.loss) ? "the loss of the evaluation" : NULL;
}

enum err ended_look(const struct place *checkpoints, const struct manifest *final,
                    const struct layout *l, char words[ENDED_WORDS_BYTES], struct errmsg *e)
{
    struct look look = {.broken.kind = BROKEN_NONE};
    char what[WHAT_BYTES];
    const char *loss = broken_loss(final);
    enum err err = look_at_blocks(&look, checkpoints, final, e);
    bool reads_rows = final->tables && look.broken.kind == BROKEN_NONE;
    const struct row_sink sink = {.rows = take, .ctx = &look};
    if (!err && reads_rows)
        err = checkpoint_read_tables(checkpoints, final, &look.tables, e);
    if (!err && reads_rows)
        err = checkpoint_read_rows(checkpoints, final, (struct bucket_range){0, ROW_BUCKETS}, &sink,
                                   e);
    if (err)
        return err;
    words[0] = '\0';
    const struct broken *b = &look.broken;
    what[0] = '\0';
    if (b->kind == BROKEN_ELEM)
        (void)snprintf(what, WHAT_BYTES, "the tensor %s", l->tensor[layout_find(l, b->elem)].name);
    else if (b->kind == BROKEN_ROW)
        (void)snprintf(what, WHAT_BYTES, "the row of key %" PRIu64 " of table %s",
                       key_unmix(b->mixed), look.tables.table[b->table].name);
    if (what[0] || loss)
        (void)snprintf(
            words, ENDED_WORDS_BYTES,
            "step %" PRIu64
            ": %s is not finite in the job's final checkpoint: nothing was trained; start from "
            "scratch with --fresh or another --output, with a lower training.learning_rate or with "
            "training.clip_norm, or remove checkpoints/cut-%010" PRIu64
            " to resume from the checkpoint before it",
            final->step, what[0] ? what : loss, final->cut);
    return ERR_OK;
}
