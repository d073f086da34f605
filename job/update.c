/* Checks training.update and backup workers against the rest of the job. */
#include "job/keys.h"
#include "job/read.h"

const char *job_update_word(enum update_mode update)
{
    return job_word_of(job_key_find("training.update")->words, (int)update);
}

const char *job_nan_guard_word(enum nan_guard guard)
{
    return job_word_of(job_key_find("training.nan_guard")->words, (int)guard);
}

enum err job_check_update(struct job_reader *r)
{
    const struct job *job = r->job;
    if (job->training.update != UPDATE_SYNC || job->sync.dropped != DROPPED_REDO ||
        job->training.nan_guard != NAN_GUARD_ROLLBACK)
        return ERR_OK;
    return job_refuse(
        r, NULL, "sync.dropped",
        "redo excludes training.nan_guard: rollback, because the step to skip can have other "
        "microbatches after it; allowed nan_guard: check, off, skip, stop");
}

uint32_t job_replicas(const struct job *job, uint32_t workers)
{
    uint32_t replicas = job->sync.replicas_to_aggregate;
    return replicas < workers ? replicas : 0;
}

static enum err check_workers(const struct job *job, uint32_t workers, struct errmsg *e)
{
    uint32_t leaves = 1;
    if (job->sync.replicas_to_aggregate > workers)
        return err_set(e, ERR_INPUT,
                       "sync.replicas_to_aggregate: %u, and there are %u workers; allowed: up to "
                       "%u, which means no backup workers",
                       job->sync.replicas_to_aggregate, workers, workers);
    while (leaves < workers)
        leaves *= 2;
    if (job_replicas(job, workers) == 0 || job->training.microbatches >= workers)
        return ERR_OK;
    if (leaves > JOB_MICROBATCHES_MAX)
        return err_set(e, ERR_INPUT,
                       "sync.replicas_to_aggregate: each worker needs a microbatch, and of %u "
                       "workers only %d can have one",
                       workers, JOB_MICROBATCHES_MAX);
    return err_set(e, ERR_INPUT,
                   "sync.replicas_to_aggregate: each of the %u workers needs a microbatch, and "
                   "training.microbatches is %u; %u is enough",
                   workers, job->training.microbatches, leaves);
}

enum err job_check_workers(const struct job *job, uint32_t workers, struct errmsg *e)
{
    return job_blame(job, PLACE_REPLICAS, check_workers(job, workers, e), e);
}
