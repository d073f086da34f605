/* Is the job over already? What a ps, or a worker that is not the chief, can tell from the newest cut before it
 * holds anything: the chief alone knows for sure, since it may have been told to train on. */
#ifndef GRADWIRE_COMMON_ENDING_H
#define GRADWIRE_COMMON_ENDING_H

#include "common/checkpoint.h"
#include "common/job.h"

enum ending {
    ENDING_NONE,  /* there is something to learn, as far as can be seen */
    ENDING_EARLY, /* it was stopped early: another patience would go on */
    ENDING_DONE,  /* all epochs that our job file asks for are learned */
};

/* The job names a run (checkpoint.run), and this is of another: the first cut of the next may be due. */
bool ending_is_of_another_run(const struct manifest *m, const struct job *job);

/* Of a manifest of any job. */
enum ending ending_of(const struct manifest *m, const struct job *job);

/* Of the newest cut under DIR/checkpoints, which is *m where there is an ending: the caller's. The log says so. Where
 * the folder cannot be read, or is of storage that this process does not see, there is none, nor where a file of that
 * cut is damaged or missing: the chief goes back behind it. Thread: start-up; reads one manifest and its files' heads. */
enum ending ending_find(const char *checkpoints, const struct job *job, struct manifest *m);

#endif
