/* The shell of the chief's decisions (core/chief.h) on the control thread of the chief's process: it has the
 * connections to every ps and from the workers, and the threads that write; it exchanges letters with the own
 * session.
 *
 * Happy path: connect to each ps, hello -> the chief's core -> its messages go where the core says.
 * Failure modes: a ps is lost (connected again), a worker of another job (refused by name), a manifest that cannot
 * be written (reported to the core). */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "common/net/disk_thread.h"
#include "common/net/loop.h"
#include "worker/chief/core/chief.h"
#include "worker/chief/epoch_log.h"
#include "worker/control/control.h"

struct host_config {
    const struct layout *layout;
    uint64_t batches_per_epoch;
    uint32_t window_batches;         /* as in struct chief_config */
    const char *output;              /* DIR */
    const struct contents *contents; /* of the training data */
    uint64_t base_cut;               /* the cut that the job resumes from; UINT64_MAX: none */
    /* encoding.json of the rows, which each cut gets; NULL: the data need none */
    const char *encoding;
    int listen_fd;   /* the listening socket for workers */
    int progress_fd; /* -1: none */
    const struct journal *journal;
    const char *blas; /* as in struct chief_config */
    struct disk_thread *logs_disk;
    double seconds_before; /* seconds of training in earlier runs */
    /* epochs of the earlier processes; read before the first letter */
    const struct epoch_log *log;
    /* the job was done before: only report that to the others, for a few seconds */
    bool finished;
    uint64_t learned_epochs; /* if finished: number of epochs in the final checkpoint */
    uint64_t unkept_step;    /* as in struct chief_config */
};

struct host;

/* Copies *config; the objects that it points to must outlive *h. Nothing starts before control_init with host_ops.
 * Errors: ERR_NOMEM. */
enum err host_new(struct host **h, const struct host_config *config, struct errmsg *e) MUST_CHECK;
void host_free(struct host *h); /* after control_close */
extern const struct control_ops host_ops;

/* The chief's counts at the end. Thread: any, after control_close; before that the control thread. */
const struct chief_facts *host_facts(const struct host *h);

/* The chief's core, for chief_account, chief_dropped and chief_staleness; after control_close. NULL: it was never
 * made. */
const struct chief *host_chief(const struct host *h);

/* Find the newest complete and checked cut in DIR below `below`; cuts that are skipped are logged. The caller
 * compares the identity of job and data. Errors: ERR_NOTFOUND: no cut; ERR_CORRUPT: cuts exist, but none can be
 * used, and *e has the reason for each (never a reason to begin from scratch); ERR_NEWER: the newest is from a newer
 * release, and an older one would lose what it learned; ERR_NOMEM. *m is the caller's. */
enum err host_find_cut(const struct place *checkpoints, uint64_t below, struct manifest *m,
                       struct errmsg *e) MUST_CHECK;

/* Find the newest final cut, and check all of it. An older cut never takes its place: its rows are not those of the
 * weights that the job has learned. Errors: ERR_NOTFOUND: no cut is final; ERR_CORRUPT, ERR_NEWER, ERR_IO: it, or a
 * newer one's manifest, cannot be read; ERR_NOMEM. *e names the file. *m is the caller's. */
enum err host_find_final(const struct place *checkpoints, struct manifest *m,
                         struct errmsg *e) MUST_CHECK;
