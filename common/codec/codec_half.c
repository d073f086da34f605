/* Floats of two bytes: IEEE binary16, and bfloat16, the upper half of a float32. */
#include "common/codec/codec_impl.h"
#include "common/math/kernels.h"

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
    const struct codec_ops name##_codec = {                                                        \
        .bytes = half_bytes, .encode = name##_encode, .decode = name##_decode};
HALF_CODEC(fp16)
HALF_CODEC(bf16)
