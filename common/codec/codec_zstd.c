/* zstd (RFC 8878). The bytes of floats are first sorted into planes: the highest bytes, sign and exponent, are
 * similar; the lowest are noise. */
#include <zstd.h>

#include "common/codec/codec_impl.h"
#include "common/base/mem.h"

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

enum err zstd_encode(struct coder *c, uint8_t *out, uint64_t room, const uint8_t *in,
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

enum err zstd_decode(struct coder *c, uint8_t *out, uint64_t bytes, const uint8_t *in,
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

void zstd_to_planes(uint8_t *out, const uint8_t *in, size_t n)
{
    for (size_t plane = 0; plane < 4; plane++)
        for (size_t i = 0; i < n; i++)
            out[plane * n + i] = in[4 * i + plane];
}

void zstd_from_planes(uint8_t *out, const uint8_t *in, size_t n)
{
    for (size_t plane = 0; plane < 4; plane++)
        for (size_t i = 0; i < n; i++)
            out[4 * i + plane] = in[plane * n + i];
}

const struct codec_ops zstd_codec = {.packed = true};
