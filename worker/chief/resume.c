#include "worker/chief/resume.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

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
