/* Warns of the columns whose different numbers a scale makes equal. */
#ifndef GRADWIRE_DATA_SCALE_NOTE_H
#define GRADWIRE_DATA_SCALE_NOTE_H

#include "common/base/err.h"
#include "data/readers.h"
#include "data/table.h"

/* The rows of the training part have their encoding, and are not scaled yet. Looks at a sample of them. Errors: ERR_NOMEM;
 * ERR_DISK. */
enum err scale_note(const struct table *t, const struct reading *r, struct errmsg *e) MUST_CHECK;

#endif
