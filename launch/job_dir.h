/* Inspects a job's DIR from another process: tells if a directory belongs to a job, and which program started the job. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "launch/rendezvous.h"

/* True: `dir` is the output directory of a job. */
bool job_dir_is(const char *dir);

/* The DIR argument of a command line: parses the flags of `command`, and checks that DIR belongs to a job. The text is
 * argv's. NULL after one line on stderr. A wrong flag, --help and --version end the process (flags_parse). */
const char *job_dir_given(const char *command, int argc, char **argv);

/* The program that started the present run of DIR, or the last run. */
enum job_dir_by {
    JOB_DIR_TRAIN, /* a launcher, which keeps files in DIR/processes */
    JOB_DIR_RANK,  /* srun or mpirun: ranks, which keep files in DIR/rendezvous */
    JOB_DIR_HAND   /* the user started each process */
};

struct job_dir {
    enum job_dir_by by;
    pid_t holder;                 /* the holder of DIR/lock, a pid on its own host; 0: not locked */
    bool lives;                   /* the holder is a process on this host that has the lock open */
    char folder[PATH_MAX];        /* JOB_DIR_RANK: the attempt's directory; "": none */
    struct rendezvous_rank chief; /* the attempt's chief; role "": it has no file yet */
    bool began;                   /* that chief was the last holder of DIR/lock */
    bool locked_once;             /* DIR/lock was held at least once */
};

/* Fill *d. A file that cannot be read counts as missing. Blocks on storage. */
void job_dir_look(struct job_dir *d, const char *dir);

/* True: DIR/name was written before DIR/other. A missing file was written before none. */
bool job_dir_is_before(const char *dir, const char *name, const char *other);

/* True: ranks have arrived in DIR since a process last took the lock, so a new attempt is starting. */
bool job_dir_meets(const struct job_dir *d, const char *dir);

/* The attempt's name: "slurm-17-0-0" for DIR/rendezvous/slurm-17-0-0; "" without an attempt. Part of *d. */
const char *job_dir_attempt(const struct job_dir *d);

/* The URL of a running job's page: the HTTP address of its chief, from processes/http. */

enum { PAGE_URL_BYTES = 320 };

/* out = "http://127.0.0.1:8080/". False: the job has no page. */
bool page_url(const char *dir, char out[PAGE_URL_BYTES]);
/* Open the URL with $BROWSER or xdg-open, by exec. Returns only if neither can be started, after a line on stderr. */
void page_open(const char *url);
