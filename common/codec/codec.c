/* Encodes and decodes ranges of floats. */
#include "common/codec/codec.h"

#include <assert.h>
#include <float.h>
#include <string.h>

#include <zstd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"

/* A codec: how it encodes a unit of n elements. Without functions, a unit is its floats. */
struct codec_ops {
    size_t (*bytes)(const struct codec_shape *s, size_t n);
    /* `key` is the unit's own, for stochastic rounding. Errors: ERR_INPUT an infinity or NaN. */
    enum err (*encode)(uint8_t *out, const float *x, const struct codec_shape *s, uint64_t key,
                       size_t n);
    /* Errors: ERR_PROTO if encode cannot have made the bytes. */
    enum err (*decode)(float *out, const uint8_t *in, const struct codec_shape *s, size_t n);
    bool packed; /* zstd compresses the complete range */
    /* if packed: the codec to use if zstd saves nothing; RAW: the caller sends the range raw */
    enum codec plain;
};
/* zstd's contexts, and a buffer for its input or output. */
struct coder {
    void *compress, *decompress;
    uint8_t *room;
    size_t room_bytes;
    float *floats; /* for the coder's user */
    uint64_t floats_elems;
};

/* Floats of two bytes: IEEE binary16, and bfloat16, the upper half of a float32. */

static size_t half_bytes(const struct codec_shape *s, size_t n)
{
    (void)s;
    return 2 * n;
}

#define HALF_CODEC(name)                                                                           \
    static enum err name##_encode(uint8_t *out, const float *x, const struct codec_shape *s,       \
                                  uint64_t key, size_t n)                                          \
    {                                                                                              \
        (void)s, (void)key;                                                                        \
        kernels()->name##_encode(out, x, n);                                                       \
        return ERR_OK;                                                                             \
    }                                                                                              \
    static enum err name##_decode(float *out, const uint8_t *in, const struct codec_shape *s,      \
                                  size_t n)                                                        \
    {                                                                                              \
        (void)s;                                                                                   \
        kernels()->name##_decode(out, in, n);                                                      \
        return ERR_OK;                                                                             \
    }                                                                                              \
    static const struct codec_ops name##_codec = {                                                 \
        .bytes = half_bytes, .encode = name##_encode, .decode = name##_decode};
HALF_CODEC(fp16)
HALF_CODEC(bf16)

/* int8 with a scale per block of CODEC_INT8_BLOCK_ELEMS: s = max|x| / 127, q = floor(x / s + u) clamped to +-127,
 * u uniform in [0, 1). The expectation of q s over u is x (Alistarh et al. 2017, "QSGD", section 3.1, with the
 * block's maximum instead of its norm). */

static size_t blocks(size_t n)
{
    return (n + CODEC_INT8_BLOCK_ELEMS - 1) / CODEC_INT8_BLOCK_ELEMS;
}

static size_t int8_bytes(const struct codec_shape *s, size_t n)
{
    (void)s;
    return blocks(n) * sizeof(float) + n;
}

static size_t block_elems(size_t n, size_t block)
{
    size_t left = n - block * CODEC_INT8_BLOCK_ELEMS;
    return left < CODEC_INT8_BLOCK_ELEMS ? left : CODEC_INT8_BLOCK_ELEMS;
}

static enum err int8_encode(uint8_t *out, const float *x, const struct codec_shape *shape,
                            uint64_t key, size_t n)
{
    (void)shape;
    uint8_t *q = out + blocks(n) * sizeof(float);
    for (size_t b = 0; b < blocks(n); b++) {
        size_t at = b * CODEC_INT8_BLOCK_ELEMS, k = block_elems(n, b);
        uint32_t bits = kernels()->abs_bits(x + at, k);
        if (bits >= 0x7f800000)
            return ERR_INPUT;
        float most;
        memcpy(&most, &bits, sizeof most);
        float s = most / 127.0f;
        if (s < FLT_MIN) /* a denormal counts as 0, as everywhere here */
            s = 0.0f;
        memcpy(out + b * sizeof s, &s, sizeof s);
        if (s > 0.0f)
            kernels()->int8_encode((int8_t *)q + at, x + at, s, key, at, k);
        else
            memset(q + at, 0, k);
    }
    return ERR_OK;
}

static enum err int8_decode(float *out, const uint8_t *in, const struct codec_shape *shape,
                            size_t n)
{
    (void)shape;
    const int8_t *q = (const int8_t *)in + blocks(n) * sizeof(float);
    for (size_t b = 0; b < blocks(n); b++) {
        float s;
        memcpy(&s, in + b * sizeof s, sizeof s);
        if (!(s >= 0.0f && s <= FLT_MAX / 127.0f))
            return ERR_PROTO;
        kernels()->int8_decode(out + b * CODEC_INT8_BLOCK_ELEMS, q + b * CODEC_INT8_BLOCK_ELEMS, s,
                               block_elems(n, b));
    }
    return ERR_OK;
}

static const struct codec_ops int8_codec = {
    .bytes = int8_bytes, .encode = int8_encode, .decode = int8_decode};
static const struct codec_ops int8_zstd_codec = {.bytes = int8_bytes,
                                                 .encode = int8_encode,
                                                 .decode = int8_decode,
                                                 .packed = true,
                                                 .plain = CODEC_INT8};

/* zstd (RFC 8878). The bytes of floats are first sorted into planes: the highest bytes, sign and exponent, are
 * similar; the lowest are noise. */

enum { LEVEL = 1 };

void coder_free(struct coder *c)
{
    if (!c)
        return;
    ZSTD_freeCCtx(c->compress);
    ZSTD_freeDCtx(c->decompress);
    mem_free(c->room);
    mem_free(c->floats);
    mem_free(c);
}

