/* Shards of a job with tables: which rows a step changes and how, who reads which, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"
#include "common/parameters/ids.h"
#include "ps/core/shard.h"
#include "ps/core/shard_state.h"
#include "tests/lib/quiet.h"

/* Tables 0 and 1 have list 0, table 2 has list 1. One chunk, which is shard 0's: others have rows alone. */
enum { LEAVES = 4, SHARDS_MAX = 4, LISTS = 2, TABLES = 3, DIM_MAX = 3, KEYS = 60, LOG_MAX = 64 };
static const uint32_t dim_of[TABLES] = {2, 3, 1}, list_of[TABLES] = {0, 0, 1};
static const float rate = 0.3f, momentum = 0.7f;
static const uint64_t seed = 99;

/* What was sent. */
struct sent {
    enum frame_type type;
    const struct shard_peer *to;
    uint64_t step, name, number, bytes;
    uint32_t chunks, first_part, parts;
    bool made, gone, has_body;
    Gradwire__Outcome outcome;
    uint8_t body[4096];
};

struct cluster {
    uint32_t shards;
    struct node {
        struct shard *shard;
        struct shard_peer peer[2]; /* of workers 0 and 1 */
        struct sent log[LOG_MAX];
        uint32_t logged;
        char entered_error[256];
    } node[SHARDS_MAX];
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    uint64_t generation;
    uint64_t key[KEYS]; /* mixed, in ascending order */
};

static struct sent *note(struct node *n, enum frame_type type, const struct shard_peer *to)
{
    assert_true(n->logged < LOG_MAX);
    struct sent *out = &n->log[n->logged++];
    *out = (struct sent){.type = type, .to = to};
    return out;
}

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct sent *out = note(ctx, type, to);
    const Gradwire__Reply *r = (const Gradwire__Reply *)m;
    if (type != FRAME_REPLY)
        return;
    out->step = r->step;
    out->name = r->name;
    out->chunks = r->chunks;
    out->made = r->made;
    out->outcome = r->outcome;
    out->first_part = r->first_part;
    out->parts = r->parts;
    out->bytes = bytes;
    out->has_body = body != NULL;
}

static void io_send_rows(void *ctx, struct shard_peer *to, const Gradwire__Rows *m,
                         struct buffer *body, uint64_t bytes)
{
    struct sent *out = note(ctx, FRAME_ROWS, to);
    out->number = m->number;
    out->step = m->step;
    out->gone = m->gone;
    out->bytes = bytes;
    out->has_body = body != NULL;
    assert_true(bytes <= sizeof out->body);
    if (body)
        memcpy(out->body, body->data, bytes);
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct node *n = ctx;
    if (type == FRAME_ENTERED)
        (void)snprintf(n->entered_error, sizeof n->entered_error, "%s",
                       ((const Gradwire__Entered *)m)->error);
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    (void)ctx;
    shard_image_free(take_image);
}

static bool io_save_room(void *ctx)
{
    (void)ctx;
    return true;
}

static enum err io_save_rows(void *ctx, const struct row_group *g)
{
    (void)ctx;
    (void)g;
    return ERR_OK;
}

static const struct shard_io io = {.send = io_send,
                                   .send_rows = io_send_rows,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .save_room = io_save_room,
                                   .save_rows = io_save_rows,
                                   .save_end = quiet_save_end,
                                   .load = quiet_load_no_cut,
                                   .drop_peers = quiet_drop_peers};

/* ---- a cluster ---- */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void add_tables(struct layout *l)
{
    static const char *const names[TABLES] = {"a", "b", "c"};
    l->rows = mem_zalloc(1, sizeof *l->rows);
    l->rows->lists = LISTS;
    l->rows->tables = TABLES;
    for (uint32_t i = 0; i < TABLES; i++) {
        struct row_table_spec *t = &l->rows->table[i];
        *t = (struct row_table_spec){
            .dim = dim_of[i], .list = list_of[i], .init = INIT_RANDOM_UNIFORM, .init_value = 0.5f};
        (void)snprintf(t->name, sizeof t->name, "%s", names[i]);
    }
}

static void enter(struct cluster *c, Gradwire__EnterMode mode)
{
    c->generation++;
    for (uint32_t i = 0; i < c->shards; i++) {
        for (int w = 0; w < 2; w++)
            shard_peer_gone(c->node[i].shard, &c->node[i].peer[w]);
        c->node[i].logged = 0;
        c->node[i].entered_error[0] = '\0';
        quiet_enter(c->node[i].shard, &c->plan, &c->settings, c->generation, mode, 0);
    }
}

static void hello(struct cluster *c, uint32_t shard, uint32_t worker)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__Refuse refuse;
    m.generation = &g;
    m.worker = worker;
    m.incarnation = worker + 1;
    struct node *n = &c->node[shard];
    assert_int_equal(shard_on_hello(n->shard, &n->peer[worker], &m, &refuse), ERR_OK);
}

static void hellos(struct cluster *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        for (uint32_t worker = 0; worker < 2; worker++)
            hello(c, i, worker);
}

/* Not entered yet. */
static struct cluster *cluster_new(uint32_t shards)
{
    struct cluster *c = calloc(1, sizeof *c);
    struct tensor t = {.name = "w", .rank = 1, .shape = {QUIET_CHUNK}, .init = INIT_ZEROS};
    struct errmsg e;
    c->shards = shards;
    assert_int_equal(layout_add(&c->layout, &t, &e), ERR_OK);
    add_tables(&c->layout);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &shards, 1), ERR_OK);
    gradwire__settings__init(&c->settings);
    c->settings.optimizer = OPT_SGD;
    c->settings.learning_rate = rate;
    c->settings.momentum = momentum;
    c->settings.microbatches = LEAVES;
    c->settings.batches_per_epoch = 100;
    c->settings.seed = seed;
    for (uint32_t i = 0; i < shards; i++)
        assert_int_equal(shard_new(&c->node[i].shard, 0, i, &io, &c->node[i]), ERR_OK);
    for (uint32_t k = 0; k < KEYS; k++)
        c->key[k] = key_mix(k);
    qsort(c->key, KEYS, sizeof *c->key, ascending);
    return c;
}

static struct cluster *begin(uint32_t shards)
{
    struct cluster *c = cluster_new(shards);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    return c;
}

static struct cluster *begin_async(uint32_t shards)
{
    struct cluster *c = cluster_new(shards);
    c->settings.update = GRADWIRE__UPDATE__ASYNC;
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    return c;
}

static void end(struct cluster *c)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        for (int w = 0; w < 2; w++)
            shard_peer_gone(c->node[i].shard, &c->node[i].peer[w]);
        shard_free(c->node[i].shard);
    }
    buffer_pool_close(&c->pool);
    msg_plan_close(&c->plan);
    layout_close(&c->layout);
    free(c);
}

static uint64_t step_of(const struct cluster *c, uint32_t shard)
{
    return shard_status(c->node[shard].shard)->step;
}

/* ---- gradients ---- */

/* Of one node: which keys of each list it touches, and their gradients in each table. */
struct grads {
    bool touched[LISTS][KEYS];
    float g[TABLES][KEYS][DIM_MAX];
};

static size_t put(uint8_t *out, size_t at, const void *from, size_t bytes)
{
    memcpy(out + at, from, bytes);
    return at + bytes;
}

/* One part's section; returns its bytes. */
static size_t section(const struct cluster *c, const struct grads *g, struct bucket_range of,
                      uint8_t *out)
{
    size_t at = LISTS * sizeof(uint32_t);
    for (uint32_t list = 0; list < LISTS; list++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < KEYS; k++) {
            uint32_t bucket = key_bucket(c->key[k]);
            if (g->touched[list][k] && bucket >= of.first && bucket < of.end) {
                at = put(out, at, &c->key[k], sizeof c->key[k]);
                n++;
            }
        }
        (void)put(out, list * sizeof n, &n, sizeof n);
    }
    for (uint32_t i = 0; i < TABLES; i++)
        for (uint32_t k = 0; k < KEYS; k++) {
            uint32_t bucket = key_bucket(c->key[k]);
            if (g->touched[list_of[i]][k] && bucket >= of.first && bucket < of.end)
                at = put(out, at, g->g[i][k], dim_of[i] * sizeof(float));
        }
    const uint32_t zero = 0;
    return at % 8 ? put(out, at, &zero, sizeof zero) : at;
}

static enum err send_rows_push(struct cluster *c, uint32_t shard, uint32_t worker,
                               const Gradwire__RowsPush *m, const void *body, uint64_t bytes,
                               struct errmsg *e)
{
    struct node *n = &c->node[shard];
    bool wanted;
    enum err err = shard_rows_fits(n->shard, FRAME_ROWS_PUSH, &m->base, bytes, &wanted, e);
    if (err)
        return err;
    struct buffer *b = wanted ? buffer_acquire(&c->pool, bytes / sizeof(float) + 1) : NULL;
    if (b)
        memcpy(b->data, body, bytes);
    err = shard_on_rows(n->shard, &n->peer[worker], FRAME_ROWS_PUSH, &m->base, b, bytes, e);
    buffer_unref(b);
    return err;
}

static Gradwire__RowsPush rows_push(Gradwire__Generation *g, uint64_t name, struct tree_node node,
                                    uint32_t examples, uint32_t first, uint32_t parts)
{
    Gradwire__RowsPush m = GRADWIRE__ROWS_PUSH__INIT;
    m.generation = g;
    m.name = name;
    m.level = node.level;
    m.index = node.index;
    m.examples = examples;
    m.first_part = first;
    m.parts = parts;
    return m;
}

static void push_parts(struct cluster *c, uint32_t shard, uint32_t worker, uint64_t name,
                       struct tree_node node, uint32_t examples, const struct grads *g,
                       uint32_t first, uint32_t parts)
{
    static uint8_t body[1 << 16];
    Gradwire__Generation generation = quiet_generation(c->generation);
    struct errmsg e = {""};
    size_t bytes = 0;
    for (uint32_t p = first; p < first + parts; p++)
        bytes += section(c, g, bucket_part(bucket_shard(shard, c->shards), p), body + bytes);
    const Gradwire__RowsPush m = rows_push(&generation, name, node, examples, first, parts);
    assert_int_equal(send_rows_push(c, shard, worker, &m, body, bytes, &e), ERR_OK);
}

static void push_rows(struct cluster *c, uint32_t shard, uint64_t name, struct tree_node node,
                      uint32_t examples, const struct grads *g)
{
    push_parts(c, shard, 0, name, node, examples, g, 0, ROW_PARTS);
}

static void push_block(struct cluster *c, uint32_t worker, uint64_t name, struct tree_node node,
                       uint32_t examples)
{
    struct node *n = &c->node[0];
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    struct errmsg e = {""};
    uint64_t elems, bytes = QUIET_CHUNK * sizeof(float);
    bool wanted;
    m.generation = &g;
    m.name = name;
    m.level = node.level;
    m.index = node.index;
    m.examples = examples;
    m.chunks = 1;
    assert_int_equal(shard_push_fits(n->shard, &m, bytes, &elems, &wanted, &e), ERR_OK);
    struct buffer *b = wanted ? buffer_acquire(&c->pool, elems) : NULL;
    if (b)
        memset(b->data, 0, bytes);
    assert_int_equal(shard_on_push(n->shard, &n->peer[worker], &m, b, &e), ERR_OK);
    buffer_unref(b);
}

