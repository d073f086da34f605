/* A text file to which lines are appended. A power cut or a full disk can leave an incomplete last line: readers
 * must skip a line that they cannot parse. */
#ifndef GRADWIRE_COMMON_PROCESS_LINE_FILE_H
#define GRADWIRE_COMMON_PROCESS_LINE_FILE_H

#include <stddef.h>

#include "common/base/err.h"

/* Appends lines, each with its line feed. If the file ends in an incomplete line, it first appends a line feed.
 * Creates the file if it is missing. Call line_file_sync to make the lines survive a power cut. Blocks. Errors:
 * ERR_IO; some of the bytes can then be in the file. ERR_STATE, as in files.h. */
enum err line_file_append(const char *path, const char *lines, size_t bytes,
                          struct errmsg *e) MUST_CHECK;
/* Removes an incomplete last line. Does nothing if the file is missing. Blocks. Errors: ERR_IO; ERR_STATE, as in files.h. */
enum err line_file_cut_torn(const char *path, struct errmsg *e) MUST_CHECK;
/* fsync of the file and of its directory. Blocks. Errors: ERR_IO. */
enum err line_file_sync(const char *path, struct errmsg *e) MUST_CHECK;

#endif
