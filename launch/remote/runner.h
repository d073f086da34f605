/* `launch runner KEY`: what the launcher starts on another host by a remote shell. It starts the
 * job's processes there, and sees to it that they never outlive the link.
 *
 * Happy path: it takes the lock of KEY on its host, says READY, binds ports, starts processes when
 * told, sends what they write, and how they ended. The launcher closes its input; nothing runs any
 * more; it exits 0.
 * Failure modes:
 *   - Its input closes, or is silent for TALK_SILENCE_MS: SIGTERM to all, and after the grace, at
 *     most RUNNER_GRACE_MAX_MS, SIGKILL to their process groups.
 *   - It is killed itself: a guardian (guardian.h) does the same.
 *   - A former runner's processes still live: the lock is theirs too, so the new runner waits, and
 *     what it starts is never there twice.
 *   - The link is slower than what the processes write: what does not fit RUNNER_QUEUE_MAX_BYTES is
 *     left out, with a line that says so. A process never waits for its log. */
#ifndef GRADWIRE_LAUNCH_REMOTE_RUNNER_H
#define GRADWIRE_LAUNCH_REMOTE_RUNNER_H

enum {
    RUNNER_GRACE_MAX_MS = 5000,
    RUNNER_IDLE_SILENCE_MS = 60000, /* while nothing runs: the launcher may wait for a lock */
    RUNNER_QUEUE_MAX_BYTES = 4 << 20,
    RUNNER_PROCESSES_MAX = 4096
};

/* argv[0] is the command. Returns the exit code. */
int runner_main(int argc, char **argv);

#endif