static const struct tree_node root = {2, 0};
static const struct tree_node batch = {0, 0}; /* async: the node of every push */

/* Keys [first, end) of both lists, all gradients g. */
static struct grads touch(uint32_t first, uint32_t last, float g)
{
    struct grads out = {.touched = {{false}}};
    for (uint32_t list = 0; list < LISTS; list++)
        for (uint32_t k = first; k < last; k++)
            out.touched[list][k] = true;
    for (uint32_t i = 0; i < TABLES; i++)
        for (uint32_t k = first; k < last; k++)
            for (uint32_t j = 0; j < DIM_MAX; j++)
                out.g[i][k][j] = g;
    return out;
}

static const struct grads nothing;

/* A whole step of one example on all shards. */
static void make_step(struct cluster *c, uint64_t step, const struct grads *g)
{
    for (uint32_t i = 0; i < c->shards; i++)
        push_rows(c, i, step, root, 1, g);
    push_block(c, 0, step, root, 1);
    for (uint32_t i = 0; i < c->shards; i++)
        assert_int_equal(step_of(c, i), step + 1);
}

/* ---- asks ---- */

static enum err ask_of(struct cluster *c, uint32_t shard, uint32_t worker,
                       const Gradwire__RowsAsk *m, const uint64_t *mixed, uint64_t bytes,
                       struct errmsg *e)
{
    struct node *n = &c->node[shard];
    bool wanted;
    enum err err = shard_rows_fits(n->shard, FRAME_ROWS_ASK, &m->base, bytes, &wanted, e);
    if (err)
        return err;
    struct buffer *b = wanted ? buffer_acquire(&c->pool, bytes / sizeof(float)) : NULL;
    if (b)
        memcpy(b->data, mixed, bytes);
    err = shard_on_rows(n->shard, &n->peer[worker], FRAME_ROWS_ASK, &m->base, b, bytes, e);
    buffer_unref(b);
    return err;
}

/* All of the shard's keys, of both lists. */
static enum err ask_once(struct cluster *c, uint32_t shard, uint32_t worker, uint64_t number,
                         bool any, uint64_t step, bool once, struct errmsg *e)
{
    uint64_t mixed[LISTS * KEYS];
    uint32_t keys[LISTS] = {0}, n = 0;
    struct bucket_range of = bucket_shard(shard, c->shards);
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    for (uint32_t list = 0; list < LISTS; list++)
        for (uint32_t k = 0; k < KEYS; k++) {
            uint32_t bucket = key_bucket(c->key[k]);
            if (bucket < of.first || bucket >= of.end)
                continue;
            mixed[n++] = c->key[k];
            keys[list]++;
        }
    m.generation = &g;
    m.number = number;
    m.any = any;
    m.step = step;
    m.once = once;
    m.keys = keys;
    m.n_keys = LISTS;
    return ask_of(c, shard, worker, &m, mixed, n * sizeof *mixed, e);
}

static enum err ask_with(struct cluster *c, uint32_t shard, uint32_t worker, uint64_t number,
                         bool any, uint64_t step, struct errmsg *e)
{
    return ask_once(c, shard, worker, number, any, step, false, e);
}

static void ask(struct cluster *c, uint32_t shard, uint32_t worker, uint64_t number, uint64_t step)
{
    struct errmsg e = {""};
    assert_int_equal(ask_with(c, shard, worker, number, false, step, &e), ERR_OK);
}

/* ---- rows as they have to be: a plain loop ---- */

struct model {
    bool there[TABLES][KEYS];
    float w[TABLES][KEYS][DIM_MAX], v[TABLES][KEYS][DIM_MAX];
};

/* What updates a table's rows: its own sgd, or the job's. */
static struct optimizer updates_of(const struct cluster *c, uint32_t table)
{
    const struct row_table_spec *t = &c->layout.rows->table[table];
    return t->has_optimizer ? t->optimizer
                            : (struct optimizer){.learning_rate = c->settings.learning_rate,
                                                 .momentum = c->settings.momentum};
}

static void model_first(struct cluster *c, struct model *m, uint32_t table, uint32_t k)
{
    row_first_value(&c->layout.rows->table[table], seed, c->key[k], m->w[table][k]);
    m->there[table][k] = true;
}

static void model_step(struct cluster *c, struct model *m, const struct grads *sum,
                       uint32_t examples)
{
    for (uint32_t i = 0; i < TABLES && examples; i++) {
        const struct optimizer o = updates_of(c, i);
        for (uint32_t k = 0; k < KEYS; k++) {
            if (!sum->touched[list_of[i]][k])
                continue;
            if (!m->there[i][k])
                model_first(c, m, i, k);
            for (uint32_t j = 0; j < dim_of[i]; j++) {
                float mean = sum->g[i][k][j] * (1.0f / (float)examples), *v = &m->v[i][k][j];
                *v = *v * o.momentum - mean * o.learning_rate;
                m->w[i][k][j] += *v;
            }
        }
    }
}

/* The sum over a node's leaves. */
static struct grads model_sum(const struct grads leaf[LEAVES], struct tree_node of)
{
    if (of.level == 0)
        return leaf[of.index];
    struct grads a = model_sum(leaf, (struct tree_node){of.level - 1, of.index * 2});
    struct grads b = model_sum(leaf, (struct tree_node){of.level - 1, of.index * 2 + 1});
    struct grads out = a;
    for (uint32_t i = 0; i < TABLES; i++)
        for (uint32_t k = 0; k < KEYS; k++)
            for (uint32_t j = 0; j < dim_of[i] && b.touched[list_of[i]][k]; j++)
                out.g[i][k][j] =
                    a.touched[list_of[i]][k] ? a.g[i][k][j] + b.g[i][k][j] : b.g[i][k][j];
    for (uint32_t list = 0; list < LISTS; list++)
        for (uint32_t k = 0; k < KEYS; k++)
            out.touched[list][k] = a.touched[list][k] || b.touched[list][k];
    return out;
}

/* The answer has the rows of the model, bit for bit. */
static void check_rows(const struct cluster *c, uint32_t shard, const struct sent *s,
                       const struct model *m)
{
    struct bucket_range of = bucket_shard(shard, c->shards);
    const uint8_t *at = s->body;
    assert_int_equal(s->type, FRAME_ROWS);
    assert_false(s->gone);
    for (uint32_t i = 0; i < TABLES; i++) {
        uint32_t n = 0, mine[KEYS], marks[KEYS / 32 + 1];
        for (uint32_t k = 0; k < KEYS; k++)
            if (key_bucket(c->key[k]) >= of.first && key_bucket(c->key[k]) < of.end)
                mine[n++] = k;
        memcpy(marks, at, (n + 31) / 32 * sizeof *marks);
        at += (n + 31) / 32 * sizeof *marks;
        for (uint32_t q = 0; q < n; q++) {
            bool there = marks[q / 32] >> q % 32 & 1;
            assert_int_equal(there, m->there[i][mine[q]]);
            if (!there)
                continue;
            assert_memory_equal(at, m->w[i][mine[q]], dim_of[i] * sizeof(float));
            at += dim_of[i] * sizeof(float);
        }
    }
    assert_int_equal((uint64_t)(at - s->body), s->bytes);
}

static const struct sent *last_sent(const struct cluster *c, uint32_t shard)
{
    const struct node *n = &c->node[shard];
    assert_true(n->logged > 0);
    return &n->log[n->logged - 1];
}

static void check_now(struct cluster *c, const struct model *m)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        c->node[i].logged = 0;
        ask(c, i, 0, 1, step_of(c, i));
        check_rows(c, i, last_sent(c, i), m);
    }
}

static float noise(void)
{
    return (float)(rand() % 2001 - 1000) * 0.00137f;
}

static struct grads random_grads(void)
{
    struct grads g = {.touched = {{false}}};
    for (uint32_t list = 0; list < LISTS; list++)
        for (uint32_t k = 0; k < KEYS; k++)
            g.touched[list][k] = rand() % 4 == 0;
    for (uint32_t i = 0; i < TABLES; i++)
        for (uint32_t k = 0; k < KEYS; k++)
            for (uint32_t j = 0; j < dim_of[i]; j++)
                g.g[i][k][j] = noise();
    return g;
}

/* Push the leaves below `of` to a shard, in nodes as they happen to be, the right ones first now and then. */
static void push_below(struct cluster *c, uint32_t shard, uint64_t step, struct tree_node of,
                       const struct grads leaf[LEAVES], const uint32_t examples[LEAVES])
{
    if (of.level > 0 && rand() % 2) {
        uint32_t first = (uint32_t)rand() % 2;
        for (uint32_t i = 0; i < 2; i++) {
            struct tree_node half = {of.level - 1, of.index * 2 + (first ^ i)};
            push_below(c, shard, step, half, leaf, examples);
        }
        return;
    }
    struct grads sum = model_sum(leaf, of);
    uint32_t n = 0, cut = (uint32_t)rand() % (ROW_PARTS - 1) + 1;
    for (uint32_t i = tree_first_leaf(of); i < tree_end_leaf(of); i++)
        n += examples[i];
    push_parts(c, shard, 0, step, of, n, &sum, cut, ROW_PARTS - cut);
    push_parts(c, shard, 0, step, of, n, &sum, 0, cut);
    if (shard == 0)
        push_block(c, 0, step, of, n);
}

static void rows_are_those_of_a_plain_loop_for_any_number_of_shards(void **state)
{
    (void)state;
    static struct grads leaf[LEAVES];
    static struct model model;
    for (uint32_t shards = 1; shards <= SHARDS_MAX; shards *= 2) {
        srand(5);
        struct cluster *c = begin(shards);
        memset(&model, 0, sizeof model);
        for (uint64_t step = 0; step < 20; step++) {
            uint32_t examples[LEAVES], all = 0;
            for (uint32_t i = 0; i < LEAVES; i++) {
                examples[i] = step == 7 ? 0 : (uint32_t)rand() % 3;
                leaf[i] = random_grads();
                all += examples[i];
            }
            for (uint32_t i = 0; i < shards; i++) {
                c->node[i].logged = 0;
                push_below(c, i, step, root, leaf, examples);
            }
            struct grads sum = model_sum(leaf, root);
            model_step(c, &model, &sum, all);
            check_now(c, &model);
        }
        end(c);
    }
}

static void a_read_creates_no_row(void **state)
{
    (void)state;
    static const struct model none;
    struct cluster *c = begin(2);
    check_now(c, &none);
    check_now(c, &none);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(shard_status(c->node[i].shard)->rows, 0);
    end(c);
}

static void an_empty_step_touches_no_row_and_is_made(void **state)
{
    (void)state;
    static const struct model none;
    struct cluster *c = begin(2);
    struct grads g = touch(0, KEYS, 1);
    for (uint32_t i = 0; i < 2; i++)
        push_rows(c, i, 0, root, 0, &g);
    push_block(c, 0, 0, root, 0);
    assert_int_equal(step_of(c, 0), 1);
    assert_int_equal(step_of(c, 1), 1);
    assert_int_equal(shard_status(c->node[1].shard)->t, 0);
    check_now(c, &none);
    end(c);
}

/* ---- when a step is made ---- */

