/* A look at a peer of the job: can it be reached, and would it take a process with our job, version and token? It says so
 * in the answer to a hello whose role is DOCTOR, and nothing changes there. */
#ifndef GRADWIRE_WORKER_DOCTOR_VISIT_H
#define GRADWIRE_WORKER_DOCTOR_VISIT_H

#include "common/cluster/cluster.h"
#include "common/job/job.h"
#include "common/wire/msg.h"
#include "common/net/reach.h"

enum { VISIT_MS = 6000 }; /* for the hellos: longer than a dialer waits for a challenge */

struct visit {
    char what[24];           /* "ps 0", "the chief" */
    uint32_t ps;             /* index; of the chief 0 */
    struct reach *reach;     /* the caller's: &r[i] of visit_all */
    bool taken;              /* it would take us */
    bool refused;            /* it would not */
    Gradwire__Reason reason; /* then */
    char why[400];           /* then; or why nothing was heard */
    int64_t asked_ms, answered_ms,
        time_ms; /* CLOCK_REALTIME; time_ms: of the peer, 0: it did not tell */
};

/* All of them at once, r (n) first. `job` NULL: whether they can be reached, and no more. Errors: ERR_NOMEM, ERR_IO.
 * Blocks: REACH_NAMES_MS + REACH_MS for each 64 of them, and VISIT_MS. */
enum err visit_all(struct visit *v, struct reach *r, size_t n, const struct job *job,
                   const struct cluster *cluster, struct errmsg *e) MUST_CHECK;

#endif
