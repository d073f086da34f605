/* Happy path: reach_all -> for each peer that listens, a dialer -> hello -> HELLO_REPLY or REFUSE; the loop ends
 * with the last answer. Failure modes: a peer that does not answer within VISIT_MS is reported with the dialer's
 * reason. */
#include "worker/doctor/visit.h"

#include <stdio.h>

#include "common/base/clock.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"
#include "common/base/mem.h"

struct round {
    struct loop loop;
    struct loop_timer bound;
    const struct job *job;
    const struct cluster *cluster;
    struct call *call;
    size_t n, open; /* open: number of those that have not answered */
};

struct call {
    struct round *round;
    struct visit *visit;
    struct dialer *dialer;
    struct conn *conn;
    ProtobufCMessage *message;
    uint16_t type;
    bool over;
};

static void call_over(struct call *c)
{
    if (c->over)
        return;
    c->over = true;
    if (--c->round->open == 0)
        loop_stop(&c->round->loop);
}

static void on_open(struct conn *conn, void *owner)
{
    struct call *c = owner;
    Gradwire__Hello m;
    hello_make(&m, c->round->job, c->round->cluster, c->visit->ps);
    m.role = GRADWIRE__ROLE__DOCTOR;
    m.worker = 0;
    c->conn = conn;
    c->visit->asked_ms = clock_wall_ms();
    dial_hello(c->dialer, conn, &m);
}

static enum err on_head(struct conn *conn, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)conn;
    struct call *c = owner;
    c->type = f->type;
    if (f->body_bytes)
        return ERR_PROTO;
    c->message = msg_unpack(f->type, head, f->head_bytes);
    return c->message ? ERR_OK : ERR_PROTO;
}

static void on_refuse(struct call *c, const Gradwire__Refuse *m)
{
    struct visit *v = c->visit;
    struct errmsg e = {""};
    v->refused = true;
    v->reason = m->reason;
    if (m->identity_text[0])
        (void)!job_identity_compare(m->identity_text, c->round->job->identity_text, &e);
    (void)snprintf(v->why, sizeof v->why, "%.200s%s%.180s%s", m->text, e.text[0] ? " (" : "",
                   e.text, e.text[0] ? ")" : "");
    call_over(c);
}

static enum err on_frame(struct conn *conn, void *owner)
{
    struct call *c = owner;
    ProtobufCMessage *m = c->message;
    c->message = NULL;
    if (c->type == FRAME_REFUSE) {
        on_refuse(c, (const Gradwire__Refuse *)m);
    } else if (c->type == FRAME_HELLO_REPLY) {
        c->visit->taken = true;
        c->visit->answered_ms = clock_wall_ms();
        c->visit->time_ms = ((const Gradwire__HelloReply *)m)->time_ms;
        call_over(c);
    }
    msg_free(m);
    if (c->over)
        conn_close(conn, ERR_OK, "answered");
    return ERR_OK;
}

static void on_close(struct conn *conn, void *owner, enum err code, const char *why)
{
    (void)conn, (void)code;
    struct call *c = owner;
    msg_free(c->message);
    c->message = NULL;
    c->conn = NULL;
    if (!c->over)
        (void)snprintf(c->visit->why, sizeof c->visit->why, "%.200s", why);
    call_over(c);
}

static const struct conn_ops call_ops = {
    .on_open = on_open, .on_head = on_head, .on_frame = on_frame, .on_close = on_close};

static void on_bound(void *arg)
{
    struct round *r = arg;
    for (size_t i = 0; i < r->n; i++) {
        struct call *c = &r->call[i];
        if (c->dialer && !c->over)
            (void)snprintf(c->visit->why, sizeof c->visit->why, "it does not answer%s%.200s",
                           dial_why(c->dialer)[0] ? ": " : "", dial_why(c->dialer));
    }
    loop_stop(&r->loop);
}

static enum err call_begin(struct round *r, struct call *c, struct visit *v)
{
    *c = (struct call){.round = r, .visit = v};
    if (v->reach->is != REACH_OPEN)
        return ERR_OK;
    enum err err = dial_new(&c->dialer, &r->loop, v->what, v->reach->address, &call_ops, c, NULL);
    if (err)
        return err;
    r->open++;
    dial_start(c->dialer);
    return ERR_OK;
}

static void call_end(struct call *c)
{
    c->over = true;
    if (c->conn)
        conn_close(c->conn, ERR_CLOSED, "the visit is over");
    if (c->dialer)
        dial_free(c->dialer);
}

static enum err talk(struct round *r, struct visit *v)
{
    enum err err = ERR_OK;
    loop_timer_init(&r->bound, &r->loop, on_bound, r);
    for (size_t i = 0; i < r->n && !err; i++)
        err = call_begin(r, &r->call[i], &v[i]);
    if (!err && r->open)
        err = loop_timer_once(&r->bound, VISIT_MS);
    if (!err && r->open)
        err = loop_run(&r->loop);
    loop_timer_stop(&r->bound);
    for (size_t i = 0; i < r->n; i++)
        call_end(&r->call[i]);
    return err;
}

enum err visit_all(struct visit *v, struct reach *reach, size_t n, const struct job *job,
                   const struct cluster *cluster, struct errmsg *e)
{
    struct round r = {.job = job, .cluster = cluster, .n = n};
    enum err err = reach_all(reach, n, REACH_MS);
    if (err)
        return err_set(e, err, "out of memory");
    if (!job)
        return ERR_OK;
    r.call = mem_zalloc(n + 1, sizeof *r.call);
    if (!r.call)
        return err_memory(e);
    err = loop_init(&r.loop);
    if (!err) {
        err = talk(&r, v);
        loop_close(&r.loop); /* frees the closed connections */
    }
    mem_free(r.call);
    return err ? err_set(e, err, "%s", err_str(err)) : ERR_OK;
}
