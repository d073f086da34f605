/* Connections of the simulated cluster. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim.h"

struct dial {
    enum sim_conn_kind kind;
    uint32_t from, to;
    struct sim_proc *acceptor;
    uint64_t token;
    bool blocked;
};

static bool is_blocked(const struct sim *sim, enum sim_conn_kind kind, uint32_t worker,
                       const struct sim_proc *ps)
{
    return kind == CONN_LINK && sim->blocked_us[worker][ps->index] > sim->now_us;
}

static int64_t delay(struct sim *sim, const struct sim_conn *c)
{
    if (c->kind == CONN_MEMBER && c->from == 0)
        return (int64_t)sim_below(sim, sim_chance(sim, 20) ? 5000 : 30); /* inside one process */
    int64_t us = 20 + (int64_t)sim_below(sim, (uint64_t)sim->config.delay_us);
    if (sim_chance(sim, 200))
        us += (int64_t)sim_below(sim, 300000);
    return us;
}

struct sim_conn *sim_connect(struct sim *sim, enum sim_conn_kind kind, uint32_t from, uint32_t to,
                             struct sim_proc *dialer, struct sim_proc *acceptor)
{
    struct sim_conn *c = calloc(1, sizeof *c);
    *c = (struct sim_conn){.next = sim->conns,
                           .kind = kind,
                           .from = from,
                           .to = to,
                           .proc = {dialer, acceptor},
                           .life = {dialer->life, acceptor->life},
                           .open = {true, true},
                           .cut_us = INT64_MAX};
    for (int end = 0; end < 2; end++)
        c->paused_end[end] = &c->paused[end];
    sim->conns = c;
    return c;
}

static void on_dialed(struct sim *sim, struct sim_event *e)
{
    struct dial *d = e->p;
    struct sim_conn *c = d->acceptor->up && !d->blocked
                             ? sim_connect(sim, d->kind, d->from, d->to, e->proc, d->acceptor)
                             : NULL;
    struct sim_worker *k = &sim->worker[e->proc->index];
    if (d->kind == CONN_CONTROL)
        sim_chief_dialed(sim, k, d->to, d->token, c);
    else
        sim_worker_dialed(sim, k, d->kind, d->to, d->token, c);
    free(d);
}

void sim_dial(struct sim *sim, enum sim_conn_kind kind, uint32_t from, uint32_t to,
              struct sim_proc *dialer, struct sim_proc *acceptor, uint64_t token)
{
    bool blocked = is_blocked(sim, kind, from, acceptor);
    int64_t us = 50 + (int64_t)sim_below(sim, blocked ? 5000000 : 2000);
    struct sim_event *e = sim_after(sim, us, dialer, on_dialed);
    struct dial *d = calloc(1, sizeof *d);
    *d = (struct dial){kind, from, to, acceptor, token, blocked};
    e->p = d;
    e->drop = free;
}

bool sim_open(const struct sim_conn *c, int end)
{
    return c && c->open[end] && c->proc[end]->life == c->life[end];
}

static void unlink_unsent(struct sim_message *m)
{
    if (!m->unsent_at)
        return;
    *m->unsent_at = m->unsent_next;
    if (m->unsent_next)
        m->unsent_next->unsent_at = m->unsent_at;
    m->unsent_at = NULL;
    m->from = NULL;
}

void sim_message_free(void *p)
{
    struct sim_message *m = p;
    unlink_unsent(m);
    free(m->head);
    free(m->body);
    free(m);
}

void sim_unsent_forget(struct sim_message **unsent, const float *lo, uint64_t elems)
{
    struct sim_message *next;
    for (struct sim_message *m = *unsent; m; m = next) {
        next = m->unsent_next;
        if (!lo || (m->from < lo + elems && lo < m->from + m->elems))
            unlink_unsent(m);
    }
}

/* The sender's memory is what it was when it was sent, or the sender has said that it changes. */
static void check_unsent(struct sim *sim, const struct sim_message *m)
{
    if (m->from && memcmp(m->from, m->body, m->body_bytes) != 0)
        sim_fail(sim,
                 "parameters of a reply of shard %u to worker %u changed before they were sent",
                 m->conn->to, m->conn->from);
}

