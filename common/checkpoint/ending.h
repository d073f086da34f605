/* Judges from the newest cut whether the job is already done. A ps, or a worker other than the chief, checks this at
 * its start. Only the chief knows for sure: a user can have restarted it with more epochs. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"

enum ending {
    ENDING_NONE,  /* the job is not done, as far as the cut shows */
    ENDING_EARLY, /* stopped early: with another patience, training would continue */
    ENDING_DONE,  /* all epochs of our job file are learned */
};

/* A process that finds the job done and would exit waits this long for a chief that continues training. */
enum { ENDING_ALONE_MS = 10000 };

/* The learned state of a job that is done. */
struct over {
    uint64_t epochs; /* learned epochs; 0: unknown */
    char run[JOB_NAME_MAX];
};
void over_set(struct over *o, uint64_t epochs, const char *run);
/* Returns whether everything that our job file requires is learned, in the run that it names. False for a job that
 * was stopped early. */
bool over_suffices(const struct over *o, const struct job *job);

/* Returns whether the manifest belongs to another run than checkpoint.run names: the next run may not have a cut
 * yet. */
bool ending_is_of_another_run(const struct manifest *m, const struct job *job);

/* Judges a manifest, of this or another job. */
enum ending ending_of(const struct manifest *m, const struct job *job);

/* Judges the newest cut of the place. If the job is done, it logs this and sets *m to the cut's manifest,
 * which the caller then owns; otherwise *m is unchanged. Returns ENDING_NONE also if the directory cannot be read or is
 * on storage that this process does not see, or if a file of that cut is damaged or missing: the chief will roll back
 * to an older one. Thread: start-up's; reads one manifest and the heads of its files. */
enum ending ending_find(const struct place *checkpoints, const struct job *job, struct manifest *m);

/* Same for a process that has lost the chief, without a log line. `generation` is the last one in which the
 * process trained (0: none). Returns true if the newest cut says that the job is done and is not from an earlier
 * generation: a reopened job has such an old final cut. A process that has not trained accepts only ENDING_DONE.
 * Reads one manifest and the heads of its files. */
bool ending_seen(const struct place *checkpoints, const struct job *job, uint64_t generation);
