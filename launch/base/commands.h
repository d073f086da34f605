/* The commands of the launcher: argv[0] is the command's name. Each returns the exit code. */
#ifndef GRADWIRE_LAUNCH_BASE_COMMANDS_H
#define GRADWIRE_LAUNCH_BASE_COMMANDS_H

/* argv[0] is "train". Returns the exit code. */
int train_main(int argc, char **argv);

/* argv[0] is the command. Returns the exit code. */
int runner_main(int argc, char **argv);

/* argv[0] is the command. Returns the exit code. 0: the job is running. Not running: 1 the last run failed, 3 the job is
 * done, 4 run it again to resume. 2: DIR is not a job's directory. */
int status_main(int argc, char **argv);

/* argv[0] is the command. Each function returns its exit code: 0 success; 1 it failed; 2 DIR is not a job's output
 * directory, or a named log does not exist. */
/* Send SIGTERM to the launcher, and wait until the job has ended. Returns 0 also if no job is running. */
int control_stop(int argc, char **argv);
/* logs DIR [-f] [PROCESS]...: print all logs, or those of the named processes ("worker-0"). -f prints the last 20 lines
 * of each, and follows the logs until the job ends. This process becomes tail by exec, so the function returns only on
 * failure. */
int control_logs(int argc, char **argv);

/* argv[0] is the command. Returns the exit code. 0: listed, or all named directories were removed. 1: at least one was not
 * removed. 2: DIR is not a job's directory and no DIR.N exists, or the named number does not exist. */
int old_main(int argc, char **argv);

#endif
