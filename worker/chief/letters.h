/* Letters from the chief's own threads to its control thread. */
#ifndef GRADWIRE_WORKER_CHIEF_LETTERS_H
#define GRADWIRE_WORKER_CHIEF_LETTERS_H

#include "worker/control/control.h"

enum host_letter {
    HOST_STORED = CONTROL_ROLE, /* number: ps; data: struct store_server_answer */
    HOST_HELD,                  /* number: the hold of the cut whose HOST_PUBLISHED is next */
    HOST_PUBLISHED,             /* number: cut; data: an error text or NULL */
    HOST_JOURNALED,             /* an entry; data: an error text or NULL */
    HOST_LOOKED, /* number: a cut; data: how long the evaluator needed for it (ms, int64_t); NULL: it has no result */
};

#endif
