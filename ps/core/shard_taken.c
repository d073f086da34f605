/* Records which pushes were applied, for top_k's error feedback. A worker that withholds values must know if its own push
 * was applied, or another worker's push of the same data, or neither. So a shard records, for each worker's last task, which
 * chunks of its pushes are in an update, and adds the record to every reply: a worker that lost a reply gets the record with
 * the next one (docs/explanation/semantics.md, "Top-k"). Until the worker knows the record it pushes nothing else. */
#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"

enum { PUSHES_MAX = 1024 }; /* of one task: its nodes, more if a part was assigned again */

struct taken_push {
    uint64_t number;
    uint8_t *chunks; /* a bit for each chunk of the shard */
};

struct taken {
    struct taken *next;
    uint32_t worker;
    uint64_t incarnation, name; /* the last task */
    size_t pushes, room;
    struct taken_push *push;
    Gradwire__Taken *message, **at; /* memory for all ranges of all pushes */
};

static struct taken *find(const struct shard *s, uint32_t worker)
{
    struct taken *t = s->taken.of;
    while (t && t->worker != worker)
        t = t->next;
    return t;
}

enum err shard_taken_join(struct shard *s, uint32_t worker, uint64_t incarnation)
{
    if (!s->taken.on || !s->planned)
        return ERR_OK;
    struct taken *t = find(s, worker);
    if (!t) {
        t = mem_zalloc(1, sizeof *t);
        if (!t)
            return ERR_NOMEM;
        *t = (struct taken){.next = s->taken.of, .worker = worker};
        s->taken.of = t;
    }
    if (incarnation > t->incarnation) {
        t->incarnation = incarnation;
        t->pushes = 0;
    }
    return ERR_OK;
}

void shard_taken_close(struct shard *s)
{
    while (s->taken.of) {
        struct taken *t = s->taken.of;
        s->taken.of = t->next;
        for (size_t i = 0; i < t->room; i++)
            mem_free(t->push[i].chunks);
        mem_free(t->push);
        mem_free(t->message);
        mem_free(t->at);
        mem_free(t);
    }
}

static struct taken_push *push_of(const struct taken *t, uint64_t number)
{
    for (size_t i = 0; i < t->pushes; i++)
        if (t->push[i].number == number)
            return &t->push[i];
    return NULL;
}

/* Make room for one more push. At most every second chunk begins a range. */
static enum err grow(const struct shard *s, struct taken *t)
{
    size_t runs = (t->room + 1) * ((size_t)s->me.chunks / 2 + 1);
    struct taken_push *push = mem_resize(t->push, t->room + 1, sizeof *push);
    t->push = push ? push : t->push;
    Gradwire__Taken *message = mem_resize(t->message, runs, sizeof *message);
    t->message = message ? message : t->message;
    Gradwire__Taken **at = mem_resize(t->at, runs, sizeof *at);
    t->at = at ? at : t->at;
    uint8_t *chunks = push && message && at ? mem_zalloc(((size_t)s->me.chunks + 7) / 8, 1) : NULL;
    if (!chunks)
        return ERR_NOMEM;
    t->push[t->room++].chunks = chunks;
    return ERR_OK;
}

enum err shard_taken_room(struct shard *s, const struct shard_peer *from, uint64_t name,
                          uint64_t number)
{
    struct taken *t = s->taken.on ? find(s, from->worker) : NULL;
    if (!t || t->incarnation != from->incarnation)
        return ERR_OK;
    if (t->name != name)
        t->pushes = 0;
    t->name = name;
    if (push_of(t, number))
        return ERR_OK;
    if (t->pushes == PUSHES_MAX || (t->pushes == t->room && grow(s, t)))
        return ERR_NOMEM;
    struct taken_push *n = &t->push[t->pushes++];
    n->number = number;
    memset(n->chunks, 0, ((size_t)s->me.chunks + 7) / 8);
    return ERR_OK;
}

void shard_taken_note(struct shard *s, uint32_t worker, uint64_t incarnation, uint64_t name,
                      uint64_t number, uint32_t chunk)
{
    struct taken *t = s->taken.on ? find(s, worker) : NULL;
    if (!t || t->incarnation != incarnation || t->name != name)
        return;
    struct taken_push *n = push_of(t, number);
    assert(chunk < s->me.chunks && t->pushes <= t->room);
    if (n)
        n->chunks[chunk / 8] |= (uint8_t)(1u << (chunk % 8));
}

void shard_taken_reject(struct shard *s, uint64_t step)
{
    for (struct taken *t = s->taken.of; t; t = t->next)
        if (t->name == step)
            t->pushes = 0;
}

static bool has(const struct taken_push *n, uint32_t chunk)
{
    return n->chunks[chunk / 8] >> (chunk % 8) & 1;
}

static size_t put_push(const struct shard *s, struct taken *t, const struct taken_push *n,
                       uint32_t first, uint32_t end, size_t used)
{
    for (uint32_t c = first; c < end; c++) {
        if (!has(n, c))
            continue;
        uint32_t from = c;
        while (c < end && has(n, c))
            c++;
        Gradwire__Taken *m = t->at[used] = &t->message[used];
        gradwire__taken__init(m);
        m->number = n->number;
        m->first_chunk = s->me.first_chunk + from;
        m->chunks = c - from;
        used++;
    }
    return used;
}

void shard_taken_put(struct shard *s, const struct shard_peer *to, Gradwire__Reply *m,
                     uint32_t first, uint32_t count)
{
    struct taken *t = s->taken.on ? find(s, to->worker) : NULL;
    if (!t || t->incarnation != to->incarnation)
        return;
    size_t used = 0;
    for (size_t i = 0; i < t->pushes; i++)
        used = put_push(s, t, &t->push[i], first, first + count, used);
    assert(used <= t->room * ((size_t)s->me.chunks / 2 + 1)); /* grow has allocated this */
    m->taken = t->at;
    m->n_taken = used;
}
