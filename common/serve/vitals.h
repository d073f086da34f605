/* The resources that this process uses, from the kernel: memory, CPU time, threads. */
#ifndef GRADWIRE_COMMON_SERVE_VITALS_H
#define GRADWIRE_COMMON_SERVE_VITALS_H

#include <jansson.h>

#include "common/process/metrics.h"

/* Reads the cgroups' limits once, because they must not be read on a loop's thread. Call before the other
 * functions. */
void vitals_init(void);
/* Writes gradwire_build_info, and process_* under the names of Prometheus's own clients. */
void vitals_metrics(struct metrics *m);
uint64_t vitals_resident_bytes(void); /* 0: unknown */
/* Returns these resources and the limits as a JSON object, a new reference; NULL if memory runs out. */
json_t *vitals_json(void);

#endif
