#include "worker/chief/store_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/checkpoint/checkpoint_file.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "common/process/dirlock.h"

enum task_kind { TASK_PUT, TASK_REFUSE, TASK_GET, TASK_GONE, TASK_DISCARD };

struct task {
    struct store_server *of;
    enum task_kind kind;
    uint32_t ps;
    uint64_t connection, request, cut, offset;
    char file[STORE_NAME_MAX];
    bool last;
    uint8_t *body;
    size_t bytes;
};

/* A file that is being received. */
struct store_arrival {
    struct store_arrival *next;
    uint64_t connection, request, cut;
    char file[STORE_NAME_MAX];
    struct place_writer writer;
};

static void store_server_answer_free(void *answer)
{
    struct store_server_answer *a = answer;
    mem_free(a->body);
    mem_free(a);
}

static void task_free(struct task *t)
{
    mem_free(t->body);
    mem_free(t);
}

void store_server_init(struct store_server *k, const struct place *checkpoints,
                       struct control *control, struct disk_thread *disk)
{
    *k = (struct store_server){.checkpoints = checkpoints, .control = control, .disk = disk};
}

/* ---- the disk's thread ---- */

static void drop_arrival(struct store_server *k, struct store_arrival *a)
{
    place_abort(&a->writer);
    LIST_REMOVE(k->arrivals, a);
    mem_free(a);
}

/* Drop what the task makes unwanted: all of a connection that is gone, or of a checkpoint that is given up; or an earlier try of
 * the same file, also of an earlier cut, since a ps sends a file once at a time. */
static void drop_arrivals(struct store_server *k, const struct task *t)
{
    struct store_arrival *a = k->arrivals;
    while (a) {
        struct store_arrival *next = a->next;
        bool here = a->connection == t->connection;
        bool same = a->request == t->request || strcmp(a->file, t->file) == 0;
        if (t->kind == TASK_DISCARD ? a->cut == t->cut : here && (t->kind == TASK_GONE || same))
            drop_arrival(k, a);
        a = next;
    }
}

static struct store_arrival *arrival_of(struct store_server *k, const struct task *t)
{
    struct store_arrival *a = k->arrivals;
    while (a && (a->connection != t->connection || a->request != t->request))
        a = a->next;
    return a;
}

static enum err begin_arrival(struct store_server *k, const struct task *t,
                              struct store_arrival **out, struct errmsg *e)
{
    char name[PLACE_NAME_MAX];
    if (checkpoint_published((struct cut){k->checkpoints, t->cut}))
        return err_set(e, ERR_STATE, "%s: checkpoint %" PRIu64 " is already published", t->file,
                       t->cut);
    struct store_arrival *a = mem_zalloc(1, sizeof *a);
    if (!a)
        return err_set(e, ERR_NOMEM, "no memory to keep %s", t->file);
    cut_object(name, t->cut, t->file);
    enum err err = place_begin(k->checkpoints, name, &a->writer, e);
    if (err) {
        mem_free(a);
        return err;
    }
    a->connection = t->connection;
    a->request = t->request;
    a->cut = t->cut;
    memcpy(a->file, t->file, sizeof a->file);
    a->next = k->arrivals;
    k->arrivals = a;
    *out = a;
    return ERR_OK;
}

/* Commits a file, and checks that it is a whole shard's file, so that no cut is published that nobody can read. */
static enum err end_arrival(struct store_arrival *a, uint64_t cut, struct errmsg *e)
{
    struct shard_file f;
    struct errmsg why;
    enum err err = place_commit(&a->writer, e);
    if (err)
        return err;
    err = shard_file_open(&f, (struct cut){a->writer.of, cut}, a->file, e);
    if (!err) {
        err = shard_file_verify(&f, e);
        shard_file_close(&f);
    }
    if (err && place_remove(a->writer.of, a->writer.name, &why)) /* no manifest lists it */
        log_warn("%s", why.text);
    return err;
}

/* The file is not, or no longer, wanted: its checkpoint was given up, or the ps is not one of this job. */
static enum err refuse(struct store_server *k, const struct task *t, struct errmsg *e)
{
    drop_arrivals(k, t);
    return err_set(e, ERR_STATE,
                   "%s of checkpoint %" PRIu64 " is refused: the chief does not wait for it",
                   t->file, t->cut);
}

static enum err put(struct store_server *k, const struct task *t,
                    struct store_server_answer *answer)
{
    struct errmsg *e = &answer->error;
    if (t->offset == 0)
        drop_arrivals(k, t);
    struct store_arrival *a = arrival_of(k, t);
    enum err err = ERR_OK;
    if (!a)
        err = t->offset ? err_set(e, ERR_PROTO, "%s: its beginning is missing", t->file)
                        : begin_arrival(k, t, &a, e);
    if (!err && a->writer.bytes != t->offset)
        err = err_set(e, ERR_PROTO,
                      "%s: received a piece at offset %" PRIu64 ", but %" PRIu64 " is next",
                      t->file, t->offset, a->writer.bytes);
    if (!err)
        err = place_append(&a->writer, t->body, t->bytes, e);
    if (!err)
        answer->head.offset = a->writer.bytes;
    if (!err && t->last)
        err = end_arrival(a, t->cut, e);
    if (a && (err || t->last))
        drop_arrival(k, a);
    return err;
}

