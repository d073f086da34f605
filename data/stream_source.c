/* Rows of a stream as a source: it holds the groups of windows that its leaves come from (data/core/order.h), and nothing else.
 *
 * Happy path: a leaf needs rows of one group of its lane. It is there: the source's own thread has read it ahead, while leaves
 * came from the group before it. Each lane has two groups at most: the present one, and the next: where batches are leased, that
 * of the next lease.
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

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/process/cgroup.h"
#include "common/process/paths.h"
#include "data/csv_rows.h"
#include "data/meaning/encoding_given.h"
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
    uint64_t expected_bytes; /* while it is read */
};

struct lane {
    struct group group[2];
    bool wanted;
    uint64_t place; /* groups from the job's beginning to the one that a leaf needed last */
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
    uint64_t id, end_id; /* of the batches that are wanted */
    uint64_t soon_id;    /* the one after them; 0: unknown */
    uint64_t held_bytes; /* of groups, those that are being read among them */
    uint64_t row_bytes;  /* of a row, as far as rows are known */
    uint64_t bad, bad_rows_max;
    uint8_t *counted;  /* bits of windows: their bad rows are in `bad` */
    struct lane *lane; /* (microbatches) */
};

/* ---- reading a group ---- */

struct group_reading {
    struct group *g;
    bool several; /* rows have different numbers of cells */
    uint64_t bad;
};

