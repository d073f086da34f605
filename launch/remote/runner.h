/* `launch runner KEY`: the launcher executes this on another host through a remote shell. It starts the job's processes
 * there, and ends them when the connection to the launcher is lost.
 *
 * Happy path: it takes the lock of KEY on its host, sends READY, binds ports, starts processes on request, and sends
 * their output and exit statuses. In the end the launcher closes its input, no process runs any more, and it exits with
 * 0.
 * Failure modes:
 * - Its input closes, or is silent for TALK_SILENCE_MS: SIGTERM to all processes, and after the grace, at most
 *   RUNNER_GRACE_MAX_MS, SIGKILL to their process groups.
 * - The runner is killed: a guardian (guardian.h) does the same.
 * - An earlier runner's processes still run: they hold the lock, so the new runner waits, and no process runs twice.
 * - The processes write more than the connection can take: output beyond RUNNER_QUEUE_MAX_BYTES is dropped, and a line
 *   in the process's log gives the number of dropped bytes. A process never waits for its log. */
#ifndef GRADWIRE_LAUNCH_REMOTE_RUNNER_H
#define GRADWIRE_LAUNCH_REMOTE_RUNNER_H

enum {
    RUNNER_GRACE_MAX_MS = 5000,
    RUNNER_IDLE_SILENCE_MS =
        60000, /* while no process runs: the launcher can be waiting for a lock */
    RUNNER_QUEUE_MAX_BYTES = 4 << 20,
    RUNNER_PROCESSES_MAX = 4096
};

/* argv[0] is the command. Returns the exit code. */
int runner_main(int argc, char **argv);

#endif
