/* `gradwire old DIR`: lists and removes the directories DIR.1, DIR.2, ... which `train --fresh` moved aside.
 *
 * Happy path: one line per directory says how its run ended, when, and how much disk it takes; --remove=N or
 * --remove=all removes directories.
 * Failure modes: a directory is kept, with a line that gives the reason, if a job runs in it or ranks are starting one,
 * if its lock cannot be taken, if it is a symbolic link, if gradwire did not make it, or if it has a file that gradwire
 * did not write. If a removal is interrupted, the same command finishes it, because the files that identify the
 * directory are removed last. */
#ifndef GRADWIRE_LAUNCH_OLD_H
#define GRADWIRE_LAUNCH_OLD_H

/* argv[0] is the command. Returns the exit code. 0: listed, or all named directories were removed. 1: at least one was not
 * removed. 2: DIR is not a job's directory and no DIR.N exists, or the named number does not exist. */
int old_main(int argc, char **argv);

#endif