static void the_run_that_ends_a_step_says_made(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    push_rows(c, 0, 0, root, 1, &nothing);
    assert_int_equal(step_of(c, 0), 0);
    push_block(c, 0, 0, root, 1);
    assert_int_equal(step_of(c, 0), 1);
    assert_int_equal(c->node[0].logged, 1);
    assert_int_equal(c->node[0].log[0].chunks, 1);
    assert_true(c->node[0].log[0].made);
    end(c);
}

static void a_reply_without_chunks_says_made_where_the_last_part_comes_last(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    push_block(c, 0, 0, root, 1);
    push_parts(c, 0, 0, 0, root, 1, &nothing, 0, ROW_PARTS - 1);
    assert_int_equal(step_of(c, 0), 0);
    assert_int_equal(c->node[0].logged, 1);
    assert_false(c->node[0].log[0].made);
    push_parts(c, 0, 0, 0, root, 1, &nothing, ROW_PARTS - 1, 1);
    assert_int_equal(step_of(c, 0), 1);
    assert_int_equal(c->node[0].logged, 2);
    const struct sent *s = last_sent(c, 0);
    assert_int_equal(s->type, FRAME_REPLY);
    assert_int_equal(s->chunks, 0);
    assert_int_equal(s->step, 1);
    assert_true(s->made && !s->has_body);
    end(c);
}

static void a_shard_without_chunks_makes_steps_and_says_so(void **state)
{
    (void)state;
    struct cluster *c = begin(2);
    push_parts(c, 1, 0, 0, (struct tree_node){1, 0}, 1, &nothing, 0, ROW_PARTS);
    assert_int_equal(c->node[1].logged, 0);
    push_parts(c, 1, 1, 0, (struct tree_node){1, 1}, 1, &nothing, 0, ROW_PARTS);
    assert_int_equal(step_of(c, 1), 1);
    assert_int_equal(shard_status(c->node[1].shard)->t, 1);
    assert_int_equal(c->node[1].logged, 2); /* one to each worker */
    for (int i = 0; i < 2; i++)
        assert_true(c->node[1].log[i].made && c->node[1].log[i].chunks == 0);
    end(c);
}

static void a_late_push_and_a_pull_are_answered_with_made(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct cluster *c = begin(2);
    make_step(c, 0, &nothing);
    for (uint32_t i = 0; i < 2; i++) {
        Gradwire__Pull pull = GRADWIRE__PULL__INIT;
        Gradwire__Generation g = quiet_generation(c->generation);
        pull.generation = &g;
        pull.any = true;
        c->node[i].logged = 0;
        push_parts(c, i, 1, 0, root, 1, &nothing, 0, 1);
        push_parts(c, i, 1, 0, root, 1, &nothing, 1, 1); /* one answer to all frames */
        assert_int_equal(c->node[i].logged, 1);
        assert_int_equal(c->node[i].log[0].outcome, GRADWIRE__OUTCOME__DUPLICATE);
        assert_int_equal(
            shard_on_worker(c->node[i].shard, &c->node[i].peer[1], FRAME_PULL, &pull.base, &e),
            ERR_OK);
        for (int k = 0; k < 2; k++) {
            const struct sent *s = &c->node[i].log[k];
            assert_true(s->made && s->step == 1 && s->chunks == (i == 0));
        }
    }
    end(c);
}

/* ---- which rows are read ---- */

static void rows_of_the_present_step_are_read_while_the_next_is_made(void **state)
{
    (void)state;
    static struct model before, after;
    struct cluster *c = begin(2);
    struct grads first = touch(0, KEYS / 2, 1), second = touch(KEYS / 4, KEYS, 2);
    make_step(c, 0, &first);
    memset(&before, 0, sizeof before);
    model_step(c, &before, &first, 1);
    after = before;
    model_step(c, &after, &second, 1);
    for (uint32_t parts = 1; parts < ROW_PARTS; parts++) {
        push_parts(c, 1, 0, 1, root, 1, &second, parts - 1, 1);
        ask(c, 1, 1, 1, 1);
        check_rows(c, 1, last_sent(c, 1), &before);
        assert_int_equal(last_sent(c, 1)->step, 1);
    }
    push_parts(c, 1, 0, 1, root, 1, &second, ROW_PARTS - 1, 1);
    ask(c, 1, 1, 1, 2);
    check_rows(c, 1, last_sent(c, 1), &after);
    end(c);
}

static void rows_of_the_step_before_are_there_until_a_part_of_the_next_is_made(void **state)
{
    (void)state;
    static struct model before;
    struct cluster *c = begin(1);
    struct grads first = touch(0, KEYS / 2, 1), second = touch(KEYS / 4, KEYS, 2);
    make_step(c, 0, &first);
    make_step(c, 1, &second);
    memset(&before, 0, sizeof before);
    model_step(c, &before, &first, 1);
    ask(c, 0, 0, 7, 1);
    check_rows(c, 0, last_sent(c, 0), &before);
    assert_int_equal(last_sent(c, 0)->step, 1);
    push_parts(c, 0, 0, 2, root, 1, &nothing, 0, 1);
    ask(c, 0, 0, 8, 1);
    assert_true(last_sent(c, 0)->gone && !last_sent(c, 0)->has_body);
    assert_int_equal(last_sent(c, 0)->number, 8);
    assert_int_equal(last_sent(c, 0)->step, 2);
    end(c);
}

static void rows_of_the_step_before_an_empty_one_are_those_of_now(void **state)
{
    (void)state;
    static struct model model;
    struct cluster *c = begin(1);
    struct grads g = touch(0, KEYS, 1);
    make_step(c, 0, &g);
    memset(&model, 0, sizeof model);
    model_step(c, &model, &g, 1);
    push_rows(c, 0, 1, root, 0, &g);
    push_block(c, 0, 1, root, 0);
    ask(c, 0, 0, 1, 1);
    check_rows(c, 0, last_sent(c, 0), &model);
    ask(c, 0, 0, 2, 0);
    assert_true(last_sent(c, 0)->gone);
    end(c);
}

static void an_ask_of_the_next_step_is_answered_behind_made(void **state)
{
    (void)state;
    static struct model model;
    struct cluster *c = begin(2);
    struct grads g = touch(0, KEYS, 1);
    memset(&model, 0, sizeof model);
    model_step(c, &model, &g, 1);
    push_parts(c, 1, 0, 0, root, 1, &g, 0, ROW_PARTS - 1);
    ask(c, 1, 0, 3, 1);
    assert_int_equal(c->node[1].logged, 0);
    push_parts(c, 1, 0, 0, root, 1, &g, ROW_PARTS - 1, 1);
    assert_int_equal(c->node[1].logged, 2);
    assert_true(c->node[1].log[0].made);
    check_rows(c, 1, &c->node[1].log[1], &model);
    assert_int_equal(c->node[1].log[1].number, 3);
    assert_int_equal(c->node[1].log[1].step, 1);
    end(c);
}

static void the_two_latest_asks_wait_and_a_third_ends_the_oldest(void **state)
{
    (void)state;
    struct cluster *c = begin(2);
    for (uint64_t number = 1; number <= 3; number++)
        ask(c, 1, 1, number, 1);
    push_rows(c, 1, 0, root, 1, &nothing);
    const struct node *n = &c->node[1];
    assert_int_equal(n->logged, 3);
    assert_int_equal(n->log[1].number, 2);
    assert_int_equal(n->log[2].number, 3);
    push_rows(c, 1, 1, root, 1, &nothing); /* they are not answered again */
    assert_int_equal(n->logged, 4);
    end(c);
}

static void asks_end_with_their_connection_and_their_generation(void **state)
{
    (void)state;
    struct cluster *c = begin(2);
    ask(c, 1, 1, 1, 1);
    shard_peer_gone(c->node[1].shard, &c->node[1].peer[1]);
    push_rows(c, 1, 0, root, 1, &nothing);
    assert_int_equal(c->node[1].logged, 1); /* to worker 0, made */
    ask(c, 1, 0, 2, 2);
    enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    hellos(c);
    push_rows(c, 1, 1, root, 1, &nothing);
    assert_int_equal(c->node[1].logged, 1);
    assert_int_equal(c->node[1].log[0].type, FRAME_REPLY);
    end(c);
}

/* A takeover may come while a cut holds a whole step: it is made at once, for nobody who asked before. */
static void a_takeover_answers_no_ask_of_before(void **state)
{
    (void)state;
    struct cluster *c = begin(2);
    struct node *n = &c->node[1];
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__Generation generation = quiet_generation(c->generation);
    cut.generation = &generation;
    cut.cut = 1;
    shard_on_chief(n->shard, FRAME_CUT, &cut.base);
    ask(c, 1, 0, 1, 1);
    push_rows(c, 1, 0, root, 1, &nothing);
    quiet_enter(n->shard, &c->plan, &c->settings, ++c->generation, GRADWIRE__ENTER_MODE__TAKEOVER,
                0);
    assert_int_equal(step_of(c, 1), 1);
    for (uint32_t i = 0; i < n->logged; i++)
        assert_int_equal(n->log[i].type, FRAME_REPLY);
    end(c);
}

static void an_ask_beyond_the_next_step_is_refused(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct cluster *c = begin(1);
    assert_int_equal(ask_with(c, 0, 0, 1, false, 2, &e), ERR_PROTO);
    assert_string_equal(e.text, "rows of step 2 are asked for, 0 is present");
    end(c);
}

static void an_ask_for_any_rows_gets_those_of_the_present_step(void **state)
{
    (void)state;
    static const struct model none;
    struct errmsg e = {""};
    struct cluster *c = begin(2);
    struct grads g = touch(0, KEYS, 1);
    push_parts(c, 1, 0, 0, root, 1, &g, 0, ROW_PARTS - 1);
    assert_int_equal(ask_with(c, 1, 1, 1, true, 77, &e), ERR_OK);
    check_rows(c, 1, last_sent(c, 1), &none);
    end(c);
}

static void an_ask_without_keys_is_answered(void **state)
{
    (void)state;
    struct errmsg e = {""};
    uint32_t keys[LISTS] = {0};
    struct cluster *c = begin(1);
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.number = 4;
    m.keys = keys;
    m.n_keys = LISTS;
    assert_int_equal(ask_of(c, 0, 0, &m, NULL, 0, &e), ERR_OK);
    assert_int_equal(last_sent(c, 0)->number, 4);
    assert_int_equal(last_sent(c, 0)->bytes, 0);
    end(c);
}

static void a_takeover_keeps_nodes_of_parts_and_what_was_set_aside(void **state)
{
    (void)state;
    static struct model before, after;
    struct cluster *c = begin(1);
    struct grads first = touch(0, KEYS / 2, 1), second = touch(KEYS / 4, KEYS, 2);
    make_step(c, 0, &first);
    memset(&before, 0, sizeof before);
    model_step(c, &before, &first, 1);
    after = before;
    model_step(c, &after, &second, 2);
    push_rows(c, 0, 1, (struct tree_node){1, 0}, 1, &second);
    push_parts(c, 0, 0, 1, (struct tree_node){1, 1}, 1, &nothing, 0, 5); /* parts 0 to 4 are made */
    enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    hellos(c);
    ask(c, 0, 0, 1, 1);
    check_rows(c, 0, last_sent(c, 0), &before);
    push_rows(c, 0, 1, (struct tree_node){1, 1}, 1, &nothing);
    push_block(c, 0, 1, root, 2);
    assert_int_equal(step_of(c, 0), 2);
    ask(c, 0, 0, 2, 1);
    check_rows(c, 0, last_sent(c, 0), &before);
    check_now(c, &after);
    end(c);
}

