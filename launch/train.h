/* `gradwire train`: runs a job on this host or on several, from the job file to the exit code. */
#ifndef GRADWIRE_LAUNCH_TRAIN_H
#define GRADWIRE_LAUNCH_TRAIN_H

/* argv[0] is "train". Returns the exit code. */
int train_main(int argc, char **argv);

#endif
