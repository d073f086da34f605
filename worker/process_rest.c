/* A worker process between two jobs: whether there is something to train, and the wait until a chief calls. */
#include "worker/process.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/checkpoint/ending.h"
#include "common/process/signals.h"
#include "worker/control/idle.h"

/* Check whether the job is already over. A worker that waits asks ps 0 whether a chief continues it; others end. A
 * job that was stopped early may continue with another patience, which only the chief can know. */
static enum ending look_for_ending(struct process *p)
{
    struct manifest m = {0};
    enum ending ending = ending_find(&p->checkpoints, &p->job, &m);
    if (ending) {
        (void)snprintf(p->over.uuid, sizeof p->over.uuid, "%s", m.uuid);
        p->over.generation = m.generation;
        p->known_over = true;
    }
    manifest_close(&m);
    return ending;
}

/* Wait, with no part of a job, until a chief calls (*calls is true) or a signal comes. */
static enum err await_call(struct process *p, bool *calls, struct errmsg *e)
{
    interim_end(&p->interim);
    enum err err = process_begin_interim(p, p->rests, e);
    if (!err)
        err = idle_wait(&p->job, &p->cluster, &p->over, calls, e);
    interim_end(&p->interim);
    if (err)
        return err;
    if (*calls)
        log_info("a chief has connected, with generation %" PRIu64, p->over.generation);
    else
        log_info("asked to stop: %s",
                 p->rests == STATE_DONE ? "the job is done" : "no chief has connected");
    if (!*calls && p->rests == STATE_IDLE)
        p->result.exit_code = 143;
    p->rests = STATE_LOADING;
    if (!*calls)
        return ERR_OK;
    signals_last_words(p->flags.termination_message, PROCESS_BEFORE_TRAINING);
    job_close(&p->job); /* the chief may have another file, for example with more epochs */
    err = process_load_job(p, e);
    if (err)
        return err;
    /* If the job file now asks for more, the job is not done, even if the chief that called leaves before it welcomes us.
     * p->over stays as idle_wait set it. */
    struct manifest m = {0};
    p->known_over = ending_find(&p->checkpoints, &p->job, &m) != ENDING_NONE;
    manifest_close(&m);
    return process_begin_interim(p, STATE_LOADING, e);
}

enum err process_rest(struct process *p, bool *trains, struct errmsg *e)
{
    enum ending ending = ENDING_NONE;
    if (process_may_rest(p) && p->rests == STATE_LOADING)
        ending = look_for_ending(p);
    if (ending && p->flags.waits)
        p->rests = STATE_DONE;
    *trains = ending != ENDING_DONE;
    if (ending && (!*trains || p->rests == STATE_DONE))
        farewell_say(&p->job, &p->cluster);
    return p->rests == STATE_LOADING ? ERR_OK : await_call(p, trains, e);
}
