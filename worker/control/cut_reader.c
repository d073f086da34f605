#include "worker/control/cut_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/checkpoint/ending.h"
#include "common/checkpoint/checkpoint.h"
#include "common/peers/chief_place.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"

struct fetch {
    const struct cut_reader *of;
    struct loop loop;
    struct loop_timer bound;
    struct dialer *ps, *dialer;    /* ps: NULL: ps 0 need not be asked */
    char chief[300], refusal[300]; /* the last one of ps 0; "": it has answered since */
    bool job_over;                 /* ps 0 reports that, and knows no chief */
    uint64_t cut;
    const char *file; /* of the place that is fetched, and no cut; NULL: the cut's encoding */
    struct conn *conn;
    ProtobufCMessage *message;
    uint16_t type;
    bool greeted; /* the chief has answered the hello */
    struct mailbox letters;
    struct chief_place place;
    uint8_t *space; /* for the frame that is being received, and its bytes */
    uint64_t piece_bytes;
    bool over;
    enum err err;
    struct errmsg *e;
};

static void end(struct fetch *f, enum err err)
{
    if (f->over)
        return;
    f->over = true;
    f->err = err;
    loop_stop(&f->loop);
    chief_place_gone(&f->place);
}

/* ---- frames ---- */

static enum err on_head(struct conn *c, void *owner, const struct frame *frame, const uint8_t *head)
{
    (void)c;
    struct fetch *f = owner;
    f->type = frame->type;
    f->piece_bytes = frame->body_bytes;
    if (f->over || (frame->body_bytes && (frame->type != FRAME_STORE_ANSWER || !f->greeted)))
        return ERR_PROTO;
    f->message = msg_unpack(frame->type, head, frame->head_bytes);
    if (!f->message || !frame->body_bytes)
        return f->message ? ERR_OK : ERR_PROTO;
    f->space = chief_place_space(&f->place, (const Gradwire__StoreAnswer *)f->message);
    return f->space ? ERR_OK : ERR_PROTO;
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    (void)c;
    struct fetch *f = owner;
    *p = f->space + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

static void on_answer(struct fetch *f, const Gradwire__StoreAnswer *m)
{
    if (m->error[0])
        end(f, err_set(f->e, m->corrupt ? ERR_CORRUPT : ERR_IO, "the chief: %s", m->error));
    else if (chief_place_on_answer(&f->place, m, f->piece_bytes, f->e))
        end(f, ERR_PROTO);
}

static void end_done(struct fetch *f)
{
    end(f, err_set(f->e, ERR_STATE,
                   "the job is done, and no chief has connected to continue training"));
}

static void end_without_ps(struct fetch *f)
{
    const char *ps = f->of->cluster->ps[0];
    const char *why = f->conn ? "" : dial_why(f->ps);
    int64_t bound_s = f->of->start_ms / 1000;
    if (f->refusal[0])
        end(f, err_set(f->e, ERR_REFUSED,
                       "ps 0 at %s has refused for %" PRId64 " s (timeouts.start_s): %s", ps,
                       bound_s, f->refusal));
    else
        end(f, err_set(f->e, ERR_TIMEOUT, "ps 0 at %s %s for %" PRId64 " s (timeouts.start_s)%s%s",
                       ps, f->conn ? "has named no chief" : "has not answered", bound_s,
                       why[0] ? ": " : "", why));
}

static void on_bound(void *arg)
{
    struct fetch *f = arg;
    const char *why = f->conn || !f->dialer ? "" : dial_why(f->dialer);
    if (f->dialer)
        end(f, err_set(f->e, ERR_TIMEOUT, "the chief at %s has not answered for %" PRId64 " s%s%s",
                       f->chief, f->of->silent_ms / 1000, why[0] ? ": " : "", why));
    else if (f->job_over)
        end_done(f);
    else
        end_without_ps(f);
}

static const struct conn_ops ops;

static enum err dial_chief(struct fetch *f)
{
    enum err err = dial_new(&f->dialer, &f->loop, "the chief", f->chief, &ops, f, f->e);
    if (!err)
        err = loop_timer_once(&f->bound, f->of->silent_ms);
    if (!err)
        dial_start(f->dialer);
    return err;
}

static void on_refuse(struct fetch *f, const Gradwire__Refuse *m)
{
    char text[sizeof f->refusal];
    if (f->dialer) {
        bool data = m->reason == GRADWIRE__REASON__OTHER_DATA;
        hello_other_data(m, f->of->cluster, f->of->contents, text, sizeof text);
        end(f, err_set(f->e, data ? ERR_INPUT : ERR_REFUSED, "the chief refuses: %s", text));
        return;
    }
    (void)snprintf(text, sizeof text, "%s", m->text);
    if (strcmp(text, f->refusal) != 0)
        log_warn("ps 0 at %s refuses: %s; trying again", f->of->cluster->ps[0], text);
    memcpy(f->refusal, text, sizeof text);
    conn_close(f->conn, ERR_REFUSED, m->text);
}

/* The connection stays open: ps 0 answers again when a chief comes, which may continue the job. */
static void on_over(struct fetch *f, const Gradwire__Over *m)
{
    struct over over;
    over_set(&over, m->epochs, m->run);
    if (f->job_over || !over_suffices(&over, f->of->job))
        return;
    f->job_over = true;
    log_info("ps 0 reports that the job is done, and training.epochs asks for no more");
    if (!f->of->over_ms)
        end_done(f);
    else if (loop_timer_once(&f->bound, f->of->over_ms))
        end(f, err_memory_for(f->e, "a timer"));
}

/* When this connection is closed, the chief is contacted. */
static void on_ps(struct fetch *f, const Gradwire__HelloReply *m)
{
    f->refusal[0] = 0;
    if (m->chief_reads) {
        if (loop_timer_once(&f->bound, f->of->start_ms))
            end(f, err_memory_for(f->e, "a timer"));
        return;
    }
    if (m->over) {
        on_over(f, m->over);
        return;
    }
    if (m->failed) /* without linger_s no other chief comes */
        end(f, err_set(f->e,
                       m->failed->exit_code == err_exit_code(ERR_INPUT) && !m->failed->linger_s
                           ? ERR_INPUT
                           : ERR_CLOSED,
                       "the chief ended the job: %s", m->failed->text));
    else if (!m->chief_address[0])
        end(f, err_set(f->e, ERR_CLOSED, "ps 0 does not report the chief's address"));
    else if (f->file && !f->file[0])
        end(f, err_set(f->e, ERR_CLOSED, "the chief has read its data"));
    (void)snprintf(f->chief, sizeof f->chief, "%s", m->chief_address);
    conn_close(f->conn, ERR_OK, "answered");
}

static void on_chief(struct fetch *f, const Gradwire__HelloReply *m)
{
    if (f->cut == CUT_READER_ANY)
        f->cut = m->cut - 1;
    if (f->cut == CUT_READER_ANY && !f->file)
        end(f, err_set(f->e, ERR_NOTFOUND, "the chief has no checkpoint"));
    f->greeted = true;
    loop_stop(&f->loop);
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct fetch *f = owner;
    ProtobufCMessage *m = f->message;
    f->message = NULL;
    /* otherwise the bound of ps 0 applies */
    if (f->dialer && loop_timer_once(&f->bound, f->of->silent_ms))
        end(f, err_memory_for(f->e, "a timer"));
    else if (f->type == FRAME_REFUSE)
        on_refuse(f, (const Gradwire__Refuse *)m);
    else if (f->type == FRAME_HELLO_REPLY && !f->dialer)
        on_ps(f, (const Gradwire__HelloReply *)m);
    else if (f->type == FRAME_HELLO_REPLY && !f->greeted)
        on_chief(f, (const Gradwire__HelloReply *)m);
    else if (f->type == FRAME_STORE_ANSWER && f->greeted)
        on_answer(f, (const Gradwire__StoreAnswer *)m);
    else if (f->type != FRAME_CHALLENGE)
        end(f, err_set(f->e, ERR_PROTO, "the chief does not serve the encoding of checkpoints"));
    msg_free(m);
    if (f->over)
        conn_close(c, ERR_OK, "answered");
    return ERR_OK;
}

static enum err goes_on(struct fetch *f, enum err code, const char *why)
{
    if (f->dialer)
        return err_set(f->e, ERR_CLOSED, "the connection to the chief is lost: %.300s", why);
    if (f->chief[0])
        return dial_chief(f);
    dial_lost(f->ps, code, why); /* the last job's ps may be leaving */
    dial_start(f->ps);
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct fetch *f = owner;
    msg_free(f->message);
    f->message = NULL;
    f->conn = NULL;
    enum err err = f->over ? ERR_OK : goes_on(f, code, why);
    if (err)
        end(f, err);
}

static void on_open(struct conn *c, void *owner)
{
    struct fetch *f = owner;
    Gradwire__Hello m;
    Gradwire__Contents contents;
    f->conn = c;
    hello_make(&m, f->of->job, f->of->cluster, 0);
    if (f->of->cluster->role == ROLE_EVALUATOR) /* no chief, and no worker of the job */
        m.worker = WORKERS_MAX - 1;
    if (!f->dialer) {
        m.waits = true;
        dial_hello(f->ps, c, &m);
        return;
    }
    m.role = GRADWIRE__ROLE__READER;
    if (f->of->contents)
        hello_add_contents(&m, &contents, f->of->contents);
    m.encoding.len = 0;
    conn_limits(c, FRAME_HEAD_MAX, STORE_PIECE_BYTES);
    dial_hello(f->dialer, c, &m);
}

static const struct conn_ops ops = {.on_head = on_head,
                                    .on_space = on_space,
                                    .on_frame = on_frame,
                                    .on_close = on_close,
                                    .on_open = on_open};

/* ---- the fetch ---- */

static enum err begin(struct fetch *f)
{
    if (f->of->chief) {
        (void)snprintf(f->chief, sizeof f->chief, "%s", f->of->chief);
        return dial_chief(f);
    }
    enum err err = dial_new(&f->ps, &f->loop, "ps 0", f->of->cluster->ps[0], &ops, f, f->e);
    if (!err)
        err = loop_timer_once(&f->bound, f->of->start_ms);
    if (!err)
        dial_start(f->ps);
    return err;
}

static void on_letter(void *arg, struct mail *m)
{
    struct fetch *f = arg;
    chief_place_on_letter(&f->place, m->number, f->conn);
}

static enum err greet(struct fetch *f)
{
    loop_timer_init(&f->bound, &f->loop, on_bound, f);
    enum err err = begin(f);
    if (err)
        return f->e->text[0] ? err : err_set(f->e, err, "no memory for a timer");
    err = loop_run(&f->loop);
    return err ? err_set(f->e, err, "the event loop failed: %s", err_str(err)) : f->err;
}

/* `text` is the caller's if there is no error. */
static enum err read_cut(struct fetch *f, struct manifest *m, char **text, struct errmsg *e)
{
    size_t bytes;
    struct manifest made;
    enum err err = checkpoint_load_manifest((struct cut){&f->place.place, f->cut}, &made, e);
    if (err)
        return err;
    if (!made.encoding.bytes)
        err = err_set(e, ERR_NOTFOUND,
                      "the chief's checkpoint %" PRIu64
                      " has no encoding.json: an earlier release wrote it",
                      f->cut);
    else
        err = checkpoint_read_encoding(&f->place.place, &made, text, &bytes, e);
    if (err)
        manifest_close(&made);
    else
        *m = made;
    return err;
}

static enum err talk(struct fetch *f, struct manifest *m, uint8_t **data, size_t *bytes)
{
    struct errmsg why;
    char *text = NULL;
    enum err err = greet(f);
    if (err)
        return err;
    if (f->file)
        err = place_get(&f->place.place, f->file, SIZE_MAX / 2, data, bytes, &why);
    else if (!(err = read_cut(f, m, &text, &why)))
        *data = (uint8_t *)text;
    if (err && f->over)
        return f->err; /* why the chief has not answered */
    if (err)
        *f->e = why;
    return err;
}

static void stop(struct fetch *f)
{
    f->over = true;
    loop_timer_stop(&f->bound);
    dial_free(f->ps);
    dial_free(f->dialer);
    if (f->conn)
        conn_close(f->conn, ERR_CLOSED, "the answer is no longer needed");
    mailbox_close(&f->letters);
    loop_close(&f->loop); /* closes the connection */
    chief_place_close(&f->place);
}

/* m NULL: a file of the place. */
static enum err fetch(const struct cut_reader *r, const char *file, struct manifest *m,
                      uint8_t **data, size_t *bytes, struct errmsg *e)
{
    struct fetch f = {.of = r, .cut = r->cut, .file = file, .e = e};
    enum err err = loop_init(&f.loop);
    if (!err) {
        err = mailbox_init(&f.letters, &f.loop, on_letter, &f);
        if (err)
            loop_close(&f.loop);
    }
    if (err)
        return err_set(e, err, "no event loop: %s", err_str(err));
    chief_place_open(&f.place, &f.letters, 0);
    f.place.loop = &f.loop;
    err = talk(&f, m, data, bytes);
    stop(&f);
    return err;
}

enum err cut_reader_fetch(const struct cut_reader *r, struct manifest *m, char **text,
                          struct errmsg *e)
{
    uint8_t *data = NULL;
    enum err err = fetch(r, NULL, m, &data, NULL, e);
    if (!err)
        *text = (char *)data;
    return err;
}

enum err cut_reader_file(const struct cut_reader *r, const char *file, uint8_t **data,
                         size_t *bytes, struct errmsg *e)
{
    return fetch(r, file, NULL, data, bytes, e);
}
