/* Layers that look up rows of tables. */
#include "worker/model/layers.h"

static enum err refuse(const struct job_layer *l, struct errmsg *e)
{
    return err_set(e, ERR_INPUT,
                   "model.layers: %s: layers over tables of rows by key are not supported yet",
                   l->name);
}

enum err embedding_bag_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    (void)m;
    return refuse(l, e);
}

enum err linear_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    (void)m;
    return refuse(l, e);
}
