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

static const struct shard_io io = {.send = io_send,
                                   .send_rows = io_send_rows,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
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
static enum err ask_with(struct cluster *c, uint32_t shard, uint32_t worker, uint64_t number,
                         bool any, uint64_t step, struct errmsg *e)
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
    m.keys = keys;
    m.n_keys = LISTS;
    return ask_of(c, shard, worker, &m, mixed, n * sizeof *mixed, e);
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

static void model_first(struct cluster *c, struct model *m, uint32_t table, uint32_t k)
{
    row_first_value(&c->layout.rows->table[table], seed, c->key[k], m->w[table][k]);
    m->there[table][k] = true;
}

static void model_step(struct cluster *c, struct model *m, const struct grads *sum,
                       uint32_t examples)
{
    for (uint32_t i = 0; i < TABLES && examples; i++) {
        for (uint32_t k = 0; k < KEYS; k++) {
            if (!sum->touched[list_of[i]][k])
                continue;
            if (!m->there[i][k])
                model_first(c, m, i, k);
            for (uint32_t j = 0; j < dim_of[i]; j++) {
                float mean = sum->g[i][k][j] * (1.0f / (float)examples), *v = &m->v[i][k][j];
                *v = *v * momentum - mean * rate;
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
    static const char *const what[] = {"lamb",
                                       "top_k",
                                       "use_ema",
                                       "gradient_accumulation_steps",
                                       "clip_norm",
                                       "nan_guard",
                                       "backup workers",
                                       "backup workers",
                                       "geo",
                                       "delay_compensation",
                                       "staleness_rate"};
    for (int i = 0; i < 11; i++) {
        char wanted[128];
        struct cluster *c = cluster_new(1);
        c->settings.optimizer = i == 0 ? OPT_LAMB : OPT_SGD;
        c->settings.push_codec = i == 1 ? CODEC_TOP_K : CODEC_RAW;
        c->settings.push_ratio = 0.01f;
        c->settings.use_ema = i == 2;
        c->settings.ema_momentum = 0.5f;
        c->settings.gradient_accumulation_steps = i == 3 ? 2 : 0;
        c->settings.clip_norm = i == 4 ? 1.0f : 0.0f;
        c->settings.nan_guard = i == 5 ? 1 : 0;
        c->settings.replicas_to_aggregate = i == 6 || i == 7;
        c->settings.redo = i == 7;
        if (i >= 8)
            c->settings.update = i == 8 ? GRADWIRE__UPDATE__GEO : GRADWIRE__UPDATE__ASYNC;
        c->settings.delay_compensation = i == 9 ? 0.5f : 0.0f;
        c->settings.staleness_rate = i == 10;
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
    c->settings.clip_norm = 1.0f;
    enter(c, GRADWIRE__ENTER_MODE__TAKEOVER);
    assert_string_equal(c->node[0].entered_error, "the chief wants clip_norm in a job with tables");
    end(c);
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
        cmocka_unit_test(a_push_of_rows_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(a_body_of_rows_that_does_not_parse_is_refused_by_name),
        cmocka_unit_test(bodies_of_noise_break_nothing),
        cmocka_unit_test(an_ask_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(rows_in_a_job_without_tables_are_refused),
        cmocka_unit_test(rows_of_another_generation_are_refused_and_the_connection_stays),
        cmocka_unit_test(settings_that_tables_do_not_go_with_are_refused_by_name),
        cmocka_unit_test(a_takeover_brings_no_setting_that_tables_do_not_go_with),
        cmocka_unit_test(async_rows_are_those_of_a_plain_loop_for_any_number_of_shards),
        cmocka_unit_test(an_async_push_of_rows_is_answered_with_its_parts_and_what_became_of_them),
        cmocka_unit_test(an_async_batch_is_resolved_when_all_chunks_and_parts_are_applied),
        cmocka_unit_test(async_rates_go_by_the_updates_of_each_part),
        cmocka_unit_test(async_without_chunks_counts_the_staleness_of_its_first_part),
        cmocka_unit_test(an_async_pull_is_answered_with_made),
        cmocka_unit_test(an_async_batch_beyond_the_window_is_refused),
        cmocka_unit_test(an_async_part_without_memory_is_applied_when_it_comes_again),
        cmocka_unit_test(rows_are_stamped_with_the_table_clock),
        cmocka_unit_test(status_counts_rows_and_their_memory),
        cmocka_unit_test(a_part_without_memory_is_made_by_the_next_push),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
