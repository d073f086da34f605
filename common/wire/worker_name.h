/* The number of a worker in messages is worker_id of common/cluster/cluster.h. With a separate chief it is one above the
 * number that users give the worker. */
#ifndef GRADWIRE_COMMON_WIRE_WORKER_NAME_H
#define GRADWIRE_COMMON_WIRE_WORKER_NAME_H

#include <stdbool.h>
#include <stdint.h>

enum { WORKER_NAME_BYTES = 24 };
/* Writes and returns how texts for users name this worker: "worker 1", "the chief". Any number is allowed. */
const char *worker_name(char out[WORKER_NAME_BYTES], uint32_t worker, bool separate_chief);

#endif
