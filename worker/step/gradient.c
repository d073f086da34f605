#include "worker/step/gradient.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/math/bins.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

/* ---- batches ---- */

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

enum err batch_take(struct batch *b, struct loader *l, const struct session_task *task,
                    struct errmsg *e)
{
    enum err err = ERR_OK;
    batch_release(b, l);
    for (uint32_t run = 0; run < task->runs; run++)
        for (uint32_t i = 0; !err && i < task->count[run]; i++)
            err = take_leaf(b, l, task, task->first[run] + i, e);
    const struct leaf_keys *keys[TREE_LEAVES_MAX];
    for (uint32_t i = 0; !err && i < b->leaves; i++)
        keys[i] = b->microbatch[i].n ? b->microbatch[i].keys : NULL;
    if (!err)
        err = row_values_want(&b->rows, keys, b->leaves, e);
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

/* ---- the gradient ---- */

/* A subtree that one thread computes. */
struct piece {
    struct tree_node node;
    uint32_t thread;
    /* stack of partial sums; block[0] becomes the piece's sum */
    float *block[TREE_LEVELS_MAX + 1];
    struct row_sums *rows[TREE_LEVELS_MAX + 1]; /* tables: the same for rows */
    _Atomic uint64_t ready_from;                /* elements from here on are final */
};

/* The state of one thread. */
struct worker_thread {
    struct gradient *g;
    struct model_run *run;
    struct piece *piece;
    uint32_t leaf;          /* within the piece */
    uint64_t reported_from; /* elements of this leaf that are reported */
    uint32_t index;
    struct row_values rows; /* tables: the rows of this leaf */
    struct row_sums spare;
};

struct gradient {
    const struct model *model;
    struct pool *pool;
    struct loader *loader;
    uint64_t seed, elems;
    struct worker_thread *thread;

    size_t blocks, used; /* blocks in use by the task */
    float **block;
    const struct row_layout *layout; /* NULL: no tables */
    size_t sums, sums_used;          /* sums in use by the task */
    struct row_sums **row_sums;

    /* the task */
    uint64_t batch;
    const struct epochs_work *work; /* NULL: its leaves are those of `batch` */
    const float *w;
    const struct batch *held; /* tables: its microbatches; NULL: they come from the loader */
    uint32_t pieces, nodes;
    struct piece piece[GRADIENT_NODES_MAX * 4];
    struct gradient_node node[GRADIENT_NODES_MAX];
    struct sums leaf_sums[TREE_LEAVES_MAX];
    bool progressive;
    const struct row_slices *by; /* NULL: no slices */
    uint32_t slices;
    uint32_t rows; /* of a leaf, at most */
    uint16_t *marks
        [TREE_LEAVES_MAX]; /* (rows) of each leaf, then their slices, if there are any; NULL: not needed yet */
    struct {
        uint8_t *marks;
        size_t capacity;
    } sent[GRADIENT_NODES_MAX]; /* of each node */
    gradient_range *ready;
    void *ctx;
    atomic_int failed; /* enum err of the first failure */

    pthread_mutex_t lock; /* for `why`, and for waiting */
    struct errmsg why;    /* text of the first failure; "": failure() makes it */
    pthread_cond_t progress;
};

enum err gradient_new(struct gradient **out, const struct model *model, struct pool *pool,
                      struct loader *loader, const struct row_slices *by, uint32_t rows,
                      uint64_t seed, struct errmsg *e)
{
    struct gradient *g = mem_zalloc(1, sizeof *g);
    assert(model_labels(model) == 1); /* a source has one label */
    if (!g)
        return err_memory_for(e, "gradients");
    g->model = model;
    g->pool = pool;
    g->loader = loader;
    g->seed = seed;
    g->elems = model_layout(model)->elems;
    g->layout = model_layout(model)->rows;
    g->progressive = model_is_progressive(model);
    g->rows = rows;
    g->by = by;
    g->slices = by ? by->n : 0;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->progress, NULL);
    g->thread = mem_zalloc(pool_threads(pool), sizeof *g->thread);
    enum err err = g->thread ? ERR_OK : err_memory_for(e, "gradients");
    for (uint32_t i = 0; !err && i < pool_threads(pool); i++) {
        g->thread[i] = (struct worker_thread){.g = g, .index = i};
        row_values_init(&g->thread[i].rows, g->layout);
        row_sums_init(&g->thread[i].spare, g->layout);
        err = model_run_new(&g->thread[i].run, model, rows, e);
    }
    if (err) {
        gradient_free(g);
        return err;
    }
    *out = g;
    return ERR_OK;
}

