/* Files that exist either completely or not at all, even after a crash; and files to which lines are appended.
 * Functions that make or remove files fail with ERR_STATE when this process no longer holds its output directory
 * (dirlock.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "common/base/err.h"

enum { FILES_PATH_MAX = 4096 };
#define FILES_TEMPORARY                                                                            \
    ".tmp-" /* part of every temporary name, so that leftovers of a killed writer can be found */

/* Writes `bytes` to a temporary name in the same directory, then fsync, rename, and fsync of the directory. On
 * error an older file of that name stays as it was, with one exception: if only the directory's fsync failed, the
 * complete new file has replaced it. Without an older file, none exists after an error. Errors: ERR_IO ("PATH: No
 * space left on device"). Thread: any; blocks on the disk. */
enum err files_write(const char *path, const void *data, size_t bytes, struct errmsg *e) MUST_CHECK;

/* Same for JSON, with a line feed at the end. `flags` are json_dumps'. Do not use JSON_REAL_PRECISION: without it,
 * reals read back to the same bits. Takes the reference; NULL means that building the value ran out of memory.
 * Errors: as files_write; ERR_NOMEM. */
enum err files_write_json(const char *path, json_t *take, size_t flags,
                          struct errmsg *e) MUST_CHECK;

/* Same in pieces: begin, append any number of times, then commit or abort. */
struct files_writer {
    int fd; /* -1: not open */
    uint64_t bytes;
    char path[FILES_PATH_MAX], temporary[FILES_PATH_MAX];
};
/* On error the writer is not open: do not call files_commit; files_abort is not needed. Errors: ERR_IO. */
enum err files_begin(struct files_writer *w, const char *path, struct errmsg *e) MUST_CHECK;
/* On error the caller must abort. Errors: ERR_IO. */
enum err files_append(struct files_writer *w, const void *data, size_t bytes,
                      struct errmsg *e) MUST_CHECK;
/* Closes the writer, also on error. On error, files are as after a failed files_write. */
enum err files_commit(struct files_writer *w, struct errmsg *e) MUST_CHECK;
/* Removes the temporary file. Does nothing after a commit, a failed begin or an abort. */
void files_abort(struct files_writer *w);
/* From now on files_append and files_commit fail with ERR_IO ("PATH: interrupted"), so that their callers remove what they
 * have begun. Can be called by a signal handler. */
void files_interrupt(void);

/* Every read and write of a file that must be complete. They block, and repeat what a signal interrupts or what a call
 * leaves out. The readers return the bytes that came, fewer only at the end of the file, or -1: see errno. The writers return
 * the bytes that were written; if there are fewer, errno tells why. `at`: the place in the file, instead of its position, which
 * stays. Thread: any. */
ssize_t files_get(int fd, void *out, size_t bytes) MUST_CHECK;
ssize_t files_get_at(int fd, void *out, size_t bytes, uint64_t at) MUST_CHECK;
size_t files_put(int fd, const void *data, size_t bytes) MUST_CHECK;
size_t files_put_at(int fd, const void *data, size_t bytes, uint64_t at) MUST_CHECK;

/* Opens a regular file for reading; the caller closes *fd. Refuses a FIFO or device immediately, because opening
 * or reading one can block forever. Errors: ERR_NOTFOUND, ERR_IO. */
enum err files_open(const char *path, int *fd, struct errmsg *e) MUST_CHECK;

/* Closes *fd, if it is not -1, and sets it to -1. */
void files_close(int *fd);

/* False only if there is no such file: if that cannot be found out (EIO, EACCES), opening the file tells why. */
bool files_may_be(const char *path);

/* Removes all files of the directory, or only the temporary files and directories that a killed writer left. Ignores a missing
 * directory, and logs each file that cannot be removed. */
void files_clean(const char *folder, bool temporary_only);

/* Reads a complete regular file of at most `max` bytes. The caller owns *data (mem_free); a NUL follows the bytes.
 * Blocks on the disk. Errors: ERR_NOTFOUND, ERR_TOOBIG, ERR_IO (also if it is no regular file), ERR_NOMEM. */
