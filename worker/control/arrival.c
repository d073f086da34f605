/* Processes that talk to each other while they read their data: idle.h has the conversation. */
#include "worker/control/idle.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/conn.h"
#include "common/net/listen.h"
#include "common/net/mailbox.h"
#include "common/peers/dial.h"
#include "common/peers/greeting.h"
#include "common/peers/hello.h"
#include "common/process/process_state.h"
#include "common/serve/vitals.h"
#include "data/dataset.h"

enum {
    DOUBT_MS = 3000,         /* without a connection: the chief at this address may have died */
    REFUSED_MS = 10000,      /* after a refusal */
    INDEX_THREADS_MOST = 64, /* of a worker that count */
    INDEX_AHEAD = 2          /* parts of the index that a thread has: one is on its way */
};

enum { LETTER_QUIT, LETTER_INDEX /* there are parts */, LETTER_ANSWER /* a struct index_answer */ };

/* A ps but the first hears from the chief only that it reads its data. */
struct announced {
    struct arrival *of;
    uint32_t ps;
    struct dialer *dialer; /* NULL: the arrival ends */
    struct conn *conn;
};

/* A connection to a chief that reads its data. */
struct arrived {
    struct arrival *of;
    struct conn *conn;
    struct arrived *next;
    bool greeted; /* its hello is accepted */
    bool arrives; /* it is an arrival, of this worker */
    uint32_t worker;
    uint64_t number;         /* of the connection */
    uint32_t threads, dealt; /* of the index: it scans with these; parts that it has not answered */
    uint64_t part_bytes;
    uint8_t part[INDEX_PART_BYTES];
    struct greeting greeting;
    struct pending_conn pending;
    ProtobufCMessage *message;
    uint16_t type;
};

struct arrival {
    const struct cluster *cluster;
    int http_fd;
    Gradwire__Hello *hello; /* owned */
    struct loop loop;
    struct mailbox in;
    struct index_helper *helper; /* a worker's; NULL: none */
    uint64_t connections;        /* to the chief; of a chief, from workers */
    struct loop_timer tick;
    pthread_t pthread;
    struct dialer *ps, *chief;
    struct conn *conn;              /* to ps 0 or to the chief */
    bool to_chief, greeted;         /* greeted: the chief has answered */
    char address[300], dialed[300]; /* dialed: what `chief` connects to */
    int64_t dialed_ms, ask_ms;      /* ask_ms: when to ask ps 0 next, without a connection */
    ProtobufCMessage *message;
    uint16_t type;
    /* the chief's */
    struct announced *announced; /* one for each further ps; NULL: none */
    struct job job;              /* as it was before the data are read; its texts are borrowed */
    struct listener listener;
    bool listening;
    uint8_t no_index[WORKERS_MAX / 8 + 1]; /* bits: this worker gets no more parts of the index */
    struct pending pending;
    struct arrived *arrived;
};

/* ---- a worker, and the chief's connection to ps 0 ---- */

/* Before the files are opened, and after all is read, there is nothing to tell. */
static void arrival_tell(const struct arrival *a)
{
    struct vitals_note note;
    struct loading now;
    Gradwire__Loading loading = GRADWIRE__LOADING__INIT;
    if (a->helper || !loading_now(&now)) /* a helper reads what the chief deals */
        return;
    loading.bytes = now.bytes;
    loading.of_bytes = now.of_bytes;
    loading.rows = now.rows;
    loading.left_s = now.left_s;
    vitals_note_make(&note, a->http_fd);
    note.message.loading = &loading;
    msg_send(a->conn, FRAME_VITALS, &note.message.base, NULL, 0);
}

static enum err arrival_on_head(struct conn *c, void *owner, const struct frame *f,
                                const uint8_t *head)
{
    (void)c;
    struct arrival *a = owner;
    a->type = f->type;
    a->message = f->body_bytes ? NULL : msg_unpack(f->type, head, f->head_bytes);
    return a->message ? ERR_OK : ERR_PROTO;
}

