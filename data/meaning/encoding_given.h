/* The encoding that a checkpoint defines: reads the encoding.json (docs/reference/encoding.md) of an earlier job into
 * the schema by which this job's rows are read. The input columns must be the same, in the same order; other columns
 * can differ. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "data/meaning/schema.h"

/* `arithmetic` in the file: numbers with a scale or buckets are doubles until they are encoded. Without it they are
 * floats before that (schema_round). */
#define ENCODING_ARITHMETIC "float64"

struct encoding_given {
    /* text of an encoding.json; nothing in it is trusted. NULL: the checkpoint is of release 0.1.0, which kept none, and
     * the training part teaches what it taught then, with its arithmetic */
    const char *text;
    size_t bytes;
    const char *from; /* its name in messages */
    bool extends;     /* words of the training part that are not in it are added as new ones */
};

/* Whether an encoding is given that teaches in place of the training part; g can be NULL. */
bool encoding_given_teaches(const struct encoding_given *g);
/* Call before the first row. Errors: ERR_INPUT: a column, scale, vocabulary or border differs from the job's; it is
 * named; ERR_CORRUPT: not such a file; ERR_NOMEM. */
enum err encoding_given_take(struct table_schema *s, const struct encoding_given *g,
                             struct errmsg *e) MUST_CHECK;
