/* The encoding of a table's rows on the wire: their values in fewer bits, each row by itself. A row with a value
 * that is not finite is sent as float32.
 * n rows with codec none: n x dim float32. Otherwise one bit per row comes first, set if the row is sent as
 * float32 (u32 words, bit i % 32 of word i / 32). Then the rows: with fp16 and bf16 two bytes per value; with int8
 * a float32 scale, then a signed byte per value, which is multiplied by the scale. Nothing is aligned. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/row_layout.h"

/* Returns whether the codec of any of these tables is not ROW_CODEC_NONE. */
bool row_codecs_encode(const enum row_codec *codec, uint32_t tables);

/* Returns the largest number of bytes that n rows can take. */
uint64_t row_codec_most(enum row_codec c, uint64_t n, uint32_t dim);

/* Returns the key for int8's stochastic rounding of one push: `name` is the push's name, (level, index) its node. A
 * value is rounded to one of the two nearest values, chosen by (key, table, mixed key, column). */
uint64_t row_codec_key(uint64_t seed, uint64_t name, uint32_t level, uint32_t index);

struct row_encoder {
    enum row_codec codec;
    uint32_t dim;
    uint64_t key, table;
    uint8_t *raw, *out; /* raw: the bits; out: after the last row */
};
/* Starts encoding n rows of table `t` to `out`, which has room for row_codec_most's bytes. */
void row_encoder_begin(struct row_encoder *e, enum row_codec c, const struct row_table_spec *t,
                       uint64_t key, uint32_t n, uint8_t *out);
/* Appends row i of n. A skipped row takes no bytes and must not be decoded. */
void row_encoder_put(struct row_encoder *e, uint32_t i, uint64_t mixed, const float *w);

struct row_decoder {
    enum row_codec codec;
    uint32_t dim;
    const uint8_t *raw, *at;
    uint64_t left; /* bytes from `at` on */
};
/* Starts decoding n rows at `in`; `left` bytes follow. Errors: ERR_PROTO the bits are cut off. */
enum err row_decoder_begin(struct row_decoder *d, enum row_codec c, uint32_t dim, uint32_t n,
                           const uint8_t *in, uint64_t left) MUST_CHECK;
/* Decodes row i, the next one, into w (dim); w NULL: skips it. Errors: ERR_PROTO the row is cut off or its scale
 * is invalid. */
enum err row_decoder_take(struct row_decoder *d, uint32_t i, float *w) MUST_CHECK;
