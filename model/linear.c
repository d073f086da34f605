/* Linear: as in logistic regression, or the wide part of Cheng et al. 2016, "Wide & Deep Learning for Recommender
 * Systems": the sum of the weights of all keys that an example looks up, and a bias. */
#include "model/layers.h"

enum err linear_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    uint32_t dim = m->layout.rows ? m->layout.rows->table[l->table].dim : 0;
    if (dim != 1)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s takes one weight for each key: a table of output_dim 1",
                       l->name);
    return lookup_append(m, l, BAG_SUM, e);
}
