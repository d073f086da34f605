/* Each object has a buffer of one piece: a writer sends it when it is full and more comes, so that the last one is known; a reader
 * keeps the piece that it read last. */
#include "common/peers/chief_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "common/peers/hello.h"

/* An object that is open. Its thread alone accesses it, except for the piece that it waits for. */
struct chief_object {
    uint64_t id, losses, cut;
    char file[STORE_NAME_MAX];
    uint64_t at; /* where the piece begins */
    size_t bytes;
    uint8_t piece[STORE_PIECE_BYTES];
};

/* On the stack of the waiting thread. Only the server's thread accesses it until `done`. */
struct chief_piece {
    struct chief_piece *next;
    struct chief_object *of;
    bool put, last, begun, done;
    uint64_t total; /* get: of the object */
    enum err err;
    struct errmsg *e;
};

/* ---- called by the thread that waits ---- */

/* Called with the lock. */
static void wait(struct chief_place *c)
{
    if (!c->loop) {
        pthread_cond_wait(&c->done, &c->lock);
        return;
    }
    pthread_mutex_unlock(&c->lock);
    if (loop_tick(c->loop, NULL))
        chief_place_gone(c);
    pthread_mutex_lock(&c->lock);
}

/* Send the object's piece (put), or fetch the one at `at`. */
static enum err move(const struct place *place, struct chief_piece *p)
{
    struct chief_place *c = place->state;
    pthread_mutex_lock(&c->lock);
    struct mail m = {.type = c->letter, .number = p->of->id};
    p->err = c->closed || p->of->losses != c->losses ? ERR_CLOSED : mailbox_post(c->server, &m);
    p->done = p->err != ERR_OK;
    if (p->err) {
        err_set(p->e, p->err, "%s: %s", p->of->file,
                c->closed                    ? "the ps is ending"
                : p->of->losses != c->losses ? "the chief's connection is lost"
                                             : err_str(p->err));
    } else { /* the server handles the letter after this thread has released the lock */
        p->next = c->pieces;
        c->pieces = p;
    }
    while (!p->done)
        wait(c);
    pthread_mutex_unlock(&c->lock);
    return p->err;
}

static enum err object_new(const struct place *place, const char *name, void **object,
                           struct errmsg *e)
{
    struct chief_place *c = place->state;
    struct chief_object *o = mem_zalloc(1, sizeof *o);
    if (!o)
        return err_set(e, ERR_NOMEM, "no memory to move %s", name);
    if (cut_file_is_of_place(name)) {
        (void)snprintf(o->file, sizeof o->file, "%.31s", name);
    } else if (sscanf(name, "cut-%" SCNu64 "/%31s", &o->cut, o->file) != 2) {
        mem_free(o);
        return err_set(e, ERR_NOTFOUND, "%s: the chief gives only files of checkpoints", name);
    }
    pthread_mutex_lock(&c->lock);
    o->id = ++c->ids;
    o->losses = c->losses;
    pthread_mutex_unlock(&c->lock);
    *object = o;
    return ERR_OK;
}

static enum err chief_begin(struct place_writer *w, struct errmsg *e)
{
    return object_new(w->of, w->name, &w->object, e);
}

static enum err send_piece(struct place_writer *w, bool last, struct errmsg *e)
{
    struct chief_object *o = w->object;
    enum err err = move(w->of, &(struct chief_piece){.of = o, .put = true, .last = last, .e = e});
    o->at += o->bytes;
    o->bytes = 0;
    return err;
}

static enum err chief_append(struct place_writer *w, const void *data, size_t bytes,
                             struct errmsg *e)
{
    struct chief_object *o = w->object;
    enum err err = ERR_OK;
    for (size_t done = 0; done < bytes && !err;) {
        if (o->bytes == STORE_PIECE_BYTES)
            err = send_piece(w, false, e);
        size_t most = STORE_PIECE_BYTES - o->bytes, n = bytes - done < most ? bytes - done : most;
        memcpy(o->piece + o->bytes, (const uint8_t *)data + done, n);
        o->bytes += n;
        done += n;
    }
    return err;
}

static enum err chief_commit(struct place_writer *w, struct errmsg *e)
{
    return send_piece(w, true, e);
}

/* The chief removes its part of the file when the next try begins, or the connection ends. */
static void chief_abort(struct place_writer *w)
{
    mem_free(w->object);
}

static enum err fetch_piece(struct place_reader *r, uint64_t at, struct errmsg *e)
{
    struct chief_object *o = r->object;
    struct chief_piece p = {.of = o, .e = e};
    o->at = at;
    o->bytes = 0;
    enum err err = move(r->of, &p);
    if (!err && r->bytes && p.total != r->bytes)
        return err_set(e, ERR_CORRUPT, "%s: it became another one while it was read", r->path);
    r->bytes = err ? r->bytes : p.total;
    return err;
}

static enum err chief_open(struct place_reader *r, struct errmsg *e)
{
    enum err err = object_new(r->of, r->name, &r->object, e);
    if (err)
        return err;
    r->bytes = 0;
    err = fetch_piece(r, 0, e);
    if (err)
        mem_free(r->object);
    return err;
}

