/* `gradwire status DIR`: is the job of DIR running, and where does it stand? By what a launcher or the ranks leave in DIR,
 * and by DIR/lock, which only a running job holds. */
#ifndef GRADWIRE_LAUNCH_STATUS_H
#define GRADWIRE_LAUNCH_STATUS_H

/* argv[0] is the command. Returns the exit code. 0: it runs. It does not: 1 the last run failed, 3 it was done, 4 start it
 * again to resume. 2: DIR is not a job's folder. */
int status_main(int argc, char **argv);

#endif
