/* Encodes and decodes ranges of floats. */
#include "common/codec/codec.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/codec/codec_impl.h"

/* CODEC_RAW: the floats themselves, without functions. */
const struct codec_ops none_codec = {0};

static const struct {
    const char *word;
    enum codec_kind kind;
    const struct codec_ops *ops;
} table[CODECS] = {
#define X(name, word, number, kind) [number] = {#word, CODEC_IS_##kind, &word##_codec},
    CODEC_MAP(X)
#undef X
};

const char *codec_str(enum codec c)
{
    return (unsigned)c < CODECS ? table[c].word : c == CODEC_AUTO ? "auto" : "?";
}

uint32_t codec_kind_mask(enum codec_kind kind)
{
    uint32_t mask = 0;
    for (uint32_t c = 0; c < CODECS; c++)
        mask |= (uint32_t)(table[c].kind == kind) << c;
    return mask;
}

bool codec_is_choice(uint32_t number)
{
    return number < CODECS || number == CODEC_AUTO;
}

uint32_t codec_mask(enum codec choice, uint32_t allow)
{
    uint32_t mask = choice == CODEC_AUTO        ? allow | codec_kind_mask(CODEC_IS_EXACT)
                    : (unsigned)choice < CODECS ? 1u << choice
                                                : 0;
    uint32_t may = 1u << CODEC_RAW;
    for (uint32_t c = 0; c < CODECS; c++)
        if (mask >> c & 1)
            may |= 1u << c | 1u << table[c].ops->plain;
    return may;
}

bool codec_is_lossless(enum codec c)
{
    return table[c].kind == CODEC_IS_EXACT;
}

bool codec_is_sized(enum codec c)
{
    return !table[c].ops->packed;
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
    assert(u->elems > 0 && u->first_elem + u->elems <= end_elem);
    /* a unit lies within one chunk */
    assert(u->first_elem / s->plan->chunk_elems ==
           (u->first_elem + u->elems - 1) / s->plan->chunk_elems);
    return true;
}

/* Returns the bytes of one unit. *raw: it travels raw, because it is a statistic or the codec would not make it
 * smaller. */
static size_t unit_bytes(const struct codec_shape *s, const struct codec_ops *ops,
                         const struct codec_unit *u, bool *raw)
{
    size_t n = u->elems, bytes = ops->bytes ? ops->bytes(s, n) : n * sizeof(float);
    *raw = u->statistic || bytes >= n * sizeof(float);
    return *raw ? n * sizeof(float) : bytes;
}

static uint64_t units_bytes(const struct codec_shape *s, const struct codec_ops *ops,
                            uint64_t first_elem, uint64_t end_elem)
{
    struct codec_unit u = {.first_elem = first_elem};
    uint64_t bytes = 0;
    bool raw;
    while (codec_next_unit(s, end_elem, &u))
        bytes += unit_bytes(s, ops, &u, &raw);
    return bytes;
}

