/* What comes in encoded: which codecs a push may have here, and its gradient. */
#include <inttypes.h>

#include "ps/core/shard_state.h"

enum err shard_codec_fits(const struct shard *s, const Gradwire__Push *m, uint64_t body_bytes,
                          struct errmsg *e)
{
    enum codec c = (enum codec)m->codec;
    if ((uint32_t)c >= CODECS || !(s->codec.pushes >> c & 1))
        return err_set(e, ERR_PROTO, "codec %u is not what this job's pushes have", (unsigned)c);
    uint64_t most = codec_body_bytes(&s->codec.shape, c, m->first_chunk, m->chunks);
    if (codec_is_sized(c) ? body_bytes != most : body_bytes == 0 || body_bytes >= most)
        return err_set(e, ERR_PROTO, "%" PRIu64 " body bytes where the plan says %s%" PRIu64,
                       body_bytes, codec_is_sized(c) ? "" : "less than ", most);
    return ERR_OK;
}

enum err shard_push_decode(struct shard *s, const Gradwire__Push *m, const void *in, uint64_t bytes,
                           float *out, struct errmsg *e)
{
    if (!shard_same_generation(s, m->generation))
        return err_set(e, ERR_STATE, "another generation is on");
    double began = s->io->now_s(s->ctx);
    enum err err = codec_decode(s->codec.coder, &s->codec.shape, (enum codec)m->codec,
                                m->first_chunk, m->chunks, in, bytes, out);
    s->codec.push_cost.decode_s += s->io->now_s(s->ctx) - began;
    return err ? err_set(e, err, "a %s body of chunks %u + %u does not decode",
                         codec_str((enum codec)m->codec), m->first_chunk, m->chunks)
               : ERR_OK;
}