static enum err arrival_on_deal(struct arrival *a, const Gradwire__IndexDeal *m)
{
    const struct index_deal deal = {.number = m->number,
                                    .file_bytes = m->file_bytes,
                                    .first_cell = m->first_cell,
                                    .file = m->file,
                                    .cells = m->cells};
    if (!a->to_chief || !a->greeted || !a->helper)
        return ERR_PROTO;
    return index_helper_scan(a->helper, a->connections, &deal) ? ERR_OK : ERR_PROTO;
}

static void arrival_answer(struct arrival *a, const struct index_answer *answer)
{
    Gradwire__IndexPart m = GRADWIRE__INDEX_PART__INIT;
    if (!a->conn || !a->to_chief || answer->connection != a->connections)
        return;
    m.number = answer->number;
    m.error = (char *)answer->error;
    msg_send(a->conn, FRAME_INDEX_PART, &m.base, answer->part,
             answer->error[0] ? 0 : sizeof answer->part);
    conn_copy_out(a->conn, answer->part, sizeof answer->part);
}

/* Thread: one of the helper's. */
static void arrival_on_answer(void *ctx, struct index_answer *answer)
{
    struct arrival *a = ctx;
    const struct mail m = {.type = LETTER_ANSWER, .data = answer, .free = mem_free};
    enum err err = mailbox_post(&a->in, &m); /* the chief deals far less than fits */
    (void)err;
}

static void arrival_ask_later(struct arrival *a, int64_t ms)
{
    if (a->chief)
        dial_stop(a->chief);
    a->to_chief = false;
    a->ask_ms = clock_now_ms() + ms;
    if (ms == 0)
        dial_start(a->ps); /* which keeps intervals itself */
}

static enum err arrival_on_frame(struct conn *c, void *owner)
{
    struct arrival *a = owner;
    ProtobufCMessage *m = a->message;
    enum err err = ERR_OK;
    a->message = NULL;
    if (a->type == FRAME_REFUSE) {
        conn_close(c, ERR_REFUSED, "refused");
    } else if (a->type == FRAME_INDEX_DEAL) {
        err = arrival_on_deal(a, (const Gradwire__IndexDeal *)m);
    } else if (a->type != FRAME_HELLO_REPLY) {
        err = ERR_PROTO;
    } else if (a->to_chief) {
        a->greeted = true;
        arrival_tell(a);
    } else if (!a->cluster->is_chief) { /* to a chief a ps of an earlier build names the last one */
        (void)snprintf(a->address, sizeof a->address, "%s",
                       ((const Gradwire__HelloReply *)m)->chief_address);
        conn_close(c, ERR_OK, "answered");
    }
    msg_free(m);
    return err;
}

static const struct conn_ops arrival_ops;

static void arrival_dial_chief(struct arrival *a)
{
    struct errmsg e;
    if (!a->chief || strcmp(a->dialed, a->address) != 0) {
        dial_free(a->chief);
        a->chief = NULL;
        memcpy(a->dialed, a->address, sizeof a->dialed);
        if (dial_new(&a->chief, &a->loop, "the chief", a->address, &arrival_ops, a, &e)) {
            arrival_ask_later(a, REFUSED_MS);
            return;
        }
    }
    a->to_chief = true;
    a->dialed_ms = clock_now_ms();
    dial_start(a->chief);
}

static void arrival_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct arrival *a = owner;
    msg_free(a->message);
    a->message = NULL;
    a->conn = NULL;
    if (!a->ps) /* the arrival ends */
        return;
    if (code != ERR_OK)
        dial_lost(a->to_chief ? a->chief : a->ps, code, why);
    if (code == ERR_OK && !a->to_chief)
        arrival_dial_chief(a);
    else
        arrival_ask_later(a, code == ERR_REFUSED ? REFUSED_MS : 0);
}

/* With `idle` ps 0 answers when a generation is entered, and does not count the worker among those that have heard why a chief has
 * failed. */
