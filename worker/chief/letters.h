/* Letters from the chief's own threads to its control thread. */
#ifndef GRADWIRE_WORKER_CHIEF_LETTERS_H
#define GRADWIRE_WORKER_CHIEF_LETTERS_H

#include "worker/control/letters.h"

enum host_letter {
    HOST_STORED = CONTROL_ROLE, /* number: ps; data: struct store_server_answer */
    HOST_PUBLISHED,             /* number: cut; data: an error text or NULL */
    HOST_JOURNALED,             /* number: entries; data: an error text or NULL */
    HOST_JUDGED,                /* number: cut; the evaluator has its result */
};

#endif
