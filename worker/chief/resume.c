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

void resume_words_done(char out[RESUME_WORDS_BYTES], const struct manifest *m,
                       const struct job *job, uint64_t per_epoch, uint64_t waited)
{
    static const char anew[] =
        "to train from scratch (with another rate, for example), use --fresh or another --output";
    uint64_t epochs = manifest_epochs(m, per_epoch);
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
                       ", and checkpoint %" PRIu64 " (step %" PRIu64 ") already has %" PRIu64
                       "; to train more, set training.epochs above %" PRIu64 "; %s",
                       job->training.epochs, m->cut, m->step, epochs, epochs, anew);
}

bool resume_words(char out[RESUME_WORDS_BYTES], const struct manifest *m, const struct job *job,
                  uint64_t per_epoch)
{
    uint64_t epochs = manifest_epochs(m, per_epoch);
    if (epochs >= job->training.epochs) {
        resume_words_done(out, m, job, per_epoch, 0);
        return false;
    }
    uint64_t begin = m->redo.there ? m->redo.begin : epochs * per_epoch;
    (void)snprintf(out, RESUME_WORDS_BYTES,
                   "resuming from checkpoint %" PRIu64 ": epoch %" PRIu64 "/%" PRIu32
                   ", after step %" PRIu64 "/%" PRIu64 " (step %" PRIu64 " in all)",
                   m->cut, epochs + 1, job->training.epochs, m->step - begin, per_epoch, m->step);
    return true;
}
