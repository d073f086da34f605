/* libFuzzer: what a worker may send about rows, any bytes, to a shard; and any bytes as the shard's answer, to a worker.
 * The first byte chooses sync or async and the codecs. Behind it is a run of messages, each of a kind, a length and that
 * many bytes. Must hold: a message is taken or refused as the protocol's; what is refused changes nothing that a good ask
 * needs, which is answered behind it; a body that a shard made is read, and nothing is read or written outside of one. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/rows/row_values.h"
#include "ps/rows/row_push.h"
#include "tests/lib/rig.h"
#include "worker/driver/row_frames.h"

enum { BODY_MAX = 1 << 14 };

/* The rest of the input; beyond it all is 0. */
struct input {
    const uint8_t *at;
    size_t left;
};

static uint64_t next_block; /* the first step, or batch, whose chunk was not pushed */

static void must(bool holds)
{
    if (!holds)
        abort();
}

static uint8_t byte(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

static struct input some(struct input *in, size_t most)
{
    size_t n = most < in->left ? most : in->left;
    struct input out = {in->at, n};
    in->at += n;
    in->left -= n;
    return out;
}

static void took(enum err err)
{
    must(err == ERR_OK || err == ERR_PROTO);
}

/* ---- asks ---- */

/* The keys of the rig that this byte names, all of them or one in a few. */
static uint32_t pick(const struct rig *c, unsigned which, uint64_t *mixed)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < RIG_KEYS; k++)
        if (k % (which % 5 + 1) == which % 3)
            mixed[n++] = c->key[k];
    return n;
}

static Gradwire__RowsAsk ask_head(struct input *in, Gradwire__Generation *g, uint32_t keys[2])
{
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    uint8_t bits = byte(in);
    m.generation = g;
    m.number = byte(in) % 8;
    m.any = bits & 1;
    m.once = bits >> 1 & 1;
    m.bounded = bits >> 2 & 1;
    m.step = byte(in) % 4;
    m.keys = keys;
    m.n_keys = bits >> 3 & 1 ? byte(in) % 3 : RIG_LISTS;
    return m;
}

/* Counts and keys are bytes of the input. */
static void ask_anything(struct rig *c, struct input in)
{
    static uint64_t body[BODY_MAX / 8];
    struct errmsg e;
    Gradwire__Generation g = quiet_generation(c->generation);
    uint32_t keys[RIG_LISTS] = {byte(&in), byte(&in)};
    const Gradwire__RowsAsk m = ask_head(&in, &g, keys);
    size_t bytes = in.left < sizeof body ? in.left : sizeof body;
    memcpy(body, in.at, bytes);
    took(rig_ask_of(c, 0, 0, &m, body, bytes, &e));
}

static void ask_rows(struct rig *c, struct input in)
{
    struct errmsg e;
    uint64_t mixed[RIG_LISTS * RIG_KEYS];
    Gradwire__Generation g = quiet_generation(c->generation);
    uint32_t keys[RIG_LISTS];
    keys[0] = pick(c, byte(&in), mixed);
    keys[1] = pick(c, byte(&in), mixed + keys[0]);
    const Gradwire__RowsAsk m = ask_head(&in, &g, keys);
    took(rig_ask_of(c, 0, 0, &m, mixed, (keys[0] + keys[1]) * sizeof *mixed, &e));
}

/* ---- pushes ---- */

/* Of a step or a batch that is on, was, or is to come. */
static Gradwire__RowsPush push_head(const struct rig *c, struct input *in, Gradwire__Generation *g)
{
    Gradwire__RowsPush m = GRADWIRE__ROWS_PUSH__INIT;
    uint8_t bits = byte(in);
    m.generation = g;
    const uint64_t now = rig_step(c, 0);
    m.name = (now ? now - 1 : 0) + byte(in) % 4;
    m.level = bits & 3;
    m.index = bits >> 2 & 3;
    m.examples = bits >> 4 & 3;
    m.parts = ROW_PARTS;
    if (bits >> 6 & 1) {
        m.first_part = byte(in);
        m.parts = byte(in);
    }
    if (bits >> 7)
        m.ask = byte(in) % 8;
    return m;
}

