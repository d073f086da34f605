/* A lane: one thread's memory to score rows. Rows are added until it is full; a pass then gives their scores. */
#include "model_cli/trained.h"

#include <assert.h>

#include "common/base/mem.h"
#include "predict/folder.h"
#include "data/leaf_room.h"

struct lane {
    const struct folder *folder;
    struct scorer *scorer;
    struct leaf_room *keys; /* NULL: no keys */
    uint32_t rows, features;
    float *x, *y; /* (LANE_ROWS, features); y: labels, which are not used */
    float *z;     /* (LANE_ROWS, outputs) */
};

static enum err lane_make(struct lane *l, struct errmsg *e)
{
    const struct table_schema *s = l->folder->schema;
    l->x = mem_floats((size_t)LANE_ROWS * l->features + 1);
    l->y = mem_floats(LANE_ROWS);
    l->z = mem_floats((size_t)LANE_ROWS * model_outputs(l->folder->model));
    if (!l->x || !l->y || !l->z)
        return err_memory_for(e, "%d rows", LANE_ROWS);
    enum err err = s && s->lookups ? leaf_room_new(&l->keys, s, LANE_ROWS, e) : ERR_OK;
    return err ? err : scorer_new(&l->scorer, l->folder, LANE_ROWS, e);
}

enum err lane_new(struct lane **out, const struct folder *f, struct errmsg *e)
{
    struct lane *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return err_memory_for(e, "%d rows", LANE_ROWS);
    l->folder = f;
    l->features = model_features(f->model);
    enum err err = lane_make(l, e);
    if (err) {
        lane_free(l);
        return err;
    }
    *out = l;
    return ERR_OK;
}

void lane_free(struct lane *l)
{
    if (!l)
        return;
    scorer_free(l->scorer);
    leaf_room_free(l->keys);
    mem_free(l->x);
    mem_free(l->y);
    mem_free(l->z);
    mem_free(l);
}

void lane_clear(struct lane *l)
{
    l->rows = 0;
    if (l->keys)
        leaf_room_clear(l->keys);
}

enum err lane_add(struct lane *l, uint32_t *cells, struct errmsg *e)
{
    const struct table_schema *s = l->folder->schema;
    assert(l->rows < LANE_ROWS);
    schema_scale_row(s, cells);
    table_features(s, cells, l->x + (size_t)l->rows * l->features);
    l->rows++;
    return l->keys ? leaf_room_add(l->keys, cells, e) : ERR_OK;
}

enum err lane_gather(struct lane *l, const struct dataset *d, uint64_t first, uint32_t n,
                     struct errmsg *e)
{
    uint64_t rows[LANE_ROWS];
    assert(n <= LANE_ROWS);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = first + i;
    return dataset_gather(d, rows, n, l->x, l->y, &l->rows, e);
}

uint32_t lane_rows(const struct lane *l)
{
    return l->rows;
}

const float *lane_features(const struct lane *l)
{
    return l->x;
}

enum err lane_keys(struct lane *l, const struct leaf_keys **keys, struct errmsg *e)
{
    *keys = NULL;
    return l->keys ? leaf_room_finish(l->keys, keys, e) : ERR_OK;
}

enum err lane_score(struct lane *l, const float **z, struct errmsg *e)
{
    const struct leaf_keys *keys;
    *z = l->z;
    if (l->rows == 0)
        return ERR_OK;
    enum err err = lane_keys(l, &keys, e);
    return err ? err : scorer_run(l->scorer, l->rows, l->features ? l->x : NULL, keys, l->z, e);
}

void lane_lookup(struct lane *l, const struct leaf_keys *keys, uint32_t i, float *out)
{
    scorer_lookup(l->scorer, l->rows, keys, i, out);
}
