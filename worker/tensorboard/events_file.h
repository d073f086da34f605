/* One of TensorBoard's event files: a sequence of records, each an Event (proto/formats/tensorboard.proto) framed as
 * a TFRecord (tensorflow/core/lib/io/record_writer.h): u64 length, u32 masked CRC-32C of the length, the bytes, u32
 * masked CRC-32C of the bytes; little-endian. The first record has file_version. */
#ifndef GRADWIRE_WORKER_TENSORBOARD_EVENTS_FILE_H
#define GRADWIRE_WORKER_TENSORBOARD_EVENTS_FILE_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/process/files.h"
#include "proto/formats/tensorboard.pb-c.h"

struct events_file {
    int fd; /* -1: none */
    uint64_t bytes;
    char path[FILES_PATH_MAX];
};

/* Create a file in `folder`, which is made if needed: events.out.tfevents.<seconds>.<host>.<pid>. TensorBoard reads
 * the files of a directory in the order of their names. Errors: ERR_IO; *f then has no file. */
enum err events_file_open(struct events_file *f, const char *folder, double wall_time,
                          struct errmsg *e) MUST_CHECK;
void events_file_close(struct events_file *f);
/* Remove the other event files of its directory that have this tag near their beginning: f repeats their contents,
 * and TensorBoard would show the first. Files that cannot be removed stay. */
void events_file_replace(const struct events_file *f, const char *tag);

/* Append one record. On error no part of it stays, so later records can be read. Errors: ERR_IO, ERR_NOMEM. */
enum err events_file_append(struct events_file *f, const Tensorboard__Event *event,
                            struct errmsg *e) MUST_CHECK;

/* TFRecord's mask: a CRC computed over bytes that contain CRCs themselves is of little use. */
uint32_t events_file_masked_crc(const void *data, size_t bytes);

#endif
