#include "worker/driver/reply_codec.h"

#include "common/math/kernels.h"

enum err reply_codec_store(struct coder *coder, const struct codec_shape *shape,
                           const Gradwire__Reply *m, const void *in, uint64_t bytes, float *w)
{
    uint64_t elems = plan_run_elems(shape->plan, m->first_chunk, m->chunks);
    float *to = w + plan_chunk_elem(shape->plan, m->first_chunk);
    float *plain = m->difference ? coder_floats(coder, elems) : to;
    if (!plain)
        return ERR_NOMEM;
    enum err err = codec_decode(coder, shape, (enum codec)m->codec, m->first_chunk, m->chunks, in,
                                bytes, plain);
    if (!err && m->difference)
        kernels()->add(to, to, plain, elems);
    return err;
}
