/* Judges from the newest cut whether the job is done. Without a cut, with a damaged one or one of
 * another job it is not done, as far as this process knows: it trains, and the chief decides. */
#include "common/checkpoint/ending.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"

void over_set(struct over *o, uint64_t epochs, const char *run)
{
    o->epochs = epochs;
    (void)snprintf(o->run, sizeof o->run, "%s", run);
}

static bool is_another_run(const char *run, const struct job *job)
{
    return job->checkpoint.run[0] && strcmp(job->checkpoint.run, run) != 0;
}

bool over_suffices(const struct over *o, const struct job *job)
{
    return o->epochs >= job->training.epochs && !is_another_run(o->run, job);
}

bool ending_is_of_another_run(const struct manifest *m, const struct job *job)
{
    return is_another_run(m->run, job);
}

enum ending ending_of(const struct manifest *m, const struct job *job)
{
    struct errmsg e;
    if (!m->final || ending_is_of_another_run(m, job) || !m->identity_text ||
        job_identity_compare(m->identity_text, job->identity_text, &e))
        return ENDING_NONE;
    if (epochs_learned(m->epoch) >= job->training.epochs)
        return ENDING_DONE;
    return job->early_stopping.patience ? ENDING_EARLY : ENDING_NONE;
}

/* The caller owns *m. */
static enum err read_newest(const struct place *checkpoints, struct manifest *m)
{
    struct errmsg e;
    uint64_t *cuts = NULL;
    size_t n = 0;
    enum err err = checkpoint_list(checkpoints, &cuts, &n, &e);
    if (!err)
        err = n ? checkpoint_load((struct cut){checkpoints, cuts[0]}, m, &e) : ERR_NOTFOUND;
    mem_free(cuts);
    return err;
}

bool ending_seen(const struct place *checkpoints, const struct job *job, uint64_t generation)
{
    struct manifest m = {0};
    if (read_newest(checkpoints, &m))
        return false;
    enum ending ending = ending_of(&m, job);
    bool ours = m.generation >= generation && (ending == ENDING_DONE || generation);
    manifest_close(&m);
    return ending && ours;
}

enum ending ending_find(const struct place *checkpoints, const struct job *job, struct manifest *m)
{
    struct manifest found = {0};
    if (read_newest(checkpoints, &found))
        return ENDING_NONE;
    enum ending ending = ending_of(&found, job);
    if (!ending) {
        manifest_close(&found);
        return ENDING_NONE;
    }
    log_info("the job is done: checkpoint %" PRIu64 " is its final one, and %s", found.cut,
             ending == ENDING_DONE ? "no more epochs are requested" : "it was stopped early");
    *m = found;
    return ending;
}
