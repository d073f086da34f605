/* The final checkpoint of a job that is done: is it finite? This release publishes no other; 0.1.0 did. */
#ifndef GRADWIRE_WORKER_CHIEF_ENDED_H
#define GRADWIRE_WORKER_CHIEF_ENDED_H

#include "common/checkpoint/checkpoint.h"
#include "common/parameters/layout.h"

enum { ENDED_WORDS_BYTES = 384 };

/* Read its weights and rows, and look at the losses that its manifest has. `words`: why the job has failed, and what to do;
 * "" where all is finite. Blocks on the disk. Errors: as checkpoint_read. */
enum err ended_look(const char *checkpoints, const struct manifest *final, const struct layout *l,
                    char words[ENDED_WORDS_BYTES], struct errmsg *e) MUST_CHECK;

#endif