/* Errors: ERR_TOOBIG more than `room` bytes; ERR_NOMEM. */
static enum err zstd_encode(struct coder *c, uint8_t *out, uint64_t room, const uint8_t *in,
                            uint64_t bytes, uint64_t *out_bytes)
{
    if (!c->compress)
        c->compress = ZSTD_createCCtx();
    if (!c->compress)
        return ERR_NOMEM;
    size_t n = ZSTD_compressCCtx(c->compress, out, room, in, bytes, LEVEL);
    if (ZSTD_isError(n)) /* the only error possible here */
        return ERR_TOOBIG;
    *out_bytes = n;
    return ERR_OK;
}

/* Decompresses to exactly `bytes`. Errors: ERR_PROTO, ERR_NOMEM. */
static enum err zstd_decode(struct coder *c, uint8_t *out, uint64_t bytes, const uint8_t *in,
                            uint64_t in_bytes)
{
    if (ZSTD_getFrameContentSize(in, in_bytes) != bytes ||
        ZSTD_findFrameCompressedSize(in, in_bytes) != in_bytes)
        return ERR_PROTO;
    if (!c->decompress)
        c->decompress = ZSTD_createDCtx();
    if (!c->decompress)
        return ERR_NOMEM;
    return ZSTD_decompressDCtx(c->decompress, out, bytes, in, in_bytes) == bytes ? ERR_OK
                                                                                 : ERR_PROTO;
}

/* Reorder n floats into four planes of bytes, and back. */
static void zstd_to_planes(uint8_t *out, const uint8_t *in, size_t n)
{
    for (size_t plane = 0; plane < 4; plane++)
        for (size_t i = 0; i < n; i++)
            out[plane * n + i] = in[4 * i + plane];
}

static void zstd_from_planes(uint8_t *out, const uint8_t *in, size_t n)
{
    for (size_t plane = 0; plane < 4; plane++)
        for (size_t i = 0; i < n; i++)
            out[4 * i + plane] = in[plane * n + i];
}

static const struct codec_ops zstd_codec = {.packed = true};

/* Sends the k elements of the largest magnitude, the first ones among equals; the receiver gets 0 for the others
 * (Aji and Heafield 2017). The caller keeps what is not sent (worker/driver/push_codec.c). */

static uint32_t magnitude(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Returns the bits of the k-th largest magnitude, found in three rounds of counting. *ties is how many elements of
 * exactly that magnitude belong to the k. */
static uint32_t threshold(const float *x, size_t n, size_t k, size_t *ties)
{
    static const struct {
        uint32_t shift, bits;
    } round[] = {{20, 11}, {10, 10}, {0, 10}};
    uint32_t prefix = 0; /* its bits above the current round's are known */
    size_t wanted = k;
    for (int r = 0; r < 3; r++) {
        uint32_t count[2048] = {0};
        uint32_t above = round[r].shift + round[r].bits;
        for (size_t i = 0; i < n; i++) {
            uint32_t m = magnitude(&x[i]);
            if (m >> above == prefix >> above)
                count[m >> round[r].shift & ((1u << round[r].bits) - 1)]++;
        }
        uint32_t bin = (1u << round[r].bits) - 1;
        while (count[bin] < wanted) {
            wanted -= count[bin];
            bin--;
        }
        assert(wanted > 0 && wanted <= count[bin]);
        prefix |= bin << round[r].shift;
    }
    *ties = wanted;
    return prefix;
}

size_t codec_top_k(const struct codec_shape *s, size_t elems)
{
    size_t k = (size_t)((double)s->ratio * (double)elems);
    return k < 1 ? 1 : k;
}

static size_t top_k_bytes(const struct codec_shape *s, size_t n)
{
    return codec_top_k(s, n) * CODEC_TOP_K_ENTRY_BYTES;
}

static enum err top_k_encode(uint8_t *out, const float *x, const struct codec_shape *s,
                             uint64_t key, size_t n)
{
    (void)key;
    size_t ties, k = codec_top_k(s, n);
    uint32_t least = threshold(x, n, k, &ties);
    const uint8_t *end = out + k * CODEC_TOP_K_ENTRY_BYTES;
    for (size_t i = 0; i < n; i++) {
        uint32_t m = magnitude(&x[i]);
        if (m >= 0x7f800000)
            return ERR_INPUT;
        if (m < least || (m == least && ties == 0))
            continue;
        ties -= m == least;
        uint32_t index = (uint32_t)i;
        memcpy(out, &index, sizeof index);
        memcpy(out + sizeof index, &x[i], sizeof x[i]);
        out += CODEC_TOP_K_ENTRY_BYTES;
    }
    assert(out == end && ties == 0);
    (void)end;
    return ERR_OK;
}

static enum err top_k_decode(float *out, const uint8_t *in, const struct codec_shape *s, size_t n)
{
    size_t k = codec_top_k(s, n);
    uint32_t index, next = 0; /* the smallest valid index */
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < k; i++, in += CODEC_TOP_K_ENTRY_BYTES) {
        memcpy(&index, in, sizeof index);
        if (index < next || index >= n)
            return ERR_PROTO;
        memcpy(&out[index], in + sizeof index, sizeof *out);
        next = index + 1;
    }
    return ERR_OK;
}

static const struct codec_ops top_k_codec = {
    .bytes = top_k_bytes, .encode = top_k_encode, .decode = top_k_decode};

/* CODEC_RAW: the floats themselves, without functions. */
static const struct codec_ops none_codec = {0};

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

/* Compresses `room` with zstd. */
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