static enum err keep_row(void *ctx, const uint32_t *cells, size_t n, bool bad, struct errmsg *e)
{
    struct group_reading *r = ctx;
    struct group *g = r->g;
    uint32_t *to = mem_grow(g->cells, &g->capacity, g->used + n, sizeof *to);
    if (!to)
        return err_memory_for(e, "the rows of a window (data.window, data.mix)");
    g->cells = to;
    memcpy(to + g->used, cells, n * sizeof *to);
    g->used += n;
    g->rows++;
    r->bad += bad;
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

static const uint32_t *row_cells(const struct group *g, uint64_t at)
{
    assert(at < g->rows);
    return g->cells + (g->begin ? g->begin[at] : at * (g->used / g->rows));
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

/* The memory of a group, as far as rows are known. */
static uint64_t expected_bytes(const struct stream *s, uint32_t lane, uint64_t number)
{
    const uint64_t rows = s->lanes.mix * s->lanes.window, first = number * rows,
                   left = lanes_length(&s->lanes, lane) - first;
    return (left < rows ? left : rows) * s->row_bytes;
}

/* Count the bad rows of a window, once. */
static enum err count_bad(struct stream *s, uint32_t lane, uint64_t window, uint64_t bad,
                          struct errmsg *e)
{
    const uint64_t bit = window * s->lanes.lanes + lane;
    pthread_mutex_lock(&s->lock);
    if (!(s->counted[bit / 8] >> bit % 8 & 1))
        s->bad += bad;
    s->counted[bit / 8] |= (uint8_t)(1 << bit % 8);
    const bool many = bad && s->bad > s->bad_rows_max;
    pthread_mutex_unlock(&s->lock);
    return many ? err_set(e, ERR_INPUT,
                          "data.train: more than %" PRIu64 " bad rows (data.bad_rows_max)",
                          s->bad_rows_max)
                : ERR_OK;
}

/* Read the windows of the group, without the lock. */
static enum err read_windows(struct stream *s, uint32_t lane, struct group *g, struct errmsg *e)
{
    struct group_reading r = {.g = g, .several = s->reader->schema->several > 0};
    const uint64_t windows = windows_of(s, lane), first = g->number * s->lanes.mix;
    const size_t likely = g->expected_bytes / sizeof *g->cells;
    uint32_t *cells = likely > g->capacity ? mem_resize(g->cells, likely, sizeof *cells) : NULL;
    enum err err = ERR_OK;
    if (cells) { /* else they grow */
        g->cells = cells;
        g->capacity = likely;
    }
    for (uint64_t w = first; w < windows && w < first + s->lanes.mix && !err; w++) {
        const struct lanes_span rows = lanes_window_rows(&s->lanes, lane, w);
        r.bad = 0;
        err = s->reader->type->read(s->reader, rows.first, rows.end, keep_row, &r, e);
        if (!err && s->reader->may_be_bad)
            err = count_bad(s, lane, w, r.bad, e);
    }
    uint32_t *fit = err ? NULL : mem_resize(g->cells, g->used, sizeof *fit);
    if (fit) {
        g->cells = fit;
        g->capacity = g->used;
    }
    return err;
}

/* Fill an unused slot, whose memory is used again; the caller holds the lock, which is given up meanwhile. */
static enum err read_group(struct stream *s, uint32_t lane, struct group *g, uint64_t number,
                           struct errmsg *e)
{
    assert(g->users == 0 && g->state != GROUP_READING);
    s->held_bytes -= group_bytes(g);
    g->used = g->rows = 0;
    g->state = GROUP_READING;
    g->number = number;
    g->expected_bytes = expected_bytes(s, lane, number);
    s->held_bytes += g->expected_bytes;
    pthread_mutex_unlock(&s->lock);
    const enum err err = read_windows(s, lane, g, e);
    pthread_mutex_lock(&s->lock);
    s->held_bytes += group_bytes(g) - g->expected_bytes;
    if (g->rows && group_bytes(g) / g->rows > s->row_bytes)
        s->row_bytes = group_bytes(g) / g->rows;
    g->state = GROUP_READY;
    if (err)
        empty_group(s, g);
    pthread_cond_broadcast(&s->changed);
    return err;
}

/* ---- a leaf ---- */

static bool has_group(const struct group *g, uint64_t number)
{
    return g->state != GROUP_EMPTY && g->number == number;
}

/* The slot of a group, or for it: not that of the group `stays`. */
static struct group *lane_slot(struct lane *l, uint64_t number, uint64_t stays)
{
    struct group *g = l->group;
    if (has_group(&g[0], number) || has_group(&g[1], number))
        return &g[!has_group(&g[0], number)];
    return &g[has_group(&g[0], stays)];
}

/* Drop the lane's other group if both do not fit. */
static void make_way(struct stream *s, uint32_t lane, const struct group *g, uint64_t number)
{
    struct group *other = &s->lane[lane].group[g == s->lane[lane].group];
    if (other->state == GROUP_READY && !other->users &&
        s->held_bytes - group_bytes(g) + expected_bytes(s, lane, number) > s->budget_bytes)
        empty_group(s, other);
}

/* Get the group at this place of the lane, in use until group_release. */
static enum err acquire_group(struct stream *s, uint32_t lane, uint64_t place, struct group **out,
                              struct errmsg *e)
{
    struct lane *l = &s->lane[lane];
    const uint64_t number = place % groups_of(s, lane);
    enum err err = ERR_OK;
    pthread_mutex_lock(&s->lock);
    const uint64_t last = l->place % groups_of(s, lane);
    struct group *g = lane_slot(l, number, last);
    l->place = place;
    while (!err && !(g->state == GROUP_READY && g->number == number)) {
        if (g->state == GROUP_READING || g->users) {
            pthread_cond_wait(&s->changed, &s->lock);
        } else {
            make_way(s, lane, g, number);
            err = read_group(s, lane, g, number, e);
        }
        g = lane_slot(l, number, last);
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
    return leaf_buffer_add(buffer, row_cells(g, at), e);
}

static enum err stream_leaf(struct source *of, uint64_t id, uint32_t leaf,
                            struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    struct stream *s = (struct stream *)of;
    const struct lanes *l = &s->lanes;
    const uint32_t lane = leaf / l->leaves;
    const uint64_t before = id / lanes_batches(l) * groups_of(s, lane);
    uint64_t *rows = leaf_buffer_numbers(buffer);
    const uint32_t n = lanes_leaf(l, id, leaf, rows);
    enum err err = ERR_OK;
    leaf_buffer_clear(buffer);
    for (uint32_t i = 0; i < n && !err;) {
        struct group *g;
        const uint64_t number = window_of(l, rows[i]) / l->mix;
        err = acquire_group(s, lane, before + number, &g, e);
        if (err)
            return err;
        for (; i < n && window_of(l, rows[i]) / l->mix == number && !err; i++)
            err = add_row(s, lane, g, rows[i], buffer, e);
        release_group(s, lane, g);
    }
    return err ? err : leaf_buffer_finish(buffer, out, e);
}

static enum err add_cells_of_block(void *buffer, const uint32_t *cells, size_t n, bool bad,
                                   struct errmsg *e)
{
    (void)n, (void)bad;
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
    pthread_mutex_lock(&s->lock);
    s->id = id;
    s->end_id = end_id;
    for (uint32_t j = 0; j < s->lanes.lanes; j++) {
        const uint32_t first = j * s->lanes.leaves, end = first + s->lanes.leaves;
        s->lane[j].wanted = end > first_leaf && first < first_leaf + leaves;
        drop_unwanted(s, j);
    }
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static void stream_soon(struct source *of, uint64_t id)
{
    struct stream *s = (struct stream *)of;
    pthread_mutex_lock(&s->lock);
    s->soon_id = id;
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

/* The place of the first group that the batch needs. */
static uint64_t place_of(const struct stream *s, uint32_t lane, uint64_t id)
{
    const struct lanes *l = &s->lanes;
    const uint64_t batches = lanes_batches(l);
    return id / batches * groups_of(s, lane) + id % batches * l->batch_rows / (l->mix * l->window);
}

/* The place to read ahead. False: no batch is wanted that needs it. */
static bool next_place(const struct stream *s, uint32_t lane, uint64_t *place)
{
    const uint64_t first = place_of(s, lane, s->id);
    *place = s->lane[lane].place + 1;
    if (*place < first)
        *place = first;
    if (first_batch(s, lane, *place) < s->end_id)
        return true;
    *place = place_of(s, lane, s->soon_id);
    return s->soon_id > 0;
}

/* The next group of a lane, in a slot that is free for it. NULL: it is there, it is not wanted, nobody has needed the one before it yet, or
 * there is no memory. A lane without rows has no group that is there. */
static struct group *next_group(struct stream *s, uint32_t lane, uint64_t *number)
{
    struct lane *l = &s->lane[lane];
    const uint64_t groups = groups_of(s, lane);
    uint64_t place;
    if (!l->wanted || !groups || !next_place(s, lane, &place))
        return NULL;
    const uint64_t last = l->place % groups;
    const struct group *now = lane_slot(l, last, last);
    *number = place % groups;
    struct group *g = lane_slot(l, *number, last);
    if (now->state != GROUP_READY || now->number != last || has_group(g, *number) ||
        g->state == GROUP_READING || g->users)
        return NULL;
    const uint64_t more = expected_bytes(s, lane, *number);
    return s->held_bytes - group_bytes(g) + more <= s->budget_bytes ? g : NULL;
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
        const bool idle = !g || read_group(s, lane, g, number, &e);
        if (!idle)
            drop_unwanted(s, lane);
        else if (!s->quit) /* which can have come while a group that cannot be read was read */
            pthread_cond_wait(&s->work, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the source ---- */

static uint64_t least_row_bytes(const struct leaf_form *f)
{
    return schema_fixed_cells(f->schema) * sizeof(uint32_t) +
           (f->schema->several ? sizeof(size_t) : 0);
}

/* All lanes can come to this process, if all others die; then nothing is read ahead. *least: the bytes of their rows. Where batches
 * are leased, it is one window. row_bytes: as a sample has them, if that is more than the least. */
static enum err check_memory(uint64_t *least, const struct lanes *l, const struct leaf_form *f,
                             uint64_t row_bytes, uint64_t budget_bytes, struct errmsg *e)
{
    const bool sampled = row_bytes > least_row_bytes(f);
    const double all = (double)l->lanes * l->mix * (double)l->window *
                       (double)(sampled ? row_bytes : least_row_bytes(f));
    const char *how = sampled ? ", as a sample of the rows shows" : " at least";
    *least = (uint64_t)all;
    if (all <= (double)budget_bytes)
        return ERR_OK;
    if (l->leased)
        return err_set(e, ERR_INPUT,
                       "a window of %" PRIu64
                       " rows (data.window x data.mix, in whole batches) needs "
                       "%.1f MiB%s, and data.memory_mb has %" PRIu64
                       ": make the window smaller, or give more memory",
                       l->mix * l->window, all / (1 << 20), how, budget_bytes >> 20);
    return err_set(e, ERR_INPUT,
                   "%" PRIu32 " windows (data.mix) of %" PRIu64 " rows (data.window) for each of "
                   "%" PRIu32 " microbatches need %.1f MiB%s, and data.memory_mb has %" PRIu64
                   ": make the windows smaller, or give more memory",
                   l->mix, l->window, l->lanes, all / (1 << 20), how, budget_bytes >> 20);
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

enum err stream_source_new(struct source **out, const struct stream_config *c, struct errmsg *e)
{
    static const struct source_type type = {stream_leaf, stream_block, stream_want, stream_soon};
    const uint64_t windows = c->lanes->lanes * (c->lanes->turns + 1);
    const struct leaf_form form = leaf_form_of_cells(c->reader->schema);
    uint64_t least;
    struct stream *s = mem_zalloc(1, sizeof *s);
    struct lane *lane = mem_zalloc(c->lanes->lanes, sizeof *lane);
    uint8_t *counted = mem_zalloc(windows / 8 + 1, 1);
    enum err err = s && lane && counted
                       ? check_memory(&least, c->lanes, &form, 0, c->budget_bytes, e)
                       : err_memory(e);
    if (err) {
        mem_free(counted);
        mem_free(lane);
        mem_free(s);
        return err;
    }
    *s = (struct stream){.source = {.type = &type,
                                    .rows = c->reader->rows,
                                    .form = form,
                                    .order = *c->order,
                                    .contents = c->contents},
                         .reader = c->reader,
                         .lanes = *c->lanes,
                         .budget_bytes = c->budget_bytes,
                         .row_bytes = least_row_bytes(&form),
                         .bad_rows_max = c->bad_rows_max,
                         .counted = counted,
                         .end_id = UINT64_MAX,
                         .lane = lane};
    for (uint32_t j = 0; j < c->lanes->lanes; j++)
        lane[j].wanted = true;
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
    if (s->bad)
        log_warn("data.train: %" PRIu64 " bad rows of those that this process read are left out",
                 s->bad);
    mem_free(s->counted);
    mem_free(s->lane);
    mem_free(s);
}

/* ---- rows that are held out, as evaluations read them ---- */

/* All rows are divided into spans. Of the span that a block needs, and of some behind it, the rows are kept; a thread that needs a
 * span which another one reads, reads the next one meanwhile. */

enum {
    HELD_ROWS = 8192, /* of a span, about */
    HELD_ROWS_LEAST = 256,
    HELD_SPANS = 4,              /* that are kept */
    HELD_SPAN_ROWS_MAX = 1 << 20 /* of all rows */
};

struct held {
    struct source source;
    struct row_reader *reader; /* gives the rows that are held out */
    uint64_t first;            /* before it none is held out */
    uint64_t span_rows, spans;
    uint64_t *before;     /* (spans + 1) how many are held out before each span */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct group span[HELD_SPANS];
    uint64_t next; /* span to be counted; and the first error */
    enum err err;
    struct errmsg e;
};

static struct lanes_span span_rows(const struct held *h, uint64_t number)
{
    const uint64_t first = h->first + number * h->span_rows, left = h->reader->rows - first;
    return (struct lanes_span){first, first + (left < h->span_rows ? left : h->span_rows)};
}

static enum err count_row(void *ctx, const uint32_t *cells, size_t n, bool bad, struct errmsg *e)
{
    (void)cells, (void)n, (void)bad, (void)e;
    ++*(uint64_t *)ctx;
    return ERR_OK;
}

/* Rows that are held out by a column's keys are read; of the others the numbers tell. */
static enum err count_span(const struct held *h, uint64_t number, uint64_t *rows, struct errmsg *e)
{
    const struct row_reader *r = h->reader;
    const struct lanes_span all = span_rows(h, number);
    if (r->share > 0 && *r->column)
        return r->type->read(h->reader, all.first, all.end, count_row, rows, e);
    for (uint64_t row = all.first; row < all.end; row++)
        *rows += r->share > 0 ? order_holds_out(r->hold_key, row, r->share) : 1;
    return ERR_OK;
}

static void count_spans(void *ctx, uint32_t thread)
{
    struct held *h = ctx;
    (void)thread;
    pthread_mutex_lock(&h->lock);
    while (!h->err && h->next < h->spans) {
        const uint64_t number = h->next++;
        struct errmsg e;
        uint64_t rows = 0;
        pthread_mutex_unlock(&h->lock);
        const enum err err = count_span(h, number, &rows, &e);
        pthread_mutex_lock(&h->lock);
        h->before[number + 1] = rows;
        if (err && !h->err) {
            h->err = err;
            h->e = e;
        }
    }
    pthread_mutex_unlock(&h->lock);
}

static void held_free(struct held *h)
{
    if (!h)
        return;
    for (int i = 0; i < HELD_SPANS; i++) {
        mem_free(h->span[i].cells);
        mem_free(h->span[i].begin);
    }
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    mem_free(h->before);
    mem_free(h);
}

/* Fill the slot; the caller holds the lock, which is given up meanwhile. */
static enum err read_span(struct held *h, struct group *g, uint64_t number, struct errmsg *e)
{
    const struct lanes_span all = span_rows(h, number);
    struct group_reading r = {.g = g, .several = h->reader->schema->several > 0};
    g->state = GROUP_READING;
    g->number = number;
    g->used = g->rows = 0;
    pthread_mutex_unlock(&h->lock);
    enum err err = h->reader->type->read(h->reader, all.first, all.end, keep_row, &r, e);
    if (!err && g->rows != h->before[number + 1] - h->before[number])
        err = err_set(e, ERR_INPUT, "data.train: it changed while it was read");
    pthread_mutex_lock(&h->lock);
    g->state = err ? GROUP_EMPTY : GROUP_READY;
    pthread_cond_broadcast(&h->changed);
    return err;
}

static struct group *find_span(struct held *h, uint64_t number)
{
    for (int i = 0; i < HELD_SPANS; i++)
        if (has_group(&h->span[i], number))
            return &h->span[i];
    return NULL;
}

/* A slot that is not needed for span `number` and those behind it; NULL: all are in use. */
static struct group *spare_span(struct held *h, uint64_t number)
{
    for (int i = 0; i < HELD_SPANS; i++) {
        struct group *g = &h->span[i];
        if (g->state == GROUP_EMPTY ||
            (g->state == GROUP_READY && !g->users && g->number - number >= HELD_SPANS))
            return g;
    }
    return NULL;
}

/* Get the span, in use until release_span. */
static enum err acquire_span(struct held *h, uint64_t number, struct group **out, struct errmsg *e)
{
    struct group *g;
    enum err err = ERR_OK;
    bool ahead = true;
    pthread_mutex_lock(&h->lock);
    while (!err && !((g = find_span(h, number)) && g->state == GROUP_READY)) {
        uint64_t want = number;
        while (want < h->spans && want - number < HELD_SPANS && find_span(h, want))
            want++;
        struct group *spare =
            want < h->spans && want - number < HELD_SPANS ? spare_span(h, number) : NULL;
        if (!spare || (want > number && !ahead))
            pthread_cond_wait(&h->changed, &h->lock);
        else if (want == number)
            err = read_span(h, spare, want, e);
        else /* the thread that needs it gets the error */
            ahead = !read_span(h, spare, want, &(struct errmsg){""});
    }
    if (!err)
        g->users++;
    pthread_mutex_unlock(&h->lock);
    *out = g;
    return err;
}

static void release_span(struct held *h, struct group *g)
{
    pthread_mutex_lock(&h->lock);
    g->users--;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static enum err held_block(struct source *of, uint64_t first, uint32_t n,
                           struct leaf_buffer *buffer, struct leaf *out, struct errmsg *e)
{
    struct held *h = (struct held *)of;
    const uint64_t end = first + n;
    uint64_t low = 0, high = h->spans; /* the span is in [low, high) */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        *(h->before[middle] <= first ? &low : &high) = middle;
    }
    leaf_buffer_clear(buffer);
    enum err err = ERR_OK;
    for (; first < end && !err; low++) {
        struct group *g;
        if (h->before[low + 1] <= first) /* behind it they begin */
            continue;
        err = acquire_span(h, low, &g, e);
        if (err)
            return err;
        for (; first < end && first < h->before[low + 1] && !err; first++)
            err = leaf_buffer_add(buffer, row_cells(g, first - h->before[low]), e);
        release_span(h, g);
    }
    return err ? err : leaf_buffer_finish(buffer, out, e);
}

/* most: rows of a span, about. The reader must outlive it. Owns: held_free, also after an error. */
static enum err held_new(struct held **out, struct row_reader *reader, uint64_t first,
                         uint64_t most, struct pool *pool, struct errmsg *e)
{
    static const struct source_type type = {.block = held_block};
    struct held *h = mem_zalloc(1, sizeof *h);
    if (!h)
        return err_memory(e);
    reader->held = reader->share > 0;
    *h = (struct held){.source = {.type = &type, .form = leaf_form_of_cells(reader->schema)},
                       .reader = reader,
                       .first = reader->held ? 0 : first,
                       .span_rows = most};
    if (reader->held &&
        !*reader->column) { /* of a sorted column all rows of a span can be held out */
        const double rows = (double)most / reader->share;
        h->span_rows = rows < HELD_SPAN_ROWS_MAX ? (uint64_t)rows : HELD_SPAN_ROWS_MAX;
    }
    const uint64_t rows = reader->rows - h->first;
    h->spans = rows / h->span_rows + (rows % h->span_rows != 0);
    h->before = mem_zalloc(h->spans + 1, sizeof *h->before);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    *out = h;
    if (!h->before)
        return err_memory(e);
    pool_run(pool, count_spans, h);
    for (uint64_t i = 0; i < h->spans; i++)
        h->before[i + 1] += h->before[i];
    h->source.rows = h->before[h->spans];
    return h->err ? err_set(e, h->err, "%s", h->e.text) : ERR_OK;
}

/* ---- the training part of a job ---- */

struct stream_rows {
    struct reading reading;
    struct csv_grammar grammar;
    struct paths paths;
    struct text_index index;
    struct lanes lanes;
    struct order order;
    struct row_reader *reader;
    struct source *source;
    uint64_t taken_bytes; /* of the memory for rows */
    /* rows that are held out; NULL: none, or another process evaluates */
    struct row_reader *held_reader;
    struct held *held;
    uint64_t held_bytes;
};

static const struct index_type *index_of(const struct stream_rows *s)
{
    return s->reading.job->data.format == DATA_PARQUET ? &parquet_index_type : &csv_index_type;
}

enum err dataset_check_stream(const struct job *job, struct errmsg *e)
{
    struct stream_rows s = {
        .reading = {.job = job, .key = "data.train", .patterns = job->data.train}};
    enum err err = reading_paths(&s.paths, &s.reading, e);
    if (!err && index_of(&s)->check)
        err = index_of(&s)->check(&s.paths, e);
    paths_close(&s.paths);
    return err ? err_wrap(e, err, "data.train: ") : ERR_OK;
}

enum err dataset_begin_stream(struct dataset *d, const struct job *job,
                              const struct encoding_given *given, struct errmsg *e)
{
    struct stream_rows *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_memory(e);
    d->scale = job->data.scale;
    d->stream = s;
    s->reading = (struct reading){
        .job = job, .key = "data.train", .patterns = job->data.train, .given = given};
    s->grammar = csv_grammar_of(&job->data.csv);
    enum err err = reading_paths(&s->paths, &s->reading, e);
    if (!err)
        err = reader_csv.begin_stream(d, &s->reading, e);
    return err ? err_wrap(e, err, "data.train: ") : ERR_OK;
}

/* The last rows that are held out are behind the stream's end. */
static enum err end_before_last(struct dataset *d, struct errmsg *e)
{
    const struct reading *r = &d->stream->reading;
    const uint64_t rows = d->rows, last = order_last(rows, r->job->data.validation.last);
    const struct dataset all = {.held = {.noted = rows, .rows = last}};
    if (!(r->job->data.validation.last > 0))
        return ERR_OK;
    d->rows -= last;
    return reading_check_parts(r, &all, d->rows, e);
}

void stream_lanes(struct lanes *l, const struct job *job, uint64_t rows)
{
    const bool leased = job->training.update != UPDATE_SYNC;
    (leased ? lanes_init_leased : lanes_init)(l, rows, job->training.batch_size,
                                              job->training.microbatches, job->data.window,
                                              job->data.mix, job->training.seed);
}

/* The rows are known: find their order, and the memory for them. */
static enum err find_order(struct dataset *d, struct errmsg *e)
{
    struct stream_rows *s = d->stream;
    const struct job *job = s->reading.job;
    const struct leaf_form form = leaf_form_of_cells(s->reading.schema);
    uint64_t least;
    enum err err = index_of(s)->contents(&s->index, &s->paths, &d->contents, e);
    if (err)
        return err;
    d->rows = d->contents.print.rows = text_index_rows(&s->index);
    if (!d->rows)
        return err_set(e, ERR_INPUT, "%s: it has no row", s->paths.path[0]);
    err = end_before_last(d, e);
    if (err || s->reading.complete)
        return err;
    stream_lanes(&s->lanes, job, d->rows);
    s->order = (struct order){.rows = d->rows,
                              .batch_size = job->training.batch_size,
                              .seed = job->training.seed,
                              .microbatches = job->training.microbatches,
                              .window_batches = lanes_window_batches(&s->lanes)};
    err = check_memory(&least, &s->lanes, &form, d->row_bytes, spill_left(s->reading.spill), e);
    if (!err && spill_take_memory(s->reading.spill, least))
        s->taken_bytes = least;
    return err;
}

static bool has_headers(const struct stream_rows *s)
{
    return s->reading.job->data.csv.header != HEADER_NONE;
}

/* Without an encoding: whether a number has a scale or a fill to learn, or a category its words. */
static bool has_lessons(const struct stream_rows *s)
{
    const bool given = s->reading.complete || encoding_given_teaches(s->reading.given);
    bool has = false;
    for (uint32_t i = 0; i < s->reading.schema->inputs && !given; i++) {
        const struct schema_input *in = &s->reading.schema->input[i];
        has |= in->learns;
        has |= in->kind == COLUMN_NUMBER && in->bucketing == BUCKETS_NONE &&
               (in->missing == MISSING_MEAN || in->scale == SCALE_STANDARD ||
                in->scale == SCALE_MIN_MAX);
    }
    return has;
}

/* Reads the rows that are left. */
static enum err open_reader(struct stream_rows *s, struct row_reader **out, struct errmsg *e)
{
    enum err err = index_of(s)->reader(out, &s->reading, &s->index, &s->paths, e);
    if (!err)
        (*out)->rows = s->order.rows;
    return err;
}

/* The shape is known when words are. */
static enum err learn(struct dataset *d, struct pool *pool, struct errmsg *e)
{
    struct stream_rows *s = d->stream;
    struct row_reader *reader;
    uint64_t bytes = 0;
    for (size_t i = 0; i < d->contents.files; i++)
        bytes += s->index.file[i].compressed
                     ? 0
                     : d->contents.file[i].bytes; /* its reader counts them */
    s->reading.teaches = true;
    enum err err = open_reader(s, &reader, e);
    s->reading.teaches = false;
    if (err)
        return err;
    reader->keep_bytes = spill_left(s->reading.spill) / 2; /* and the rest for words */
    dataset_info("reading all rows of data.train, which teach words, scales and means");
    err = stream_learn(reader, bytes, STREAM_LEARN_ROWS, reader->keep_bytes, pool, e);
    reader->type->free(reader);
    if (!err && !d->rank)
        err = dataset_set_shape(d, &s->reading, "data.columns", d->rows, 1,
                                &s->reading.schema->features, e);
    return err;
}

enum err dataset_index(struct dataset *d, const char *kept, struct errmsg *e)
{
    struct stream_rows *s = d->stream;
    const struct job *job = s->reading.job;
    struct pool *pool = NULL;
    enum err err = pool_new(&pool, job->worker.threads ? job->worker.threads : cores_usable(), e);
    if (!err)
        err = index_of(s)->make(&s->index, &s->paths, &s->grammar, has_headers(s),
                                TEXT_INDEX_CELL_BYTES, csv_piece_bytes(&job->data.csv), kept, pool,
                                e);
    if (!err)
        err = find_order(d, e);
    if (!err && has_lessons(s))
        err = learn(d, pool, e);
    pool_free(pool);
    return err ? err_wrap(e, err, "data.train: ") : ERR_OK;
}

enum err dataset_index_of_chief(struct dataset *d, const uint8_t *index, size_t bytes,
                                struct errmsg *e)
{
    struct stream_rows *s = d->stream;
    enum err err = index_of(s)->of_chief(&s->index, &s->paths, &s->grammar, has_headers(s),
                                         TEXT_INDEX_CELL_BYTES, index, bytes, e);
    if (!err)
        err = find_order(d, e);
    return err ? err_wrap(e, err, "data.train: ") : ERR_OK;
}

static void set_classes(struct stream_rows *s, uint32_t classes)
{
    const bool two = job_loss_labels(s->reading.job->model.head[0].loss) == LABELS_TWO_CLASSES;
    s->reading.classes = !classes && two ? 2 : classes;
}

static enum err check_shares(struct dataset *d, uint64_t held, struct errmsg *e)
{
    d->held.rows = held;
    d->held.noted = d->rows;
    return reading_check_parts(&d->stream->reading, d, d->rows - held, e);
}

/* Index, and the rows that it has, are the stream's: they are known by the way in which they are held out. */
static enum err held_fingerprint(struct contents *c, const struct job *job,
                                 const struct contents *whole)
{
    const struct job_validation *v = &job->data.validation;
    const struct {
        uint64_t key;
        double last, share;
    } way = {order_hold_key(job->training.seed, *v->column), v->last, v->share};
    struct sha256 *hash = sha256_new();
    if (!hash)
        return ERR_NOMEM;
    sha256_add(hash, whole->fingerprint, sizeof whole->fingerprint);
    sha256_add(hash, &way, sizeof way);
    sha256_add(hash, v->column, strlen(v->column));
    const bool failed = sha256_final(hash, c->fingerprint) != 0;
    sha256_free(hash);
    return failed ? ERR_NOMEM : ERR_OK;
}

/* Their memory is as much as is left, up to that of HELD_ROWS a span. */
/* Decoders of Parquet that stay open have half of what is left: scores need memory, too. */
static void keep_decoders(struct stream_rows *s, struct row_reader *reader, uint64_t *taken_bytes)
{
    if (s->reading.job->data.format != DATA_PARQUET)
        return;
    reader->keep_bytes = spill_left(s->reading.spill) / 2;
    if (spill_take_memory(s->reading.spill, reader->keep_bytes))
        *taken_bytes += reader->keep_bytes;
}

static enum err open_held(struct stream_rows *s, uint32_t classes, struct errmsg *e)
{
    const struct job *job = s->reading.job;
    const struct leaf_form form = leaf_form_of_cells(s->reading.schema);
    const uint64_t all = text_index_rows(&s->index), row_bytes = least_row_bytes(&form);
    uint64_t most = spill_left(s->reading.spill) / row_bytes / HELD_SPANS;
    most = most > HELD_ROWS ? HELD_ROWS : most < HELD_ROWS_LEAST ? HELD_ROWS_LEAST : most;
    struct pool *pool = NULL;
    set_classes(s, classes);
    if (*job->data.validation.column)
        dataset_info("reading all rows of data.train, to count those that data.validation.column "
                     "holds out");
    enum err err = index_of(s)->reader(&s->held_reader, &s->reading, &s->index, &s->paths, e);
    if (!err)
        err = pool_new(&pool, job->worker.threads ? job->worker.threads : cores_usable(), e);
    if (!err)
        err = held_new(&s->held, s->held_reader, all - order_last(all, job->data.validation.last),
                       most, pool, e);
    pool_free(pool);
    if (!err && spill_take_memory(s->reading.spill, HELD_SPANS * most * row_bytes))
        s->held_bytes = HELD_SPANS * most * row_bytes;
    if (!err)
        keep_decoders(s, s->held_reader, &s->held_bytes);
    return err;
}

enum err dataset_hold_stream(struct dataset *d, struct dataset *train, uint32_t classes,
                             struct errmsg *e)
{
    struct stream_rows *s = train->stream;
    const struct job *job = s->reading.job;
    struct contents contents = {.files = 0};
    enum err err = open_held(s, classes, e);
    if (!err && job->data.validation.share > 0)
        err = check_shares(train, s->held->source.rows, e);
    if (!err && held_fingerprint(&contents, job, &train->contents))
        err = err_memory(e);
    if (err)
        return err_wrap(e, err, "data.train: ");
    *d = (struct dataset){.rows = s->held->source.rows,
                          .contents = contents,
                          .whole = train,
                          .held_rows = &s->held->source,
                          .features = train->features,
                          .rank = train->rank,
                          .scale = train->scale};
    memcpy(d->shape, train->shape, sizeof d->shape);
    return ERR_OK;
}

/* Twice the least, if it is left: then each lane's next group is read ahead. */
static void reserve_more(struct stream_rows *s)
{
    const uint64_t left = spill_left(s->reading.spill);
    const uint64_t more = left < s->taken_bytes ? left : s->taken_bytes;
    if (spill_take_memory(s->reading.spill, more))
        s->taken_bytes += more;
}

enum err dataset_open_stream(struct dataset *d, uint32_t classes, struct source **out,
                             struct errmsg *e)
{
    struct stream_rows *s = d->stream;
    const struct job *job = s->reading.job;
    set_classes(s, classes);
    enum err err = open_reader(s, &s->reader, e);
    if (err)
        return err;
    reserve_more(s);
    const uint64_t budget_bytes = s->taken_bytes;
    keep_decoders(s, s->reader, &s->taken_bytes);
    const struct stream_config config = {.reader = s->reader,
                                         .lanes = &s->lanes,
                                         .order = &s->order,
                                         .contents = &d->contents,
                                         .budget_bytes = budget_bytes,
                                         .bad_rows_max = job->data.csv.bad_rows_max};
    err = stream_source_new(&s->source, &config, e);
    *out = s->source;
    return err;
}

void stream_rows_free(struct stream_rows *s)
{
    if (!s)
        return;
    if (s->source)
        stream_source_free(s->source);
    if (s->reader)
        s->reader->type->free(s->reader);
    held_free(s->held);
    if (s->held_reader)
        s->held_reader->type->free(s->held_reader);
    if (s->reading.spill)
        spill_give_memory(s->reading.spill, s->taken_bytes + s->held_bytes);
    text_index_close(&s->index);
    paths_close(&s->paths);
    mem_free(s);
}
