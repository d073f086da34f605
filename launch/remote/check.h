/* A runner's checks of its own host before a job begins, as JSON answers. All functions block: they read files and connect.
 * Each problem is a text without the host's name. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "common/base/sha256.h"

/* An answer without problems so far; the caller owns it, as all answers below. NULL: no memory. */
json_t *check_answer_new(void);
void check_problem(json_t *answer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* {"what": "clock"} -> {"time_ms": n} */
json_t *check_clock(void);
/* {"what": "check", "job": path, "job_sha256": hex, "sets": [..], "programs": [path, ..],
 *  "data": bool, "tls": {"cert": path, "key": path, "ca": path, "names": text, "address": "host:0"},
 *  "crew": [ps, workers, evaluators, all ps, all workers]}
 * -> {"data_sha256": hex, "warnings": [..]}: a hash of the names and sizes of the files that the data keys name; warnings of
 * the checks of model and memory (launch/local/ahead.h). */
json_t *check_job(const json_t *ask);
/* {"what": "reach", "addresses": ["host:port", ..]}: checks that this host can connect to each address. */
json_t *check_reach(const json_t *ask);
/* {"what": "shared", "path": path, "text": text}: checks that this file exists here and has this text. */
json_t *check_shared(const json_t *ask);

/* hex = the SHA-256 of a file. False: the file cannot be read. */
bool check_hash_file(const char *path, char hex[static SHA256_HEX_BYTES]);