void gradient_free(struct gradient *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; g->thread && i < pool_threads(g->pool); i++) {
        if (g->thread[i].run)
            model_run_free(g->thread[i].run);
        row_values_close(&g->thread[i].rows);
        row_sums_close(&g->thread[i].spare);
    }
    for (size_t i = 0; i < g->sums; i++) {
        row_sums_close(g->row_sums[i]);
        mem_free(g->row_sums[i]);
    }
    mem_free(g->row_sums);
    for (size_t i = 0; i < g->blocks; i++)
        mem_free(g->block[i]);
    for (size_t i = 0; i < TREE_LEAVES_MAX; i++)
        mem_free(g->marks[i]);
    for (size_t i = 0; i < GRADIENT_NODES_MAX; i++)
        mem_free(g->sent[i].marks);
    mem_free(g->block);
    mem_free(g->thread);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->progress);
    mem_free(g);
}

struct gradient_node *gradient_nodes(struct gradient *g, uint32_t *n)
{
    *n = g->nodes;
    return g->node;
}

/* ---- blocks ---- */

static float *block_acquire(struct gradient *g)
{
    if (g->used == g->blocks) {
        float **grown = mem_resize(g->block, g->blocks + 1, sizeof *grown);
        if (!grown)
            return NULL;
        g->block = grown;
        g->block[g->blocks] = mem_floats(g->elems);
        if (!g->block[g->blocks])
            return NULL;
        g->blocks++;
    }
    return g->block[g->used++];
}

static struct row_sums *row_sums_acquire(struct gradient *g)
{
    if (g->sums_used == g->sums) {
        struct row_sums **grown = mem_resize(g->row_sums, g->sums + 1, sizeof *grown);
        if (!grown)
            return NULL;
        g->row_sums = grown;
        g->row_sums[g->sums] = mem_zalloc(1, sizeof **grown);
        if (!g->row_sums[g->sums])
            return NULL;
        row_sums_init(g->row_sums[g->sums++], g->layout);
    }
    return g->row_sums[g->sums_used++];
}

static enum err add_piece(struct gradient *g, struct tree_node node, uint32_t thread)
{
    struct piece *p = &g->piece[g->pieces];
    p->node = node;
    p->thread = thread;
    for (uint32_t i = 0; i <= node.level; i++) {
        p->block[i] = block_acquire(g);
        if (!p->block[i] || (g->layout && !(p->rows[i] = row_sums_acquire(g))))
            return ERR_NOMEM;
    }
    atomic_store_explicit(&p->ready_from, g->elems, memory_order_relaxed);
    g->pieces++;
    return ERR_OK;
}

/* Divide one range of leaves into nodes to send, and into pieces for the threads. */
static enum err add_run(struct gradient *g, uint32_t first, uint32_t count)
{
    struct tree_node node[2 * TREE_LEVELS_MAX];
    uint32_t n = tree_cover(first, count, node);
    for (uint32_t i = 0; i < n; i++) {
        g->node[g->nodes] =
            (struct gradient_node){.node = node[i], .number = g->nodes, .sent_from = g->elems};
        g->nodes++;
    }
    uint32_t threads = pool_threads(g->pool);
    for (uint32_t t = 0; t < threads; t++) {
        uint32_t offset, share;
        tree_share(count, threads, t, &offset, &share);
        n = tree_cover(first + offset, share, node);
        for (uint32_t i = 0; i < n; i++) {
            enum err err = add_piece(g, node[i], t);
            if (err)
                return err;
        }
    }
    return ERR_OK;
}

/* ---- a thread's part ---- */

/* The number of sums on the piece's stack that the running leaf completes. */
static uint32_t folds_of(const struct worker_thread *t)
{
    uint32_t folds = (uint32_t)__builtin_ctz(~t->leaf);
    return folds > t->piece->node.level ? t->piece->node.level : folds;
}

