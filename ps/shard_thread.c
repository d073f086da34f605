#include "ps/shard_thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/checkpoint/checkpoint_rows.h"
#include "common/base/clock.h"
#include "common/process/cgroup.h"
#include "common/process/dirlock.h"
#include "common/process/fault.h"
#include "common/process/output.h"
#include "common/math/kernels.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/disk_thread.h"
#include "common/peers/greeting.h"
#include "common/peers/hello.h"
#include "common/place/place.h"
#include "ps/cut_save.h"

enum {
    SCRATCH_BYTES = 64 << 10,
    TOKEN_AGAIN_US = 200000 /* before the second look for the chief's token */
};
#define COPY_S 1e-3 /* time for copying a cut's rows between two frames */

/* Letters to the shard thread. */
enum { TO_TELL, TO_TAKE, TO_REPORT, TO_SAVED, TO_COPY, TO_STOP };

struct take {
    struct conn_handover conn;
    Gradwire__Hello *hello;
};

struct shard_thread {
    uint32_t ps, thread;
    char output[FILES_PATH_MAX];
    struct place checkpoints; /* DIR/checkpoints of this host */
    const struct chief_place *chief;
    bool remote; /* this host does not see the chief's storage: `chief` is used */
    const struct fault *fault;
    struct mailbox *out;
    pthread_t pthread;
    struct loop loop;
    struct mailbox in;
    struct shard *shard;
    struct buffer_pool pool;
    struct peer *peers;
    uint8_t *scratch; /* memory for bodies that are dropped */
    uint64_t next_cut;
    struct shard_counts counts;

    struct disk_thread writer;
    struct cut_save *save;  /* the cut that is being saved; NULL: none */
    struct loop_timer copy; /* copies rows of a cut in the loop's next round */
    bool held;              /* training waits for the copy */
    double held_since_s;
    uint64_t held_said; /* next_cut at the last log line about it */

    atomic_flag fails;
    atomic_int failed; /* enum err, of shard_thread_failed; `failure` was written before */
    struct errmsg failure;
};

/* A worker's connection. */
struct peer {
    struct shard_peer base;
    struct shard_thread *t;
    struct conn *conn;
    struct peer *next;
    char name[WORKER_NAME_BYTES]; /* of the worker, by its lists */
    bool admitted;
    ProtobufCMessage *message; /* the frame that is being received */
    uint16_t type;
    bool encoded; /* the body is encoded; set until the frame is complete */
    uint64_t elems, body_bytes;
    struct buffer *body;
    struct buffer **sent; /* bodies of ROWS that are being sent */
    size_t sents, sent_capacity;
};

void shard_report_free(void *report)
{
    struct shard_report *r = report;
    if (!r)
        return;
    msg_free(r->status);
    mem_free(r->worker);
    mem_free(r);
}

/* Make the process end: only the next one can help. The first reason is kept. Thread: any. */
static void fail(struct shard_thread *t, enum err code, const char *what)
{
    if (!atomic_flag_test_and_set(&t->fails))
        atomic_store(&t->failed,
                     (int)err_set(&t->failure, code, "shard thread %u: %s", t->thread, what));
}

enum err shard_thread_failed(const struct shard_thread *t, const char **why)
{
    *why = t->failure.text;
    return (enum err)atomic_load(&t->failed);
}

/* ---- struct shard_io ---- */

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    (void)ctx;
    assert(frame_to(type) & (FRAME_TO_LINK | FRAME_TO_DIALER));
    msg_send(((struct peer *)to)->conn, type, m, body, bytes);
}

/* Release the bodies after all were sent, or the connection was lost. */
static void drop_sent(struct peer *p)
{
    while (p->sents)
        buffer_unref(p->sent[--p->sents]);
}

static void io_send_rows(void *ctx, struct shard_peer *to, const Gradwire__Rows *m,
                         struct buffer *body, uint64_t bytes)
{
    struct peer *p = (struct peer *)to;
    (void)ctx;
    struct buffer **sent =
        mem_grow(p->sent, &p->sent_capacity, p->sents + 1, sizeof(struct buffer *));
    if (!sent) {
        fail(p->t, ERR_NOMEM, "no memory to send rows");
        return;
    }
    p->sent = sent;
    if (conn_idle(p->conn))
        drop_sent(p);
    msg_send(p->conn, FRAME_ROWS, &m->base, body ? body->data : NULL, bytes);
    if (!body || conn_idle(p->conn))
        return;
    buffer_ref(body);
    p->sent[p->sents++] = body;
}