/* A copy as long as it is, so that the sanitizer sees a byte too many. */
static void *exactly(const void *from, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    must(copy);
    memcpy(copy, from, bytes);
    return copy;
}

/* The body by itself, whatever the shard thinks of its head: what is accepted expands to sections that are. */
static void expand(const struct rig *c, const Gradwire__RowsPush *m, const void *body, size_t bytes)
{
    struct row_layout l = *c->layout.rows;
    struct row_keys asked = {.keys = {RIG_KEYS, RIG_KEYS}, .mixed = {c->key, c->key}};
    uint64_t sections, used;
    struct errmsg e;
    if (m->parts == 0 || m->first_part >= ROW_PARTS || m->parts > ROW_PARTS - m->first_part)
        return;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        l.codecs.push[i] = (enum row_codec)c->plan.tables[i]->push_codec;
    uint8_t *in = exactly(body, bytes);
    const struct row_push p = {.layout = &l,
                               .buckets = bucket_shard(0, 1),
                               .first = m->first_part,
                               .parts = m->parts,
                               .asked = m->ask ? &asked : NULL,
                               .body = in,
                               .bytes = bytes};
    if (row_push_check(&p, &sections, &e) == ERR_OK) {
        const float *at[ROW_PARTS];
        uint8_t *out = malloc(sections);
        must(out && sections % 8 == 0);
        row_push_expand(&p, out, at);
        for (uint32_t i = 0; i < m->parts; i++) {
            struct row_grads g;
            uint64_t left = sections - (uint64_t)((const uint8_t *)at[i] - out);
            must(row_grads_read(&g, &l, bucket_part(p.buckets, m->first_part + i), at[i], left,
                                &used, &e) == ERR_OK);
            must(used <= left);
        }
        free(out);
    }
    free(in);
}

static void push_anything(struct rig *c, struct input in)
{
    static uint64_t body[BODY_MAX / 8];
    struct errmsg e;
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = push_head(c, &in, &g);
    size_t bytes = in.left < sizeof body ? in.left : sizeof body;
    memcpy(body, in.at, bytes);
    expand(c, &m, body, bytes);
    took(rig_send_push(c, 0, 0, &m, body, bytes, &e));
}

/* Sections of counts, of the rig's keys (or, by an ask, of bits) and of the input's bytes, some changed: what is behind the keys
 * is reached, too. */
static void push_sections(struct rig *c, struct input in)
{
    static uint8_t body[BODY_MAX];
    struct errmsg e;
    Gradwire__Generation g = quiet_generation(c->generation);
    const Gradwire__RowsPush m = push_head(c, &in, &g);
    const uint8_t which = byte(&in), keys = byte(&in), changes = byte(&in) % 4;
    uint64_t mixed[RIG_KEYS];
    uint32_t n = pick(c, keys, mixed);
    size_t at = 0;
    for (uint32_t p = 0; p < (m.parts < ROW_PARTS ? m.parts : ROW_PARTS); p++) {
        struct bucket_range part = bucket_part(bucket_shard(0, 1), (m.first_part + p) % ROW_PARTS);
        size_t head = at;
        uint32_t counts[RIG_LISTS] = {0, 0};
        at += sizeof counts;
        for (uint32_t list = 0; list < RIG_LISTS; list++)
            for (uint32_t k = 0; k < n; k++)
                if (key_bucket(mixed[k]) >= part.first && key_bucket(mixed[k]) < part.end) {
                    if (!m.ask)
                        at = rig_put(body, at, &mixed[k], sizeof *mixed);
                    counts[list]++;
                }
        (void)rig_put(body, head, counts, sizeof counts);
        size_t values = (size_t)(which % 32 + 1) * counts[0];
        for (size_t i = 0; i < values && at < sizeof body - 64; i++)
            body[at++] = byte(&in);
        while (at % 8)
            body[at++] = 0;
        if (at > sizeof body / 2)
            break;
    }
    for (uint8_t i = 0; i < changes && at; i++)
        body[(size_t)(byte(&in) << 8 | byte(&in)) % at] = byte(&in);
    expand(c, &m, body, at);
    took(rig_send_push(c, 0, 0, &m, body, at, &e));
}

