#include "worker/control/idle.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/net/conn.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"
#include "common/base/log.h"
#include "common/wire/msg.h"
#include "worker/control/control.h"

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
