/* An object that is replaced stays in the list until its successor is seen; one that is removed, until its removal is. */
#include "tests/lib/memory_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_object {
    struct memory_object *next; /* older ones follow */
    char name[PLACE_NAME_MAX];
    uint8_t *data;
    size_t bytes;
    long from;          /* the call from which on it is seen */
    bool removal, lost; /* removal: of the older ones of this name */
};

static void object_free(struct memory_object *o)
{
    free(o->data);
    free(o);
}

/* The object of this name that is seen now; NULL: none. */
static struct memory_object *find(const struct memory_place *m, const char *name)
{
    for (struct memory_object *o = m->objects; o; o = o->next)
        if (strcmp(o->name, name) == 0 && o->from <= m->calls)
            return o->removal ? NULL : o;
    return NULL;
}

/* Counts a call. ERR_IO: it must fail. *effect: it has its effect all the same. */
static enum err call(struct memory_place *m, const char *name, bool *effect, struct errmsg *e)
{
    long n = m->calls++;
    bool is = m->fault_at >= 0 && n >= m->fault_at;
    bool now = is && n == m->fault_at;
    bool fails = is && ((m->fault == MEMORY_REFUSES && now) || m->fault == MEMORY_ENDS_BEFORE ||
                        m->fault == MEMORY_ENDS_AFTER);
    *effect = !fails || (m->fault == MEMORY_ENDS_AFTER && now);
    return fails ? err_set(e, ERR_IO, "%s/%s: call %ld fails", m->place.where, name, n) : ERR_OK;
}

/* Adds an object, or a removal of one, as the call that was just counted. Takes its data. */
static void add(struct memory_place *m, const char *name, uint8_t *take, size_t bytes, bool removal)
{
    struct memory_object *o = calloc(1, sizeof *o);
    bool now = m->fault_at >= 0 && m->calls - 1 == m->fault_at;
    (void)snprintf(o->name, sizeof o->name, "%s", name);
    o->data = take;
    o->bytes = bytes;
    o->removal = removal;
    o->from = now && m->fault == MEMORY_DELAYS ? m->calls + MEMORY_LATE : m->calls;
    o->lost = now && m->fault == MEMORY_LOSES;
    o->next = m->objects;
    m->objects = o;
}

/* ---- writing ---- */

struct written {
    uint8_t *data;
    size_t bytes;
};

static enum err memory_begin(struct place_writer *w, struct errmsg *e)
{
    bool effect;
    enum err err = call(w->of->state, w->name, &effect, e);
    if (!err)
        w->object = calloc(1, sizeof(struct written));
    return err;
}

static enum err memory_append(struct place_writer *w, const void *data, size_t bytes,
                              struct errmsg *e)
{
    struct written *to = w->object;
    bool effect;
    enum err err = call(w->of->state, w->name, &effect, e);
    if (err)
        return err;
    to->data = realloc(to->data, to->bytes + bytes + 1);
    if (bytes)
        memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
    return ERR_OK;
}

static enum err memory_commit(struct place_writer *w, struct errmsg *e)
{
    struct written *to = w->object;
    bool effect;
    enum err err = call(w->of->state, w->name, &effect, e);
    if (effect) {
        add(w->of->state, w->name, to->data, to->bytes, false);
        to->data = NULL;
    }
    return err;
}

static void memory_abort(struct place_writer *w)
{
    struct written *to = w->object;
    free(to->data);
    free(to);
}

/* ---- reading ---- */

static enum err memory_open(struct place_reader *r, struct errmsg *e)
{
    const struct memory_place *m = r->of->state;
    bool effect;
    enum err err = call(r->of->state, r->name, &effect, e);
    if (err)
        return err;
    struct memory_object *o = find(m, r->name);
    if (!o)
        return err_set(e, ERR_NOTFOUND, "%s: there is none", r->path);
    r->object = o;
    r->bytes = o->bytes;
    return ERR_OK;
}

static enum err memory_read(struct place_reader *r, uint64_t at, void *out, size_t bytes,
                            size_t *got, struct errmsg *e)
{
    const struct memory_object *o = r->object;
    bool effect;
    enum err err = call(r->of->state, r->name, &effect, e);
    if (err)
        return err;
    *got = at >= o->bytes ? 0 : o->bytes - at < bytes ? o->bytes - at : bytes;
    if (*got)
        memcpy(out, o->data + at, *got);
    return ERR_OK;
}

