/* Error feedback in async mode: before a cut and at the end a worker pushes the values that it still withholds. This is a
 * separate push, a round (shard_delta.c) without a batch. Its effect is as if the values had been part of the last update. */
#include "ps/core/shard_state.h"

static enum err join(struct shard *s, uint32_t worker, uint64_t incarnation)
{
    enum err err = shard_stale_join(s, worker, incarnation);
    return err ? err : shard_delta_join(s, worker, incarnation);
}

static enum err push_fits(const struct shard *s, const Gradwire__Push *m, bool *wanted,
                          struct errmsg *e)
{
    enum err err = shard_async_push_fits(s, m, wanted, e);
    *wanted = *wanted || m->remainder;
    return err;
}

static void add(struct shard *s, const Gradwire__Push *m, uint32_t chunk, uint64_t at,
                uint64_t elems, const float *delta)
{
    (void)m;
    shard_apply_remainder(s, s->async.chunk_t[chunk], at, elems, delta);
}

static enum err on_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e)
{
    struct delta *of;
    uint32_t added = 0;
    if (!m->remainder)
        return shard_async_push(s, peer, m, body, e);
    enum err err = shard_delta_turn(s, peer, m, &of, e);
    if (err)
        return err;
    (void)shard_delta_take(s, of, m, body, add, &added);
    shard_send_pushed(s, peer, m, added, s->block[0]);
    return ERR_OK;
}

const struct shard_mode shard_mode_remainder = {
    SHARD_ASYNC_OPS,        .remainders = true, .begin = shard_delta_close,    .join = join,
    .push_fits = push_fits, .on_push = on_push, .on_pull = shard_send_present,
};
