/* Is the job over already? What a ps, or a worker that is not the chief, can tell from the newest cut before it
 * holds anything: the chief alone knows for sure, since it may have been told to train on. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_ENDING_H
#define GRADWIRE_COMMON_CHECKPOINT_ENDING_H

#include "common/checkpoint/checkpoint.h"
#include "common/job/job.h"

enum ending {
    ENDING_NONE,  /* there is something to learn, as far as can be seen */
    ENDING_EARLY, /* it was stopped early: another patience would go on */
    ENDING_DONE,  /* all epochs that our job file asks for are learned */
};

/* Who finds a job done, and would not stay, waits as long for a chief that was told to train on. */
enum { ENDING_ALONE_MS = 10000 };

/* What is told of a job that is done. */
struct over {
    uint64_t epochs; /* that were learned; 0: nothing is known */
    char run[JOB_NAME_MAX];
};
void over_set(struct over *o, uint64_t epochs, const char *run);
/* All that our job file asks for was learned then, in the run that it names. A job that was stopped early is not. */
bool over_suffices(const struct over *o, const struct job *job);

/* The job names a run (checkpoint.run), and this is of another: the first cut of the next may be due. */
bool ending_is_of_another_run(const struct manifest *m, const struct job *job);

/* Of a manifest of any job. */
enum ending ending_of(const struct manifest *m, const struct job *job);

/* Of the newest cut under DIR/checkpoints, which is *m where there is an ending: the caller's. The log says so. Where
 * the folder cannot be read, or is of storage that this process does not see, there is none, nor where a file of that
 * cut is damaged or missing: the chief goes back behind it. Thread: start-up; reads one manifest and its files' heads. */
enum ending ending_find(const char *checkpoints, const struct job *job, struct manifest *m);

/* The same for one that has trained, up to this generation (0: it has not), and has lost the chief: the newest cut says
 * that the job is done, and is no older than that. A job that was reopened has a final cut of an earlier generation. One
 * that has not trained takes ENDING_DONE alone. The log says nothing. Reads one manifest. */
bool ending_seen(const char *checkpoints, const struct job *job, uint64_t generation);

#endif
