/* Files written so that they are there whole, or not at all. */
#ifndef GRADWIRE_COMMON_PROCESS_FILES_H
#define GRADWIRE_COMMON_PROCESS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/err.h"

enum { FILES_PATH_MAX = 4096 };
#define FILES_TEMPORARY                                                                            \
    ".tmp-" /* in every temporary name: what a killed writer leaves is known by it */

/* Write `bytes` to a temporary name beside `path`, fsync, rename, fsync of the folder. Nothing new
 * is left on error: an older file of that name stays (where only the folder's fsync failed, the
 * whole new one in its place). Errors: ERR_IO ("PATH: No space left on device"). Thread: any;
 * blocks on the disk. */
enum err files_write(const char *path, const void *data, size_t bytes, struct errmsg *e) MUST_CHECK;

/* The same for JSON with an end of line; flags: json_dumps'. Without JSON_REAL_PRECISION reals read back to the same bits.
 * take: NULL says that there was no memory for it. Errors: as files_write; ERR_NOMEM. */
enum err files_write_json(const char *path, json_t *take, size_t flags,
                          struct errmsg *e) MUST_CHECK;

/* The same in pieces: begin, append..., then commit or abort. */
struct files_writer {
    int fd; /* -1: none */
    uint64_t bytes;
    char path[FILES_PATH_MAX], temporary[FILES_PATH_MAX];
};
/* On error there is nothing to commit or abort. */
enum err files_begin(struct files_writer *w, const char *path, struct errmsg *e) MUST_CHECK;
/* On error the caller aborts. */
enum err files_append(struct files_writer *w, const void *data, size_t bytes,
                      struct errmsg *e) MUST_CHECK;
/* Ends the writer either way; on error as files_write. */
enum err files_commit(struct files_writer *w, struct errmsg *e) MUST_CHECK;
/* Remove what was written. Nothing to do after commit, a failed begin or another abort. */
void files_abort(struct files_writer *w);

/* Open a regular file to read. A FIFO or a device of that name is refused at once: to open or read one may never end.
 * Errors: ERR_NOTFOUND, ERR_IO. */
enum err files_open(const char *path, int *fd, struct errmsg *e) MUST_CHECK;

/* Remove all files of the folder, or only the temporary ones that a dead writer has left. Logs each that it cannot remove. */
void files_clean(const char *folder, bool temporary_only);

/* Read a whole file of at most `max` bytes; *data is the caller's (mem_free), with a NUL behind it.
 * Errors: ERR_NOTFOUND, ERR_TOOBIG, ERR_IO, ERR_NOMEM. */
enum err files_read_regular(const char *path, size_t max, uint8_t **data, size_t *bytes,
                            struct errmsg *e) MUST_CHECK;
/* The same of what may be a pipe: whoever names one waits for it. */
enum err files_read(const char *path, size_t max, uint8_t **data, size_t *bytes,
                    struct errmsg *e) MUST_CHECK;
/* mkdir -p; each folder that is made is there after a power cut too. */
enum err files_mkdirs(const char *path, struct errmsg *e) MUST_CHECK;
/* fsync of a folder: names made, renamed or removed in it last from here on. */
enum err files_sync_folder(const char *folder, struct errmsg *e) MUST_CHECK;

/* Remove a folder and the files in it; one that is not there is no error. Errors: ERR_IO. */
enum err files_remove_folder(const char *folder, struct errmsg *e) MUST_CHECK;

/* Tests: make the n-th write, fsync, rename or open of a write from now fail with `error` (errno);
 * -1 = never. files_fail_fired says whether it did. */
void files_fail_at(long n, int error);
int files_fail_fired(void);

#endif
