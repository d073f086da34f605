/* Facts about a job, for `gradwire compare`, from its output directory: job file, results and history, as far as they
 * exist. Nothing in the files is trusted. */
#ifndef GRADWIRE_MODEL_CLI_COMPARE_JOB_H
#define GRADWIRE_MODEL_CLI_COMPARE_JOB_H

#include <jansson.h>

#include "common/base/err.h"

/* Read the directory. *facts: {"path", "job", "status", "gradwire", "update", "steps", "epochs", "seconds", "data",
 * "digest", "train", "eval", "best", "history"}, unknown values null. *keys: the job file as nested objects, with
 * "[NAME]" for each layer or column; {} without a job file. Both are the caller's, unchanged on error. Errors:
 * ERR_INPUT, naming the directory and what it lacks, or the damaged file; ERR_IO, ERR_NOMEM. */
enum err compare_job_read(const char *path, json_t **facts, json_t **keys,
                          struct errmsg *e) MUST_CHECK;

#endif
