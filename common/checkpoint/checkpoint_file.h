/* Internals of checkpoint files, for the sources of common/checkpoint, their tests and fuzz targets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/place/place.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are written as they stand");

enum {
    CHECKPOINT_MAGIC_BYTES = 8,
    CHECKPOINT_TAIL_BYTES = 16,
    CHECKPOINT_FRAME_ELEMS = 1 << 18,     /* as written: 1 MiB of floats */
    CHECKPOINT_FRAME_ELEMS_MAX = 1 << 20, /* as read */
    CHECKPOINT_HEAD_MAX = 16 << 20,
    CHECKPOINT_FILES_MAX = 1 << 16,
};
#define CHECKPOINT_ELEMS_MAX (UINT64_C(1) << 48)
/* The magic is the kind and one character, '0' + format: "GWSHARD1". */
#define CHECKPOINT_SHARD_KIND "GWSHARD"
#define CHECKPOINT_MANIFEST_KIND "GWMANIF"
#define CHECKPOINT_MANIFEST "manifest.gw"
#define CHECKPOINT_ENCODING "encoding.json"
#define CHECKPOINT_ENCODING_MAX (UINT64_C(1) << 36)

/* The name of the object that is this file of a cut: cut-<10 digits>/FILE. "": that of the cut's folder. */
void cut_object(char name[PLACE_NAME_MAX], uint64_t cut, const char *file);

/* Sets the message "PATH: corrupt: WHY" and returns ERR_CORRUPT. */
enum err checkpoint_corrupt(struct errmsg *e, const char *path, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Writes the magic of a file of this kind and format. */
void checkpoint_magic_encode(uint8_t magic[CHECKPOINT_MAGIC_BYTES], const char *kind,
                             uint32_t format);
/* Finds the format of a file of this kind that starts with `magic`. The tail must repeat the magic, so that a
 * damaged byte is not mistaken for a newer release. Errors: ERR_CORRUPT; ERR_NEWER, naming both formats. */
enum err checkpoint_magic_decode(const uint8_t magic[CHECKPOINT_MAGIC_BYTES],
                                 const uint8_t tail[CHECKPOINT_TAIL_BYTES], const char *kind,
                                 const char *path, uint32_t *format, struct errmsg *e) MUST_CHECK;

/* Writes the tail that follows a head. Returns the head's CRC-32. */
uint32_t checkpoint_tail_encode(uint8_t tail[CHECKPOINT_TAIL_BYTES], const char *kind,
                                uint32_t format, const void *head, size_t head_bytes);
/* Reads the tail. Errors: ERR_CORRUPT the head is longer than `most`. */
enum err checkpoint_tail_decode(const uint8_t tail[CHECKPOINT_TAIL_BYTES], uint64_t most,
                                uint32_t *head_bytes, uint32_t *head_crc, const char *path,
                                struct errmsg *e) MUST_CHECK;

/* Returns an allocator for protobuf-c that uses mem_zalloc. It sets *failed if memory runs out, because protobuf-c
 * does not distinguish that from an invalid message. `failed` can be NULL. */
ProtobufCAllocator checkpoint_allocator(bool *failed);

/* An open file of one shard. Thread: one at a time. */
struct shard_file {
    struct place_reader in;
    uint32_t head_crc;
    struct Checkpoint__ShardHead *head;
    uint8_t *stored;     /* buffer for the largest frame, allocated by the first read */
    float *plain;        /* (frame_elems) */
    uint8_t *rows_plain; /* buffer for the largest frame of rows */
    void *zstd;
};

/* Opens the file and checks everything but the frames. On error nothing must be closed. Errors: ERR_NOTFOUND,
 * ERR_CORRUPT, ERR_NEWER, ERR_IO, ERR_NOMEM. */
enum err shard_file_open(struct shard_file *f, struct cut c, const char *file,
                         struct errmsg *e) MUST_CHECK;
void shard_file_close(struct shard_file *f);

/* Opens a file of this checkpoint and checks it. Errors: as shard_file_open, but ERR_CORRUPT instead of
 * ERR_NOTFOUND. */
enum err shard_file_open_checked(struct shard_file *f, const struct place *place,
                                 const struct manifest *m, const struct checkpoint_file *want,
                                 struct errmsg *e) MUST_CHECK;
/* Reads elements [first, first + n) of a block, counted from the shard's first element. Block 0 is the weights,
 * block 1 + i slot i. Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM. */
enum err shard_file_read(struct shard_file *f, uint32_t block, uint64_t first, uint64_t n,
                         float *out, struct errmsg *e) MUST_CHECK;
/* Passes the rows of these buckets (checkpoint_rows.h) to the sink, in order. They must come after `at`, which
 * advances. Errors: as shard_file_read; the sink's. */
enum err shard_file_read_rows(struct shard_file *f, struct bucket_range of, struct row_place *at,
                              const struct row_sink *sink, struct errmsg *e) MUST_CHECK;
/* Checks the CRC of every frame. Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM. */
enum err shard_file_verify(struct shard_file *f, struct errmsg *e) MUST_CHECK;

/* Encode and decode the contents of manifest.gw. `path` names it in messages. The caller owns *data (mem_free) and
 * *m (manifest_close). Errors: as checkpoint_publish and checkpoint_load. */
enum err manifest_encode(const struct manifest *m, uint8_t **data, size_t *bytes,
                         struct errmsg *e) MUST_CHECK;
enum err manifest_decode(const uint8_t *data, size_t bytes, const char *path, struct manifest *m,
                         struct errmsg *e) MUST_CHECK;
