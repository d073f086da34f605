#include "worker/step/batch.h"

#include <assert.h>

void batch_init(struct batch *b, const struct row_layout *layout)
{
    *b = (struct batch){.there = false};
    row_values_init(&b->rows, layout);
}

void batch_release(struct batch *b, struct loader *l)
{
    for (; b->leaves; b->leaves--)
        if (b->microbatch[b->leaves - 1].y)
            loader_release(l, &b->microbatch[b->leaves - 1]);
    b->there = false;
}

void batch_close(struct batch *b)
{
    assert(b->leaves == 0);
    row_values_close(&b->rows);
}

/* An empty leaf of an extra step has no memory from the loader. */
static enum err take_leaf(struct batch *b, struct loader *l, const struct session_task *task,
                          uint32_t leaf, struct errmsg *e)
{
    struct leaf *m = &b->microbatch[b->leaves];
    uint64_t id;
    uint32_t of;
    enum err err = ERR_OK;
    *m = (struct leaf){.n = 0};
    if (epochs_leaf(task->work, task->batch, leaf, &id, &of))
        err = loader_get(l, id, of, m, e);
    if (!err)
        b->leaf[b->leaves++] = leaf;
    return err;
}

static enum err gather_keys(struct batch *b, struct errmsg *e)
{
    const struct leaf_keys *keys[TREE_LEAVES_MAX];
    for (uint32_t i = 0; i < b->leaves; i++)
        keys[i] = b->microbatch[i].n ? b->microbatch[i].keys : NULL;
    return row_values_want(&b->rows, keys, b->leaves, e);
}

enum err batch_take(struct batch *b, struct loader *l, const struct session_task *task,
                    struct errmsg *e)
{
    enum err err = ERR_OK;
    batch_release(b, l);
    for (uint32_t run = 0; run < task->runs; run++)
        for (uint32_t i = 0; !err && i < task->count[run]; i++)
            err = take_leaf(b, l, task, task->first[run] + i, e);
    if (!err)
        err = gather_keys(b, e);
    if (err) {
        batch_release(b, l);
        return err;
    }
    b->task = *task;
    b->task.work = NULL; /* the session owns it, and reuses it for the next task */
    b->there = true;
    return ERR_OK;
}

bool batch_is(const struct batch *b, const struct session_task *task)
{
    if (!b->there || b->task.name != task->name || b->task.batch != task->batch ||
        b->task.runs != task->runs)
        return false;
    for (uint32_t i = 0; i < task->runs; i++)
        if (b->task.first[i] != task->first[i] || b->task.count[i] != task->count[i])
            return false;
    return true;
}

const struct leaf *batch_leaf(const struct batch *b, uint32_t leaf)
{
    for (uint32_t i = 0; i < b->leaves; i++)
        if (b->leaf[i] == leaf)
            return &b->microbatch[i];
    assert(!"the batch has the leaves of its task");
    return NULL;
}
