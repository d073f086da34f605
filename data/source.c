/* Blocks of a source, and the loader, which prefetches its leaves on one thread. */
#include "data/source.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/texts.h"
#include "common/rows/key.h"
#include "data/meaning/schema.h"
#include "common/math/kernels.h"

enum err source_block(struct source *s, uint64_t first, uint32_t n, struct leaf_buffer *buffer,
                      struct leaf *out, struct errmsg *e)
{
    assert(first <= s->rows);
    uint64_t left = s->rows - first;
    return s->type->block(s, first, left < n ? (uint32_t)left : n, buffer, out, e);
}

/* ---- slices of rows ---- */

enum err row_slices_init(struct row_slices *s, const struct job *job, struct errmsg *e)
{
    struct row_slices made = {.n = job_slices(job), .lookup = job_slices_lookup(job)};
    const char *at = job->metrics.values;
    for (uint32_t i = 0; i + 1 < made.n; i++) {
        const struct job_lookup *of = &job->model.lookup[made.lookup];
        const struct job_key_column *c = &job->data.csv.column[of->column].key;
        const char *word = at;
        size_t bytes;
        uint64_t key;
        at = texts_next(at, &bytes);
        made.list = of->list;
        if (!word_key(c, word_key_seed(c->space), word, bytes, &key))
            return err_set(e, ERR_INPUT,
                           "metrics.values: \"%.*s\" is not an integer, and keys of "
                           "%s are integers",
                           (int)bytes, word, job->metrics.by);
        made.mixed[i] = key_mix(key);
        for (uint32_t k = 0; k < i; k++)
            if (made.mixed[k] == made.mixed[i])
                return err_set(e, ERR_INPUT, "metrics.values: \"%.*s\" has the key of value %u",
                               (int)bytes, word, k + 1);
    }
    *s = made;
    return ERR_OK;
}

/* The place of a key in the list, by which its rows name it; LOOKUP_NONE: no row of the leaf has it. */
static uint32_t place_of(const struct key_list *l, uint64_t mixed)
{
    uint32_t low = 0, high = l->keys;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (l->mixed[middle] < mixed)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->keys && l->mixed[low] == mixed ? low : LOOKUP_NONE;
}

void row_slices_of(const struct row_slices *s, const struct leaf *of, uint8_t *out)
{
    uint32_t place[SLICES_MAX], n = 0;
    uint8_t slice[SLICES_MAX];
    for (uint32_t i = 0; of->keys && i + 1 < s->n; i++) {
        place[n] = place_of(&of->keys->list[s->list], s->mixed[i]);
        slice[n] = (uint8_t)i;
        n += place[n] != LOOKUP_NONE;
    }
    memset(out, (int)(s->n - 1), of->n);
    for (uint32_t i = 0; n && i < of->n; i++) {
        uint32_t at = of->keys->column[s->lookup].at[i];
        for (uint32_t k = 0; k < n; k++)
            if (place[k] == at)
                out[i] = slice[k];
    }
}

/* ---- the loader ---- */

enum { LOADER_SPARES_MAX = JOB_MICROBATCHES_MAX };

/* The owner of a slot. Only the loader thread writes into a FILLING one, and only its borrower uses a LENT one. */
enum slot_state { SLOT_EMPTY, SLOT_FILLING, SLOT_READY, SLOT_LENT };

struct slot {
    enum slot_state state;
    struct leaf m;
    struct leaf_buffer *buffer;
    const float *y; /* of each leaf in this buffer, so it names the slot */
    enum err err;   /* of the filling; the caller that requests the microbatch gets it */
    struct errmsg e;
};

/* The leaves of one batch that were handed out: they are not prefetched again. */
struct taken {
    uint64_t id;
    uint64_t leaves[JOB_MICROBATCHES_MAX / 64]; /* a bit each */
};

