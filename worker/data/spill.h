/* What has no room in memory, in a file of this process alone: how much room there is, and the file. It has no name from
 * the moment that it is made, so it is gone with the process. The training and the eval part share one. */
#ifndef GRADWIRE_WORKER_DATA_SPILL_H
#define GRADWIRE_WORKER_DATA_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"

struct spill;

/* By the job's data.memory_mb and data.spill. Errors: ERR_NOMEM. */
enum err spill_new(struct spill **s, const struct job *job, struct errmsg *e) MUST_CHECK;
/* Not by threads. NULL is nothing. */
struct spill *spill_ref(struct spill *s);
void spill_unref(struct spill *s);

/* May so many bytes more be in memory? Then they count, until they are given back. */
bool spill_take_memory(struct spill *s, uint64_t bytes);
void spill_give_memory(struct spill *s, uint64_t bytes);
/* Room in the file, whose beginning is *at; it is made with the first. Nothing is written yet.
 * Errors: ERR_INPUT the folder cannot be written; ERR_NOMEM no descriptor or memory; ERR_DISK. */
enum err spill_reserve(struct spill *s, uint64_t bytes, uint64_t *at, struct errmsg *e) MUST_CHECK;
/* Where the file is, or would be. */
const char *spill_folder(const struct spill *s);

/* Within what is reserved. Errors: ERR_INPUT no room, naming folder and keys; ERR_NOMEM; ERR_DISK. Thread: any; blocks
 * on the disk. */
enum err spill_write(struct spill *s, uint64_t at, const void *data, size_t bytes,
                     struct errmsg *e) MUST_CHECK;
/* What was written. Errors: ERR_DISK. Thread: any; blocks on the disk. */
enum err spill_read(const struct spill *s, uint64_t at, void *data, size_t bytes,
                    struct errmsg *e) MUST_CHECK;
/* Would a read there wait for the disk? Thread: any; does not wait. */
bool spill_waits(const struct spill *s, uint64_t at);
/* These bytes are read soon: the kernel may begin. Thread: any; does not wait. */
void spill_want(const struct spill *s, uint64_t at, size_t bytes);

/* Tests: make the n-th making, write or read of a file from now fail with `error` (errno); -1 = never.
 * spill_fail_fired says whether it did. */
void spill_fail_at(long n, int error);
int spill_fail_fired(void);

#endif