static void memory_close(struct place_reader *r)
{
    (void)r;
}

/* ---- what is there ---- */

/* Is the object in the folder? *in: its name there, or that of the folder in which it is. */
static bool is_in(const char *name, const char *folder, char in[PLACE_NAME_MAX])
{
    size_t n = strlen(folder);
    if (n && (strncmp(name, folder, n) != 0 || name[n] != '/'))
        return false;
    (void)snprintf(in, PLACE_NAME_MAX, "%s", name + (n ? n + 1 : 0));
    in[strcspn(in, "/")] = '\0';
    return true;
}

static enum err memory_stat(const struct place *p, const char *name, int64_t *written_ms,
                            struct errmsg *e)
{
    struct memory_place *m = p->state;
    bool effect;
    enum err err = call(m, name, &effect, e);
    const struct memory_object *o = find(m, name);
    if (!err && !o)
        return err_set(e, ERR_NOTFOUND, "%s/%s: there is none", p->where, name);
    *written_ms = err ? 0 : o->from;
    return err;
}

static enum err memory_list(const struct place *p, const char *folder, place_each *each, void *ctx,
                            struct errmsg *e)
{
    struct memory_place *m = p->state;
    char in[PLACE_NAME_MAX], other[PLACE_NAME_MAX];
    bool effect;
    enum err err = call(m, folder, &effect, e);
    for (const struct memory_object *o = m->objects; o && !err; o = o->next) {
        if (find(m, o->name) != o || !is_in(o->name, folder, in))
            continue;
        bool first = true; /* of its folder */
        for (const struct memory_object *q = m->objects; q != o; q = q->next)
            first = first && !(find(m, q->name) == q && is_in(q->name, folder, other) &&
                               strcmp(in, other) == 0);
        err = first ? each(ctx, in) : ERR_OK;
    }
    return err;
}

static enum err memory_remove(const struct place *p, const char *name, struct errmsg *e)
{
    struct memory_place *m = p->state;
    bool effect;
    enum err err = call(m, name, &effect, e);
    if (!err && !find(m, name))
        return err_set(e, ERR_NOTFOUND, "%s/%s: there is none", p->where, name);
    if (effect)
        add(m, name, NULL, 0, true);
    return err;
}

/* The oldest first: who needs another order removes by name before. */
static void memory_clear(const struct place *p, const char *folder, bool leftovers)
{
    struct memory_place *m = p->state;
    char in[PLACE_NAME_MAX];
    struct errmsg e;
    const struct memory_object *oldest;
    do {
        oldest = NULL;
        for (const struct memory_object *o = m->objects; o; o = o->next)
            if (find(m, o->name) == o && is_in(o->name, folder, in))
                oldest = o;
        /* an aborted writer leaves nothing here */
    } while (!leftovers && oldest && memory_remove(p, oldest->name, &e) == ERR_OK);
}

static const struct place_type memory_type = {
    .begin = memory_begin,
    .append = memory_append,
    .commit = memory_commit,
    .abort = memory_abort,
    .open = memory_open,
    .read = memory_read,
    .close = memory_close,
    .stat = memory_stat,
    .list = memory_list,
    .remove = memory_remove,
    .clear = memory_clear,
};

void memory_place_open(struct memory_place *m)
{
    *m = (struct memory_place){.fault_at = -1};
    m->place = (struct place){&memory_type, m, "memory"};
}

void memory_place_close(struct memory_place *m)
{
    while (m->objects) {
        struct memory_object *o = m->objects;
        m->objects = o->next;
        object_free(o);
    }
}

void memory_place_fail(struct memory_place *m, enum memory_fault fault, long n)
{
    m->fault = fault;
    m->fault_at = n < 0 ? -1 : m->calls + n;
}

bool memory_place_restart(struct memory_place *m)
{
    bool came = m->fault_at >= 0 && m->calls > m->fault_at;
    m->fault_at = -1;
    for (struct memory_object **at = &m->objects; *at;) {
        struct memory_object *o = *at;
        if (o->lost) {
            *at = o->next;
            object_free(o);
        } else {
            at = &o->next;
        }
    }
    return came;
}

size_t memory_place_objects(const struct memory_place *m)
{
    size_t n = 0;
    for (const struct memory_object *o = m->objects; o; o = o->next)
        n += find(m, o->name) == o;
    return n;
}