/* The leaf's elements [from, to) are final: add them to the partial sums of the piece. */
static void fold(struct worker_thread *t, uint64_t from, uint64_t to)
{
    uint32_t height = (uint32_t)__builtin_popcount(t->leaf), folds = folds_of(t);
    for (uint32_t i = 0; i < folds; i++) {
        float *left = t->piece->block[height - 1 - i] + from;
        kernels()->add(left, left, t->piece->block[height - i] + from, to - from);
    }
}

/* *left = *left + right, using a spare one. */
static enum err add_rows(struct row_sums *left, const struct row_sums *right,
                         struct row_sums *spare)
{
    enum err err = row_sums_add(spare, left, right);
    struct row_sums sum = *spare;
    if (err)
        return err;
    *spare = *left;
    *left = sum;
    return ERR_OK;
}

/* The same for the leaf's rows. Errors: ERR_NOMEM. */
static enum err fold_rows(struct worker_thread *t)
{
    uint32_t height = (uint32_t)__builtin_popcount(t->leaf), folds = folds_of(t);
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < folds && !err; i++)
        err = add_rows(t->piece->rows[height - 1 - i], t->piece->rows[height - i], &t->spare);
    return err;
}

static void stream(struct gradient *g);

static void on_ready(void *ctx, uint64_t first, uint64_t n)
{
    struct worker_thread *t = ctx;
    (void)n; /* ranges come from the end, so a space between two of them is a gap of zeros */
    if (first >= t->reported_from)
        return;
    fold(t, first, t->reported_from);
    t->reported_from = first;
    if (t->leaf + 1 < 1u << t->piece->node.level)
        return;
    struct gradient *g = t->g;
    if (t->index == 0) {
        atomic_store_explicit(&t->piece->ready_from, first, memory_order_relaxed);
        stream(g);
    } else {
        pthread_mutex_lock(&g->lock);
        atomic_store_explicit(&t->piece->ready_from, first, memory_order_release);
        pthread_cond_signal(&g->progress);
        pthread_mutex_unlock(&g->lock);
    }
}

/* Get the leaf's rows from those of its task, and room for their gradients. Errors: ERR_NOMEM. */
static enum err take_rows(struct worker_thread *t, const struct leaf_keys *keys,
                          struct leaf_rows *rows)
{
    const struct gradient *g = t->g;
    struct row_sums *sums = t->piece->rows[__builtin_popcount(t->leaf)];
    enum err err = row_sums_begin(sums, keys);
    for (uint32_t i = 0; keys && i < g->layout->lists && !err; i++) {
        err = row_values_reserve(&t->rows, i, keys->list[i].keys, NULL);
        if (!err)
            (void)row_values_copy(&g->held->rows, i, &keys->list[i], t->rows.w, NULL);
    }
    for (uint32_t i = 0; i < g->layout->tables && !err; i++) {
        rows->w[i] = t->rows.w[i];
        rows->dw[i] = sums->g[i];
    }
    return err;
}

static enum err compute_leaf(struct worker_thread *t, uint32_t leaf, struct errmsg *e)
{
    struct gradient *g = t->g;
    struct leaf m = {.n = 0};
    uint64_t id;
    uint32_t of;
    bool there = epochs_leaf(g->work, g->batch, leaf, &id, &of);
    enum err err = ERR_OK;
    if (g->held)
        m = *batch_leaf(g->held, leaf);
    else if (there)
        err = loader_get(g->loader, id, of, &m, e);
    struct leaf_rows rows;
    if (g->held && !err) {
        m.keys = m.n ? m.keys : NULL;
        m.rows = &rows;
        err = take_rows(t, m.keys, &rows);
    }
    if (!err && g->progressive && !g->marks[leaf] &&
        !(g->marks[leaf] = mem_zalloc(bins_marks_bytes(g->rows, g->slices), 1)))
        err = ERR_NOMEM;
    if (err)
        return err;
    model_run_mark(t->run, g->marks[leaf]);
    if (g->slices && m.n)
        row_slices_of(g->by, &m, (uint8_t *)(g->marks[leaf] + g->rows));
    t->reported_from = g->elems;
    g->leaf_sums[leaf] = (struct sums){0};
    model_train(t->run, g->w, &m, rng_key(g->seed, RNG_DROPOUT, id, of),
                t->piece->block[__builtin_popcount(t->leaf)], &g->leaf_sums[leaf], on_ready, t);
    err = model_run_fault(t->run, NULL);
    if (!err && g->held)
        err = fold_rows(t);
    if (!err)
        on_ready(t, 0, t->reported_from); /* an empty microbatch reports no range */
    if (there && !g->held)
        loader_release(g->loader, &m);
    return err;
}

