#include "worker/driver/links.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/math/bins.h"
#include "common/base/clock.h"
#include "common/net/conn.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "worker/core/unreached.h"

enum { SCRATCH_BYTES = 64 << 10 };

struct link {
    struct links *links;
    uint32_t shard;
    struct dialer *dialer;
    struct conn *conn; /* NULL: not connected */
    uint16_t type;
    ProtobufCMessage *message; /* of the frame that is being received */
    bool wanted;
    uint64_t hello_bytes; /* sent until the hello was accepted; UINT64_MAX: it is not yet */
    uint64_t first_elem;
    /* the body of a reply that is not raw floats, or of rows, while it is being received */
    uint8_t *encoded;
    uint64_t encoded_room, body_bytes;
    enum session_ask which;                  /* the request that the incoming rows answer */
    struct row_room rows, ask[SESSION_ASKS]; /* bodies that are being sent */
};

struct links {
    struct links_config config;
    const struct session_terms *terms;
    uint32_t n;
    struct link *link;
    uint64_t name;                /* of the running task */
    uint64_t out_bytes, in_bytes; /* of connections that are closed */
    uint8_t *scratch;             /* receives bodies that are not wanted */
    struct push_codec *codec;
    struct gradient_node remainder; /* async: the node of a push of what top-k withheld */
    struct coder *coder;            /* of replies */
    /* the destination of answers; NULL: they are dropped */
    struct row_values *asked[SESSION_ASKS];
    struct codec_cost reply_cost;
};

enum err links_new(struct links **out, const struct links_config *config, struct errmsg *e)
{
    struct links *l = mem_zalloc(1, sizeof *l);
    uint8_t *scratch = mem_zalloc(SCRATCH_BYTES, 1);
    if (!l || !scratch || push_codec_new(&l->codec, config->layout) || coder_new(&l->coder)) {
        if (l)
            push_codec_free(l->codec);
        mem_free(l);
        mem_free(scratch);
        return err_memory_for(e, "connections to shards");
    }
    l->config = *config;
    l->terms = session_terms(config->session);
    l->scratch = scratch;
    *out = l;
    return ERR_OK;
}

static void detach(struct link *k, const char *why);

static void close_all(struct links *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->link[i].conn)
            detach(&l->link[i], "a new generation begins");
        dial_free(l->link[i].dialer);
        mem_free(l->link[i].encoded);
        row_room_close(&l->link[i].rows);
        for (int which = 0; which < SESSION_ASKS; which++)
            row_room_close(&l->link[i].ask[which]);
    }
    mem_free(l->link);
    l->link = NULL;
    l->n = 0;
}

void links_free(struct links *l)
{
    if (!l)
        return;
    close_all(l);
    mem_free(l->scratch);
    mem_free(l->remainder.value);
    push_codec_free(l->codec);
    coder_free(l->coder);
    mem_free(l);
}

/* ---- received frames ---- */

static bool is_encoded(const struct link *k)
{
    if (k->wanted && k->type == FRAME_ROWS)
        return true;
    return k->wanted && ((const Gradwire__Reply *)k->message)->codec != GRADWIRE__CODEC__RAW;
}

/* Make room for a body whose size was checked against its codec's bound. */
static enum err encoded_room(struct link *k, uint64_t bytes)
{
    k->body_bytes = bytes;
    if (!is_encoded(k) || bytes <= k->encoded_room)
        return ERR_OK;
    mem_free(k->encoded);
    k->encoded = mem_zalloc(bytes, 1);
    k->encoded_room = k->encoded ? bytes : 0;
    if (k->encoded)
        return ERR_OK;
    /* to ask again does not help: the process ends */
    struct errmsg e;
    enum err err =
        err_memory_for(&e, "the %" PRIu64 " bytes of an answer of shard %u", bytes, k->shard);
    k->links->config.on_refused(k->links->config.ctx, err_exit_code(err), e.text);
    return err;
}

static struct bucket_range buckets_of(const struct links *l, uint32_t shard)
{
    return bucket_shard(shard, l->terms->plan.shards);
}

