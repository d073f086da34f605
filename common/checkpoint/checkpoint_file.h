/* The inside of checkpoint files, for common/checkpoint*.c, manifest.c, their tests and fuzz
 * targets. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_CHECKPOINT_FILE_H
#define GRADWIRE_COMMON_CHECKPOINT_CHECKPOINT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/row_frame.h"
#include "common/process/files.h"

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

/* DIR/cut-<10 digits>, and a file in it (name may be NULL). ERR_IO if the path is too long. */
enum err checkpoint_path(char path[FILES_PATH_MAX], const char *dir, uint64_t cut, const char *name,
                         struct errmsg *e) MUST_CHECK;

/* "PATH: corrupt: WHY" */
enum err checkpoint_corrupt(struct errmsg *e, const char *path, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* The magic of a file of this kind and format. */
void checkpoint_magic_encode(uint8_t magic[CHECKPOINT_MAGIC_BYTES], const char *kind,
                             uint32_t format);
/* The format of a file of this kind that begins with `magic`. The tail has it once more, so that a byte that broke is
 * not taken for a newer release. Errors: ERR_CORRUPT; ERR_NEWER, naming both formats. */
enum err checkpoint_magic_decode(const uint8_t magic[CHECKPOINT_MAGIC_BYTES],
                                 const uint8_t tail[CHECKPOINT_TAIL_BYTES], const char *kind,
                                 const char *path, uint32_t *format, struct errmsg *e) MUST_CHECK;

/* The tail behind a head; the head's CRC-32 is handed back. */
uint32_t checkpoint_tail_encode(uint8_t tail[CHECKPOINT_TAIL_BYTES], const char *kind,
                                uint32_t format, const void *head, size_t head_bytes);
/* Errors: ERR_CORRUPT for a head longer than `room`. */
enum err checkpoint_tail_decode(const uint8_t tail[CHECKPOINT_TAIL_BYTES], uint64_t room,
                                uint32_t *head_bytes, uint32_t *head_crc, const char *path,
                                struct errmsg *e) MUST_CHECK;

/* protobuf-c on mem_zalloc; *failed tells "no memory" from "not a message", which protobuf-c does
 * not. May be NULL. */
ProtobufCAllocator checkpoint_allocator(bool *failed);

/* One shard's file, open for reading. Thread: one at a time. */
struct shard_file {
    int fd;
    char path[FILES_PATH_MAX]; /* for messages */
    uint64_t bytes;
    uint32_t head_crc;
    struct Checkpoint__ShardHead *head;
    uint8_t *stored;     /* room for the largest frame, made by the first read */
    float *plain;        /* (frame_elems) */
    uint8_t *rows_plain; /* room for the largest frame of rows */
    void *zstd;
};

/* Open and check all but the frames. On error there is nothing to close.
 * Errors: ERR_NOTFOUND, ERR_CORRUPT, ERR_IO, ERR_NOMEM. */
enum err shard_file_open(struct shard_file *f, const char *path, struct errmsg *e) MUST_CHECK;
/* The same on a descriptor, which moves, even on error; `path` is its name in messages. */
enum err shard_file_adopt(struct shard_file *f, int take_fd, const char *path,
                          struct errmsg *e) MUST_CHECK;
void shard_file_close(struct shard_file *f);

/* Is it the file that the manifest means? ERR_CORRUPT naming what differs. */
enum err shard_file_check(const struct shard_file *f, const struct manifest *m,
                          const struct checkpoint_file *want, struct errmsg *e) MUST_CHECK;
/* Open a file of this checkpoint and check that it is. Errors: as shard_file_open, but ERR_CORRUPT for ERR_NOTFOUND. */
enum err shard_file_open_checked(struct shard_file *f, const char *dir, const struct manifest *m,
                                 const struct checkpoint_file *want, struct errmsg *e) MUST_CHECK;
/* Elements [first, first + n) of a block, counted from the shard's first; block 0 is the weights, 1
 * + i slot i. */
enum err shard_file_read(struct shard_file *f, uint32_t block, uint64_t first, uint64_t n,
                         float *out, struct errmsg *e) MUST_CHECK;
/* The rows in these buckets (checkpoint_rows.h), in order, behind `at`, which goes on. */
enum err shard_file_read_rows(struct shard_file *f, struct bucket_range of, struct row_place *at,
                              const struct row_sink *sink, struct errmsg *e) MUST_CHECK;
/* Are the head's numbers about rows possible? *bytes: of their frames in the file. */
enum err shard_file_check_rows(const struct shard_file *f, uint64_t *bytes,
                               struct errmsg *e) MUST_CHECK;
uint64_t shard_file_rows(const struct shard_file *f);
/* Memory for frames, on first use. */
enum err shard_file_make_room(struct shard_file *f, struct errmsg *e) MUST_CHECK;
/* Frame `i` of all, at offset `at` of the file, into f->stored; its CRC is checked. */
enum err shard_file_fetch(struct shard_file *f, size_t i, uint64_t at, size_t bytes, uint32_t crc,
                          struct errmsg *e) MUST_CHECK;
/* The frame in f->stored, which unpacks to exactly `bytes` bytes. */
enum err shard_file_unpack(struct shard_file *f, size_t i, size_t stored, void *out, size_t bytes,
                           struct errmsg *e) MUST_CHECK;
/* Check the CRC of every frame. */
enum err shard_file_verify(struct shard_file *f, struct errmsg *e) MUST_CHECK;

/* What manifest.gw holds, from and to memory; `path` is its name in messages. *data is the caller's
 * (mem_free). */
enum err manifest_encode(const struct manifest *m, uint8_t **data, size_t *bytes,
                         struct errmsg *e) MUST_CHECK;
enum err manifest_decode(const uint8_t *data, size_t bytes, const char *path, struct manifest *m,
                         struct errmsg *e) MUST_CHECK;

#endif
