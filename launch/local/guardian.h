/* The guardian: a process that ends the launcher's children if the launcher dies, even by SIGKILL.
 *
 * Happy path: the launcher starts the guardian first, in its own session, and keeps one end of a seqpacket socket pair. Each
 * child, between fork and exec, opens a pidfd of itself and sends it over that socket. The guardian sleeps in poll; a
 * readable pidfd means that a child has ended, and the guardian forgets it. When the job is over, the launcher closes its end
 * of the socket, no child is left, and the guardian exits.
 * Failure modes:
 * - The launcher dies: its end of the socket closes, and the guardian sends SIGTERM to all children that still run, waits at
 *   most GUARDIAN_GRACE_MS, and sends SIGKILL. A pid can belong to another process by then, a pidfd cannot, so signals go to
 *   pidfds only.
 * - The launcher dies between fork and exec of a child: the child registers itself, and holds the socket (close-on-exec)
 *   until it has, so the guardian sees the socket's end only afterwards.
 * - The guardian dies: the launcher gets SIGCHLD, starts another one and passes it the pidfds of its children. It can open
 *   them by pid, since it has not reaped the children.
 * - A user kills all launchers by name: the guardian has another name (it executes the same program as "gradwire-guard"). It
 *   ignores the signals of a terminal.
 * The guardian inherits DIR/lock (common/process/dirlock.h), so DIR stays locked until the last process has ended. It knows
 * processes, not process groups, because the launcher's children start no processes. */
#pragma once

#include <sys/types.h>

#include "common/base/err.h"

#define GUARDIAN_NAME "gradwire-guard"
enum { GUARDIAN_GRACE_MS = 5000, GUARDIAN_LINK_MS = 8000 };

struct guardian {
    pid_t pid; /* 0: none */
    int fd;    /* the launcher's end of the socket pair */
};

/* Errors: ERR_IO. */
enum err guardian_start(struct guardian *g, struct errmsg *e) MUST_CHECK;

/* A remote shell (WARD_LINK) ends by itself after the launcher has died and the processes on its host have ended. It gets no
 * SIGTERM, and SIGKILL only after GUARDIAN_LINK_MS. */
enum ward_kind { WARD_PROCESS, WARD_LINK };
/* Register a child that is not yet reaped, or, in a child between fork and exec, the caller itself. Errors: ERR_IO,
 * also if the kernel has no pidfd. */
enum err guardian_register(const struct guardian *g, pid_t pid, enum ward_kind kind,
                           struct errmsg *e) MUST_CHECK;

/* Close the launcher's end and wait until the guardian has exited. All children must have ended before; otherwise the
 * guardian ends them. Does nothing if none was started. */
void guardian_close(struct guardian *g);

/* The guardian's main function; `fd` is its end of the socket pair. Returns its exit code. */
int guardian_main(int fd);
