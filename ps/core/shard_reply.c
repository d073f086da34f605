/* The encoding of parameters in replies.
 *
 * Sync mode with a lossy codec: each range is sent as the encoded difference to the values that the workers hold, the
 * same bytes to all. The shard tracks these values in `view`, two blocks that alternate like the weights:
 *     view(k+1) = view(k) + decoded(encoded(w(k+1) - view(k)))
 * So the error of the codec becomes part of the next difference, and errors never add up. A worker that did not get all
 * of view(k) over its present connection gets view(k+1) itself, raw. So all workers hold the same bits, whenever they
 * joined. A checkpoint contains the view, so it has the same bits, too. Sync mode with a lossless codec: the values
 * themselves are encoded, each range once. Async, and ssp's reads at a clock: the values are encoded for each answer,
 * so only codecs without state are allowed. */
#include <assert.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "ps/core/shard_state.h"

enum { ERROR_SAMPLE = 64 }; /* the error is measured for one range of this many */

static bool differences(const struct shard *s)
{
    return s->reply.view[0] != NULL;
}

/* The codecs allowed in replies: in async mode none that encodes differences. */
static uint32_t reply_mask(const struct shard *s)
{
    uint32_t mask = codec_mask(s->reply.codec, s->codec.allowed);
    if (!s->mode->steps)
        mask &= ~codec_kind_mask(CODEC_IS_DIFFERENCE);
    return mask;
}

enum err shard_reply_open(struct shard *s)
{
    uint64_t elems = s->me.elems;
    if (s->reply.codec == CODEC_RAW)
        return ERR_OK;
    codec_choice_init(&s->reply.choice, reply_mask(s));
    /* Workers begin with the exact weights. */
    s->reply.view_same[0] = s->reply.view_same[1] = true;
    s->reply.encoded = mem_floats(elems);
    if (s->mode->steps && reply_mask(s) & ~codec_kind_mask(CODEC_IS_EXACT)) {
        s->reply.view[0] = mem_floats(elems);
        s->reply.view[1] = mem_floats(elems);
        if (!s->reply.view[0] || !s->reply.view[1])
            return ERR_NOMEM;
    }
    return s->reply.encoded ? ERR_OK : ERR_NOMEM;
}

void shard_reply_close(struct shard *s)
{
    mem_free(s->reply.view[0]);
    mem_free(s->reply.view[1]);
    mem_free(s->reply.encoded);
    s->reply.view[0] = s->reply.view[1] = s->reply.encoded = NULL;
}

const float *shard_seen(const struct shard *s, int which)
{
    return differences(s) && !s->reply.view_same[which] ? s->reply.view[which] : s->block[which];
}

/* The codec of the next step's replies; in async mode, of the next reply. */
static enum codec choose(struct shard *s)
{
    struct link_progress progress;
    if (s->reply.codec != CODEC_AUTO)
        return s->reply.codec;
    for (struct shard_peer *p = s->peers; p; p = p->next)
        if (s->io->progress(s->ctx, p, &progress) == ERR_OK)
            codec_choice_link(&s->reply.choice, &p->link, &progress);
    return codec_choice_next(&s->reply.choice);
}

enum codec shard_reply_codec(const struct shard *s)
{
    return s->reply.codec == CODEC_AUTO ? s->reply.choice.now : s->reply.codec;
}

void shard_reply_sent(struct shard *s, struct shard_peer *to)
{
    struct link_progress progress;
    if (s->reply.codec == CODEC_AUTO && s->io->progress(s->ctx, to, &progress) == ERR_OK)
        codec_choice_sent(&s->reply.choice, &to->link, &progress);
}

/* ---- a range of the step that is being made ---- */

static uint64_t elems_of(const struct shard *s, const struct shard_run *run)
{
    return plan_run_elems(&s->plan, s->me.first_chunk + run->first, run->count);
}

/* Encode x, the range's elements, into `encoded` at the elements' offset, and note size and cost. */
static enum err encode_as(struct shard *s, enum codec codec, uint64_t key, const float *x,
                          struct shard_run *run)
{
    uint64_t elems = elems_of(s, run);
    float *out = s->reply.encoded + shard_chunk_at(s, run->first);
    s->io->before_write(s->ctx, out, elems);
    run->codec = codec;
    run->bytes = elems * sizeof(float);
    double began = s->io->now_s(s->ctx);
    enum err err =
        codec_encode(s->codec.coder, &s->codec.shape, &run->codec, key,
                     s->me.first_chunk + run->first, run->count, x, (uint8_t *)out, &run->bytes);
    double took = s->io->now_s(s->ctx) - began;
    s->reply.cost.encode_s += took;
    if (!err || err == ERR_TOOBIG)
        codec_choice_cost(&s->reply.choice, codec, elems, run->bytes, took);
    return err;
}