static enum err io_progress(void *ctx, const struct shard_peer *of, struct link_progress *p)
{
    (void)ctx;
    return conn_progress(((const struct peer *)of)->conn, p);
}

/* A process that is started again has no more memory than its host. */
static bool io_fail(void *ctx, enum err code, uint64_t bytes, const char *what)
{
    if (bytes > cgroup_memory_bytes())
        return false;
    fail(ctx, code, what[0] ? what : err_str(code));
    return true;
}

static double io_now_s(void *ctx)
{
    (void)ctx;
    return clock_now_s();
}

static void io_before_write(void *ctx, const float *lo, uint64_t elems)
{
    struct shard_thread *t = ctx;
    for (struct peer *p = t->peers; p; p = p->next)
        if (!conn_idle(p->conn))
            conn_copy_out(p->conn, lo, elems * sizeof *lo);
}

static void post_out(struct shard_thread *t, int type, uint64_t number, void *data,
                     void (*release)(void *))
{
    struct mail m = {.type = type, .number = number, .data = data, .free = release};
    enum err err = mailbox_post(t->out, &m);
    if (err && err != ERR_CLOSED)
        fail(t, err, "a letter to the server is lost: too many wait");
}

static enum err post_in(struct shard_thread *t, int type, uint64_t number, void *data,
                        void (*release)(void *))
{
    struct mail m = {.type = type, .number = number, .data = data, .free = release};
    return mailbox_post(&t->in, &m);
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    struct shard_thread *t = ctx;
    assert(frame_to(type) == FRAME_TO_CHIEF);
    ProtobufCMessage *copy = msg_copy(m);
    if (copy)
        post_out(t, SHARD_TELLS, (uint64_t)type, copy, msg_free);
    else
        fail(t, ERR_NOMEM, "no memory for a message to the chief");
}

/* Where the cuts are. */
static const struct place *cuts_of(const struct shard_thread *t)
{
    return t->remote ? &t->chief->place : &t->checkpoints;
}

/* ---- cuts ---- */

static void on_room(void *ctx)
{
    struct shard_thread *t = ctx;
    enum err err = post_in(t, TO_COPY, 0, NULL, NULL);
    if (err)
        fail(t, err, "the letter that a snapshot has room for rows is lost: too many wait");
}

static void on_saved(void *ctx, struct cut_saved *take)
{
    struct shard_thread *t = ctx;
    enum err err = post_in(t, TO_SAVED, 0, take, mem_free);
    if (err)
        fail(t, err, "the letter about the end of a snapshot is lost: too many wait");
}

/* Copy more rows after the loop has served its present events. */
static void copy_later(struct shard_thread *t)
{
    enum err err = loop_timer_once(&t->copy, 0);
    if (err)
        fail(t, err, "no memory for a timer");
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    struct shard_thread *t = ctx;
    uint64_t cut = take_image->cut;
    const struct cut_save_config config = {
        .place = cuts_of(t), .fault = t->fault, .on_room = on_room, .on_done = on_saved, .ctx = t};
    bool rows = take_image->blocks.rows != NULL;
    t->next_cut = cut + 1;
    if (cut_save_begin(&t->save, &t->writer, &config, take_image))
        shard_on_saved(t->shard, cut, NULL, NULL,
                       "no thread could be started to write the snapshot");
    else if (rows)
        copy_later(t);
}

static bool io_save_room(void *ctx)
{
    struct shard_thread *t = ctx;
    return cut_save_room(t->save);
}

static enum err io_save_rows(void *ctx, const struct row_group *g)
{
    struct shard_thread *t = ctx;
    return cut_save_rows(t->save, g);
}

static void io_save_end(void *ctx)
{
    struct shard_thread *t = ctx;
    if (!t->save)
        return;
    cut_save_give_up(t->save);
    t->save = NULL;
    copy_later(t); /* frees the rows that were kept for it */
}

