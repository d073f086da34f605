#include "worker/push_codec.h"

#include <inttypes.h>
#include <math.h>

#include "common/clock.h"
#include "common/codec_choice.h"
#include "common/conn.h"
#include "common/mem.h"
#include "common/rng.h"
#include "common/socket.h"

enum { ERROR_SAMPLE = 64 }; /* the error of one run in so many is measured */

/* How one shard's pushes travel. */
struct push_link {
    enum codec codec; /* of the running task */
    struct codec_choice choice;
    struct codec_link link;
};

struct push_codec {
    const struct layout *layout;
    const struct session *session;
    struct codec_shape shape;
    enum codec configured;
    struct push_link *link; /* by shard */
    struct coder *coder;
    float *encoded
        [GRADIENT_NODES_MAX]; /* of each node: a run's bytes stand where its elements would */
    uint64_t runs;
    struct codec_cost cost;
};

enum err push_codec_new(struct push_codec **out, const struct layout *layout)
{
    struct push_codec *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return ERR_NOMEM;
    if (coder_new(&p->coder)) {
        mem_free(p);
        return ERR_NOMEM;
    }
    p->layout = layout;
    *out = p;
    return ERR_OK;
}

static void drop_encoded(struct push_codec *p)
{
    for (uint32_t i = 0; i < GRADIENT_NODES_MAX; i++) {
        mem_free(p->encoded[i]);
        p->encoded[i] = NULL;
    }
}

void push_codec_free(struct push_codec *p)
{
    if (!p)
        return;
    drop_encoded(p);
    mem_free(p->link);
    coder_free(p->coder);
    mem_free(p);
}

enum err push_codec_restart(struct push_codec *p, const struct session *s)
{
    drop_encoded(p);
    p->session = s;
    p->configured = (enum codec)s->settings.push_codec;
    p->shape = (struct codec_shape){&s->plan, p->layout, s->settings.push_ratio};
    mem_free(p->link);
    p->link = mem_zalloc(s->plan.shards, sizeof *p->link);
    for (uint32_t i = 0; p->link && i < s->plan.shards; i++) {
        p->link[i].codec = p->configured == CODEC_AUTO ? CODEC_RAW : p->configured;
        codec_choice_init(&p->link[i].choice,
                          codec_mask(p->configured, s->settings.codecs_allowed));
    }
    return p->link ? ERR_OK : ERR_NOMEM;
}

void push_codec_begin(struct push_codec *p, uint32_t shard, const struct conn *conn)
{
    struct push_link *l = &p->link[shard];
    uint64_t acked;
    double busy_s;
    if (p->configured != CODEC_AUTO)
        return;
    if (conn && socket_progress(conn_fd(conn), &acked, &busy_s) == ERR_OK)
        codec_choice_link(&l->choice, &l->link, acked, busy_s);
    l->codec = codec_choice_next(&l->choice);
}

const struct codec_cost *push_codec_cost(const struct push_codec *p)
{
    return &p->cost;
}

static enum err say_not_finite(const struct push_codec *p, enum codec codec, const float *x,
                               uint64_t first_elem, uint64_t elems, struct errmsg *e)
{
    uint64_t i = 0;
    while (i < elems && isfinite(x[i]))
        i++;
    const struct tensor *t = &p->layout->tensor[layout_find(p->layout, first_elem + i)];
    return err_set(e, ERR_INPUT, "the gradient of %s is not finite, which %s cannot carry", t->name,
                   codec_str(codec));
}

/* How much is lost, by decoding what was made. */
static void measure_error(struct push_codec *p, enum codec codec, uint32_t first, uint32_t chunks,
                          const float *x, const uint8_t *in, uint64_t bytes)
{
    uint64_t elems = plan_run_elems(p->shape.plan, first, chunks);
    float *back = codec_is_lossless(codec) ? NULL : mem_floats(elems);
    if (back &&
        codec_decode(p->coder, &p->shape, codec, first, chunks, in, bytes, back) == ERR_OK) {
        for (uint64_t i = 0; i < elems; i++) {
            double d = (double)back[i] - (double)x[i];
            p->cost.error += d * d;
            p->cost.norm += (double)x[i] * (double)x[i];
        }
    }
    mem_free(back);
}

static uint64_t push_key(const struct push_codec *p, const struct gradient_node *n, uint64_t name)
{
    return rng_key(p->session->settings.seed, RNG_PUSH_CODEC, name,
                   (uint64_t)n->node.level << 32 | n->node.index);
}

enum err push_codec_run(struct push_codec *p, uint32_t shard, const struct gradient_node *n,
                        uint64_t name, uint32_t first, uint32_t chunks, enum codec *codec,
                        const void **body, uint64_t *bytes, struct errmsg *e)
{
    uint64_t at = plan_chunk_elem(p->shape.plan, first);
    uint64_t elems = plan_run_elems(p->shape.plan, first, chunks);
    const float *x = n->value + at;
    *codec = CODEC_RAW;
    *body = x;
    *bytes = elems * sizeof(float);
    p->cost.raw_bytes += *bytes;
    if (p->link[shard].codec == CODEC_RAW) {
        p->cost.bytes += *bytes;
        return ERR_OK;
    }
    float **encoded = &p->encoded[n->number];
    if (!*encoded && !(*encoded = mem_floats(p->shape.plan->elems)))
        return err_set(e, ERR_NOMEM, "no memory for an encoded gradient");
    uint8_t *out = (uint8_t *)(*encoded + at);
    double began = clock_now_s();
    uint64_t made;
    enum codec made_by = p->link[shard].codec;
    enum err err = codec_encode(p->coder, &p->shape, &made_by, push_key(p, n, name), first, chunks,
                                x, out, &made);
    double took = clock_now_s() - began;
    p->cost.encode_s += took;
    if (!err || err == ERR_TOOBIG)
        codec_choice_cost(&p->link[shard].choice, p->link[shard].codec, elems, err ? *bytes : made,
                          took);
    if (err == ERR_INPUT)
        return say_not_finite(p, made_by, x, at, elems, e);
    if (err == ERR_NOMEM)
        return err_set(e, err, "no memory to encode a gradient");
    if (!err) { /* else it is smaller as it is */
        *codec = made_by;
        *body = out;
        *bytes = made;
        if (p->runs++ % ERROR_SAMPLE == 0)
            measure_error(p, made_by, first, chunks, x, out, made);
    }
    p->cost.bytes += *bytes;
    return ERR_OK;
}
