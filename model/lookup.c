/* Layers over tables: rows by key; the loader lists the keys, and the shards provide the rows. A lookup is one key
 * column; the keys of one row of data in it form a bag, which becomes one vector of the table's dimension. An
 * embedding or embedding_bag layer has its lookups' vectors side by side, a linear layer their sum.
 *
 * Weights and means as in tf.nn.safe_embedding_lookup_sparse: sum w row; mean: / sum w; sqrtn: / sqrt(sum w^2);
 * these two ignore entries whose weight is not above 0. An empty bag is 0. */
#include "model/layers.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/math/kernels.h"

static const struct op_type lookup_op;

enum err lookup_append(struct model *m, const struct job_layer *l, enum bag_mode mode,
                       struct errmsg *e)
{
    assert(m->layout.rows && l->table < m->layout.rows->tables);
    uint32_t dim = m->layout.rows->table[l->table].dim;
    uint64_t width = l->kind == LAYER_LINEAR ? dim : (uint64_t)l->lookups * dim;
    if (l->lookups == 0 || width == 0 || width > INT32_MAX)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: it looks up no key column, or its output is too large",
                       l->name);
    struct op op = {.type = &lookup_op,
                    .layer = l,
                    .outer = 1,
                    .in = dim,
                    .out = (uint32_t)width,
                    .lookups = l->lookups,
                    .lookup.first = l->first_lookup,
                    .lookup.table = l->table,
                    .lookup.bag = mode,
                    .dx = {{SLOT_NONE, SLOT_NONE}}};
    struct tensor bias = {.rank = 1, .shape = {op.out}};
    enum err err =
        l->use_bias ? weights_add(m, &op, &op.bias_offset, &bias, "bias", &l->bias, e) : ERR_OK;
    if (err)
        return err;
    op_append(m, &op);
    m->shape = (struct shape){.rank = 1, .dim = {op.out}};
    return ERR_OK;
}

/* ---- bags ---- */

/* The bag of one row of data in one lookup. */
struct bag {
    uint32_t places;
    const uint32_t *at;  /* (places) */
    const float *weight; /* (places); NULL: all 1 */
    bool positive;       /* entries whose weight is not above 0 are ignored */
    float norm;          /* divisor of the weights */
};

/* The weight of entry i; false: the entry is ignored. */
static bool weight_of(const struct bag *b, uint32_t i, float *weight)
{
    *weight = b->weight ? b->weight[i] : 1.0f;
    return b->at[i] != LOOKUP_NONE && (!b->positive || *weight > 0.0f);
}

static float norm_of(const struct bag *b, enum bag_mode mode)
{
    double sum = 0.0;
    float w;
    for (uint32_t i = 0; i < b->places; i++)
        if (weight_of(b, i, &w))
            sum += mode == BAG_MEAN ? (double)w : (double)w * (double)w;
    return (float)(mode == BAG_MEAN ? sum : sqrt(sum));
}

static struct bag bag_of(const struct lookup_column *c, enum bag_mode mode, size_t row)
{
    size_t first = row * c->width;
    struct bag b = {.places = c->count ? c->count[row] : c->width,
                    .at = c->at + first,
                    .weight = c->weight ? c->weight + first : NULL,
                    .positive = mode != BAG_SUM,
                    .norm = 1.0f};
    if (mode != BAG_SUM)
        b.norm = norm_of(&b, mode);
    return b;
}

/* sum (dim) += row (dim) * share. Inline: rows are short. */
static inline void add_row(float *sum, const float *row, float share, uint32_t dim)
{
    for (uint32_t i = 0; i < dim; i++)
        sum[i] += row[i] * share;
}

/* ---- forward ---- */

static void begin_output(const struct op *op, const struct op_pass *p)
{
    if (!op->layer->use_bias) {
        memset(p->y, 0, p->n * op->out * sizeof *p->y);
        return;
    }
    for (size_t r = 0; r < p->n; r++)
        memcpy(p->y + r * op->out, p->w + op->bias_offset, op->out * sizeof *p->y);
}

/* Offset of lookup k's vector in a row of the output: in linear all have the same. */
static size_t lookup_place(const struct op *op, uint32_t k)
{
    return (size_t)k * op->in % op->out;
}

