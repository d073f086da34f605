#include "worker/control/failed_start.h"

#include <stdio.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/conn.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"

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

static void on_bound(void *arg)
{
    loop_stop(&((struct telling *)arg)->loop);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)c;
    (void)head;
    ((struct listener_ps *)owner)->type = f->type;
    return f->body_bytes ? ERR_PROTO : ERR_OK;
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct listener_ps *to = owner;
    if (to->type == FRAME_REFUSE) {
        to->refused = true;
        conn_close(c, ERR_REFUSED, "refused");
    }
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
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

static void on_open(struct conn *c, void *owner)
{
    struct listener_ps *to = owner;
    const struct telling *t = to->of;
    Gradwire__Hello m;
    to->conn = c;
    hello_make(&m, t->job, t->cluster, to->ps);
    m.failed = (Gradwire__Done *)t->what;
    dial_hello(to->dialer, c, &m);
}

static const struct conn_ops ops = {
    .on_head = on_head, .on_frame = on_frame, .on_close = on_close, .on_open = on_open};

static enum err dial_all(struct telling *t, struct errmsg *e)
{
    enum err err = loop_timer_once(&t->bound, FAILED_START_MS);
    for (uint32_t i = 0; i < t->left && !err; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "ps %u", i);
        t->to[i] = (struct listener_ps){.of = t, .ps = i};
        err = dial_new(&t->to[i].dialer, &t->loop, what, t->cluster->ps[i], &ops, &t->to[i], e);
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
        loop_timer_init(&t.bound, &t.loop, on_bound, &t);
        if (dial_all(&t, &e) || loop_run(&t.loop))
            log_warn("the ps do not learn that the chief has failed: %s", e.text);
        loop_timer_stop(&t.bound);
        end_all(&t);
        loop_close(&t.loop);
    }
    mem_free(t.to);
}
