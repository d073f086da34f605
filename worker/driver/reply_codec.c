#include "worker/driver/reply_codec.h"

#include "common/math/kernels.h"
#include "common/base/mem.h"

struct reply_codec {
    struct coder *coder;
    float *room; /* a difference, before it is added */
    uint64_t room_elems;
};

enum err reply_codec_new(struct reply_codec **out)
{
    struct reply_codec *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return ERR_NOMEM;
    if (coder_new(&r->coder)) {
        mem_free(r);
        return ERR_NOMEM;
    }
    *out = r;
    return ERR_OK;
}

void reply_codec_free(struct reply_codec *r)
{
    if (!r)
        return;
    mem_free(r->room);
    coder_free(r->coder);
    mem_free(r);
}

static float *room(struct reply_codec *r, uint64_t elems)
{
    if (elems <= r->room_elems)
        return r->room;
    mem_free(r->room);
    r->room = mem_floats(elems);
    r->room_elems = r->room ? elems : 0;
    return r->room;
}

enum err reply_codec_store(struct reply_codec *r, const struct codec_shape *shape,
                           const Gradwire__Reply *m, const void *in, uint64_t bytes, float *w)
{
    uint64_t elems = plan_run_elems(shape->plan, m->first_chunk, m->chunks);
    float *to = w + plan_chunk_elem(shape->plan, m->first_chunk);
    float *plain = m->difference ? room(r, elems) : to;
    if (!plain)
        return ERR_NOMEM;
    enum err err = codec_decode(r->coder, shape, (enum codec)m->codec, m->first_chunk, m->chunks,
                                in, bytes, plain);
    if (!err && m->difference)
        kernels()->add(to, to, plain, elems);
    return err;
}
