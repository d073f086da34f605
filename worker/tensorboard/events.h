/* Events for TensorBoard, on their way to DIR/logs. A disk's thread writes them, so training never waits for a full
 * or a slow disk.
 *
 * Happy path: events_note -> events_scalar, events_histogram ... -> events_post -> the disk's thread -> the file of
 * its run.
 * Failure modes: an event that cannot be written is dropped, and logged once; an event is also dropped if too many
 * events wait for the disk.
 * Nothing here ends training: a struct events that could not be made is NULL, and all calls accept that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/math/pool.h"
#include "common/parameters/layout.h"
#include "common/process/files.h"
#include "job/job.h"
#include "proto/formats/tensorboard.pb-c.h"
#include "model/evaluation.h"
#include "model/model.h"

/* Directories in DIR/logs, which are TensorBoard's runs. The session of the hyperparameters contains the other two. */
enum events_run { EVENTS_TRAIN, EVENTS_EVAL, EVENTS_SESSION, EVENTS_RUNS };

struct disk_thread;
struct events;
struct events_note; /* values of one step; events.c has its fields */

enum { EVENTS_BUCKETS = 30 }; /* as in Keras */
struct events_histogram {
    double min, max, num, sum, sum_squares;
    double bucket[EVENTS_BUCKETS]; /* of equal width, from min to max */
};

/* A file is made when the first event of its run comes. `logs` is copied, the thread is borrowed. NULL: no memory,
 * which is logged. */
struct events *events_new(const char *logs, struct disk_thread *disk);
/* Events that were posted are written first. */
void events_free(struct events *ev);

/* `step` and all later steps will be written again: readers drop the points that they have from earlier files. */
void events_restart(struct events *ev, enum events_run run, uint64_t step);

/* NULL: no memory; the calls below accept that. */
struct events_note *events_note(enum events_run run, uint64_t step);
/* Tag: `prefix` then `name` then `suffix`. A value that is not finite is left out. */
void events_scalar(struct events_note *n, const char *prefix, const char *name, const char *suffix,
                   double value);
/* Tag: `name` then `suffix`. */
void events_histogram(struct events_note *n, const char *name, const char *suffix,
                      const struct events_histogram *h);
void events_text(struct events_note *n, const char *name, const char *text);
/* The hyperparameters' session of this job. events_session: which keys are tuned, what is measured, and its
 * beginning; events_session_end: its end. */
void events_session(struct events_note *n, const struct job *job);
void events_session_end(struct events_note *n, bool success);
void events_post(struct events *ev, struct events_note *take);

/* The values that are counted: element i is `scale` times the sum over the blocks of their element i. */
struct events_values {
    const float *const *block; /* (blocks) flat blocks */
    uint32_t blocks;
    double scale;
};

/* One histogram for each tensor (l->tensors); values that are not finite are not counted. Thread: the pool's owner. */
void events_histograms(struct events_histogram *out, const struct layout *l,
                       const struct events_values *v, struct pool *pool);

/* One of TensorBoard's event files: a sequence of records, each an Event (proto/formats/tensorboard.proto) framed as
 * a TFRecord (tensorflow/core/lib/io/record_writer.h): u64 length, u32 masked CRC-32C of the length, the bytes, u32
 * masked CRC-32C of the bytes; little-endian. The first record has file_version. */

struct events_file {
    int fd; /* -1: none */
    uint64_t bytes;
    char path[FILES_PATH_MAX];
};

/* Create a file in `folder`, which is made if needed: events.out.tfevents.<seconds>.<host>.<pid>. TensorBoard reads
 * the files of a directory in the order of their names. Errors: ERR_IO; *f then has no file. */
enum err events_file_open(struct events_file *f, const char *folder, double wall_time,
                          struct errmsg *e) MUST_CHECK;
void events_file_close(struct events_file *f);

/* Append one record. On error no part of it stays, so later records can be read. Errors: ERR_IO, ERR_NOMEM. */
enum err events_file_append(struct events_file *f, const Tensorboard__Event *event,
                            struct errmsg *e) MUST_CHECK;

/* TFRecord's mask: a CRC computed over bytes that contain CRCs themselves is of little use. */
uint32_t events_file_masked_crc(const void *data, size_t bytes);

/* The contents of TensorBoard's event files about training: the curves, the position of their points on the axis,
 * and the points that are written again after a rollback. The axis is the step for all of them. Names are those of
 * Keras's callback. */

struct curves {
    const struct job *job;
    const struct layout *layout;
    uint64_t batches_per_epoch, rows; /* of the training data */
    struct events *events;    /* NULL: no files are written, and the other fields are not used */
    bool begun;               /* a step was made in this run */
    uint64_t seen;            /* the last step */
    uint64_t evaluated;       /* the last step that was evaluated; 0: none in this run */
    uint64_t epoch_step;      /* where the last epoch ended, or this run began */
    double examples;          /* examples since epoch_step */
    struct sums window;       /* sums since the last point within the epoch */
    double epoch_s, window_s; /* clock_now_s */
    double paused_s;          /* time since then that was not training, in seconds */
};

/* `logs`: DIR/logs, or the value of --logs; `disk` is borrowed. */
void curves_init(struct curves *c, const struct job *job, const struct layout *layout,
                 uint64_t batches_per_epoch, uint64_t rows, const char *logs,
                 struct disk_thread *disk);
void curves_close(struct curves *c, bool success);

/* The parameters of `step` have arrived; `sums`: over the step that made them. examples_per_s: of all workers; NAN: not known
 * yet. */
void curves_step(struct curves *c, uint64_t step, const struct sums *sums, double examples_per_s,
                 double now_s);
/* An epoch is over at this step, with `trained` as its sums, w as its weights, and `gradient` as the last computed
 * gradient (no blocks: none was computed). Call it before the epoch's evaluation, and curves_evaluated after that,
 * if there was one. */
void curves_epoch(struct curves *c, uint64_t step, const struct sums *trained, const float *w,
                  const struct events_values *gradient, struct pool *pool, double now_s);
void curves_evaluated(struct curves *c, uint64_t step, bool ends_epoch,
                      const struct evaluation *eval);
/* So many seconds were not training. */
void curves_paused(struct curves *c, double seconds);

/* Write the points of an evaluation at `step`: by step, and if it ends an epoch, those of the epoch. */
void curves_put_evaluation(struct events *ev, const struct job *job, uint64_t step, bool ends_epoch,
                           const struct evaluation *eval);
