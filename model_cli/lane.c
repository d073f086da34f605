/* A lane: one thread's memory to score rows. Rows are added until it is full; a pass then gives their scores. */
#include "model_cli/trained.h"

#include "common/base/mem.h"
#include "evaluate/evaluate.h"
#include "predict/folder.h"

struct lane {
    const struct folder *folder;
    struct scorer *scorer;
    struct leaf_buffer *buffer;
    struct leaf leaf;          /* the rows, once they are all there */
    float *z;                  /* (LANE_ROWS, outputs) */
    struct row_misses *misses; /* (lookups of the schema) */
};

static enum err lane_make(struct lane *l, struct errmsg *e)
{
    const struct folder *f = l->folder;
    const struct leaf_form form = folder_form(f);
    l->z = mem_floats((size_t)LANE_ROWS * model_outputs(f->model));
    if (f->schema && f->schema->lookups)
        l->misses = mem_zalloc(f->schema->lookups, sizeof *l->misses);
    if (!l->z || (f->schema && f->schema->lookups && !l->misses))
        return err_memory_for(e, "%d rows", LANE_ROWS);
    enum err err = leaf_buffer_new(&l->buffer, &form, LANE_ROWS, LEAF_ALL, e);
    if (!err)
        err = scorer_new(&l->scorer, f, LANE_ROWS, e);
    return err || !l->misses ? err : scorer_watch(l->scorer, l->misses, e);
}

enum err lane_new(struct lane **out, const struct folder *f, struct errmsg *e)
{
    struct lane *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return err_memory_for(e, "%d rows", LANE_ROWS);
    l->folder = f;
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
    leaf_buffer_free(l->buffer);
    mem_free(l->z);
    mem_free(l->misses);
    mem_free(l);
}

void lane_clear(struct lane *l)
{
    leaf_buffer_clear(l->buffer);
}

enum err lane_add(struct lane *l, uint32_t *cells, struct errmsg *e)
{
    schema_scale_row(l->folder->schema, cells);
    return leaf_buffer_add(l->buffer, cells, e);
}

uint32_t lane_rows(const struct lane *l)
{
    return leaf_buffer_rows(l->buffer);
}

enum err lane_finish(struct lane *l, const struct leaf **leaf, struct errmsg *e)
{
    *leaf = &l->leaf;
    return leaf_buffer_finish(l->buffer, &l->leaf, e);
}

enum err lane_gather(struct lane *l, struct source *source, uint64_t first, uint32_t n,
                     const struct leaf **leaf, struct errmsg *e)
{
    *leaf = &l->leaf;
    return source_block(source, first, n, l->buffer, &l->leaf, e);
}

enum err lane_score(struct lane *l, const float **z, struct errmsg *e)
{
    const struct leaf *m = &l->leaf;
    *z = l->z;
    return m->n ? scorer_run(l->scorer, m->n, model_features(l->folder->model) ? m->x : NULL,
                             m->keys, l->z, e)
                : ERR_OK;
}

void lane_lookup(struct lane *l, uint32_t i, float *out)
{
    scorer_lookup(l->scorer, l->leaf.n, l->leaf.keys, i, out);
}

void lane_join_misses(struct lane *l, const struct lane *other)
{
    for (uint32_t i = 0; l->misses && i < l->folder->schema->lookups; i++)
        row_misses_join(&l->misses[i], &other->misses[i]);
}

void lane_say_misses(const struct lane *l)
{
    const struct folder *f = l->folder;
    const struct row_reader rows = folder_rows(f);
    if (l->misses)
        evaluator_say_misses(&f->job, f->schema, model_layout(f->model)->rows, l->misses, &rows);
}
