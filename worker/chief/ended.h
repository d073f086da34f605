/* Checks whether the final checkpoint of a finished job is finite. This release publishes only finite ones; 0.1.0
 * did not check. */
#ifndef GRADWIRE_WORKER_CHIEF_ENDED_H
#define GRADWIRE_WORKER_CHIEF_ENDED_H

#include "common/checkpoint/checkpoint.h"
#include "common/parameters/layout.h"

enum { ENDED_WORDS_BYTES = 512 };

/* Read the checkpoint's weights and rows, and check the losses in its manifest. `words`: why the job has failed, and
 * what to do; "" if all values are finite. Blocks on the disk. Errors: as checkpoint_read. */
enum err ended_look(const struct place *checkpoints, const struct manifest *final,
                    const struct layout *l, char words[ENDED_WORDS_BYTES],
                    struct errmsg *e) MUST_CHECK;

#endif