/* Log and count it when training starts or stops waiting for the copy of a cut. */
static void note_held(struct shard_thread *t)
{
    bool held = shard_held(t->shard), reads = shard_reads(t->shard);
    if (held == t->held)
        return;
    t->held = held;
    for (struct peer *p = t->peers; p; p = p->next)
        conn_pause(p->conn, !reads);
    if (held)
        t->held_since_s = clock_now_s();
    else
        t->counts.held_s += clock_now_s() - t->held_since_s;
    if (held && t->next_cut != t->held_said) { /* once per cut */
        t->held_said = t->next_cut;
        log_info("shard thread %u: training waits for the copy of a checkpoint: the rows kept for "
                 "it, which "
                 "have changed since, take as much memory as they may",
                 t->thread);
    }
}

/* Copy rows for COPY_S at most; a frame that arrives in the meantime waits so long. */
static void copy_rows(void *arg)
{
    struct shard_thread *t = arg;
    double began_s = clock_now_s(), cpu_s = clock_thread_s(), s = 0;
    bool more = true;
    while (more && s < COPY_S) {
        more = shard_copy(t->shard);
        s = clock_now_s() - began_s;
    }
    cpu_s = clock_thread_s() - cpu_s;
    t->counts.copy_s += s;
    t->counts.copy_cpu_s += cpu_s;
    if (s > t->counts.longest_copy_s)
        t->counts.longest_copy_s = s;
    if (cpu_s > t->counts.longest_copy_cpu_s)
        t->counts.longest_copy_cpu_s = cpu_s;
    if (more)
        copy_later(t);
    note_held(t);
}

/* ---- reading a cut ---- */

/* Without the chief's storage, only what the shard reads of a cut is fetched: the chief has looked at the rest. */
static enum err io_load(void *ctx, uint64_t cut, struct manifest *m,
                        struct checkpoint_shard *blocks, struct errmsg *e)
{
    struct shard_thread *t = ctx;
    const struct cut c = {cuts_of(t), cut};
    if (fault_hides(t->fault, cut) && t->remote)
        return err_set(e, ERR_IO, "checkpoint %" PRIu64 ": %s", cut, strerror(EIO));
    if (fault_hides(t->fault, cut))
        files_fail_read_at(0, EIO);
    enum err err = t->remote ? checkpoint_load_manifest(c, m, e) : checkpoint_load(c, m, e);
    if (!err)
        err =
            checkpoint_read(c.at, m, blocks->first_elem, blocks->elems, blocks->w, blocks->slot, e);
    if (!err && blocks->bins)
        err = checkpoint_read_bins(c.at, m, blocks->bins, e);
    if (!err && blocks->wanted)
        err = checkpoint_read_wanted(c.at, m, blocks->wanted, e);
    if (err)
        manifest_close(m);
    return err;
}

static void io_drop_peers(void *ctx, enum err why)
{
    struct shard_thread *t = ctx;
    if (why == ERR_NOMEM)
        fail(t, why, "no memory for the rows of a step");
    for (struct peer *p = t->peers; p; p = p->next)
        conn_close(p->conn, ERR_REFUSED,
                   why ? "the rows of a step found no room" : "a new generation has begun");
}

static const struct shard_io shard_io = {
    .send = io_send,
    .send_rows = io_send_rows,
    .before_write = io_before_write,
    .tell = io_tell,
    .save = io_save,
    .save_room = io_save_room,
    .save_rows = io_save_rows,
    .save_end = io_save_end,
    .load = io_load,
    .drop_peers = io_drop_peers,
    .fail = io_fail,
    .now_s = io_now_s,
    .progress = io_progress,
};

/* ---- connections ---- */

static void drop_frame(struct peer *p)
{
    msg_free(p->message);
    buffer_unref(p->body);
    p->message = NULL;
    p->body = NULL;
}

static bool is_rows(uint16_t type)
{
    return type == FRAME_ROWS_ASK || type == FRAME_ROWS_PUSH;
}

