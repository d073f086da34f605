/* The last words of a process to its peers, if no other code has connected to them. */
#include "worker/control/farewell.h"

#include <stdio.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/conn.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"

/* ---- a chief that failed at its start ---- */

struct telling {
    const struct job *job;
    const struct cluster *cluster;
    const Gradwire__Done *what;
    struct loop loop;
    struct loop_timer bound;
    uint32_t left; /* ps that have not heard it */
    struct listener_ps {
        struct telling *of;
        uint32_t ps;
        struct dialer *dialer;
        struct conn *conn;
        uint16_t type;
        bool heard, refused;
    } * to; /* (n_ps) */
};

static void failed_on_bound(void *arg)
{
    loop_stop(&((struct telling *)arg)->loop);
}

static enum err failed_on_head(struct conn *c, void *owner, const struct frame *f,
                               const uint8_t *head)
{
    (void)c;
    (void)head;
    ((struct listener_ps *)owner)->type = f->type;
    return f->body_bytes ? ERR_PROTO : ERR_OK;
}

static enum err failed_on_frame(struct conn *c, void *owner)
{
    struct listener_ps *to = owner;
    if (to->type == FRAME_REFUSE) {
        to->refused = true;
        conn_close(c, ERR_REFUSED, "refused");
    }
    return ERR_OK;
}

static void failed_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct listener_ps *to = owner;
    struct telling *t = to->of;
    to->conn = NULL;
    if (!to->dialer)
        return;
    to->heard = code == ERR_CLOSED;
    if (to->heard || to->refused) {
        if (--t->left == 0)
            loop_stop(&t->loop);
        return;
    }
    dial_lost(to->dialer, code, why);
    dial_start(to->dialer);
}

static void failed_on_open(struct conn *c, void *owner)
{
    struct listener_ps *to = owner;
    const struct telling *t = to->of;
    Gradwire__Hello m;
    to->conn = c;
    hello_make(&m, t->job, t->cluster, to->ps);
    m.failed = (Gradwire__Done *)t->what;
    dial_hello(to->dialer, c, &m);
}

static const struct conn_ops failed_ops = {.on_head = failed_on_head,
                                           .on_frame = failed_on_frame,
                                           .on_close = failed_on_close,
                                           .on_open = failed_on_open};

static enum err dial_all(struct telling *t, struct errmsg *e)
{
    enum err err = loop_timer_once(&t->bound, FAILED_START_MS);
    for (uint32_t i = 0; i < t->left && !err; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "ps %u", i);
        t->to[i] = (struct listener_ps){.of = t, .ps = i};
        err = dial_new(&t->to[i].dialer, &t->loop, what, t->cluster->ps[i], &failed_ops, &t->to[i],
                       e);
        if (!err)
            dial_start(t->to[i].dialer);
    }
    return err;
}

static void end_all(struct telling *t)
{
    for (uint32_t i = 0; i < t->cluster->n_ps; i++) {
        struct listener_ps *to = &t->to[i];
        const char *why = to->dialer ? dial_why(to->dialer) : "";
        if (!to->heard)
            log_warn(
                "ps %u does not know that the chief has failed%s%s: it waits for a chief for %u s "
                "(timeouts.start_s; timeouts.ps_rejoin_s if it had one)",
                i, why[0] ? ": " : "", why, t->job->timeouts.start_s);
        dial_free(to->dialer);
        to->dialer = NULL;
        if (to->conn)
            conn_close(to->conn, ERR_CLOSED, "the chief ends");
    }
}

void failed_start_tell(const struct job *job, const struct cluster *cluster,
                       const Gradwire__Done *what)
{
    struct telling t = {.job = job, .cluster = cluster, .what = what, .left = cluster->n_ps};
    struct errmsg e = {""};
    t.to = mem_zalloc(cluster->n_ps, sizeof *t.to);
    if (!t.to)
        return;
    if (loop_init(&t.loop) == ERR_OK) {
        loop_timer_init(&t.bound, &t.loop, failed_on_bound, &t);
        if (dial_all(&t, &e) || loop_run(&t.loop))
            log_warn("the ps do not learn that the chief has failed: %s", e.text);
        loop_timer_stop(&t.bound);
        end_all(&t);
        loop_close(&t.loop);
    }
    mem_free(t.to);
}

