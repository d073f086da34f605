/* The moving averages of the weights (use_ema), which evaluation and export use instead of the weights. They are one of the
 * optimizer's slots. For statistics, which are averages already, the slot has their present values. In sync mode there are
 * two blocks, as for the weights: the step that is being made writes `next`, so that a step's averages can be pulled as long
 * as its weights. */
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

static float *present(const struct shard *s)
{
    return s->slot[s->average.slot];
}

enum err shard_average_open(struct shard *s)
{
    s->average.slot = s->slots ? optimizer_average_slot(&s->optimizer) : UINT32_MAX;
    s->average.on = s->average.slot != UINT32_MAX;
    if (!s->average.on || !s->mode->steps)
        return ERR_OK;
    s->average.next = mem_floats(s->me.elems);
    return s->average.next ? ERR_OK : ERR_NOMEM;
}

void shard_average_close(struct shard *s)
{
    mem_free(s->average.next);
    s->average = (struct shard_average){.on = false};
}

void shard_average_start(struct shard *s)
{
    if (s->average.on)
        memcpy(present(s), s->block[s->now], s->me.elems * sizeof(float));
}

float *shard_average_at(struct shard *s, uint64_t at, size_t n)
{
    assert(s->average.on && at + n <= s->me.elems);
    const float *from = present(s) + at;
    float *to = s->average.next ? s->average.next + at : present(s) + at;
    s->io->before_write(s->ctx, to, n);
    if (s->average.next)
        memcpy(to, from, n * sizeof *to);
    return to;
}

void shard_average_keep(struct shard *s, uint64_t at, size_t n)
{
    if (s->average.next)
        (void)shard_average_at(s, at, n);
}

void shard_average_turn(struct shard *s)
{
    float *made = s->average.next;
    if (!made)
        return;
    s->average.next = present(s);
    s->slot[s->average.slot] = made;
}

enum err shard_average_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e)
{
    if (!s->average.on)
        return err_set(e, ERR_PROTO, "a pull of averages, but the job keeps none");
    bool before = s->average.next && m->step + 1 == s->step && s->before_there;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.generation = &s->wire_generation;
    reply.step = before ? s->step - 1 : s->step;
    reply.number = m->number;
    reply.averages = true;
    reply.first_chunk = s->me.first_chunk;
    reply.chunks = s->me.chunks;
    s->io->send(s->ctx, peer, FRAME_REPLY, &reply.base, before ? s->average.next : present(s),
                s->me.elems * sizeof(float));
    return ERR_OK;
}