static void arrival_on_open(struct conn *c, void *owner)
{
    struct arrival *a = owner;
    a->conn = c;
    a->greeted = false;
    a->connections++;
    a->hello->idle = !a->to_chief;
    dial_hello(a->to_chief ? a->chief : a->ps, c, a->hello);
}

static const struct conn_ops arrival_ops = {.on_head = arrival_on_head,
                                            .on_frame = arrival_on_frame,
                                            .on_close = arrival_on_close,
                                            .on_open = arrival_on_open};

/* ---- the chief's connections to the other ps ---- */

static enum err announced_on_head(struct conn *c, void *owner, const struct frame *f,
                                  const uint8_t *head)
{
    (void)owner, (void)head;
    if (f->type != FRAME_REFUSE)
        return f->type == FRAME_HELLO_REPLY ? ERR_OK : ERR_PROTO;
    conn_close(c, ERR_REFUSED, "refused");
    return ERR_OK;
}

static enum err announced_on_frame(struct conn *c, void *owner)
{
    (void)c, (void)owner;
    return ERR_OK;
}

static void announced_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct announced *t = owner;
    t->conn = NULL;
    if (!t->dialer)
        return;
    dial_lost(t->dialer, code, why);
    dial_start(t->dialer);
}

static void announced_on_open(struct conn *c, void *owner)
{
    struct announced *t = owner;
    Gradwire__Hello m = *t->of->hello;
    t->conn = c;
    m.ps_index = t->ps;
    dial_hello(t->dialer, c, &m);
}

static const struct conn_ops announced_ops = {.on_head = announced_on_head,
                                              .on_frame = announced_on_frame,
                                              .on_close = announced_on_close,
                                              .on_open = announced_on_open};

static enum err announced_begin(struct arrival *a, struct errmsg *e)
{
    const uint32_t more = a->cluster->n_ps - 1;
    enum err err = ERR_OK;
    a->announced = more ? mem_zalloc(more, sizeof *a->announced) : NULL;
    if (more && !a->announced)
        return err_memory(e);
    for (uint32_t i = 0; i < more && !err; i++) {
        struct announced *t = &a->announced[i];
        char what[32];
        *t = (struct announced){.of = a, .ps = i + 1};
        (void)snprintf(what, sizeof what, "ps %u", t->ps);
        err = dial_new(&t->dialer, &a->loop, what, a->cluster->ps[t->ps], &announced_ops, t, e);
        if (!err)
            dial_start(t->dialer);
    }
    return err;
}

static void announced_end(struct arrival *a)
{
    for (uint32_t i = 0; a->announced && i + 1 < a->cluster->n_ps; i++) {
        dial_free(a->announced[i].dialer);
        a->announced[i].dialer = NULL;
        if (a->announced[i].conn)
            conn_close(a->announced[i].conn, ERR_CLOSED, "the data are read");
    }
}

/* ---- the chief, which listens while it reads its data ---- */

static_assert((uint32_t)LOADING_WORKERS == (uint32_t)WORKERS_MAX, "each worker has a place");

void arrival_note(uint32_t worker, const Gradwire__Loading *m)
{
    struct loading now = {.bytes = 0};
    if (m)
        now = (struct loading){m->bytes, m->of_bytes, m->rows, m->left_s};
    loading_hear(worker, m ? &now : NULL);
}

/* Give it a part of the index. False: there is none now, or it has enough. */
static bool arrived_deal(struct arrived *one)
{
    struct index_deal deal;
    Gradwire__IndexDeal m = GRADWIRE__INDEX_DEAL__INIT;
    if (one->dealt >= INDEX_AHEAD * one->threads || conn_closed(one->conn) ||
        !index_deal_next(one->number, &deal))
        return false;
    m.number = deal.number;
    m.file = deal.file;
    m.file_bytes = deal.file_bytes;
    m.first_cell = deal.first_cell;
    m.cells = deal.cells;
    one->dealt++;
    msg_send(one->conn, FRAME_INDEX_DEAL, &m.base, NULL, 0);
    return true;
}

