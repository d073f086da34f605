/* Replies of a shard to its workers. */
#include <assert.h>

#include "ps/core/shard_state.h"

bool shard_mine(const struct shard *s, const Gradwire__Generation *g)
{
    return s->entered && s->planned && generation_equal(msg_generation_get(g), s->generation);
}

bool shard_same_generation(const struct shard *s, const Gradwire__Generation *g)
{
    return s->entered && generation_equal(msg_generation_get(g), s->generation);
}

/* Send a range of `block` as it was encoded. */
static void send_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                     const float *block, const struct shard_run *run)
{
    uint64_t at = shard_chunk_at(s, run->first);
    struct shard_epochs epochs;
    head->generation = &s->wire_generation;
    head->first_chunk = s->me.first_chunk + run->first;
    head->chunks = run->count;
    head->codec = (Gradwire__Codec)run->codec;
    head->difference = run->difference;
    shard_taken_put(s, to, head, run->first, run->count);
    shard_epochs_reply(s, to, head, run, &epochs);
    if (!block || run->count == 0)
        s->io->send(s->ctx, to, FRAME_REPLY, &head->base, NULL, 0);
    else if (run->codec == CODEC_RAW)
        s->io->send(s->ctx, to, FRAME_REPLY, &head->base, block + at,
                    plan_run_elems(&s->plan, head->first_chunk, run->count) * sizeof *block);
    else
        s->io->send(s->ctx, to, FRAME_REPLY, &head->base, s->reply.encoded + at, run->bytes);
}

void shard_send(struct shard *s, struct shard_peer *to, Gradwire__Reply *head, const float *block,
                uint32_t first, uint32_t count)
{
    struct shard_run run = {.first = first, .count = count};
    if (block && s->mode->sent)
        s->mode->sent(s, to->worker, first, count);
    if (block)
        shard_reply_values(s, head, block, &run);
    send_run(s, to, head, block, &run);
}

void shard_send_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                    const struct shard_run *run)
{
    const struct shard_run raw = {.first = run->first, .count = run->count};
    bool base = to->holds == s->step + 1 && !head->pulled;
    assert(!run->difference || (s->reply.view[0] && run->codec != CODEC_RAW));
    send_run(s, to, head, shard_seen(s, !s->now), run->difference && !base ? &raw : run);
}

void shard_send_pushed(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                       uint32_t added, const float *block)
{
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    s->duplicates += added == 0;
    reply.step = s->step;
    reply.name = m->name;
    reply.remainder = m->remainder;
    reply.outcome = added ? GRADWIRE__OUTCOME__APPLIED : GRADWIRE__OUTCOME__DUPLICATE;
    shard_send(s, peer, &reply, block, m->first_chunk - s->me.first_chunk, m->chunks);
}

enum err shard_send_present(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e)
{
    (void)e;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step;
    reply.pulled = true;
    reply.made = s->rows.on;
    reply.number = m->number;
    shard_send(s, peer, &reply, s->block[s->now], 0, s->me.chunks);
    return ERR_OK;
}
