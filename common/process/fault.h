/* --fault: a worker that misbehaves on purpose, for tests and benchmarks. */
#ifndef GRADWIRE_COMMON_PROCESS_FAULT_H
#define GRADWIRE_COMMON_PROCESS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum { FAULT_TIMES = 15 };

struct fault {
    enum { FAULT_NONE, FAULT_NAN, FAULT_STRAGGLE, FAULT_SLEEP, FAULT_DISK } kind;
    uint64_t first, last;       /* FAULT_NAN: batches, from 0 */
    double factor;              /* FAULT_STRAGGLE; FAULT_DISK: bytes a second */
    double sleep_s;             /* FAULT_SLEEP */
    double took_s[FAULT_TIMES]; /* the last undisturbed computations */
    uint32_t taken;
};

/* "nan:BATCH", "nan:FIRST-LAST": the gradient of these batches has a NaN, as far as this worker computes it.
 * "straggle:FACTOR": after each computation it sleeps FACTOR times the median of its last 15 undisturbed ones, and
 * only then sends. "sleep:SECONDS": it sleeps so long, whatever its computations take. "disk:BYTES": a ps whose
 * snapshots are written at so many bytes a second. "": none. *f is unchanged on error. Errors: ERR_INPUT, with what
 * would be right. */
enum err fault_parse(struct fault *f, const char *text, struct errmsg *e) MUST_CHECK;

bool fault_breaks(const struct fault *f, uint64_t batch);
/* How long to sleep after such a disk has been written. */
double fault_disk_s(const struct fault *f, uint64_t bytes);
/* Does it sleep after computations, so that nothing may leave before? */
bool fault_delays(const struct fault *f);
/* How long to sleep after a computation that took `took_s`; 0: not at all. */
double fault_sleep_s(struct fault *f, double took_s);

#endif
