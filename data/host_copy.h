/* The training rows of all processes of a job on one host, read once: the host's copy, a file in memory (memfd) that they map.
 *
 * Happy path: the launcher makes the file, which has no name, and hands its descriptor to each process (--rows). The first
 * process that gets the lock of the file reads the rows, with the threads of all of them, and moves them into the file. The
 * others wait, and show how far it is; then they map the file. A process that restarts maps it immediately. The kernel frees the
 * file when the last process and the launcher have ended.
 *
 * Failure modes: the reader dies: the kernel frees its lock, and another process begins to read. The data or the encoding are not
 * those of the copy: the process reads by itself, or replaces a copy that nobody uses. There is no room for the copy, or for its
 * rows beyond data.memory_mb: all read by themselves, and log the reason. A process that writes the file gets an error, never
 * a signal. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "data/spill.h"

enum { HOST_COPY_HEAD_BYTES = 4096 };

/* flag: "MEMORY_FD,SPILL_FD,PROCESSES"; SPILL_FD: an empty file in data.spill, -1: none; "": no copy, each process reads by
 * itself. The descriptors stay open until the process ends. Thread: main, before data are read. */
void host_copy_begin(const char *flag);

/* ---- the process that reads ---- */

/* How many threads read, if each process has so many. */
uint32_t host_copy_threads(uint32_t own);
/* The budget of the copy's rows is that of all processes, and its file is common. Nothing, if this process reads other rows. */
void host_copy_share(struct spill *s);
/* The text of the encoding of its rows, which a process that restarts is given by a checkpoint. Errors: ignored. */
void host_copy_encoded(const char *encoding);
/* The rows are used no more. Does nothing if this process uses none. */
void host_copy_leave(void);

/* For tests: the n-th write from now fails with `error` (errno); -1: never. */
void host_copy_fail_at(long n, int error);
int host_copy_fail_fired(void);
