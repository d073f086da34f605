/* A shard that trains dropped microbatches in extra steps at their epoch's end. All shards keep the list of dropped
 * microbatches with their step. The lead tells the workers the work of each step, together with the parameters for it.
 *
 * Happy path: a step's picked leaves are noted when the chief decides (shard_accept.c) -> the step is made -> replies
 * name the work of the next step -> after the epoch's last batch this work comes from the list, as many microbatches in
 * each step as a step has leaves.
 * Failure modes: a cut that does not fit the job's epochs (ERR_CORRUPT), an epoch too long for the list (ERR_TOOBIG). */
#include <assert.h>
#include <inttypes.h>

#include "ps/core/shard_state.h"

enum err shard_redo_open(struct shard *s, const Gradwire__Settings *m, struct errmsg *e)
{
    s->sync.redo.on = m->redo;
    if (!s->sync.redo.on)
        return ERR_OK;
    enum err err = epochs_init(&s->sync.redo.epochs, m->batches_per_epoch, m->microbatches);
    if (err)
        return err_set(
            e, err, "sync.dropped: redo: no memory for an epoch of %llu batches of %u microbatches",
            (unsigned long long)m->batches_per_epoch, m->microbatches);
    return ERR_OK;
}

void shard_redo_close(struct shard *s)
{
    epochs_close(&s->sync.redo.epochs);
    s->sync.redo = (struct shard_redo){.on = false};
}

enum err shard_redo_restore(struct shard *s, const struct manifest *m, uint64_t cut,
                            struct errmsg *e)
{
    const struct manifest_redo *r = &m->redo;
    if (!s->sync.redo.on)
        return ERR_OK;
    if (!r->there)
        epochs_start(&s->sync.redo.epochs, s->step);
    else if (epochs_restore(&s->sync.redo.epochs, s->step, r->epoch, r->begin, r->redone,
                            r->dropped, r->dropped_bytes))
        return err_set(e, ERR_CORRUPT,
                       "checkpoint %" PRIu64 ": its position in its epoch is out of range", cut);
    return ERR_OK;
}

void shard_redo_turn(struct shard *s)
{
    if (!s->sync.redo.on)
        return;
    epochs_work(&s->sync.redo.epochs, s->step, &s->sync.redo.before);
    epochs_turn(&s->sync.redo.epochs, s->step);
}

void shard_redo_say(const struct shard *s, uint64_t step, Gradwire__Reply *reply,
                    struct shard_work *room)
{
    if (!s->sync.redo.on || s->index > 0)
        return;
    assert(step + 1 >= s->step && step <= s->step + 1);
    if (step + 1 == s->step)
        room->work = s->sync.redo.before;
    else
        epochs_work(&s->sync.redo.epochs, step, &room->work);
    gradwire__step_work__init(&room->message);
    room->message.epoch = room->work.epoch;
    room->message.begin = room->work.begin;
    room->message.steps = room->work.steps;
    room->message.n_redo = room->work.redo ? room->work.count : 0;
    room->message.redo = room->work.leaf;
    reply->work = &room->message;
}

uint64_t shard_redo_epoch(const struct shard *s)
{
    return s->sync.redo.on ? s->sync.redo.epochs.epoch : s->step / s->settings.batches_per_epoch;
}

void shard_redo_status(struct shard *s, Gradwire__ShardStatus *m)
{
    const struct epochs *e = &s->sync.redo.epochs;
    if (!s->sync.redo.on || s->index > 0 || !s->planned)
        return;
    gradwire__redo__init(&s->sync.redo.status);
    s->sync.redo.status.epoch = e->epoch;
    s->sync.redo.status.begin = e->begin;
    s->sync.redo.status.redone = e->redone;
    s->sync.redo.status.dropped.data = e->dropped;
    s->sync.redo.status.dropped.len = epochs_saved_bytes(e, s->step);
    m->redo = &s->sync.redo.status;
}
