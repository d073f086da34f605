/* Bodies of the messages about rows (proto/README.md): a shard's part of an ask, of a push, and of an answer. Pure. */
#ifndef GRADWIRE_WORKER_DRIVER_ROW_FRAMES_H
#define GRADWIRE_WORKER_DRIVER_ROW_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/rows/key.h"
#include "common/rows/row_codec.h"
#include "common/rows/row_sums.h"
#include "common/rows/row_values.h"

/* Memory that bodies stand in while they are sent. */
struct row_room {
    uint8_t *data;
    size_t room;
};
/* At least `bytes`; what stood there is lost. Errors: ERR_NOMEM. */
enum err row_room_reserve(struct row_room *r, size_t bytes) MUST_CHECK;
void row_room_close(struct row_room *r);

/* The keys of a shard that owns `range`: keys[list] receives how many; returns the bytes of the body. */
size_t row_frames_ask_bytes(const struct row_values *v, struct bucket_range range, uint32_t *keys);
void row_frames_ask(const struct row_values *v, struct bucket_range range, uint8_t *out);

/* How the rows of a push travel. */
struct row_way {
    const struct row_values *
        asked; /* the keys of the ask that it names, which has all of its; NULL: it carries its keys */
    const enum row_codec *codec; /* of each table */
    uint64_t key;                /* row_codec_key of the node */
};
/* One part of a push, the gradients of the rows in `part`: at most so many bytes. */
size_t row_frames_part_most(const struct row_sums *s, const struct row_way *way,
                            struct bucket_range part);
/* Returns the bytes, a multiple of 8. */
size_t row_frames_part(const struct row_sums *s, const struct row_way *way,
                       struct bucket_range part, uint8_t *out);

/* The largest part of a shard's push as the shard keeps it, with keys and plain gradients. A frame that has it has the end of
 * others beside it, 256 KiB as they travel, which may be much larger where they are kept. */
#define ROWS_PART_MAX (ROWS_BODY_MAX - (UINT64_C(8) << 20))
uint64_t row_frames_largest_part(const struct row_sums *s, struct bucket_range shard);

/* The most that an answer about the keys of `range` may take. codec: of each table. */
size_t row_frames_rows_most(const struct row_values *v, const enum row_codec *codec,
                            struct bucket_range range);
/* Put an answer's rows into v->w; a row that is not there gets its first value.
 * Errors: ERR_PROTO: the body is not as long as its bits say. */
enum err row_frames_rows(struct row_values *v, const enum row_codec *codec,
                         struct bucket_range range, uint64_t seed, const uint8_t *body,
                         size_t bytes) MUST_CHECK;

#endif
