/* The journal on the disk: one line of text for each entry, with a checksum, appended and synced.
 *
 * An entry has an effect only when its line is synced. So a last line without its line feed, which a chief that was killed or a
 * power cut left, had none: it is skipped, and removed before the next line is written. A damaged line may have had one. Lines
 * that are missing are found by others: ps 0 and the checkpoints know how many there were (struct journal_lines). */
#pragma once

#include "common/place/place.h"
#include "worker/chief/core/journal.h"

enum { JOURNAL_LINE_MAX = 272, JOURNAL_MAX_BYTES = 1 << 30 };

/* The lines that are skipped. */
struct journal_damage {
    size_t lines;          /* complete ones, damaged or not */
    size_t damaged, first; /* damaged ones, and the number of the first of these, from 1 */
    bool torn;             /* there is an incomplete line behind them */
};

/* One line with its newline. Returns the length, without the NUL. */
size_t journal_line(const struct journal_entry *entry, char out[JOURNAL_LINE_MAX]);
/* Add the entries of a text. Errors: ERR_NOMEM. */
enum err journal_parse(struct journal *j, const char *text, size_t bytes,
                       struct journal_damage *d) MUST_CHECK;

/* Read checkpoints/journal; a missing file counts as an empty one. Errors: ERR_IO, ERR_TOOBIG, ERR_NOMEM. */
enum err journal_read(struct journal *j, const struct place *checkpoints, struct journal_damage *d,
                      struct errmsg *e) MUST_CHECK;
/* Append entries and fsync the file; if the file is new, the directory too. Blocks. Errors: ERR_IO. */
enum err journal_append(const struct place *checkpoints, const struct journal_entry *entry,
                        size_t n, struct errmsg *e) MUST_CHECK;

/* The file checkpoints/.begins is there from the start of a job until its first cut is published. So in a directory without
 * cuts, the journal is that of a job whose ps may live, or (no such file) of a job whose cuts were removed.
 * It has the text `job`, which tells jobs apart: the directory may be given to another job in between. journal_mark writes
 * it; journal_unmark removes it; journal_begins: this job's is there. Block. Errors: ERR_IO. */
enum err journal_mark(const struct place *checkpoints, const char *job,
                      struct errmsg *e) MUST_CHECK;
void journal_unmark(const struct place *checkpoints);
bool journal_begins(const struct place *checkpoints, const char *job);