/* Rows for an evaluation are never encoded. */
static const enum row_codec *reply_codecs(const struct links *l, enum session_ask which)
{
    static const enum row_codec plain[ROW_TABLES_MAX];
    return which == ASK_LOOK ? plain : l->terms->codecs.reply;
}

static enum err on_rows_head(struct link *k, uint64_t body_bytes)
{
    const struct links *l = k->links;
    const Gradwire__Rows *m = (const Gradwire__Rows *)k->message;
    k->wanted = session_rows_fit(l->config.session, k->shard, m, &k->which) && l->asked[k->which];
    if (!k->wanted)
        return ERR_OK;
    uint64_t most = row_frames_rows_most(l->asked[k->which], reply_codecs(l, k->which),
                                         buckets_of(l, k->shard));
    return body_bytes > most ? ERR_PROTO : encoded_room(k, body_bytes);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct link *k = owner;
    k->type = f->type;
    k->wanted = false;
    if (!(frame_to(f->type) & (FRAME_TO_LINK | FRAME_TO_DIALER)))
        return ERR_PROTO;
    k->message = msg_unpack(f->type, head, f->head_bytes);
    if (!k->message)
        return ERR_PROTO;
    if (f->type == FRAME_ROWS)
        return on_rows_head(k, f->body_bytes);
    if (f->type != FRAME_REPLY)
        return f->body_bytes ? ERR_PROTO : ERR_OK;
    struct errmsg e = {""};
    enum err err =
        session_reply_fits(k->links->config.session, k->shard, (const Gradwire__Reply *)k->message,
                           f->body_bytes, &k->first_elem, &k->wanted, &e);
    if (err)
        log_warn("%s: %s", conn_peer(c), e.text);
    return err ? err : encoded_room(k, f->body_bytes);
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    (void)c;
    struct link *k = owner;
    if (is_encoded(k)) {
        *p = k->encoded + at;
        *bytes = (size_t)left;
    } else if (k->wanted) {
        const struct links_config *config = &k->links->config;
        bool averages = ((const Gradwire__Reply *)k->message)->averages;
        *p = (uint8_t *)((averages ? config->averages : config->w) + k->first_elem) + at;
        *bytes = (size_t)left;
    } else {
        *p = k->links->scratch;
        *bytes = left < SCRATCH_BYTES ? (size_t)left : SCRATCH_BYTES;
    }
    return ERR_OK;
}

static void on_refuse(struct link *k, const Gradwire__Refuse *m)
{
    const struct links_config *config = &k->links->config;
    if (m->reason == GRADWIRE__REASON__OLD_INCARNATION)
        config->on_turned_away(config->ctx, k->shard, m->text);
    if (m->reason == GRADWIRE__REASON__OTHER_NAME)
        log_warn("shard %u refuses this worker: %s", k->shard, m->text);
    if (m->reason == GRADWIRE__REASON__OTHER_GENERATION && m->generation &&
        m->generation->number > k->links->terms->generation.number)
        config->on_later(config->ctx, m->generation->number);
    session_on_refuse(config->session, k->shard);
}

/* Decode a body that is not raw; raw ones were received into the flat block. */
static enum err store_reply(struct link *k, const Gradwire__Reply *m)
{
    struct links *l = k->links;
    if (!k->wanted)
        return ERR_OK;
    l->reply_cost.raw_bytes +=
        plan_run_elems(&l->terms->plan, m->first_chunk, m->chunks) * sizeof(float);
    l->reply_cost.bytes += k->body_bytes;
    if (!is_encoded(k))
        return ERR_OK;
    double began = clock_now_s();
    const struct codec_shape shape = session_shape(l->config.session);
    enum err err = reply_codec_store(l->coder, &shape, m, k->encoded, k->body_bytes, l->config.w);
    l->reply_cost.decode_s += clock_now_s() - began;
    return err;
}

