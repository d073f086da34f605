/* The shards' state, as they reported it last, or as in the cut with which a generation begins. */
#include <string.h>

#include "worker/chief/core/chief_state.h"

bool shards_all(const struct chief *c, size_t flag)
{
    for (uint32_t i = 0; i < c->plan.shards; i++)
        if (!*((const bool *)((const char *)&c->shard[i] + flag)))
            return false;
    return true;
}

bool shards_are_of(const struct chief *c, uint32_t shard, uint32_t ps)
{
    return shard < c->plan.shards && c->plan.shard[shard].ps == ps;
}

uint32_t chief_ps_of(const struct chief *c, uint32_t shard)
{
    return c->plan.shard[shard].ps;
}

uint64_t shards_furthest(const struct chief *c)
{
    uint64_t furthest = 0;
    for (uint32_t i = 0; i < c->config.ps; i++)
        for (size_t j = 0; c->ps[i].hello && j < c->ps[i].hello->n_shards; j++)
            if (c->ps[i].hello->shards[j]->step > furthest)
                furthest = c->ps[i].hello->shards[j]->step;
    return furthest;
}

uint64_t shards_least(const struct chief *c)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < c->config.ps; i++)
        for (size_t j = 0; c->ps[i].hello && j < c->ps[i].hello->n_shards; j++)
            if (c->ps[i].hello->shards[j]->step < least)
                least = c->ps[i].hello->shards[j]->step;
    return least;
}

bool shards_equal(const struct chief *c)
{
    const struct chief_shard *a = &c->shard[0];
    for (uint32_t i = 1; i < c->plan.shards; i++) {
        const struct chief_shard *b = &c->shard[i];
        if (a->step != b->step || a->t != b->t || !c->mode->equal(a, b))
            return false;
    }
    return true;
}

static void take_counts(const struct chief *c, struct chief_shard *s,
                        const Gradwire__ShardStatus *m)
{
    size_t most = c->plan.tables ? ROW_TABLES_MAX : 0;
    s->squeezed = m->squeezed;
    s->tables = (uint32_t)(m->n_table < most ? m->n_table : most);
    for (uint32_t i = 0; i < s->tables; i++) {
#define X(name) s->table[i].name = m->table[i]->name;
        ROW_COUNTS(X)
#undef X
    }
}

void shards_take_status(struct chief *c, const Gradwire__ShardStatus *m)
{
    if (!m || m->shard >= c->plan.shards)
        return;
    struct chief_shard *s = &c->shard[m->shard];
    s->step = m->step;
    s->t = m->t;
    s->duplicates = m->duplicates;
    s->clipped = m->clipped;
    s->push = msg_codec_cost_get(m->push);
    s->reply = msg_codec_cost_get(m->reply);
    take_counts(c, s, m);
    c->mode->take_status(c, s, m);
    if (m->shard != 0)
        return;
    memset(c->epoch, 0, sizeof c->epoch);
    for (size_t i = 0; i < m->n_epochs; i++) {
        const Gradwire__EpochSums *from = m->epochs[i];
        struct epoch_sums *to = &c->epoch[from->epoch % CHECKPOINT_EPOCHS];
        *to = (struct epoch_sums){.epoch = from->epoch,
                                  .batches = from->batches,
                                  .examples = from->examples,
                                  .loss = from->loss};
        for (size_t k = 0; k < from->n_metric && k < SUMS_MAX; k++)
            to->metric[k] = from->metric[k];
    }
}

static void published_base(struct chief *c)
{
    c->published_cut = c->base.cut;
    c->published_step = c->base.step;
    c->published_final = c->base.final;
}

static void from_cut(struct chief *c)
{
    const struct manifest *m = &c->base;
    published_base(c);
    memcpy(c->epoch, m->epoch, sizeof c->epoch);
    for (uint32_t i = 0; i < c->plan.shards; i++) {
        struct chief_shard *s = &c->shard[i];
        s->step = m->step;
        s->t = m->t;
        s->duplicates = m->duplicates;
        s->clipped = m->clipped;
        memset(s->table, 0, sizeof s->table);
        s->squeezed = i == 0 ? m->squeezed : 0;
        if (i == 0)
            memcpy(s->table, m->table, sizeof s->table);
        c->mode->from_cut(c, s);
    }
}

void shards_take_over(struct chief *c)
{
    for (uint32_t i = 0; i < c->config.ps; i++)
        for (size_t j = 0; c->ps[i].hello && j < c->ps[i].hello->n_shards; j++)
            if (shards_are_of(c, c->ps[i].hello->shards[j]->shard, i))
                shards_take_status(c, c->ps[i].hello->shards[j]);
}

void shards_begin(struct chief *c)
{
    if (c->begins == BEGINS_TAKEOVER) {
        if (c->has_base)
            published_base(c);
    } else if (c->begins == BEGINS_RESTORE) {
        from_cut(c);
    } else {
        c->published_final = false;
        memset(c->epoch, 0, sizeof c->epoch);
    }
}
