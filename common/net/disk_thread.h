/* A thread that waits for a disk, so that an event loop does not: jobs come in, are done one after the other in the order
 * of posting, and answer with letters (mailbox.h). There is one for each thing that must not wait for another.
 * CONTRIBUTING.md ("What we ask of code") lists the waits for a disk that are still on a loop. */
#ifndef GRADWIRE_COMMON_NET_DISK_THREAD_H
#define GRADWIRE_COMMON_NET_DISK_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { DISK_JOBS_MAX = 4096 }; /* that wait; more are refused */

struct disk_job;

struct disk_thread {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is a job, or none is left */
    pthread_t pthread;
    bool running, stop;
    size_t jobs; /* with the one that is being done */
    struct disk_job *first, **last;
};

/* Starts no thread yet: the first job does. */
void disk_thread_init(struct disk_thread *t);
/* All that was posted is done before. Thread: the owner's; nobody posts from here on. */
void disk_thread_close(struct disk_thread *t);

/* The same, if all that was posted is done within `ms`. Returns false if a disk does not answer: then the thread continues,
 * and *t and all that its jobs use must stay until the process ends, by _exit. */
bool disk_thread_close_within(struct disk_thread *t, int64_t ms) MUST_CHECK;

/* `run` gets `arg`, and owns it. Errors: ERR_TOOBIG DISK_JOBS_MAX jobs wait; ERR_NOMEM, also where no thread could be
 * started: arg is the caller's then. Thread: any; never blocks. */
enum err disk_thread_post(struct disk_thread *t, void (*run)(void *arg), void *arg) MUST_CHECK;
/* Wait until all that was posted is done. */
void disk_thread_settle(struct disk_thread *t);

#endif
