/* The host of the chief's decisions (core/chief.h): their shell on the control thread of the chief's process, with
 * connections to every ps, workers that dial in, the threads that write, and the own session by letters.
 *
 * Happy path: dial each ps, hello -> chief core -> its messages go where it says. Failure modes: a ps that is lost
 * (dialed again), a worker of another job (refused by name), a manifest that cannot be written (told to the core). */
#ifndef GRADWIRE_WORKER_CHIEF_HOST_H
#define GRADWIRE_WORKER_CHIEF_HOST_H

#include "common/checkpoint/checkpoint.h"
#include "common/net/disk_thread.h"
#include "worker/chief/core/chief.h"
#include "worker/chief/epoch_log.h"
#include "worker/control/control.h"

struct host_config {
    const struct layout *layout;
    uint64_t batches_per_epoch;
    const char *output; /* DIR */
    const uint8_t *data_fingerprint;
    uint64_t base_cut;    /* that the job goes on from; UINT64_MAX: none */
    const char *encoding; /* encoding.json of the rows, which each cut gets; NULL: they have none */
    int listen_fd;        /* where workers come in */
    int progress_fd;      /* -1: none */
    const struct journal *journal;
    struct disk_thread *logs_disk;
    double seconds_before;       /* of training, in former runs */
    const struct epoch_log *log; /* the epochs of former processes; read before the first letter */
    bool finished;           /* the job was done before: only tell the others, for a few seconds */
    uint64_t learned_epochs; /* then: in its final checkpoint */
};

struct host;

enum err host_new(struct host **h, const struct host_config *config, struct errmsg *e) MUST_CHECK;
void host_free(struct host *h); /* after control_close */
extern const struct control_ops host_ops;

/* What the chief knew at the end. Thread: any, after control_close; or the host's. */
const struct chief_facts *host_facts(const struct host *h);

/* The chief's core, for chief_account, chief_dropped and chief_staleness; after control_close. NULL: there was none. */
const struct chief *host_chief(const struct host *h);

/* The newest cut of DIR that is whole and checked, below `below`; what is skipped is logged. The identity of the job
 * and of the data that it was taken with are compared by the caller. Errors: ERR_NOTFOUND there is none;
 * ERR_CORRUPT there are some, and none can be used, for the reason that *e has of each: never a reason to begin anew; ERR_NEWER the newest is of a newer
 * release, ERR_NOMEM: what it learned is not thrown away for an older one. *m is the caller's. */
enum err host_find_cut(const char *checkpoints, uint64_t below, struct manifest *m,
                       struct errmsg *e) MUST_CHECK;

#endif
