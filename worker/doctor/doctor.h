/* gradwire doctor: looks, before a job starts, at all that it will want of this host and of its peers, and says what to
 * mend. Changes nothing: what it writes to measure a disk is gone when it ends. */
#ifndef GRADWIRE_WORKER_DOCTOR_DOCTOR_H
#define GRADWIRE_WORKER_DOCTOR_DOCTOR_H

#include "common/flags/flags.h"

/* A line for each check on stdout, or one object (flags->doctor_json). Returns the exit code: 2 where one failed.
 * Thread: start-up; blocks, for about half a minute at most. */
int doctor_run(const struct flags *flags);

/* For the launcher, before it starts anything (flags->doctor_crew): a line for each check that does not find what it needs.
 * Returns as doctor_run. Thread: start-up; reads the beginnings of files. */
int doctor_run_crew(const struct flags *flags);

#endif
