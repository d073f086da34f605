/* How the chief's run ended, for an evaluator, which is connected to no process: DIR/summary.json tells it. */
#ifndef GRADWIRE_WORKER_EVALUATOR_CHIEF_END_H
#define GRADWIRE_WORKER_EVALUATOR_CHIEF_END_H

#include <sys/stat.h>

#include "job/job.h"

struct chief_end {
    struct stat before; /* st_ino 0: there was no summary */
};

/* Call when the evaluator's process starts: a summary that is there is one of an earlier run. */
void chief_end_begin(struct chief_end *c, const char *output);

/* True if a run of this job has ended since then with a failure that a restart does not fix, and no process has taken
 * DIR since. *exit_code: from 1 to 127; *e: its reason. Reads up to three files. Thread: any. */
bool chief_end_failed(const struct chief_end *c, const struct job *job, const char *output,
                      int *exit_code, struct errmsg *e);

#endif
