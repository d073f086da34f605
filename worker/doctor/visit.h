/* Visits a peer of the job: checks whether it can be reached, and whether it would accept a process with our job,
 * version and token. The peer reports that in its answer to a hello with the role DOCTOR, and changes nothing. */
#ifndef GRADWIRE_WORKER_DOCTOR_VISIT_H
#define GRADWIRE_WORKER_DOCTOR_VISIT_H

#include "common/cluster/cluster.h"
#include "job/job.h"
#include "common/wire/msg.h"
#include "common/net/reach.h"

enum { VISIT_MS = 6000 }; /* for the hellos: longer than a connection waits for a challenge */

struct visit {
    char what[24];           /* "ps 0", "the chief" */
    uint32_t ps;             /* index; 0 for the chief */
    struct reach *reach;     /* the caller's: &r[i] of visit_all */
    bool taken;              /* it would accept us */
    bool refused;            /* it would refuse us */
    Gradwire__Reason reason; /* if refused */
    char why[400];           /* if refused: the text; else why there was no answer */
    /* CLOCK_REALTIME: our clock when the hello was sent and when the answer came; time_ms: the peer's clock in its
     * answer, 0: not reported */
    int64_t asked_ms, answered_ms, time_ms;
};

/* Visit the n peers v (n), all at the same time: first fill in r (n), whether each can be reached; then send hellos to
 * the peers that can. `job` NULL: send no hellos. Errors: ERR_NOMEM, ERR_IO. Blocks for at most REACH_NAMES_MS +
 * REACH_MS for each 64 peers, and VISIT_MS for the hellos. */
enum err visit_all(struct visit *v, struct reach *r, size_t n, const struct job *job,
                   const struct cluster *cluster, struct errmsg *e) MUST_CHECK;

#endif
