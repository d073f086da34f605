/* A reason that makes a job inexact is in the journal before it can have an effect: then no later chief takes the job for an exact
 * one. The first one counts. */
#include <inttypes.h>
#include <stdio.h>

#include "worker/chief/core/chief_state.h"

void inexact_note(struct chief *c, const char *why)
{
    struct journal_entry entry = {.kind = JOURNAL_INEXACT};
    (void)snprintf(entry.what, sizeof entry.what, "%s", why);
    if (!journal_inexact(&c->journal))
        chief_note(c, &entry);
}

/* The step with which the generation begins. */
static uint64_t first_step(const struct chief *c)
{
    return c->begins == BEGINS_TAKEOVER  ? shards_least(c)
           : c->begins == BEGINS_RESTORE ? c->base.step
                                         : 0;
}

static bool has_more(const struct chief *c)
{
    uint64_t per_epoch = c->config.settings.batches_per_epoch;
    if (c->begins == BEGINS_RESTORE)
        return manifest_epochs(&c->base, per_epoch) < c->config.settings.epochs;
    return first_step(c) < c->total;
}

void inexact_note_keys(struct chief *c)
{
    char why[JOURNAL_WHAT_MAX];
    if (c->mode != &chief_sync || !c->config.inexact[0] || c->config.finished || !has_more(c))
        return;
    (void)snprintf(why, sizeof why,
                   "generation %" PRIu64 " trained from step %" PRIu64 " on with %s",
                   c->generation.number, first_step(c), c->config.inexact);
    inexact_note(c, why);
}
