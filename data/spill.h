/* Memory and file space for rows: a budget of memory, and a file for the rest. Only this process has the file; its
 * name is removed as soon as it is made, so the file disappears with the process. The training and the eval part
 * share one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"

struct spill;

/* The limits are the job's data.memory_mb and data.spill. Errors: ERR_NOMEM. */
enum err spill_new(struct spill **s, const struct job *job, struct errmsg *e) MUST_CHECK;
/* The references are not atomic. NULL: nothing to do. */
struct spill *spill_ref(struct spill *s);
void spill_unref(struct spill *s);

/* Processes that have one copy of the training rows (host_copy.h): the budget is that of all of them, and what is reserved is in the
 * file `fd`, which all of them have; it stays open. */
void spill_share(struct spill *s, uint32_t processes, int fd);
/* The first `bytes` of the common file are the rows of all, and do not change any more: what is reserved from now on is in a file of
 * this process. */
void spill_shared(struct spill *s, uint64_t bytes);
/* So many bytes are reserved. */
uint64_t spill_bytes(const struct spill *s);

/* Reserve so many more bytes of memory, until they are given back. False: the budget is used up. */
bool spill_take_memory(struct spill *s, uint64_t bytes);
void spill_give_memory(struct spill *s, uint64_t bytes);
/* The bytes of memory that are not reserved. */
uint64_t spill_left(const struct spill *s);
/* Reserve room in the file, from *at on; the first call makes the file. Nothing is written yet. Errors: ERR_INPUT:
 * the directory cannot be written; ERR_NOMEM: no descriptor or memory; ERR_DISK. */
enum err spill_reserve(struct spill *s, uint64_t bytes, uint64_t *at, struct errmsg *e) MUST_CHECK;
/* The directory of the file, even if there is no file. */
const char *spill_folder(const struct spill *s);

/* Write within what is reserved. Errors: ERR_INPUT: the disk is full; *e names directory and keys; ERR_NOMEM;
 * ERR_DISK. Thread: any; blocks on the disk. */
enum err spill_write(struct spill *s, uint64_t at, const void *data, size_t bytes,
                     struct errmsg *e) MUST_CHECK;
/* Read bytes that were written. The owner of the bytes checks that they are the same. Errors: ERR_DISK. Thread: any; blocks
 * on the disk. */
enum err spill_read(const struct spill *s, uint64_t at, void *data, size_t bytes,
                    struct errmsg *e) MUST_CHECK;
/* The error of bytes that are not what was written: ERR_DISK. */
enum err spill_changed(const struct spill *s, struct errmsg *e) MUST_CHECK;
/* True if a read there would wait for the disk. Thread: any; does not wait. */
bool spill_waits(const struct spill *s, uint64_t at);
/* Tell the kernel that these bytes will be read soon. Thread: any; does not wait. */
void spill_want(const struct spill *s, uint64_t at, size_t bytes);

/* For tests: the n-th creation, write or read of a file from now fails with `error` (errno); -1: never.
 * spill_fail_fired returns whether it did. */
void spill_fail_at(long n, int error);
int spill_fail_fired(void);
