/* What a user is told of a job that does not begin with its first step: from where it goes on, or that there is nothing
 * to train, why, and what would change that. It goes to the log, and to the launcher's terminal. */
#ifndef GRADWIRE_WORKER_CHIEF_RESUME_H
#define GRADWIRE_WORKER_CHIEF_RESUME_H

#include "common/checkpoint/checkpoint.h"
#include "common/job/job.h"

enum { RESUME_WORDS_BYTES = 320 };

/* Behind the words of a job that is refused because it changed: the ways out. `done`: the checkpoint is final, and its
 * weights fit the model. */
const char *resume_ways(bool done);

/* Of a job that is done: nothing was trained. `waited`: early_stopping ended it after so many epochs without a better
 * one; 0: it did not. */
void resume_words_done(char out[RESUME_WORDS_BYTES], const struct manifest *m,
                       const struct job *job, uint64_t per_epoch, uint64_t waited);
/* Of a job that goes on from `m`, in `per_epoch` steps an epoch. False: it has all that training.epochs asks for, and the
 * words are those of resume_words_done. */
bool resume_words(char out[RESUME_WORDS_BYTES], const struct manifest *m, const struct job *job,
                  uint64_t per_epoch);

#endif