static enum err body_fits(struct peer *p, const struct frame *f, bool *wanted, struct errmsg *e)
{
    const struct shard *s = p->t->shard;
    const Gradwire__Push *m = (const Gradwire__Push *)p->message;
    p->encoded = f->type == FRAME_PUSH && m->codec != GRADWIRE__CODEC__RAW;
    if (f->type == FRAME_PUSH)
        return shard_push_fits(s, m, f->body_bytes, &p->elems, wanted, e);
    return shard_rows_fits(s, (enum frame_type)f->type, p->message, f->body_bytes, wanted, e);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct peer *p = owner;
    if (!(frame_to(f->type) & FRAME_TO_SHARD))
        return ERR_PROTO;
    conn_cork(c);
    p->type = f->type;
    p->message = msg_unpack(f->type, head, f->head_bytes);
    if (!p->message)
        return ERR_PROTO;
    if (f->type != FRAME_PUSH && !is_rows(f->type))
        return f->body_bytes ? ERR_PROTO : ERR_OK;
    bool wanted;
    struct errmsg e = {""};
    enum err err = body_fits(p, f, &wanted, &e);
    if (err) {
        log_warn("%s: %s", conn_peer(c), e.text);
        return err;
    }
    p->body_bytes = f->body_bytes;
    if (wanted) {
        uint64_t room = (f->body_bytes + sizeof(float) - 1) / sizeof(float);
        p->body = buffer_acquire(&p->t->pool, room);
        if (!p->body) {
            fail(p->t, ERR_NOMEM, "no memory for a push or a request of rows");
            return ERR_NOMEM;
        }
    }
    return ERR_OK;
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    (void)c;
    struct peer *peer = owner;
    if (peer->body) {
        *p = (uint8_t *)peer->body->data + at;
        *bytes = (size_t)left;
    } else {
        *p = peer->t->scratch;
        *bytes = left < SCRATCH_BYTES ? (size_t)left : SCRATCH_BYTES;
    }
    return ERR_OK;
}

/* Replace an encoded body by its decoded elements. */
static enum err decode_body(struct peer *p, const Gradwire__Push *m, struct errmsg *e)
{
    struct buffer *plain = buffer_acquire(&p->t->pool, p->elems);
    if (!plain)
        return err_memory_for(e, "a gradient");
    enum err err = shard_push_decode(p->t->shard, m, p->body->data, p->body_bytes, plain->data, e);
    buffer_unref(p->body);
    p->body = plain;
    return err;
}

static enum err on_push(struct peer *p, struct errmsg *e)
{
    const Gradwire__Push *m = (const Gradwire__Push *)p->message;
    enum err err = p->body && p->encoded ? decode_body(p, m, e) : ERR_OK;
    return err ? err : shard_on_push(p->t->shard, &p->base, m, p->body, e);
}

static enum err on_message(struct peer *p, struct errmsg *e)
{
    enum frame_type type = (enum frame_type)p->type;
    if (type == FRAME_PUSH)
        return on_push(p, e);
    if (is_rows(p->type))
        return shard_on_rows(p->t->shard, &p->base, type, p->message, p->body, p->body_bytes, e);
    return shard_on_worker(p->t->shard, &p->base, type, p->message, e);
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct peer *p = owner;
    struct errmsg e = {""};
    p->t->counts.pushes += p->type == FRAME_PUSH;
    p->t->counts.pulls += p->type == FRAME_PULL;
    enum err err = on_message(p, &e);
    if (err)
        log_warn("%s: %s: %s", conn_peer(c), p->name, e.text);
    if (err == ERR_NOMEM) /* it has none for this frame of the next connection either */
        fail(p->t, err, e.text);
    drop_frame(p);
    note_held(p->t);
    return err;
}

static void on_drained(struct conn *c, void *owner)
{
    conn_uncork(c);
    if (conn_idle(c))
        drop_sent(owner);
}

static void on_idle(struct conn *c, void *owner)
{
    (void)c;
    drop_sent(owner);
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct peer *p = owner;
    struct shard_thread *t = p->t;
    t->counts.in_bytes += conn_stats(c)->in_bytes;
    t->counts.out_bytes += conn_stats(c)->out_bytes;
    if (code == ERR_TIMEOUT)
        log_warn("%s: a connection for data is lost: %s", p->name, why);
    log_debug("%s's connection to shard thread %u is closed: %s (%s)", p->name, t->thread, why,
              err_str(code));
    drop_frame(p);
    if (p->admitted)
        shard_peer_gone(t->shard, &p->base);
    LIST_REMOVE(t->peers, p);
    drop_sent(p);
    mem_free(p->sent);
    mem_free(p);
}

