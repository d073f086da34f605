/* The part that all types of places share: paths for messages, whole objects, and calls of the type. */
#include "common/place/place.h"

#include <stdio.h>
#include <unistd.h>

#include "common/base/mem.h"

enum err place_path(const struct place *p, const char *name, char path[FILES_PATH_MAX],
                    struct errmsg *e)
{
    int n = snprintf(path, FILES_PATH_MAX, "%s%s%s", p->where, *name ? "/" : "", name);
    return n < 0 || n >= FILES_PATH_MAX
               ? err_set(e, ERR_IO, "%.64s...: the path is too long", p->where)
               : ERR_OK;
}

/* ---- writing ---- */

enum err place_begin(const struct place *p, const char *name, struct place_writer *w,
                     struct errmsg *e)
{
    w->of = p;
    w->bytes = 0;
    w->object = NULL;
    (void)snprintf(w->name, sizeof w->name, "%s", name);
    enum err err = place_path(p, name, w->path, e);
    return err ? err : p->type->begin(w, e);
}

enum err place_append(struct place_writer *w, const void *data, size_t bytes, struct errmsg *e)
{
    enum err err = w->of->type->append(w, data, bytes, e);
    w->bytes += err ? 0 : bytes;
    return err;
}

enum err place_commit(struct place_writer *w, struct errmsg *e)
{
    enum err err = w->of->type->commit(w, e);
    place_abort(w);
    return err;
}

void place_abort(struct place_writer *w)
{
    if (w->object)
        w->of->type->abort(w);
    w->object = NULL;
}

enum err place_put(const struct place *p, const char *name, const void *data, size_t bytes,
                   struct errmsg *e)
{
    struct place_writer w;
    enum err err = place_begin(p, name, &w, e);
    if (err)
        return err;
    err = place_append(&w, data, bytes, e);
    if (!err)
        return place_commit(&w, e);
    place_abort(&w);
    return err;
}

/* ---- reading ---- */

enum err place_open(const struct place *p, const char *name, struct place_reader *r,
                    struct errmsg *e)
{
    r->of = p;
    r->is_open = false;
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    enum err err = place_path(p, name, r->path, e);
    if (!err)
        err = p->type->open(r, e);
    r->is_open = !err;
    return err;
}

enum err place_read(struct place_reader *r, uint64_t at, void *out, size_t bytes, size_t *got,
                    struct errmsg *e)
{
    return r->of->type->read(r, at, out, bytes, got, e);
}

void place_close(struct place_reader *r)
{
    if (r->is_open)
        r->of->type->close(r);
    r->is_open = false;
}

enum err place_get(const struct place *p, const char *name, size_t max, uint8_t **data,
                   size_t *bytes, struct errmsg *e)
{
    struct place_reader r;
    uint8_t *made = NULL;
    enum err err = place_open(p, name, &r, e);
    if (err)
        return err;
    if (r.bytes > max)
        err = err_set(e, ERR_TOOBIG, "%s: longer than %zu bytes", r.path, max);
    else if (!(made = mem_resize(NULL, (size_t)r.bytes + 1, 1)))
        err = err_memory_of(e, r.path);
    else
        err = place_read(&r, 0, made, (size_t)r.bytes, bytes, e);
    place_close(&r);
    if (err) {
        mem_free(made);
        return err;
    }
    made[*bytes] = 0;
    *data = made;
    return ERR_OK;
}

/* ---- what is there ---- */

enum err place_stat(const struct place *p, const char *name, int64_t *written_ms, struct errmsg *e)
{
    return p->type->stat(p, name, written_ms, e);
}

enum err place_list(const struct place *p, const char *folder, place_each *each, void *ctx,
                    struct errmsg *e)
{
    return p->type->list(p, folder, each, ctx, e);
}

enum err place_remove(const struct place *p, const char *name, struct errmsg *e)
{
    return p->type->remove(p, name, e);
}

void place_clear(const struct place *p, const char *folder, bool leftovers)
{
    p->type->clear(p, folder, leftovers);
}

enum err place_hold(const struct place *p, const char *name, int *hold, struct errmsg *e)
{
    *hold = -1;
    return p->type->hold ? p->type->hold(p, name, hold, e) : ERR_OK;
}

void place_release(int hold)
{
    if (hold >= 0)
        (void)close(hold);
}
