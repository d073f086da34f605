/* Floats of two bytes: IEEE binary16, and the high halves of float32. */
#include "common/codec/codec_impl.h"
#include "common/math/kernels.h"

static size_t half_bytes(const struct codec_shape *s, size_t n)
{
    (void)s;
    return 2 * n;
}

static enum err fp16_encode(uint8_t *out, const float *x, const struct codec_shape *s, uint64_t key,
                            size_t n)
{
    (void)s, (void)key;
    kernels()->fp16_encode(out, x, n);
    return ERR_OK;
}

static enum err fp16_decode(float *out, const uint8_t *in, const struct codec_shape *s, size_t n)
{
    (void)s;
    kernels()->fp16_decode(out, in, n);
    return ERR_OK;
}

static enum err bf16_encode(uint8_t *out, const float *x, const struct codec_shape *s, uint64_t key,
                            size_t n)
{
    (void)s, (void)key;
    kernels()->bf16_encode(out, x, n);
    return ERR_OK;
}

static enum err bf16_decode(float *out, const uint8_t *in, const struct codec_shape *s, size_t n)
{
    (void)s;
    kernels()->bf16_decode(out, in, n);
    return ERR_OK;
}

const struct codec_ops fp16_codec = {
    .bytes = half_bytes, .encode = fp16_encode, .decode = fp16_decode};
const struct codec_ops bf16_codec = {
    .bytes = half_bytes, .encode = bf16_encode, .decode = bf16_decode};