static void compute_share(void *ctx, uint32_t thread)
{
    struct gradient *g = ctx;
    struct worker_thread *t = &g->thread[thread];
    for (uint32_t i = 0; i < g->pieces; i++) {
        struct piece *p = &g->piece[i];
        if (p->thread != thread)
            continue;
        t->piece = p;
        for (t->leaf = 0; t->leaf < 1u << p->node.level; t->leaf++) {
            struct errmsg e = {""};
            enum err err = compute_leaf(t, tree_first_leaf(p->node) + t->leaf, &e);
            if (!err)
                continue;
            pthread_mutex_lock(&g->lock);
            if (atomic_load(&g->failed) == ERR_OK) {
                g->why = e;
                atomic_store(&g->failed, (int)err);
            }
            pthread_cond_signal(&g->progress);
            pthread_mutex_unlock(&g->lock);
            return;
        }
    }
}

/* ---- joining the threads' pieces ---- */

static struct piece *piece_at(struct gradient *g, struct tree_node n)
{
    for (uint32_t i = 0; i < g->pieces; i++)
        if (g->piece[i].node.level == n.level && g->piece[i].node.index == n.index)
            return &g->piece[i];
    return NULL;
}

static float *join(struct gradient *g, struct tree_node n, uint64_t from, uint64_t to)
{
    struct piece *p = piece_at(g, n);
    if (p)
        return p->block[0];
    float *left = join(g, (struct tree_node){n.level - 1, n.index * 2}, from, to);
    float *right = join(g, (struct tree_node){n.level - 1, n.index * 2 + 1}, from, to);
    kernels()->add(left + from, left + from, right + from, to - from);
    return left;
}

/* Rows are joined when the whole task is computed. Errors: ERR_NOMEM. */
static enum err join_rows(struct gradient *g, struct tree_node n, struct row_sums **out)
{
    struct piece *p = piece_at(g, n);
    struct row_sums *right;
    if (p) {
        *out = p->rows[0];
        return ERR_OK;
    }
    enum err err = join_rows(g, (struct tree_node){n.level - 1, n.index * 2}, out);
    if (!err)
        err = join_rows(g, (struct tree_node){n.level - 1, n.index * 2 + 1}, &right);
    return err ? err : add_rows(*out, right, &g->thread[0].spare);
}

static uint64_t node_ready_from(const struct gradient *g, struct tree_node n)
{
    uint64_t from = 0;
    for (uint32_t i = 0; i < g->pieces; i++) {
        if (!tree_covers(n, g->piece[i].node))
            continue;
        uint64_t at = atomic_load_explicit(&g->piece[i].ready_from, memory_order_acquire);
        if (at > from)
            from = at;
    }
    return from;
}

static void sum_leaves(struct gradient *g, struct gradient_node *n)
{
    enum { K = 2 + SUMS_MAX };
    struct tree_node leaf[TREE_LEAVES_MAX];
    double sums[TREE_LEAVES_MAX * K], out[K];
    uint32_t leaves = 1u << n->node.level;
    for (uint32_t i = 0; i < leaves; i++) {
        const struct sums *from = &g->leaf_sums[tree_first_leaf(n->node) + i];
        leaf[i] = (struct tree_node){0, tree_first_leaf(n->node) + i};
        sums[i * K] = from->examples;
        sums[i * K + 1] = from->loss;
        memcpy(&sums[i * K + 2], from->metric, sizeof from->metric);
    }
    tree_sum_doubles(leaf, leaves, sums, K, n->node, out);
    n->examples = (uint32_t)out[0];
    n->sums.examples = out[0];
    n->sums.loss = out[1];
    memcpy(n->sums.metric, &out[2], sizeof n->sums.metric);
}

