/* Inside the codecs: functions for one unit. */
#pragma once

#include "common/codec/codec.h"

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
#define X(name, word, number, kind) extern const struct codec_ops word##_codec;
CODEC_MAP(X)
#undef X

/* zstd's contexts, and a buffer for its input or output. */
struct coder {
    void *compress, *decompress;
    uint8_t *room;
    size_t room_bytes;
    float *floats; /* for the coder's user */
    uint64_t floats_elems;
};

/* codec_zstd.c */
/* Errors: ERR_TOOBIG more than `room` bytes; ERR_NOMEM. */
enum err zstd_encode(struct coder *c, uint8_t *out, uint64_t room, const uint8_t *in,
                     uint64_t bytes, uint64_t *out_bytes) MUST_CHECK;
/* Decompresses to exactly `bytes`. Errors: ERR_PROTO, ERR_NOMEM. */
enum err zstd_decode(struct coder *c, uint8_t *out, uint64_t bytes, const uint8_t *in,
                     uint64_t in_bytes) MUST_CHECK;
/* Reorder n floats into four planes of bytes, and back. */
void zstd_to_planes(uint8_t *out, const uint8_t *in, size_t n);
void zstd_from_planes(uint8_t *out, const uint8_t *in, size_t n);
