/* Hints at the key that a user likely forgot, if a line of csv does not fit the job. They look at the text alone. Pure. */
#ifndef GRADWIRE_WORKER_DATA_TEXT_CSV_HINT_H
#define GRADWIRE_WORKER_DATA_TEXT_CSV_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/job.h"

/* The field may be the name of a column: it begins with a letter, and is not a usual word for a missing
 * number. */
bool csv_hint_is_name(const char *text, size_t bytes);

/* Leave out blanks around the field. False: there are none. */
bool csv_hint_trim(const char **text, size_t *bytes);

/* Another delimiter makes `wanted` fields of the line; or, where it is one field now, several. Writes
 * "with data.delimiter: semicolon it has 3", and returns out; NULL: there is none. wanted 0: any number. */
enum { CSV_HINT_BYTES = 80 };
const char *csv_hint_delimiter(char out[static CSV_HINT_BYTES], const struct job_csv *job,
                               const char *line, size_t bytes, uint32_t wanted);

#endif
