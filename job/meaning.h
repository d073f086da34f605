/* Names that other programs use for words and keys of the job file, as suggestions for users who know those
 * programs. Comparison ignores case and everything but letters and digits: BCELoss, bce_loss and bce-loss are
 * equal. Pure. */
#ifndef GRADWIRE_JOB_MEANING_H
#define GRADWIRE_JOB_MEANING_H

#include "job/keys.h"

/* Returns the one of `words` that `word` means, possibly with an option, such as "sgd: {momentum: 0.9}"; NULL:
 * none. */
const char *job_meaning_word(const struct job_word *words, const char *word);

/* Finds the key that `name` means, first under `group` ("": the top level), then anywhere, and writes its path to
 * `out`. Returns false if there is none; `out` is then undefined. */
bool job_meaning_key(const char *group, const char *name, char out[static JOB_PATH_MAX]);

/* Returns the hint for a name that means something that no key does; NULL: no such name. */
const char *job_meaning_other(const char *name);

#endif
