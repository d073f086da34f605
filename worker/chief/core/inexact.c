/* A reason that makes a job inexact is in the journal before it can have an effect: then no later chief takes the job for an exact
 * one. The first one counts. */
#include "worker/chief/core/chief_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job/job.h"

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

/* A takeover continues with what the shards hold, but a run's past is in DIR alone: the best epoch, the history, and the
 * journal. A chief whose DIR lacks a part of it goes on. The job is then no longer exact, and the journal has a line for all later
 * chiefs before any ps enters the generation. */

enum { LACK_BYTES = 80 };

static const Gradwire__Redo *lead_redo(const struct chief *c)
{
    for (uint32_t i = 0; i < c->config.ps; i++)
        for (size_t j = 0; c->ps[i].hello && j < c->ps[i].hello->n_shards; j++)
            if (c->ps[i].hello->shards[j]->redo)
                return c->ps[i].hello->shards[j]->redo;
    return NULL;
}

/* Sync: the epochs whose ends the shards have passed. An end that they are just at may still have no line in the history: it
 * is evaluated again. */
static uint64_t epochs_passed(const struct chief *c)
{
    uint64_t step = shards_furthest(c);
    const Gradwire__Redo *redo = lead_redo(c);
    if (!step || c->mode != &chief_sync)
        return 0;
    if (c->config.settings.redo)
        return redo && redo->epoch ? redo->epoch - (step <= redo->begin) : 0;
    return (step - 1) / c->config.settings.batches_per_epoch;
}

/* The first epoch that the history lacks; 0: none. A process that has led the run has written lines since it read them. */
static uint64_t lacks_epoch(const struct chief *c)
{
    const struct chief_past *past = &c->config.past;
    uint64_t epochs = strcmp(past->run, c->uuid) == 0 ? past->epochs : past->from;
    return !c->led && epochs < epochs_passed(c) ? epochs + 1 : 0;
}

/* The journal has another name than that of the chief before, or lacks lines that it had, or will have. */
static const char *lacks_of_journal(const struct chief *c)
{
    const char *own = c->config.past.journal ? c->config.past.journal : "";
    const Gradwire__HelloReply *hello = c->ps[0].hello;
    const struct generation found = c->ps[0].generation;
    /* A chief at the same address, with a copy of DIR, has led the run since this process did. */
    if (c->led && found.number >= c->before.number && !generation_equal(found, c->before))
        return "another chief has led the run meanwhile";
    if (strcmp(hello ? hello->journal : "", own) != 0)
        return "it is not the directory of the chief before";
    if (hello && !journal_begins_with(
                     &c->journal, (struct journal_lines){hello->journal_lines, hello->journal_crc}))
        return "checkpoints/journal lacks lines of the chief before";
    return NULL;
}

/* False: DIR lacks nothing, or only what the journal has a line for. */
static bool lacks(const struct chief *c, char what[LACK_BYTES])
{
    const char *journal = lacks_of_journal(c);
    uint64_t epoch = lacks_epoch(c);
    if (journal)
        (void)snprintf(what, LACK_BYTES, "%s", journal);
    else
        (void)snprintf(what, LACK_BYTES, "history.jsonl has no line of epoch %" PRIu64, epoch);
    return journal || (epoch && !journal_inexact(&c->journal));
}

void past_note(struct chief *c)
{
    char what[LACK_BYTES], why[JOURNAL_WHAT_MAX];
    if (c->begins != BEGINS_TAKEOVER || c->config.finished || !lacks(c, what))
        return;
    if (!c->told_past) {
        bool monitors = c->config.training.monitor != MONITOR_NONE;
        chief_say(
            c, 1,
            "generation %" PRIu64
            ": %.100s lacks a part of this run's past (%s): the job goes on, but is never exact "
            "again%s; a chief that is to be exact needs its output directory on storage that "
            "comes with it",
            c->generation.number, c->config.past.dir, what,
            monitors ? ", and its best epoch is only the best of those known there" : "");
    }
    c->told_past = true;
    (void)snprintf(why, sizeof why,
                   "generation %" PRIu64 " took over at step %" PRIu64
                   " without a part of the run's past: %s",
                   c->generation.number, shards_furthest(c), what);
    inexact_note(c, why);
}

/* OpenBLAS chooses its kernels by the processor, and the bits of its products depend on them. A worker with other
 * kernels than the chief trains along, but then the result depends on which worker computes what. The journal
 * remembers such workers: neither a rollback nor the chief's end makes the weights exact again. */

static void tell_blas(struct chief *c, uint32_t worker, const char *name, const char *blas)
{
    if (c->worker[worker].other_blas)
        return;
    c->worker[worker].other_blas = true;
    chief_say(
        c, 1,
        "%s multiplies with OpenBLAS's kernels for %.64s, the chief with those for %s: "
        "results depend on which worker computes what, so this job is not exact; set the same "
        "OPENBLAS_CORETYPE in the environment of every process",
        name, blas, c->config.blas);
}

bool blas_is_noted(struct chief *c, uint32_t worker)
{
    const char *own = c->config.blas, *blas = c->worker[worker].hello->blas;
    char name[WORKER_NAME_BYTES];
    if (!own || !*own || !*blas || strcmp(own, blas) == 0)
        return true;
    (void)worker_name(name, worker, c->config.separate_chief);
    struct journal_entry entry = journal_blas_entry(name, blas);
    tell_blas(c, worker, name, blas);
    if (!journal_has_blas(&c->journal, &entry))
        chief_note(c, &entry);
    return c->unwritten == 0;
}
