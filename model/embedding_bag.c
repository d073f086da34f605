/* Embedding bag: combines the rows that the keys of an example's field look up in a table into one. As
 * torch.nn.EmbeddingBag's sum and mean, and sqrtn of tf.nn.safe_embedding_lookup_sparse. */
#include "model/layers.h"

enum err embedding_bag_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    return lookup_append(m, l, l->embedding_bag.mode, e);
}
