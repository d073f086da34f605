/* Codecs: how a run of chunks travels (proto/README.md, "Codecs"). Pure functions of the elements, of where they are
 * in the flat block, and of a key; docs/explanation/semantics.md says what compression means.
 *
 * A run is cut into units: what of a chunk lies in tensors of one role. Statistics travel raw in their place; each
 * other unit is encoded by itself, so its bytes do not depend on how chunks were gathered into runs. A body is never
 * longer than the raw one: a unit that would be travels raw, and a run that zstd does not make smaller is refused to
 * the caller, who then sends it raw. */
#ifndef GRADWIRE_COMMON_CODEC_CODEC_H
#define GRADWIRE_COMMON_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/parameters/layout.h"
#include "common/parameters/plan.h"

/* The codecs, in the order of a job file's words: its word, its number on the wire (`enum Codec`), its kind. Each is a
 * struct codec_ops, WORD_codec (codec_impl.h). */
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
    CODEC_AUTO = 64, /* as a choice: the sender measures and chooses */
};

enum codec_kind {
    CODEC_IS_EXACT,
    CODEC_IS_ROUNDED,
    CODEC_IS_DIFFERENCE, /* of parameters it sends differences to what all workers hold */
    CODEC_IS_PARTIAL,    /* of gradients alone: what it does not send comes with later ones */
};

enum {
    CODEC_INT8_BLOCK_ELEMS = 256, /* that share one scale, counted from the unit's beginning */
    CODEC_TOP_K_ENTRY_BYTES = 8,
};

/* What both sides know. The plan and the layout are borrowed. */
struct codec_shape {
    const struct plan *plan;
    const struct layout *layout;
    float ratio; /* top-k: the share of a unit's elements that travel */
};

/* What one direction cost, on one side. */
struct codec_cost {
    uint64_t raw_bytes, bytes; /* of bodies: as float32, and as they travelled */
    double encode_s, decode_s;
    double error, norm; /* sums of squares of what was lost and of what was given, over a sample */
};
void codec_cost_add(struct codec_cost *to, const struct codec_cost *c);

/* Memory of an encoder and decoder: one for each thread that uses one. */
struct coder;
enum err coder_new(struct coder **c) MUST_CHECK;
void coder_free(struct coder *c);
/* At least `elems` floats for what comes before or behind a codec; NULL without memory. Valid until the next call. */
float *coder_floats(struct coder *c, uint64_t elems);

bool codec_is_choice(uint32_t number); /* a peer's number is a codec, or CODEC_AUTO */
/* A choice for gradients that keeps what it does not send, and sends it later: error feedback. */
static inline bool codec_feeds_back(uint32_t choice)
{
    return choice == CODEC_TOP_K;
}
const char *codec_str(enum codec c); /* as in job files; "none" for CODEC_RAW */
bool codec_is_lossless(enum codec c);
uint32_t codec_kind_mask(enum codec_kind kind); /* bit i for each codec i of this kind */
/* What may travel where `choice` (a codec or CODEC_AUTO) is configured: bit i for codec i; CODEC_RAW always may. */
uint32_t codec_mask(enum codec choice, uint32_t allow);
/* Is its length a function of the shape alone? (Not with zstd.) */
bool codec_is_sized(enum codec c);

/* Bytes of the body of chunks [first, first + chunks): exactly, or the most that zstd may take. At most the raw
 * body's. */
uint64_t codec_body_bytes(const struct codec_shape *s, enum codec c, uint32_t first,
                          uint32_t chunks);

/* Encode x, the run's elements, into `out` (room for the raw body). `key`: of stochastic rounding. *c becomes INT8 where
 * INT8_ZSTD would not be smaller.
 * Errors: ERR_INPUT an infinity or NaN, which this codec cannot carry (int8, top-k); ERR_TOOBIG it does not get
 * smaller (ZSTD); ERR_NOMEM. */
enum err codec_encode(struct coder *coder, const struct codec_shape *s, enum codec *c, uint64_t key,
                      uint32_t first, uint32_t chunks, const float *x, uint8_t *out,
                      uint64_t *bytes) MUST_CHECK;

/* Decode exactly `bytes` of a peer into the run's elements.
 * Errors: ERR_PROTO the bytes are not what this codec makes of such a run; ERR_NOMEM. `out` may be written in part. */
enum err codec_decode(struct coder *coder, const struct codec_shape *s, enum codec c,
                      uint32_t first, uint32_t chunks, const uint8_t *in, uint64_t bytes,
                      float *out) MUST_CHECK;

/* The next unit of a run. */
struct codec_unit {
    uint64_t first_elem;
    size_t elems;
    bool statistic;
};
/* Walk the units of chunks [first, first + chunks): start with *u zeroed but for first_elem = the run's first element;
 * false behind the last. */
bool codec_next_unit(const struct codec_shape *s, uint64_t end_elem, struct codec_unit *u);
/* How many elements of a unit of n top-k keeps: at least one. */
size_t codec_top_k(const struct codec_shape *s, size_t elems);

#endif
