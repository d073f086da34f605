/* Estimates the size of a job's tables before they have any rows: rows from the keys in the data, bytes from the
 * rows. Pure. Keys of later data are not known. */
#ifndef GRADWIRE_WORKER_DOCTOR_TABLE_ROOM_H
#define GRADWIRE_WORKER_DOCTOR_TABLE_ROOM_H

#include "common/cluster/cluster.h"
#include "job/job.h"
#include "data/core/key_growth.h"

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
uint64_t table_room_row_cut_bytes(const struct job *job, uint32_t table);

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

#endif
