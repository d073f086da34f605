/* `gradwire old DIR`: the folders DIR.1, DIR.2 .. that `train --fresh` moved aside: list them, remove them.
 *
 * Happy path: a line for each says how its run ended, when, and what it takes on the disk; with --remove=N or --remove=all
 * they are removed. Failure modes: a folder is kept, with a line that says why, if a job runs in it, if the lock
 * does not tell whether one does, if it is a link, if gradwire did not make it, or if it has a file that gradwire did not
 * write. The same command finishes a removal that was interrupted: the files that show that a folder is ours are removed last. */
#ifndef GRADWIRE_LAUNCH_OLD_H
#define GRADWIRE_LAUNCH_OLD_H

/* argv[0] is the command. Returns the exit code. 0: listed, or all that was named is removed. 1: one of them could not be
 * removed. 2: DIR is not a job's folder and has none beside it, or there is no such number. */
int old_main(int argc, char **argv);

#endif
