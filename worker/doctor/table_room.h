/* What a job's tables will take before there are any: rows by the keys that the data have, bytes by the rows. Pure. What is
 * not known: keys of data that come later. */
#ifndef GRADWIRE_WORKER_DOCTOR_TABLE_ROOM_H
#define GRADWIRE_WORKER_DOCTOR_TABLE_ROOM_H

#include "common/cluster/cluster.h"
#include "common/job/job.h"
#include "worker/data/core/key_growth.h"

/* Of all tables together, and of all ps. */
struct table_room_size {
    double rows, memory_bytes, cut_bytes;
};
struct table_room {
    uint32_t tables;
    bool admits;                       /* some keys may have no row (job_table_admits) */
    bool sampled;                      /* `least` is less than what is expected */
    uint64_t counted_rows, data_rows;  /* of the data */
    struct table_room_size least, all; /* of the keys that were seen; of those that are expected */
};

/* Memory of a row on a ps: weights and slots, 12 bytes with them, and the way from its key to it. On disk, before zstd. */
uint64_t table_room_row_bytes(const struct job *job, uint32_t table);
uint64_t table_room_row_cut_bytes(const struct job *job, uint32_t table);

/* Of a growth with the job's lists. */
struct table_room table_room_of(const struct job *job, const struct key_growth *g);

/* A ps's share of `bytes`, up to ps.memory (memory_mb; 0: no bound), and what a checkpoint takes beside it while it is
 * written. */
uint64_t table_room_ps_bytes(double bytes, uint32_t ps, uint32_t memory_mb);
/* Has ps.memory room for all rows that are expected? False: `out` says what will become of the others. */
bool table_room_fits(const struct table_room *r, const struct job *job, uint32_t ps, char *out,
                     size_t bytes);

/* "about 700 rows in 3 tables: about 62 KiB of memory on each of 2 ps". Of sampled rows also how many that is at least. */
void table_room_text(const struct table_room *r, uint32_t ps, char *out, size_t bytes);

/* How many of the cluster's ps are on the host of this process, as far as addresses say; 1 of one that trains alone. */
uint32_t table_room_ps_here(const struct cluster *c);
/* What this host has free for them (/proc/meminfo, and the cgroup); UINT64_MAX: that cannot be read. */
uint64_t table_room_free_bytes(void);

#endif
