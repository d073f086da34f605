/* The formats of `gradwire export`, and what they cannot express. Pure. */
#pragma once

#include "common/base/err.h"
#include "job/job.h"

/* "onnx", as in --format. */
const char *export_format_word(enum export_format f);
/* The name of the file or directory in DIR/export. */
const char *export_format_file(enum export_format f);

/* Check that the format can express the job's model; docs/reference/export.md has the limits. The size of a model without
 * its tables of keys is checked as far as the job alone tells it. Errors: ERR_INPUT, naming the layer or the column, with the
 * reason. */
enum err export_check(const struct job *job, enum export_format f, struct errmsg *e) MUST_CHECK;
/* The same for each format that the job writes when it ends, with the place of the key. */
enum err export_check_job(const struct job *job, struct errmsg *e) MUST_CHECK;
