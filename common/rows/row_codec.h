/* How rows of one table travel: their values in fewer bits, each row by itself. A row that has a value which is not finite
 * travels as it is.
 *
 * n rows: none: n x dim float32. Otherwise a bit for each row, set if it travels as it is (u32 words, bit i % 32 of word
 * i / 32); then the rows: of fp16 and bf16 two bytes a value; of int8 a float32 scale, then a signed byte a value, which
 * times the scale is the value. Nothing is aligned. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_CODEC_H
#define GRADWIRE_COMMON_ROWS_ROW_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/row_layout.h"

bool row_codecs_encode(const enum row_codec *codec, uint32_t tables); /* one of them is not none */

/* The most bytes that n rows take. */
uint64_t row_codec_most(enum row_codec c, uint64_t n, uint32_t dim);

/* int8 rounds to one of the two next values by u, a function of (key, table, mixed key, column). */
uint64_t row_codec_key(uint64_t seed, uint64_t name, uint32_t level, uint32_t index);

struct row_encoder {
    enum row_codec codec;
    uint32_t dim;
    uint64_t key, table;
    uint8_t *raw, *out; /* the bits; behind the last row */
};
void row_encoder_begin(struct row_encoder *e, enum row_codec c, const struct row_table_spec *t,
                       uint64_t key, uint32_t n, uint8_t *out);
/* Row i of n; rows that are left out take no bytes, and are not decoded. */
void row_encoder_put(struct row_encoder *e, uint32_t i, uint64_t mixed, const float *w);

struct row_decoder {
    enum row_codec codec;
    uint32_t dim;
    const uint8_t *raw, *at;
    uint64_t left; /* bytes, from `at` on */
};
/* n rows begin at `in`, `left` bytes before the end of what came. Errors: ERR_PROTO: the bits are cut off. */
enum err row_decoder_begin(struct row_decoder *d, enum row_codec c, uint32_t dim, uint32_t n,
                           const uint8_t *in, uint64_t left) MUST_CHECK;
/* Row i, the next one: w (dim); NULL: pass over it. Errors: ERR_PROTO: it is cut off, or its scale is none. */
enum err row_decoder_take(struct row_decoder *d, uint32_t i, float *w) MUST_CHECK;

#endif
