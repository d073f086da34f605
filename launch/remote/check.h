/* What a runner looks at on its own host before a job begins, and says in its answer. Blocks: reads
 * files, connects. Each problem is a text without the host's name. */
#ifndef GRADWIRE_LAUNCH_REMOTE_CHECK_H
#define GRADWIRE_LAUNCH_REMOTE_CHECK_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/sha256.h"

/* An answer without problems so far. */
json_t *check_answer_new(void);
void check_problem(json_t *answer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* {"what": "clock"} -> {"time_ms": n} */
json_t *check_clock(void);
/* {"what": "check", "job": path, "job_sha256": hex, "sets": [..], "programs": [path, ..],
 *  "data": bool, "tls": {"cert": path, "key": path, "ca": path, "names": text, "address": "host:0"},
 *  "crew": [ps, workers, evaluators, all ps, all workers]}
 * -> {"data_sha256": hex, "warnings": [..]}: over names and sizes of what the data keys name; what the look at model and memory
 * found unwise (launch/local/ahead.h). */
json_t *check_job(const json_t *ask);
/* {"what": "reach", "addresses": ["host:port", ..]}: can each be connected to from here? */
json_t *check_reach(const json_t *ask);
/* {"what": "shared", "path": path, "text": text}: is this file here, with this in it? */
json_t *check_shared(const json_t *ask);

/* SHA-256 of a file as hex. False: it cannot be read. */
bool check_hash_file(const char *path, char hex[static SHA256_HEX_BYTES]);

#endif