static enum err store_rows(struct link *k)
{
    struct links *l = k->links;
    enum session_ask which;
    if (!k->wanted ||
        !session_rows_fit(l->config.session, k->shard, (const Gradwire__Rows *)k->message, &which))
        return ERR_OK; /* another request replaced this one while they were received */
    return row_frames_rows(l->asked[k->which], reply_codecs(l, k->which), buckets_of(l, k->shard),
                           l->terms->settings.seed, k->encoded, k->body_bytes);
}

/* Store a body that was received. */
static enum err store(struct link *k)
{
    if (k->type == FRAME_REPLY)
        return store_reply(k, (const Gradwire__Reply *)k->message);
    return k->type == FRAME_ROWS ? store_rows(k) : ERR_OK;
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct link *k = owner;
    enum err err = store(k);
    if (err) {
        log_warn("%s: a reply cannot be decoded: %s", conn_peer(c), err_str(err));
        return err;
    }
    ProtobufCMessage *m = k->message;
    k->message = NULL;
    if (k->type == FRAME_HELLO_REPLY)
        unreached_greeted(k->links->config.unreached, k->shard);
    else
        unreached_up(k->links->config.unreached, k->shard);
    if (k->type == FRAME_HELLO_REPLY) {
        k->hello_bytes = conn_stats(k->conn)->out_bytes;
        session_on_link_up(k->links->config.session, k->shard);
    } else if (k->type == FRAME_CHALLENGE)
        ; /* for a token that this process does not have: the refusal that follows names the reason */
    else if (k->type == FRAME_REFUSE)
        on_refuse(k, (const Gradwire__Refuse *)m);
    else if (k->type == FRAME_ROWS)
        session_on_rows(k->links->config.session, k->shard, (const Gradwire__Rows *)m);
    else {
        const Gradwire__Reply *reply = (const Gradwire__Reply *)m;
        struct links *l = k->links;
        if (generation_equal(msg_generation_get(reply->generation), l->terms->generation))
            push_codec_answered(l->codec, reply);
        session_on_reply(l->config.session, k->shard, reply, k->wanted);
    }
    msg_free(m);
    return ERR_OK;
}

/* The connection is about to be closed: keep its byte counts. */
static void count_bytes(struct link *k)
{
    const struct conn_stats *stats = conn_stats(k->conn);
    k->links->out_bytes += stats->out_bytes;
    k->links->in_bytes += stats->in_bytes;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct link *k = owner;
    if (code == ERR_TIMEOUT)
        log_warn("%s: a connection for data is lost: %s; connecting again", conn_peer(c), why);
    else
        log_debug("%s: the connection is closed: %s (%s)", conn_peer(c), why, err_str(code));
    count_bytes(k);
    msg_free(k->message);
    k->message = NULL;
    k->conn = NULL;
    session_on_link_down(k->links->config.session, k->shard);
    unreached_down(k->links->config.unreached, k->shard, clock_now_ms(), conn_silent_ms(c),
                   conn_stats(c)->out_bytes > k->hello_bytes);
    dial_lost(k->dialer, code, why);
    dial_start(k->dialer);
}

static void send_hello(struct link *k)
{
    const struct links_config *config = &k->links->config;
    const struct session_terms *terms = k->links->terms;
    const struct plan_shard *p = &terms->plan.shard[k->shard];
    Gradwire__Hello m;
    Gradwire__Generation g = msg_generation(terms->generation);
    hello_make(&m, config->job, config->cluster, p->ps);
    m.uuid = (char *)terms->uuid;
    m.role = GRADWIRE__ROLE__WORKER;
    m.worker = terms->worker;
    m.incarnation = terms->incarnation;
    m.generation = &g;
    m.shard = p->thread;
    session_hello_clock(config->session, k->shard, &m);
    dial_hello(k->dialer, k->conn, &m);
}

static void on_open(struct conn *c, void *owner)
{
    struct link *k = owner;
    k->conn = c;
    k->hello_bytes = UINT64_MAX;
    send_hello(k);
}

static const struct conn_ops link_ops = {
    .on_head = on_head,
    .on_space = on_space,
    .on_frame = on_frame,
    .on_close = on_close,
    .on_open = on_open,
};

