/* A job's DIR seen from outside: is it one, and by what was it started? */
#ifndef GRADWIRE_LAUNCH_JOB_DIR_H
#define GRADWIRE_LAUNCH_JOB_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/rendezvous.h"

/* Is `dir` the output folder of a job? */
bool job_dir_is(const char *dir);

/* DIR of the command line, or NULL after one line on stderr. */
const char *job_dir_given(const char *command, int argc, char **argv);

/* What started the run that holds DIR, or the last one that did. */
enum job_dir_by {
    JOB_DIR_TRAIN, /* a launcher, which keeps DIR/processes */
    JOB_DIR_RANK,  /* srun or mpirun: ranks, which leave DIR/rendezvous */
    JOB_DIR_HAND   /* its processes were started one by one */
};

struct job_dir {
    enum job_dir_by by;
    pid_t holder;                 /* of DIR/lock, as its host counts; 0: nobody holds it */
    bool lives;                   /* it is a process of this host, and has the lock open */
    char folder[PATH_MAX];        /* JOB_DIR_RANK: the attempt's; "": none has come */
    struct rendezvous_rank chief; /* of that attempt; role "": it has not come */
    bool began;                   /* that chief is the last that has held DIR/lock */
    bool locked_once;             /* somebody has held it */
};

void job_dir_look(struct job_dir *d, const char *dir);

/* Was DIR/name written before DIR/other? A file that is not there never was. */
bool job_dir_is_before(const char *dir, const char *name, const char *other);

/* Ranks have come to DIR since a chief held it last. */
bool job_dir_meets(const struct job_dir *d, const char *dir);

/* "slurm-17-0-0" of DIR/rendezvous/slurm-17-0-0. */
const char *job_dir_attempt(const struct job_dir *d);

#endif
