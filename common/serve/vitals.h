/* What the kernel says of this process: memory, CPU time, threads, descriptors. */
#ifndef GRADWIRE_COMMON_SERVE_VITALS_H
#define GRADWIRE_COMMON_SERVE_VITALS_H

#include <jansson.h>

#include "common/process/metrics.h"

/* Read what the cgroups allow, once: it is not read by a loop's thread. Before the first of the others. */
void vitals_init(void);
/* gradwire_build_info, and process_* under the names that Prometheus' own clients use. */
void vitals_metrics(struct metrics *m);
uint64_t vitals_resident_bytes(void); /* 0: it cannot be read */
/* The same as an object; NULL: no memory. */
json_t *vitals_json(void);

#endif