struct loader {
    struct source *source;
    uint32_t depth, spares;
    struct slot *slot; /* the ring: (depth), followed by the spares: (LOADER_SPARES_MAX) */
    pthread_t thread;

    pthread_mutex_t lock; /* for all fields below, and the slots' states and names */
    pthread_cond_t work;  /* the thread waits here: nothing to fill, or no room */
    pthread_cond_t filled;
    int quit, asleep;
    uint64_t base_id; /* wanted or requested last: prefetch stays within `depth` ids of it */
    uint64_t next_id, end_id; /* the batch to fill next, and the end of the prediction */
    uint32_t next_leaf, first_leaf, leaves;
    struct taken taken[2]; /* by id % 2 */
    struct loader_stats stats;
};

/* ---- slots ---- */
static enum err slot_init(struct slot *s, const struct loader *l)
{
    enum err err = leaf_buffer_new(&s->buffer, &l->source->form,
                                   order_leaf_rows_max(&l->source->order), LEAF_ALL, NULL);
    if (!err)
        err = leaf_buffer_finish(s->buffer, &s->m, NULL);
    s->y = s->m.y;
    return err;
}

static void slot_fill(struct slot *s, const struct loader *l)
{
    s->err = l->source->type->leaf(l->source, s->m.id, s->m.leaf, s->buffer, &s->m, &s->e);
}

/* The slot that has (id, leaf), or will have it; NULL: none. The caller holds the lock. */
static struct slot *find(struct loader *l, uint64_t id, uint32_t leaf)
{
    for (uint32_t i = 0; i < l->depth; i++) {
        struct slot *s = &l->slot[i];
        if ((s->state == SLOT_READY || s->state == SLOT_FILLING) && s->m.id == id &&
            s->m.leaf == leaf)
            return s;
    }
    return NULL;
}

static struct slot *find_empty(struct loader *l)
{
    for (uint32_t i = 0; i < l->depth; i++)
        if (l->slot[i].state == SLOT_EMPTY)
            return &l->slot[i];
    return NULL;
}

static uint32_t count_empty(const struct loader *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->depth; i++)
        n += l->slot[i].state == SLOT_EMPTY;
    return n;
}

/* Asserts that the next leaf is a wanted one, and that each lent microbatch was filled. The caller holds the lock. */
static void check(const struct loader *l)
{
    assert(l->leaves == 0 ||
           (l->next_leaf >= l->first_leaf && l->next_leaf - l->first_leaf < l->leaves));
    assert(l->next_id >= l->base_id || l->next_id >= l->end_id);
    assert(l->stats.prefetched <= l->stats.filled);
    (void)l;
}

static void wake_if_half_empty(struct loader *l)
{
    if (l->asleep && l->next_id < l->end_id && 2 * count_empty(l) >= l->depth)
        pthread_cond_signal(&l->work);
}

/* ---- leaves that were handed out ---- */
static int is_taken(const struct loader *l, uint64_t id, uint32_t leaf)
{
    const struct taken *t = &l->taken[id % 2];
    return t->id == id && (t->leaves[leaf / 64] >> (leaf % 64) & 1);
}

static void take(struct loader *l, uint64_t id, uint32_t leaf)
{
    struct taken *t = &l->taken[id % 2];
    if (t->id != id)
        *t = (struct taken){.id = id};
    t->leaves[leaf / 64] |= UINT64_C(1) << (leaf % 64);
}

/* Batch `id` is requested: the one before it may still be in use, older ones were passed. */
static void pass_by(struct loader *l, uint64_t id)
{
    if (id <= l->base_id)
        return;
    for (uint32_t i = 0; i < l->depth; i++)
        if (l->slot[i].state == SLOT_READY && l->slot[i].m.id + 1 < id)
            l->slot[i].state = SLOT_EMPTY;
    l->base_id = id;
    if (l->next_id < id) {
        l->next_id = id;
        l->next_leaf = l->first_leaf;
    }
}

/* ---- the thread ---- */