uint64_t codec_body_bytes(const struct codec_shape *s, enum codec c, uint32_t first,
                          uint32_t chunks)
{
    uint64_t first_elem = plan_chunk_elem(s->plan, first);
    uint64_t end_elem = plan_chunk_elem(s->plan, first + chunks);
    if (!table[c].ops->bytes)
        return (end_elem - first_elem) * sizeof(float);
    return units_bytes(s, table[c].ops, first_elem, end_elem);
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

/* Returns at least `bytes` of scratch memory; NULL if memory runs out. Valid until the next call. */
static uint8_t *coder_room(struct coder *c, size_t bytes)
{
    if (bytes <= c->room_bytes)
        return c->room;
    uint8_t *grown = mem_resize(NULL, bytes, 1); /* the old contents are not needed */
    if (!grown)
        return NULL;
    mem_free(c->room);
    c->room = grown;
    c->room_bytes = bytes;
    assert(c->room_bytes >= bytes);
    return grown;
}

float *coder_floats(struct coder *c, uint64_t elems)
{
    if (elems > c->floats_elems) {
        mem_free(c->floats);
        c->floats = mem_floats(elems);
        c->floats_elems = c->floats ? elems : 0;
    }
    return c->floats;
}

/* ---- encode ---- */

static enum err units_encode(const struct codec_shape *s, const struct codec_ops *ops, uint64_t key,
                             uint64_t first_elem, uint64_t end_elem, const float *x, uint8_t *out)
{
    struct codec_unit u = {.first_elem = first_elem};
    while (codec_next_unit(s, end_elem, &u)) {
        bool raw;
        size_t bytes = unit_bytes(s, ops, &u, &raw);
        const float *from = x + (u.first_elem - first_elem);
        if (raw)
            memcpy(out, from, bytes);
        else {
            enum err err = ops->encode(out, from, s, rng_u64(key, u.first_elem), u.elems);
            if (err)
                return err;
        }
        out += bytes;
    }
    assert(u.first_elem + u.elems == end_elem);
    return ERR_OK;
}

static enum err pack(struct coder *coder, enum codec *c, const uint8_t *room, uint64_t room_bytes,
                     uint8_t *out, uint64_t *bytes)
{
    enum codec plain = table[*c].ops->plain;
    /* it must save at least one byte */
    enum err err = zstd_encode(coder, out, room_bytes - 1, room, room_bytes, bytes);
    if (err != ERR_TOOBIG || plain == CODEC_RAW)
        return err;
    *c = plain;
    memcpy(out, room, room_bytes);
    *bytes = room_bytes;
    return ERR_OK;
}

enum err codec_encode(struct coder *coder, const struct codec_shape *s, enum codec *c, uint64_t key,
                      uint32_t first, uint32_t chunks, const float *x, uint8_t *out,
                      uint64_t *bytes)
{
    const struct codec_ops *ops = table[*c].ops;
    uint64_t first_elem = plan_chunk_elem(s->plan, first);
    uint64_t end_elem = plan_chunk_elem(s->plan, first + chunks);
    uint64_t n = end_elem - first_elem, body = codec_body_bytes(s, *c, first, chunks);
    uint8_t *to = ops->packed ? coder_room(coder, body) : out;
    enum err err = to ? ERR_OK : ERR_NOMEM;
    if (!err && ops->encode)
        err = units_encode(s, ops, key, first_elem, end_elem, x, to);
    else if (!err && ops->packed)
        zstd_to_planes(to, (const uint8_t *)x, n);
    else if (!err)
        memcpy(to, x, body);
    if (!err && ops->packed)
        err = pack(coder, c, to, body, out, bytes);
    else if (!err)
        *bytes = body;
    assert(err || *bytes <= n * sizeof(float));
    return err;
}

/* ---- decode ---- */

/* `in` has exactly the bytes that the shape requires. */
static enum err units_decode(const struct codec_shape *s, const struct codec_ops *ops,
                             uint64_t first_elem, uint64_t end_elem, const uint8_t *in, float *out)
{
    struct codec_unit u = {.first_elem = first_elem};
    while (codec_next_unit(s, end_elem, &u)) {
        bool raw;
        size_t bytes = unit_bytes(s, ops, &u, &raw);
        float *to = out + (u.first_elem - first_elem);
        if (raw)
            memcpy(to, in, bytes);
        else {
            enum err err = ops->decode(to, in, s, u.elems);
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
    const struct codec_ops *ops = table[c].ops;
    uint64_t first_elem = plan_chunk_elem(s->plan, first);
    uint64_t end_elem = plan_chunk_elem(s->plan, first + chunks);
    uint64_t n = end_elem - first_elem, body = codec_body_bytes(s, c, first, chunks);
    if (ops->packed ? bytes >= body : bytes != body)
        return ERR_PROTO;
    const uint8_t *from = in;
    if (ops->packed) {
        uint8_t *room = coder_room(coder, body);
        enum err err = room ? zstd_decode(coder, room, body, in, bytes) : ERR_NOMEM;
        if (err)
            return err;
        from = room;
    }
    if (ops->decode)
        return units_decode(s, ops, first_elem, end_elem, from, out);
    if (ops->packed)
        zstd_from_planes((uint8_t *)out, from, n);
    else
        memcpy(out, from, bytes);
    return ERR_OK;
}
