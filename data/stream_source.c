/* Rows of a stream as a source: it holds the groups of windows that its leaves come from (data/core/order.h), and nothing else.
 *
 * Happy path: a leaf needs rows of one group of its lane. It is there: the source's own thread has read it ahead, while leaves
 * came from the group before it. Each lane has two groups at most: the present one, and the next.
 *
 * Failure modes: the group is not there, as after a takeover or in the first step: the caller reads it, or waits for the thread
 * that does. Another lane's leaves are wanted from now on: the groups of lanes that are not wanted are dropped. There is
 * no memory for the next group: nothing is read ahead, and the lane's present group makes way for it. Rows cannot be read:
 * the caller that needs them gets the error; one while reading ahead is dropped, and comes again with the request. */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "common/base/mem.h"
#include "data/readers.h"

enum group_state { GROUP_EMPTY, GROUP_READING, GROUP_READY };

/* The rows of consecutive windows of a lane, in the order of its places. */
struct group {
    enum group_state state;
    uint64_t number; /* in its lane */
    uint32_t users;  /* leaves that are being filled from it; it stays as long */
    uint32_t *cells; /* packed and scaled rows, one behind the other */
    size_t used, capacity;
    size_t *begin; /* (rows + 1) where each row begins; NULL: each has as many cells as the first */
    size_t rows, begins;
};

struct lane {
    struct group group[2];
    bool wanted;
    uint64_t
        place; /* groups from the job's beginning to the one that a leaf needed last; its slot is place % 2 */
};

struct stream {
    struct source source;
    struct row_reader *reader;
    struct lanes lanes;
    uint64_t budget_bytes;
    pthread_t thread;

    pthread_mutex_t
        lock; /* of all below; the cells of a group belong to its reader, and then to all */
    pthread_cond_t work, changed;
    bool quit;
    uint64_t end_id; /* of the batches that are wanted */
    uint64_t held_bytes;
    struct lane *lane; /* (microbatches) */
};

/* ---- reading a group ---- */

struct group_reading {
    struct group *g;
    bool several; /* rows have different numbers of cells */
};

static enum err keep_row(void *ctx, const uint32_t *cells, size_t n, struct errmsg *e)
{
    const struct group_reading *r = ctx;
    struct group *g = r->g;
    uint32_t *to = mem_grow(g->cells, &g->capacity, g->used + n, sizeof *to);
    if (!to)
        return err_memory_for(e, "the rows of a window (data.window, data.mix)");
    g->cells = to;
    memcpy(to + g->used, cells, n * sizeof *to);
    g->used += n;
    g->rows++;
    if (!r->several)
        return ERR_OK;
    size_t *begin = mem_grow(g->begin, &g->begins, g->rows + 1, sizeof *begin);
    if (!begin)
        return err_memory_for(e, "the rows of a window (data.window, data.mix)");
    g->begin = begin;
    begin[0] = 0;
    begin[g->rows] = g->used;
    return ERR_OK;
}

static uint64_t group_bytes(const struct group *g)
{
    return g->capacity * sizeof *g->cells + g->begins * sizeof *g->begin;
}

static void empty_group(struct stream *s, struct group *g)
{
    assert(g->users == 0 && g->state != GROUP_READING);
    s->held_bytes -= group_bytes(g);
    mem_free(g->cells);
    mem_free(g->begin);
    *g = (struct group){.state = GROUP_EMPTY};
}

/* Drop the lane's groups that nobody uses, if its leaves are not wanted. */
static void drop_unwanted(struct stream *s, uint32_t lane)
{
    for (int k = 0; k < 2 && !s->lane[lane].wanted; k++) {
        struct group *g = &s->lane[lane].group[k];
        if (g->state == GROUP_READY && !g->users)
            empty_group(s, g);
    }
}

static uint64_t windows_of(const struct stream *s, uint32_t lane)
{
    const uint64_t length = lanes_length(&s->lanes, lane), window = s->lanes.window;
    return length / window + (length % window != 0);
}

static uint64_t groups_of(const struct stream *s, uint32_t lane)
{
    const uint64_t windows = windows_of(s, lane), mix = s->lanes.mix;
    return windows / mix + (windows % mix != 0);
}

/* Read the windows of the group, without the lock. */
static enum err read_windows(struct stream *s, uint32_t lane, struct group *g, struct errmsg *e)
{
    struct group_reading r = {g, s->reader->schema->several > 0};
    const uint64_t windows = windows_of(s, lane), first = g->number * s->lanes.mix;
    enum err err = ERR_OK;
    for (uint64_t w = first; w < windows && w < first + s->lanes.mix && !err; w++) {
        const struct lanes_span rows = lanes_window_rows(&s->lanes, lane, w);
        err = s->reader->type->read(s->reader, rows.first, rows.end, keep_row, &r, e);
    }
    uint32_t *fit = err ? NULL : mem_resize(g->cells, g->used, sizeof *fit);
    if (fit) {
        g->cells = fit;
        g->capacity = g->used;
    }
    return err;
}

