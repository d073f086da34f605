/* The texts for a user whose job does not begin with its first step: where it resumes, or that there is nothing to
 * train, why, and how to train more. They go to the log and to the launcher's terminal. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"
#include "common/parameters/layout.h"

enum { RESUME_WORDS_BYTES = 400 };

/* The ways out, appended to the text that refuses a job because it changed. `done`: the checkpoint is final, and its
 * weights fit the model. */
const char *resume_ways(bool done);

/* For a job that is done: nothing was trained. `waited`: early_stopping ended it after so many epochs without a
 * better one; 0: it did not. */
void resume_words_done(char out[RESUME_WORDS_BYTES], const struct manifest *m,
                       const struct job *job, uint64_t per_epoch, uint64_t waited);
/* For a job that resumes from `m`, with `per_epoch` steps an epoch. False: the checkpoint has all epochs that
 * training.epochs asks for, and the text is that of resume_words_done. */
bool resume_words(char out[RESUME_WORDS_BYTES], const struct manifest *m, const struct job *job,
                  uint64_t per_epoch);

/* Checks whether the final checkpoint of a finished job is finite. This release publishes only finite ones; 0.1.0
 * did not check. */

enum { ENDED_WORDS_BYTES = 512 };

/* Read the checkpoint's weights and rows, and check the losses in its manifest. `words`: why the job has failed, and
 * what to do; "" if all values are finite. Blocks on the disk. Errors: as checkpoint_read. */
enum err ended_look(const struct place *checkpoints, const struct manifest *final,
                    const struct layout *l, char words[ENDED_WORDS_BYTES],
                    struct errmsg *e) MUST_CHECK;
