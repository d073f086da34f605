#include "common/rows/row_codec.h"

#include <float.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/math/kernels.h"

bool row_codecs_encode(const enum row_codec *codec, uint32_t tables)
{
    for (uint32_t i = 0; i < tables; i++)
        if (codec[i] != ROW_CODEC_NONE)
            return true;
    return false;
}

/* The bytes of a row whose values are finite. */
static size_t encoded_bytes(enum row_codec c, uint32_t dim)
{
    return c == ROW_CODEC_NONE   ? dim * sizeof(float)
           : c == ROW_CODEC_INT8 ? sizeof(float) + dim
                                 : dim * sizeof(uint16_t);
}

static size_t bits_bytes(enum row_codec c, uint64_t n)
{
    return c == ROW_CODEC_NONE ? 0 : (n + 31) / 32 * sizeof(uint32_t);
}

uint64_t row_codec_most(enum row_codec c, uint64_t n, uint32_t dim)
{
    size_t row = encoded_bytes(c, dim), plain = dim * sizeof(float);
    return bits_bytes(c, n) + n * (row > plain ? row : plain);
}

uint64_t row_codec_key(uint64_t seed, uint64_t name, uint32_t level, uint32_t index)
{
    return rng_key(seed, RNG_ROW_CODEC, name, (uint64_t)level << 32 | index);
}

/* ---- encoding ---- */

void row_encoder_begin(struct row_encoder *e, enum row_codec c, const struct row_table_spec *t,
                       uint64_t key, uint32_t n, uint8_t *out)
{
    *e = (struct row_encoder){.codec = c,
                              .dim = t->dim,
                              .key = key,
                              .table = c == ROW_CODEC_INT8 ? rng_name(t->name) : 0,
                              .raw = out,
                              .out = out + bits_bytes(c, n)};
    memset(out, 0, bits_bytes(c, n));
}

/* As in common/codec/codec_int8.c, with a row as the block. */
static void put_int8(uint8_t *out, const float *w, uint32_t dim, uint32_t most_bits, uint64_t key)
{
    float most, s;
    memcpy(&most, &most_bits, sizeof most);
    s = most / 127.0f;
    if (s < FLT_MIN)
        s = 0.0f;
    memcpy(out, &s, sizeof s);
    if (s > 0.0f)
        kernels()->int8_encode((int8_t *)out + sizeof s, w, s, key, 0, dim);
    else
        memset(out + sizeof s, 0, dim);
}

void row_encoder_put(struct row_encoder *e, uint32_t i, uint64_t mixed, const float *w)
{
    uint32_t most = e->codec == ROW_CODEC_NONE ? 0 : kernels()->abs_bits(w, e->dim);
    bool raw = most >= 0x7f800000;
    if (raw)
        e->raw[i / 8] |= (uint8_t)(1 << (i % 8)); /* same as little-endian words of 32 bits */
    switch (raw ? ROW_CODEC_NONE : e->codec) {
    case ROW_CODEC_NONE:
        memcpy(e->out, w, e->dim * sizeof *w);
        break;
    case ROW_CODEC_FP16:
        kernels()->fp16_encode(e->out, w, e->dim);
        break;
    case ROW_CODEC_BF16:
        kernels()->bf16_encode(e->out, w, e->dim);
        break;
    case ROW_CODEC_INT8:
        put_int8(e->out, w, e->dim, most, rng_key(e->key, RNG_ROW_CODEC, e->table, mixed));
        break;
    }
    e->out += encoded_bytes(raw ? ROW_CODEC_NONE : e->codec, e->dim);
}

/* ---- decoding ---- */

enum err row_decoder_begin(struct row_decoder *d, enum row_codec c, uint32_t dim, uint32_t n,
                           const uint8_t *in, uint64_t left)
{
    uint64_t bits = bits_bytes(c, n);
    if (bits > left)
        return ERR_PROTO;
    *d = (struct row_decoder){
        .codec = c, .dim = dim, .raw = in, .at = bits ? in + bits : in, .left = left - bits};
    return ERR_OK;
}

static enum err take_int8(const uint8_t *in, float *w, uint32_t dim)
{
    float s;
    memcpy(&s, in, sizeof s);
    if (!(s >= 0.0f && s <= FLT_MAX / 127.0f))
        return ERR_PROTO;
    if (w)
        kernels()->int8_decode(w, (const int8_t *)in + sizeof s, s, dim);
    return ERR_OK;
}

enum err row_decoder_take(struct row_decoder *d, uint32_t i, float *w)
{
    bool raw = d->codec == ROW_CODEC_NONE || (d->raw[i / 8] >> (i % 8) & 1);
    enum row_codec c = raw ? ROW_CODEC_NONE : d->codec;
    size_t bytes = encoded_bytes(c, d->dim);
    if (bytes > d->left)
        return ERR_PROTO;
    const uint8_t *in = d->at;
    d->at += bytes;
    d->left -= bytes;
    if (c == ROW_CODEC_INT8)
        return take_int8(in, w, d->dim);
    if (!w)
        return ERR_OK;
    if (c == ROW_CODEC_NONE)
        memcpy(w, in, bytes);
    else if (c == ROW_CODEC_FP16)
        kernels()->fp16_decode(w, in, d->dim);
    else
        kernels()->bf16_decode(w, in, d->dim);
    return ERR_OK;
}
