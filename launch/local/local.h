/* Processes on this host. Each is a child of the launcher, has a port of 127.0.0.1 for the whole job, and writes its log
 * itself. */
#ifndef GRADWIRE_LAUNCH_LOCAL_LOCAL_H
#define GRADWIRE_LAUNCH_LOCAL_LOCAL_H

#include "launch/local/child.h"
#include "launch/local/process.h"

/* The local part of one process. */
struct local_place {
    const struct guardian *guardian; /* it must run before the first start */
    /* Inherited at every start. The ports stay bound for the whole job. `progress` (chief, evaluator) is not owned. */
    struct handed handed;
    bool started; /* the process was started before in this job */
};

/* Bind and listen on free ports of 127.0.0.1; sets p->address and p->http. `place` outlives p. Close with local_leave,
 * also after an error. Errors: ERR_IO. */
enum err local_settle(struct process *p, struct local_place *place, const struct guardian *guardian,
                      struct errmsg *e) MUST_CHECK;
/* Close its descriptors. The process must have ended, or was never started. */
void local_leave(struct local_place *place);

/* A child with this pid has ended. True: it was this process; its end is noted. */
bool local_reaped(struct process *p, pid_t pid, uint64_t peak_rss_bytes);

#endif
