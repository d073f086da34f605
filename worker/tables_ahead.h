/* Before a job makes its first row, its chief reports the expected size of the tables. */
#ifndef GRADWIRE_WORKER_TABLES_AHEAD_H
#define GRADWIRE_WORKER_TABLES_AHEAD_H

#include "common/cluster/cluster.h"
#include "data/dataset.h"

/* Report to the log and the launcher: number of rows, and memory of a ps; a warning if the ps on this host have less
 * free memory. Does nothing in a job without tables. progress_fd: as in progress_init. */
void tables_ahead_say(const struct job *job, const struct cluster *cluster,
                      const struct dataset *data, int progress_fd);

#endif
