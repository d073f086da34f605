/* gradwire doctor: before a job starts, it checks all that the job needs from this host and its peers, and reports
 * what to fix. It changes nothing: the file that it writes to measure a disk is removed. */
#pragma once

#include "common/flags/flags.h"

/* Print a line for each check to stdout, or one JSON object (flags->doctor_json). Returns the exit code: 2 if a
 * check failed. Thread: start-up; blocks, for at most about half a minute. */
int doctor_run(const struct flags *flags);

/* For the launcher, before it starts any process (flags->doctor_crew): print a line for each check that finds a
 * problem. Returns as doctor_run. Thread: start-up; reads the beginnings of files. */
int doctor_run_crew(const struct flags *flags);
