/* A model whose input has more features than the one before it: which rows of its tensors are new. Features are only ever
 * inserted, so a row that is not new is, in order, a row of the former model. */
#ifndef GRADWIRE_WORKER_MODEL_GROWTH_H
#define GRADWIRE_WORKER_MODEL_GROWTH_H

#include "worker/model/model.h"

struct model_growth {
    uint32_t tensors;
    uint8_t **fresh; /* (tensors): 1 for each new row of (shape[0]); NULL: none is new */
};

/* fresh (features): 1 for each new one, which is 0 wherever its word is not. Owns: model_growth_close, also on error.
 * Errors: ERR_INPUT a layer that would give other values for the words that were there, naming it; ERR_NOMEM. */
enum err model_growth_init(struct model_growth *g, const struct model *m, const uint8_t *fresh,
                           struct errmsg *e) MUST_CHECK;
void model_growth_close(struct model_growth *g);

#endif
