/* What rows mean by a checkpoint: the encoding.json (docs/reference/data.md) of a job that was there before, into the schema by which
 * this job's rows are read. Columns that are inputs must be the same ones, in the same order; others may differ. */
#ifndef GRADWIRE_WORKER_DATA_ENCODING_GIVEN_H
#define GRADWIRE_WORKER_DATA_ENCODING_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "worker/data/table.h"

struct encoding_given {
    const char *text; /* of an encoding.json, read with care: it may be anybody's */
    size_t bytes;
    const char *from; /* its name in messages */
    bool extends;     /* words of the training part that are not in it become new ones */
};

/* Before the first row. Errors: ERR_INPUT another column, or another scale, vocabulary or border than the job gives, naming
 * it; ERR_CORRUPT it is no such file; ERR_NOMEM. */
enum err encoding_given_take(struct table_schema *s, const struct encoding_given *g,
                             struct errmsg *e) MUST_CHECK;
#endif
