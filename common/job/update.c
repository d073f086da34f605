/* Keys that one mode of training.update heeds and another does not: refused where they would do nothing. */
#include "common/job/keys.h"
#include "common/job/read.h"

const char *job_update_word(enum update_mode update)
{
    return job_word_of(job_key_find("training.update")->words, (int)update);
}

enum { STALENESS = 3, GEO_EVERY = 8 }; /* the defaults: where nobody heeds them, they may stand */

enum err job_check_update(struct job_reader *r)
{
    const struct job *job = r->job;
    if (job->training.update != UPDATE_SSP && job->training.staleness != STALENESS)
        return job_refuse(r, job_given(r, "training.staleness"), "training.staleness",
                          "it is the bound of training.update: ssp, which is %s here; leave it out",
                          job_update_word(job->training.update));
    if (job->training.update != UPDATE_GEO && job->training.geo_every != GEO_EVERY)
        return job_refuse(r, job_given(r, "training.geo_every"), "training.geo_every",
                          "it is of training.update: geo, which is %s here; leave it out",
                          job_update_word(job->training.update));
    if (job->training.update != UPDATE_SYNC && job->sync.replicas_to_aggregate)
        return job_refuse(r, job_given(r, "sync.replicas_to_aggregate"),
                          "sync.replicas_to_aggregate",
                          "it is of training.update: sync, which is %s here; leave it out",
                          job_update_word(job->training.update));
    if (job->training.update != UPDATE_SYNC && job->sync.dropped == DROPPED_REDO)
        return job_refuse(r, job_given(r, "sync.dropped"), "sync.dropped",
                          "redo is of training.update: sync, which is %s here; leave it out",
                          job_update_word(job->training.update));
    if (job->sync.dropped == DROPPED_REDO && job->training.nan_guard == NAN_GUARD_ROLLBACK)
        return job_refuse(r, job_given(r, "sync.dropped"), "sync.dropped",
                          "redo goes with training.nan_guard: off, skip or stop: after a rollback "
                          "the step to be skipped may be made of other microbatches");
    if (job->training.update == UPDATE_ASYNC || job->training.update == UPDATE_SSP)
        return ERR_OK;
    if (job->training.delay_compensation > 0.0f)
        return job_refuse(r, job_given(r, "training.delay_compensation"),
                          "training.delay_compensation",
                          "with this training.update no gradient is stale; allowed: 0, or "
                          "training.update: async or ssp");
    if (job->training.staleness_rate)
        return job_refuse(r, job_given(r, "training.staleness_rate"), "training.staleness_rate",
                          "with this training.update no gradient is stale; allowed: false, or "
                          "training.update: async or ssp");
    return ERR_OK;
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
                       "%u, which is without backup workers",
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
                   "training.microbatches is %u; %u would do",
                   workers, job->training.microbatches, leaves);
}

enum err job_check_workers(const struct job *job, uint32_t workers, struct errmsg *e)
{
    return job_blame(job, PLACE_REPLICAS, check_workers(job, workers, e), e);
}
