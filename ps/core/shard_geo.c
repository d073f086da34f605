/* Local SGD (geo) on a shard: the optimizer runs on the workers, which push differences of parameters. Each difference is
 * added once for each (worker, incarnation, round) and chunk (shard_delta.c). A statistic is a moving average over the
 * batches of all workers. A push round names its batches; they are resolved together with the round. */
#include <inttypes.h>
#include <math.h>

#include "common/math/kernels.h"
#include "ps/core/shard_state.h"

/* ---- a generation ---- */

static void close_mode(struct shard *s)
{
    s->geo = (struct shard_geo){0};
}

static enum err restore(struct shard *s, const struct manifest *m, uint64_t cut, struct errmsg *e)
{
    if (ids_unpack(&s->geo.resolved, m->mark, m->window_bits, m->window_bits_bytes))
        return err_set(e, ERR_CORRUPT, "checkpoint %" PRIu64 ": its resolved ids are out of range",
                       cut);
    s->geo.lost = m->lost;
    return ERR_OK;
}

/* ---- a push ---- */

static enum err check_ids(const struct shard *s, const Gradwire__Push *m, struct errmsg *e)
{
    uint64_t mark = s->geo.resolved.mark;
    for (size_t i = 0; i < m->n_ids; i++) {
        const Gradwire__Range *r = m->ids[i];
        if (r->count > IDS_WINDOW || (r->first >= mark && r->first - mark > IDS_WINDOW - r->count))
            return err_set(e, ERR_PROTO, "batches %" PRIu64 " + %" PRIu64 " are beyond the window",
                           (uint64_t)r->first, (uint64_t)r->count);
    }
    return ERR_OK;
}

static enum err resolve(struct shard *s, const Gradwire__Push *m, struct errmsg *e)
{
    for (size_t i = 0; i < m->n_ids; i++)
        for (uint64_t k = 0; k < m->ids[i]->count; k++)
            if (ids_add(&s->geo.resolved, m->ids[i]->first + k))
                return err_set(e, ERR_PROTO, "a batch is beyond the window");
    s->step = s->t = s->geo.resolved.count;
    return ERR_OK;
}

/* r = m^k r + a for k updates. For a variance a and r are never below 0, so the result is not either, however late the round
 * arrives. (A difference of two averages could be less than -r, because other workers may have moved r since.) */
static void average(float *r, const float *a, float kept, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        r[i] = kept * r[i] + a[i];
}

static void add(struct shard *s, const Gradwire__Push *m, uint32_t chunk, uint64_t at,
                uint64_t elems, const float *delta)
{
    uint64_t first = s->me.first_elem + at, end = first + elems;
    uint32_t i = layout_find(&s->layout, first);
    for (uint64_t begin = first; begin < end; i++) {
        const struct tensor *t = &s->layout.tensor[i];
        uint64_t stop = layout_end(&s->layout, i) < end ? layout_end(&s->layout, i) : end;
        uint64_t k = begin - first;
        float *w = s->block[0] + at + k;
        if (t->role == TENSOR_STATISTIC && t->momentum < 1.0f) /* 1: the bits stay */
            average(w, delta + k, powf(t->momentum, (float)m->updates), stop - begin);
        else if (t->role == TENSOR_WEIGHT)
            kernels()->add(w, w, delta + k, stop - begin);
        begin = stop;
    }
    for (size_t n = 0; s->me.first_chunk + chunk == 0 && n < m->n_epochs; n++) {
        const Gradwire__EpochSums *from = m->epochs[n];
        double sums[GATE_SUMS_MAX] = {from->loss};
        for (size_t k = 0; k < from->n_metric && k + 1 < GATE_SUMS_MAX; k++)
            sums[1 + k] = from->metric[k];
        shard_add_epoch_sums(s, from->epoch, from->batches, from->examples, sums, GATE_SUMS_MAX);
    }
}

static enum err on_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e)
{
    struct delta *of = NULL;
    uint32_t added = 0;
    enum err err = shard_delta_turn(s, peer, m, &of, e);
    if (!err)
        err = check_ids(s, m, e);
    if (!err && shard_delta_take(s, of, m, body, add, &added))
        err = resolve(s, m, e);
    if (!err)
        shard_send_pushed(s, peer, m, added, s->block[0]);
    return err;
}

/* ---- the chief ---- */

/* Mark as resolved here the batches that some shard has resolved, or that no worker will push again. */
static void on_cut_at(struct shard *s, const Gradwire__CutAt *m)
{
    struct ids all;
    if (ids_unpack(&all, m->mark, m->window.data, m->window.len))
        return; /* the chief finds that the shards differ */
    s->geo.resolved = all;
    s->geo.lost = m->lost;
    s->step = s->t = all.count;
}

static void status(struct shard *s, Gradwire__ShardStatus *m)
{
    m->lost = s->geo.lost;
    shard_status_ids(s, &s->geo.resolved);
}

const struct shard_mode shard_mode_geo = {.close = close_mode,
                                          .restore = restore,
                                          .begin = shard_delta_close,
                                          .join = shard_delta_join,
                                          .on_push = on_push,
                                          .on_pull = shard_send_present,
                                          .on_cut_at = on_cut_at,
                                          .status = status};
