#include "common/codec/codec.h"

#include <assert.h>
#include <string.h>

#include "common/codec/codec_impl.h"
#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

static const struct {
    const char *word;
    bool lossless, sized;
} table[CODECS] = {
    [CODEC_RAW] = {"none", true, true},
    [CODEC_FP16] = {"fp16", false, true},
    [CODEC_BF16] = {"bf16", false, true},
    [CODEC_INT8] = {"int8", false, true},
    [CODEC_TOP_K] = {"top_k", false, true},
    [CODEC_ZSTD] = {"zstd", true, false},
    [CODEC_INT8_ZSTD] = {"int8_zstd", false, false},
};

const char *codec_str(enum codec c)
{
    return (unsigned)c < CODECS ? table[c].word : c == CODEC_AUTO ? "auto" : "?";
}

uint32_t codec_mask(enum codec choice, uint32_t allow)
{
    uint32_t mask = choice == CODEC_AUTO        ? allow | 1u << CODEC_ZSTD
                    : (unsigned)choice < CODECS ? 1u << choice
                                                : 0;
    if (mask >> CODEC_INT8_ZSTD & 1) /* what zstd does not make smaller */
        mask |= 1u << CODEC_INT8;
    return (mask | 1u << CODEC_RAW) & ((1u << CODECS) - 1);
}

bool codec_is_lossless(enum codec c)
{
    return table[c].lossless;
}

bool codec_is_sized(enum codec c)
{
    return table[c].sized;
}

void codec_cost_add(struct codec_cost *to, const struct codec_cost *c)
{
    to->raw_bytes += c->raw_bytes;
    to->bytes += c->bytes;
    to->encode_s += c->encode_s;
    to->decode_s += c->decode_s;
    to->error += c->error;
    to->norm += c->norm;
}

/* ---- units ---- */

static bool is_statistic(const struct layout *l, uint32_t tensor)
{
    return l->tensor[tensor].role == TENSOR_STATISTIC;
}

bool codec_next_unit(const struct codec_shape *s, uint64_t end_elem, struct codec_unit *u)
{
    uint64_t at = u->first_elem + u->elems;
    if (at >= end_elem)
        return false;
    uint64_t chunk_end = (at / s->plan->chunk_elems + 1) * s->plan->chunk_elems;
    uint64_t end = chunk_end < end_elem ? chunk_end : end_elem;
    uint32_t i = layout_find(s->layout, at);
    bool statistic = is_statistic(s->layout, i);
    uint64_t stop = layout_end(s->layout, i);
    while (stop < end && is_statistic(s->layout, i + 1) == statistic)
        stop = layout_end(s->layout, ++i);
    *u = (struct codec_unit){at, (size_t)((stop < end ? stop : end) - at), statistic};
    return true;
}

size_t codec_top_k(const struct codec_shape *s, size_t elems)
{
    size_t k = (size_t)((double)s->ratio * (double)elems);
    return k < 1 ? 1 : k;
}

/* Bytes of one unit, and whether it travels raw after all. */
static size_t unit_bytes(const struct codec_shape *s, enum codec c, const struct codec_unit *u,
                         bool *raw)
{
    size_t n = u->elems, bytes = n * sizeof(float);
    if (c == CODEC_FP16 || c == CODEC_BF16)
        bytes = 2 * n;
    else if (c == CODEC_INT8 || c == CODEC_INT8_ZSTD)
        bytes = int8_bytes(n);
    else if (c == CODEC_TOP_K)
        bytes = codec_top_k(s, n) * CODEC_TOP_K_ENTRY_BYTES;
    *raw = u->statistic || bytes >= n * sizeof(float);
    return *raw ? n * sizeof(float) : bytes;
}

/* Bytes before zstd. */
static uint64_t sized_bytes(const struct codec_shape *s, enum codec c, uint64_t first_elem,
                            uint64_t end_elem)
{
    struct codec_unit u = {.first_elem = first_elem};
    uint64_t bytes = 0;
    bool raw;
    while (codec_next_unit(s, end_elem, &u))
        bytes += unit_bytes(s, c, &u, &raw);
    return bytes;
}

uint64_t codec_body_bytes(const struct codec_shape *s, enum codec c, uint32_t first,
                          uint32_t chunks)
{
    uint64_t first_elem = plan_chunk_elem(s->plan, first);
    uint64_t end_elem = plan_chunk_elem(s->plan, first + chunks);
    if (c == CODEC_RAW || c == CODEC_ZSTD)
        return (end_elem - first_elem) * sizeof(float);
    return sized_bytes(s, c, first_elem, end_elem);
}

/* ---- memory ---- */

enum err coder_new(struct coder **out)
{
    struct coder *c = mem_zalloc(1, sizeof *c);
    if (!c)
        return ERR_NOMEM;
    *out = c;
    return ERR_OK;
}

/* At least `bytes` of scratch memory; NULL without memory. Valid until the next call. */
static uint8_t *coder_room(struct coder *c, size_t bytes)
{
    if (bytes <= c->room_bytes)
        return c->room;
    uint8_t *grown = mem_resize(NULL, bytes, 1); /* nothing in it is to be kept */
    if (!grown)
        return NULL;
    mem_free(c->room);
    c->room = grown;
    c->room_bytes = bytes;
    return grown;
}

/* ---- encode ---- */

