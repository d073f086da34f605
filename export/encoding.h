/* encoding.json, next to a model that was trained on a csv; docs/reference/encoding.md defines its contents. */
#ifndef GRADWIRE_EXPORT_ENCODING_H
#define GRADWIRE_EXPORT_ENCODING_H

#include "common/base/err.h"
#include "job/job.h"
#include "data/table.h"

/* Make the file's text; *text is the caller's (free). The same schema gives the same bytes. Errors: ERR_NOMEM. */
enum err export_encoding_text(const struct job *job, const struct table_schema *s, char **text,
                              struct errmsg *e) MUST_CHECK;
/* Write the file. `s`: as the training part has taught it. Atomic. Errors: ERR_IO, ERR_NOMEM. */
enum err export_encoding(const char *path, const struct job *job, const struct table_schema *s,
                         struct errmsg *e) MUST_CHECK;

#endif
