/* A model whose input has more features than that of the run before: tells which rows of its tensors are new.
 * Features are only inserted, so the rows that are not new are, in the same order, the rows of the earlier model. */
#ifndef GRADWIRE_MODEL_GROWTH_H
#define GRADWIRE_MODEL_GROWTH_H

#include "model/model.h"

struct model_growth {
    uint32_t tensors;
    uint8_t **fresh; /* (tensors) flags (shape[0]): 1 for each new row; NULL: no new rows */
};

/* fresh (features): 1 for each new feature; such a feature is 0 in each row of data without its word. Owns:
 * model_growth_close, also on error. Errors: ERR_INPUT: a layer would give other values for the earlier words; it is
 * named; ERR_NOMEM. */
enum err model_growth_init(struct model_growth *g, const struct model *m, const uint8_t *fresh,
                           struct errmsg *e) MUST_CHECK;
void model_growth_close(struct model_growth *g);

#endif
