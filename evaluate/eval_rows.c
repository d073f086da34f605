#include "evaluate/eval_rows.h"

#include <assert.h>
#include <stdatomic.h>

#include "common/base/mem.h"
#include "data/leaf_room.h"

enum { ROOMS = 32, BLOCK_ROWS_MAX = 256 };

/* The rows of one thread's block. */
struct row_lane {
    struct row_values own;
    struct leaf_rows rows;
};

struct eval_rows {
    const struct row_layout *layout;
    const struct dataset *data;
    struct pool *pool;
    uint32_t block_rows;
    struct row_lane *lane; /* (threads) */
    struct leaf_room *room[ROOMS];
    const struct leaf_keys *keys[ROOMS]; /* for blocks [first, end), at most ROOMS of them */
    uint64_t first, end;
    bool kept; /* `keys` has those of the whole window */
    struct row_values rows, joined;
    atomic_ullong next;
    atomic_bool failed; /* the setter also sets err and e */
    enum err err;
    struct errmsg e;
};

static enum err make(struct eval_rows *r, struct errmsg *e)
{
    enum err err = ERR_OK;
    r->lane = mem_zalloc(pool_threads(r->pool), sizeof *r->lane);
    if (!r->lane)
        return err_set(e, ERR_NOMEM, "no memory for evaluation");
    for (uint32_t i = 0; i < pool_threads(r->pool); i++)
        row_values_init(&r->lane[i].own, r->layout);
    for (uint32_t i = 0; i < ROOMS && !err; i++)
        err = leaf_room_new(&r->room[i], r->data->table.schema, r->block_rows, e);
    return err;
}

enum err eval_rows_new(struct eval_rows **out, const struct row_layout *layout,
                       const struct dataset *data, struct pool *pool, uint32_t rows,
                       struct errmsg *e)
{
    assert(rows <= BLOCK_ROWS_MAX && pool_threads(pool) >= 1);
    struct eval_rows *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for evaluation");
    r->layout = layout;
    r->data = data;
    r->pool = pool;
    r->block_rows = rows;
    row_values_init(&r->rows, layout);
    row_values_init(&r->joined, layout);
    enum err err = make(r, e);
    if (err) {
        eval_rows_free(r);
        return err;
    }
    *out = r;
    return ERR_OK;
}

void eval_rows_free(struct eval_rows *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->lane && i < pool_threads(r->pool); i++)
        row_values_close(&r->lane[i].own);
    for (uint32_t i = 0; i < ROOMS; i++)
        leaf_room_free(r->room[i]);
    row_values_close(&r->rows);
    row_values_close(&r->joined);
    mem_free(r->lane);
    mem_free(r);
}

/* ---- collecting keys ---- */

static enum err gather(const struct eval_rows *r, uint64_t block, struct leaf_room *room,
                       const struct leaf_keys **keys, struct errmsg *e)
{
    uint64_t first = block * r->block_rows, rows[BLOCK_ROWS_MAX];
    uint32_t n = 0;
    while (n < r->block_rows && first + n < r->data->rows) {
        rows[n] = first + n;
        n++;
    }
    return dataset_gather_keys(r->data, rows, n, room, keys, e);
}

static void gather_blocks(void *ctx, uint32_t thread)
{
    struct eval_rows *r = ctx;
    uint64_t block;
    (void)thread;
    while ((block = atomic_fetch_add(&r->next, 1)) < r->end) {
        struct errmsg e;
        enum err err = gather(r, block, r->room[block - r->first], &r->keys[block - r->first], &e);
        if (err && !atomic_exchange(&r->failed, true)) {
            r->err = err;
            r->e = e;
        }
    }
}

/* Add the keys of blocks [first, end), at most ROOMS, to r->rows. */
static enum err add_keys(struct eval_rows *r, uint64_t first, uint64_t end, struct errmsg *e)
{
    struct key_list list[ROW_TABLES_MAX];
    const struct leaf_keys had = {.lists = r->layout->lists, .list = list};
    const struct leaf_keys *leaf[ROOMS + 1] = {&had};
    r->first = first;
    r->end = end;
    atomic_store(&r->next, first);
    atomic_store(&r->failed, false);
    pool_run(r->pool, gather_blocks, r);
    if (atomic_load(&r->failed))
        return err_set(e, r->err, "%s", r->e.text);
    for (uint32_t i = 0; i < r->layout->lists; i++)
        list[i] = (struct key_list){r->rows.list[i].keys, r->rows.list[i].mixed};
    for (uint64_t i = 0; i < end - first; i++)
        leaf[i + 1] = r->keys[i];
    enum err err = row_values_want(&r->joined, leaf, (uint32_t)(end - first) + 1, e);
    if (err)
        return err;
    struct row_values was = r->rows;
    r->rows = r->joined;
    r->joined = was;
    return ERR_OK;
}

uint64_t eval_rows_window(const struct row_reader *reader, uint64_t blocks)
{
    return reader->in_one_pass || blocks < ROOMS ? blocks : ROOMS;
}

enum err eval_rows_read(struct eval_rows *r, const struct row_reader *reader, uint64_t first,
                        uint64_t end, struct errmsg *e)
{
    enum err err = row_values_want(&r->rows, NULL, 0, e);
    for (uint64_t at = first; at < end && !err; at += ROOMS)
        err = add_keys(r, at, end - at < ROOMS ? end : at + ROOMS, e);
    r->kept = end - first <= ROOMS;
    return err ? err : reader->read(reader->ctx, &r->rows, e);
}

/* ---- a block's rows ---- */

static enum err copy_rows(struct eval_rows *r, struct row_lane *l, const struct leaf_keys *keys,
                          struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < r->layout->lists && !err; i++) {
        err = row_values_reserve(&l->own, i, keys->list[i].keys, e);
        uint32_t found = err ? 0 : row_values_copy(&r->rows, i, &keys->list[i], l->own.w);
        assert(err || found == keys->list[i].keys);
        (void)found;
    }
    for (uint32_t t = 0; t < r->layout->tables; t++)
        l->rows.w[t] = l->own.w[t];
    return err;
}

enum err eval_rows_take(struct eval_rows *r, uint32_t thread, uint64_t block, struct examples *x,
                        struct errmsg *e)
{
    struct row_lane *l = &r->lane[thread];
    enum err err = ERR_OK;
    if (r->kept)
        x->keys = r->keys[block - r->first];
    else
        err = gather(r, block, r->room[thread], &x->keys, e);
    x->rows = &l->rows;
    return err ? err : copy_rows(r, l, x->keys, e);
}
