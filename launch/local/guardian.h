/* Nobody is left behind, even where the launcher is killed with SIGKILL: a process that outlives
 * it.
 *
 * Happy path: the launcher starts the guardian first, in a session of its own, and keeps one end of
 * a seqpacket socket pair. Each child, between fork and exec, opens a pidfd of itself and sends it
 * over that socket. The guardian sleeps in poll; a pidfd that turns readable is a child that ended,
 * and is forgotten. When the job is over, the launcher's end closes, nobody is left, the guardian
 * exits. Failure modes: the launcher dies, by whatever signal: the socket's end closes with it, and
 * the guardian sends SIGTERM to all that still run, waits at most GUARDIAN_GRACE_MS, and sends
 * SIGKILL.
 *   - A pid may be another process's by then; a pidfd never is. So signals go to pidfds only.
 *   - A launcher that dies between a fork and the exec leaves no gap: the child registers itself,
 * and it holds the socket (close-on-exec) until it has, so that the guardian sees the end only
 * afterwards.
 *   - The guardian dies: the launcher gets SIGCHLD, starts another and hands it the pidfds of its
 * children, which it may open by pid since it has not reaped them.
 *   - It runs under its own name (exec of the same program as "gradwire-guard"), so that a kill of
 * all launchers by name does not hit it; it ignores the signals of a terminal.
 *   - It inherits DIR/lock (common/process/dirlock.h): the folder stays locked until the last process is
 * gone. The guardian knows processes, not groups: what a launcher starts forks nothing. */
#ifndef GRADWIRE_LAUNCH_LOCAL_GUARDIAN_H
#define GRADWIRE_LAUNCH_LOCAL_GUARDIAN_H

#include <sys/types.h>

#include "common/base/err.h"

#define GUARDIAN_NAME "gradwire-guard"
enum { GUARDIAN_GRACE_MS = 5000, GUARDIAN_LINK_MS = 8000 };

struct guardian {
    pid_t pid; /* 0: none */
    int fd;    /* the launcher's end */
};

enum err guardian_start(struct guardian *g, struct errmsg *e) MUST_CHECK;

/* A remote shell (WARD_LINK) ends by itself when the launcher is gone and what it started on its
 * host has ended. It gets no SIGTERM, and SIGKILL only after GUARDIAN_LINK_MS. */
enum ward_kind { WARD_PROCESS, WARD_LINK };
/* Register a child that is not yet reaped; or, in a child between fork and exec, itself. */
enum err guardian_register(const struct guardian *g, pid_t pid, enum ward_kind kind,
                           struct errmsg *e) MUST_CHECK;

/* Close our end and wait until the guardian is gone; all children must have ended before. */
void guardian_close(struct guardian *g);

/* The guardian itself; `fd` is its end of the pair. Returns its exit code. */
int guardian_main(int fd);

#endif