static void complete_parts_wait_while_a_cut_holds_the_step(void **state)
{
    (void)state;
    static struct model model;
    struct cluster *c = begin(2);
    struct grads g = touch(0, KEYS, 1);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__CutEnded ended = GRADWIRE__CUT_ENDED__INIT;
    Gradwire__Generation generation = quiet_generation(c->generation);
    cut.generation = ended.generation = &generation;
    cut.cut = ended.cut = 1;
    shard_on_chief(c->node[1].shard, FRAME_CUT, &cut.base);
    push_rows(c, 1, 0, root, 1, &g);
    assert_int_equal(step_of(c, 1), 0);
    shard_on_chief(c->node[1].shard, FRAME_CUT_ENDED, &ended.base);
    assert_int_equal(step_of(c, 1), 1);
    memset(&model, 0, sizeof model);
    model_step(c, &model, &g, 1);
    ask(c, 1, 0, 1, 1);
    check_rows(c, 1, last_sent(c, 1), &model);
    end(c);
}

/* A part in the middle of the step that no boundary is: the cut waits for the step's end. */
static void a_cut_does_not_stop_a_step_of_which_parts_are_made(void **state)
{
    (void)state;
    struct cluster *c = begin(2);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__Generation generation = quiet_generation(c->generation);
    cut.generation = &generation;
    cut.cut = 1;
    push_parts(c, 1, 0, 0, root, 1, &nothing, 0, 1);
    shard_on_chief(c->node[1].shard, FRAME_CUT, &cut.base);
    push_parts(c, 1, 0, 0, root, 1, &nothing, 1, ROW_PARTS - 1);
    assert_int_equal(step_of(c, 1), 1);
    push_rows(c, 1, 1, root, 1, &nothing);
    assert_int_equal(step_of(c, 1), 1); /* held */
    end(c);
}

/* ---- pushes that name an ask ---- */

/* A push of no examples that touches no row, all parts of shard 0. */
static enum err push_by_ask(struct cluster *c, uint64_t name, struct tree_node node, uint64_t ask,
                            struct errmsg *e)
{
    static const uint32_t counts[ROW_PARTS * LISTS];
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__RowsPush m = rows_push(&g, name, node, 0, 0, ROW_PARTS);
    m.ask = ask;
    return send_rows_push(c, 0, 0, &m, counts, sizeof counts, e);
}

static void may_name(struct cluster *c, uint64_t ask, bool may)
{
    struct errmsg e = {""};
    char text[120];
    enum err err = push_by_ask(c, step_of(c, 0), (struct tree_node){0, 0}, ask, &e);
    assert_int_equal(err, may ? ERR_OK : ERR_PROTO);
    (void)snprintf(text, sizeof text,
                   "a push refers to ask %llu, which is none of the two latest of its connection",
                   (unsigned long long)ask);
    assert_string_equal(e.text, may ? "" : text);
}

static void a_push_may_name_the_two_latest_asks_answered_or_not(void **state)
{
    (void)state;
    struct errmsg e;
    struct cluster *c = begin(1);
    may_name(c, 1, false);
    ask(c, 0, 0, 1, 0);
    ask(c, 0, 0, 2, 1); /* waits */
    may_name(c, 1, true);
    may_name(c, 2, true);
    assert_int_equal(ask_once(c, 0, 0, 3, true, 0, true, &e), ERR_OK);
    may_name(c, 3, false); /* it is not kept, and ends none */
    may_name(c, 1, true);
    ask(c, 0, 1, 4, 0); /* of another connection */
    may_name(c, 4, false);
    ask(c, 0, 0, 5, 0);
    may_name(c, 1, false);
    may_name(c, 2, true);
    push_rows(c, 0, 0, root, 0, &nothing);
    push_block(c, 0, 0, root, 0); /* ask 2 is answered by that */
    assert_int_equal(step_of(c, 0), 1);
    may_name(c, 2, true);
    may_name(c, 5, true);
    ask(c, 0, 0, 6, 1);
    may_name(c, 2, false);
    end(c);
}

static void asks_that_pushes_name_end_with_their_connection(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    ask(c, 0, 0, 1, 0);
    shard_peer_gone(c->node[0].shard, &c->node[0].peer[0]);
    hello(c, 0, 0);
    may_name(c, 1, false);
    ask(c, 0, 0, 2, 0);
    enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    hellos(c);
    may_name(c, 2, false);
    end(c);
}

/* Bits over all of the shard's keys of one list that lie in the part. Returns the bytes. */
static size_t put_bits(const struct cluster *c, const bool *touched, struct bucket_range of,
                       uint8_t *out)
{
    uint64_t bits[KEYS / 64 + 1] = {0};
    uint32_t asked = 0, set = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        uint32_t bucket = key_bucket(c->key[k]);
        if (bucket < of.first || bucket >= of.end)
            continue;
        set += touched[k];
        bits[asked / 64] |= (uint64_t)touched[k] << (asked % 64);
        asked++;
    }
    size_t bytes = set == 0 || set == asked ? 0 : (asked + 63) / 64 * sizeof *bits;
    memcpy(out, bits, bytes);
    return bytes;
}

/* A section with bits in the place of keys. */
static size_t section_by_ask(const struct cluster *c, const struct grads *g, struct bucket_range of,
                             uint8_t *out)
{
    static uint8_t with_keys[1 << 14];
    uint32_t keys[LISTS];
    size_t bytes = section(c, g, of, with_keys), at = sizeof keys;
    memcpy(keys, with_keys, sizeof keys);
    memcpy(out, keys, sizeof keys);
    for (uint32_t list = 0; list < LISTS; list++)
        at += put_bits(c, g->touched[list], of, out + at);
    size_t skip = sizeof keys + (keys[0] + keys[1]) * sizeof(uint64_t);
    return put(out, at, with_keys + skip, bytes - skip);
}

/* Half of the nodes by an ask that ends before they are summed, some after a takeover. */
static void rows_pushed_by_an_ask_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    static struct model model;
    static uint8_t body[1 << 15];
    struct cluster *c = begin(1);
    memset(&model, 0, sizeof model);
    for (uint64_t step = 0; step < 6; step++) {
        struct grads leaf[LEAVES];
        struct errmsg e = {""};
        for (uint32_t i = 0; i < LEAVES; i++)
            leaf[i] = i % 2 ? random_grads() : touch(0, KEYS, (float)i);
        for (uint32_t i = 0; i < LEAVES; i++) {
            struct tree_node node = {0, i};
            Gradwire__Generation g = quiet_generation(c->generation);
            Gradwire__RowsPush m = rows_push(&g, step, node, 1, 0, ROW_PARTS);
            size_t bytes = 0;
            ask(c, 0, 0, 10 * step + i + 1, step);
            m.ask = 10 * step + i + 1;
            for (uint32_t p = 0; p < ROW_PARTS; p++)
                bytes +=
                    section_by_ask(c, &leaf[i], bucket_part(bucket_shard(0, 1), p), body + bytes);
            assert_int_equal(send_rows_push(c, 0, 0, &m, body, bytes, &e), ERR_OK);
            memset(body, 0xff, bytes);
            if (i == 2 && step % 2) {
                enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
                hellos(c);
            }
        }
        push_block(c, 0, step, root, LEAVES);
        assert_int_equal(step_of(c, 0), step + 1);
        struct grads sum = model_sum(leaf, root);
        model_step(c, &model, &sum, LEAVES);
        check_now(c, &model);
    }
    end(c);
}

/* ---- ssp ---- */

static void at_clock(struct cluster *c, uint32_t worker, uint64_t clock, bool enter)
{
    struct errmsg e = {""};
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__Tick tick = GRADWIRE__TICK__INIT;
    Gradwire__Pull pull = GRADWIRE__PULL__INIT;
    struct node *n = &c->node[0];
    tick.generation = pull.generation = &g;
    tick.entry = pull.entry = 1;
    tick.enter = true;
    pull.any = pull.bounded = true;
    pull.clock = clock;
    assert_int_equal(shard_on_worker(n->shard, &n->peer[worker], enter ? FRAME_TICK : FRAME_PULL,
                                     enter ? &tick.base : &pull.base, &e),
                     ERR_OK);
}

static enum err ask_at(struct cluster *c, uint32_t worker, uint64_t number, uint64_t clock,
                       struct errmsg *e)
{
    uint32_t keys[LISTS] = {1, 0};
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.number = number;
    m.any = m.bounded = true;
    m.clock = clock;
    m.keys = keys;
    m.n_keys = LISTS;
    return ask_of(c, 0, worker, &m, c->key, sizeof *c->key, e);
}

static uint32_t answers(const struct cluster *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->node[0].logged; i++)
        n += c->node[0].log[i].type == FRAME_ROWS;
    return n;
}

/* Staleness 1: a read at clock c waits while somebody is below c - 1. */
static void an_ask_at_a_clock_waits_as_a_pull_does(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct cluster *c = cluster_new(1);
    c->settings.update = GRADWIRE__UPDATE__SSP;
    c->settings.staleness = 1;
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    at_clock(c, 0, 0, true);
    at_clock(c, 1, 0, true);
    assert_int_equal(ask_at(c, 0, 1, 1, &e), ERR_OK);
    assert_int_equal(answers(c), 1);
    at_clock(c, 0, 1, false);
    assert_int_equal(ask_at(c, 0, 2, 2, &e), ERR_OK); /* ahead of its pull */
    at_clock(c, 0, 2, false);
    assert_int_equal(answers(c), 1); /* worker 1 is at 0 */
    at_clock(c, 1, 1, false);
    assert_int_equal(answers(c), 2);
    assert_int_equal(ask_at(c, 0, 3, 3, &e), ERR_OK);
    assert_int_equal(answers(c), 2);
    Gradwire__Gone gone = GRADWIRE__GONE__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    gone.generation = &g;
    gone.worker = 1;
    gone.incarnation = 3;
    at_clock(c, 0, 3, false);
    assert_int_equal(answers(c), 2);
    shard_on_chief(c->node[0].shard, FRAME_GONE, &gone.base); /* it is waited for no longer */
    assert_int_equal(answers(c), 3);
    end(c);
}

static void an_ask_at_a_clock_is_ssps_alone(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct errmsg e = {""};
        struct cluster *c = sync ? begin(1) : begin_async(1);
        assert_int_equal(ask_at(c, 0, 1, 0, &e), ERR_PROTO);
        assert_string_equal(e.text, "rows at a clock where training.update is not ssp");
        end(c);
    }
}

/* ---- codecs ---- */

static void set_codecs(struct cluster *c, enum row_codec push, enum row_codec reply)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        c->plan.tables[i]->push_codec = push;
        c->plan.tables[i]->reply_codec = reply;
    }
}

