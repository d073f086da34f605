/* The weights of a trained model, for passes that only go forward: besides the flat block, the weights of some layers
 * in the order in which their forward reads them. Any number of threads can share them. */
#ifndef GRADWIRE_MODEL_PACKED_H
#define GRADWIRE_MODEL_PACKED_H

#include "common/base/err.h"
#include "model/model.h"

struct packed;

/* w: the flat block. The model and w must outlive *p. Owns: *p is the caller's, packed_free. Errors: ERR_NOMEM. */
enum err packed_new(struct packed **p, const struct model *m, const float *w,
                    struct errmsg *e) MUST_CHECK;
void packed_free(struct packed *p); /* NULL is ignored */

const float *packed_block(const struct packed *p);           /* w */
const float *packed_of(const struct packed *p, uint32_t op); /* NULL: its forward reads w */

#endif
