/* The inside of the codecs: one unit at a time. */
#ifndef GRADWIRE_COMMON_CODEC_CODEC_IMPL_H
#define GRADWIRE_COMMON_CODEC_CODEC_IMPL_H

#include "common/codec/codec.h"

/* zstd's contexts and the room for what goes through it. */
struct coder {
    void *compress, *decompress;
    uint8_t *room;
    size_t room_bytes;
};

/* codec_int8.c: (ceil(n / 256)) float32 scales, then n bytes. */
size_t int8_bytes(size_t n);
enum err int8_encode(uint8_t *out, const float *x, uint64_t key, size_t n) MUST_CHECK;
enum err int8_decode(float *out, const uint8_t *in, size_t n) MUST_CHECK;

/* codec_top_k.c: k entries of (u32 element of the unit, float32 value), elements ascending. */
enum err top_k_encode(uint8_t *out, const float *x, size_t k, size_t n) MUST_CHECK;
enum err top_k_decode(float *out, const uint8_t *in, size_t k, size_t n) MUST_CHECK;

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