/* The same, for sending. On error the range is sent raw. */
static enum err encode(struct shard *s, enum codec codec, uint64_t key, const float *x,
                       struct shard_run *run)
{
    uint64_t raw = elems_of(s, run) * sizeof(float);
    enum err err = codec == CODEC_RAW ? ERR_TOOBIG : encode_as(s, codec, key, x, run);
    if (err)
        run->codec = CODEC_RAW;
    s->reply.cost.raw_bytes += raw;
    s->reply.cost.bytes += err ? raw : run->bytes;
    return err;
}

/* Compute view(k+1) of the range, and encode its difference to view(k). */
static void encode_difference(struct shard *s, struct shard_run *run)
{
    uint64_t at = shard_chunk_at(s, run->first), elems = elems_of(s, run);
    const float *w = s->block[!s->now] + at, *held = shard_seen(s, s->now) + at;
    float *next = s->reply.view[!s->now] + at;
    uint64_t key = rng_key(s->settings.seed, RNG_REPLY_CODEC, s->step + 1, 0);
    s->io->before_write(s->ctx, next, elems);
    for (uint64_t i = 0; i < elems; i++)
        next[i] = w[i] - held[i];
    run->difference =
        encode(s, s->reply.step_codec, key, next, run) == ERR_OK &&
        codec_decode(s->codec.coder, &s->codec.shape, run->codec, s->me.first_chunk + run->first,
                     run->count, (const uint8_t *)(s->reply.encoded + at), run->bytes,
                     next) == ERR_OK;
    if (run->difference) {
        kernels()->add(next, held, next, elems);
        bool sampled = s->reply.runs++ % ERROR_SAMPLE == 0;
        for (uint64_t i = 0; sampled && i < elems; i++) {
            double lost = (double)w[i] - (double)next[i], given = (double)w[i] - (double)held[i];
            s->reply.cost.error += lost * lost;
            s->reply.cost.norm += given * given;
        }
    } else { /* raw was chosen, a value is NaN, or no memory: send the values themselves */
        run->codec = CODEC_RAW;
        memcpy(next, w, elems * sizeof *next);
    }
}

/* Try the other codecs on the beginning of the range. w: the new values; held: the values that workers hold. */
static void try_codecs(struct shard *s, struct shard_run run, const float *w, const float *held)
{
    enum codec codec =
        s->reply.codec == CODEC_AUTO ? codec_choice_trial(&s->reply.choice) : CODEC_RAW;
    if (codec == CODEC_RAW)
        return;
    run.count = codec_choice_sample(&s->plan, run.count);
    if (differences(s)) { /* into memory that is overwritten next, or not used */
        uint64_t elems = elems_of(s, &run);
        float *x = s->reply.view[!s->now] + shard_chunk_at(s, run.first);
        s->io->before_write(s->ctx, x, elems);
        for (uint64_t i = 0; i < elems; i++)
            x[i] = w[i] - held[i];
        w = x;
    }
    while (codec != CODEC_RAW) {
        enum err err = encode_as(s, codec, 0, w, &run);
        codec = err && err != ERR_TOOBIG ? CODEC_RAW : codec_choice_trial(&s->reply.choice);
    }
}

void shard_reply_make(struct shard *s, struct shard_run *run, bool first)
{
    uint64_t at = shard_chunk_at(s, run->first);
    assert(s->mode->steps && run->first + run->count <= s->me.chunks);
    if (first) {
        s->reply.step_codec = choose(s);
        s->reply.view_same[!s->now] = s->reply.step_codec == CODEC_RAW;
        if (s->reply.encoded)
            try_codecs(s, *run, s->block[!s->now] + at, shard_seen(s, s->now) + at);
    }
    if (differences(s) && s->reply.step_codec != CODEC_RAW)
        encode_difference(s, run);
    else if (s->reply.encoded) /* a range that does not get smaller is sent raw; run->codec tells */
        (void)!encode(s, s->reply.step_codec, 0, s->block[!s->now] + at, run);
}

void shard_reply_values(struct shard *s, const Gradwire__Reply *head, const float *block,
                        struct shard_run *run)
{
    if (!s->reply.encoded || s->mode->steps || (head->pulled && !head->bounded))
        return;
    const float *values = block + shard_chunk_at(s, run->first);
    enum codec codec = choose(s);
    try_codecs(s, *run, values, NULL);
    (void)!encode(s, codec, 0, values, run);
}
