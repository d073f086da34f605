/* What a shard sends to its workers. */
#include "ps/core/shard_state.h"

bool shard_mine(const struct shard *s, const Gradwire__Generation *g)
{
    return s->entered && s->me.chunks && generation_equal(msg_generation_get(g), s->generation);
}

bool shard_same_generation(const struct shard *s, const Gradwire__Generation *g)
{
    return s->entered && generation_equal(msg_generation_get(g), s->generation);
}

void shard_refuse_generation(struct shard *s, struct shard_peer *peer)
{
    Gradwire__Refuse refuse = GRADWIRE__REFUSE__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    refuse.reason = GRADWIRE__REASON__OTHER_GENERATION;
    refuse.text = (char *)"another generation is on";
    refuse.generation = &g;
    s->io->answer(s->ctx, peer, FRAME_REFUSE, &refuse.base);
}

void shard_send(struct shard *s, struct shard_peer *to, Gradwire__Reply *head, const float *block,
                uint32_t first, uint32_t count)
{
    Gradwire__Generation g = msg_generation(s->generation);
    head->generation = &g;
    head->first_chunk = s->me.first_chunk + first;
    head->chunks = count;
    shard_taken_put(s, to, head, first, count);
    if (block && s->mode->sent)
        s->mode->sent(s, to->worker, first, count);
    if (block && shard_reply_values(s, to, head, block, first, count))
        return;
    uint64_t at = plan_chunk_elem(&s->plan, head->first_chunk) - s->me.first_elem;
    s->io->reply(s->ctx, to, head, block ? block + at : NULL,
                 block ? plan_run_elems(&s->plan, head->first_chunk, count) : 0);
}

void shard_send_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                    const struct shard_run *run)
{
    Gradwire__Generation g = msg_generation(s->generation);
    head->generation = &g;
    head->first_chunk = s->me.first_chunk + run->first;
    head->chunks = run->count;
    shard_taken_put(s, to, head, run->first, run->count);
    if (!shard_reply_run(s, to, head, run))
        shard_send(s, to, head, shard_seen(s, !s->now), run->first, run->count);
}

enum err shard_send_present(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e)
{
    (void)e;
    Gradwire__Reply reply = GRADWIRE__REPLY__INIT;
    reply.step = s->step;
    reply.pulled = true;
    reply.number = m->number;
    shard_send(s, peer, &reply, s->block[s->now], 0, s->me.chunks);
    return ERR_OK;
}

void shard_add_epoch_sums(struct shard *s, uint64_t epoch, uint64_t batches, double examples,
                          const double *sums)
{
    struct epoch_sums *to = &s->epoch[epoch % CHECKPOINT_EPOCHS];
    if (to->batches && to->epoch > epoch)
        return; /* a batch of an epoch that is long over; its sums are no longer kept */
    if (to->batches == 0 || to->epoch != epoch)
        *to = (struct epoch_sums){.epoch = epoch};
    to->batches += batches;
    to->examples += examples;
    to->loss += sums[0];
    for (uint32_t i = 0; i < s->settings.metrics; i++)
        to->metric[i] += sums[1 + i];
}
