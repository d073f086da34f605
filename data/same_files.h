/* Warns of files that a job names twice in one part of its data, and of those that are in both parts; also of copies. */
#ifndef GRADWIRE_DATA_SAME_FILES_H
#define GRADWIRE_DATA_SAME_FILES_H

#include <stddef.h>

#include "data/readers.h"

/* path: (count) the files that have the rows, or members of archives. with: (count) the file of labels of each; NULL: none.
 * Files are the same by device and inode, so names, links and patterns that overlap do not matter. Labels that several
 * files of rows share are no mistake. Says nothing of rows without labels, of a sample, and of files on a command line
 * that are in data.train. Errors: ERR_NOMEM. */
enum err same_files_warn(const struct reading *r, const char *const *path, const char *const *with,
                         size_t count, struct errmsg *e) MUST_CHECK;
/* The same for files with equal contents, decompressed. own: the complete files. Says nothing of files without rows, and of those
 * of which same_files_warn has told. Errors: ERR_NOMEM. */
enum err same_files_warn_contents(const struct reading *r, const struct contents *own,
                                  struct errmsg *e) MUST_CHECK;

#endif
