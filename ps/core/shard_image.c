/* A shard's part of a cut: a copy of the blocks in memory, and the restore of a shard from a cut. Rows are copied later
 * (shard_copy.c). */
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

void shard_image_free(struct shard_image *image)
{
    if (!image)
        return;
    mem_free(image->blocks.w);
    for (int i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        mem_free(image->blocks.slot[i]);
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++)
        bins_close(&image->bins[i]);
    mem_free(image);
}

/* ---- rows ---- */

static uint32_t list_tables(const struct shard *s, struct checkpoint_table table[ROW_TABLES_MAX])
{
    const struct row_layout *l = s->layout.rows;
    for (uint32_t i = 0; i < l->tables; i++) {
        table[i] =
            (struct checkpoint_table){.dim = l->table[i].dim,
                                      .slots = s->rows.tables.table[i]->slot_floats,
                                      .sketch_bytes = row_sketch_bytes(&l->table[i].admission)};
        memcpy(table[i].name, l->table[i].name, sizeof table[i].name);
    }
    return l->tables;
}

static enum err begin_rows(struct shard *s, struct shard_image *image)
{
    struct row_tables *t = &s->rows.tables;
    const struct row_moment now = {
        .clock = s->rows.clock_before + s->step, .floor = t->budget.floor, .evict = t->evict};
    image->rows = (struct checkpoint_rows){.buckets = t->buckets,
                                           .clock = now.clock,
                                           .tables = list_tables(s, image->table),
                                           .table = image->table};
    image->blocks.rows = &image->rows;
    const struct shard_beside *of = &s->rows.beside;
    uint64_t share = row_tables_bytes(&s->rows.tables) / 100 * of->percent;
    uint64_t most = share > of->least_bytes ? share : of->least_bytes;
    if (most >
        2 * SHARD_SAVE_BYTES) /* rows that wait to be written are in addition to the tables, too */
        most -= SHARD_SAVE_BYTES;
    return row_tables_begin_cut(t, now, most);
}

static enum err take_rows(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct shard *s = ctx;
    struct row_table *t = s->rows.tables.table[g->table];
    const float *from = g->values;
    for (uint32_t i = 0; i < g->rows; i++, from += t->dim + t->slot_floats) {
        uint32_t row;
        enum err err = row_load_takes(s->rows.load, &s->rows.tables, g->table, g->stamp[i]);
        if (err == ERR_NOTFOUND)
            continue;
        if (err)
            return shard_rows_say_full(s, g->table, e);
        err = row_table_load(t, g->mixed[i], &row);
        if (err)
            return err_set(e, err, "no memory for the rows of table %s",
                           s->layout.rows->table[g->table].name);
        row_set_stamp(t, row, g->stamp[i]);
        row_set_count(t, row, g->count[i]);
        memcpy(row_weights(t, row), from, t->dim * sizeof *from);
        if (t->slot_floats)
            memcpy(row_slots(t, row), from + t->dim, t->slot_floats * sizeof *from);
    }
    return ERR_OK;
}

/* A sketch of another size comes from a run with other admission settings: this run counts from zero. */
static enum err take_sketch(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct shard *s = ctx;
    struct row_admit *a = &s->rows.tables.admit[g->table];
    (void)e;
    if (a->bucket_bytes == g->sketch_bytes)
        memcpy(row_admit_sketch(a, g->bucket), g->sketch, g->sketch_bytes);
    return ERR_OK;
}

static enum err end_rows(struct shard *s, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < s->layout.rows->tables && !err; i++)
        err = row_table_loaded(s->rows.tables.table[i]);
    return err ? err_set(e, err, "no memory for the keys of table rows") : ERR_OK;
}

/* ---- all of it ---- */

static bool copy_blocks(const struct shard *s, struct checkpoint_shard *b)
{
    b->w = mem_floats(b->elems);
    bool there = b->w != NULL;
    for (uint32_t i = 0; i < s->slots; i++) {
        b->slot[i] = mem_floats(b->elems);
        there = there && b->slot[i];
    }
    if (!there)
        return false;
    memcpy(b->w, shard_seen(s, s->now), b->elems * sizeof(float));
    for (uint32_t i = 0; i < s->slots; i++)
        memcpy(b->slot[i], s->slot[i], b->elems * sizeof(float));
    return true;
}

struct shard_image *shard_image_new(struct shard *s)
{
    struct shard_image *image = mem_zalloc(1, sizeof *image);
    if (!image)
        return NULL;
    image->cut = s->cut.number;
    image->blocks = (struct checkpoint_shard){.shard = s->index,
                                              .generation = s->generation.number,
                                              .first_elem = s->me.first_elem,
                                              .elems = s->me.elems,
                                              .slots = s->slots};
    bool there = copy_blocks(s, &image->blocks);
    image->blocks.bins = image->bins;
    for (int i = 0; i < CHECKPOINT_EPOCHS && there; i++)
        there = !s->bins[i].rows || bins_copy(&image->bins[i], &s->bins[i]) == ERR_OK;
    if (there && s->rows.on)
        there = begin_rows(s, image) == ERR_OK;
    if (!there) {
        shard_image_free(image);
        return NULL;
    }
    return image;
}

/* If not all rows fit, the oldest are left out. They are known only after all rows were read, so the rows are read twice. */
static enum err load(struct shard *s, uint64_t cut, struct manifest *m,
                     struct checkpoint_shard *blocks, struct errmsg *e)
{
    struct row_load rows;
    s->rows.load = &rows;
    if (s->rows.on)
        row_load_begin(&rows, &s->rows.tables);
    enum err err = s->io->load(s->ctx, cut, m, blocks, e);
    if (!err && s->rows.on && rows.full) {
        manifest_close(m);
        shard_rows_close(s);
        err = shard_rows_open(s);
        if (!err)
            row_load_again(&rows, &s->rows.tables);
        err =
            err ? err_set(e, err, "no memory for tables") : s->io->load(s->ctx, cut, m, blocks, e);
    }
    s->rows.load = NULL;
    return err;
}

enum err shard_image_load(struct shard *s, uint64_t cut, struct manifest *m, struct errmsg *e)
{
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct checkpoint_rows_wanted wanted = {.table = table, .sink = {take_rows, s, take_sketch}};
    struct checkpoint_shard blocks = {.shard = s->index,
                                      .first_elem = s->me.first_elem,
                                      .elems = s->me.elems,
                                      .slots = s->slots,
                                      .w = s->block[0],
                                      .bins = s->bins[0].count ? s->bins : NULL};
    memcpy(blocks.slot, s->slot, sizeof blocks.slot);
    if (s->rows.on) {
        wanted.buckets = s->rows.tables.buckets;
        wanted.tables = list_tables(s, table);
        blocks.wanted = &wanted;
    }
    enum err err = load(s, cut, m, &blocks, e);
    if (!err && s->rows.on)
        err = end_rows(s, e);
    if (!err && s->rows.on) {
        s->rows.clock_before = m->file[0].clock - m->step;
        row_tables_count(&s->rows.tables, m->file[0].clock);
        /* The lead shard gets the counters of all shards, because the earlier run may have had other shards. */
        s->rows.tables.budget.squeezed += s->index == 0 ? m->squeezed : 0;
        for (uint32_t i = 0; s->index == 0 && i < m->counted && i < s->layout.rows->tables; i++)
            row_counts_add(&s->rows.tables.counts[i], &m->table[i]);
    }
    return err;
}