/* Fill an unused slot; the caller holds the lock, which is given up meanwhile. */
static enum err read_group(struct stream *s, uint32_t lane, struct group *g, uint64_t number,
                           struct errmsg *e)
{
    empty_group(s, g);
    g->state = GROUP_READING;
    g->number = number;
    pthread_mutex_unlock(&s->lock);
    const enum err err = read_windows(s, lane, g, e);
    pthread_mutex_lock(&s->lock);
    s->held_bytes += group_bytes(g);
    g->state = GROUP_READY;
    if (err)
        empty_group(s, g);
    pthread_cond_broadcast(&s->changed);
    return err;
}

/* ---- a leaf ---- */

/* The slot of a group; a lane with one group has one slot. */
static struct group *lane_slot(const struct stream *s, uint32_t lane, uint64_t place)
{
    return &s->lane[lane].group[groups_of(s, lane) > 1 ? place % 2 : 0];
}

/* Drop the lane's other group if both do not fit: it is likely to be as large. */
static void make_way(struct stream *s, uint32_t lane, const struct group *g)
{
    struct group *other = &s->lane[lane].group[g == s->lane[lane].group];
    if (other->state == GROUP_READY && !other->users &&
        s->held_bytes - group_bytes(g) + group_bytes(other) > s->budget_bytes)
        empty_group(s, other);
}

/* Get the group at this place of the lane, in use until group_release. */
static enum err acquire_group(struct stream *s, uint32_t lane, uint64_t place, struct group **out,
                              struct errmsg *e)
{
    const uint64_t number = place % groups_of(s, lane);
    struct group *g = lane_slot(s, lane, place);
    enum err err = ERR_OK;
    pthread_mutex_lock(&s->lock);
    s->lane[lane].place = place;
    while (!err && !(g->state == GROUP_READY && g->number == number)) {
        if (g->state == GROUP_READING || g->users) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        make_way(s, lane, g);
        err = read_group(s, lane, g, number, e);
    }
    g->users += !err;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    *out = g;
    return err;
}

