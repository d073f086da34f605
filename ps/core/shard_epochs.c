/* The sums of loss and metrics of the last epochs, which the lead shard keeps. They are part of a cut, and a rollback restores
 * them. The training metrics that the user sees are computed from them, so each batch counts once, whatever process died. */
#include <math.h>
#include <string.h>

#include "ps/core/shard_state.h"

_Static_assert((int)SLICES_MAX == (int)BINS_SLICES_MAX, "a slice is one byte of marks");

/* ---- progressive metrics ---- */

/* The AUC of so many more rows costs nothing against their training; that of an epoch's last batch is of all. */
enum { AUC_ROWS = 65536 };

void shard_add_marks(struct shard *s, uint64_t epoch, const uint8_t *marks, uint32_t rows)
{
    struct bins *to = &s->bins[epoch % CHECKPOINT_EPOCHS];
    if (!to->count || (to->rows && to->epoch > epoch))
        return; /* as in `add` */
    if (to->epoch != epoch)
        bins_clear(to);
    to->epoch = epoch;
    bins_add(to, marks, rows);
}

/* The epoch's sums have grown; its AUC, which is no sum, and its error had these values. */
static void set_auc(const struct shard *s, struct epoch_sums *of, double before,
                    struct bins_auc auc)
{
    const struct bins *b = &s->bins[of->epoch % CHECKPOINT_EPOCHS];
    const bool due = of->batches >= s->settings.batches_per_epoch ||
                     floor(before / AUC_ROWS) < floor(of->examples / AUC_ROWS);
    if (due && b->rows && b->epoch == of->epoch)
        auc = bins_auc(b, 0);
    of->metric[s->settings.progressive - 1] = auc.auc;
    of->metric[s->settings.metrics - 1] = auc.error;
}

/* ---- sums ---- */

static void add(const struct shard *s, struct epoch_sums epochs[CHECKPOINT_EPOCHS],
                const struct epoch_sums *more)
{
    struct epoch_sums *to = &epochs[more->epoch % CHECKPOINT_EPOCHS];
    struct bins_auc auc = {NAN, NAN};
    if (to->batches && to->epoch > more->epoch)
        return; /* a batch of an early epoch, whose sums are no longer kept */
    if (to->batches == 0 || to->epoch != more->epoch)
        *to = (struct epoch_sums){.epoch = more->epoch};
    else if (s->bins[0].count)
        auc = (struct bins_auc){to->metric[s->settings.progressive - 1],
                                to->metric[s->settings.metrics - 1]};
    const double before = to->examples;
    to->batches += more->batches;
    to->examples += more->examples;
    to->loss += more->loss;
    for (int i = 0; i < SUMS_MAX; i++)
        to->metric[i] += more->metric[i];
    if (s->bins[0].count)
        set_auc(s, to, before, auc);
}

void shard_add_epoch_sums(struct shard *s, uint64_t epoch, uint64_t batches, double examples,
                          const double *sums, size_t n)
{
    struct epoch_sums more = {
        .epoch = epoch, .batches = batches, .examples = examples, .loss = n ? sums[0] : 0};
    for (size_t i = 1; i < n && i <= s->settings.metrics; i++)
        more.metric[i - 1] = sums[i];
    add(s, s->epoch, &more);
}

static void say(const struct shard *s, struct shard_epochs *room)
{
    room->n = 0;
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++) {
        struct epoch_sums *from = &room->of[i];
        if (from->batches == 0)
            continue;
        Gradwire__EpochSums *to = room->epochs[room->n] = &room->epoch[room->n];
        room->n++;
        gradwire__epoch_sums__init(to);
        to->epoch = from->epoch;
        to->batches = from->batches;
        to->examples = from->examples;
        to->loss = from->loss;
        to->metric = from->metric;
        to->n_metric = s->settings.metrics;
    }
}

void shard_epochs_say(const struct shard *s, struct shard_epochs *room)
{
    room->n = 0;
    if (s->index > 0)
        return;
    memcpy(room->of, s->epoch, sizeof room->of);
    say(s, room);
}

/* The results by slice of the last epoch that has all its batches; they stay the same while no row is added to it. */
static void say_slices(struct shard *s, struct shard_epochs *room)
{
    Gradwire__EpochSums *to = NULL;
    for (size_t i = 0; i < room->n && s->bins[0].count && s->bins[0].slices; i++)
        if (room->epoch[i].batches >= s->settings.batches_per_epoch &&
            (!to || room->epoch[i].epoch > to->epoch))
            to = &room->epoch[i];
    const struct bins *b = to ? &s->bins[to->epoch % CHECKPOINT_EPOCHS] : NULL;
    if (!b || !b->rows || b->epoch != to->epoch)
        return;
    for (uint32_t i = 0;
         i < b->slices && (s->sliced.epoch != b->epoch || s->sliced.rows != b->rows); i++) {
        const struct bins_sums sums = bins_sums(b, 1 + i);
        const struct bins_auc auc = bins_auc(b, 1 + i);
        const double of[SLICE_NUMBERS] = {sums.rows,      sums.positives, sums.loss,
                                          sums.predicted, auc.auc,        auc.error};
        memcpy(s->sliced.of + (size_t)i * SLICE_NUMBERS, of, sizeof of);
    }
    s->sliced.epoch = b->epoch;
    s->sliced.rows = b->rows;
    to->slices = s->sliced.of;
    to->n_slices = (size_t)b->slices * SLICE_NUMBERS;
}

void shard_epochs_reply(struct shard *s, const struct shard_peer *to, Gradwire__Reply *reply,
                        const struct shard_run *run, struct shard_epochs *room)
{
    if (s->index > 0 || to->worker > 0 || run->first > 0 || run->count == 0)
        return;
    memcpy(room->of, s->epoch, sizeof room->of);
    if (reply->sums) { /* of the step being made, which the sums do not contain yet */
        struct epoch_sums step = {.epoch = reply->sums->epoch,
                                  .batches = reply->sums->batches,
                                  .examples = reply->sums->examples,
                                  .loss = reply->sums->loss};
        memcpy(step.metric, reply->sums->metric, reply->sums->n_metric * sizeof *step.metric);
        add(s, room->of, &step);
    }
    say(s, room);
    say_slices(s, room);
    reply->epochs = room->epochs;
    reply->n_epochs = room->n;
}