/* In turn, so that each worker gets some of few parts. */
static void arrivals_deal(const struct arrival *a)
{
    bool dealt;
    do {
        dealt = false;
        for (struct arrived *one = a->arrived; one; one = one->next)
            dealt |= arrived_deal(one);
    } while (dealt);
}

/* Its parts are for others. */
static void arrived_deal_no_more(struct arrived *one)
{
    struct arrival *a = one->of;
    a->no_index[one->worker / 8] |= (uint8_t)(1 << one->worker % 8);
    one->threads = 0;
    index_deal_left(one->number);
    arrivals_deal(a);
}

static enum err arrived_on_part(struct arrived *one, const Gradwire__IndexPart *m)
{
    char name[WORKER_NAME_BYTES];
    struct errmsg e;
    if (!one->dealt || (one->part_bytes == 0) != (m->error[0] != '\0'))
        return ERR_PROTO;
    one->dealt--;
    (void)worker_name(name, one->worker, one->of->cluster->separate_chief);
    if (m->error[0] && one->threads) {
        log_warn("%s cannot scan its part of data.train, and others do: %.400s", name, m->error);
        arrived_deal_no_more(one);
    }
    if (m->error[0])
        return ERR_OK;
    if (index_deal_answered(m->number, one->part, &e)) {
        log_warn("%s: its part of the index of data.train is refused: %s", name, e.text);
        arrived_deal_no_more(one);
        return ERR_PROTO;
    }
    arrivals_deal(one->of);
    return ERR_OK;
}

static enum err arrived_on_head(struct conn *c, void *owner, const struct frame *f,
                                const uint8_t *head)
{
    struct arrived *one = owner;
    enum err err = one->greeted ? ERR_OK : greeting_on_head(&one->greeting, c, f, head);
    if (one->greeted &&
        (!one->arrives || (f->type != FRAME_VITALS && f->type != FRAME_INDEX_PART) ||
         (f->body_bytes && (f->type != FRAME_INDEX_PART || f->body_bytes != INDEX_PART_BYTES))))
        err = ERR_PROTO;
    if (err)
        return err;
    one->type = f->type;
    one->part_bytes = f->body_bytes;
    one->message = msg_unpack(f->type, head, f->head_bytes);
    return one->message ? ERR_OK : ERR_PROTO;
}

static enum err arrived_on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                                 size_t *bytes)
{
    (void)c;
    struct arrived *one = owner;
    if (!one->greeted)
        return greeting_on_space(&one->greeting, at, left, p, bytes);
    *p = one->part + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

/* All but arrivals and doctors wait, as in the backlog, until the chief has read its data. */
static void arrived_hello(struct arrived *one, const Gradwire__Hello *m)
{
    struct arrival *a = one->of;
    const struct hello_host host = {.job = &a->job, .cluster = a->cluster, .uuid = ""};
    Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
    if (!greeting_taken(&one->greeting, one->conn, &host, m))
        return;
    pending_conn_leave(&one->pending);
    one->greeted = true;
    one->arrives = m->role == GRADWIRE__ROLE__ARRIVAL;
    one->worker = m->worker;
    if (m->role == GRADWIRE__ROLE__DOCTOR)
        reply.time_ms = clock_wall_ms();
    else if (!one->arrives)
        return;
    msg_send(one->conn, FRAME_HELLO_REPLY, &reply.base, NULL, 0);
    if (!one->arrives) {
        conn_finish(one->conn, ERR_CLOSED, "the doctor's visit is over");
        return;
    }
    conn_limits(one->conn, GREETING_HEAD_MAX, INDEX_PART_BYTES);
    if (!(a->no_index[m->worker / 8] >> m->worker % 8 & 1))
        one->threads =
            m->index_threads < INDEX_THREADS_MOST ? m->index_threads : INDEX_THREADS_MOST;
    arrivals_deal(a);
}

static enum err arrived_on_frame(struct conn *c, void *owner)
{
    (void)c;
    struct arrived *one = owner;
    ProtobufCMessage *m = one->message;
    enum err err = ERR_OK;
    one->message = NULL;
    if (!one->greeted)
        arrived_hello(one, (const Gradwire__Hello *)m);
    else if (one->type == FRAME_INDEX_PART)
        err = arrived_on_part(one, (const Gradwire__IndexPart *)m);
    else
        arrival_note(one->worker, ((const Gradwire__Vitals *)m)->loading);
    msg_free(m);
    return err;
}

static void arrived_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c, (void)code, (void)why;
    struct arrived *one = owner;
    struct arrival *a = one->of;
    LIST_REMOVE(a->arrived, one);
    index_deal_left(one->number);
    pending_conn_leave(&one->pending);
    if (one->arrives) /* the next one of this worker tells again within a second */
        arrival_note(one->worker, NULL);
    if (a->listening)
        listen_release(&a->listener);
    msg_free(one->message);
    mem_free(one);
}