static const struct conn_ops peer_ops = {
    .on_head = on_head,
    .on_space = on_space,
    .on_frame = on_frame,
    .on_close = on_close,
    .on_drained = on_drained,
    .on_idle = on_idle,
};

static void close_fenced(struct shard_thread *t)
{
    for (struct peer *p = t->peers; p; p = p->next)
        if (p->admitted && shard_peer_fenced(t->shard, &p->base))
            conn_close(p->conn, ERR_REFUSED, "a later process has taken this worker's place");
}

static void take_connection(struct shard_thread *t, struct take *take)
{
    struct peer *p = mem_zalloc(1, sizeof *p);
    if (!p) {
        conn_handover_drop(&take->conn);
        return;
    }
    p->t = t;
    (void)worker_name(p->name, take->hello->worker, take->hello->listed_chief);
    if (conn_resume(&p->conn, &t->loop, &take->conn, p->name, &peer_ops, p)) {
        mem_free(p);
        return;
    }
    p->next = t->peers;
    t->peers = p;
    if (!shard_reads(t->shard))
        conn_pause(p->conn, true);
    Gradwire__Refuse refuse;
    if (shard_on_hello(t->shard, &p->base, take->hello, &refuse) == ERR_OK) {
        Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
        Gradwire__Generation g = msg_generation(shard_facts(t->shard).generation);
        p->admitted = true;
        reply.generation = &g;
        reply.entered = true;
        msg_send(p->conn, FRAME_HELLO_REPLY, &reply.base, NULL, 0);
        close_fenced(t);
    } else {
        greeting_refuse(p->conn, &refuse);
    }
}

/* ---- letters ---- */

/* Shared storage may show a new file late. Errors other than "no such file" do not say whose directory it is. */
static bool lacks_token(const char *path, enum checkpoint_store store)
{
    if (store == STORE_AUTO)
        return access(path, F_OK) != 0;
    if (access(path, F_OK) == 0 || errno != ENOENT)
        return false;
    usleep(TOKEN_AGAIN_US);
    return access(path, F_OK) != 0 && errno == ENOENT;
}

/* Find out if DIR/checkpoints on this host is the chief's directory. Errors: ERR_STATE it is not, but has to be. */
static enum err find_storage(struct shard_thread *t, const Gradwire__Enter *m, struct errmsg *e)
{
    char path[sizeof t->checkpoints.where + 64];
    bool was = t->remote;
    enum checkpoint_store store = (enum checkpoint_store)m->store;
    (void)snprintf(path, sizeof path, "%s/%.40s", t->checkpoints.where, m->store_token);
    bool lacks = m->store_token[0] && lacks_token(path, store);
    t->remote = store == STORE_CHIEF || (store == STORE_AUTO && lacks);
    if (store == STORE_SHARED && lacks)
        return err_set(e, ERR_STATE,
                       "ps %u does not see the chief's checkpoints in %.200s, although "
                       "checkpoint.store is shared: mount the shared directory there, or leave out "
                       "checkpoint.store",
                       t->ps, t->checkpoints.where);
    if (t->remote && !was && t->thread == 0)
        log_info("the chief writes the checkpoints: %s is not on its storage%s",
                 t->checkpoints.where, store == STORE_CHIEF ? " (checkpoint.store)" : "");
    if (!t->remote && t->thread == 0) {
        /* The files of later cuts must not get into the directory of another job, if DIR is removed. */
        struct errmsg why;
        if (dirguard_begin(t->output, -1, &why))
            log_warn("%s", why.text);
    }
    return ERR_OK;
}

/* Report size and duration of a snapshot to the server, which estimates the next one (life.h). */
static void tell_snapshot(struct shard_thread *t, double seconds)
{
    struct shard_snapshot *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return; /* without memory the estimate stays as it is */
    *s = (struct shard_snapshot){shard_facts(t->shard).state_bytes, seconds};
    post_out(t, SHARD_SNAPSHOT, t->thread, s, mem_free);
}