static enum err ignore_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)c, (void)owner, (void)f, (void)head;
    return ERR_PROTO;
}

static const struct conn_ops closing_ops = {.on_head = ignore_head};

/* Close a connection of an earlier generation; its events are ignored from now on. */
static void detach(struct link *k, const char *why)
{
    count_bytes(k);
    conn_set_owner(k->conn, &closing_ops, NULL);
    conn_close(k->conn, ERR_CLOSED, why);
    msg_free(k->message);
    k->message = NULL;
    k->conn = NULL;
}

enum err links_restart(struct links *l, struct errmsg *e)
{
    const struct plan *plan = &l->terms->plan;
    close_all(l);
    memset(l->asked, 0, sizeof l->asked);
    if (unreached_begin(l->config.unreached, plan->shards, clock_now_ms()))
        return err_memory_for(e, "%u connections to shards", plan->shards);
    if (push_codec_restart(l->codec, l->terms))
        return err_memory_for(e, "%u connections to shards", plan->shards);
    mem_free(l->remainder.value);
    l->remainder = (struct gradient_node){.examples = 1};
    if (l->terms->feedback && !l->terms->sync && !(l->remainder.value = mem_floats(plan->elems)))
        return err_memory_for(e, "the parts of gradients that are withheld");
    l->link = mem_zalloc(plan->shards, sizeof *l->link);
    if (!l->link)
        return err_memory_for(e, "%u connections to shards", plan->shards);
    for (uint32_t i = 0; i < plan->shards; i++) {
        uint32_t ps = plan->shard[i].ps;
        if (ps >= l->config.cluster->n_ps)
            return err_set(e, ERR_INPUT, "the plan names ps %u, the cluster has %u", ps,
                           l->config.cluster->n_ps);
        char what[48];
        (void)snprintf(what, sizeof what, "shard %u on ps %u", i, ps);
        l->link[i] = (struct link){.links = l, .shard = i};
        l->n = i + 1;
        enum err err = dial_new(&l->link[i].dialer, l->config.loop, what, l->config.cluster->ps[ps],
                                &link_ops, &l->link[i], e);
        if (err)
            return err;
        dial_start(l->link[i].dialer);
    }
    return ERR_OK;
}

/* ---- messages ---- */

/* A round's head also names its batches and, for the lead shard, their sums. */
struct round_head {
    struct session_ranges_said ids;
    Gradwire__EpochSums sums[LOCAL_EPOCHS], *epochs[LOCAL_EPOCHS];
};

static void put_round(const struct links *l, struct round_head *h, Gradwire__Push *m, bool lead)
{
    const struct session_ranges *ids = session_round(l->config.session);
    const struct local *local = l->config.local;
    m->n_ids = ids->n;
    m->ids = session_ranges_say(&h->ids, ids->range, ids->n);
    m->updates = local->updates;
    for (size_t i = 0; i < local->epochs && lead; i++) {
        gradwire__epoch_sums__init(&h->sums[i]);
        h->sums[i].epoch = local->epoch[i].epoch;
        h->sums[i].batches = local->epoch[i].batches;
        h->sums[i].examples = local->epoch[i].examples;
        h->sums[i].loss = local->epoch[i].loss;
        h->sums[i].metric = (double *)local->epoch[i].metric;
        h->sums[i].n_metric = l->terms->settings.metrics;
        h->epochs[i] = &h->sums[i];
        m->n_epochs = i + 1;
    }
    m->epochs = h->epochs;
}

static bool encode_run(struct links *l, uint32_t shard, const struct gradient_node *n,
                       uint32_t first, uint32_t chunks, struct push_body *body)
{
    struct errmsg e = {""};
    enum err err = push_codec_run(l->codec, shard, n, first, chunks, body, &e);
    if (!err)
        return true;
    char text[400];
    (void)snprintf(text, sizeof text, "batch %" PRIu64 ": %.300s", l->name, e.text);
    l->config.on_refused(l->config.ctx, err == ERR_NOMEM ? err_exit_code(err) : 1, text);
    return false;
}