static enum err chief_read(struct place_reader *r, uint64_t at, void *out, size_t bytes,
                           size_t *got, struct errmsg *e)
{
    struct chief_object *o = r->object;
    size_t have = 0;
    while (have < bytes && at + have < r->bytes) {
        uint64_t from = at + have, piece = from - from % STORE_PIECE_BYTES;
        if (from < o->at ||
            from - o->at >= o->bytes) { /* a piece may be shorter than it could be */
            enum err err = fetch_piece(r, o->bytes && o->at == piece ? from : piece, e);
            if (err)
                return err;
            continue;
        }
        size_t in = (size_t)(from - o->at), n = o->bytes - in;
        n = n < bytes - have ? n : bytes - have;
        memcpy((uint8_t *)out + have, o->piece + in, n);
        have += n;
    }
    *got = have;
    return ERR_OK;
}

static void chief_close(struct place_reader *r)
{
    mem_free(r->object);
}

static const struct place_type chief_type = {
    .begin = chief_begin,
    .append = chief_append,
    .commit = chief_commit,
    .abort = chief_abort,
    .open = chief_open,
    .read = chief_read,
    .close = chief_close,
};

void chief_place_open(struct chief_place *c, struct mailbox *server, int letter)
{
    *c = (struct chief_place){.server = server, .letter = letter};
    c->place = (struct place){&chief_type, c, "the chief's checkpoints"};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->done, NULL);
}

void chief_place_close(struct chief_place *c)
{
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->done);
}

/* ---- called by the server's thread ---- */

static struct chief_piece *find(struct chief_place *c, uint64_t object)
{
    pthread_mutex_lock(&c->lock);
    struct chief_piece *p = c->pieces;
    while (p && p->of->id != object)
        p = p->next;
    pthread_mutex_unlock(&c->lock);
    return p;
}

/* Finish the piece and wake its thread; *p is invalid afterwards. */
static void end(struct chief_place *c, struct chief_piece *p, enum err err)
{
    pthread_mutex_lock(&c->lock);
    LIST_REMOVE(c->pieces, p);
    p->err = err;
    p->done = true;
    pthread_cond_broadcast(&c->done);
    pthread_mutex_unlock(&c->lock);
}

static void end_all(struct chief_place *c, const char *why)
{
    for (;;) {
        pthread_mutex_lock(&c->lock);
        struct chief_piece *p = c->pieces;
        pthread_mutex_unlock(&c->lock);
        if (!p)
            return;
        end(c, p, err_set(p->e, ERR_CLOSED, "%s: %s", p->of->file, why));
    }
}

void chief_place_gone(struct chief_place *c)
{
    pthread_mutex_lock(&c->lock);
    c->losses++;
    pthread_mutex_unlock(&c->lock);
    end_all(c, "the chief's connection is lost");
}

void chief_place_shut(struct chief_place *c)
{
    pthread_mutex_lock(&c->lock);
    c->closed = true;
    pthread_mutex_unlock(&c->lock);
    end_all(c, "the ps ends");
}

void chief_place_on_letter(struct chief_place *c, uint64_t object, struct conn *chief)
{
    struct chief_piece *p = find(c, object);
    if (!p)
        return;
    const struct chief_object *o = p->of;
    Gradwire__StorePut put = GRADWIRE__STORE_PUT__INIT;
    Gradwire__StoreGet get = GRADWIRE__STORE_GET__INIT;
    p->begun = true;
    put.request = get.request = o->id;
    put.cut = get.cut = o->cut;
    put.file = get.file = (char *)o->file;
    put.offset = get.offset = o->at;
    put.last = p->last;
    if (!chief)
        end(c, p, err_set(p->e, ERR_CLOSED, "%s: no chief is connected", o->file));
    else if (p->put)
        msg_send(chief, FRAME_STORE_PUT, &put.base, o->piece, o->bytes);
    else
        msg_send(chief, FRAME_STORE_GET, &get.base, NULL, 0);
}

uint8_t *chief_place_space(struct chief_place *c, const Gradwire__StoreAnswer *m)
{
    struct chief_piece *p = find(c, m->request);
    return p && p->begun && !p->put ? p->of->piece : NULL;
}

enum err chief_place_on_answer(struct chief_place *c, const Gradwire__StoreAnswer *m,
                               uint64_t body_bytes, struct errmsg *e)
{
    struct chief_piece *p = find(c, m->request);
    if (!p || !p->begun)
        return ERR_OK; /* the piece was given up in the meantime */
    if (m->error[0]) {
        /* `corrupt` is set for each error of the file itself */
        end(c, p, err_set(p->e, m->corrupt ? ERR_CORRUPT : ERR_STATE, "the chief: %s", m->error));
        return ERR_OK;
    }
    struct chief_object *o = p->of;
    if (p->put ? m->offset != o->at + o->bytes
               : m->offset != o->at || body_bytes == 0 || body_bytes > STORE_PIECE_BYTES ||
                     m->total < o->at + body_bytes)
        return err_set(e, ERR_PROTO, "the chief sent a piece of %s that was not requested",
                       o->file);
    if (!p->put)
        o->bytes = (size_t)body_bytes;
    p->total = m->total;
    end(c, p, ERR_OK);
    return ERR_OK;
}