/* Wanted soon: a slot for a much later one would be missing for the next one. */
static int is_wanted(const struct loader *l, const struct leaf *m)
{
    return m->id < l->end_id && m->id + 1 >= l->base_id && m->id <= l->base_id + l->depth &&
           m->leaf >= l->first_leaf && m->leaf - l->first_leaf < l->leaves;
}

static void advance(struct loader *l)
{
    if (++l->next_leaf - l->first_leaf < l->leaves)
        return;
    l->next_leaf = l->first_leaf;
    l->next_id++;
}

/* The slot to fill next, named and FILLING; NULL: nothing to do now. The caller holds the lock. */
static struct slot *claim(struct loader *l)
{
    while (l->next_id < l->end_id &&
           (is_taken(l, l->next_id, l->next_leaf) || find(l, l->next_id, l->next_leaf)))
        advance(l);
    struct slot *s = l->next_id < l->end_id ? find_empty(l) : NULL;
    if (!s)
        return NULL;
    /* each one only once */
    assert(!find(l, l->next_id, l->next_leaf) && !is_taken(l, l->next_id, l->next_leaf));
    s->m.id = l->next_id;
    s->m.leaf = l->next_leaf;
    s->state = SLOT_FILLING;
    advance(l);
    check(l);
    return s;
}

static void wait_for_work(struct loader *l)
{
    l->asleep = 1;
    pthread_cond_wait(&l->work, &l->lock);
    l->asleep = 0;
}

static void *loader_run(void *arg)
{
    struct loader *l = arg;
    kernels_flush_denormals();
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        struct slot *s = claim(l);
        if (!s) {
            wait_for_work(l);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        slot_fill(s, l);
        pthread_mutex_lock(&l->lock);
        l->stats.filled++;
        /* loader_want may have been called in between */
        s->state = is_wanted(l, &s->m) ? SLOT_READY : SLOT_EMPTY;
        pthread_cond_broadcast(&l->filled);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Signals are for the loop that waits for them, not for this thread. */
static int start(struct loader *l)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&l->thread, NULL, loader_run, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        pthread_setname_np(l->thread, "loader");
    return rc;
}

/* ---- lifetime ---- */
static void close_slots(struct loader *l)
{
    for (uint32_t i = 0; i < l->depth + l->spares; i++)
        leaf_buffer_free(l->slot[i].buffer);
    mem_free(l->slot);
}

static void close_locks(struct loader *l)
{
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->filled);
}

static int init_slots(struct loader *l)
{
    l->slot = mem_zalloc((size_t)l->depth + LOADER_SPARES_MAX, sizeof *l->slot);
    int ok = l->slot != NULL;
    for (uint32_t i = 0; i < l->depth && ok; i++)
        ok = slot_init(&l->slot[i], l) == ERR_OK;
    return ok;
}

enum err loader_new(struct loader **out, struct source *source, uint32_t depth, struct errmsg *e)
{
    const struct order *o = &source->order;
    assert(depth > 0 && o->microbatches > 0 && o->microbatches <= JOB_MICROBATCHES_MAX);
    (void)o;
    struct loader *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return err_memory_of(e, "loader");
    l->source = source;
    l->depth = depth;
    l->taken[0].id = l->taken[1].id = UINT64_MAX;
    if (!init_slots(l))
        goto no_slots;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->filled, NULL);
    if (start(l) != 0)
        goto no_thread;
    *out = l;
    return ERR_OK;

no_thread:
    close_locks(l);
no_slots:
    if (l->slot)
        close_slots(l);
    mem_free(l);
    return err_set(e, ERR_NOMEM, "loader: out of memory for %u microbatches or a thread", depth);
}

void loader_free(struct loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->quit = 1;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    close_locks(l);
    close_slots(l);
    mem_free(l);
}

/* ---- for the compute threads ---- */

