#include "ps/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/checkpoint/checkpoint_file.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/peers/msg_send.h"
#include "common/checkpoint/checkpoint.h"

/* On the stack of the waiting thread. Only the server's thread accesses it until `done`. */
struct store_request {
    struct store_request *next;
    uint64_t id, cut;
    const char *dir, *file;
    bool put, begun, done;
    int fd;                     /* put */
    struct files_writer writer; /* get */
    uint64_t at, total;
    uint8_t *piece; /* (STORE_PIECE_BYTES) */
    enum err err;
    struct errmsg *e;
};

void store_open(struct store *s, struct mailbox *server, int letter)
{
    *s = (struct store){.server = server, .letter = letter};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->done, NULL);
}

void store_close(struct store *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->done);
}

/* ---- called by the thread that waits ---- */

static enum err move(struct store *s, bool put, const char *dir, uint64_t cut, const char *file,
                     struct errmsg *e)
{
    struct store_request r = {
        .dir = dir, .cut = cut, .file = file, .put = put, .fd = -1, .writer.fd = -1, .e = e};
    r.piece = mem_zalloc(STORE_PIECE_BYTES, 1);
    if (!r.piece)
        return err_set(e, ERR_NOMEM, "no memory to move %s", file);
    pthread_mutex_lock(&s->lock);
    r.id = ++s->ids;
    struct mail m = {.type = s->letter, .number = r.id};
    r.err = s->closed ? ERR_CLOSED : mailbox_post(s->server, &m);
    r.done = r.err != ERR_OK;
    if (r.err) {
        err_set(e, r.err, "%s: the ps is ending", file);
    } else { /* the server handles the letter after this thread has released the lock */
        r.next = s->requests;
        s->requests = &r;
    }
    while (!r.done)
        pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
    mem_free(r.piece);
    return r.err;
}

enum err store_put(struct store *s, const char *dir, uint64_t cut, const char *file,
                   struct errmsg *e)
{
    return move(s, true, dir, cut, file, e);
}

enum err store_get(struct store *s, const char *dir, uint64_t cut, const char *file,
                   struct errmsg *e)
{
    return move(s, false, dir, cut, file, e);
}

/* ---- called by the server's thread ---- */

static struct store_request *find(struct store *s, uint64_t id)
{
    pthread_mutex_lock(&s->lock);
    struct store_request *r = s->requests;
    while (r && r->id != id)
        r = r->next;
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* Finish the request and wake its thread; *r is invalid afterwards. */
static void end(struct store *s, struct store_request *r, enum err err)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    files_abort(&r->writer);
    pthread_mutex_lock(&s->lock);
    LIST_REMOVE(s->requests, r);
    r->err = err;
    r->done = true;
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
}

static void end_all(struct store *s, const char *why)
{
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct store_request *r = s->requests;
        pthread_mutex_unlock(&s->lock);
        if (!r)
            return;
        end(s, r, err_set(r->e, ERR_CLOSED, "%s: %s", r->file, why));
    }
}

void store_chief_gone(struct store *s)
{
    end_all(s, "the chief's connection is lost");
}

void store_shut(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    pthread_mutex_unlock(&s->lock);
    end_all(s, "the ps ends");
}

static enum err read_piece(struct store_request *r, uint64_t bytes)
{
    size_t got;
    enum err err = files_read_at(r->fd, r->file, r->at, r->piece, bytes, &got, r->e);
    return !err && got < bytes
               ? err_set(r->e, ERR_IO, "%s: the file became shorter while it was sent", r->file)
               : err;
}

static enum err send_piece(struct store_request *r, struct conn *chief)
{
    uint64_t left = r->total - r->at, bytes = left < STORE_PIECE_BYTES ? left : STORE_PIECE_BYTES;
    enum err err = read_piece(r, bytes);
    if (err)
        return err;
    Gradwire__StorePut m = GRADWIRE__STORE_PUT__INIT;
    m.request = r->id;
    m.cut = r->cut;
    m.file = (char *)r->file;
    m.offset = r->at;
    m.last = bytes == left;
    msg_send(chief, FRAME_STORE_PUT, &m.base, r->piece, bytes);
    return ERR_OK;
}

