/* A connection from a worker to the chief. */
#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "common/peers/hello.h"
#include "worker/chief/host_state.h"
#include "worker/control/idle.h"

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
    struct worker_link *g = owner;
    g->type = f->type;
    bool greeted = g->known || g->reads || g->arrives;
    enum err err = greeted ? ERR_OK : greeting_on_head(&g->greeting, c, f, head);
    if (greeted && (f->body_bytes || (g->reads && f->type != FRAME_STORE_GET) ||
                    (g->arrives && f->type != FRAME_VITALS)))
        err = ERR_PROTO;
    if (err)
        return err;
    g->message = msg_unpack(f->type, head, f->head_bytes);
    return g->message ? ERR_OK : ERR_PROTO;
}

/* Answers a process that takes no part in the job, and closes the connection. */
static void worker_link_send_off(struct worker_link *g, Gradwire__HelloReply *m, const char *why)
{
    msg_send(g->conn, FRAME_HELLO_REPLY, &m->base, NULL, 0);
    conn_finish(g->conn, ERR_CLOSED, why);
}

static enum err worker_link_get(struct worker_link *g, const Gradwire__StoreGet *m)
{
    if (!cut_file_is_manifest(m->file) && !cut_file_is_encoding(m->file) &&
        !cut_file_is_of_place(m->file))
        return ERR_PROTO;
    return store_server_get(&g->host->store_server, &g->store, m);
}

void worker_links_tell_kept(struct host *h, const struct store_server_answer *a)
{
    struct worker_link *g = h->worker_links;
    while (g && (!g->reads || g->store.connection != a->connection))
        g = g->next;
    if (!g || conn_closed(g->conn))
        return;
    g->store.asks--;
    msg_send(g->conn, FRAME_STORE_ANSWER, &a->head.base, a->bytes ? a->body : NULL, a->bytes);
    if (a->bytes)
        conn_copy_out(g->conn, a->body, a->bytes);
}

/* One above the last cut; before the first generation, one above the cut that it begins with. 0: none. */
static uint64_t encoding_cut(const struct host *h)
{
    uint64_t cut = chief_facts(h->chief).cut;
    return (cut == UINT64_MAX ? h->config.base_cut : cut) + 1;
}

/* As users know it. */
static const char *name_of(const struct host *h, uint32_t worker, char out[WORKER_NAME_BYTES])
{
    return worker_name(out, worker, h->control->config.cluster->separate_chief);
}

/* It changes no result, but the chief waits at its start for the workers of its own list alone. */
static void compare_workers(const struct host *h, const Gradwire__Hello *m)
{
    const struct cluster *own = h->control->config.cluster;
    char name[WORKER_NAME_BYTES];
    if (own->sparse || !m->listed_workers || m->listed_workers == own->n_workers)
        return;
    log_warn("the lists of workers differ: %s has %u of them, the chief %u; the job trains "
             "with each worker that comes",
             name_of(h, m->worker, name), m->listed_workers, own->n_workers);
}

/* Its number is free for its next connection, or for another process. */
static void worker_link_end_arrival(struct worker_link *g)
{
    struct host *h = g->host;
    g->arrives = false;
    arrival_note(g->worker, NULL);
    chief_on_worker_loads(h->chief, g->worker, false, clock_now_ms());
}

/* The latest process with this number counts. */
static void worker_links_end_arrival(struct host *h, uint32_t worker)
{
    for (struct worker_link *g = h->worker_links; g; g = g->next)
        if (g->arrives && g->worker == worker) {
            worker_link_end_arrival(g);
            conn_finish(g->conn, ERR_CLOSED, "this worker has connected again");
        }
}

static void worker_link_arrive(struct worker_link *g, uint32_t worker)
{
    Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
    worker_links_end_arrival(g->host, worker);
    g->arrives = true;
    g->worker = worker;
    conn_limits(g->conn, FRAME_HEAD_MAX, 0);
    pending_conn_leave(&g->pending);
    msg_send(g->conn, FRAME_HELLO_REPLY, &reply.base, NULL, 0);
}

/* Until the connection of the former process is lost, the worker is up. */
static void worker_link_on_arrival(struct worker_link *g, const Gradwire__Vitals *m)
{
    struct host *h = g->host;
    int64_t now_ms = clock_now_ms();
    if (worker_link_of(h, g->worker))
        return;
    health_hear(&h->page.worker[g->worker], m, conn_peer(g->conn), now_ms);
    arrival_note(g->worker, m->loading);
    chief_on_worker_loads(h->chief, g->worker, true, now_ms);
}