static void send_run(struct links *l, struct link *k, const struct gradient_node *n, uint32_t first,
                     uint32_t chunks)
{
    Gradwire__Push m = GRADWIRE__PUSH__INIT;
    Gradwire__Generation g = msg_generation(l->terms->generation);
    double sums[1 + SUMS_MAX];
    struct push_body body;
    if (!encode_run(l, k->shard, n, first, chunks, &body))
        return;
    m.generation = &g;
    m.codec = (Gradwire__Codec)body.codec;
    m.number = body.number;
    m.name = l->name;
    m.level = n->node.level;
    m.index = n->node.index;
    m.examples = n->examples;
    m.clipped = n->clipped;
    m.first_chunk = first;
    m.chunks = chunks;
    m.ack_only = l->terms->acks;
    m.remainder = n == &l->remainder;
    struct round_head round;
    if (l->config.local) {
        put_round(l, &round, &m, first == 0);
    } else if (first == 0 && !m.remainder) {
        sums[0] = n->sums.loss;
        memcpy(sums + 1, n->sums.metric, sizeof n->sums.metric);
        m.sums = sums;
        m.n_sums = 1 + l->terms->settings.metrics;
        if (l->terms->settings.progressive)
            m.marks = (ProtobufCBinaryData){
                bins_marks_bytes(n->examples, l->terms->settings.slices), (uint8_t *)n->marks};
    }
    msg_send(k->conn, FRAME_PUSH, &m.base, body.data, body.bytes);
}

/* Chunks [first, end) of the shard are final: send them in ranges. */
static void send_chunks(struct links *l, struct link *k, const struct gradient_node *n,
                        uint32_t first, uint32_t end)
{
    uint32_t run = l->terms->plan.run_chunks;
    /* a single frame is sent from the stack: a cork would queue it */
    bool several = end - first > run;
    if (several)
        conn_cork(k->conn);
    while (end > first) {
        uint32_t count = end - first < run ? end - first : run;
        send_run(l, k, n, end - count, count);
        end -= count;
    }
    if (several)
        conn_uncork(k->conn);
}

void links_begin(struct links *l, const struct session_task *task, uint64_t rows)
{
    l->name = task->name;
    push_codec_task(l->codec, &(struct push_task){.name = task->name,
                                                  .remainder = task->kind == TASK_PUSH,
                                                  .whole = task->whole,
                                                  .weight = (double)rows});
    for (uint32_t i = 0; i < l->n; i++)
        push_codec_begin(l->codec, i, l->link[i].conn);
}

void links_end(struct links *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        push_codec_sent(l->codec, i, l->link[i].conn);
}

/* The end of the shard's part that is not sent yet, if elements from `at` on were handed over: a range is sent when
 * it is full, or when the shard's part is complete. */
static uint32_t sent_until(const struct plan *plan, const struct plan_shard *p, uint64_t at)
{
    uint32_t end = p->first_chunk + p->chunks;
    uint32_t chunk = at >= p->first_elem + p->elems
                         ? end
                         : (uint32_t)((at + plan->chunk_elems - 1) / plan->chunk_elems);
    if (at <= p->first_elem)
        return p->first_chunk;
    return end - (end - chunk) / plan->run_chunks * plan->run_chunks;
}

void links_range(void *arg, struct gradient_node *n, uint64_t from, uint64_t to)
{
    struct links *l = arg;
    const struct plan *plan = &l->terms->plan;
    for (uint32_t i = l->n; i-- > 0;) {
        const struct plan_shard *p = &plan->shard[i];
        struct link *k = &l->link[i];
        if (to <= p->first_elem || from >= p->first_elem + p->elems || !k->conn ||
            !session_may_stream(l->config.session, i))
            continue;
        uint32_t end = sent_until(plan, p, to), first = sent_until(plan, p, from);
        if (first < end)
            send_chunks(l, k, n, first, end);
    }
}

/* ---- rows ---- */

enum { ROWS_FRAME_BYTES = 256 << 10 };

static void no_memory(struct links *l)
{
    struct errmsg e;
    enum err err = err_memory_for(&e, "rows to send");
    l->config.on_refused(l->config.ctx, err_exit_code(err), e.text);
}