static void enter(struct shard_thread *t, const Gradwire__Enter *m)
{
    struct errmsg e;
    if (find_storage(t, m, &e)) {
        Gradwire__Entered out = GRADWIRE__ENTERED__INIT;
        out.generation = m->generation;
        out.error = e.text;
        io_tell(t, FRAME_ENTERED, &out.base);
        return;
    }
    shard_on_chief(t->shard, FRAME_ENTER, &m->base);
    tell_snapshot(t, 0);
}

static void tell_shard(struct shard_thread *t, enum frame_type type, const ProtobufCMessage *m)
{
    if (type == FRAME_FENCE) {
        const Gradwire__Fence *fence = (const Gradwire__Fence *)m;
        shard_fence(t->shard, fence->worker, fence->incarnation);
        close_fenced(t);
        post_out(t, SHARD_FENCED, fence->incarnation, NULL, NULL);
        return;
    }
    if (type == FRAME_ENTER) {
        enter(t, (const Gradwire__Enter *)m);
        return;
    }
    shard_on_chief(t->shard, type, m);
}

/* Add the connected workers and the bytes of all connections to the report. Without memory the list is empty. */
static void measure(const struct shard_thread *t, struct shard_report *r)
{
    size_t n = 0;
    for (const struct peer *p = t->peers; p; p = p->next)
        n += p->admitted;
    r->counts = t->counts;
    r->worker = mem_zalloc(n + 1, sizeof *r->worker);
    for (const struct peer *p = t->peers; p; p = p->next) {
        const struct conn_stats *bytes = conn_stats(p->conn);
        r->counts.in_bytes += bytes->in_bytes;
        r->counts.out_bytes += bytes->out_bytes;
        if (r->worker && p->admitted)
            r->worker[r->workers++] =
                (struct shard_worker){p->base.worker, bytes->in_bytes, bytes->out_bytes};
    }
    shard_waits_for(t->shard, r->waits_for, sizeof r->waits_for);
}

static void report_status(struct shard_thread *t, enum shard_letter letter)
{
    struct shard_report *r = mem_zalloc(1, sizeof *r);
    const struct shard_facts facts = shard_facts(t->shard);
    bool holds = facts.entered && facts.planned;
    if (r && holds)
        r->status = (Gradwire__ShardStatus *)msg_copy(&shard_status(t->shard)->base);
    if (letter == SHARD_STATUS && (!r || (holds && !r->status)))
        fail(t, ERR_NOMEM, "no memory for the answer to the chief's hello");
    if (!r)
        return;
    r->facts = facts;
    r->next_cut = t->next_cut;
    measure(t, r);
    post_out(t, (int)letter, t->thread, r, shard_report_free);
}

static void heard_saved(struct shard_thread *t, const struct cut_saved *s)
{
    if (s->err == ERR_STATE) {
        /* Without this the job would train on without checkpoints. */
        struct errmsg e;
        if (!t->remote && dirguard_check(&e))
            fail(t, ERR_STATE, e.text);
    }
    t->counts.saved += !s->err;
    t->counts.not_saved += s->err && !s->given_up;
    if (!s->err)
        tell_snapshot(t, s->seconds);
    shard_on_saved(t->shard, s->cut, s->err ? NULL : &s->file, &s->broken,
                   s->err ? s->e.text : NULL);
    if (t->save && cut_save_number(t->save) == s->cut) {
        cut_save_end(t->save);
        t->save = NULL;
    }
    copy_later(t);
}

static void on_letter(void *arg, struct mail *m)
{
    struct shard_thread *t = arg;
    if (m->type == TO_TELL) {
        tell_shard(t, (enum frame_type)m->number, m->data);
    } else if (m->type == TO_TAKE) {
        take_connection(t, m->data);
        ((struct take *)m->data)->conn = (struct conn_handover){.fd = -1};
    } else if (m->type == TO_REPORT) {
        report_status(t, (enum shard_letter)m->number);
    } else if (m->type == TO_SAVED) {
        heard_saved(t, m->data);
    } else if (m->type == TO_COPY) {
        copy_rows(t);
    } else if (m->type == TO_STOP) {
        loop_stop(&t->loop);
    }
    note_held(t);
}

