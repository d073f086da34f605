/* summary.json: the chief writes it, the launcher completes it when the last process has ended. */
#ifndef GRADWIRE_LAUNCH_SUMMARY_H
#define GRADWIRE_LAUNCH_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "launch/local/crew.h"
#include "launch/base/options.h"
#include "launch/supervisor.h"

/* Put restarts, peak_rss_bytes, exit_code and first_step_s into DIR/summary.json; where the chief
 * left none, write one alone. A status that does not fit the exit code (0 done, 130 and 143
 * interrupted, else failed) is replaced, and the error given. Errors: ERR_IO, ERR_NOMEM. Blocks:
 * fsync. */
enum err summary_complete(const char *dir, const struct supervisor_result *result,
                          const struct options *o, const struct job *job, const struct crew *crew,
                          struct errmsg *e) MUST_CHECK;

/* This run was refused before it changed anything: what the last one left is DIR's summary.json again if it says done.
 * False: it does not, or this run's chief has written one, and nothing was done. */
bool summary_restore(const char *dir);

/* How DIR's last run ended, by its summary.json. */
enum summary_end {
    SUMMARY_NONE, /* there is none */
    SUMMARY_DONE,
    SUMMARY_INTERRUPTED,
    SUMMARY_FAILED /* or it cannot be read */
};
enum summary_end summary_end(const char *dir);

/* The final lines for people. A missing file prints nothing. */
void summary_print(FILE *out, const char *dir);

#endif
