/* `gradwire train`: a job on a local cluster, from the job file to the exit code. */
#ifndef GRADWIRE_LAUNCH_TRAIN_H
#define GRADWIRE_LAUNCH_TRAIN_H

/* argv[0] is "train". `start_s` is clock_now_s at the start of the program. Returns the exit code.
 */
int train_main(int argc, char **argv, double start_s);

#endif
