/* Hints at the key that a user has probably forgotten, when a line of csv does not fit the job. They use only the
 * text. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

/* The beginning of a text, printable, for messages. Returns out. */
enum { CSV_SHOWN_BYTES = 48 };
const char *csv_hint_shown(char out[static CSV_SHOWN_BYTES], const char *text, size_t bytes);

/* True if the field, or the line's first field, can be the name of a column: it begins with a letter or '_', in quotes or not, and
 * is not a usual word for a missing number. */
bool csv_hint_is_name(const char *text, size_t bytes);

/* The same, with bytes that are no UTF-8 as <F3>. Returns whether there are such. */
bool csv_hint_shown_bytes(char out[static CSV_SHOWN_BYTES], const char *text, size_t bytes);

/* Usual markers of missing values, which are words unless data.missing lists them. */
enum { CSV_HINT_MARKERS = 37 };
extern const char *const csv_hint_markers[CSV_HINT_MARKERS];
bool csv_hint_is_marker(const char *text, size_t bytes);

/* Remove blanks around the field. False: there are none. */
bool csv_hint_trim(const char **text, size_t *bytes);
/* Remove blanks around a text, and then, with `quotes`, a pair of them. */
void csv_hint_strip(const char **text, size_t *bytes, bool quotes);

/* The advice for a text that is no number: about a character that cannot be seen or is no minus or digit of ASCII, about decimal commas and separators of thousands if it has them ("1,5", "1_000"),
 * otherwise `usual`. */
const char *csv_hint_number(const char *text, size_t bytes, const char *usual);

/* The advice about a line, such as "sep=;", that Excel reads and others do not; NULL: it is another line. */
const char *csv_hint_excel(const char *line, size_t bytes);

/* Look for another delimiter that makes `wanted` fields of the line or, if the line is one field now, several.
 * Writes "with data.delimiter: semicolon it has 3", and returns out; NULL: none found. wanted 0: any number. */
enum { CSV_HINT_BYTES = 80 };
const char *csv_hint_delimiter(char out[static CSV_HINT_BYTES], const struct job_csv *job,
                               const char *line, size_t bytes, uint32_t wanted);
