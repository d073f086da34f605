#include "tests/lib/leaf.h"

#include <assert.h>
#include <string.h>

#include "common/base/rng.h"

static void draw_lists(struct drawn_leaf *l, const struct job *job, uint64_t seed)
{
    assert(job->model.lists <= LEAF_TABLES);
    for (uint32_t i = 0; i < job->model.lists; i++) {
        for (uint32_t k = 0; k < LEAF_KEYS; k++)
            l->mixed[i][k] = (UINT64_C(1) << 61) * k + rng_u64(seed, i * 100 + k) % 1000;
        l->list[i] = (struct key_list){LEAF_KEYS, l->mixed[i]};
    }
}

static void draw_rows(struct drawn_leaf *l, const struct job *job, uint64_t seed)
{
    assert(job->model.tables <= LEAF_TABLES);
    for (uint32_t t = 0; t < job->model.tables; t++) {
        assert(job->model.table[t].dim <= LEAF_DIM);
        for (uint32_t i = 0; i < LEAF_ELEMS; i++)
            l->w[t][i] = 2.0f * rng_unit(seed + 7, t * 1000 + i) - 1.0f;
        l->rows.w[t] = l->w[t];
        l->rows.dw[t] = l->dw[t];
    }
}

/* One place in six is missing; a weight in six is 0, and one below. */
static void draw_place(struct drawn_leaf *l, uint32_t lookup, uint32_t place, uint64_t seed)
{
    uint64_t draw = rng_u64(seed + 11, lookup * 1000 + place);
    l->at[lookup][place] = draw % 6 == 0 ? LOOKUP_NONE : (uint32_t)(draw / 8 % LEAF_KEYS);
    l->weight[lookup][place] =
        draw / 64 % 6 == 0 ? 0.0f : 2.0f * rng_unit(seed + 13, lookup * 1000 + place) - 0.3f;
}

static void draw_column(struct drawn_leaf *l, uint32_t i, uint32_t width, uint32_t n, uint64_t seed)
{
    bool counted = width > 1 && i % 3 != 2, weighted = width > 1 && i % 2 == 0;
    for (uint32_t r = 0; r < n; r++)
        l->count[i][r] = (uint32_t)(rng_u64(seed + 17, i * 1000 + r) % (width + 1));
    for (uint32_t p = 0; p < n * width; p++)
        draw_place(l, i, p, seed);
    l->column[i] = (struct lookup_column){.width = width,
                                          .count = counted ? l->count[i] : NULL,
                                          .at = l->at[i],
                                          .weight = weighted ? l->weight[i] : NULL};
}

void leaf_draw(struct drawn_leaf *l, const struct job *job, uint32_t n, uint64_t seed)
{
    assert(n <= LEAF_ROWS && job->model.lookups <= LEAF_LOOKUPS);
    memset(l, 0, sizeof *l);
    draw_lists(l, job, seed);
    draw_rows(l, job, seed);
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *layer = &job->model.layer[i];
        uint32_t width = layer->kind == LAYER_EMBEDDING_BAG ? LEAF_WIDTH : 1;
        for (uint32_t k = 0; k < layer->lookups; k++)
            draw_column(l, layer->first_lookup + k, width, n, seed);
    }
    l->keys = (struct leaf_keys){.lists = job->model.lists,
                                 .list = l->list,
                                 .columns = job->model.lookups,
                                 .column = l->column};
}

void leaf_forget_gradient(struct drawn_leaf *l)
{
    memset(l->dw, 0, sizeof l->dw);
}

const struct leaf_keys *leaf_from(const struct drawn_leaf *l, uint32_t first)
{
    static struct lookup_column column[LEAF_LOOKUPS];
    static struct leaf_keys keys;
    for (uint32_t i = 0; i < l->keys.columns; i++) {
        const struct lookup_column *c = &l->column[i];
        column[i] =
            (struct lookup_column){.width = c->width,
                                   .count = c->count ? c->count + first : NULL,
                                   .at = c->at + first * c->width,
                                   .weight = c->weight ? c->weight + first * c->width : NULL};
    }
    keys = l->keys;
    keys.column = column;
    return &keys;
}
