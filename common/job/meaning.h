/* Names that other programs use for words and keys of the job file, as hints for a user who knows those programs. Names are
 * compared without case, by letters and digits alone: BCELoss, bce_loss and bce-loss are the same. Pure. */
#ifndef GRADWIRE_COMMON_JOB_MEANING_H
#define GRADWIRE_COMMON_JOB_MEANING_H

#include "common/job/keys.h"

/* The one of `words` that `word` means, maybe with an option, like "sgd: {momentum: 0.9}"; NULL: none. */
const char *job_meaning_word(const struct job_word *words, const char *word);

/* The key that `name` means under `group`, or if there is none there anywhere: its path, in out; false: none. */
bool job_meaning_key(const char *group, const char *name, char out[static JOB_PATH_MAX]);

#endif
