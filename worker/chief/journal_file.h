/* The journal on the disk: one line of text for each entry, appended and synced. A line that is torn or makes no sense is
 * passed over. */
#ifndef GRADWIRE_WORKER_CHIEF_JOURNAL_FILE_H
#define GRADWIRE_WORKER_CHIEF_JOURNAL_FILE_H

#include "worker/chief/core/journal.h"

enum { JOURNAL_LINE_MAX = 256 };

/* One line with its end, without a NUL in the count; what it came to. */
size_t journal_line(const struct journal_entry *entry, char out[JOURNAL_LINE_MAX]);
/* Add the entries of a text. Errors: ERR_NOMEM. */
enum err journal_parse(struct journal *j, const char *text, size_t bytes) MUST_CHECK;

/* checkpoints/journal: none is an empty one. Errors: ERR_IO, ERR_NOMEM. */
enum err journal_read(struct journal *j, const char *checkpoints, struct errmsg *e) MUST_CHECK;
/* Append entries, fsync the file, and the folder where the file is new. Blocks. Errors: ERR_IO. */
enum err journal_append(const char *checkpoints, const struct journal_entry *entry, size_t n,
                        struct errmsg *e) MUST_CHECK;

#endif