static void worker_link_hello(struct worker_link *g, const Gradwire__Hello *m)
{
    struct host *h = g->host;
    const struct hello_host host = {.job = h->control->config.job,
                                    .cluster = h->control->config.cluster,
                                    .uuid = "",
                                    .encoding_cut = encoding_cut(h),
                                    .contents = h->config.contents};
    if (!greeting_taken(&g->greeting, g->conn, &host, m))
        return;
    Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
    if (m->role == GRADWIRE__ROLE__DOCTOR) { /* its hello fits: this process would be accepted */
        reply.time_ms = clock_wall_ms();
        log_debug("%s: a doctor visits", conn_peer(g->conn));
        worker_link_send_off(g, &reply, "the doctor's visit is over");
        return;
    }
    if (m->role == GRADWIRE__ROLE__READER) { /* requests files, like a ps with other storage */
        reply.cut = host.encoding_cut;
        g->reads = true;
        g->store = (struct store_peer){
            .ps = STORE_SERVER_READER, .connection = ++h->connections, .most = 1};
        conn_limits(g->conn, FRAME_HEAD_MAX, 0);
        pending_conn_leave(&g->pending);
        msg_send(g->conn, FRAME_HELLO_REPLY, &reply.base, NULL, 0);
        return;
    }
    if (m->role == GRADWIRE__ROLE__ARRIVAL) {
        worker_link_arrive(g, m->worker);
        return;
    }
    struct worker_link *former = worker_link_of(h, m->worker);
    if (chief_is_replaced(h->chief, m->worker, m)) {
        char why[HELLO_WHY_BYTES], name[WORKER_NAME_BYTES];
        (void)snprintf(why, sizeof why, "another process%s%.80s has replaced this one as %s",
                       former ? " at " : "", former ? conn_peer(former->conn) : "",
                       name_of(h, m->worker, name));
        greeting_turn_away(g->conn, &host, GRADWIRE__REASON__OLD_INCARNATION, why);
        return;
    }
    if (m->idle) { /* found at its start that the job is done: ends, or rests until another generation */
        if (!former)
            chief_on_worker_idle(h->chief, m->worker, clock_now_ms());
        worker_link_send_off(g, &reply, "this worker takes no part");
        return;
    }
    compare_workers(h, m);
    worker_links_end_arrival(h, m->worker);
    if (former) {
        former->known = false;
        chief_on_worker_down(h->chief, m->worker, clock_now_ms());
        conn_close(former->conn, ERR_CLOSED, "this worker has connected again");
    }
    conn_limits(g->conn, FRAME_HEAD_MAX, 0);
    pending_conn_leave(&g->pending);
    g->known = true;
    g->worker = m->worker;
    struct errmsg e = {""};
    if (chief_on_worker_up(h->chief, m->worker, m, clock_now_ms(), &e)) {
        g->known = false;
        greeting_turn_away(g->conn, &host, GRADWIRE__REASON__BAD_MESSAGE, e.text);
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
    enum err err = ERR_OK;
    g->message = NULL;
    if (g->reads)
        err = worker_link_get(g, (const Gradwire__StoreGet *)m);
    else if (g->arrives)
        worker_link_on_arrival(g, (const Gradwire__Vitals *)m);
    else if (!g->known)
        worker_link_hello(g, (const Gradwire__Hello *)m);
    else if (g->type == FRAME_VITALS)
        health_hear(&g->host->page.worker[g->worker], (const Gradwire__Vitals *)m, conn_peer(c),
                    clock_now_ms());
    else
        chief_on_worker(g->host->chief, g->worker, (enum frame_type)g->type, m, clock_now_ms());
    msg_free(m);
    return err;
}

static void worker_link_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct worker_link *g = owner;
    struct host *h = g->host;
    bool pending = g->pending.of; /* conn.c logs such connections itself, at intervals */
    if ((code == ERR_PROTO || code == ERR_TOOBIG) && !pending)
        log_warn("%s: closed: %s", conn_peer(c), why);
    LIST_REMOVE(h->worker_links, g);
    pending_conn_leave(&g->pending);
    if (g->arrives)
        worker_link_end_arrival(g);
    if (g->known) {
        char name[WORKER_NAME_BYTES];
        log_info("%s: the connection is lost: %s", name_of(h, g->worker, name), why);
        chief_on_worker_silent(h->chief, g->worker, conn_silent_ms(c));
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
            close(fd); /* otherwise conn_new has closed it */
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
        g->known = g->arrives = false;
        conn_finish(g->conn, ERR_CLOSED, "the chief ends");
    }
}

void worker_links_close(struct host *h)
{
    for (struct worker_link *g = h->worker_links; g; g = g->next)
        conn_close(g->conn, ERR_CLOSED, "the chief ends");
}
