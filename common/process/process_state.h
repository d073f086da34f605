/* The state of a process, as shown in /status and by the metric gradwire_state; and how far it has read its data. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/process/metrics.h"

enum process_state {
    STATE_LOADING,    /* it reads its data */
    STATE_WAITING,    /* it waits for other processes before training starts or resumes */
    STATE_TRAINING,   /* it takes part in training */
    STATE_EVALUATING, /* the evaluator, after the first checkpoint appeared */
    /* --when_done=wait: no other process connected; it waits without a time limit */
    STATE_IDLE,
    STATE_DONE, /* the job is done, and this process has released everything of it */
};

/* The launcher sets this environment variable for a process that it restarts within a job. */
#define PROCESS_AGAIN "GRADWIRE_STARTED_AGAIN"

const char *process_state_word(enum process_state s);
/* Writes one gauge per state: 1 for the present state, 0 for the others. */
void process_state_metrics(struct metrics *m, enum process_state s);

/* How far this process has read the files of its data, for its status. A process reads its data once at a time. */
struct loading {
    uint64_t bytes, of_bytes; /* of the files, as they are on the disk; of_bytes 0: not known */
    uint64_t rows;
    double left_s; /* NAN: not known yet */
};

/* Reading begins, of files of so many bytes. `tell` is then called about once a second, on the thread that reads, if it is not
 * NULL. Thread: one; not while another reads. */
void loading_begin(uint64_t of_bytes, void (*tell)(void *ctx, const struct loading *now),
                   void *ctx);
void loading_end(void);

/* All files are read once more, from their beginning. Thread: the one of loading_begin, while no other reads. */
void loading_again(void);

/* Bytes and rows were read; no effect before loading_begin. Thread: any. */
void loading_read(uint64_t bytes);
void loading_rows(uint64_t rows);

/* From now on both counts are there, in memory that several processes share, of which one reads for all. NULL: they are this process's
 * again, and begin with what was counted there. Thread: the one of loading_begin, while no other reads. */
void loading_share(_Atomic uint64_t *bytes, _Atomic uint64_t *rows);

/* False: this process reads no data now. Thread: any. */
bool loading_now(struct loading *out);

enum { LOADING_WORKERS = 1024, LOADING_SILENT_MS = 5000 };

/* Worker `worker` of this job tells this process, which reads its own data, how far it is. NULL: it tells no more. Thread: any. */
void loading_hear(uint32_t worker, const struct loading *now);
/* False: it has told nothing for LOADING_SILENT_MS, or tells no more; *out is all 0. Thread: any. */
bool loading_heard(uint32_t worker, struct loading *out);