enum err files_read_regular(const char *path, size_t max, uint8_t **data, size_t *bytes,
                            struct errmsg *e) MUST_CHECK;
/* Same for any kind of file, such as a pipe; the call can block until a pipe's writer closes it. */
enum err files_read(const char *path, size_t max, uint8_t **data, size_t *bytes,
                    struct errmsg *e) MUST_CHECK;
/* Reads `bytes` bytes at offset `at` of an open file; *got is less only if the file ends before. `path` names it in
 * messages. Blocks on the disk. Errors: ERR_IO; ERR_NOMEM. Thread: any. */
enum err files_read_at(int fd, const char *path, uint64_t at, void *out, size_t bytes, size_t *got,
                       struct errmsg *e) MUST_CHECK;
/* Writes all of `bytes` at offset `at` of an open file. Errors: as files_write_error. */
enum err files_write_at(int fd, const char *path, uint64_t at, const void *data, size_t bytes,
                        struct errmsg *e) MUST_CHECK;
/* The error of a reader, from errno. Errors: ERR_NOTFOUND; ERR_IO; ERR_NOMEM as for files_write_error. */
enum err files_read_error(const char *path, struct errmsg *e) MUST_CHECK;
/* The error of a writer, from errno: a missing directory is ERR_IO, too. For EACCES it also says which user and group
 * this process has, and what to do, because a volume without the pod's group looks like this; for EROFS, what to mount.
 * Errors: ERR_IO; ERR_NOMEM if the process or the host has no memory or no free descriptors: that is no fault of the
 * file. */
enum err files_write_error(const char *path, struct errmsg *e) MUST_CHECK;
/* Makes a directory with a temporary name for `path`, to be renamed to it when it is complete. Its mode is as the umask says,
 * which mkdtemp's is not. Errors: ERR_IO the path is too long, or as files_write_error. */
enum err files_begin_folder(const char *path, char temporary[FILES_PATH_MAX],
                            struct errmsg *e) MUST_CHECK;
/* As mkdir -p. Each directory that it creates survives a power cut. Errors: ERR_IO. */
enum err files_mkdirs(const char *path, struct errmsg *e) MUST_CHECK;
/* fsync of a directory: names created, renamed or removed in it before the call survive a power cut. Errors:
 * ERR_IO. */
enum err files_sync_folder(const char *folder, struct errmsg *e) MUST_CHECK;

/* Removes a directory and the files in it. A missing directory is no error. Errors: ERR_IO, also if the directory has a
 * subdirectory. */
enum err files_remove_folder(const char *folder, struct errmsg *e) MUST_CHECK;

/* Tests: make the n-th write, fsync, rename or open for writing from now (0 = the next) fail with `error`, an errno
 * value; n = -1: none. files_fail_fired returns nonzero if that happened. Thread: any. */
void files_fail_at(long n, int error);
int files_fail_fired(void);
/* The same for reads, and opens for reading. */
void files_fail_read_at(long n, int error);
int files_fail_read_fired(void);

/* A text file to which lines are appended. A power cut or a full disk can leave an incomplete last line: readers
 * must skip a line that they cannot parse. */
/* Appends lines, each with its line feed. If the file ends in an incomplete line, it first appends a line feed.
 * Creates the file if it is missing. Call line_file_sync to make the lines survive a power cut. Blocks. Errors:
 * ERR_IO; some of the bytes can then be in the file. ERR_STATE, as in files.h. */
enum err line_file_append(const char *path, const char *lines, size_t bytes,
                          struct errmsg *e) MUST_CHECK;
/* Removes an incomplete last line. Does nothing if the file is missing. Blocks. Errors: ERR_IO; ERR_STATE, as in files.h. */
enum err line_file_cut_torn(const char *path, struct errmsg *e) MUST_CHECK;
/* fsync of the file and of its directory. Blocks. Errors: ERR_IO. */
enum err line_file_sync(const char *path, struct errmsg *e) MUST_CHECK;
