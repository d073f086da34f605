/* The rows of a finished job, as the first cut of the next run has them: learned weights and the clock stay, slots
 * are as before the first update, and update counts are 0. With unseen_days, rows that were not touched for so long
 * are left out. */
#ifndef GRADWIRE_WORKER_WARM_START_WARM_ROWS_H
#define GRADWIRE_WORKER_WARM_START_WARM_ROWS_H

#include "common/checkpoint/checkpoint_rows.h"
#include "job/job.h"

struct warm_rows {
    const struct place *checkpoints;
    const struct manifest *from;
    uint64_t now;                               /* seconds since 1970 */
    uint32_t place[ROW_TABLES_MAX];             /* of each table: its index in the job's list */
    struct optimizer optimizer[ROW_TABLES_MAX]; /* of each table */
    uint64_t least[ROW_TABLES_MAX];             /* rows with an older stamp are left out */
    uint64_t gone[ROW_TABLES_MAX];              /* number of rows left out */
    struct checkpoint_tables tables;            /* as they are in the earlier checkpoint */
    struct checkpoint_rows head; /* the header of the written file; its ctx is this struct */
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct row_copy copy; /* of the buckets before next_bucket */
    uint32_t next_bucket, step_buckets;
    float *values;   /* values of one group */
    uint64_t *mixed; /* (2 * keys_room): keys, then stamps */
    size_t values_room, keys_room;
};

/* `w` must not move from here on. now: seconds since 1970, for unseen_days. Owns: warm_rows_close, also on error.
 * Errors: as checkpoint_load; ERR_INPUT: the job has other tables. */
enum err warm_rows_init(struct warm_rows *w, const struct place *checkpoints,
                        const struct manifest *from, const struct job *job, uint64_t now,
                        struct errmsg *e) MUST_CHECK;
/* The contents of a file for these buckets; valid until the next call. */
const struct checkpoint_rows *warm_rows_of(struct warm_rows *w, struct bucket_range of);
/* When all files are written: set the counts of each of the job's tables in the manifest; log the rows left out. */
void warm_rows_count(const struct warm_rows *w, const struct job *job, struct manifest *to);
void warm_rows_close(struct warm_rows *w);

#endif
