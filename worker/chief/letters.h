/* Letters from the chief's own threads to its control thread. */
#ifndef GRADWIRE_WORKER_CHIEF_LETTERS_H
#define GRADWIRE_WORKER_CHIEF_LETTERS_H

#include "worker/control/control.h"

enum host_letter {
    HOST_STORED = CONTROL_ROLE, /* number: ps; data: struct store_server_answer */
    HOST_HELD, /* number: the hold (a descriptor) of the cut that the next HOST_PUBLISHED names */
    HOST_PUBLISHED, /* number: cut; data: an error text or NULL */
    HOST_JOURNALED, /* one entry is written; data: an error text or NULL */
    /* number: a cut; data: the evaluator's time for it (ms, int64_t); NULL: no result */
    HOST_LOOKED,
    HOST_DIR, /* DIR was checked; data: an error text if it is no longer this job's, or NULL */
};

#endif
