/* A checkpoint file while it is written: bytes, and zstd frames with content checksums. Internal to
 * common/checkpoint. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_FRAME_FILE_H
#define GRADWIRE_COMMON_CHECKPOINT_FRAME_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/process/files.h"

struct frame_file {
    struct files_writer file;
    void *zstd;
    uint8_t *packed; /* (packed_room): one compressed frame */
    size_t packed_room;
};

/* Starts a file; `largest` is the largest frame before compression, in bytes. The caller must call
 * frame_file_close, also after an error. Errors: ERR_IO, ERR_NOMEM. */
enum err frame_file_open(struct frame_file *f, const char *path, size_t largest,
                         struct errmsg *e) MUST_CHECK;
/* Removes the file if it was not committed. */
void frame_file_close(struct frame_file *f);
/* Appends a frame. *stored and *crc are its bytes in the file and their CRC-32. Errors: as frame_file_open. */
enum err frame_file_append(struct frame_file *f, const void *plain, size_t bytes, uint64_t *stored,
                           uint32_t *crc, struct errmsg *e) MUST_CHECK;

#endif