static const struct conn_ops arrived_ops = {.on_head = arrived_on_head,
                                            .on_space = arrived_on_space,
                                            .on_frame = arrived_on_frame,
                                            .on_close = arrived_on_close};

static bool arrived_shed(void *owner)
{
    return pending_shed(&((struct arrival *)owner)->pending);
}

static void arrived_accept(void *owner, int fd, const char *peer)
{
    struct arrival *a = owner;
    struct arrived *one = mem_zalloc(1, sizeof *one);
    if (!one || conn_new(&one->conn, &a->loop, fd, peer, &arrived_ops, one)) {
        if (!one)
            close(fd); /* otherwise conn_new has closed it */
        listen_release(&a->listener);
        mem_free(one);
        return;
    }
    one->of = a;
    one->number = ++a->connections;
    one->next = a->arrived;
    a->arrived = one;
    pending_add(&a->pending, &one->pending, one->conn);
    greeting_begin(&one->greeting, one->conn);
}

/* Thread: the one that makes the index. */
static void arrival_wake(void *ctx)
{
    struct arrival *a = ctx;
    const struct mail m = {.type = LETTER_INDEX};
    enum err err = mailbox_post(&a->in, &m); /* otherwise the next tick deals */
    (void)err;
}

static enum err arrival_listen(struct arrival *a, int listen_fd)
{
    int fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0); /* the chief keeps the socket */
    if (fd < 0)
        return ERR_FILES;
    pending_init(&a->pending);
    enum err err = listen_start(&a->listener, &a->loop, fd, LISTEN_OPEN_MAX, arrived_accept, a);
    a->listener.shed = arrived_shed;
    a->listening = err == ERR_OK;
    if (a->listening)
        index_deals_watch(arrival_wake, a);
    return err;
}

/* ---- both ---- */

static void arrival_on_tick(void *arg)
{
    struct arrival *a = arg;
    int64_t now = clock_now_ms();
    if (a->listening) {
        pending_tick(&a->pending, now);
        index_deals_time(now);
        arrivals_deal(a);
    }
    if (a->conn && a->greeted)
        arrival_tell(a);
    else if (!a->conn && a->to_chief && now - a->dialed_ms > DOUBT_MS)
        arrival_ask_later(a, 0);
    if (!a->conn && !a->to_chief && now >= a->ask_ms)
        dial_start(a->ps);
}

static void arrival_on_letter(void *arg, struct mail *m)
{
    struct arrival *a = arg;
    if (m->type == LETTER_INDEX)
        arrivals_deal(a);
    else if (m->type == LETTER_ANSWER)
        arrival_answer(a, m->data);
    else
        loop_stop(&a->loop);
}