/* Gradients that bf16 has make the same rows; what is read for a task is bf16, and for an evaluation what the shard has. */
static void rows_travel_as_the_plan_says_and_an_evaluations_as_they_are(void **state)
{
    (void)state;
    static struct model model;
    static uint8_t body[1 << 16];
    struct errmsg e = {""};
    struct cluster *c = cluster_new(1);
    struct grads g = touch(0, KEYS, 2);
    set_codecs(c, ROW_CODEC_BF16, ROW_CODEC_BF16);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    uint8_t *at = body;
    for (uint32_t p = 0; p < ROW_PARTS; p++) { /* the floats of a section, by their upper halves */
        static uint8_t plain[1 << 14];
        uint32_t keys[LISTS];
        size_t bytes = section(c, &g, bucket_part(bucket_shard(0, 1), p), plain);
        memcpy(keys, plain, sizeof keys);
        size_t head = sizeof keys + (keys[0] + keys[1]) * sizeof(uint64_t), from = head;
        memcpy(at, plain, head);
        uint8_t *out = at + head;
        for (uint32_t t = 0; t < TABLES; t++) {
            uint32_t n = keys[list_of[t]];
            memset(out, 0, (n + 31) / 32 * 4);
            out += (n + 31) / 32 * 4;
            for (uint32_t i = 0; i < n * dim_of[t]; i++, from += sizeof(float), out += 2)
                memcpy(out, plain + from + 2, 2);
        }
        assert_true(from <= bytes);
        while ((out - at) % 8)
            *out++ = 0;
        at = out;
    }
    Gradwire__Generation generation = quiet_generation(c->generation);
    Gradwire__RowsPush m = rows_push(&generation, 0, root, 1, 0, ROW_PARTS);
    assert_int_equal(send_rows_push(c, 0, 0, &m, body, (uint64_t)(at - body), &e), ERR_OK);
    push_block(c, 0, 0, root, 1);
    assert_int_equal(step_of(c, 0), 1);
    memset(&model, 0, sizeof model);
    model_step(c, &model, &g, 1);
    ask(c, 0, 0, 1, 1);
    uint64_t encoded = last_sent(c, 0)->bytes;
    assert_int_equal(ask_once(c, 0, 0, 2, true, 0, true, &e), ERR_OK);
    check_rows(c, 0, last_sent(c, 0), &model);
    assert_true(encoded < last_sent(c, 0)->bytes * 2 / 3);
    set_codecs(c, ROW_CODEC_NONE, ROW_CODEC_NONE); /* run-time keys of a new chief */
    enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    hellos(c);
    ask(c, 0, 0, 1, 1);
    check_rows(c, 0, last_sent(c, 0), &model);
    make_step(c, 1, &g);
    end(c);
}

/* ---- what is refused ---- */

static void refuse_push(struct cluster *c, const Gradwire__RowsPush *m, const void *body,
                        uint64_t bytes, const char *text)
{
    struct errmsg e = {""};
    assert_int_equal(send_rows_push(c, 0, 0, m, body, bytes, &e), ERR_PROTO);
    assert_string_equal(e.text, text);
    assert_int_equal(c->node[0].logged, 0);
}

static void a_push_of_rows_that_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__RowsPush m = rows_push(&g, 0, root, 1, 10, 7);
    const uint32_t empty[2] = {0, 0};
    refuse_push(c, &m, empty, sizeof empty, "parts 10 + 7 are not of a shard's 16");
    m = rows_push(&g, 0, root, 1, 3, 0);
    refuse_push(c, &m, empty, sizeof empty, "parts 3 + 0 are not of a shard's 16");
    m = rows_push(&g, 0, (struct tree_node){0, 4}, 1, 0, 1);
    refuse_push(c, &m, empty, sizeof empty, "node (0, 4) is not in a tree of 4 leaves");
    m = rows_push(&g, 0, root, 1, 0, 1);
    refuse_push(c, &m, empty, 0, "0 bytes of rows in one push: allowed are 1 to 1073741824");
    refuse_push(c, &m, empty, (UINT64_C(1) << 30) + 8,
                "1073741832 bytes of rows in one push: allowed are 1 to 1073741824");
    m = rows_push(&g, 1, root, 1, 0, 1);
    struct errmsg e = {""};
    assert_int_equal(send_rows_push(c, 0, 0, &m, empty, sizeof empty, &e), ERR_PROTO);
    assert_string_equal(e.text, "a push of step 1 while step 0 is on");
    end(c);
}

static void a_body_of_rows_that_does_not_parse_is_refused_by_name(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = rows_push(&g, 0, root, 1, 0, 1);
    uint64_t body[16] = {0}; /* counts; keys; table a, table b: 5 floats a key of list 0 */
    refuse_push(c, &m, body, 4, "4 bytes are left for the counts of 2 lists");
    refuse_push(c, &m, body, 16, "8 bytes are left behind part 0");
    uint32_t counts[2] = {2, 0};
    memcpy(body, counts, sizeof counts);
    body[1] = 1;
    body[2] = 2;
    refuse_push(c, &m, body, 56, "56 bytes are left for a part of 64");
    body[2] = 1;
    refuse_push(c, &m, body, 64, "keys 0 and 1 of list 0 do not ascend");
    body[2] = UINT64_C(256) << 52; /* the first bucket of part 1 */
    refuse_push(c, &m, body, 64,
                "key 1 of list 0 is of bucket 256: from 0 on, below 256 are expected");
    counts[0] = UINT32_MAX;
    memcpy(body, counts, sizeof counts);
    refuse_push(c, &m, body, 64, "64 bytes are left for a part of 120259084272");
    const Gradwire__RowsPush second = rows_push(&g, 0, root, 1, 1, 1);
    counts[0] = 1;
    memcpy(body, counts, sizeof counts);
    refuse_push(c, &second, body, 40,
                "key 0 of list 0 is of bucket 0: from 256 on, below 512 are expected");
    end(c);
}

/* Bytes of a good push are changed: it is taken or refused, and a good one is still taken behind it. */
static void bodies_of_noise_break_nothing(void **state)
{
    (void)state;
    static uint8_t body[1 << 13], changed[1 << 13];
    struct grads g = touch(0, KEYS, 1);
    uint32_t refused = 0;
    srand(8);
    for (int round = 0; round < 400; round++) {
        struct cluster *c = round % 2 ? begin_async(1) : begin(1);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        Gradwire__RowsPush m = rows_push(&generation, 0, batch, 1, 0, ROW_PARTS);
        size_t bytes = 0;
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += section(c, &g, bucket_part(bucket_shard(0, 1), p), body + bytes);
        assert_true(bytes <= sizeof body);
        memcpy(changed, body, bytes);
        for (int i = rand() % 4; i >= 0; i--)
            changed[(size_t)rand() % bytes] = (uint8_t)rand();
        size_t left = rand() % 3 ? bytes : (size_t)rand() % bytes;
        enum err err = send_rows_push(c, 0, 0, &m, changed, left, &e);
        assert_true(err == ERR_OK || err == ERR_PROTO);
        refused += err == ERR_PROTO;
        assert_int_equal(send_rows_push(c, 0, 0, &m, body, bytes, &e), ERR_OK);
        end(c);
    }
    assert_true(refused > 100 && refused < 400);
}

static void refuse_ask(struct cluster *c, const uint32_t *keys, size_t lists, const void *mixed,
                       uint64_t bytes, const char *text)
{
    struct errmsg e = {""};
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.keys = (uint32_t *)keys;
    m.n_keys = lists;
    assert_int_equal(ask_of(c, 1, 0, &m, mixed, bytes, &e), ERR_PROTO);
    assert_string_equal(e.text, text);
    assert_int_equal(c->node[1].logged, 0);
}

static void an_ask_that_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    struct cluster *c = begin(2); /* shard 1 has the upper half of the keys */
    const uint64_t high = UINT64_C(1) << 63, wrong[2] = {high + 1, high}, low = 1;
    const uint32_t none[LISTS] = {0, 0}, two[LISTS] = {2, 0}, one[LISTS] = {0, 1};
    const uint32_t many[LISTS] = {UINT32_C(1) << 26, UINT32_C(1) << 26};
    refuse_ask(c, none, 1, NULL, 0, "keys of 1 lists where the plan has 2");
    refuse_ask(c, none, 2, wrong, 8, "8 body bytes where 0 keys are announced");
    refuse_ask(c, two, 2, wrong, 8, "8 body bytes where 2 keys are announced");
    refuse_ask(c, two, 2, wrong, 16, "keys 0 and 1 of list 0 do not ascend");
    refuse_ask(c, one, 2, &low, 8,
               "key 0 of list 1 is of bucket 0: from 2048 on, below 4096 are expected");
    refuse_ask(c, many, 2, NULL, UINT64_C(1) << 30,
               "the rows of 134217728 keys in one answer: it may have 1073741824 bytes");
    end(c);
}

static void rows_in_a_job_without_tables_are_refused(void **state)
{
    (void)state;
    struct errmsg e = {""};
    bool wanted;
    struct cluster *c = cluster_new(1);
    mem_free(c->layout.rows);
    c->layout.rows = NULL;
    msg_plan_close(&c->plan);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &c->shards, 1), ERR_OK);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = rows_push(&g, 0, root, 1, 0, 1);
    assert_int_equal(shard_rows_fits(c->node[0].shard, FRAME_ROWS_PUSH, &m.base, 8, &wanted, &e),
                     ERR_PROTO);
    assert_string_equal(e.text, "a ROWS_PUSH in a job without tables");
    end(c);
}

static void rows_of_another_generation_are_refused_and_the_connection_stays(void **state)
{
    (void)state;
    struct errmsg e = {""};
    const uint32_t empty[2] = {0, 0};
    struct cluster *c = begin(1);
    Gradwire__Generation g = quiet_generation(c->generation + 1);
    const Gradwire__RowsPush m = rows_push(&g, 0, root, 1, 99, 99);
    assert_int_equal(send_rows_push(c, 0, 0, &m, empty, sizeof empty, &e), ERR_OK);
    assert_int_equal(last_sent(c, 0)->type, FRAME_REFUSE);
    end(c);
}

static void settings_that_tables_do_not_go_with_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const what[] = {
        "lamb",           "top_k",          "use_ema", "gradient_accumulation_steps",
        "backup workers", "backup workers", "geo",     "delay_compensation"};
    for (int i = 0; i < 8; i++) {
        char wanted[128];
        struct cluster *c = cluster_new(1);
        c->settings.optimizer = i == 0 ? OPT_LAMB : OPT_SGD;
        c->settings.push_codec = i == 1 ? CODEC_TOP_K : CODEC_RAW;
        c->settings.push_ratio = 0.01f;
        c->settings.use_ema = i == 2;
        c->settings.ema_momentum = 0.5f;
        c->settings.gradient_accumulation_steps = i == 3 ? 2 : 0;
        c->settings.replicas_to_aggregate = i == 4 || i == 5;
        c->settings.redo = i == 5;
        if (i >= 6)
            c->settings.update = i == 6 ? GRADWIRE__UPDATE__GEO : GRADWIRE__UPDATE__ASYNC;
        c->settings.delay_compensation = i == 7 ? 0.5f : 0.0f;
        enter(c, GRADWIRE__ENTER_MODE__INIT);
        (void)snprintf(wanted, sizeof wanted, "the chief wants %s in a job with tables", what[i]);
        assert_string_equal(c->node[0].entered_error, wanted);
        end(c);
    }
}