static void hand_over(struct sim *sim, struct sim_message *m)
{
    struct sim_conn *c = m->conn;
    ProtobufCMessage *head = msg_unpack(m->type, m->head, m->bytes);
    if (!head)
        sim_fail(sim, "a %s does not unpack", frame_type_str(m->type));
    else if (m->to == DIALER && c->kind == CONN_CONTROL)
        sim_chief_message(sim, c, m, head);
    else if (m->to == DIALER)
        sim_worker_message(sim, c, m, head);
    else if (c->kind == CONN_MEMBER)
        sim_chief_message(sim, c, m, head);
    else
        sim_ps_message(sim, c, m, head);
    msg_free(head);
}

static bool reads(const struct sim *sim, const struct sim_conn *c, int end)
{
    return end == DIALER ? sim_worker_reads(sim, c) : sim_thread_reads(c);
}

static void deliver(struct sim *sim, struct sim_message *m)
{
    struct sim_conn *c = m->conn;
    sim->messages++;
    check_unsent(sim, m);
    if (c->paused[m->to] || !reads(sim, c, m->to)) {
        unlink_unsent(m);
        m->next = NULL;
        *c->paused_end[m->to] = m;
        c->paused_end[m->to] = &m->next;
        return;
    }
    hand_over(sim, m);
    sim_message_free(m);
}

/* A break may come in the middle of a body: a part of it has reached its final place. */
static void torn(struct sim *sim, struct sim_message *m)
{
    if (m->type != FRAME_REPLY || m->to != DIALER || m->conn->paused[DIALER] ||
        !sim_worker_reads(sim, m->conn))
        return;
    ProtobufCMessage *head = msg_unpack(m->type, m->head, m->bytes);
    sim_worker_torn(sim, m->conn, m, head);
    msg_free(head);
}

static void on_arrival(struct sim *sim, struct sim_event *e)
{
    struct sim_message *m = e->p;
    struct sim_conn *c = m->conn;
    if (!sim_open(c, m->to)) {
        sim_message_free(m);
    } else if (sim->now_us > c->cut_us) {
        torn(sim, m);
        sim_message_free(m);
    } else {
        deliver(sim, m);
    }
}

void sim_send_bytes(struct sim *sim, struct sim_conn *c, int to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes,
                    struct sim_message **unsent)
{
    c->sent += to == ACCEPTOR;
    if (!sim_open(c, !to) || sim->now_us > c->cut_us)
        return;
    struct sim_message *out = calloc(1, sizeof *out);
    out->conn = c;
    out->to = to;
    out->type = (uint16_t)type;
    out->bytes = protobuf_c_message_get_packed_size(m);
    out->head = malloc(out->bytes + 1);
    protobuf_c_message_pack(m, out->head);
    if (body) {
        out->body_bytes = bytes;
        out->elems = (bytes + sizeof(float) - 1) / sizeof(float);
        out->body = malloc(out->elems * sizeof(float));
        memcpy(out->body, body, bytes);
    }
    if (unsent && body) {
        out->from = body;
        out->unsent_next = *unsent;
        out->unsent_at = unsent;
        if (*unsent)
            (*unsent)->unsent_at = &out->unsent_next;
        *unsent = out;
    }
    int64_t at = sim->now_us + delay(sim, c);
    if (at < c->last_us[to])
        at = c->last_us[to];
    c->last_us[to] = at;
    struct sim_event *e = sim_after(sim, at - sim->now_us, c->proc[to], on_arrival);
    e->life = c->life[to];
    e->p = out;
    e->drop = sim_message_free;
}

void sim_send_body(struct sim *sim, struct sim_conn *c, int to, enum frame_type type,
                   const ProtobufCMessage *m, const float *body, uint64_t elems,
                   struct sim_message **unsent)
{
    sim_send_bytes(sim, c, to, type, m, body, elems * sizeof(float), unsent);
}