static void *arrival_run(void *arg)
{
    struct arrival *a = arg;
    if (loop_run(&a->loop))
        log_warn("the chief does not hear how far this worker has read its data: the event loop "
                 "failed");
    dial_free(a->ps);
    dial_free(a->chief);
    a->ps = a->chief = NULL;
    if (a->conn)
        conn_close(a->conn, ERR_CLOSED, "the data are read");
    announced_end(a);
    for (struct arrived *one = a->arrived; one; one = one->next) {
        index_deal_left(one->number);
        one->threads = 0;
        conn_close(one->conn, ERR_CLOSED, "the chief has read its data");
    }
    return NULL;
}

/* The thread has ended, or was not started. */
static void arrival_release(struct arrival *a)
{
    dial_free(a->ps);
    a->ps = NULL;
    announced_end(a);
    loop_timer_stop(&a->tick);
    index_helper_free(a->helper);
    if (a->listening) {
        index_deals_watch(NULL, NULL);
        listen_close(&a->listener);
    }
    a->listening = false;
    mailbox_close(&a->in);
    loop_close(&a->loop); /* closes the connections */
    msg_free(a->hello);
    mem_free(a->announced);
    mem_free(a);
}

static enum err arrival_start(struct arrival *a, int listen_fd, struct errmsg *e)
{
    loop_timer_init(&a->tick, &a->loop, arrival_on_tick, a);
    enum err err = dial_new(&a->ps, &a->loop, "ps 0", a->cluster->ps[0], &arrival_ops, a, e);
    if (err)
        return err;
    err = loop_timer_every(&a->tick, VITALS_EVERY_MS);
    if (!err && listen_fd >= 0)
        err = arrival_listen(a, listen_fd);
    dial_start(a->ps);
    if (!err && a->cluster->is_chief)
        err = announced_begin(a, e);
    if (!err && a->helper)
        err = index_helper_start(a->helper, arrival_on_answer, a, e);
    if (!err && pthread_create(&a->pthread, NULL, arrival_run, a))
        err = ERR_NOMEM;
    return err ? err_set(e, err, "%s", err_str(err)) : ERR_OK;
}

struct arrival *arrival_begin(const struct job *job, const struct cluster *cluster, int http_fd,
                              int listen_fd, struct index_helper *helper)
{
    struct errmsg e;
    Gradwire__Hello hello;
    struct arrival *a = mem_zalloc(1, sizeof *a);
    enum err err = a ? ERR_OK : err_memory(&e);
    if (err)
        goto no_memory;
    hello_make(&hello, job, cluster, 0);
    hello.role = GRADWIRE__ROLE__ARRIVAL;
    hello.encoding.len = 0; /* of an earlier reading */
    hello.idle = true;
    hello.index_threads = helper ? index_helper_threads(helper) : 0;
    if (cluster->is_chief)
        hello.chief_address = cluster->self ? cluster->self : cluster->chief ? cluster->chief : "";
    a->cluster = cluster;
    a->job = *job;
    a->job.encoded = false;
    a->http_fd = http_fd;
    a->helper = helper;
    a->hello = (Gradwire__Hello *)msg_copy(&hello.base);
    err = a->hello ? loop_init(&a->loop) : ERR_NOMEM;
    if (err)
        goto no_loop;
    err = mailbox_init(&a->in, &a->loop, arrival_on_letter, a);
    if (err)
        goto no_mailbox;
    err = arrival_start(a, listen_fd, &e);
    if (!err)
        return a;
    helper = NULL;
    arrival_release(a);
    goto no_memory;
no_mailbox:
    loop_close(&a->loop);
no_loop:
    (void)err_set(&e, err, "%s", err_str(err));
    msg_free(a->hello);
    mem_free(a);
no_memory:
    index_helper_free(helper);
    log_warn("the chief does not hear how far this worker has read its data: %s", e.text);
    return NULL;
}

void arrival_end(struct arrival *a)
{
    struct mail quit = {.type = 0};
    if (!a)
        return;
    enum err err = mailbox_post(&a->in, &quit);
    assert(!err); /* few letters wait */
    (void)err;
    pthread_join(a->pthread, NULL);
    arrival_release(a);
}
