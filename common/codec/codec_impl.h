/* The inside of the codecs: one unit at a time. */
#ifndef GRADWIRE_COMMON_CODEC_CODEC_IMPL_H
#define GRADWIRE_COMMON_CODEC_CODEC_IMPL_H

#include "common/codec/codec.h"

/* One codec: how a unit of n elements travels. Without functions a unit is its floats. */
struct codec_ops {
    size_t (*bytes)(const struct codec_shape *s, size_t n);
    /* `key` is the unit's own, of stochastic rounding. Errors: ERR_INPUT an infinity or NaN. */
    enum err (*encode)(uint8_t *out, const float *x, const struct codec_shape *s, uint64_t key,
                       size_t n);
    /* Errors: ERR_PROTO the bytes are not what encode makes. */
    enum err (*decode)(float *out, const uint8_t *in, const struct codec_shape *s, size_t n);
    bool packed;      /* zstd makes the run smaller as a whole */
    enum codec plain; /* packed: what it is where zstd does not; RAW: the caller sends it raw */
};
#define X(name, word, number, kind) extern const struct codec_ops word##_codec;
CODEC_MAP(X)
#undef X

/* zstd's contexts and the room for what goes through it. */
struct coder {
    void *compress, *decompress;
    uint8_t *room;
    size_t room_bytes;
    float *floats; /* its user's */
    uint64_t floats_elems;
};

/* codec_zstd.c */
/* Errors: ERR_TOOBIG more than `room` bytes. */
enum err zstd_encode(struct coder *c, uint8_t *out, uint64_t room, const uint8_t *in,
                     uint64_t bytes, uint64_t *out_bytes) MUST_CHECK;
/* Exactly `bytes` come out. */
enum err zstd_decode(struct coder *c, uint8_t *out, uint64_t bytes, const uint8_t *in,
                     uint64_t in_bytes) MUST_CHECK;
/* n floats as four planes of bytes, and back. */
void zstd_to_planes(uint8_t *out, const uint8_t *in, size_t n);
void zstd_from_planes(uint8_t *out, const uint8_t *in, size_t n);

#endif