static void *run(void *arg)
{
    struct shard_thread *t = arg;
    kernels_flush_denormals();
    if (loop_run(&t->loop))
        log_error("shard thread %u: the event loop failed", t->thread);
    for (struct peer *p = t->peers; p; p = p->next)
        conn_close(p->conn, ERR_CLOSED, "the ps ends");
    loop_timer_stop(&t->copy);
    while (t->peers && loop_tick(&t->loop, NULL) == ERR_OK)
        ;
    if (t->save)
        cut_save_end(t->save);
    t->save = NULL;
    disk_thread_close(&t->writer);
    return NULL;
}

static void free_take(void *data)
{
    struct take *take = data;
    conn_handover_drop(&take->conn);
    msg_free(take->hello);
    mem_free(take);
}

enum err shard_thread_new(struct shard_thread **out, uint32_t ps, uint32_t thread,
                          const char *output, const struct chief_place *chief,
                          const struct fault *fault, struct mailbox *mailbox, struct errmsg *e)
{
    struct shard_thread *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return err_memory_for(e, "shard thread %u", thread);
    t->ps = ps;
    t->thread = thread;
    t->out = mailbox;
    t->chief = chief;
    t->fault = fault;
    atomic_flag_clear(&t->fails);
    disk_thread_init(&t->writer);
    (void)snprintf(t->output, sizeof t->output, "%s", output);
    place_of_job(&t->checkpoints, output, OUTPUT_CHECKPOINTS);
    t->scratch = mem_zalloc(SCRATCH_BYTES, 1);
    enum err err = t->scratch ? shard_new(&t->shard, ps, thread, &shard_io, t) : ERR_NOMEM;
    if (err)
        goto no_memory;
    err = loop_init(&t->loop);
    if (err)
        goto no_loop;
    loop_timer_init(&t->copy, &t->loop, copy_rows, t);
    err = mailbox_init(&t->in, &t->loop, on_letter, t);
    if (err)
        goto no_mailbox;
    if (pthread_create(&t->pthread, NULL, run, t) == 0) {
        *out = t;
        return ERR_OK;
    }
    err = ERR_NOMEM;
    mailbox_close(&t->in);
no_mailbox:
    loop_close(&t->loop);
no_loop:
    shard_free(t->shard);
no_memory:
    mem_free(t->scratch);
    mem_free(t);
    return err_set(e, err, "shard thread %u cannot be started: %s", thread, err_str(err));
}

void shard_thread_free(struct shard_thread *t)
{
    if (!t)
        return;
    while (post_in(t, TO_STOP, 0, NULL, NULL) == ERR_TOOBIG)
        usleep(1000); /* the thread has thousands of unread letters: give it time */
    pthread_join(t->pthread, NULL);
    mailbox_close(&t->in);
    shard_free(t->shard);
    loop_close(&t->loop);
    buffer_pool_close(&t->pool);
    mem_free(t->scratch);
    mem_free(t);
}

enum err shard_thread_tell(struct shard_thread *t, enum frame_type type, const ProtobufCMessage *m)
{
    assert(frame_to(type) & (FRAME_TO_SHARDS | FRAME_TO_PS));
    ProtobufCMessage *copy = msg_copy(m);
    return copy ? post_in(t, TO_TELL, (uint64_t)type, copy, msg_free) : ERR_NOMEM;
}

enum err shard_thread_take(struct shard_thread *t, struct conn_handover *take,
                           Gradwire__Hello *take_hello)
{
    struct take *letter = mem_zalloc(1, sizeof *letter);
    if (!letter) {
        conn_handover_drop(take);
        msg_free(take_hello);
        return ERR_NOMEM;
    }
    *letter = (struct take){*take, take_hello};
    return post_in(t, TO_TAKE, 0, letter, free_take);
}

enum err shard_thread_ask(struct shard_thread *t, enum shard_letter answer)
{
    return post_in(t, TO_REPORT, (uint64_t)answer, NULL, NULL);
}