static void a_takeover_brings_no_setting_that_tables_do_not_go_with(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    c->settings.replicas_to_aggregate = 1;
    enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_string_equal(c->node[0].entered_error,
                        "the chief wants backup workers in a job with tables");
    end(c);
}

/* ---- optimizers of tables ---- */

static void plan_anew(struct cluster *c)
{
    msg_plan_close(&c->plan);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &c->shards, 1), ERR_OK);
}

static void own_optimizer(struct cluster *c, uint32_t table, float of_rate, float of_momentum)
{
    struct row_table_spec *t = &c->layout.rows->table[table];
    t->has_optimizer = true;
    t->optimizer = (struct optimizer){.learning_rate = of_rate, .momentum = of_momentum};
    plan_anew(c);
}

static void each_table_is_updated_by_its_own_optimizer(void **state)
{
    (void)state;
    static struct model model;
    struct cluster *c = cluster_new(2);
    struct grads g[] = {touch(0, KEYS, 1), touch(0, KEYS / 2, 2), touch(KEYS / 4, KEYS, 3)};
    own_optimizer(c, 1, 0.7f, 0);
    own_optimizer(c, 2, 0.1f, 0.2f);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    memset(&model, 0, sizeof model);
    for (uint32_t step = 0; step < 3; step++) {
        make_step(c, step, &g[step]);
        model_step(c, &model, &g[step], 1);
        check_now(c, &model);
    }
    for (uint32_t i = 0; i < TABLES; i++)
        assert_int_equal(c->node[0].shard->rows.tables.table[i]->slot_floats,
                         i == 1 ? 0 : dim_of[i]);
    end(c);
}

static void a_takeover_brings_the_rates_of_each_table(void **state)
{
    (void)state;
    static struct model model;
    struct cluster *c = cluster_new(1);
    struct grads g = touch(0, KEYS, 1);
    own_optimizer(c, 1, 0.7f, 0);
    own_optimizer(c, 2, 0.1f, 0.2f);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    memset(&model, 0, sizeof model);
    make_step(c, 0, &g);
    model_step(c, &model, &g, 1);
    c->settings.learning_rate = 0.9f;
    own_optimizer(c, 2, 0.6f, 0.2f);
    enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_string_equal(c->node[0].entered_error, "");
    hellos(c);
    make_step(c, 1, &g);
    model_step(c, &model, &g, 1);
    check_now(c, &model);
    end(c);
}

static void a_takeover_with_other_tables_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct cluster *c = begin(1);
        struct row_layout *l = c->layout.rows, was = *l;
        if (i == 0)
            l->tables = 2;
        else if (i == 1)
            l->table[1].dim++;
        else
            l->table[2].name[0] = 'x';
        plan_anew(c);
        enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
        assert_string_equal(c->node[0].entered_error, "the chief that takes over has other tables");
        *l = was;
        end(c);
    }
}

static void an_optimizer_of_a_table_that_has_no_lazy_form_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct cluster *c = cluster_new(1);
        own_optimizer(c, 1, 0.5f, i == 0 ? 2.0f : 0.0f);
        struct optimizer *o = &c->layout.rows->table[1].optimizer;
        o->kind = i == 1 ? OPT_LAMB : OPT_SGD;
        o->use_ema = i == 2;
        o->accumulation_steps = i == 3 ? 2 : 0;
        plan_anew(c);
        enter(c, GRADWIRE__ENTER_MODE__INIT);
        assert_string_equal(c->node[0].entered_error, "table 1 of the plan is not one");
        end(c);
    }
}

/* ---- async ---- */

/* Batches come in parts, some of them twice, and the newest rows are behind each. */
static void async_rows_are_those_of_a_plain_loop_for_any_number_of_shards(void **state)
{
    (void)state;
    static struct model model;
    for (uint32_t shards = 1; shards <= SHARDS_MAX; shards *= 2) {
        srand(6);
        struct cluster *c = begin_async(shards);
        memset(&model, 0, sizeof model);
        for (uint64_t id = 0; id < 20; id++) {
            struct grads g = random_grads();
            uint32_t examples = (uint32_t)rand() % 4;
            uint32_t first = (uint32_t)rand() % ROW_PARTS, parts = ROW_PARTS - first;
            push_block(c, 0, id, batch, examples);
            for (uint32_t i = 0; i < shards; i++) {
                c->node[i].logged = 0;
                push_parts(c, i, 0, id, batch, examples, &g, first, parts);
                push_parts(c, i, 1, id, batch, examples, &g, 0, ROW_PARTS); /* redone */
            }
            model_step(c, &model, &g, examples);
            check_now(c, &model);
            for (uint32_t i = 0; i < shards; i++)
                assert_int_equal(step_of(c, i), id + 1);
        }
        end(c);
    }
}

static void an_async_push_of_rows_is_answered_with_its_parts_and_what_became_of_them(void **state)
{
    (void)state;
    struct cluster *c = begin_async(2);
    struct grads g = touch(0, KEYS, 1);
    push_parts(c, 1, 0, 5, batch, 1, &g, 3, 4);
    push_parts(c, 1, 0, 5, batch, 1, &g, 3, 4);
    push_parts(c, 1, 0, 5, batch, 1, &g, 0, ROW_PARTS);
    push_parts(c, 1, 0, 5, batch, 1, &g, 0, ROW_PARTS); /* it is resolved: the body is not wanted */
    static const uint32_t first[] = {3, 3, 0, 0}, parts[] = {4, 4, ROW_PARTS, ROW_PARTS};
    for (uint32_t i = 0; i < 4; i++) {
        const struct sent *s = &c->node[1].log[i];
        assert_int_equal(s->type, FRAME_REPLY);
        assert_int_equal(s->name, 5);
        assert_int_equal(s->first_part, first[i]);
        assert_int_equal(s->parts, parts[i]);
        assert_int_equal(s->outcome,
                         i % 2 ? GRADWIRE__OUTCOME__DUPLICATE : GRADWIRE__OUTCOME__APPLIED);
        assert_true(s->chunks == 0 && !s->has_body);
    }
    assert_int_equal(c->node[1].logged, 4);
    assert_int_equal(shard_status(c->node[1].shard)->duplicates, 2);
    end(c);
}

static void an_async_batch_is_resolved_when_all_chunks_and_parts_are_applied(void **state)
{
    (void)state;
    struct cluster *c = begin_async(2);
    push_parts(c, 0, 0, 0, batch, 1, &nothing, 0, ROW_PARTS);
    assert_int_equal(step_of(c, 0), 0);
    push_block(c, 0, 0, batch, 1);
    assert_int_equal(step_of(c, 0), 1);
    push_block(c, 0, 1, batch, 0);
    push_parts(c, 0, 0, 1, batch, 0, &nothing, 1, ROW_PARTS - 1);
    assert_int_equal(step_of(c, 0), 1);
    push_parts(c, 0, 0, 1, batch, 0, &nothing, 0, 1);
    assert_int_equal(step_of(c, 0), 2);
    push_parts(c, 1, 0, 1, batch, 1, &nothing, 0, ROW_PARTS); /* no chunk is awaited there */
    assert_int_equal(step_of(c, 1), 1);
    assert_int_equal(shard_status(c->node[0].shard)->t, 1); /* the empty one is none */
    end(c);
}

static void async_rates_go_by_the_updates_of_each_part(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1);
    struct grads g = touch(0, KEYS, 1);
    c->settings.update = GRADWIRE__UPDATE__ASYNC;
    c->settings.momentum = 0;
    c->settings.learning_rate = 1;
    c->settings.schedule = SCHEDULE_EXPONENTIAL_DECAY;
    c->settings.decay_steps = 1;
    c->settings.decay_rate = 0.25f;
    for (uint32_t i = 0; i < TABLES; i++)
        c->layout.rows->table[i].init = INIT_ZEROS;
    msg_plan_close(&c->plan);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &c->shards, 1), ERR_OK);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    assert_string_equal(c->node[0].entered_error, "");
    hellos(c);
    push_parts(c, 0, 0, 0, batch, 1, &nothing, 0, 8); /* the first of parts 0 to 7 */
    push_parts(c, 0, 0, 1, batch, 1, &g, 0, ROW_PARTS);
    ask(c, 0, 0, 1, 0);
    const float *w = (const float *)(const void *)(last_sent(c, 0)->body + 2 * sizeof(uint32_t));
    for (uint32_t k = 0; k < KEYS; k++) {
        bool second =
            key_bucket(c->key[k]) < bucket_part((struct bucket_range){0, ROW_BUCKETS}, 7).end;
        assert_true(w[2 * k] == (second ? -0.25f : -1.0f));
    }
    end(c);
}

static void async_without_chunks_counts_the_staleness_of_its_first_part(void **state)
{
    (void)state;
    struct cluster *c = begin_async(2);
    push_rows(c, 1, 0, batch, 1, &nothing);
    push_rows(c, 1, 1, batch, 1, &nothing);
    ask(c, 1, 0, 1, 0);
    push_rows(c, 1, 2, batch, 1, &nothing);
    const Gradwire__ShardStatus *s = shard_status(c->node[1].shard);
    for (size_t i = 0; i < s->n_staleness; i++) {
        if (s->staleness[i]->worker != 0)
            continue;
        assert_int_equal(s->staleness[i]->count, 3);
        assert_int_equal(s->staleness[i]->sum, 1); /* 0, then 1, then 0 behind the answer */
    }
    assert_int_equal(s->n_staleness, 2);
    end(c);
}

/* A part's staleness is that of its own updates, since the worker was sent rows last, whatever they are. */
static void async_rates_are_divided_by_the_staleness_of_each_part(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1);
    struct grads g = touch(0, KEYS, 1);
    c->settings.update = GRADWIRE__UPDATE__ASYNC;
    c->settings.staleness_rate = true;
    c->settings.momentum = 0;
    c->settings.learning_rate = 1;
    for (uint32_t i = 0; i < TABLES; i++)
        c->layout.rows->table[i].init = INIT_ZEROS;
    msg_plan_close(&c->plan);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &c->shards, 1), ERR_OK);
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    assert_string_equal(c->node[0].entered_error, "");
    hellos(c);
    ask(c, 0, 0, 1, 0);
    for (uint64_t id = 0; id < 4; id++) /* worker 1's: of parts 0 to 7 */
        push_parts(c, 0, 1, id, batch, 1, &nothing, 0, 8);
    push_parts(c, 0, 0, 4, batch, 1, &g, 0, ROW_PARTS);
    ask(c, 0, 0, 2, 0);
    const float *w = (const float *)(const void *)(last_sent(c, 0)->body + 2 * sizeof(uint32_t));
    for (uint32_t k = 0; k < KEYS; k++) {
        bool stale =
            key_bucket(c->key[k]) < bucket_part((struct bucket_range){0, ROW_BUCKETS}, 7).end;
        assert_true(w[2 * k] == (stale ? -0.25f : -1.0f));
    }
    push_parts(c, 0, 0, 5, batch, 1, &g, 0, ROW_PARTS); /* right behind the answer */
    ask(c, 0, 0, 3, 0);
    w = (const float *)(const void *)(last_sent(c, 0)->body + 2 * sizeof(uint32_t));
    assert_true(w[0] == -1.25f && w[2 * (KEYS - 1)] == -2.0f);
    end(c);
}

