/* HDF5 files, read and written by the program gradwire-hdf5 (formats/hdf5/main.c), as a child of this process.
 *
 * Happy path: the child reads one open file and writes another, and exits with 0.
 * Failure modes: the child says what is wrong, crashes, or is still running at the deadline: then it is killed. All of these
 * are errors that name the file, and change nothing but the file that it writes. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"

/* An unnamed file for intermediate results, in TMPDIR or /tmp. *fd is the caller's. Errors: ERR_IO. */
enum err hdf5_scratch(int *fd, struct errmsg *e) MUST_CHECK;

/* "read": from HDF5 to safetensors (formats/tensors); "write": the other way. */
struct hdf5_call {
    const char *command;
    const char *name;     /* of the user's file, for messages */
    int from, to;         /* open files: to read, and to write */
    uint32_t deadline_ms; /* 0: a minute, and more for a large file */
};

/* Run the child to its end. The program is in the directory of environment variable GRADWIRE_BIN_DIR, or next to the running
 * program. Errors: ERR_INPUT: the program is not installed, or it refuses the file; ERR_CORRUPT: the file is damaged, or the
 * child crashed; ERR_TIMEOUT; ERR_IO; ERR_NOMEM. Thread: any; waits for the child. */
enum err hdf5_run(const struct hdf5_call *call, struct errmsg *e) MUST_CHECK;
