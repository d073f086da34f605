/* Estimates how much memory a role needs, and how long a part of a checkpoint takes, from the plan, before anything
 * is allocated. Pure. Each function's comment has its assumptions. */
#pragma once

#include "common/cluster/cluster.h"
#include "data/core/key_growth.h"
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
static inline uint64_t estimate_worker_least_bytes(uint64_t elems)
{
    return 2 * elems * sizeof(float);
}

/* The largest size of a cut on disk: weights and slots; zstd makes it smaller. */
static inline uint64_t estimate_cut_bytes(const struct job *job, uint64_t elems)
{
    return (1 + (uint64_t)optimizer_slots(&job->optimizer)) * elems * sizeof(float);
}

/* Seconds from SIGTERM until that much is published: written at disk_bytes_per_s (0: 50 MB/s), compressed at 200
 * MB/s, and a second for the steps on the way, the fsyncs and the manifest. */
double estimate_cut_s(uint64_t bytes, double disk_bytes_per_s);

/* "310 MiB", "1.5 GiB" */
const char *estimate_text(char out[static 24], uint64_t bytes);

/* Estimates the size of a job's tables before they have any rows: rows from the keys in the data, bytes from the
 * rows. Pure. Keys of later data are not known. */

/* All tables together, over all ps. */
struct table_room_size {
    double rows, memory_bytes, cut_bytes;
};
struct table_room {
    uint32_t tables;
    bool admits;                      /* some keys may get no row (job_table_admits) */
    bool sampled;                     /* not all rows were counted, so `least` is less than `all` */
    uint64_t counted_rows, data_rows; /* rows of the data */
    /* least: from the keys that were seen; all: from those that are expected */
    struct table_room_size least, all;
};

/* Bytes of a row in a ps's memory: weights and slots, 12 bytes with them, and the index from its key.
 * table_room_row_cut_bytes: on disk, before zstd. */
uint64_t table_room_row_bytes(const struct job *job, uint32_t table);

/* The estimate from a growth with the job's lists. */
struct table_room table_room_of(const struct job *job, const struct key_growth *g);

/* A ps's share of `bytes`, up to ps.memory (memory_mb; 0: no bound), plus the memory of a checkpoint that is being
 * written. */
uint64_t table_room_ps_bytes(double bytes, uint32_t ps, uint32_t memory_mb);
/* True if ps.memory has room for all expected rows. False: `out` says what will happen to the others. */
bool table_room_fits(const struct table_room *r, const struct job *job, uint32_t ps, char *out,
                     size_t bytes);

/* "about 700 rows in 3 tables: about 62 KiB of the memory of each of 2 ps". If rows were sampled, also the least
 * number. */
void table_room_text(const struct table_room *r, uint32_t ps, char *out, size_t bytes);

/* How many of the cluster's ps are on this process's host, as far as addresses show; 1 if the worker trains alone. */
uint32_t table_room_ps_here(const struct cluster *c);
/* The memory that is free for them on this host (/proc/meminfo, and the cgroup); UINT64_MAX: not known. */
uint64_t table_room_free_bytes(void);