static enum err unit_encode(const struct codec_shape *s, enum codec c, uint64_t key,
                            const struct codec_unit *u, const float *x, uint8_t *out)
{
    switch (c) {
    case CODEC_FP16:
        kernels()->fp16_encode(out, x, u->elems);
        return ERR_OK;
    case CODEC_BF16:
        kernels()->bf16_encode(out, x, u->elems);
        return ERR_OK;
    case CODEC_INT8:
    case CODEC_INT8_ZSTD:
        return int8_encode(out, x, rng_u64(key, u->first_elem), u->elems);
    case CODEC_TOP_K:
        return top_k_encode(out, x, codec_top_k(s, u->elems), u->elems);
    default:
        return ERR_STATE;
    }
}

static enum err units_encode(const struct codec_shape *s, enum codec c, uint64_t key,
                             uint64_t first_elem, uint64_t end_elem, const float *x, uint8_t *out)
{
    struct codec_unit u = {.first_elem = first_elem};
    while (codec_next_unit(s, end_elem, &u)) {
        bool raw;
        size_t bytes = unit_bytes(s, c, &u, &raw);
        const float *from = x + (u.first_elem - first_elem);
        if (raw)
            memcpy(out, from, bytes);
        else {
            enum err err = unit_encode(s, c, key, &u, from, out);
            if (err)
                return err;
        }
        out += bytes;
    }
    return ERR_OK;
}

/* zstd's turn: `room` holds what it is to make smaller. */
static enum err pack(struct coder *coder, enum codec *c, const uint8_t *room, uint64_t room_bytes,
                     uint8_t *out, uint64_t *bytes)
{
    /* one byte less than what it is to save */
    enum err err = zstd_encode(coder, out, room_bytes - 1, room, room_bytes, bytes);
    if (err != ERR_TOOBIG || *c == CODEC_ZSTD)
        return err;
    *c = CODEC_INT8;
    memcpy(out, room, room_bytes);
    *bytes = room_bytes;
    return ERR_OK;
}

enum err codec_encode(struct coder *coder, const struct codec_shape *s, enum codec *c, uint64_t key,
                      uint32_t first, uint32_t chunks, const float *x, uint8_t *out,
                      uint64_t *bytes)
{
    uint64_t first_elem = plan_chunk_elem(s->plan, first);
    uint64_t end_elem = plan_chunk_elem(s->plan, first + chunks);
    uint64_t n = end_elem - first_elem, body = codec_body_bytes(s, *c, first, chunks);
    enum err err = ERR_OK;
    if (codec_is_sized(*c)) {
        if (*c == CODEC_RAW)
            memcpy(out, x, body);
        else
            err = units_encode(s, *c, key, first_elem, end_elem, x, out);
        if (!err)
            *bytes = body;
        return err;
    }
    uint8_t *room = coder_room(coder, body);
    if (!room)
        return ERR_NOMEM;
    if (*c == CODEC_ZSTD)
        zstd_to_planes(room, (const uint8_t *)x, n);
    else
        err = units_encode(s, *c, key, first_elem, end_elem, x, room);
    return err ? err : pack(coder, c, room, body, out, bytes);
}

/* ---- decode ---- */

static enum err unit_decode(const struct codec_shape *s, enum codec c, const struct codec_unit *u,
                            const uint8_t *in, float *out)
{
    switch (c) {
    case CODEC_FP16:
        kernels()->fp16_decode(out, in, u->elems);
        return ERR_OK;
    case CODEC_BF16:
        kernels()->bf16_decode(out, in, u->elems);
        return ERR_OK;
    case CODEC_INT8:
    case CODEC_INT8_ZSTD:
        return int8_decode(out, in, u->elems);
    case CODEC_TOP_K:
        return top_k_decode(out, in, codec_top_k(s, u->elems), u->elems);
    default:
        return ERR_STATE;
    }
}

/* `in` holds exactly the bytes that the shape says. */
static enum err units_decode(const struct codec_shape *s, enum codec c, uint64_t first_elem,
                             uint64_t end_elem, const uint8_t *in, float *out)
{
    struct codec_unit u = {.first_elem = first_elem};
    while (codec_next_unit(s, end_elem, &u)) {
        bool raw;
        size_t bytes = unit_bytes(s, c, &u, &raw);
        float *to = out + (u.first_elem - first_elem);
        if (raw)
            memcpy(to, in, bytes);
        else {
            enum err err = unit_decode(s, c, &u, in, to);
            if (err)
                return err;
        }
        in += bytes;
    }
    return ERR_OK;
}

enum err codec_decode(struct coder *coder, const struct codec_shape *s, enum codec c,
                      uint32_t first, uint32_t chunks, const uint8_t *in, uint64_t bytes,
                      float *out)
{
    if ((unsigned)c >= CODECS)
        return ERR_PROTO;
    uint64_t first_elem = plan_chunk_elem(s->plan, first);
    uint64_t end_elem = plan_chunk_elem(s->plan, first + chunks);
    uint64_t n = end_elem - first_elem, body = codec_body_bytes(s, c, first, chunks);
    if (codec_is_sized(c) ? bytes != body : bytes >= body)
        return ERR_PROTO;
    if (c == CODEC_RAW) {
        memcpy(out, in, bytes);
        return ERR_OK;
    }
    if (codec_is_sized(c))
        return units_decode(s, c, first_elem, end_elem, in, out);
    uint8_t *room = coder_room(coder, body);
    if (!room)
        return ERR_NOMEM;
    enum err err = zstd_decode(coder, room, body, in, bytes);
    if (err)
        return err;
    if (c == CODEC_INT8_ZSTD)
        return units_decode(s, c, first_elem, end_elem, room, out);
    zstd_from_planes((uint8_t *)out, room, n);
    return ERR_OK;
}