static void an_async_pull_is_answered_with_made(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct cluster *c = begin_async(2);
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    m.generation = &g;
    m.any = true;
    for (uint32_t i = 0; i < 2; i++) {
        struct node *n = &c->node[i];
        assert_int_equal(shard_on_worker(n->shard, &n->peer[0], FRAME_PULL, &m.base, &e), ERR_OK);
        assert_true(last_sent(c, i)->made && last_sent(c, i)->chunks == (i == 0));
    }
    end(c);
}

static void an_async_batch_beyond_the_window_is_refused(void **state)
{
    (void)state;
    struct errmsg e = {""};
    const uint32_t empty[2] = {0, 0};
    struct cluster *c = begin_async(1);
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = rows_push(&g, IDS_WINDOW, batch, 1, 0, 1);
    char wanted[96];
    (void)snprintf(wanted, sizeof wanted, "batch %d is beyond the window of %d above 0", IDS_WINDOW,
                   IDS_WINDOW);
    assert_int_equal(send_rows_push(c, 0, 0, &m, empty, sizeof empty, &e), ERR_PROTO);
    assert_string_equal(e.text, wanted);
    end(c);
}

/* ---- the table clock ---- */

static uint64_t stamp_of(const struct cluster *c, uint32_t shard, uint32_t k)
{
    const struct row_table *t = c->node[shard].shard->rows.tables.table[0];
    uint32_t row;
    assert_int_equal(row_table_find(t, &c->key[k], 1, &row), 1);
    return row_stamp(t, row);
}

/* Key KEYS - 1 is the last shard's. The clock is ahead of the steps by those of earlier runs. */
static void rows_are_stamped_with_the_table_clock(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        struct cluster *c = async ? begin_async(2) : begin(2);
        struct grads g = touch(0, KEYS, 1);
        struct tree_node node = async ? batch : root;
        for (uint32_t i = 0; i < 2; i++)
            c->node[i].shard->rows.clock_before = 40;
        push_rows(c, 1, 0, node, 0, &g); /* counts, and touches nothing */
        push_rows(c, 1, 1, node, 1, &g);
        assert_int_equal(stamp_of(c, 1, KEYS - 1), 42);
        end(c);
    }
}

static void status_counts_rows_and_their_memory(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    struct grads g = touch(0, 10, 1);
    make_step(c, 0, &g);
    const Gradwire__ShardStatus *s = shard_status(c->node[0].shard);
    assert_int_equal(s->rows, 10 * TABLES);
    assert_true(s->row_bytes >= 10 * 6 * sizeof(float));
    const struct shard_facts facts = shard_facts(c->node[0].shard);
    assert_true(facts.state_bytes >= s->row_bytes); /* a snapshot has them */
    end(c);
}

static void status_counts_the_rows_that_are_read_and_touched(void **state)
{
    (void)state;
    struct cluster *c = begin(1);
    struct grads g = touch(0, 10, 1), more = touch(5, 15, 1);
    make_step(c, 0, &g);
    make_step(c, 1, &more);
    ask(c, 0, 0, 1, 2); /* KEYS of each list; 15 of them are there */
    const struct shard *s = c->node[0].shard;
    const struct row_traffic t = shard_facts(s).rows;
    uint64_t bytes = 0, read_bytes = 0;
    for (uint32_t i = 0; i < TABLES; i++) {
        const struct row_table *table = s->rows.tables.table[i];
        read_bytes += 15 * sizeof(float) * table->dim;
        bytes += 20 * sizeof(float) * (2 * (uint64_t)table->dim + table->slot_floats);
    }
    assert_int_equal(t.asked, KEYS * TABLES);
    assert_int_equal(t.read, 15 * TABLES);
    assert_int_equal(t.read_bytes, read_bytes);
    assert_int_equal(t.touched, 20 * TABLES);
    assert_int_equal(t.touched_bytes, bytes);
    end(c);
}

/* ---- admission ---- */

static struct cluster *begin_admitting(uint32_t shards, struct row_admission rule, bool async)
{
    struct cluster *c = cluster_new(shards);
    for (uint32_t i = 0; i < TABLES; i++)
        c->layout.rows->table[i].admission = rule;
    msg_plan_close(&c->plan);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &shards, 1), ERR_OK);
    if (async)
        c->settings.update = GRADWIRE__UPDATE__ASYNC;
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    return c;
}

/* Touches of a row that is not there are counted once a step, whatever its leaves. */
static void the_step_that_brings_a_row_its_count_makes_and_updates_it(void **state)
{
    (void)state;
    const struct row_admission twice = {.min_count = 2, .sketch_mb = 1};
    for (uint32_t shards = 1; shards <= 3; shards++) {
        static struct model model, none;
        struct cluster *c = begin_admitting(shards, twice, false);
        struct grads g = touch(0, 10, 1);
        memset(&model, 0, sizeof model);
        for (uint32_t i = 0; i < shards; i++)
            for (uint32_t half = 0; half < 2; half++)
                push_rows(c, i, 0, (struct tree_node){1, half}, 1, &g);
        push_block(c, 0, 0, root, 2);
        check_now(c, &none);
        make_step(c, 1, &nothing);
        check_now(c, &none);
        model_step(c, &model, &g, 1);
        make_step(c, 2, &g);
        check_now(c, &model);
        const struct row_counts *counts = &c->node[0].shard->rows.tables.counts;
        assert_true(shards > 1 ||
                    (counts->admitted == 10 * TABLES && counts->dropped == 10 * TABLES));
        end(c);
    }
}

/* As of the step before, rows that the step has admitted are not there. */
static void a_row_that_a_step_admits_is_not_there_as_of_the_step_before(void **state)
{
    (void)state;
    static const struct model none;
    struct cluster *c =
        begin_admitting(1, (struct row_admission){.min_count = 2, .sketch_mb = 1}, false);
    struct grads g = touch(0, 10, 1);
    make_step(c, 0, &g);
    make_step(c, 1, &g);
    ask(c, 0, 0, 1, 1);
    check_rows(c, 0, last_sent(c, 0), &none);
    end(c);
}

/* A part of async that finds no memory is applied when it comes again: nothing was counted the first time. */
static void touches_of_a_part_without_memory_are_not_counted(void **state)
{
    (void)state;
    static uint8_t body[1 << 16];
    struct grads early = touch(0, KEYS, 1), g = touch(0, KEYS, 1);
    bool fired = true, refused = false;
    for (uint32_t k = 0; k < KEYS;
         k += 2) /* those come the first time, beside ones that come again */
        early.touched[0][k] = early.touched[1][k] = false;
    for (long n = 0; fired; n++) {
        struct cluster *c =
            begin_admitting(1, (struct row_admission){.min_count = 2, .sketch_mb = 1}, true);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        static struct model model;
        size_t bytes = 0;
        push_rows(c, 0, 0, batch, 1, &early);
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += section(c, &g, bucket_part(bucket_shard(0, 1), p), body + bytes);
        const Gradwire__RowsPush m = rows_push(&generation, 1, batch, 1, 0, ROW_PARTS);
        mem_fail_at(n);
        refused |= send_rows_push(c, 0, 0, &m, body, bytes, &e) == ERR_NOMEM;
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(send_rows_push(c, 0, 0, &m, body, bytes, &e), ERR_OK);
        memset(&model, 0, sizeof model);
        model_step(c, &model, &early, 1);
        ask(c, 0, 0, 1, 0);
        check_rows(c, 0, last_sent(c, 0), &model);
        end(c);
    }
    assert_true(refused);
}

/* ---- eviction ---- */

static struct cluster *begin_evicting(uint32_t shards, uint32_t unseen_steps, bool async)
{
    struct cluster *c = cluster_new(shards);
    for (uint32_t i = 0; i < TABLES; i++)
        c->layout.rows->table[i].unseen_steps = unseen_steps;
    msg_plan_close(&c->plan);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &shards, 1), ERR_OK);
    if (async)
        c->settings.update = GRADWIRE__UPDATE__ASYNC;
    enter(c, GRADWIRE__ENTER_MODE__INIT);
    hellos(c);
    return c;
}

/* Each moment that can be read has its own clock. A row that is touched again is new: its momentum, too. */
static void a_row_that_no_step_touches_is_gone_at_its_clock_and_new_when_touched(void **state)
{
    (void)state;
    static const struct model none;
    static struct model model, again;
    struct cluster *c = begin_evicting(1, 2, false);
    struct shard *s = c->node[0].shard;
    struct grads g = touch(0, 10, 1);
    make_step(c, 0, &g);
    make_step(c, 1, &nothing);
    memset(&model, 0, sizeof model);
    memset(&again, 0, sizeof again);
    model_step(c, &model, &g, 1);
    check_now(c, &model);
    assert_int_equal(shard_status(s)->rows, 10 * TABLES);
    make_step(c, 2, &nothing);
    check_now(c, &none);
    assert_int_equal(shard_status(s)->rows, 0);
    assert_int_equal(s->rows.tables.counts.evicted, 10 * TABLES);
    ask(c, 0, 0, 1, 2); /* the step before */
    check_rows(c, 0, last_sent(c, 0), &model);
    g = touch(0, 5, 2);
    make_step(c, 3, &g);
    model_step(c, &again, &g, 1);
    check_now(c, &again);
    assert_int_equal(shard_status(s)->rows, 5 * TABLES);
    ask(c, 0, 0, 1, 3); /* of what the step has made anew, nothing was there */
    check_rows(c, 0, last_sent(c, 0), &none);
    end(c);
}

/* The sweeper has come by when the step begins, or has not: the row is absent to the step. */
static void a_touch_of_a_row_that_is_gone_and_still_in_memory_makes_a_new_one(void **state)
{
    (void)state;
    static struct model model;
    struct cluster *c = begin_evicting(1, 1, true);
    struct grads g = touch(0, 10, 1);
    push_rows(c, 0, 0, batch, 1, &g);
    for (uint64_t id = 1; id < 3;
         id++) /* parts have had them, the chunk has not: none is resolved */
        push_rows(c, 0, id, batch, 1, &nothing);
    assert_int_equal(row_table_rows(c->node[0].shard->rows.tables.table[0]), 10);
    push_rows(c, 0, 3, batch, 1, &g);
    memset(&model, 0, sizeof model);
    model_step(c, &model, &g, 1);
    ask(c, 0, 0, 1, 0);
    check_rows(c, 0, last_sent(c, 0), &model);
    assert_int_equal(c->node[0].shard->rows.tables.counts.evicted, 10 * TABLES);
    end(c);
}

/* ---- memory ---- */

