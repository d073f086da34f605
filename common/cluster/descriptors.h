/* The number of file descriptors that a process of a job opens until it trains. */
#ifndef GRADWIRE_COMMON_CLUSTER_DESCRIPTORS_H
#define GRADWIRE_COMMON_CLUSTER_DESCRIPTORS_H

#include <stdint.h>

/* The descriptors that the process has from its start are not counted: standard input to standard error, and those that a
 * launcher hands to it. `shards`: of all ps. `trainers`: the workers and the chief.
 *
 * With fewer descriptors the process could not begin, or would wait for ever. With more workers than a ps has descriptors
 * for, it begins, and the others wait. */
uint32_t descriptors_of_ps(uint32_t threads, uint32_t trainers);
uint32_t descriptors_of_worker(uint32_t ps, uint32_t shards);
uint32_t descriptors_of_chief(uint32_t ps, uint32_t shards, uint32_t trainers);

#endif
