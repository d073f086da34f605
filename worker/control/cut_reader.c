#include "worker/control/cut_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/checkpoint/ending.h"
#include "common/checkpoint/checkpoint.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"

enum { MANIFEST_BYTES_MAX = CHECKPOINT_HEAD_MAX + CHECKPOINT_MAGIC_BYTES + CHECKPOINT_TAIL_BYTES };

struct fetch {
    const struct cut_reader *of;
    struct loop loop;
    struct loop_timer bound;
    struct dialer *ps, *dialer;    /* ps: NULL: ps 0 need not be asked */
    char chief[300], refusal[300]; /* the last one of ps 0; "": it has answered since */
    bool job_over;                 /* ps 0 reports that, and knows no chief */
    uint64_t cut;
    struct conn *conn;
    ProtobufCMessage *message;
    uint16_t type;
    const char *file; /* the file that is being read; NULL: the hello is not answered yet */
    uint8_t *data;    /* (total), and one byte more */
    uint64_t at, total;
    uint64_t piece_bytes; /* of the frame that is being received */
    bool whole;           /* the manifest has arrived */
    struct manifest m;
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
}

static void ask(struct fetch *f)
{
    Gradwire__StoreGet m = GRADWIRE__STORE_GET__INIT;
    m.request = 1;
    m.cut = f->cut;
    m.file = (char *)f->file;
    m.offset = f->at;
    msg_send(f->conn, FRAME_STORE_GET, &m.base, NULL, 0);
}

static void begin_file(struct fetch *f, const char *file)
{
    mem_free(f->data);
    f->data = NULL;
    f->file = file;
    f->at = f->total = 0;
    ask(f);
}

/* ---- frames ---- */

static enum err wrong_size(struct fetch *f, uint64_t total)
{
    return err_set(f->e, ERR_CORRUPT,
                   "the chief's %s of checkpoint %" PRIu64 " has %" PRIu64
                   " bytes, which is impossible",
                   f->file, f->cut, total);
}

/* The first piece is about to arrive: allocate the file, after a check of its size. */
static enum err make_room(struct fetch *f, uint64_t total)
{
    bool fits = f->whole ? total == f->m.encoding.bytes : total <= MANIFEST_BYTES_MAX;
    if (!fits)
        return wrong_size(f, total);
    f->data = mem_zalloc((size_t)total + 1, 1);
    f->total = total;
    return f->data ? ERR_OK : err_memory_for(f->e, "%s", f->file);
}

static enum err begin_piece(struct fetch *f, const Gradwire__StoreAnswer *m)
{
    enum err err = f->data || !f->piece_bytes ? ERR_OK : make_room(f, m->total);
    if (err)
        return err;
    if (m->offset != f->at || m->total != f->total || f->piece_bytes > STORE_PIECE_BYTES ||
        f->piece_bytes > f->total - f->at)
        return err_set(f->e, ERR_PROTO, "the chief sent a piece of %s that was not requested",
                       f->file);
    return ERR_OK;
}

