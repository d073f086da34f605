#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rows/key.h"

const uint32_t rig_dim[RIG_TABLES] = {2, 3, 1}, rig_list[RIG_TABLES] = {0, 0, 1};
const struct rig_grads rig_nothing;
const struct tree_node rig_root = {2, 0}, rig_batch = {0, 0};

static struct rig_sent *note(struct rig_node *n, enum frame_type type, const struct shard_peer *to)
{
    assert_true(n->logged < RIG_LOG_MAX);
    struct rig_sent *out = &n->log[n->logged++];
    *out = (struct rig_sent){.type = type, .to = to};
    return out;
}

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct rig_sent *out = note(ctx, type, to);
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
    struct rig_sent *out = note(ctx, FRAME_ROWS, to);
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
    struct rig_node *n = ctx;
    if (type == FRAME_ENTERED)
        (void)snprintf(n->entered_error, sizeof n->entered_error, "%s",
                       ((const Gradwire__Entered *)m)->error);
}

static const struct shard_io io = {.send = io_send,
                                   .send_rows = io_send_rows,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress,
                                   .before_write = quiet_before_write,
                                   .tell = io_tell,
                                   .save = quiet_save,
                                   .save_room = quiet_save_room,
                                   .save_rows = quiet_save_rows,
                                   .save_end = quiet_save_end,
                                   .load = quiet_load_no_cut,
                                   .drop_peers = quiet_drop_peers};

/* ---- a rig ---- */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void rig_enter(struct rig *c, Gradwire__EnterMode mode)
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

void rig_hello(struct rig *c, uint32_t shard, uint32_t worker)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__Refuse refuse;
    m.generation = &g;
    m.worker = worker;
    m.incarnation = worker + 1;
    struct rig_node *n = &c->node[shard];
    assert_int_equal(shard_on_hello(n->shard, &n->peer[worker], &m, &refuse), ERR_OK);
}

void rig_hellos(struct rig *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        for (uint32_t worker = 0; worker < 2; worker++)
            rig_hello(c, i, worker);
}

void rig_plan_anew(struct rig *c)
{
    msg_plan_close(&c->plan);
    assert_int_equal(msg_plan_set(&c->plan, &c->layout, &c->shards, 1), ERR_OK);
}

struct rig *rig_new(uint32_t shards)
{
    struct rig *c = calloc(1, sizeof *c);
    struct row_table_spec table[RIG_TABLES];
    c->shards = shards;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        table[i] = (struct row_table_spec){.name = {(char)('a' + i)},
                                           .dim = rig_dim[i],
                                           .list = rig_list[i],
                                           .init = INIT_RANDOM_UNIFORM,
                                           .init_value = 0.5f};
    quiet_tables(&c->layout, &c->plan, shards, table, RIG_TABLES);
    gradwire__settings__init(&c->settings);
    c->settings.optimizer = OPT_SGD;
    c->settings.learning_rate = 0.3f;
    c->settings.momentum = 0.7f;
    c->settings.microbatches = RIG_LEAVES;
    c->settings.batches_per_epoch = 100;
    c->settings.seed = RIG_SEED;
    for (uint32_t i = 0; i < shards; i++)
        assert_int_equal(shard_new(&c->node[i].shard, 0, i, &io, &c->node[i]), ERR_OK);
    for (uint32_t k = 0; k < RIG_KEYS; k++)
        c->key[k] = key_mix(k);
    qsort(c->key, RIG_KEYS, sizeof *c->key, ascending);
    return c;
}

struct rig *rig_begin(uint32_t shards)
{
    struct rig *c = rig_new(shards);
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    return c;
}

struct rig *rig_begin_async(uint32_t shards)
{
    struct rig *c = rig_new(shards);
    c->settings.update = GRADWIRE__UPDATE__ASYNC;
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    rig_hellos(c);
    return c;
}

void rig_end(struct rig *c)
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

uint64_t rig_step(const struct rig *c, uint32_t shard)
{
    return shard_status(c->node[shard].shard)->step;
}

const struct rig_sent *rig_last(const struct rig *c, uint32_t shard)
{
    const struct rig_node *n = &c->node[shard];
    assert_true(n->logged > 0);
    return &n->log[n->logged - 1];
}

/* ---- gradients ---- */

struct rig_grads rig_touch(uint32_t first, uint32_t last, float g)
{
    struct rig_grads out = {.touched = {{false}}};
    for (uint32_t list = 0; list < RIG_LISTS; list++)
        for (uint32_t k = first; k < last; k++)
            out.touched[list][k] = true;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        for (uint32_t k = first; k < last; k++)
            for (uint32_t j = 0; j < RIG_DIM_MAX; j++)
                out.g[i][k][j] = g;
    return out;
}

static float noise(void)
{
    return (float)(rand() % 2001 - 1000) * 0.00137f;
}

struct rig_grads rig_random_grads(void)
{
    struct rig_grads g = {.touched = {{false}}};
    for (uint32_t list = 0; list < RIG_LISTS; list++)
        for (uint32_t k = 0; k < RIG_KEYS; k++)
            g.touched[list][k] = rand() % 4 == 0;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        for (uint32_t k = 0; k < RIG_KEYS; k++)
            for (uint32_t j = 0; j < rig_dim[i]; j++)
                g.g[i][k][j] = noise();
    return g;
}

