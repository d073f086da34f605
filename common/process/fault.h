/* --fault: a process misbehaves on purpose, for tests and benchmarks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum { FAULT_TIMES = 15 };

struct fault {
    enum { FAULT_NONE, FAULT_NAN, FAULT_STRAGGLE, FAULT_SLEEP, FAULT_DISK, FAULT_EIO } kind;
    uint64_t first, last; /* FAULT_NAN: batch numbers, from 0; FAULT_EIO, first: the checkpoint */
    double factor;        /* FAULT_STRAGGLE: factor; FAULT_DISK: bytes per second */
    double sleep_s;       /* FAULT_SLEEP */
    /* seconds of the last computations, without the added sleep; a ring */
    double took_s[FAULT_TIMES];
    uint32_t taken;
};

/* Parses the flag's value:
 * - "nan:BATCH", "nan:FIRST-LAST": this worker's part of the gradient of these batches has a NaN.
 * - "straggle:FACTOR": after each computation, before sending, the worker sleeps FACTOR (above 0, up to 1000) times the
 *   median of its last FAULT_TIMES computations.
 * - "sleep:SECONDS" (above 0, up to 60): it sleeps that long after each computation.
 * - "disk:BYTES": a ps writes checkpoints at that many bytes per second.
 * - "eio:CHECKPOINT": a ps cannot read this checkpoint (EIO).
 * - "": no fault.
 * *f is unchanged on error. Errors: ERR_INPUT, naming the allowed values. */
enum err fault_parse(struct fault *f, const char *text, struct errmsg *e) MUST_CHECK;

/* Returns whether FAULT_NAN puts a NaN into the gradient of this batch. */
bool fault_breaks(const struct fault *f, uint64_t batch);
/* Returns the seconds to sleep after writing `bytes`; 0 without FAULT_DISK. */
double fault_disk_s(const struct fault *f, uint64_t bytes);
/* Returns whether reading this checkpoint fails. */
bool fault_hides(const struct fault *f, uint64_t cut);
/* Returns whether a ps supports it. Workers support the others. */
bool fault_is_of_ps(const struct fault *f);
/* Returns whether the worker sleeps after computations: then it must not send results before the sleep. */
bool fault_delays(const struct fault *f);
/* Returns the seconds to sleep after a computation that took `took_s`, and records took_s; 0 without such a fault. */
double fault_sleep_s(struct fault *f, double took_s);
