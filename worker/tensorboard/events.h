/* What TensorBoard shows, on its way to DIR/logs: a disk's thread writes it, so neither a full nor a slow disk is ever
 * waited for.
 *
 * Happy path: events_note -> events_scalar, events_histogram ... -> events_post -> a job -> the file of its run.
 * Failure modes: what cannot be written is left out, and the log says so once; too many jobs wait: the same. Nothing
 * here ends training: a struct events that could not be made is NULL, and all calls take that. */
#ifndef GRADWIRE_WORKER_TENSORBOARD_EVENTS_H
#define GRADWIRE_WORKER_TENSORBOARD_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/parameters/layout.h"
#include "common/math/pool.h"

/* Folders of DIR/logs: TensorBoard's runs. The session of the hyperparameters is what holds the two. */
enum events_run { EVENTS_TRAIN, EVENTS_EVAL, EVENTS_SESSION, EVENTS_RUNS };

struct disk_thread;
struct events;
struct events_note; /* values of one step */

enum { EVENTS_BUCKETS = 30 }; /* as Keras's */
struct events_histogram {
    double min, max, num, sum, sum_squares;
    double bucket[EVENTS_BUCKETS]; /* of equal width, from min to max */
};

/* A file is made when the first of its run comes. `logs` is copied, the thread borrowed. NULL where there is no memory:
 * said in the log. */
struct events *events_new(const char *logs, struct disk_thread *disk);
/* What is posted is written before. */
void events_free(struct events *ev);

/* `step` and what comes behind it are told anew: readers drop what they have of them from files before. */
void events_restart(struct events *ev, enum events_run run, uint64_t step);

/* NULL: no memory; the calls below take it. */
struct events_note *events_note(enum events_run run, uint64_t step);
/* Tag: `prefix` then `name` then `suffix`. A value that is no number is left out. */
void events_scalar(struct events_note *n, const char *prefix, const char *name, const char *suffix,
                   double value);
/* Tag: `name` then `suffix`. */
void events_histogram(struct events_note *n, const char *name, const char *suffix,
                      const struct events_histogram *h);
void events_text(struct events_note *n, const char *name, const char *text);
/* The hyperparameters' session of this job: what is tuned, what is measured, that it begins; or how it ended. */
void events_session(struct events_note *n, const struct job *job);
void events_session_end(struct events_note *n, bool success);
void events_post(struct events *ev, struct events_note *take);

/* What is counted: element i is `scale` times the sum of the blocks' i. */
struct events_values {
    const float *const *block; /* (blocks) flat blocks */
    uint32_t blocks;
    double scale;
};

/* Of each tensor (l->tensors); what is not finite is not counted. Thread: the pool's. */
void events_histograms(struct events_histogram *out, const struct layout *l,
                       const struct events_values *v, struct pool *pool);

#endif
