/* A checkpoint file being written: bytes, and zstd frames with content checksums. For the files of common/checkpoint. */
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

/* Begin a file of frames that have at most `largest` bytes before they are packed. On error the caller closes all the
 * same. Errors: ERR_IO, ERR_NOMEM. */
enum err frame_file_open(struct frame_file *f, const char *path, size_t largest,
                         struct errmsg *e) MUST_CHECK;
/* What was not committed is removed. */
void frame_file_close(struct frame_file *f);
/* Append a frame. *stored, *crc: its bytes in the file, and their CRC-32. Errors: as frame_file_open. */
enum err frame_file_append(struct frame_file *f, const void *plain, size_t bytes, uint64_t *stored,
                           uint32_t *crc, struct errmsg *e) MUST_CHECK;

#endif
