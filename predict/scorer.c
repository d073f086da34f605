/* A pass over the model: the rows of the keys are copied from the tables' files, those of tables with the same keys together, and
 * the model runs forward over a few rows at a time. */
#include "predict/folder.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/math/kernels.h"

enum { PASS_ROWS = 48 }; /* their activations stay in the caches */

struct scorer {
    const struct folder *folder;
    const struct row_layout *layout; /* of the tables; NULL: none */
    uint32_t rows_max;
    struct model_run *run;
    uint32_t keys_max[ROW_TABLES_MAX]; /* of each list: the most keys that rows_max rows have */
    float *row[ROW_TABLES_MAX];        /* of each table: (keys_max of its list, dim) */
    struct leaf_rows rows;
    struct row_misses *misses; /* scorer_watch; NULL: not wanted */
    uint8_t *absent;           /* (the most keys of a list) ones until it counts them */
};

/* Each of the model's lookups adds its column's keys to its list. */
static enum err count_keys(struct scorer *s, struct errmsg *e)
{
    const struct table_schema *schema = s->folder->schema;
    for (uint32_t i = 0; i < schema->lookups; i++) {
        uint32_t list = schema->lookup[i].list;
        uint64_t keys =
            (uint64_t)s->rows_max * table_key_width(&schema->key[schema->lookup[i].key]);
        if (keys > UINT32_MAX - s->keys_max[list])
            return err_set(e, ERR_INPUT, "%u rows at a time look up too many keys", s->rows_max);
        s->keys_max[list] += (uint32_t)keys;
    }
    return ERR_OK;
}

static enum err scorer_make_rows(struct scorer *s, struct errmsg *e)
{
    enum err err = count_keys(s, e);
    for (uint32_t t = 0; t < s->layout->tables && !err; t++) {
        const struct row_table_spec *of = &s->layout->table[t];
        s->row[t] = mem_floats((size_t)s->keys_max[of->list] * of->dim);
        s->rows.w[t] = s->row[t];
        if (!s->row[t])
            err = err_memory_for(e, "the rows that %u rows look up", s->rows_max);
    }
    return err;
}

static enum err scorer_make(struct scorer *s, struct errmsg *e)
{
    uint32_t rows = s->rows_max < PASS_ROWS ? s->rows_max : PASS_ROWS;
    enum err err = model_run_new(&s->run, s->folder->model, rows, e);
    return err || !s->layout ? err : scorer_make_rows(s, e);
}

enum err scorer_new(struct scorer **out, const struct folder *f, uint32_t rows_max,
                    struct errmsg *e)
{
    struct scorer *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_memory_for(e, "scores");
    s->folder = f;
    s->layout = model_layout(f->model)->rows;
    s->rows_max = rows_max;
    enum err err = scorer_make(s, e);
    if (err) {
        scorer_free(s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

void scorer_free(struct scorer *s)
{
    if (!s)
        return;
    model_run_free(s->run);
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++)
        mem_free(s->row[i]);
    mem_free(s->absent);
    mem_free(s);
}

enum err scorer_watch(struct scorer *s, struct row_misses *misses, struct errmsg *e)
{
    uint32_t most = 1;
    for (uint32_t i = 0; s->layout && i < s->layout->lists; i++)
        most = s->keys_max[i] > most ? s->keys_max[i] : most;
    s->absent = mem_zalloc(most, sizeof *s->absent);
    if (!s->absent)
        return err_memory_for(e, "scores");
    memset(s->absent, 1, most * sizeof *s->absent);
    s->misses = misses;
    return ERR_OK;
}

/* Copy the rows of the keys in table `first` and in those like it. */
static void read_tables(struct scorer *s, uint32_t first, const struct key_list *list,
                        uint8_t *absent)
{
    const struct table_file *table[ROW_TABLES_MAX];
    float *row[ROW_TABLES_MAX];
    uint32_t n = 0;
    for (uint32_t t = first; t < s->layout->tables; t++)
        if (t == first || s->folder->like[t] == first + 1) {
            table[n] = s->folder->table[t];
            row[n++] = s->row[t];
        }
    table_file_read_like(table, n, list->mixed, list->keys, row, absent);
}

/* All tables of the list are read. */
static void count_misses(struct scorer *s, uint32_t n, const struct leaf_keys *keys, uint32_t list)
{
    const struct table_schema *schema = s->folder->schema;
    for (uint32_t i = 0; i < schema->lookups; i++)
        if (schema->lookup[i].list == list)
            row_misses_count(&s->misses[i], &keys->column[i], n, &keys->list[list], s->absent);
    memset(s->absent, 1, keys->list[list].keys * sizeof *s->absent);
}

/* Copy the rows of the keys, in all tables. */
static void scorer_read_rows(struct scorer *s, uint32_t n, const struct leaf_keys *keys,
                             bool counts)
{
    counts = counts && s->misses;
    for (uint32_t t = 0; s->layout && t < s->layout->tables; t++) {
        const uint32_t list = s->layout->table[t].list;
        assert(keys->list[list].keys <= s->keys_max[list]);
        if (!s->folder->like[t])
            read_tables(s, t, &keys->list[list], counts ? s->absent : NULL);
        if (counts && (t + 1 == s->layout->tables || s->layout->table[t + 1].list != list))
            count_misses(s, n, keys, list);
    }
}

enum err scorer_run(struct scorer *s, uint32_t n, const float *x, const struct leaf_keys *keys,
                    float *out, struct errmsg *e)
{
    const struct leaf of = {.n = n, .x = x, .keys = keys, .rows = &s->rows};
    assert(n <= s->rows_max);
    unsigned was = kernels_flush_begin();
    scorer_read_rows(s, n, keys, true);
    enum err err = model_predict(s->run, s->folder->packed, &of, out, e);
    kernels_flush_end(was);
    return err;
}

void scorer_lookup(struct scorer *s, uint32_t n, const struct leaf_keys *keys, uint32_t i,
                   float *out)
{
    const struct leaf of = {.n = n, .keys = keys, .rows = &s->rows};
    assert(n <= s->rows_max && s->layout);
    unsigned was = kernels_flush_begin();
    scorer_read_rows(s, n, keys, i == 0); /* one layer after the other looks up the same rows */
    model_look_up(s->run, s->folder->w, &of, i, out);
    kernels_flush_end(was);
}
