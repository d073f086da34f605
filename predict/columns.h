/* The columns of a raw row: the number, category, key and keys columns of the job's data.columns, in their order. Crosses come
 * after them: a row has no values for these. */
#ifndef GRADWIRE_PREDICT_COLUMNS_H
#define GRADWIRE_PREDICT_COLUMNS_H

#include "predict/folder.h"
#include "data/csv_rows.h"

struct columns {
    uint32_t values, crosses;
    /* (values + crosses); `cell` of a cross is the index of the schema's key */
    struct csv_field *of;
};

/* All zero for a folder whose rows have no columns. Owns: columns_close. Errors: ERR_NOMEM. */
enum err columns_init(struct columns *c, const struct folder *f, struct errmsg *e) MUST_CHECK;
void columns_close(struct columns *c);

#endif
