/* A worker that dialed the chief. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/peers/msg_send.h"
#include "worker/chief/host_state.h"

struct worker_link *worker_link_of(struct host *h, uint32_t worker)
{
    for (struct worker_link *g = h->worker_links; g; g = g->next)
        if (g->known && g->worker == worker)
            return g;
    return NULL;
}

static enum err worker_link_on_head(struct conn *c, void *owner, const struct frame *f,
                                    const uint8_t *head)
{
    (void)c;
    struct worker_link *g = owner;
    g->type = f->type;
    enum err err = g->known ? ERR_OK : greeting_on_head(&g->greeting, f, head);
    if (!err && g->known && f->body_bytes)
        err = ERR_PROTO;
    if (err)
        return err;
    g->message = msg_unpack(f->type, head, f->head_bytes);
    return g->message ? ERR_OK : ERR_PROTO;
}

static void worker_link_refuse(struct worker_link *g, Gradwire__Reason reason, const char *text)
{
    Gradwire__Refuse m = GRADWIRE__REFUSE__INIT;
    m.reason = reason;
    m.text = (char *)text;
    if (reason == GRADWIRE__REASON__OTHER_JOB)
        m.identity_text = g->host->control->config.job->identity_text;
    static struct log_budget budget;
    uint32_t left_out;
    bool say = log_may(&budget, clock_now_ms(), &left_out);
    if (say && left_out)
        log_warn("%u more were refused", left_out);
    if (say)
        log_warn("%s is refused: %s", conn_peer(g->conn), text);
    msg_send(g->conn, FRAME_REFUSE, &m.base, NULL, 0);
    conn_finish(g->conn, ERR_REFUSED, text);
}

static bool worker_link_is_ours(struct worker_link *g, const Gradwire__Hello *m)
{
    const struct job *job = g->host->control->config.job;
    char why[300];
    if (!version_same(m->version, m->role == GRADWIRE__ROLE__DOCTOR ? "doctor" : "worker", "chief",
                      why, sizeof why)) {
        worker_link_refuse(g, GRADWIRE__REASON__OTHER_VERSION, why);
        return false;
    }
    if (strcmp(m->job, job->name) != 0 || m->identity.len != sizeof job->identity ||
        memcmp(m->identity.data, job->identity, sizeof job->identity) != 0) {
        (void)snprintf(why, sizeof why, "a worker of job %.64s dialed the chief of job %s%s",
                       m->job, job->name,
                       strcmp(m->job, job->name) ? "" : "; a key that makes its identity differs");
        worker_link_refuse(g, GRADWIRE__REASON__OTHER_JOB, why);
        return false;
    }
    if (m->role == GRADWIRE__ROLE__CHIEF) { /* whose name is not the worker's that it says it is */
        worker_link_refuse(g, GRADWIRE__REASON__BAD_MESSAGE, "a chief dialed the chief");
        return false;
    }
    if (m->role != GRADWIRE__ROLE__DOCTOR && (m->worker == 0 || m->worker >= CHIEF_WORKERS_MAX)) {
        (void)snprintf(why, sizeof why, "worker %u dialed the chief: allowed are 1 to %d",
                       m->worker, CHIEF_WORKERS_MAX - 1);
        worker_link_refuse(g, GRADWIRE__REASON__BAD_MESSAGE, why);
        return false;
    }
    return true;
}

/* It would be taken. */
static void worker_link_doctor(struct worker_link *g)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    m.time_ms = clock_wall_ms();
    log_debug("%s: a doctor looks", conn_peer(g->conn));
    msg_send(g->conn, FRAME_HELLO_REPLY, &m.base, NULL, 0);
    conn_finish(g->conn, ERR_CLOSED, "a doctor has looked");
}

static void worker_link_hello(struct worker_link *g, const Gradwire__Hello *m)
{
    struct host *h = g->host;
    if (!worker_link_is_ours(g, m))
        return;
    if (m->role == GRADWIRE__ROLE__DOCTOR) {
        worker_link_doctor(g);
        return;
    }
    struct worker_link *former = worker_link_of(h, m->worker);
    if (former) {
        former->known = false;
        chief_on_worker_down(h->chief, m->worker, clock_now_ms());
        conn_close(former->conn, ERR_CLOSED, "this worker dialed in again");
    }
    conn_limits(g->conn, FRAME_HEAD_MAX, 0);
    pending_conn_leave(&g->pending);
    g->known = true;
    g->worker = m->worker;
    struct errmsg e = {""};
    if (chief_on_worker_up(h->chief, m->worker, m, clock_now_ms(), &e)) {
        g->known = false;
        worker_link_refuse(g, GRADWIRE__REASON__BAD_MESSAGE, e.text);
    }
}

static enum err worker_link_on_space(struct conn *c, void *owner, uint64_t at, uint64_t left,
                                     void **p, size_t *bytes)
{
    (void)c;
    struct worker_link *g = owner;
    return greeting_on_space(&g->greeting, at, left, p, bytes);
}

static enum err worker_link_on_frame(struct conn *c, void *owner)
{
    struct worker_link *g = owner;
    ProtobufCMessage *m = g->message;
    g->message = NULL;
    bool known = g->known;
    if (!known && greeting_proved(&g->greeting, c) &&
        greeting_named(c, g->host->control->config.cluster, (const Gradwire__Hello *)m))
        worker_link_hello(g, (const Gradwire__Hello *)m);
    else if (known)
        chief_on_worker(g->host->chief, g->worker, (enum frame_type)g->type, m, clock_now_ms());
    msg_free(m);
    return ERR_OK;
}

static void worker_link_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct worker_link *g = owner;
    struct host *h = g->host;
    bool pending = g->pending.of; /* of whom conn.c has told, now and then */
    if ((code == ERR_PROTO || code == ERR_TOOBIG) && !pending)
        log_warn("%s: closed: %s", conn_peer(c), why);
    LIST_REMOVE(h->worker_links, g);
    pending_conn_leave(&g->pending);
    if (g->known) {
        log_info("worker %u: the connection is lost: %s", g->worker, why);
        chief_on_worker_down(h->chief, g->worker, clock_now_ms());
    }
    if (h->listening)
        listen_release(&h->listener);
    msg_free(g->message);
    mem_free(g);
}

static const struct conn_ops worker_link_ops = {
    .on_head = worker_link_on_head,
    .on_space = worker_link_on_space,
    .on_frame = worker_link_on_frame,
    .on_close = worker_link_on_close,
};

bool worker_links_shed(void *owner)
{
    struct host *h = owner;
    return pending_shed(&h->pending);
}

void worker_link_accept(void *owner, int fd, const char *peer)
{
    struct host *h = owner;
    struct worker_link *g = mem_zalloc(1, sizeof *g);
    if (!g || conn_new(&g->conn, &h->control->loop, fd, peer, &worker_link_ops, g)) {
        log_warn("%s: no memory for a connection", peer);
        if (!g)
            close(fd); /* or conn_new has */
        listen_release(&h->listener);
        mem_free(g);
        return;
    }
    g->host = h;
    g->next = h->worker_links;
    h->worker_links = g;
    pending_add(&h->pending, &g->pending, g->conn);
    greeting_begin(&g->greeting, g->conn);
}

void worker_links_finish(struct host *h)
{
    for (struct worker_link *g = h->worker_links; g; g = g->next) {
        g->known = false;
        conn_finish(g->conn, ERR_CLOSED, "the chief ends");
    }
}

void worker_links_close(struct host *h)
{
    for (struct worker_link *g = h->worker_links; g; g = g->next)
        conn_close(g->conn, ERR_CLOSED, "the chief ends");
}