size_t rig_put(uint8_t *out, size_t at, const void *from, size_t bytes)
{
    memcpy(out + at, from, bytes);
    return at + bytes;
}

size_t rig_section(const struct rig *c, const struct rig_grads *g, struct bucket_range of,
                   uint8_t *out)
{
    size_t at = RIG_LISTS * sizeof(uint32_t);
    for (uint32_t list = 0; list < RIG_LISTS; list++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < RIG_KEYS; k++) {
            uint32_t bucket = key_bucket(c->key[k]);
            if (g->touched[list][k] && bucket >= of.first && bucket < of.end) {
                at = rig_put(out, at, &c->key[k], sizeof c->key[k]);
                n++;
            }
        }
        (void)rig_put(out, list * sizeof n, &n, sizeof n);
    }
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        for (uint32_t k = 0; k < RIG_KEYS; k++) {
            uint32_t bucket = key_bucket(c->key[k]);
            if (g->touched[rig_list[i]][k] && bucket >= of.first && bucket < of.end)
                at = rig_put(out, at, g->g[i][k], rig_dim[i] * sizeof(float));
        }
    const uint32_t zero = 0;
    return at % 8 ? rig_put(out, at, &zero, sizeof zero) : at;
}

/* ---- pushes ---- */

enum err rig_send_push(struct rig *c, uint32_t shard, uint32_t worker, const Gradwire__RowsPush *m,
                       const void *body, uint64_t bytes, struct errmsg *e)
{
    struct rig_node *n = &c->node[shard];
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

Gradwire__RowsPush rig_push_head(Gradwire__Generation *g, uint64_t name, struct tree_node node,
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

void rig_push_parts(struct rig *c, uint32_t shard, uint32_t worker, uint64_t name,
                    struct tree_node node, uint32_t examples, const struct rig_grads *g,
                    uint32_t first, uint32_t parts)
{
    static uint8_t body[1 << 16];
    Gradwire__Generation generation = quiet_generation(c->generation);
    struct errmsg e = {""};
    size_t bytes = 0;
    for (uint32_t p = first; p < first + parts; p++)
        bytes += rig_section(c, g, bucket_part(bucket_shard(shard, c->shards), p), body + bytes);
    const Gradwire__RowsPush m = rig_push_head(&generation, name, node, examples, first, parts);
    assert_int_equal(rig_send_push(c, shard, worker, &m, body, bytes, &e), ERR_OK);
}

void rig_push_rows(struct rig *c, uint32_t shard, uint64_t name, struct tree_node node,
                   uint32_t examples, const struct rig_grads *g)
{
    rig_push_parts(c, shard, 0, name, node, examples, g, 0, ROW_PARTS);
}

void rig_push_block(struct rig *c, uint32_t worker, uint64_t name, struct tree_node node,
                    uint32_t examples)
{
    struct rig_node *n = &c->node[0];
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

void rig_make_step(struct rig *c, uint64_t step, const struct rig_grads *g)
{
    for (uint32_t i = 0; i < c->shards; i++)
        rig_push_rows(c, i, step, rig_root, 1, g);
    rig_push_block(c, 0, step, rig_root, 1);
    for (uint32_t i = 0; i < c->shards; i++)
        assert_int_equal(rig_step(c, i), step + 1);
}

/* ---- asks ---- */

enum err rig_ask_of(struct rig *c, uint32_t shard, uint32_t worker, const Gradwire__RowsAsk *m,
                    const uint64_t *mixed, uint64_t bytes, struct errmsg *e)
{
    struct rig_node *n = &c->node[shard];
    bool wanted;
    enum err err = shard_rows_fits(n->shard, FRAME_ROWS_ASK, &m->base, bytes, &wanted, e);
    if (err)
        return err;
    struct buffer *b = wanted ? buffer_acquire(&c->pool, bytes / sizeof(float) + 1) : NULL;
    if (b)
        memcpy(b->data, mixed, bytes);
    err = shard_on_rows(n->shard, &n->peer[worker], FRAME_ROWS_ASK, &m->base, b, bytes, e);
    buffer_unref(b);
    return err;
}

enum err rig_ask_once(struct rig *c, uint32_t shard, uint32_t worker, uint64_t number, bool any,
                      uint64_t step, bool once, struct errmsg *e)
{
    uint64_t mixed[RIG_LISTS * RIG_KEYS];
    uint32_t keys[RIG_LISTS] = {0}, n = 0;
    struct bucket_range of = bucket_shard(shard, c->shards);
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    Gradwire__Generation g = quiet_generation(c->generation);
    for (uint32_t list = 0; list < RIG_LISTS; list++)
        for (uint32_t k = 0; k < RIG_KEYS; k++) {
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
    m.n_keys = RIG_LISTS;
    return rig_ask_of(c, shard, worker, &m, mixed, n * sizeof *mixed, e);
}

enum err rig_ask_with(struct rig *c, uint32_t shard, uint32_t worker, uint64_t number, bool any,
                      uint64_t step, struct errmsg *e)
{
    return rig_ask_once(c, shard, worker, number, any, step, false, e);
}

void rig_ask(struct rig *c, uint32_t shard, uint32_t worker, uint64_t number, uint64_t step)
{
    struct errmsg e = {""};
    assert_int_equal(rig_ask_with(c, shard, worker, number, false, step, &e), ERR_OK);
}
