/* The resources that this process uses, from the kernel: memory, CPU time, threads. */
#pragma once

#include <jansson.h>

#include "common/base/log.h"
#include "common/process/metrics.h"
#include "common/wire/msg.h"

/* Reads the cgroups' limits once, because they must not be read on a loop's thread. Call before the other
 * functions. */
void vitals_init(void);
/* Writes gradwire_build_info, and process_* under the names of Prometheus's own clients. */
void vitals_metrics(struct metrics *m);
/* Returns these resources and the limits as a JSON object, a new reference; NULL if memory runs out. */
json_t *vitals_json(void);

/* The message by which a process reports its memory, its HTTP address and its last warnings to the chief, for the
 * job's page. */

enum { VITALS_EVERY_MS = 1000, VITALS_HTTP_BYTES = 64 };

struct vitals_note {
    Gradwire__Vitals message; /* points into the other members */
    struct log_kept kept[LOG_KEPT];
    Gradwire__Warning warning[LOG_KEPT], *warnings[LOG_KEPT];
    char http[VITALS_HTTP_BYTES];
};

/* Fills *n, which must not move afterwards. `http_fd`: the listening socket of HTTP, or -1. Thread: any. */
void vitals_note_make(struct vitals_note *n, int http_fd);
