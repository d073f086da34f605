/* `gradwire stop|logs DIR`: act on a job from outside, through what its launcher keeps in DIR. */
#ifndef GRADWIRE_LAUNCH_CONTROL_H
#define GRADWIRE_LAUNCH_CONTROL_H

/* argv[0] is the command. Each returns its exit code: 0; 1 it did not work; 2 DIR is not a job's
 * folder. */
/* SIGTERM to the launcher, and wait until the job has ended. Nothing to stop is fine: 0. */
int control_stop(int argc, char **argv);
/* logs DIR [-f] [PROCESS]...: all logs, or those of "worker-0" and so on; -f follows them until the
 * job ends. */
int control_logs(int argc, char **argv);

#endif
