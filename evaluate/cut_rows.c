/* Rows of tables from a checkpoint: one pass over its files copies those whose keys are wanted. Keys that the checkpoint lacks
 * have their first values. */
#include "evaluate/evaluate.h"

#include <inttypes.h>
#include <string.h>

#include "common/checkpoint/checkpoint_rows.h"
#include "common/place/place.h"

struct pass {
    struct row_values *v;
    uint64_t seed;
    struct checkpoint_tables tables;
    /* index in the layout, by the checkpoint's index; ROW_TABLES_MAX: none */
    uint32_t table_of[ROW_TABLES_MAX];
    /* for each table of the layout: its first key that is not passed yet */
    uint32_t at[ROW_TABLES_MAX];
};

/* The table has no more rows below this key. */
static void pass_miss_below(struct pass *p, uint32_t t, uint64_t mixed)
{
    const struct row_value_keys *list = &p->v->list[p->v->layout->table[t].list];
    while (p->at[t] < list->keys && list->mixed[p->at[t]] < mixed)
        row_values_miss(p->v, t, p->seed, p->at[t]++);
}

/* All rows are passed. */
static void pass_miss_rest(struct pass *p, uint32_t t)
{
    while (p->at[t] < p->v->list[p->v->layout->table[t].list].keys)
        row_values_miss(p->v, t, p->seed, p->at[t]++);
}

static enum err pass_find_table(const struct cut_rows *c, struct pass *p, uint32_t table,
                                struct errmsg *e)
{
    const struct row_table_spec *spec = &p->v->layout->table[table];
    uint32_t i = 0;
    while (i < p->tables.tables && strcmp(p->tables.table[i].name, spec->name) != 0)
        i++;
    if (i == p->tables.tables)
        return err_set(e, ERR_INPUT,
                       "%s: checkpoint %" PRIu64 " has no table %s, but the model has one",
                       c->place->where, c->manifest->cut, spec->name);
    if (p->tables.table[i].dim != spec->dim)
        return err_set(
            e, ERR_INPUT,
            "%s: table %s of checkpoint %" PRIu64 " has rows of %u numbers, the model's have %u",
            c->place->where, spec->name, c->manifest->cut, p->tables.table[i].dim, spec->dim);
    p->table_of[i] = table;
    return ERR_OK;
}

static enum err pass_find_tables(const struct cut_rows *c, struct pass *p, struct errmsg *e)
{
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++)
        p->table_of[i] = ROW_TABLES_MAX;
    enum err err = checkpoint_read_tables(c->place, c->manifest, &p->tables, e);
    for (uint32_t t = 0; t < p->v->layout->tables && !err; t++)
        err = pass_find_table(c, p, t, e);
    return err;
}

/* The rows of a table come in ascending order of their keys, like the wanted keys. */
static enum err pass_group(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct pass *p = ctx;
    uint32_t t = p->table_of[g->table];
    (void)e;
    if (t == ROW_TABLES_MAX)
        return ERR_OK;
    const struct row_value_keys *list = &p->v->list[p->v->layout->table[t].list];
    size_t dim = p->tables.table[g->table].dim, length = dim + p->tables.table[g->table].slots;
    uint32_t *at = &p->at[t];
    for (uint32_t i = 0; i < g->rows; i++) {
        pass_miss_below(p, t, g->mixed[i]);
        if (*at == list->keys || list->mixed[*at] != g->mixed[i])
            continue;
        p->v->absent[p->v->layout->table[t].list][*at] = 0;
        memcpy(p->v->w[t] + (*at)++ * dim, g->values + i * length, dim * sizeof *g->values);
    }
    return ERR_OK;
}

enum err cut_rows_read(void *cut_rows, struct row_values *v, struct errmsg *e)
{
    const struct cut_rows *c = cut_rows;
    struct pass p = {.v = v, .seed = c->seed};
    enum err err = pass_find_tables(c, &p, e);
    if (!err)
        err = checkpoint_read_rows(c->place, c->manifest, (struct bucket_range){0, ROW_BUCKETS},
                                   &(struct row_sink){.rows = pass_group, .ctx = &p}, e);
    for (uint32_t t = 0; t < v->layout->tables && !err; t++)
        pass_miss_rest(&p, t);
    return err;
}
