/* Before a job makes its first row, its chief says what the data will make of the tables. */
#ifndef GRADWIRE_WORKER_TABLES_AHEAD_H
#define GRADWIRE_WORKER_TABLES_AHEAD_H

#include "common/cluster/cluster.h"
#include "worker/data/dataset.h"

/* To the log and the launcher: rows, and memory of a ps; a warning where the ps on this host have less free. A job
 * without tables: nothing. progress_fd: as in progress_init. */
void tables_ahead_say(const struct job *job, const struct cluster *cluster,
                      const struct dataset *data, int progress_fd);

#endif