static void add_bag(const struct op *op, const struct bag *b, float *y, const float *row)
{
    float w;
    for (uint32_t i = 0; i < b->places; i++)
        if (weight_of(b, i, &w))
            add_row(y, row + (size_t)b->at[i] * op->in, w / b->norm, op->in);
}

/* True if each row of data has at most one key, of weight 1: no norm is needed. */
static bool has_single_keys(const struct lookup_column *c)
{
    return c->width == 1 && !c->count && !c->weight;
}

/* y (n, out) = bias + the bags of all lookups, from the table's rows (keys, in) */
static void lookup_forward(const struct op *op, const struct op_pass *p)
{
    const float *row = p->table->w[op->lookup.table];
    const struct lookup_column *column = &p->keys->column[op->lookup.first];
    begin_output(op, p);
    for (size_t r = 0; r < p->n; r++)
        for (uint32_t k = 0; k < op->lookups; k++) {
            const struct lookup_column *c = &column[k];
            float *y = p->y + r * op->out + lookup_place(op, k);
            if (!has_single_keys(c)) {
                struct bag b = bag_of(c, op->lookup.bag, p->first + r);
                add_bag(op, &b, y, row);
            } else if (c->at[p->first + r] != LOOKUP_NONE)
                add_row(y, row + (size_t)c->at[p->first + r] * op->in, 1.0f, op->in);
        }
}

/* ---- backward ---- */

/* db (out) = column sums of dy; rows follow when all ops have gone backward */
static void lookup_backward(const struct op *op, const struct op_pass *p)
{
    if (op->layer->use_bias)
        kernels()->column_sums(p->dw + op->bias_offset, p->dy, p->n, op->out);
}

/* Add dy (out) to the gradient dw (keys, in) of the rows that row r of the data looks up. */
static void add_example(const struct op *op, const struct op_pass *p, float *dw, const float *dy,
                        size_t r)
{
    const struct lookup_column *column = &p->keys->column[op->lookup.first];
    const enum bag_mode mode = op->lookup.bag;
    uint32_t dim = op->in;
    float w;
    for (uint32_t k = 0; k < op->lookups; k++) {
        struct bag b = bag_of(&column[k], mode, r);
        for (uint32_t i = 0; i < b.places; i++)
            if (weight_of(&b, i, &w))
                add_row(dw + (size_t)b.at[i] * dim, dy + lookup_place(op, k), w / b.norm, dim);
    }
}

/* The ops over table t, in their order. */
static uint32_t ops_of(const struct model *m, uint32_t t, const struct op *of[OPS_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->ops; i++)
        if (m->op[i].lookups && m->op[i].lookup.table == t)
            of[n++] = &m->op[i];
    return n;
}

void lookup_backward_rows(const struct model *m, float *const *slot, const struct op_pass *p)
{
    const struct op *of[OPS_MAX];
    for (uint32_t t = 0; m->layout.rows && t < m->layout.rows->tables; t++) {
        uint32_t ops = ops_of(m, t, of);
        for (size_t r = 0; r < p->n; r++)
            for (uint32_t i = 0; i < ops; i++)
                add_example(of[i], p, p->table->dw[t], slot[of[i]->dy] + r * of[i]->out, r);
    }
}

static const struct op_type lookup_op = {.forward = lookup_forward, .backward = lookup_backward};

/* ---- the layers that only look up ---- */

/* Embedding bag: combines the rows that the keys of an example's field look up in a table into one. As
 * torch.nn.EmbeddingBag's sum and mean, and sqrtn of tf.nn.safe_embedding_lookup_sparse. */
enum err embedding_bag_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    return lookup_append(m, l, l->embedding_bag.mode, e);
}

/* Linear: as in logistic regression, or the wide part of Cheng et al. 2016, "Wide & Deep Learning for Recommender
 * Systems": the sum of the weights of all keys that an example looks up, and a bias. */
enum err linear_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    uint32_t dim = m->layout.rows ? m->layout.rows->table[l->table].dim : 0;
    if (dim != 1)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s takes one weight for each key: a table of output_dim 1",
                       l->name);
    return lookup_append(m, l, BAG_SUM, e);
}
