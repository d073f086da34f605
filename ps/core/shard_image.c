/* What a cut has of a shard, as a copy in memory; and a shard from what a cut has. Rows are copied bucket by bucket, in the
 * order of a checkpoint, all of them at once. */
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/checkpoint/row_copy.h"
#include "ps/core/shard_state.h"

void shard_image_free(struct shard_image *image)
{
    if (!image)
        return;
    mem_free(image->blocks.w);
    for (int i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        mem_free(image->blocks.slot[i]);
    if (image->rows)
        row_copy_close(image->rows);
    mem_free(image->rows);
    mem_free(image);
}

/* ---- rows ---- */

static uint32_t list_tables(const struct shard *s, struct checkpoint_table table[ROW_TABLES_MAX])
{
    const struct row_layout *l = s->layout.rows;
    for (uint32_t i = 0; i < l->tables; i++) {
        table[i] = (struct checkpoint_table){.dim = l->table[i].dim,
                                             .slots = s->rows.tables.table[i]->slot_floats};
        memcpy(table[i].name, l->table[i].name, sizeof table[i].name);
    }
    return l->tables;
}

/* Rows on their way into a copy. */
enum { GROUP_ROWS_MAX = 256, GROUP_FLOATS = 1 << 16 };
struct group_room {
    uint64_t mixed[GROUP_ROWS_MAX], stamp[GROUP_ROWS_MAX];
    uint32_t row[GROUP_ROWS_MAX], count[GROUP_ROWS_MAX];
    float *values; /* (GROUP_FLOATS, or one row of any table) */
};

static struct group_room *room_new(const struct row_copy *c)
{
    struct group_room *r = mem_zalloc(1, sizeof *r);
    size_t floats = GROUP_FLOATS;
    for (uint32_t i = 0; i < c->head.tables; i++) {
        uint32_t width = c->table[i].dim + c->table[i].slots;
        floats = width > floats ? width : floats;
    }
    if (r)
        r->values = mem_floats(floats);
    if (r && !r->values) {
        mem_free(r);
        r = NULL;
    }
    return r;
}

static void room_free(struct group_room *r)
{
    if (r)
        mem_free(r->values);
    mem_free(r);
}

static void gather(const struct row_table *t, struct group_room *r, size_t n)
{
    float *to = r->values;
    for (size_t i = 0; i < n; i++) {
        r->stamp[i] = row_stamp(t, r->row[i]);
        r->count[i] = row_count(t, r->row[i]);
        memcpy(to, row_weights(t, r->row[i]), t->dim * sizeof *to);
        to += t->dim;
        if (t->slot_floats)
            memcpy(to, row_slots(t, r->row[i]), t->slot_floats * sizeof *to);
        to += t->slot_floats;
    }
}

/* The rows of one table in one bucket. */
static enum err copy_bucket(const struct row_table *t, uint32_t table, uint32_t bucket,
                            struct group_room *r, struct row_copy *c)
{
    size_t most = GROUP_FLOATS / (t->dim + t->slot_floats), n;
    most = most < 1 ? 1 : most > GROUP_ROWS_MAX ? GROUP_ROWS_MAX : most;
    uint64_t first = row_bucket_first(bucket), last = row_bucket_last(bucket);
    do {
        n = row_table_scan(t, first, last, r->mixed, r->row, most);
        if (n == 0)
            break;
        gather(t, r, n);
        struct row_group g = {bucket, table, (uint32_t)n, r->mixed, r->stamp, r->count, r->values};
        enum err err = row_copy_add(c, &g);
        if (err)
            return err;
        first = r->mixed[n - 1] + 1;
    } while (n == most && r->mixed[n - 1] < last);
    return ERR_OK;
}

static enum err copy_rows(const struct shard *s, struct row_copy *c)
{
    struct checkpoint_table table[ROW_TABLES_MAX];
    const struct row_tables *t = &s->rows.tables;
    row_copy_init(c, table, list_tables(s, table), t->buckets, s->rows.clock_before + s->step);
    struct group_room *r = room_new(c);
    enum err err = r ? ERR_OK : ERR_NOMEM;
    for (uint32_t bucket = t->buckets.first; bucket < t->buckets.end; bucket++)
        for (uint32_t i = 0; i < c->head.tables && !err; i++)
            err = copy_bucket(t->table[i], i, bucket, r, c);
    room_free(r);
    return err;
}

static enum err take_rows(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct shard *s = ctx;
    struct row_table *t = s->rows.tables.table[g->table];
    const float *from = g->values;
    for (uint32_t i = 0; i < g->rows; i++, from += t->dim + t->slot_floats) {
        uint32_t row;
        enum err err = row_table_add(t, g->mixed[i], &row);
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

struct shard_image *shard_image_new(const struct shard *s)
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
    if (there && s->rows.on) {
        image->rows = mem_zalloc(1, sizeof *image->rows);
        there = image->rows && copy_rows(s, image->rows) == ERR_OK;
        image->blocks.rows = image->rows ? &image->rows->head : NULL;
    }
    if (!there) {
        shard_image_free(image);
        return NULL;
    }
    return image;
}

enum err shard_image_load(struct shard *s, uint64_t cut, struct manifest *m, struct errmsg *e)
{
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct checkpoint_rows_wanted wanted = {.table = table, .sink = {take_rows, s}};
    struct checkpoint_shard blocks = {.shard = s->index,
                                      .first_elem = s->me.first_elem,
                                      .elems = s->me.elems,
                                      .slots = s->slots,
                                      .w = s->block[0]};
    memcpy(blocks.slot, s->slot, sizeof blocks.slot);
    if (s->rows.on) {
        wanted.buckets = s->rows.tables.buckets;
        wanted.tables = list_tables(s, table);
        blocks.wanted = &wanted;
    }
    enum err err = s->io->load(s->ctx, cut, m, &blocks, e);
    if (!err && s->rows.on)
        s->rows.clock_before = m->file[0].clock - m->step;
    return err;
}