static enum err read_piece(struct place_reader *r, const struct task *t,
                           struct store_server_answer *answer)
{
    struct errmsg *e = &answer->error;
    answer->head.total = r->bytes;
    if (t->offset >= r->bytes)
        return err_set(e, ERR_CORRUPT, "%s: it has only %" PRIu64 " bytes", r->path, r->bytes);
    answer->body = mem_zalloc(STORE_PIECE_BYTES, 1);
    if (!answer->body)
        return err_set(e, ERR_NOMEM, "no memory to read %s", t->file);
    enum err err = place_read(r, t->offset, answer->body, STORE_PIECE_BYTES, &answer->bytes, e);
    return !err && !answer->bytes ? err_set(e, ERR_IO, "%s: it got shorter", r->path) : err;
}

static enum err get(struct store_server *k, const struct task *t,
                    struct store_server_answer *answer)
{
    char name[PLACE_NAME_MAX];
    struct place_reader r;
    cut_object(name, t->cut, t->file);
    enum err err = place_open(k->checkpoints, name, &r, &answer->error);
    if (err)
        return err;
    err = read_piece(&r, t, answer);
    place_close(&r);
    return err;
}

static void say(const struct task *t, const char *what)
{
    if (t->ps == STORE_SERVER_READER)
        log_warn("a worker requested %s: %s", t->file, what);
    else
        log_warn("ps %u: %s", t->ps, what);
}

static void answer_task(struct store_server *k, const struct task *t)
{
    struct store_server_answer *a = mem_zalloc(1, sizeof *a);
    if (!a) {
        say(t, "no memory to answer");
        return;
    }
    gradwire__store_answer__init(&a->head);
    a->connection = t->connection;
    a->head.request = t->request;
    a->head.offset = t->offset;
    enum err err = t->kind == TASK_PUT   ? put(k, t, a)
                   : t->kind == TASK_GET ? get(k, t, a)
                                         : refuse(k, t, &a->error);
    a->head.corrupt = checkpoint_unusable(err);
    if (err) {
        say(t, a->error.text);
        a->head.error = a->error.text;
        a->bytes = 0;
    }
    control_post(k->control, HOST_STORED, t->ps, a, store_server_answer_free);
}

static void run(void *task)
{
    struct task *t = task;
    if (t->kind == TASK_GONE || t->kind == TASK_DISCARD)
        drop_arrivals(t->of, t);
    else
        answer_task(t->of, t);
    if (t->kind == TASK_DISCARD && !dirguard_check(NULL)) /* its files that came meanwhile */
        checkpoint_discard((struct cut){t->of->checkpoints, t->cut});
    task_free(t);
}

void store_server_close(struct store_server *k)
{
    while (k->arrivals)
        drop_arrival(k, k->arrivals);
}

/* ---- the control thread ---- */

/* take.body moves, even on error. */
static enum err add(struct store_server *k, struct task take, const char *file)
{
    struct task *t = mem_zalloc(1, sizeof *t);
    take.of = k;
    (void)snprintf(take.file, sizeof take.file, "%s", file);
    if (!t) {
        mem_free(take.body);
        return ERR_NOMEM;
    }
    *t = take;
    enum err err = disk_thread_post(k->disk, run, t);
    if (err)
        task_free(t);
    return err;
}

/* A peer waits for the answer to a piece before it sends the next one of that file, which bounds what is kept in memory
 * for it. Errors: ERR_PROTO. */
static enum err admit(struct store_peer *peer, bool well_formed, const char *file)
{
    const char *why = !well_formed               ? "no ps has such a file, or the piece is empty"
                      : peer->asks >= peer->most ? "too many pieces at the same time"
                                                 : NULL;
    if (why && peer->ps == STORE_SERVER_READER)
        log_warn("a worker's request for the file \"%.64s\" is refused: %s", file, why);
    else if (why)
        log_warn("ps %u: the file \"%.64s\" is refused: %s", peer->ps, file, why);
    return why ? ERR_PROTO : ERR_OK;
}

static enum err answer_later(struct store_server *k, struct store_peer *peer, struct task take,
                             const char *file)
{
    take.ps = peer->ps;
    take.connection = peer->connection;
    enum err err = add(k, take, file);
    peer->asks += !err;
    return err;
}

enum err store_server_put(struct store_server *k, struct store_peer *peer,
                          const Gradwire__StorePut *m, uint8_t *take_body, size_t bytes,
                          bool expected)
{
    enum err err = admit(peer, cut_file_is_shard(m->file) && bytes > 0, m->file);
    if (err) {
        mem_free(take_body);
        return err;
    }
    return answer_later(k, peer,
                        (struct task){.kind = expected ? TASK_PUT : TASK_REFUSE,
                                      .request = m->request,
                                      .cut = m->cut,
                                      .offset = m->offset,
                                      .last = m->last,
                                      .body = take_body,
                                      .bytes = bytes},
                        m->file);
}

enum err store_server_get(struct store_server *k, struct store_peer *peer,
                          const Gradwire__StoreGet *m)
{
    bool known = cut_file_is_shard(m->file) || cut_file_is_manifest(m->file) ||
                 cut_file_is_encoding(m->file) || cut_file_is_of_place(m->file);
    enum err err = admit(peer, known, m->file);
    if (err)
        return err;
    return answer_later(
        k, peer,
        (struct task){.kind = TASK_GET, .request = m->request, .cut = m->cut, .offset = m->offset},
        m->file);
}

static void drop_later(struct store_server *k, struct task t)
{
    if (add(k, t, ""))
        log_error("no memory to drop files that will not be complete");
}

void store_server_gone(struct store_server *k, const struct store_peer *peer)
{
    drop_later(k, (struct task){.kind = TASK_GONE, .ps = peer->ps, .connection = peer->connection});
}

void store_server_discard(struct store_server *k, uint64_t cut)
{
    drop_later(k, (struct task){.kind = TASK_DISCARD, .cut = cut});
}
