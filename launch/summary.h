/* summary.json: the chief writes it, the launcher completes it when the last process has ended. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/base/err.h"
#include "job/job.h"
#include "launch/local/crew.h"
#include "launch/base/options.h"
#include "launch/supervisor.h"

/* Add restarts, peak_rss_bytes, exit_code and first_step_s to DIR/summary.json. If the chief wrote no such file, write
 * one from what the launcher knows. A status that contradicts the exit code (0 done, 130 and 143 interrupted, otherwise
 * failed) is replaced. result->error is added if the chief wrote no error. If the job was interrupted and both have an
 * error, the file gets both. Errors: ERR_IO, ERR_NOMEM. Blocks on fsync. */
enum err summary_complete(const char *dir, const struct supervisor_result *result,
                          const struct options *o, const struct job *job, const struct crew *crew,
                          struct errmsg *e) MUST_CHECK;

/* Call if this run was refused before it changed anything: restore the previous run's summary.json if its status is done.
 * False: nothing was restored, because its status is another one, or because this run's chief has written a summary. */
bool summary_restore(const char *dir);

/* The end of DIR's last run, according to its summary.json. */
enum summary_end {
    SUMMARY_NONE, /* no summary.json */
    SUMMARY_DONE,
    SUMMARY_INTERRUPTED,
    SUMMARY_FAILED /* or summary.json cannot be read */
};
enum summary_end summary_end(const char *dir);

/* Print the final lines for people. Prints nothing if summary.json is missing or cannot be read. */
void summary_print(FILE *out, const char *dir);
