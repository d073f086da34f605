/* Estimates how much memory a role needs, and how long a part of a checkpoint takes, from the plan, before anything
 * is allocated. Pure. Each function's comment has its assumptions. */
#ifndef GRADWIRE_WORKER_DOCTOR_ESTIMATE_H
#define GRADWIRE_WORKER_DOCTOR_ESTIMATE_H

#include "job/job.h"

#define ESTIMATE_BASE_BYTES (UINT64_C(48) << 20) /* a process without parameters and data */

/* Elements of the largest share of `ps` shares, as the plan divides them. Errors: as plan_init. */
enum err estimate_share(uint64_t elems, uint32_t ps, uint64_t *share, struct errmsg *e) MUST_CHECK;

/* A ps with that share, to which `workers` workers push: two blocks of weights in sync, one otherwise; the slots; a
 * copy of weights and slots while a cut is written; the state for lossy replies; in sync, for each worker, one block
 * of gradients that wait for others. */
uint64_t estimate_ps_bytes(const struct job *job, uint64_t share, uint32_t workers);

/* A worker: the weights, and blocks of gradients for each thread and each level of the tree; `activations_bytes` for
 * each thread; `data_bytes` as they are loaded. */
uint64_t estimate_worker_bytes(const struct job *job, uint64_t elems, uint32_t threads,
                               uint64_t activations_bytes, uint64_t data_bytes);

/* The least memory that any run needs: weights and slots on all ps together; weights and one gradient in each
 * worker. */
uint64_t estimate_ps_least_bytes(const struct job *job, uint64_t elems);
uint64_t estimate_worker_least_bytes(uint64_t elems);

/* The largest size of a cut on disk: weights and slots; zstd makes it smaller. */
uint64_t estimate_cut_bytes(const struct job *job, uint64_t elems);

/* Seconds from SIGTERM until that much is published: written at disk_bytes_per_s (0: 50 MB/s), compressed at 200
 * MB/s, and a second for the steps on the way, the fsyncs and the manifest. */
double estimate_cut_s(uint64_t bytes, double disk_bytes_per_s);

/* "310 MiB", "1.5 GiB" */
const char *estimate_text(char out[static 24], uint64_t bytes);

#endif
