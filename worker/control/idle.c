#include "worker/control/idle.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/net/conn.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"
#include "common/base/log.h"
#include "worker/control/control.h"
#include "common/base/mem.h"

struct idle {
    struct control_config config; /* for the hello */
    struct loop loop;
    struct loop_signal term, interrupt;
    struct loop_timer again;
    struct dialer *ps;
    struct conn *conn;
    ProtobufCMessage *message;
    uint16_t type;
    struct idle_run *over;
    bool called, signalled;
    char said[400]; /* the last reason why ps 0 does not accept us; each new one is logged once */
};

enum process_state idle_state(const struct idle_end *end, int *exit_code)
{
    bool done = end->exit_code == 0 || (end->nobody_came && end->known_over);
    bool idle = !done && end->nobody_came && end->waits;
    *exit_code = done ? 0 : idle ? (end->going ? 143 : 0) : end->exit_code;
    if (end->going || !(done || idle))
        return STATE_LOADING;
    return done ? STATE_DONE : STATE_IDLE;
}

bool idle_is_news(const struct idle_run *over, const char *uuid, uint64_t generation)
{
    return strcmp(over->uuid, uuid) != 0 || generation > over->generation;
}

static void on_signal(int number, void *arg)
{
    struct idle *i = arg;
    (void)number;
    i->signalled = true;
    loop_stop(&i->loop);
}

static void on_again(void *arg)
{
    dial_start(((struct idle *)arg)->ps);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)c;
    struct idle *i = owner;
    i->type = f->type;
    if (f->body_bytes)
        return ERR_PROTO;
    i->message = msg_unpack(f->type, head, f->head_bytes);
    return i->message ? ERR_OK : ERR_PROTO;
}

static void say(struct idle *i, const char *text)
{
    if (strcmp(i->said, text) != 0)
        log_warn("%s", text);
    (void)snprintf(i->said, sizeof i->said, "%s", text);
}

static void on_answer(struct idle *i, const Gradwire__HelloReply *m)
{
    uint64_t generation = msg_generation_get(m->generation).number;
    if (!idle_is_news(i->over, m->uuid, generation))
        return;
    (void)snprintf(i->over->uuid, sizeof i->over->uuid, "%s", m->uuid);
    i->over->generation = generation;
    i->called = true;
    loop_stop(&i->loop);
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct idle *i = owner;
    char text[400];
    if (i->type == FRAME_REFUSE) {
        control_refusal(&i->config, "ps 0", (const Gradwire__Refuse *)i->message, text,
                        sizeof text);
        say(i, text);
        conn_close(c, ERR_REFUSED, "refused");
    } else if (i->type == FRAME_HELLO_REPLY) {
        i->said[0] = '\0';
        on_answer(i, (const Gradwire__HelloReply *)i->message);
        conn_close(c, ERR_OK, "answered");
    }
    msg_free(i->message);
    i->message = NULL;
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct idle *i = owner;
    char text[400];
    (void)snprintf(text, sizeof text, "%s: %s", conn_peer(c), why);
    if (code == ERR_TLS && i->ps) /* a ps reports this only by closing the connection */
        say(i, text);
    msg_free(i->message);
    i->message = NULL;
    i->conn = NULL;
    if (i->ps && loop_timer_once(&i->again, IDLE_ASK_MS))
        dial_start(i->ps); /* it has its own intervals */
}

static void on_open(struct conn *c, void *owner)
{
    struct idle *i = owner;
    Gradwire__Hello m;
    i->conn = c;
    hello_make(&m, i->config.job, i->config.cluster, 0);
    m.idle = true;
    dial_hello(i->ps, c, &m);
}

static const struct conn_ops ops = {
    .on_head = on_head, .on_frame = on_frame, .on_close = on_close, .on_open = on_open};

static enum err start(struct idle *i, struct errmsg *e)
{
    loop_timer_init(&i->again, &i->loop, on_again, i);
    enum err err = loop_signal_init(&i->term, &i->loop, SIGTERM, on_signal, i);
    if (!err)
        err = loop_signal_init(&i->interrupt, &i->loop, SIGINT, on_signal, i);
    if (err)
        return err_set(e, err, "no memory for signals");
    err = dial_new(&i->ps, &i->loop, "ps 0", i->config.cluster->ps[0], &ops, i, e);
    if (!err)
        dial_start(i->ps);
    return err;
}

static void stop(struct idle *i)
{
    loop_timer_stop(&i->again);
    if (i->term.fn)
        loop_signal_close(&i->term);
    if (i->interrupt.fn)
        loop_signal_close(&i->interrupt);
    dial_free(i->ps);
    i->ps = NULL;
    if (i->conn)
        conn_close(i->conn, ERR_CLOSED, "the answer is no longer needed");
    loop_close(&i->loop); /* closes the connection */
}

enum err idle_wait(const struct job *job, const struct cluster *cluster, struct idle_run *over,
                   bool *called, struct errmsg *e)
{
    struct idle i = {.config = {.job = job, .cluster = cluster}, .over = over};
    enum err err = loop_init(&i.loop);
    if (err)
        return err_set(e, err, "no event loop: %s", err_str(err));
    err = start(&i, e);
    if (!err)
        log_info("idle until a chief connects (--when_done=wait)");
    if (!err && (err = loop_run(&i.loop)))
        (void)err_set(e, err, "the event loop failed: %s", err_str(err));
    stop(&i);
    *called = i.called && !i.signalled; /* a process that is asked to stop starts no run */
    return err;
}

/* The last words of a process to its peers, if no other code has connected to them. */

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

static void farewell_answered(struct farewell *f, const Gradwire__HelloReply *m)
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
        farewell_answered(f, (const Gradwire__HelloReply *)f->message);
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
        struct errmsg e = {""};
        if (dial_new(&f->chief, &f->loop, "the chief", f->address, &farewell_ops, f, &e))
            end(f);
        else
            dial_start(f->chief);
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