/* Right ones of plain gradients: where no codec is asked for, they are taken. */
static void push_rows(struct rig *c, struct input in)
{
    static uint8_t body[BODY_MAX];
    struct errmsg e;
    struct rig_grads grads = rig_touch(byte(&in) % RIG_KEYS, RIG_KEYS, (float)byte(&in));
    Gradwire__Generation g = quiet_generation(c->generation);
    Gradwire__RowsPush m = push_head(c, &in, &g);
    size_t bytes = 0;
    for (uint32_t p = 0; p < ROW_PARTS; p++)
        bytes += rig_section(c, &grads, bucket_part(bucket_shard(0, 1), p), body + bytes);
    m.first_part = 0;
    m.parts = ROW_PARTS;
    took(rig_send_push(c, 0, 1, &m, body, bytes, &e));
}

/* The chunk's part, once a step, without which none is made. */
static void push_block(struct rig *c, struct input in)
{
    const bool async = c->settings.update == GRADWIRE__UPDATE__ASYNC;
    const uint64_t name = async ? next_block : rig_step(c, 0);
    if (name < next_block)
        return;
    next_block = name + 1;
    rig_push_block(c, 0, name, async ? rig_batch : rig_root, byte(&in) % 3);
}

/* ---- answers ---- */

/* The worker's side: the answer to an ask for all keys as it came, or with bytes of the input in it. */
static void read_answer(struct rig *c, struct input in)
{
    struct errmsg e;
    struct row_values v;
    enum row_codec codec[ROW_TABLES_MAX] = {ROW_CODEC_NONE};
    const bool once = byte(&in) & 1;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        if (!once) /* an evaluation's rows travel as they are */
            codec[i] = (enum row_codec)c->plan.tables[i]->reply_codec;
    must(rig_ask_once(c, 0, 1, 1, true, 0, once, &e) == ERR_OK);
    const struct rig_sent *sent = rig_last(c, 0);
    must(sent->type == FRAME_ROWS && !sent->gone);
    row_values_init(&v, c->layout.rows);
    for (uint32_t list = 0; list < RIG_LISTS; list++) {
        must(row_values_reserve(&v, list, RIG_KEYS, &e) == ERR_OK);
        memcpy(v.list[list].mixed, c->key, sizeof c->key);
    }
    size_t changes = in.left / 3, bytes = (size_t)sent->bytes;
    uint8_t *body = malloc(bytes + 1);
    must(body);
    memcpy(body, sent->body, bytes);
    if (changes)
        bytes -= byte(&in) % 8 ? 0 : byte(&in) % (bytes + 1);
    for (size_t i = 0; i < changes && bytes; i++)
        body[(size_t)(byte(&in) << 8 | byte(&in)) % bytes] = byte(&in);
    uint8_t *exact = exactly(body, bytes);
    took(row_frames_rows(&v, codec, bucket_shard(0, 1), RIG_SEED, exact, bytes));
    free(exact);
    free(body);
    row_values_close(&v);
}

/* The worker reads exactly what the shard sends, whatever was sent before. */
static void check_answer(struct rig *c, bool once)
{
    uint8_t bits = once;
    c->node[0].logged = 0;
    read_answer(c, (struct input){&bits, 1});
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_init("fuzz", LOG_ERROR);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const kind[])(struct rig *, struct input) = {
        ask_anything, ask_rows, push_anything, push_sections, push_rows, push_block, read_answer};
    struct input in = {data, bytes};
    const uint8_t bits = byte(&in);
    struct rig *c = rig_new(1);
    c->settings.update = bits & 1 ? GRADWIRE__UPDATE__ASYNC : GRADWIRE__UPDATE__SYNC;
    for (uint32_t i = 0; i < RIG_TABLES; i++) {
        c->plan.tables[i]->push_codec = bits >> 1 & 3;
        c->plan.tables[i]->reply_codec = ((bits >> 3) + i) % 3;
    }
    rig_enter(c, GRADWIRE__ENTER_MODE__INIT);
    must(!c->node[0].entered_error[0]);
    rig_hellos(c);
    next_block = 0;
    while (in.left) {
        uint8_t what = byte(&in), length = byte(&in);
        c->node[0].logged = 0;
        kind[what % 7](c, some(&in, (size_t)length * (what >> 6 ? 8 : 1)));
    }
    check_answer(c, true);
    rig_end(c);
    return 0;
}
