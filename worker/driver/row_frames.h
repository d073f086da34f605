/* Bodies of the messages about rows (proto/README.md): a shard's part of a request, of a push, and of an answer.
 * Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/key.h"
#include "common/rows/row_codec.h"
#include "common/rows/row_sums.h"
#include "common/rows/row_values.h"

/* Memory that holds bodies while they are sent. */
struct row_room {
    uint8_t *data;
    size_t room;
};
/* Make room for at least `bytes`; the earlier contents are lost. Errors: ERR_NOMEM. */
enum err row_room_reserve(struct row_room *r, size_t bytes) MUST_CHECK;
void row_room_close(struct row_room *r);

/* The size in bytes of a request's body for the shard that owns `range`; keys[list] receives the number of keys. */
size_t row_frames_ask_bytes(const struct row_values *v, struct bucket_range range, uint32_t *keys);
void row_frames_ask(const struct row_values *v, struct bucket_range range, uint8_t *out);

/* The encoding of a push's rows. */
struct row_way {
    /* the keys of the request that the push names, which has all of the push's keys; NULL: the push carries its keys */
    const struct row_values *asked;
    const enum row_codec *codec; /* of each table */
    uint64_t key;                /* row_codec_key of the node */
};
/* An upper bound, in bytes, for one part of a push: the gradients of the rows in `part`. */
size_t row_frames_part_most(const struct row_sums *s, const struct row_way *way,
                            struct bucket_range part);
/* Write that part. Returns its size in bytes, a multiple of 8. */
size_t row_frames_part(const struct row_sums *s, const struct row_way *way,
                       struct bucket_range part, uint8_t *out);

/* The largest part of a shard's push as the shard keeps it, with keys and plain gradients, in bytes. A frame that
 * has this part can also have the end of other parts: 256 KiB as sent, which can be much larger as kept. */
#define ROWS_PART_MAX (ROWS_BODY_MAX - (UINT64_C(8) << 20))
uint64_t row_frames_largest_part(const struct row_sums *s, struct bucket_range shard);

/* An upper bound, in bytes, for an answer about the keys of `range`. codec: of each table. */
size_t row_frames_rows_most(const struct row_values *v, const enum row_codec *codec,
                            struct bucket_range range);
/* Put an answer's rows into v->w; a row that the shard does not have gets its first value. Errors: ERR_PROTO: the
 * body's length does not match the rows that its bits mark as present, or a row cannot be decoded. */
enum err row_frames_rows(struct row_values *v, const enum row_codec *codec,
                         struct bucket_range range, uint64_t seed, const uint8_t *body,
                         size_t bytes) MUST_CHECK;