/* ---- a worker whose job is done ---- */

struct farewell {
    const struct job *job;
    const struct cluster *cluster;
    struct loop loop;
    struct loop_timer bound;
    struct dialer *ps, *chief; /* chief NULL: its address is not known yet */
    struct conn *conn;
    ProtobufCMessage *message;
    uint16_t type;
    char address[300]; /* of the chief; "": not known */
    bool over;
};

static void end(struct farewell *f)
{
    f->over = true;
    loop_stop(&f->loop);
}

static void farewell_on_bound(void *arg)
{
    end(arg);
}

static enum err farewell_on_head(struct conn *c, void *owner, const struct frame *frame,
                                 const uint8_t *head)
{
    (void)c;
    struct farewell *f = owner;
    f->type = frame->type;
    f->message = frame->body_bytes ? NULL : msg_unpack(frame->type, head, frame->head_bytes);
    return f->message ? ERR_OK : ERR_PROTO;
}

static void on_answer(struct farewell *f, const Gradwire__HelloReply *m)
{
    if (f->chief)
        log_info("the chief knows that this worker has found the job done");
    else if (!m->over)
        (void)snprintf(f->address, sizeof f->address, "%s", m->chief_address);
    if (f->chief || !f->address[0])
        end(f);
}

static enum err farewell_on_frame(struct conn *c, void *owner)
{
    struct farewell *f = owner;
    if (f->type == FRAME_HELLO_REPLY)
        on_answer(f, (const Gradwire__HelloReply *)f->message);
    else if (f->type != FRAME_CHALLENGE)
        end(f); /* a refusal */
    bool answered = f->over || f->type == FRAME_HELLO_REPLY;
    msg_free(f->message);
    f->message = NULL;
    if (answered)
        conn_close(c, ERR_OK, "answered");
    return ERR_OK;
}

static const struct conn_ops farewell_ops;

/* The connection to ps 0 is closed: the chief is next. */
static void dial_chief(struct farewell *f)
{
    struct errmsg e = {""};
    if (dial_new(&f->chief, &f->loop, "the chief", f->address, &farewell_ops, f, &e))
        end(f);
    else
        dial_start(f->chief);
}

static void farewell_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct farewell *f = owner;
    msg_free(f->message);
    f->message = NULL;
    f->conn = NULL;
    if (f->over)
        return;
    if (f->address[0] && !f->chief) {
        dial_chief(f);
        return;
    }
    struct dialer *d = f->chief ? f->chief : f->ps;
    dial_lost(d, code, why);
    dial_start(d);
}

static void farewell_on_open(struct conn *c, void *owner)
{
    struct farewell *f = owner;
    Gradwire__Hello m;
    f->conn = c;
    hello_make(&m, f->job, f->cluster, 0);
    m.idle = f->chief != NULL; /* ps 0 is to answer without waiting for a generation */
    dial_hello(f->chief ? f->chief : f->ps, c, &m);
}

static const struct conn_ops farewell_ops = {.on_head = farewell_on_head,
                                             .on_frame = farewell_on_frame,
                                             .on_close = farewell_on_close,
                                             .on_open = farewell_on_open};

void farewell_say(const struct job *job, const struct cluster *cluster)
{
    struct farewell f = {.job = job, .cluster = cluster};
    struct errmsg e = {""};
    if (loop_init(&f.loop))
        return;
    loop_timer_init(&f.bound, &f.loop, farewell_on_bound, &f);
    if (dial_new(&f.ps, &f.loop, "ps 0", cluster->ps[0], &farewell_ops, &f, &e) == ERR_OK &&
        loop_timer_once(&f.bound, FAREWELL_MS) == ERR_OK) {
        dial_start(f.ps);
        if (loop_run(&f.loop))
            log_warn("the chief is not told that this worker has ended: the event loop failed");
    }
    f.over = true;
    loop_timer_stop(&f.bound);
    dial_free(f.ps);
    dial_free(f.chief);
    if (f.conn)
        conn_close(f.conn, ERR_CLOSED, "the answer is no longer needed");
    loop_close(&f.loop); /* closes the connection */
}
