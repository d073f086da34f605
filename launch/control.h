/* `gradwire stop DIR` and `gradwire logs DIR`: control a job from another process, through the files that its launcher
 * keeps in DIR. */
#ifndef GRADWIRE_LAUNCH_CONTROL_H
#define GRADWIRE_LAUNCH_CONTROL_H

/* argv[0] is the command. Each function returns its exit code: 0 success; 1 it failed; 2 DIR is not a job's output
 * directory, or a named log does not exist. */
/* Send SIGTERM to the launcher, and wait until the job has ended. Returns 0 also if no job is running. */
int control_stop(int argc, char **argv);
/* logs DIR [-f] [PROCESS]...: print all logs, or those of the named processes ("worker-0"). -f prints the last 20 lines
 * of each, and follows the logs until the job ends. This process becomes tail by exec, so the function returns only on
 * failure. */
int control_logs(int argc, char **argv);

#endif
