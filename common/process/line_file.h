/* A file of lines to which lines are appended. A reader skips a line that it cannot parse: a power cut, or a
 * full disk, may leave a torn line at the end. */
#ifndef GRADWIRE_COMMON_PROCESS_LINE_FILE_H
#define GRADWIRE_COMMON_PROCESS_LINE_FILE_H

#include <stddef.h>

#include "common/base/err.h"

/* Append lines, each with its end. A torn line at the file's end is first closed by an end of line. The file is made if it
 * is missing; it lasts through a power cut after line_file_sync. Blocks. Errors: ERR_IO. */
enum err line_file_append(const char *path, const char *lines, size_t bytes,
                          struct errmsg *e) MUST_CHECK;
/* fsync of the file and of its folder. Blocks. Errors: ERR_IO. */
enum err line_file_sync(const char *path, struct errmsg *e) MUST_CHECK;

#endif
