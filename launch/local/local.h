/* Processes on this host: each has a port of 127.0.0.1 for the whole job, is a child of this
 * process, and writes to its log itself. */
#ifndef GRADWIRE_LAUNCH_LOCAL_LOCAL_H
#define GRADWIRE_LAUNCH_LOCAL_LOCAL_H

#include "launch/local/child.h"
#include "launch/local/process.h"

/* Where one of them is kept. */
struct local_place {
    const struct guardian *guardian; /* it runs before the first start */
    struct handed handed; /* at every start; both ports are bound for the whole job. progress (chief
                             and evaluator have one) is not owned */
};

/* Bind and listen on free ports of 127.0.0.1: p->address and p->http. `place` outlives p. Errors: ERR_IO. */
enum err local_settle(struct process *p, struct local_place *place, const struct guardian *guardian,
                      struct errmsg *e) MUST_CHECK;
/* The process has ended or was never started. */
void local_leave(struct local_place *place);

/* A child with this pid ended: if it is this process, that is noted, and true. */
bool local_reaped(struct process *p, pid_t pid, uint64_t peak_rss_bytes);

#endif