/* The marks of a node's leaves, one after the other. Errors: ERR_NOMEM. */
static enum err join_marks(struct gradient *g, struct gradient_node *n)
{
    size_t at = 0, need = bins_marks_bytes(n->examples, g->slices);
    uint8_t *to = g->sent[n->number].marks;
    if (need && !(to = mem_grow(to, &g->sent[n->number].capacity, need, 1)))
        return ERR_NOMEM;
    g->sent[n->number].marks = to;
    for (uint32_t i = tree_first_leaf(n->node); i < tree_end_leaf(n->node); i++) {
        size_t rows = (size_t)g->leaf_sums[i].examples;
        if (!rows)
            continue;
        memcpy(to + 2 * at, g->marks[i], 2 * rows);
        if (g->slices)
            memcpy(to + 2 * (size_t)n->examples + at, g->marks[i] + g->rows, rows);
        at += rows;
    }
    n->marks = to;
    return ERR_OK;
}

/* Hand over what has become final in all pieces of a node. */
static void stream(struct gradient *g)
{
    for (uint32_t i = 0; i < g->nodes; i++) {
        struct gradient_node *n = &g->node[i];
        uint64_t from = node_ready_from(g, n->node), to = n->sent_from;
        if (from >= to)
            continue;
        n->value = join(g, n->node, from, to);
        sum_leaves(g, n);
        n->sent_from = from;
        if (from == 0 && g->progressive && join_marks(g, n)) {
            atomic_store(&g->failed, ERR_NOMEM);
            return;
        }
        g->ready(g->ctx, n, from, to);
    }
}

static bool all_sent(const struct gradient *g)
{
    for (uint32_t i = 0; i < g->nodes; i++)
        if (g->node[i].sent_from)
            return false;
    return true;
}

static bool more_is_ready(const struct gradient *g)
{
    for (uint32_t i = 0; i < g->nodes; i++)
        if (node_ready_from(g, g->node[i].node) < g->node[i].sent_from)
            return true;
    return false;
}

static bool others_work(const struct gradient *g)
{
    for (uint32_t i = 0; i < g->pieces; i++)
        if (g->piece[i].thread != 0)
            return true;
    return false;
}

/* The first failure, as text. */
static enum err failure(const struct gradient *g, struct errmsg *e)
{
    enum err err = (enum err)atomic_load(&g->failed);
    for (uint32_t i = 0; err == ERR_INPUT && i < pool_threads(g->pool); i++)
        if (model_run_fault(g->thread[i].run, e))
            return err;
    const char *why = g->why.text[0] ? g->why.text : err_str(err);
    return err ? err_set(e, err, "a gradient: %s", why) : ERR_OK;
}

enum err gradient_compute(struct gradient *g, const struct session_task *task, const float *w,
                          const struct batch *batch, gradient_range *ready, void *ctx,
                          struct errmsg *e)
{
    g->used = g->sums_used = 0;
    g->pieces = g->nodes = 0;
    g->batch = task->batch;
    g->work = task->work;
    g->w = w;
    g->held = batch;
    g->ready = ready;
    g->ctx = ctx;
    atomic_store(&g->failed, ERR_OK);
    g->why.text[0] = 0;
    for (uint32_t i = 0; i < task->runs; i++) {
        enum err err = add_run(g, task->first[i], task->count[i]);
        if (err)
            return err_set(e, err, "no memory for the gradient of a microbatch");
    }
    bool others = others_work(g);
    if (others)
        pool_start(g->pool, compute_share, g);
    compute_share(g, 0);
    while (others && !all_sent(g) && atomic_load(&g->failed) == ERR_OK) {
        pthread_mutex_lock(&g->lock);
        while (!more_is_ready(g) && atomic_load(&g->failed) == ERR_OK)
            pthread_cond_wait(&g->progress, &g->lock);
        pthread_mutex_unlock(&g->lock);
        stream(g);
    }
    if (others)
        pool_wait(g->pool);
    enum err err = failure(g, e);
    for (uint32_t i = 0; g->held && i < g->nodes && !err; i++) {
        struct row_sums *rows;
        err = join_rows(g, g->node[i].node, &rows);
        if (err)
            return err_set(e, err, "no memory for the gradient of rows");
        g->node[i].rows = rows;
        g->node[i].asked = &g->held->rows;
    }
    return err;
}

struct sums gradient_sums(const struct gradient *g)
{
    struct sums all = {0};
    for (uint32_t i = 0; i < g->nodes; i++)
        sums_add(&all, &g->node[i].sums);
    return all;
}
