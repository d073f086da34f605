/* One of TensorBoard's event files: records behind each other, each an Event (proto/formats/tensorboard.proto) framed as
 * a TFRecord (tensorflow/core/lib/io/record_writer.h): u64 length, u32 masked CRC-32C of the length, the bytes, u32
 * masked CRC-32C of the bytes; little-endian. The first record says file_version. */
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

/* A new file in `folder`, which is made: events.out.tfevents.<seconds>.<host>.<pid>. TensorBoard reads the files of a
 * folder by their names. Errors: ERR_IO; *f holds nothing then. */
enum err events_file_open(struct events_file *f, const char *folder, double wall_time,
                          struct errmsg *e) MUST_CHECK;
void events_file_close(struct events_file *f);
/* Remove the other event files of its folder that have this tag near their beginning: f says anew what they say, and
 * TensorBoard would keep the first. What cannot be removed stays. */
void events_file_replace(const struct events_file *f, const char *tag);

/* Append one record. On error nothing of it stays: what comes later can be read. Errors: ERR_IO, ERR_NOMEM. */
enum err events_file_append(struct events_file *f, const Tensorboard__Event *event,
                            struct errmsg *e) MUST_CHECK;

/* TFRecord's mask: a CRC that is computed over bytes which hold CRCs themselves is of little use. */
uint32_t events_file_masked_crc(const void *data, size_t bytes);

#endif
