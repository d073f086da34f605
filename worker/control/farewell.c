#include "worker/control/farewell.h"

#include <stdio.h>

#include "common/base/log.h"
#include "common/net/conn.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"

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

static void on_bound(void *arg)
{
    end(arg);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *frame, const uint8_t *head)
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

static enum err on_frame(struct conn *c, void *owner)
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

static const struct conn_ops ops;

/* The connection to ps 0 is closed: the chief is next. */
static void dial_chief(struct farewell *f)
{
    struct errmsg e = {""};
    if (dial_new(&f->chief, &f->loop, "the chief", f->address, &ops, f, &e))
        end(f);
    else
        dial_start(f->chief);
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
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

static void on_open(struct conn *c, void *owner)
{
    struct farewell *f = owner;
    Gradwire__Hello m;
    f->conn = c;
    hello_make(&m, f->job, f->cluster, 0);
    m.idle = f->chief != NULL; /* ps 0 is to answer without waiting for a generation */
    dial_hello(f->chief ? f->chief : f->ps, c, &m);
}

static const struct conn_ops ops = {
    .on_head = on_head, .on_frame = on_frame, .on_close = on_close, .on_open = on_open};

void farewell_say(const struct job *job, const struct cluster *cluster)
{
    struct farewell f = {.job = job, .cluster = cluster};
    struct errmsg e = {""};
    if (loop_init(&f.loop))
        return;
    loop_timer_init(&f.bound, &f.loop, on_bound, &f);
    if (dial_new(&f.ps, &f.loop, "ps 0", cluster->ps[0], &ops, &f, &e) == ERR_OK &&
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