static void release_group(struct stream *s, uint32_t lane, struct group *g)
{
    pthread_mutex_lock(&s->lock);
    g->users--;
    drop_unwanted(s, lane);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The window of a row, in its lane. */
static uint64_t window_of(const struct lanes *l, uint64_t row)
{
    return row / l->window / l->lanes;
}

/* Add the row of the group to the leaf. */
static enum err add_row(const struct stream *s, uint32_t lane, const struct group *g, uint64_t row,
                        struct leaf_buffer *buffer, struct errmsg *e)
{
    const struct lanes *l = &s->lanes;
    const uint64_t window = window_of(l, row);
    const uint64_t at =
        (window - g->number * l->mix) * l->window + row - lanes_window_rows(l, lane, window).first;
    assert(at < g->rows);
    const size_t begin = g->begin ? g->begin[at] : at * (g->used / g->rows);
    return leaf_buffer_add(buffer, g->cells + begin, e);
}

static enum err stream_leaf(struct source *of, uint64_t id, uint32_t leaf,
                            struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    struct stream *s = (struct stream *)of;
    const struct lanes *l = &s->lanes;
    const uint64_t before = id / lanes_batches(l) * groups_of(s, leaf);
    uint64_t *rows = leaf_buffer_numbers(buffer);
    const uint32_t n = lanes_leaf(l, id, leaf, rows);
    enum err err = ERR_OK;
    leaf_buffer_clear(buffer);
    for (uint32_t i = 0; i < n && !err;) {
        struct group *g;
        const uint64_t number = window_of(l, rows[i]) / l->mix;
        err = acquire_group(s, leaf, before + number, &g, e);
        if (err)
            return err;
        for (; i < n && window_of(l, rows[i]) / l->mix == number && !err; i++)
            err = add_row(s, leaf, g, rows[i], buffer, e);
        release_group(s, leaf, g);
    }
    return err ? err : leaf_buffer_finish(buffer, out, e);
}

static enum err add_cells_of_block(void *buffer, const uint32_t *cells, size_t n, struct errmsg *e)
{
    (void)n;
    return leaf_buffer_add(buffer, cells, e);
}

static enum err stream_block(struct source *of, uint64_t first, uint32_t n,
                             struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    struct row_reader *r = ((struct stream *)of)->reader;
    leaf_buffer_clear(buffer);
    enum err err = r->type->read(r, first, first + n, add_cells_of_block, buffer, e);
    return err ? err : leaf_buffer_finish(buffer, out, e);
}

/* ---- reading ahead ---- */

static void stream_want(struct source *of, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                        uint32_t leaves)
{
    struct stream *s = (struct stream *)of;
    (void)id;
    pthread_mutex_lock(&s->lock);
    s->end_id = end_id;
    for (uint32_t j = 0; j < s->lanes.lanes; j++) {
        s->lane[j].wanted = j >= first_leaf && j - first_leaf < leaves;
        drop_unwanted(s, j);
    }
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* The first batch with rows of the group at this place of the lane. */
static uint64_t first_batch(const struct stream *s, uint32_t lane, uint64_t place)
{
    const struct lanes *l = &s->lanes;
    const uint64_t groups = groups_of(s, lane);
    return place / groups * lanes_batches(l) + place % groups * l->mix * l->window / l->batch_rows;
}

/* The next group of a lane, in a slot that is free for it. NULL: it is there, it is not wanted, nobody has needed the one before it yet, or
 * there is no memory. A lane without rows has no group that is there. */
static struct group *next_group(struct stream *s, uint32_t lane, uint64_t *number)
{
    const struct lane *l = &s->lane[lane];
    const struct group *now = lane_slot(s, lane, l->place);
    struct group *g = lane_slot(s, lane, l->place + 1);
    if (!l->wanted || g == now || now->state != GROUP_READY ||
        first_batch(s, lane, l->place + 1) >= s->end_id)
        return NULL;
    *number = (l->place + 1) % groups_of(s, lane);
    if (g->state == GROUP_READING || g->users || (g->state == GROUP_READY && g->number == *number))
        return NULL;
    return s->held_bytes - group_bytes(g) + group_bytes(now) <= s->budget_bytes ? g : NULL;
}

static void *read_ahead(void *ctx)
{
    struct stream *s = ctx;
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        struct group *g = NULL;
        uint64_t number = 0;
        uint32_t lane = 0;
        struct errmsg e;
        while (lane < s->lanes.lanes && !(g = next_group(s, lane, &number)))
            lane++;
        if (!g || read_group(s, lane, g, number, &e))
            pthread_cond_wait(&s->work, &s->lock);
        else
            drop_unwanted(s, lane);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the source ---- */

/* All lanes can come to this process, if all others die; then nothing is read ahead. */
static enum err check_memory(const struct stream *s, struct errmsg *e)
{
    const struct lanes *l = &s->lanes;
    const double row = (double)schema_fixed_cells(s->reader->schema) * sizeof(uint32_t);
    const double all = (double)l->lanes * l->mix * (double)l->window * row;
    if (all <= (double)s->budget_bytes)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "%" PRIu32 " windows (data.mix) of %" PRIu64 " rows (data.window) for each of "
                   "%" PRIu32
                   " microbatches need %.0f MiB at least, and data.memory_mb has %" PRIu64
                   ": make the windows smaller, or give more memory",
                   l->mix, l->window, l->lanes, all / (1 << 20), s->budget_bytes >> 20);
}

static enum err start_thread(struct stream *s, struct errmsg *e)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&s->thread, NULL, read_ahead, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? err_set(e, ERR_NOMEM, "a thread: %s", strerror(error)) : ERR_OK;
}

enum err stream_source_new(struct source **out, struct row_reader *reader,
                           const struct lanes *lanes, const struct order *order,
                           const struct contents *contents, uint64_t budget_bytes, struct errmsg *e)
{
    static const struct source_type type = {stream_leaf, stream_block, stream_want};
    struct stream *s = mem_zalloc(1, sizeof *s);
    struct lane *lane = mem_zalloc(lanes->lanes, sizeof *lane);
    enum err err = s && lane ? ERR_OK : err_memory(e);
    if (!err) {
        *s = (struct stream){.source = {.type = &type,
                                        .rows = reader->rows,
                                        .form = leaf_form_of_cells(reader->schema),
                                        .order = *order,
                                        .contents = contents},
                             .reader = reader,
                             .lanes = *lanes,
                             .budget_bytes = budget_bytes,
                             .end_id = UINT64_MAX,
                             .lane = lane};
        err = check_memory(s, e);
    }
    for (uint32_t j = 0; !err && j < lanes->lanes; j++)
        lane[j].wanted = true;
    if (err) {
        mem_free(lane);
        mem_free(s);
        return err;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->changed, NULL);
    err = start_thread(s, e);
    if (err) {
        s->quit = true; /* there is no thread to wait for */
        stream_source_free(&s->source);
        return err;
    }
    *out = &s->source;
    return ERR_OK;
}

void stream_source_free(struct source *of)
{
    struct stream *s = (struct stream *)of;
    if (!s->quit) {
        pthread_mutex_lock(&s->lock);
        s->quit = true;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        (void)pthread_join(s->thread, NULL);
    }
    for (uint32_t j = 0; j < s->lanes.lanes; j++)
        for (int k = 0; k < 2; k++)
            empty_group(s, &s->lane[j].group[k]);
    pthread_cond_destroy(&s->changed);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    mem_free(s->lane);
    mem_free(s);
}
