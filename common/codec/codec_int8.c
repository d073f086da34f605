/* int8 with a scale per block of CODEC_INT8_BLOCK_ELEMS: s = max|x| / 127, q = floor(x / s + u) clamped to +-127,
 * u uniform in [0, 1). The expectation of q s over u is x (Alistarh et al. 2017, "QSGD", section 3.1, with the
 * block's maximum instead of its norm). */
#include <float.h>
#include <string.h>

#include "common/codec/codec_impl.h"
#include "common/math/kernels.h"

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

const struct codec_ops int8_codec = {
    .bytes = int8_bytes, .encode = int8_encode, .decode = int8_decode};
const struct codec_ops int8_zstd_codec = {.bytes = int8_bytes,
                                          .encode = int8_encode,
                                          .decode = int8_decode,
                                          .packed = true,
                                          .plain = CODEC_INT8};
