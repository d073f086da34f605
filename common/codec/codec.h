/* Codecs: how a range of chunks is encoded for the wire (proto/README.md, "Codecs"). They are pure functions of the
 * elements, of their position in the flat block, and of a key. docs/explanation/semantics.md says what compression
 * means for training.
 * A range is split into units: the part of one chunk that lies in tensors of one role. Statistics travel raw. Each
 * other unit is encoded by itself, so its bytes do not depend on how chunks were grouped into ranges.
 * A body is never longer than the raw one. A unit that would be longer travels raw. If zstd does not make a range
 * smaller, the caller gets an error and sends the range raw. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/layout.h"
#include "common/parameters/plan.h"

/* The codecs, in the order of a job file's words: name, word, number on the wire (`enum Codec`), kind. Each is a
 * struct codec_ops named WORD_codec (codec_impl.h). */
#define CODEC_MAP(X)                                                                               \
    X(RAW, none, 0, EXACT)                                                                         \
    X(FP16, fp16, 1, ROUNDED)                                                                      \
    X(BF16, bf16, 2, ROUNDED)                                                                      \
    X(INT8, int8, 3, DIFFERENCE)                                                                   \
    X(INT8_ZSTD, int8_zstd, 6, DIFFERENCE)                                                         \
    X(ZSTD, zstd, 5, EXACT)                                                                        \
    X(TOP_K, top_k, 4, PARTIAL)

enum codec {
#define X(name, word, number, kind) CODEC_##name = number,
    CODEC_MAP(X)
#undef X
#define X(name, word, number, kind) +1
        CODECS = 0 CODEC_MAP(X),
#undef X
    CODEC_AUTO = 64, /* only as a choice: the sender measures and chooses a codec */
};

enum codec_kind {
    CODEC_IS_EXACT,
    CODEC_IS_ROUNDED,
    CODEC_IS_DIFFERENCE, /* replies send the difference to the parameters that all workers hold */
    /* for gradients only: elements not sent now are added to later gradients */
    CODEC_IS_PARTIAL,
};

enum {
    CODEC_INT8_BLOCK_ELEMS = 256, /* elements that share a scale, counted from the unit's start */
    CODEC_TOP_K_ENTRY_BYTES = 8,
};

/* Values that both sides know. The caller keeps ownership of plan and layout. */
struct codec_shape {
    const struct plan *plan;
    const struct layout *layout;
    float ratio; /* top_k: the fraction of a unit's elements that is sent */
};

/* The costs of one direction, on one side. */
struct codec_cost {
    uint64_t raw_bytes, bytes; /* of bodies: as float32, and as sent */
    double encode_s, decode_s;
    /* sums of squares over a sample: of the encoding error, and of the values encoded */
    double error, norm;
};
void codec_cost_add(struct codec_cost *to, const struct codec_cost *c);

/* Working memory for encoding and decoding; each thread needs its own. Free with coder_free. Errors: ERR_NOMEM. */
struct coder;
enum err coder_new(struct coder **c) MUST_CHECK;
void coder_free(struct coder *c);
/* Returns at least `elems` floats for a caller's work before or after a codec; NULL if memory runs out. Valid
 * until the next call. */
float *coder_floats(struct coder *c, uint64_t elems);

bool codec_is_choice(uint32_t number); /* whether a peer's number is a codec or CODEC_AUTO */
/* Returns whether the sender keeps what this codec does not send, and adds it to later gradients: error feedback. */
static inline bool codec_feeds_back(uint32_t choice)
{
    return choice == CODEC_TOP_K;
}
const char *codec_str(enum codec c); /* the job file's word; "none" for CODEC_RAW */
bool codec_is_lossless(enum codec c);
uint32_t codec_kind_mask(enum codec_kind kind); /* bit i for each codec i of this kind */
/* Returns the codecs that can occur if `choice` (a codec or CODEC_AUTO) is configured: bit i for codec i. `allow`
 * adds codecs to CODEC_AUTO. CODEC_RAW is always included. */
uint32_t codec_mask(enum codec choice, uint32_t allow);
/* Returns whether the encoded length depends only on the shape. False for zstd. */
bool codec_is_sized(enum codec c);

/* Returns the bytes of the body of chunks [first, first + chunks): the exact number, or with zstd the input's, an
 * upper bound. At most the raw body's. */
uint64_t codec_body_bytes(const struct codec_shape *s, enum codec c, uint32_t first,
                          uint32_t chunks);

/* Encodes x, the range's elements, into `out`, which needs room for the raw body. `key` drives stochastic
 * rounding. *c becomes INT8 if INT8_ZSTD would not be smaller. Errors: ERR_INPUT an infinity or NaN, which int8
 * and top_k cannot represent; ERR_TOOBIG the result would not be smaller (ZSTD); ERR_NOMEM. */
enum err codec_encode(struct coder *coder, const struct codec_shape *s, enum codec *c, uint64_t key,
                      uint32_t first, uint32_t chunks, const float *x, uint8_t *out,
                      uint64_t *bytes) MUST_CHECK;

/* Decodes exactly `bytes` from a peer into the range's elements. `out` can be partly written on error. Errors:
 * ERR_PROTO the bytes cannot be this codec's encoding of such a range; ERR_NOMEM. */
enum err codec_decode(struct coder *coder, const struct codec_shape *s, enum codec c,
                      uint32_t first, uint32_t chunks, const uint8_t *in, uint64_t bytes,
                      float *out) MUST_CHECK;

/* A unit of a range. */
struct codec_unit {
    uint64_t first_elem;
    size_t elems;
    bool statistic;
};
/* Finds the next unit of a range that ends at end_elem. Start with *u zeroed except first_elem = the range's first
 * element. Returns false after the last unit. */
bool codec_next_unit(const struct codec_shape *s, uint64_t end_elem, struct codec_unit *u);
/* Returns how many of a unit's elements top_k keeps: at least 1. */
size_t codec_top_k(const struct codec_shape *s, size_t elems);

/* Metrics of compression. */
struct metrics;

/* Writes the metrics gradwire_compression_*: the costs of pushes and of replies. */
void codec_metrics(struct metrics *m, const struct codec_cost *push,
                   const struct codec_cost *reply);

/* Write the metric gradwire_compression_codec_info, and one of its samples: the codec with which this process
 * encodes for a shard, or as a shard. */
void codec_metrics_family(struct metrics *m);

void codec_metrics_put(struct metrics *m, const char *direction, uint32_t shard, enum codec codec);