/* A part of a batch without memory is not marked: it comes again, and is applied then. */
static void an_async_part_without_memory_is_applied_when_it_comes_again(void **state)
{
    (void)state;
    static struct model model;
    static uint8_t body[1 << 16];
    struct grads g = touch(0, KEYS, 1);
    bool fired = true;
    for (long n = 0; fired; n++) {
        struct cluster *c = begin_async(2);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        size_t bytes = 0;
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += section(c, &g, bucket_part(bucket_shard(1, 2), p), body + bytes);
        const Gradwire__RowsPush m = rows_push(&generation, 0, batch, 1, 0, ROW_PARTS);
        mem_fail_at(n);
        enum err err = send_rows_push(c, 1, 0, &m, body, bytes, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_int_equal(send_rows_push(c, 1, 0, &m, body, bytes, &e), ERR_OK);
        assert_int_equal(step_of(c, 1), 1);
        memset(&model, 0, sizeof model);
        model_step(c, &model, &g, 1);
        ask(c, 1, 0, 1, 0);
        check_rows(c, 1, last_sent(c, 1), &model);
        end(c);
    }
}

/* A failure changes nothing: the next push makes the part. */
static void a_part_without_memory_is_made_by_the_next_push(void **state)
{
    (void)state;
    static struct model model;
    static const struct model none;
    static uint8_t body[1 << 16];
    struct grads g = touch(0, KEYS, 1);
    bool fired = true;
    for (long n = 0; fired; n++) {
        struct cluster *c = begin(2);
        struct errmsg e = {""};
        Gradwire__Generation generation = quiet_generation(c->generation);
        size_t bytes = 0;
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += section(c, &g, bucket_part(bucket_shard(1, 2), p), body + bytes);
        const Gradwire__RowsPush m = rows_push(&generation, 0, root, 1, 0, ROW_PARTS);
        mem_fail_at(n);
        enum err err = send_rows_push(c, 1, 0, &m, body, bytes, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        if (err)
            assert_int_equal(err, ERR_NOMEM);
        if (step_of(c, 1) == 0) {
            ask(c, 1, 1, 1, 0);
            check_rows(c, 1, last_sent(c, 1), &none);
        }
        if (step_of(c, 1) == 0)
            assert_int_equal(send_rows_push(c, 1, 0, &m, body, bytes, &e), ERR_OK);
        memset(&model, 0, sizeof model);
        model_step(c, &model, &g, 1);
        ask(c, 1, 0, 1, 1);
        check_rows(c, 1, last_sent(c, 1), &model);
        end(c);
    }
}

/* ---- a cut that is being copied ---- */

/* Shard 1's part of a cut of step `step`, of which no row is out yet. Any row that is kept for it is too much. */
static void copy_cut(struct cluster *c, uint64_t number, uint64_t step)
{
    struct shard *s = c->node[1].shard;
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__Cut cut = GRADWIRE__CUT__INIT;
    Gradwire__CutAt at = GRADWIRE__CUT_AT__INIT;
    cut.generation = at.generation = &g;
    cut.cut = at.cut = number;
    at.step = step;
    s->rows.beside = (struct shard_beside){.least_bytes = 1};
    shard_on_chief(s, FRAME_CUT, &cut.base);
    shard_on_chief(s, FRAME_CUT_AT, &at.base);
    assert_true(s->rows.tables.cut.on);
}

/* Parts of step 1 wait for the copy of a cut of it. */
static struct cluster *held_by_a_cut(const struct grads *g)
{
    struct cluster *c = begin(2);
    struct shard *s = c->node[1].shard;
    make_step(c, 0, g);
    copy_cut(c, 1, 1);
    assert_false(shard_held(s));
    push_rows(c, 1, 1, root, 1, g);
    assert_int_equal(step_of(c, 1), 1);
    assert_true(s->sync.parts_made > 0 && s->sync.parts_made < ROW_PARTS);
    assert_true(shard_held(s) && shard_reads(s));
    assert_int_equal(shard_facts(s).holds, 1);
    return c;
}

static void parts_wait_where_too_much_is_kept_for_a_cut_and_go_on_when_it_is_copied(void **state)
{
    (void)state;
    static struct model model;
    struct grads g = touch(0, KEYS, 1);
    struct cluster *c = held_by_a_cut(&g);
    struct shard *s = c->node[1].shard;
    char why[160];
    shard_waits_for(s, why, sizeof why);
    assert_non_null(strstr(why, "step 1: waiting for cut 1 to be copied out"));
    while (step_of(c, 1) == 1)
        assert_true(shard_copy(s));
    assert_false(shard_held(s));
    while (shard_copy(s))
        ;
    assert_true(shard_facts(s).kept_rows > 0 && shard_facts(s).kept_most_bytes > 0);
    memset(&model, 0, sizeof model);
    model_step(c, &model, &g, 1);
    model_step(c, &model, &g, 1);
    ask(c, 1, 0, 1, 2);
    check_rows(c, 1, last_sent(c, 1), &model);
    end(c);
}

/* Given up; the next one, which has to wait for the step's end; a disk that failed; another chief. */
static void parts_that_wait_for_a_cut_go_on_when_it_is_over(void **state)
{
    (void)state;
    struct grads g = touch(0, KEYS, 1);
    for (int how = 0; how < 4; how++) {
        struct cluster *c = held_by_a_cut(&g);
        struct shard *s = c->node[1].shard;
        Gradwire__Generation generation = quiet_generation(c->generation);
        Gradwire__CutEnded ended = GRADWIRE__CUT_ENDED__INIT;
        Gradwire__Cut cut = GRADWIRE__CUT__INIT;
        ended.generation = cut.generation = &generation;
        ended.cut = 1;
        cut.cut = 2;
        if (how == 0)
            shard_on_chief(s, FRAME_CUT_ENDED, &ended.base);
        else if (how == 1)
            shard_on_chief(s, FRAME_CUT, &cut.base);
        else if (how == 2)
            shard_on_saved(s, 1, NULL, "No space left on device");
        else
            enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
        assert_int_equal(step_of(c, 1), 2);
        assert_false(shard_held(s));
        assert_int_equal(shard_cut_holds(s), how == 1);
        end(c);
    }
}

static void async_reads_nothing_where_too_much_is_kept_for_a_cut(void **state)
{
    (void)state;
    struct cluster *c = begin_async(2);
    struct shard *s = c->node[1].shard;
    struct grads g = touch(0, KEYS, 1);
    push_rows(c, 1, 0, batch, 1, &g);
    copy_cut(c, 1, 1);
    assert_true(shard_reads(s));
    push_rows(c, 1, 1, batch, 1, &g);
    assert_int_equal(step_of(c, 1), 2);
    assert_false(shard_reads(s));
    while (!shard_reads(s))
        assert_true(shard_copy(s));
    assert_int_equal(shard_facts(s).holds, 1);
    assert_false(shard_held(s));
    end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_a_plain_loop_for_any_number_of_shards),
        cmocka_unit_test(a_read_creates_no_row),
        cmocka_unit_test(an_empty_step_touches_no_row_and_is_made),
        cmocka_unit_test(the_run_that_ends_a_step_says_made),
        cmocka_unit_test(a_reply_without_chunks_says_made_where_the_last_part_comes_last),
        cmocka_unit_test(a_shard_without_chunks_makes_steps_and_says_so),
        cmocka_unit_test(a_late_push_and_a_pull_are_answered_with_made),
        cmocka_unit_test(rows_of_the_present_step_are_read_while_the_next_is_made),
        cmocka_unit_test(rows_of_the_step_before_are_there_until_a_part_of_the_next_is_made),
        cmocka_unit_test(rows_of_the_step_before_an_empty_one_are_those_of_now),
        cmocka_unit_test(an_ask_of_the_next_step_is_answered_behind_made),
        cmocka_unit_test(the_two_latest_asks_wait_and_a_third_ends_the_oldest),
        cmocka_unit_test(asks_end_with_their_connection_and_their_generation),
        cmocka_unit_test(a_takeover_answers_no_ask_of_before),
        cmocka_unit_test(an_ask_beyond_the_next_step_is_refused),
        cmocka_unit_test(an_ask_for_any_rows_gets_those_of_the_present_step),
        cmocka_unit_test(an_ask_without_keys_is_answered),
        cmocka_unit_test(a_takeover_keeps_nodes_of_parts_and_what_was_set_aside),
        cmocka_unit_test(complete_parts_wait_while_a_cut_holds_the_step),
        cmocka_unit_test(a_cut_does_not_stop_a_step_of_which_parts_are_made),
        cmocka_unit_test(a_push_may_name_the_two_latest_asks_answered_or_not),
        cmocka_unit_test(asks_that_pushes_name_end_with_their_connection),
        cmocka_unit_test(rows_pushed_by_an_ask_are_those_of_a_plain_loop),
        cmocka_unit_test(an_ask_at_a_clock_waits_as_a_pull_does),
        cmocka_unit_test(an_ask_at_a_clock_is_ssps_alone),
        cmocka_unit_test(rows_travel_as_the_plan_says_and_an_evaluations_as_they_are),
        cmocka_unit_test(a_push_of_rows_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(a_body_of_rows_that_does_not_parse_is_refused_by_name),
        cmocka_unit_test(bodies_of_noise_break_nothing),
        cmocka_unit_test(an_ask_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(rows_in_a_job_without_tables_are_refused),
        cmocka_unit_test(rows_of_another_generation_are_refused_and_the_connection_stays),
        cmocka_unit_test(settings_that_tables_do_not_go_with_are_refused_by_name),
        cmocka_unit_test(a_takeover_brings_no_setting_that_tables_do_not_go_with),
        cmocka_unit_test(parts_wait_where_too_much_is_kept_for_a_cut_and_go_on_when_it_is_copied),
        cmocka_unit_test(parts_that_wait_for_a_cut_go_on_when_it_is_over),
        cmocka_unit_test(async_reads_nothing_where_too_much_is_kept_for_a_cut),
        cmocka_unit_test(each_table_is_updated_by_its_own_optimizer),
        cmocka_unit_test(a_takeover_brings_the_rates_of_each_table),
        cmocka_unit_test(a_takeover_with_other_tables_is_refused),
        cmocka_unit_test(an_optimizer_of_a_table_that_has_no_lazy_form_is_refused),
        cmocka_unit_test(async_rows_are_those_of_a_plain_loop_for_any_number_of_shards),
        cmocka_unit_test(an_async_push_of_rows_is_answered_with_its_parts_and_what_became_of_them),
        cmocka_unit_test(an_async_batch_is_resolved_when_all_chunks_and_parts_are_applied),
        cmocka_unit_test(async_rates_go_by_the_updates_of_each_part),
        cmocka_unit_test(async_without_chunks_counts_the_staleness_of_its_first_part),
        cmocka_unit_test(async_rates_are_divided_by_the_staleness_of_each_part),
        cmocka_unit_test(an_async_pull_is_answered_with_made),
        cmocka_unit_test(an_async_batch_beyond_the_window_is_refused),
        cmocka_unit_test(the_step_that_brings_a_row_its_count_makes_and_updates_it),
        cmocka_unit_test(a_row_that_a_step_admits_is_not_there_as_of_the_step_before),
        cmocka_unit_test(touches_of_a_part_without_memory_are_not_counted),
        cmocka_unit_test(a_row_that_no_step_touches_is_gone_at_its_clock_and_new_when_touched),
        cmocka_unit_test(a_touch_of_a_row_that_is_gone_and_still_in_memory_makes_a_new_one),
        cmocka_unit_test(an_async_part_without_memory_is_applied_when_it_comes_again),
        cmocka_unit_test(rows_are_stamped_with_the_table_clock),
        cmocka_unit_test(status_counts_rows_and_their_memory),
        cmocka_unit_test(status_counts_the_rows_that_are_read_and_touched),
        cmocka_unit_test(a_part_without_memory_is_made_by_the_next_push),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