/* A spare slot, LENT; allocated when it is first needed. NULL: *err has the reason. The caller holds the lock. */
static struct slot *borrow_spare(struct loader *l, enum err *err)
{
    struct slot *spare = l->slot + l->depth;
    for (uint32_t i = 0; i < l->spares; i++)
        if (spare[i].state == SLOT_EMPTY) {
            spare[i].state = SLOT_LENT;
            return &spare[i];
        }
    *err = l->spares == LOADER_SPARES_MAX ? ERR_STATE : ERR_NOMEM;
    if (*err == ERR_STATE)
        return NULL;
    struct slot *s = &spare[l->spares];
    assert(!s->buffer && s->state == SLOT_EMPTY); /* the first one without memory */
    if (slot_init(s, l))
        return NULL;
    l->spares++;
    s->state = SLOT_LENT;
    return s;
}

/* The prefetched slot, after a wait if it is being filled; or NULL. The caller holds the lock. */
static struct slot *borrow_prefetched(struct loader *l, uint64_t id, uint32_t leaf)
{
    struct slot *s;
    while ((s = find(l, id, leaf)) && s->state == SLOT_FILLING)
        pthread_cond_wait(&l->filled, &l->lock);
    if (s)
        s->state = SLOT_LENT;
    return s;
}

enum err loader_get(struct loader *l, uint64_t id, uint32_t leaf, struct leaf *out,
                    struct errmsg *e)
{
    assert(leaf < l->source->order.microbatches);
    enum err err = ERR_OK;
    pthread_mutex_lock(&l->lock);
    struct slot *s = borrow_prefetched(l, id, leaf);
    int prefetched = s != NULL;
    if (!s)
        s = borrow_spare(l, &err);
    if (s) {
        *(prefetched ? &l->stats.prefetched : &l->stats.gathered) += 1;
        take(l, id, leaf);
        pass_by(l, id);
        assert(is_taken(l, id, leaf) && l->base_id >= id);
        check(l);
        wake_if_half_empty(l);
    }
    pthread_mutex_unlock(&l->lock);
    if (!s)
        return err_set(e, err, "a microbatch: %s", err_str(err));
    if (!prefetched) {
        s->m.id = id;
        s->m.leaf = leaf;
        slot_fill(s, l);
    }
    struct leaf m = s->m;
    if (s->err) {
        err = err_set(e, s->err, "%s", s->e.text);
        loader_release(l, &m);
        return err;
    }
    *out = m;
    return ERR_OK;
}

void loader_release(struct loader *l, struct leaf *m)
{
    pthread_mutex_lock(&l->lock);
    struct slot *s = l->slot;
    while (s->y != m->y) /* a microbatch from elsewhere is a bug */
        s++;
    assert(s->state == SLOT_LENT && s->m.id == m->id && s->m.leaf == m->leaf);
    s->state = SLOT_EMPTY;
    wake_if_half_empty(l);
    pthread_mutex_unlock(&l->lock);
    *m = (struct leaf){0};
}

struct loader_stats loader_stats(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    struct loader_stats stats = l->stats;
    pthread_mutex_unlock(&l->lock);
    return stats;
}

void loader_want(struct loader *l, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                 uint32_t leaves)
{
    const struct source_type *type = l->source->type;
    assert(first_leaf + leaves <= l->source->order.microbatches);
    if (type->want)
        type->want(l->source, id, end_id, first_leaf, leaves);
    pthread_mutex_lock(&l->lock);
    l->base_id = l->next_id = id;
    l->end_id = leaves ? end_id : id;
    l->next_leaf = l->first_leaf = first_leaf;
    l->leaves = leaves;
    for (uint32_t i = 0; i < l->depth; i++) {
        struct slot *s = &l->slot[i];
        if (s->state == SLOT_READY && !is_wanted(l, &s->m))
            s->state = SLOT_EMPTY;
    }
    if (l->asleep && l->next_id < l->end_id)
        pthread_cond_signal(&l->work);
    check(l);
    pthread_mutex_unlock(&l->lock);
}