static void ask_piece(struct store_request *r, struct conn *chief)
{
    Gradwire__StoreGet m = GRADWIRE__STORE_GET__INIT;
    m.request = r->id;
    m.cut = r->cut;
    m.file = (char *)r->file;
    m.offset = r->at;
    msg_send(chief, FRAME_STORE_GET, &m.base, NULL, 0);
}

static enum err begin_put(struct store_request *r, const char *path, struct conn *chief)
{
    struct stat st;
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0 || fstat(r->fd, &st))
        return err_set(r->e, err_of_errno(errno), "%s: %s", path, strerror(errno));
    r->total = (uint64_t)st.st_size;
    return send_piece(r, chief);
}

/* The error of storing a copy of the chief's file: it is no error of the file. */
static enum err own_disk(enum err err)
{
    return err == ERR_IO ? ERR_DISK : err;
}

static enum err begin_get(struct store_request *r, const char *path, struct conn *chief)
{
    char folder[FILES_PATH_MAX];
    enum err err = checkpoint_path(folder, r->dir, r->cut, NULL, r->e);
    if (!err)
        err = files_mkdirs(folder, r->e);
    if (!err)
        err = files_begin(&r->writer, path, r->e);
    if (!err)
        ask_piece(r, chief);
    return own_disk(err);
}

void store_on_letter(struct store *s, uint64_t request, struct conn *chief)
{
    struct store_request *r = find(s, request);
    char path[FILES_PATH_MAX];
    if (!r)
        return;
    r->begun = true;
    enum err err = chief ? checkpoint_path(path, r->dir, r->cut, r->file, r->e)
                         : err_set(r->e, ERR_CLOSED, "%s: no chief is connected", r->file);
    if (!err)
        err = r->put ? begin_put(r, path, chief) : begin_get(r, path, chief);
    if (err)
        end(s, r, err);
}

uint8_t *store_space(struct store *s, const Gradwire__StoreAnswer *m)
{
    struct store_request *r = find(s, m->request);
    return r && r->begun && !r->put ? r->piece : NULL;
}

static void on_put_answer(struct store *s, struct store_request *r, const Gradwire__StoreAnswer *m,
                          struct conn *chief)
{
    r->at = m->offset;
    enum err err = r->at < r->total ? send_piece(r, chief) : ERR_OK;
    if (err || r->at == r->total)
        end(s, r, err);
}

static void on_get_answer(struct store *s, struct store_request *r, const Gradwire__StoreAnswer *m,
                          uint64_t bytes, struct conn *chief)
{
    r->total = m->total;
    enum err err = own_disk(files_append(&r->writer, r->piece, bytes, r->e));
    r->at += bytes;
    if (!err && r->at < r->total) {
        ask_piece(r, chief);
        return;
    }
    if (!err)
        err = own_disk(files_commit(&r->writer, r->e));
    end(s, r, err);
}

enum err store_on_answer(struct store *s, const Gradwire__StoreAnswer *m, uint64_t body_bytes,
                         struct conn *chief)
{
    struct store_request *r = find(s, m->request);
    if (!r || !r->begun)
        return ERR_OK; /* the request was given up in the meantime */
    if (m->error[0]) {
        /* `corrupt` is set for each error of the file itself */
        end(s, r, err_set(r->e, m->corrupt ? ERR_CORRUPT : ERR_STATE, "the chief: %s", m->error));
        return ERR_OK;
    }
    if (r->put) {
        if (m->offset <= r->at || m->offset > r->total)
            return ERR_PROTO;
        on_put_answer(s, r, m, chief);
        return ERR_OK;
    }
    if (m->offset != r->at || body_bytes == 0 || body_bytes > STORE_PIECE_BYTES ||
        m->total < r->at + body_bytes)
        return ERR_PROTO;
    on_get_answer(s, r, m, body_bytes, chief);
    return ERR_OK;
}
