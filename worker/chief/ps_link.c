/* The chief's control connection to a ps. */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/peers/hello.h"
#include "common/checkpoint/checkpoint.h"
#include "worker/chief/host_state.h"

/* Of each shard: one that it saves, also for a cut that was given up, and one that it restores. */
enum { PIECES_PER_SHARD = 2 };

static enum err ps_on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)c;
    struct ps_link *p = owner;
    p->type = f->type;
    if (f->body_bytes &&
        (f->type != FRAME_STORE_PUT || !p->up || f->body_bytes > STORE_PIECE_BYTES))
        return ERR_PROTO;
    p->message = msg_unpack(f->type, head, f->head_bytes);
    if (!p->message)
        return ERR_PROTO;
    p->bytes = (size_t)f->body_bytes;
    p->body = p->bytes ? mem_zalloc(p->bytes, 1) : NULL;
    if (!p->bytes || p->body)
        return ERR_OK;
    /* the ps would send it again and again: the process ends */
    struct errmsg e;
    enum err err = err_memory_for(&e, "%zu bytes of a checkpoint's file", p->bytes);
    control_stop_train(p->host->control, err_exit_code(err), "%s", e.text);
    return err;
}

static enum err ps_on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **to,
                            size_t *bytes)
{
    (void)c;
    struct ps_link *p = owner;
    *to = p->body + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

/* A file of a cut, to or from the chief's storage. */
static enum err ps_on_store(struct ps_link *p, const ProtobufCMessage *m)
{
    struct store_server *k = &p->host->store_server;
    uint8_t *body = p->body;
    p->body = NULL;
    if (p->type == FRAME_STORE_GET)
        return store_server_get(k, &p->store, (const Gradwire__StoreGet *)m);
    const Gradwire__StorePut *put = (const Gradwire__StorePut *)m;
    return store_server_put(k, &p->store, put, body, p->bytes,
                            chief_expects_file(p->host->chief, p->ps, put->cut, put->file));
}

void ps_links_tell_kept(struct host *h, uint32_t ps, const struct store_server_answer *a)
{
    struct ps_link *p = &h->ps[ps];
    if (!p->conn || !p->up || p->store.connection != a->connection)
        return;
    p->store.asks--;
    msg_send(p->conn, FRAME_STORE_ANSWER, &a->head.base, a->bytes ? a->body : NULL, a->bytes);
    if (p->conn && a->bytes)
        conn_copy_out(p->conn, a->body, a->bytes);
}

/* The refused process never reaches us, so the ps tells. It tries again and again: each reason is logged once. */
static void ps_has_refused(struct ps_link *p, const char *text)
{
    if (!text[0] || strcmp(text, p->told) == 0)
        return;
    (void)snprintf(p->told, sizeof p->told, "%s", text);
    log_warn("ps %u refuses a process: %s", p->ps, p->told);
}

static enum err ps_on_frame(struct conn *c, void *owner)
{
    struct ps_link *p = owner;
    struct host *h = p->host;
    ProtobufCMessage *m = p->message;
    p->message = NULL;
    if (p->type == FRAME_HELLO_REPLY && !p->up) {
        p->up = p->was_up = true;
        p->store.most = PIECES_PER_SHARD * ((const Gradwire__HelloReply *)m)->threads;
        p->refusal[0] = 0;
        p->other_data_ms = 0;
        chief_on_ps_up(h->chief, p->ps, (const Gradwire__HelloReply *)m, clock_now_ms());
    } else if (p->type == FRAME_REFUSE) {
        const Gradwire__Refuse *refuse = (const Gradwire__Refuse *)m;
        char who[32];
        (void)snprintf(who, sizeof who, "ps %u", p->ps);
        control_refused(&p->host->control->config, who, refuse, p->refusal);
        dial_locked_out(p->dialer, refuse);
        if (control_other_data(refuse, &p->other_data_ms))
            control_stop_train(p->host->control, 2, "%s", p->refusal);
        conn_close(c, ERR_REFUSED, "refused");
    } else if (p->up && (p->type == FRAME_STORE_PUT || p->type == FRAME_STORE_GET)) {
        enum err err = ps_on_store(p, m);
        msg_free(m);
        return err;
    } else if (p->up && p->type == FRAME_VITALS) {
        ps_has_refused(p, ((const Gradwire__Vitals *)m)->refused);
        health_hear(&h->page.ps[p->ps], (const Gradwire__Vitals *)m, conn_peer(c), clock_now_ms());
    } else if (p->up) {
        chief_on_ps(h->chief, p->ps, (enum frame_type)p->type, m, clock_now_ms());
    }
    msg_free(m);
    return ERR_OK;
}

static void ps_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct ps_link *p = owner;
    bool was_up = p->up;
    msg_free(p->message);
    mem_free(p->body);
    p->message = NULL;
    p->body = NULL;
    p->conn = NULL;
    p->up = false;
    if (!p->dialer)
        return; /* the chief ends */
    store_server_gone(&p->host->store_server, &p->store);
    if (was_up) {
        log_info("ps %u: the connection is lost: %s", p->ps, why);
        chief_on_ps_down(p->host->chief, p->ps, clock_now_ms());
    }
    dial_lost(p->dialer, code, why);
    dial_start(p->dialer);
}