static struct row_way way_of(const struct link *k, const struct gradient_node *n)
{
    const struct links *l = k->links;
    bool named = session_push_ask(l->config.session, k->shard) != 0;
    return (struct row_way){
        .asked = named ? n->asked : NULL,
        .codec = l->terms->codecs.push,
        .key = row_codec_key(l->terms->settings.seed, l->name, n->node.level, n->node.index)};
}

static void send_parts(struct links *l, struct link *k, const struct gradient_node *n,
                       uint32_t first, uint32_t parts, const uint8_t *body, size_t bytes)
{
    Gradwire__RowsPush m = GRADWIRE__ROWS_PUSH__INIT;
    Gradwire__Generation g = msg_generation(l->terms->generation);
    m.generation = &g;
    m.name = l->name;
    m.level = n->node.level;
    m.index = n->node.index;
    m.examples = n->examples;
    m.first_part = first;
    m.parts = parts;
    m.ask = session_push_ask(l->config.session, k->shard);
    msg_send(k->conn, FRAME_ROWS_PUSH, &m.base, body, bytes);
}

/* Send all parts of one node, in frames of about 256 KiB; returns where the next node's parts begin. */
static uint8_t *send_node(struct links *l, struct link *k, const struct gradient_node *n,
                          uint8_t *out)
{
    struct bucket_range range = buckets_of(l, k->shard);
    const struct row_way way = way_of(k, n);
    uint32_t first = 0;
    uint8_t *body = out;
    for (uint32_t p = 0; p < ROW_PARTS; p++) {
        out += row_frames_part(n->rows, &way, bucket_part(range, p), out);
        if (p + 1 < ROW_PARTS && out - body < ROWS_FRAME_BYTES)
            continue;
        send_parts(l, k, n, first, p + 1 - first, body, (size_t)(out - body));
        first = p + 1;
        body = out;
    }
    return out;
}

/* A shard refuses more than `most` bytes at every attempt, so the run ends with an error. */
static bool is_taken(struct links *l, uint32_t shard, const char *what, uint64_t bytes,
                     uint64_t most)
{
    char text[300];
    if (bytes <= most)
        return true;
    (void)snprintf(text, sizeof text,
                   "shard %u would get %s of %" PRIu64 " MiB, but the most is %" PRIu64
                   ": use more ps or ps.threads, or lower output_dim or training.batch_size",
                   shard, what, (bytes >> 20) + 1, most >> 20);
    l->config.on_refused(l->config.ctx, 1, text);
    return false;
}

static bool may_push(struct links *l, uint32_t shard, const struct gradient_node *n)
{
    return is_taken(l, shard, "a part of a gradient of rows",
                    row_frames_largest_part(n->rows, buckets_of(l, shard)), ROWS_PART_MAX);
}

static void push_rows(struct links *l, struct link *k, const struct gradient_node *node,
                      uint32_t nodes)
{
    struct bucket_range range = buckets_of(l, k->shard);
    size_t bytes = 0;
    for (uint32_t i = 0; i < nodes; i++)
        if (!may_push(l, k->shard, &node[i]))
            return;
    for (uint32_t i = 0; i < nodes; i++) {
        const struct row_way way = way_of(k, &node[i]);
        for (uint32_t p = 0; p < ROW_PARTS; p++)
            bytes += row_frames_part_most(node[i].rows, &way, bucket_part(range, p));
    }
    if (row_room_reserve(&k->rows, bytes)) {
        no_memory(l);
        return;
    }
    uint8_t *out = k->rows.data;
    for (uint32_t i = 0; i < nodes; i++)
        out = send_node(l, k, &node[i], out);
}

static bool may_ask(struct links *l, uint32_t shard, enum session_ask which,
                    const struct row_values *v)
{
    return is_taken(l, shard, "a lookup of rows",
                    row_frames_rows_most(v, reply_codecs(l, which), buckets_of(l, shard)),
                    ROWS_BODY_MAX);
}

