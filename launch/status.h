/* `gradwire status DIR`: prints if DIR's job is running, and its progress. It uses the files that a launcher or the ranks
 * write to DIR, and DIR/lock, which only a running job holds. */
#ifndef GRADWIRE_LAUNCH_STATUS_H
#define GRADWIRE_LAUNCH_STATUS_H

/* argv[0] is the command. Returns the exit code. 0: the job is running. Not running: 1 the last run failed, 3 the job is
 * done, 4 run it again to resume. 2: DIR is not a job's directory. */
int status_main(int argc, char **argv);

#endif