void sim_send(struct sim *sim, struct sim_conn *c, int to, enum frame_type type,
              const ProtobufCMessage *m)
{
    sim_send_body(sim, c, to, type, m, NULL, 0, NULL);
}

static void drop_paused(struct sim_conn *c, int end)
{
    while (c->paused[end]) {
        struct sim_message *m = c->paused[end];
        c->paused[end] = m->next;
        sim_message_free(m);
    }
    c->paused_end[end] = &c->paused[end];
}

void sim_resume_reading(struct sim *sim, struct sim_conn *c, int end)
{
    while (c->paused[end] && sim_open(c, end) && reads(sim, c, end)) {
        struct sim_message *m = c->paused[end];
        c->paused[end] = m->next;
        if (!c->paused[end])
            c->paused_end[end] = &c->paused[end];
        hand_over(sim, m);
        sim_message_free(m);
    }
}

static void on_end_of_file(struct sim *sim, struct sim_event *e)
{
    struct sim_conn *c = e->p;
    int end = (int)e->a;
    if (!sim_open(c, end))
        return;
    c->open[end] = false;
    drop_paused(c, end);
    if (end == DIALER && c->kind == CONN_CONTROL)
        sim_chief_lost(sim, c);
    else if (end == DIALER)
        sim_worker_lost(sim, c);
    else if (c->kind == CONN_MEMBER)
        sim_chief_lost(sim, c);
    else
        sim_ps_lost(sim, c);
}

static void end_of_file(struct sim *sim, struct sim_conn *c, int end, int64_t us)
{
    int64_t at = sim->now_us + us;
    if (at < c->last_us[end] && c->last_us[end] <= c->cut_us)
        at = c->last_us[end]; /* behind what was sent */
    struct sim_event *e = sim_after(sim, at - sim->now_us, c->proc[end], on_end_of_file);
    e->life = c->life[end];
    e->a = (uint64_t)end;
    e->p = c;
}

void sim_close(struct sim *sim, struct sim_conn *c, int end)
{
    if (!c || !c->open[end])
        return;
    c->open[end] = false;
    drop_paused(c, end);
    end_of_file(sim, c, !end, delay(sim, c));
}

void sim_break(struct sim *sim, struct sim_conn *c)
{
    if (c->cut_us != INT64_MAX)
        return;
    c->cut_us = sim->now_us + (int64_t)sim_below(sim, 4000);
    uint64_t late = sim_chance(sim, 4) ? 3000000 : 50000;
    for (int end = 0; end < 2; end++)
        end_of_file(sim, c, end, (int64_t)sim_below(sim, late));
}

static void silence(struct sim *sim, struct sim_conn *c)
{
    if (c->cut_us != INT64_MAX)
        return;
    c->cut_us = sim->now_us;
    for (int end = 0; end < 2; end++)
        end_of_file(sim, c, end, (int64_t)sim_below(sim, 9000000));
}

static void on_unblocked(struct sim *sim, struct sim_event *e)
{
    (void)e;
    sim->last_fault_us = sim->now_us;
}

void sim_block(struct sim *sim, uint32_t worker, uint32_t ps, int64_t until_us)
{
    sim_trace(sim, "worker %u and ps %u do not reach each other until %" PRId64, worker, ps,
              until_us);
    if (until_us != INT64_MAX)
        (void)sim_after(sim, until_us - sim->now_us, NULL, on_unblocked);
    sim->blocked_us[worker][ps] = until_us;
    sim->died = true; /* as far as its work goes */
    for (struct sim_conn *c = sim->conns; c; c = c->next)
        if (sim_open(c, 0) && sim_open(c, 1) && c->proc[ACCEPTOR]->role == SIM_PS &&
            c->from == worker && is_blocked(sim, c->kind, worker, c->proc[ACCEPTOR]) &&
            c->proc[ACCEPTOR]->index == ps)
            silence(sim, c);
}

void sim_net_close(struct sim *sim)
{
    while (sim->conns) {
        struct sim_conn *c = sim->conns;
        sim->conns = c->next;
        drop_paused(c, DIALER);
        drop_paused(c, ACCEPTOR);
        free(c);
    }
}