static enum err on_head(struct conn *c, void *owner, const struct frame *frame, const uint8_t *head)
{
    (void)c;
    struct fetch *f = owner;
    f->type = frame->type;
    f->piece_bytes = frame->body_bytes;
    if (f->over || (frame->body_bytes && (frame->type != FRAME_STORE_ANSWER || !f->file)))
        return ERR_PROTO;
    f->message = msg_unpack(frame->type, head, frame->head_bytes);
    if (!f->message || !frame->body_bytes)
        return f->message ? ERR_OK : ERR_PROTO;
    enum err err = begin_piece(f, (const Gradwire__StoreAnswer *)f->message);
    if (err)
        end(f, err);
    return err;
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    (void)c;
    struct fetch *f = owner;
    *p = f->data + f->at + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

static enum err manifest_came(struct fetch *f)
{
    enum err err =
        manifest_decode(f->data, (size_t)f->total, "the chief's manifest.gw", &f->m, f->e);
    if (err)
        return err;
    f->whole = true;
    if (f->m.cut != f->cut)
        return err_set(f->e, ERR_CORRUPT, "the chief's manifest belongs to checkpoint %" PRIu64,
                       f->m.cut);
    if (!f->m.encoding.bytes)
        return err_set(f->e, ERR_NOTFOUND,
                       "the chief's checkpoint %" PRIu64
                       " has no encoding.json: an earlier release wrote it",
                       f->cut);
    begin_file(f, CHECKPOINT_ENCODING);
    return ERR_OK;
}

static void file_came(struct fetch *f)
{
    if (!f->whole) {
        enum err err = manifest_came(f);
        if (err)
            end(f, err);
        return;
    }
    end(f, checkpoint_check_encoding(&f->m.encoding, f->data, (size_t)f->total,
                                     "the chief's encoding.json", f->e));
}

static void on_answer(struct fetch *f, const Gradwire__StoreAnswer *m)
{
    if (m->error[0] || !f->piece_bytes) {
        end(f, err_set(f->e, m->corrupt ? ERR_CORRUPT : ERR_IO, "the chief: %s",
                       m->error[0] ? m->error : "an answer without text"));
        return;
    }
    f->at += f->piece_bytes;
    if (f->at == f->total)
        file_came(f);
    else
        ask(f);
}

static void end_done(struct fetch *f)
{
    end(f, err_set(f->e, ERR_STATE,
                   "the job is done, and no chief has connected to continue training"));
}

static void end_without_ps(struct fetch *f)
{
    const char *ps = f->of->cluster->ps[0], *why = f->conn ? "" : dial_why(f->ps);
    int64_t bound_s = f->of->start_ms / 1000;
    if (f->refusal[0])
        end(f, err_set(f->e, ERR_REFUSED, "ps 0 at %s has refused for %" PRId64 " s: %s", ps,
                       bound_s, f->refusal));
    else
        end(f, err_set(f->e, ERR_TIMEOUT, "ps 0 at %s %s for %" PRId64 " s%s%s", ps,
                       f->conn ? "has named no chief" : "has not answered", bound_s,
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
    if (m->over) {
        on_over(f, m->over);
        return;
    }
    if (m->failed)
        end(f, err_set(f->e, ERR_CLOSED, "the chief ended the job: %s", m->failed->text));
    else if (!m->chief_address[0])
        end(f, err_set(f->e, ERR_CLOSED, "ps 0 does not report the chief's address"));
    (void)snprintf(f->chief, sizeof f->chief, "%s", m->chief_address);
    conn_close(f->conn, ERR_OK, "answered");
}

static void on_chief(struct fetch *f, const Gradwire__HelloReply *m)
{
    if (f->cut == CUT_READER_ANY)
        f->cut = m->cut - 1;
    if (f->cut == CUT_READER_ANY)
        end(f, err_set(f->e, ERR_NOTFOUND, "the chief has no checkpoint"));
    else
        begin_file(f, CHECKPOINT_MANIFEST);
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
    else if (f->type == FRAME_HELLO_REPLY && !f->file)
        on_chief(f, (const Gradwire__HelloReply *)m);
    else if (f->type == FRAME_STORE_ANSWER && f->file)
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
    if (!f->dialer) {
        dial_hello(f->ps, c, &m);
        return;
    }
    m.role = GRADWIRE__ROLE__READER;
    hello_add_contents(&m, &contents, f->of->contents);
    m.encoding.len = 0;
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

static enum err talk(struct fetch *f)
{
    loop_timer_init(&f->bound, &f->loop, on_bound, f);
    enum err err = begin(f);
    if (err)
        return f->e->text[0] ? err : err_set(f->e, err, "no memory for a timer");
    err = loop_run(&f->loop);
    return err ? err_set(f->e, err, "the event loop failed: %s", err_str(err)) : f->err;
}

static void stop(struct fetch *f)
{
    f->over = true;
    loop_timer_stop(&f->bound);
    dial_free(f->ps);
    dial_free(f->dialer);
    if (f->conn)
        conn_close(f->conn, ERR_CLOSED, "the answer is no longer needed");
    loop_close(&f->loop); /* closes the connection */
}

enum err cut_reader_fetch(const struct cut_reader *r, struct manifest *m, char **text,
                          struct errmsg *e)
{
    struct fetch f = {.of = r, .cut = r->cut, .e = e};
    enum err err = loop_init(&f.loop);
    if (err)
        return err_set(e, err, "no event loop: %s", err_str(err));
    err = talk(&f);
    stop(&f);
    if (!err) {
        *m = f.m;
        *text = (char *)f.data;
        return ERR_OK;
    }
    if (f.whole)
        manifest_close(&f.m);
    mem_free(f.data);
    return err;
}
