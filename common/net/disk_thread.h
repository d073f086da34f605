/* A thread that waits for a disk so that an event loop does not have to. It runs jobs one after the other, in the
 * order of posting; a job reports its result by a letter (mailbox.h). If the jobs of one purpose must not wait for
 * those of another, each purpose has a thread of its own. CONTRIBUTING.md ("Rules for code") lists the disk waits that
 * remain on event loops. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { DISK_JOBS_MAX = 4096 }; /* waiting jobs; more are refused */

struct disk_job;

struct disk_thread {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job was added or done */
    pthread_t pthread;
    bool running, stop;
    size_t jobs; /* including the running one */
    struct disk_job *first, **last;
};

/* The thread itself starts with the first job. */
void disk_thread_init(struct disk_thread *t);
/* Finishes all posted jobs, then ends the thread. The caller must make sure that no thread posts a job
 * during the call or afterwards. Thread: the owner's; blocks. */
void disk_thread_close(struct disk_thread *t);

/* Waits up to `ms` for all posted jobs. If they finish, it does as disk_thread_close and returns true. Otherwise a disk
 * does not respond, and it returns false: the thread continues, and *t and everything that its jobs use must stay until
 * the process ends by _exit. */
bool disk_thread_close_within(struct disk_thread *t, int64_t ms) MUST_CHECK;

/* Posts a job: `run` gets `arg` and owns it. On error the caller still owns `arg`. Errors: ERR_TOOBIG if
 * DISK_JOBS_MAX jobs wait; ERR_NOMEM, also if the thread could not be started. Thread: any; never blocks. */
enum err disk_thread_post(struct disk_thread *t, void (*run)(void *arg), void *arg) MUST_CHECK;
/* Waits until all posted jobs are done. Thread: any but this one, so not inside a job; blocks. */
void disk_thread_settle(struct disk_thread *t);