static void ps_on_open(struct conn *c, void *owner)
{
    struct ps_link *p = owner;
    const struct control_config *config = &p->host->control->config;
    const struct chief_facts facts = chief_facts(p->host->chief);
    Gradwire__Hello m;
    Gradwire__Contents contents;
    p->conn = c;
    p->store = (struct store_peer){.ps = p->ps, .connection = ++p->host->connections};
    hello_make(&m, config->job, config->cluster, p->ps);
    hello_add_contents(&m, &contents, p->host->config.contents);
    m.uuid = (char *)facts.uuid;
    const char *self = config->cluster->self, *chief = config->cluster->chief;
    m.chief_address = (char *)(self ? self : chief ? chief : "");
    m.vitals = true;
    dial_hello(p->dialer, c, &m);
}

static const struct conn_ops ps_ops = {
    .on_head = ps_on_head,
    .on_space = ps_on_space,
    .on_frame = ps_on_frame,
    .on_close = ps_on_close,
    .on_open = ps_on_open,
};

/* ---- beginning and end ---- */

enum err ps_links_start(struct host *h, struct errmsg *e)
{
    const struct cluster *cluster = h->control->config.cluster;
    enum err err = ERR_OK;
    h->ps = mem_zalloc(cluster->n_ps, sizeof *h->ps);
    if (!h->ps)
        return err_memory_for(e, "%u ps", cluster->n_ps);
    for (uint32_t i = 0; i < cluster->n_ps && !err; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "ps %u", i);
        h->ps[i] = (struct ps_link){.host = h, .ps = i};
        err = dial_new(&h->ps[i].dialer, &h->control->loop, what, cluster->ps[i], &ps_ops,
                       &h->ps[i], e);
        if (!err)
            dial_start(h->ps[i].dialer);
    }
    return err;
}

const char *ps_links_why_away(const struct host *h)
{
    for (uint32_t i = 0; i < h->control->config.cluster->n_ps; i++) {
        const struct ps_link *p = &h->ps[i];
        if (!p->up && p->refusal[0])
            return p->refusal;
        if (!p->up)
            return p->conn ? "it is connected, but does not answer" : dial_why(p->dialer);
    }
    return "";
}

bool ps_links_have_other_data(const struct host *h)
{
    for (uint32_t i = 0; i < h->control->config.cluster->n_ps; i++)
        if (!h->ps[i].up && h->ps[i].other_data_ms)
            return true;
    return false;
}

bool ps_links_hopeless(const struct host *h, char *why, size_t bytes)
{
    for (uint32_t i = 0; i < h->control->config.cluster->n_ps; i++) {
        const struct ps_link *p = &h->ps[i];
        if (p->was_up || p->conn || !dial_hopeless(p->dialer))
            continue;
        (void)snprintf(why, bytes, "ps %u and this process do not accept each other: %s", i,
                       p->refusal[0] ? p->refusal : dial_why(p->dialer));
        return true;
    }
    return false;
}

static uint32_t links(const struct host *h)
{
    return h->ps ? h->control->config.cluster->n_ps : 0;
}

void ps_links_finish(struct host *h)
{
    for (uint32_t i = 0; i < links(h); i++) {
        struct ps_link *p = &h->ps[i];
        dial_free(p->dialer);
        p->dialer = NULL;
        if (p->conn)
            conn_finish(p->conn, ERR_CLOSED, "the chief ends");
    }
}

bool ps_links_wait(const struct host *h)
{
    for (uint32_t i = 0; i < links(h); i++)
        if (h->ps[i].conn && !conn_idle(h->ps[i].conn))
            return true;
    return false;
}

void ps_links_close(struct host *h)
{
    for (uint32_t i = 0; i < links(h); i++)
        if (h->ps[i].conn)
            conn_close(h->ps[i].conn, ERR_CLOSED, "the chief ends");
}