static void send_ask(struct links *l, struct link *k, enum session_ask which)
{
    Gradwire__RowsAsk m = GRADWIRE__ROWS_ASK__INIT;
    uint32_t keys[ROW_TABLES_MAX];
    const struct row_values *v = l->asked[which];
    struct bucket_range range = buckets_of(l, k->shard);
    if (!v || !k->conn || !session_ask_head(l->config.session, k->shard, which, &m) ||
        !may_ask(l, k->shard, which, v))
        return;
    if (!conn_idle(k->conn)) /* an earlier request may still be in this room */
        conn_copy_out(k->conn, k->ask[which].data, k->ask[which].room);
    size_t bytes = row_frames_ask_bytes(v, range, keys);
    if (row_room_reserve(&k->ask[which], bytes)) {
        no_memory(l);
        return;
    }
    row_frames_ask(v, range, k->ask[which].data);
    m.keys = keys;
    m.n_keys = v->layout->lists;
    msg_send(k->conn, FRAME_ROWS_ASK, &m.base, k->ask[which].data, bytes);
}

void links_ask(struct links *l, enum session_ask which, struct row_values *v)
{
    l->asked[which] = v;
    for (uint32_t i = 0; i < l->n; i++)
        send_ask(l, &l->link[i], which);
}

void links_forget(struct links *l, enum session_ask which)
{
    l->asked[which] = NULL;
}

void links_ask_again(struct links *l, uint32_t shard, enum session_ask which)
{
    send_ask(l, &l->link[shard], which);
}

void links_push_all(struct links *l, const struct gradient_node *node, uint32_t nodes,
                    struct row_values *ask)
{
    if (ask)
        l->asked[ASK_TASK] = ask;
    for (uint32_t i = 0; i < l->n; i++) {
        struct link *k = &l->link[i];
        if (!k->conn)
            continue;
        conn_cork(k->conn);
        if (session_may_stream(l->config.session, i))
            links_push_again(l, i, node, nodes);
        if (ask)
            send_ask(l, k, ASK_TASK);
        conn_uncork(k->conn);
    }
}

void links_push_again(struct links *l, uint32_t shard, const struct gradient_node *node,
                      uint32_t nodes)
{
    const struct plan_shard *p = &l->terms->plan.shard[shard];
    struct link *k = &l->link[shard];
    for (uint32_t i = 0; i < nodes && k->conn; i++)
        send_chunks(l, k, &node[i], p->first_chunk, p->first_chunk + p->chunks);
    if (l->terms->tables && k->conn)
        push_rows(l, k, node, nodes);
}

void links_push_round(struct links *l, uint32_t shard)
{
    links_push_again(l, shard, l->config.local ? &l->config.local->round : &l->remainder, 1);
}

bool links_withhold(const struct links *l)
{
    return push_codec_withholds(l->codec);
}

void links_send(struct links *l, uint32_t shard, enum frame_type type, const ProtobufCMessage *m)
{
    assert(frame_to(type) & FRAME_TO_SHARD);
    if (l->link[shard].conn)
        msg_send(l->link[shard].conn, type, m, NULL, 0);
}

const char *links_why_away(const struct links *l, uint32_t ps)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->terms->plan.shard[i].ps == ps && !l->link[i].conn)
            return dial_why(l->link[i].dialer);
    return "";
}

void links_count(const struct links *l, struct worker_account *a)
{
    a->bytes_out = l->out_bytes;
    a->bytes_in = l->in_bytes;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->link[i].conn)
            continue;
        a->bytes_out += conn_stats(l->link[i].conn)->out_bytes;
        a->bytes_in += conn_stats(l->link[i].conn)->in_bytes;
    }
    a->push = *push_codec_cost(l->codec);
    a->reply = l->reply_cost;
}

enum codec links_codec(const struct links *l, uint32_t shard)
{
    return push_codec_in_use(l->codec, shard);
}

void links_before_write(struct links *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->link[i].conn && !conn_idle(l->link[i].conn))
            conn_copy_out(l->link[i].conn, NULL, SIZE_MAX);
}
