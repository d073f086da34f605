/* The index of csv files, and their rows by it. A thread takes the next part, and scans it without knowing in which state the reader
 * reaches it; so does a worker to which the chief deals it. A part is joined when all earlier parts are. So a file is read once, in
 * parallel, and INDEX_DEALS_MOST parts at most wait to be joined. A compressed file is read from its beginning by one thread of the
 * chief, which knows the state.
 *
 * Failure modes: a worker leaves, cannot read its part or answers nonsense: its parts are dealt again. It answers late: a thread of
 * this process that has nothing else to do scans the part, too, and the first scan counts. Each gives the same, of the same bytes.
 *
 * From different states a scan soon comes to the same one: a newline ends every row that is not in quotes, and a quote closes
 * the field of a scan that was in quotes by mistake. Then one scan does for all. Two remain in text
 * without quotes, and the one in quotes has nothing to do there. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/cgroup.h"
#include "common/process/files.h"
#include "common/process/process_state.h"
#include "data/bytes/stream.h"
#include "data/core/text_index.h"
#include "data/csv_header.h"
#include "data/csv_rows.h"
#include "data/readers.h"

_Static_assert(2 * CSV_PLACES <= TEXT_INDEX_STATES, "a state is a place and a bit");
_Static_assert(sizeof(struct text_index_part) == INDEX_PART_BYTES, "it has no padding");

enum {
    /* of a cell that are scanned in one go: few as long as there are many states */
    STEP_BYTES = 64 << 10,
    STEP_MANY_BYTES = 4 << 10,
    /* of the compressed files' bytes, whose text is about four times as long: a place within a member of gzip takes about 12 KiB, and each
     * process has them all */
    PLACES = 4096
};

/* ---- states ---- */

/* A state is a place, and whether the record there was counted as a row. */
static unsigned state_of(enum csv_place place, bool counted)
{
    return (unsigned)place | (counted ? CSV_PLACES : 0);
}

/* Those in which the reader can be at a byte of the text; behind a '\r' or a blank a row is not counted yet. */
static uint32_t states_of(const struct csv_grammar *g)
{
    uint32_t states = 1U << state_of(PLACE_ROW, false) | 1U << state_of(PLACE_START, true) |
                      1U << state_of(PLACE_FIELD, true) | 1U << state_of(PLACE_FIELD, false);
    if (g->trim)
        states |= 1U << state_of(PLACE_START, false);
    if (g->quotes)
        states |= 1U << state_of(PLACE_QUOTED, true) | 1U << state_of(PLACE_AFTER_QUOTE, true);
    if (g->escape)
        states |= 1U << state_of(PLACE_ESCAPED, true);
    if (g->escape && g->quotes)
        states |= 1U << state_of(PLACE_QUOTED_ESCAPED, true);
    if (g->comment_bytes)
        states |= 1U << state_of(PLACE_COMMENT, false);
    return states;
}

/* ---- a step ---- */

struct scan {
    struct csv_format format; /* its grammar alone */
    struct text_index_part *part;
    char *text; /* (cell_bytes + comment_bytes + CSV_SCAN_PAD) a cell, and what follows it */
    size_t bytes, known;            /* of the cell; and with those that follow */
    uint32_t *mark;                 /* (STEP_BYTES + CSV_SCAN_PAD) */
    uint8_t now[TEXT_INDEX_STATES]; /* the present state, for each one of part->starts */
};

/* The findings of a step, from one state: offsets are in the cell. */
struct found {
    uint32_t first, rows_before, rows;
    uint8_t state;
};

/* Add a record, or a part of one, without its line end. fresh: it begins there. */
static void count_record(struct found *f, const struct scan *s, size_t begin, size_t end,
                         bool fresh, bool *counted)
{
    struct csv_format continued = {.grammar = s->format.grammar};
    continued.grammar.comment_bytes = 0;
    if (!*counted && begin < end &&
        !csv_is_no_row(fresh ? &s->format : &continued, s->text + begin, s->text + end)) {
        *counted = true;
        f->rows++;
    }
}

/* A record begins at the offset. */
static void note_first(struct found *f, size_t at)
{
    if (f->first != TEXT_INDEX_NONE)
        return;
    f->first = (uint32_t)at;
    f->rows_before = f->rows;
}

/* Scan the cell's bytes [at, end) from the state. */
static struct found scan_from(const struct scan *s, unsigned state, size_t at, size_t end)
{
    const struct csv_grammar *g = &s->format.grammar;
    struct found f = {.first = TEXT_INDEX_NONE};
    enum csv_place place = state % CSV_PLACES;
    bool counted = state >= CSV_PLACES, fresh = place == PLACE_ROW, comment;
    const char *text = s->text + at;
    comment = place == PLACE_COMMENT;
    if (place == PLACE_QUOTED && !memchr(text, '"', end - at) &&
        !(g->escape && memchr(text, g->escape, end - at))) {
        f.state = (uint8_t)state;
        return f;
    }
    size_t n = csv_scan_rows(s->mark, text, end - at, s->known - end, g, &place), begin = at;
    if (fresh)
        note_first(&f, at);
    for (size_t i = 0; i < n; i++) {
        if (!comment)
            count_record(&f, s, begin, at + s->mark[i], fresh, &counted);
        begin = at + s->mark[i] + 1;
        fresh = true;
        counted = comment = false;
        if (begin < end)
            note_first(&f, begin);
    }
    if (!comment && place != PLACE_COMMENT)
        count_record(&f, s, begin, end, fresh, &counted);
    f.state = (uint8_t)state_of(place, counted);
    return f;
}

/* Add what was found to what the cell has so far: `lines` of them are before the step at `at`. */
static void add_found(struct text_index_seen *seen, const struct found *f, const struct scan *s,
                      size_t at, uint32_t lines)
{
    if (seen->first == TEXT_INDEX_NONE && f->first != TEXT_INDEX_NONE) {
        seen->first = f->first;
        seen->rows_before = seen->rows + f->rows_before;
        seen->lines_before = lines + (uint32_t)csv_count(s->text + at, f->first - at, '\n');
    }
    seen->rows += f->rows;
}

/* Scan the bytes [at, end) of cell i from each state, once. Returns the number of different states behind them. */
static int scan_step(struct scan *s, uint32_t i, size_t at, size_t end)
{
    struct text_index_seen *seen = s->part->cell[i].seen;
    struct found found[TEXT_INDEX_STATES];
    const uint32_t lines = s->part->cell[i].lines;
    uint32_t done = 0, next = 0;
    for (unsigned start = 0; start < TEXT_INDEX_STATES; start++) {
        if (!(s->part->starts >> start & 1))
            continue;
        const unsigned now = s->now[start];
        if (!(done >> now & 1))
            found[now] = scan_from(s, now, at, end);
        done |= 1U << now;
        add_found(&seen[start], &found[now], s, at, lines);
        s->now[start] = found[now].state;
        next |= 1U << found[now].state;
    }
    s->part->cell[i].lines += (uint32_t)csv_count(s->text + at, end - at, '\n');
    return __builtin_popcount(next);
}

static void scan_cell(struct scan *s, uint32_t i, size_t mark_bytes)
{
    s->part->cell[i].sum = XXH3_64bits(s->text, s->bytes);
    s->part->cell[i].lines = 0;
    for (unsigned k = 0; k < TEXT_INDEX_STATES; k++)
        s->part->cell[i].seen[k] = (struct text_index_seen){.first = TEXT_INDEX_NONE};
    int states = __builtin_popcount(s->part->starts);
    for (size_t at = mark_bytes, end; at < s->bytes; at = end) {
        const size_t step = states > 2 ? STEP_MANY_BYTES : STEP_BYTES;
        end = s->bytes - at < step ? s->bytes : at + step;
        states = scan_step(s, i, at, end);
    }
}

/* ---- a part ---- */

/* The text of an unlikely kind, or its mark, at a file's beginning. */
static enum err skip_mark(const struct scan *s, size_t *mark_bytes, struct errmsg *e)
{
    struct csv_piece p = {.text = s->text, .bytes = s->bytes};
    return csv_file_skip_mark(&p, mark_bytes, e);
}

static enum err scan_cells(struct scan *s, struct indexed_text *from, const struct text_index *x,
                           struct errmsg *e)
{
    const struct text_index_file *f = &x->file[s->part->file];
    const size_t ahead = s->format.grammar.comment_bytes;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < s->part->cells && !err; i++) {
        const uint64_t at = (s->part->first_cell + i) * x->cell_bytes, left = f->bytes - at;
        size_t mark_bytes = 0;
        s->bytes = text_index_cell_size(x, s->part->file, s->part->first_cell + i);
        s->known = left - s->bytes < ahead ? (size_t)left : s->bytes + ahead;
        err = indexed_text_read(from, s->text, s->known, at, e);
        if (!err && at == 0)
            err = skip_mark(s, &mark_bytes, e);
        if (!err)
            scan_cell(s, i, mark_bytes);
        loading_read(s->bytes);
    }
    return err ? err : indexed_text_same(from->fd, f->stored_bytes, f->modified_ns, e);
}

static enum err scan_init(struct scan *s, struct text_index_part *p, const struct text_index *x,
                          const struct csv_grammar *g, struct errmsg *e)
{
    *s = (struct scan){.format.grammar = *g, .part = p};
    s->text = mem_zalloc(x->cell_bytes + g->comment_bytes + CSV_SCAN_PAD, 1);
    s->mark = mem_zalloc(STEP_BYTES + CSV_SCAN_PAD, sizeof *s->mark);
    return s->text && s->mark ? ERR_OK : err_memory(e);
}

static void scan_close(struct scan *s)
{
    mem_free(s->mark);
    mem_free(s->text);
}

static void scan_begin(struct scan *s, uint32_t starts)
{
    s->part->starts = starts;
    for (unsigned k = 0; k < TEXT_INDEX_STATES; k++)
        s->now[k] = (uint8_t)k;
}

static void scan_end(struct scan *s)
{
    for (unsigned k = 0; k < TEXT_INDEX_STATES; k++)
        s->part->end[k] = s->now[k];
}

enum err csv_index_scan(struct text_index_part *p, const struct text_index *x, const char *path,
                        const struct csv_grammar *g, struct errmsg *e)
{
    assert(p->file < x->files && p->cells <= TEXT_INDEX_PART_CELLS);
    struct scan s;
    struct indexed_text from = {.fd = -1};
    enum err err = scan_init(&s, p, x, g, e);
    if (!err)
        err = indexed_text_open(&from, &x->file[p->file], path, e);
    scan_begin(&s, p->first_cell ? states_of(g) : 1U << state_of(PLACE_ROW, false));
    if (!err)
        err = scan_cells(&s, &from, x, e);
    scan_end(&s);
    indexed_text_close(&from);
    scan_close(&s);
    return err ? err_wrap(e, err, "%s: ", path) : ERR_OK;
}

/* ---- all parts ---- */

struct build {
    struct text_index *x;
    const struct paths *paths;
    const struct csv_grammar *g;
    size_t row_bytes;
    uint64_t every_bytes; /* of text, between two places within a member of gzip */
    pthread_mutex_t lock; /* of all below */
    uint32_t next_file;   /* that can be compressed */
    enum err err;
    uint32_t err_file;
    struct errmsg e; /* of the first compressed file that cannot be read */
};

enum { SCANNED_HERE = 0 };
enum deal_state { DEAL_OPEN, DEAL_OUT, DEAL_DONE };

/* A part that is not joined yet. */
struct dealt {
    enum deal_state state;
    uint64_t by; /* as in index_deal_next; SCANNED_HERE: a thread of this process */
    int64_t since_ms;
    struct text_index_part part;
};

/* The index that is made now. */
static struct {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct text_index *x; /* NULL: none */
    const struct paths *paths;
    uint32_t states;    /* in which all parts can begin, except the first of a file */
    uint32_t next_file; /* of the part that is dealt next */
    uint64_t next_cell;
    uint64_t joined, end; /* parts up to `joined` are joined, and those up to `end` dealt */
    struct dealt *dealt;  /* (INDEX_DEALS_MOST) */
    uint64_t failed;      /* with err: the first part that could not be scanned */
    enum err err;
    struct errmsg e;
    uint64_t helped_bytes; /* that others have scanned */
    int64_t now_ms;
    void (*wake)(void *ctx);
    void *ctx;
} deals = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct dealt *deal_at(uint64_t number)
{
    return &deals.dealt[number % INDEX_DEALS_MOST];
}

/* The next part in the order of the text. False: all are dealt. */
static bool find_next_part(struct text_index_part *p)
{
    const struct text_index *x = deals.x;
    while (deals.next_file < x->files && (x->file[deals.next_file].compressed ||
                                          deals.next_cell == x->file[deals.next_file].cells)) {
        deals.next_file++;
        deals.next_cell = 0;
    }
    if (deals.next_file == x->files)
        return false;
    const uint64_t left = x->file[deals.next_file].cells - deals.next_cell;
    p->file = deals.next_file;
    p->first_cell = deals.next_cell;
    p->cells = left < TEXT_INDEX_PART_CELLS ? (uint32_t)left : TEXT_INDEX_PART_CELLS;
    return true;
}

/* All parts are joined, or one that could not be scanned is the next. */
static bool is_made(void)
{
    struct text_index_part next;
    return deals.err ? deals.joined == deals.failed
                     : deals.joined == deals.end && !find_next_part(&next);
}

/* A part that nobody has; the next one; or one that a worker has had for too long. NULL: there is none now. */
static struct dealt *find_deal(uint64_t by, uint64_t *number)
{
    for (*number = deals.joined; *number < deals.end; ++*number)
        if (deal_at(*number)->state == DEAL_OPEN)
            return deal_at(*number);
    struct dealt *d = deal_at(deals.end);
    if (deals.end - deals.joined < INDEX_DEALS_MOST && find_next_part(&d->part)) {
        deals.next_cell += d->part.cells;
        *number = deals.end++;
        return d;
    }
    for (*number = deals.joined; by == SCANNED_HERE && *number < deals.end; ++*number) {
        d = deal_at(*number);
        if (d->state == DEAL_OUT && d->by != SCANNED_HERE &&
            deals.now_ms - d->since_ms >= INDEX_DEALS_LATE_MS)
            return d;
    }
    return NULL;
}

/* False: the index is made, or, for a worker, there is no part now. */
static bool next_part(uint64_t by, struct text_index_part *p, uint64_t *number,
                      uint64_t *file_bytes)
{
    struct dealt *d = NULL;
    pthread_mutex_lock(&deals.lock);
    while (deals.x && !is_made() && !(d = find_deal(by, number)) && by == SCANNED_HERE)
        pthread_cond_wait(&deals.changed, &deals.lock);
    if (d) {
        d->state = DEAL_OUT;
        d->by = by;
        d->since_ms = deals.now_ms;
        *p = d->part;
        *file_bytes = deals.x->file[p->file].bytes;
    }
    pthread_mutex_unlock(&deals.lock);
    return d != NULL;
}

/* NULL: its scan is not waited for. */
static struct dealt *find_awaited(uint64_t number)
{
    bool is = deals.x && number >= deals.joined && number < deals.end;
    return is && deal_at(number)->state == DEAL_OUT ? deal_at(number) : NULL;
}

static void fail_part(uint64_t number, enum err err, const struct errmsg *e)
{
    if (deals.err && number > deals.failed)
        return;
    deals.err = err_set(&deals.e, err, "%s", e->text);
    deals.failed = number;
}

/* The first scan of a part counts. Join what can be joined. */
static void join_scanned(struct dealt *d, const struct text_index_part *p)
{
    struct errmsg e;
    d->part = *p;
    d->state = DEAL_DONE;
    while (deals.joined < deals.end && deal_at(deals.joined)->state == DEAL_DONE && !is_made()) {
        enum err err = text_index_join(deals.x, &deal_at(deals.joined)->part, &e);
        if (err)
            fail_part(deals.joined, err, &e);
        else
            deal_at(deals.joined++)->state = DEAL_OPEN;
    }
}

/* ---- a compressed file ---- */

static bool has_failed_before(const struct build *b, uint32_t file)
{
    return b->err && b->err_file <= file;
}

static void keep_error(struct build *b, uint32_t file, enum err err, const struct errmsg *e)
{
    if (!err || has_failed_before(b, file))
        return;
    b->err = err_set(&b->e, err, "%s", e->text);
    b->err_file = file;
}

/* Get the next cell's text, and what follows it, behind the `held` bytes. */
static enum err next_cell(struct scan *s, size_t held, struct stream *from, uint64_t cell_bytes,
                          struct errmsg *e)
{
    size_t got = 0;
    const size_t most = (size_t)cell_bytes + s->format.grammar.comment_bytes;
    const enum err err = stream_read(from, s->text + held, most - held, &got, e);
    s->known = held + got;
    s->bytes = s->known < cell_bytes ? s->known : (size_t)cell_bytes;
    return err;
}

static enum err add_cell_of(struct build *b, struct scan *s, struct errmsg *e)
{
    struct text_index_part *p = s->part;
    size_t mark_bytes = 0;
    p->first_cell = b->x->file[p->file].joined;
    enum err err = text_index_add(b->x, p->file, (uint32_t)s->bytes, e);
    if (!err && p->first_cell == 0)
        err = skip_mark(s, &mark_bytes, e);
    if (err)
        return err;
    scan_begin(s, 1U << b->x->file[p->file].state);
    scan_cell(s, 0, mark_bytes);
    scan_end(s);
    return text_index_join(b->x, p, e);
}

static bool is_needed(struct build *b, uint32_t file)
{
    pthread_mutex_lock(&b->lock);
    const bool is = !has_failed_before(b, file);
    pthread_mutex_unlock(&b->lock);
    return is;
}

static enum err scan_stream(struct build *b, struct scan *s, struct stream *from, struct errmsg *e)
{
    const uint32_t file = s->part->file;
    const uint64_t cell_bytes = b->x->cell_bytes;
    enum err err = next_cell(s, 0, from, cell_bytes, e);
    while (!err && s->bytes && is_needed(b, file)) {
        err = add_cell_of(b, s, e);
        const size_t held = s->known - s->bytes;
        memmove(s->text, s->text + s->bytes, held);
        if (!err)
            err = next_cell(s, held, from, cell_bytes, e);
    }
    return err;
}

/* Nobody else has the file's index meanwhile. */
static enum err scan_compressed(struct build *b, uint32_t file, struct errmsg *e)
{
    struct text_index_part part = {.file = file, .cells = 1};
    struct text_index_file *f = &b->x->file[file];
    struct stream_points points = {0};
    struct stream *from = NULL;
    struct indexed_text t;
    struct scan s;
    enum err err = indexed_text_open(&t, f, b->paths->path[file], e);
    if (err)
        return err_wrap(e, err, "%s: ", t.path);
    err = scan_init(&s, &part, b->x, b->g, e);
    if (!err)
        err = stream_open_at(&from, t.path, NULL, 0, 0, e);
    if (!err) {
        stream_note_points(from, &points, b->every_bytes);
        err = scan_stream(b, &s, from, e);
    }
    if (!err)
        err = indexed_text_same(t.fd, f->stored_bytes, f->modified_ns, e);
    f->points = points.data;
    f->points_bytes = points.bytes;
    stream_close(from);
    scan_close(&s);
    indexed_text_close(&t);
    return err ? err_wrap(e, err, "%s: ", b->paths->path[file]) : ERR_OK;
}

/* The next compressed file is read whole. False: none is left. */
static bool index_compressed(struct build *b)
{
    struct errmsg e = {""};
    pthread_mutex_lock(&b->lock);
    while (b->next_file < b->x->files && !b->x->file[b->next_file].compressed)
        b->next_file++;
    const uint32_t file = b->next_file++;
    const bool more = file < b->x->files;
    pthread_mutex_unlock(&b->lock);
    const enum err err = more ? scan_compressed(b, file, &e) : ERR_OK;
    pthread_mutex_lock(&b->lock);
    keep_error(b, file, err, &e);
    pthread_mutex_unlock(&b->lock);
    return more;
}

static void index_parts(void *ctx, uint32_t thread)
{
    struct build *b = ctx;
    struct text_index_part part = {0};
    uint64_t number, file_bytes;
    (void)thread;
    while (index_compressed(b)) {
    }
    while (next_part(SCANNED_HERE, &part, &number, &file_bytes)) {
        struct errmsg e = {""};
        const enum err err = csv_index_scan(&part, b->x, b->paths->path[part.file], b->g, &e);
        pthread_mutex_lock(&deals.lock);
        struct dealt *d = find_awaited(number);
        if (d && err)
            fail_part(number, err, &e);
        if (d)
            join_scanned(d, &part);
        pthread_cond_broadcast(&deals.changed);
        pthread_mutex_unlock(&deals.lock);
    }
}

static enum err begin_deals(const struct build *b, struct errmsg *e)
{
    struct dealt *dealt = mem_zalloc(INDEX_DEALS_MOST, sizeof *dealt);
    if (!dealt)
        return err_memory(e);
    pthread_mutex_lock(&deals.lock);
    assert(!deals.x);
    deals.x = b->x;
    deals.paths = b->paths;
    deals.states = states_of(b->g);
    deals.next_file = 0;
    deals.next_cell = 0;
    deals.joined = deals.end; /* so no number comes again */
    deals.dealt = dealt;
    deals.err = ERR_OK;
    deals.helped_bytes = 0;
    deals.now_ms = clock_now_ms();
    if (deals.wake)
        deals.wake(deals.ctx);
    pthread_mutex_unlock(&deals.lock);
    return ERR_OK;
}

/* The error is that of the first file that has one. */
static enum err end_deals(struct build *b, struct errmsg *e)
{
    pthread_mutex_lock(&deals.lock);
    if (deals.err)
        keep_error(b, deal_at(deals.failed)->part.file, deals.err, &deals.e);
    deals.x = NULL;
    mem_free(deals.dealt);
    deals.dealt = NULL;
    enum err err = b->err ? err_set(e, b->err, "%s", b->e.text) : ERR_OK;
    if (deals.helped_bytes)
        log_info("other workers have scanned %.1f MiB of data.train",
                 (double)deals.helped_bytes / (1 << 20));
    pthread_mutex_unlock(&deals.lock);
    return err;
}

bool index_deal_next(uint64_t by, struct index_deal *out)
{
    struct text_index_part p;
    assert(by != SCANNED_HERE);
    if (!next_part(by, &p, &out->number, &out->file_bytes))
        return false;
    out->first_cell = p.first_cell;
    out->file = p.file;
    out->cells = p.cells;
    return true;
}

/* A worker can have another copy of a file, of the same size: one cell of each part is compared with the chief's. */
static enum err check_copy(const struct text_index_part *p, uint64_t number, struct errmsg *e)
{
    const uint64_t i = number % p->cells, cell = p->first_cell + i;
    const uint32_t size = text_index_cell_size(deals.x, p->file, cell);
    const char *path = deals.paths->path[p->file];
    char *text = mem_resize(NULL, size, 1);
    struct indexed_text t = {.fd = -1};
    enum err err = text ? indexed_text_open(&t, &deals.x->file[p->file], path, e) : err_memory(e);
    if (!err)
        err = indexed_text_read(&t, text, size, cell * deals.x->cell_bytes, e);
    if (!err && XXH3_64bits(text, size) != p->cell[i].sum)
        err = err_set(e, ERR_PROTO,
                      "its %s has other bytes than the chief's, from byte %" PRIu64
                      " on: data.train must name the same data everywhere",
                      path, cell * deals.x->cell_bytes);
    indexed_text_close(&t);
    mem_free(text);
    return err;
}

enum err index_deal_answered(uint64_t number, const uint8_t part[INDEX_PART_BYTES],
                             struct errmsg *e)
{
    struct text_index_part p;
    uint64_t bytes = 0;
    enum err err = ERR_OK;
    memcpy(&p, part, sizeof p);
    pthread_mutex_lock(&deals.lock);
    struct dealt *d = find_awaited(number);
    if (d &&
        (p.file != d->part.file || p.first_cell != d->part.first_cell || p.cells != d->part.cells))
        err = err_set(e, ERR_PROTO, "it has other cells than those that were dealt");
    else if (d)
        err = text_index_check(deals.x, &p, deals.states, e);
    if (d && !err)
        err = check_copy(&p, number, e);
    for (uint32_t i = 0; d && !err && i < p.cells; i++)
        bytes += text_index_cell_size(deals.x, p.file, p.first_cell + i);
    if (d && !err)
        join_scanned(d, &p);
    deals.helped_bytes += bytes;
    pthread_cond_broadcast(&deals.changed);
    pthread_mutex_unlock(&deals.lock);
    loading_read(bytes);
    return err;
}

void index_deal_left(uint64_t by)
{
    pthread_mutex_lock(&deals.lock);
    for (uint64_t i = deals.joined; deals.x && i < deals.end; i++)
        if (deal_at(i)->state == DEAL_OUT && deal_at(i)->by == by)
            deal_at(i)->state = DEAL_OPEN;
    pthread_cond_broadcast(&deals.changed);
    pthread_mutex_unlock(&deals.lock);
}

void index_deals_time(int64_t now_ms)
{
    pthread_mutex_lock(&deals.lock);
    deals.now_ms = now_ms;
    pthread_cond_broadcast(&deals.changed);
    pthread_mutex_unlock(&deals.lock);
}

void index_deals_watch(void (*wake)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&deals.lock);
    deals.wake = wake;
    deals.ctx = ctx;
    pthread_mutex_unlock(&deals.lock);
}

/* ---- rows without an end ---- */

/* True if the file ends in quotes or behind an escape, or a row covers so many cells that the reader refuses it. *cell: the last
 * one before it in which a record begins. */
static bool is_endless(const struct text_index *x, uint32_t file, size_t row_bytes, uint64_t *cell)
{
    const struct text_index_file *f = &x->file[file];
    const enum csv_place place = f->state % CSV_PLACES;
    uint64_t covered = 0;
    *cell = 0;
    for (uint64_t i = 0; i < f->cells; i++) {
        if (f->entry[i].first == TEXT_INDEX_NONE) {
            covered += text_index_cell_size(x, file, i);
        } else {
            covered = 0;
            *cell = i;
        }
        if (covered >= row_bytes)
            return true;
    }
    return place == PLACE_QUOTED || place == PLACE_QUOTED_ESCAPED || place == PLACE_ESCAPED;
}

/* The error of the row that begins in the cell and does not end, in the reader's words. */
static enum err refuse_endless(const struct text_index *x, const struct text_index_file *f,
                               uint64_t cell, const char *path, const struct csv_grammar *g,
                               size_t row_bytes, struct errmsg *e)
{
    const uint64_t at = cell * x->cell_bytes + f->entry[cell].first;
    const size_t most = (size_t)x->cell_bytes + row_bytes + 1;
    const size_t bytes = f->bytes - at < most ? (size_t)(f->bytes - at) : most;
    char *text = mem_zalloc(bytes + CSV_SCAN_PAD, 1);
    struct indexed_text t = {.fd = -1};
    size_t begin = 0, row;
    enum err err = text ? indexed_text_open(&t, f, path, e) : err_memory(e);
    if (!err)
        err = indexed_text_read(&t, text, bytes, at, e);
    indexed_text_close(&t);
    while (!err && (row = csv_scan_row(text + begin, bytes - begin, g)) && row <= row_bytes)
        begin += row;
    const size_t left = bytes - begin;
    if (err) {
        mem_free(text);
        return err_wrap(e, err, "%s: ", path);
    }
    const uint64_t line = f->entry[cell].line + csv_count(text, begin, '\n');
    const struct csv_format format = {.grammar = *g, .piece_bytes = row_bytes};
    if (left > row_bytes)
        err = csv_refuse_long(e, text + begin, row_bytes, line, &format);
    else
        err = csv_refuse_open(e, text + begin, left, line, g);
    mem_free(text);
    return err_wrap(e, err, "%s:", path);
}

/* ---- the index ---- */

/* A file that cannot be read from the middle is refused before others are read. */
static enum err check_packing(const char *path, bool *compressed, struct errmsg *e)
{
    struct stream *s;
    struct stream_points none = {0};
    char first;
    size_t got;
    enum err err = stream_open(&s, path, e); /* for its errors */
    if (err)
        return err;
    *compressed = stream_is_compressed(s);
    if (*compressed) {
        stream_note_points(s, &none, 0);
        err = stream_read(s, &first, sizeof first, &got, e);
    }
    stream_close(s);
    mem_free(none.data);
    return err ? err_wrap(e, err, "%s: ", path) : ERR_OK;
}

static enum err size_file(struct text_index *x, uint32_t i, const char *path, struct errmsg *e)
{
    struct stat st;
    bool compressed;
    enum err err = check_packing(path, &compressed, e);
    if (err)
        return err;
    if (stat(path, &st) != 0)
        return err_set(e, err_of_errno(errno), "%s: %s", path, strerror(errno));
    err = text_index_size(x, i, compressed ? 0 : (uint64_t)st.st_size,
                          indexed_text_modified_ns(&st), e);
    x->file[i].stored_bytes = (uint64_t)st.st_size;
    x->file[i].compressed = compressed;
    return err;
}

/* For those who do not read them. */
static enum err check_files(const struct paths *paths, struct errmsg *e)
{
    bool compressed;
    enum err err = ERR_OK;
    for (size_t i = 0; i < paths->count && !err; i++)
        err = check_packing(paths->path[i], &compressed, e);
    return err;
}

static enum err build(struct build *b, struct pool *pool, struct errmsg *e)
{
    struct text_index *x = b->x;
    enum err err = ERR_OK;
    uint64_t compressed_bytes = 0;
    for (uint32_t i = 0; i < x->files && !err; i++) {
        err = size_file(x, i, b->paths->path[i], e);
        compressed_bytes += x->file[i].compressed ? x->file[i].stored_bytes : 0;
    }
    if (err)
        return err;
    b->every_bytes = compressed_bytes / PLACES;
    err = begin_deals(b, e);
    if (err)
        return err;
    pthread_mutex_init(&b->lock, NULL);
    pool_run(pool, index_parts, b);
    pthread_mutex_destroy(&b->lock);
    err = end_deals(b, e);
    uint64_t cell;
    for (uint32_t i = 0; i < x->files && !err; i++)
        if (is_endless(x, i, b->row_bytes, &cell))
            err = refuse_endless(x, &x->file[i], cell, b->paths->path[i], b->g, b->row_bytes, e);
    return err;
}

static enum err make_index(struct text_index *x, const struct paths *paths,
                           const struct csv_grammar *g, bool headers, uint64_t cell_bytes,
                           size_t row_bytes, struct pool *pool, struct errmsg *e)
{
    struct text_index made;
    enum err err = text_index_init(&made, (uint32_t)paths->count, cell_bytes, headers, e);
    if (err)
        return err;
    struct build b = {.x = &made, .paths = paths, .g = g, .row_bytes = row_bytes};
    err = build(&b, pool, e);
    if (err)
        text_index_close(&made);
    else
        *x = made;
    return err;
}

static uint64_t hash_names(const struct paths *paths)
{
    uint64_t hash = paths->count;
    for (size_t i = 0; i < paths->count; i++)
        hash = XXH3_64bits_withSeed(paths->path[i], strlen(paths->path[i]) + 1, hash);
    return hash;
}

/* A hash of what tells rows from others. */
static uint64_t hash_of(const struct csv_grammar *g, bool headers, uint64_t cell_bytes)
{
    char text[64];
    const int n = snprintf(text, sizeof text, "%d %d %d %d %d %" PRIu64, g->delimiter, g->quotes,
                           g->trim, g->escape, headers, cell_bytes);
    return XXH3_64bits_withSeed(g->comment, g->comment_bytes, XXH3_64bits(text, (size_t)n));
}

/* An index that others have made, or an earlier release. */
static enum err unpack(struct text_index *x, const struct csv_grammar *g, bool headers,
                       uint64_t cell_bytes, const uint8_t *in, size_t bytes, struct errmsg *e)
{
    enum err err = text_index_unpack(x, hash_of(g, headers, cell_bytes), in, bytes, e);
    if (err)
        return err;
    if (x->cell_bytes == cell_bytes && x->headers == headers && x->files)
        return ERR_OK;
    text_index_close(x);
    return err_set(e, ERR_CORRUPT, "the index of the data is damaged");
}

/* Whether the files have the names, the sizes and the times of the index. */
static bool is_of_now(const struct text_index *x, const struct paths *paths)
{
    bool is = x->files == paths->count && x->names == hash_names(paths);
    for (uint32_t i = 0; i < x->files && is; i++) {
        struct stat st;
        is = stat(paths->path[i], &st) == 0 && (uint64_t)st.st_size == x->file[i].stored_bytes &&
             indexed_text_modified_ns(&st) == x->file[i].modified_ns;
    }
    return is;
}

/* The index in the file `kept`. False: there is none, or it is not of these files as they are now. */
static bool find_kept(struct text_index *x, const struct paths *paths, const struct csv_grammar *g,
                      bool headers, uint64_t cell_bytes, const char *kept)
{
    struct errmsg e;
    uint8_t *data = NULL;
    size_t bytes = 0;
    enum err err = files_read_regular(kept, SIZE_MAX / 2, &data, &bytes, &e);
    if (!err)
        err = unpack(x, g, headers, cell_bytes, data, bytes, &e);
    mem_free(data);
    if (err && err != ERR_NOTFOUND)
        log_info("%s: %s; the data are indexed again", kept, e.text);
    if (err)
        return false;
    if (!is_of_now(x, paths)) {
        text_index_close(x);
        return false;
    }
    return true;
}

static enum err keep_index(const struct text_index *x, const struct csv_grammar *g,
                           const char *kept, struct errmsg *e)
{
    uint8_t *data = NULL;
    size_t bytes;
    enum err err = text_index_pack(x, hash_of(g, x->headers, x->cell_bytes), &data, &bytes, e);
    if (!err)
        err = files_write(kept, data, bytes, e);
    mem_free(data);
    return err;
}

enum err csv_index(struct text_index *x, const struct paths *paths, const struct csv_grammar *g,
                   bool headers, uint64_t cell_bytes, size_t row_bytes, const char *kept,
                   struct pool *pool, struct errmsg *e)
{
    if (kept && find_kept(x, paths, g, headers, cell_bytes, kept))
        return ERR_OK;
    enum err err = make_index(x, paths, g, headers, cell_bytes, row_bytes, pool, e);
    if (err)
        return err;
    x->names = hash_names(paths);
    err = kept ? keep_index(x, g, kept, e) : ERR_OK;
    if (err)
        text_index_close(x);
    return err;
}

static enum err refuse_size(const char *path, uint64_t here, uint64_t there, struct errmsg *e)
{
    return err_set(e, ERR_INPUT,
                   "%s: it has %" PRIu64 " bytes here, and %" PRIu64
                   " at the chief: data.train must name the same data everywhere",
                   path, here, there);
}

/* ---- a worker that scans parts for the chief ---- */

struct index_helper {
    struct paths paths;
    struct csv_grammar grammar;
    struct text_index x; /* the sizes of the files here */
    void (*answered)(void *ctx, struct index_answer *a);
    void *ctx;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    bool quit;
    uint64_t connection;
    uint32_t first, waiting;
    struct index_deal deal[INDEX_DEALS_MOST]; /* a ring */
    uint32_t threads, started;
    pthread_t thread[];
};

enum err index_helper_new(struct index_helper **out, const struct job *job, struct errmsg *e)
{
    const struct reading reading = {.job = job, .key = "data.train", .patterns = job->data.train};
    const uint32_t threads = job->worker.threads ? job->worker.threads : cores_usable();
    struct index_helper *h = mem_zalloc(1, sizeof *h + threads * sizeof *h->thread);
    if (!h)
        return err_memory(e);
    h->grammar = csv_grammar_of(&job->data.csv);
    h->threads = threads;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    enum err err = reading_paths(&h->paths, &reading, e);
    if (!err)
        err = text_index_init(&h->x, (uint32_t)h->paths.count, TEXT_INDEX_CELL_BYTES, false, e);
    for (uint32_t i = 0; i < h->x.files && !err; i++)
        err = size_file(&h->x, i, h->paths.path[i], e);
    if (err) {
        index_helper_free(h);
        return err_wrap(e, err, "data.train: ");
    }
    *out = h;
    return ERR_OK;
}

uint32_t index_helper_threads(const struct index_helper *h)
{
    return h->threads;
}

static enum err scan_deal(const struct index_helper *h, const struct index_deal *d,
                          struct text_index_part *p, struct errmsg *e)
{
    if (d->file >= h->x.files)
        return err_set(e, ERR_INPUT,
                       "data.train names %zu files here, and more at the chief: it must name the "
                       "same data everywhere",
                       h->paths.count);
    const struct text_index_file *f = &h->x.file[d->file];
    if (f->bytes != d->file_bytes)
        return refuse_size(h->paths.path[d->file], f->stored_bytes, d->file_bytes, e);
    if (!d->cells || d->cells > TEXT_INDEX_PART_CELLS || d->first_cell > f->cells ||
        d->cells > f->cells - d->first_cell)
        return err_set(e, ERR_PROTO, "%s: it has no such cells", h->paths.path[d->file]);
    p->file = d->file;
    p->first_cell = d->first_cell;
    p->cells = d->cells;
    return csv_index_scan(p, &h->x, h->paths.path[d->file], &h->grammar, e);
}

/* Without memory there is no answer, and the part is dealt again when the chief has waited for it. */
static void answer_deal(const struct index_helper *h, uint64_t connection,
                        const struct index_deal *d)
{
    struct errmsg e;
    struct text_index_part *p = mem_zalloc(1, sizeof *p);
    struct index_answer *a = mem_zalloc(1, sizeof *a);
    enum err err = p && a ? scan_deal(h, d, p, &e) : err_memory(&e);
    if (a) {
        a->connection = connection;
        a->number = d->number;
        if (err)
            (void)snprintf(a->error, sizeof a->error, "%s", e.text);
        else
            memcpy(a->part, p, sizeof *p);
        h->answered(h->ctx, a);
    }
    mem_free(p);
}

static void *help(void *ctx)
{
    struct index_helper *h = ctx;
    pthread_mutex_lock(&h->lock);
    while (!h->quit) {
        if (!h->waiting) {
            pthread_cond_wait(&h->changed, &h->lock);
            continue;
        }
        const struct index_deal deal = h->deal[h->first];
        const uint64_t connection = h->connection;
        h->first = (h->first + 1) % INDEX_DEALS_MOST;
        h->waiting--;
        pthread_mutex_unlock(&h->lock);
        answer_deal(h, connection, &deal);
        pthread_mutex_lock(&h->lock);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

enum err index_helper_start(struct index_helper *h,
                            void (*answered)(void *ctx, struct index_answer *a), void *ctx,
                            struct errmsg *e)
{
    sigset_t all, before;
    int error = 0;
    h->answered = answered;
    h->ctx = ctx;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (!error && h->started < h->threads) {
        error = pthread_create(&h->thread[h->started], NULL, help, h);
        h->started += !error;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return h->started ? ERR_OK : err_set(e, ERR_NOMEM, "a thread: %s", strerror(error));
}

bool index_helper_scan(struct index_helper *h, uint64_t connection, const struct index_deal *deal)
{
    pthread_mutex_lock(&h->lock);
    if (h->connection != connection)
        h->waiting = 0;
    h->connection = connection;
    const bool fits = h->waiting < INDEX_DEALS_MOST;
    if (fits)
        h->deal[(h->first + h->waiting++) % INDEX_DEALS_MOST] = *deal;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return fits;
}

void index_helper_free(struct index_helper *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->quit = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    for (uint32_t i = 0; i < h->started; i++)
        (void)pthread_join(h->thread[i], NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    text_index_close(&h->x);
    paths_close(&h->paths);
    mem_free(h);
}

/* The times of another host's files say nothing here. */
static enum err find_here(struct text_index_file *f, const char *path, struct errmsg *e)
{
    struct stat st;
    struct indexed_text t;
    enum err err = indexed_text_open(&t, f, path, e);
    if (err)
        return err_wrap(e, err, "%s: ", path);
    const bool known = fstat(t.fd, &st) == 0;
    const int error = errno;
    indexed_text_close(&t);
    if (!known)
        return err_set(e, err_of_errno(error), "%s: %s", path, strerror(error));
    f->modified_ns = indexed_text_modified_ns(&st);
    if ((uint64_t)st.st_size == f->stored_bytes)
        return ERR_OK;
    return refuse_size(path, (uint64_t)st.st_size, f->stored_bytes, e);
}

enum err csv_index_of_chief(struct text_index *x, const struct paths *paths,
                            const struct csv_grammar *g, bool headers, uint64_t cell_bytes,
                            const uint8_t *in, size_t bytes, struct errmsg *e)
{
    struct text_index made;
    enum err err = unpack(&made, g, headers, cell_bytes, in, bytes, e);
    if (err)
        return err;
    if (made.files != paths->count)
        err = err_set(e, ERR_INPUT,
                      "it names %zu files here, and %" PRIu32
                      " at the chief: it must name the same data everywhere",
                      paths->count, made.files);
    for (uint32_t i = 0; i < made.files && !err; i++)
        err = find_here(&made.file[i], paths->path[i], e);
    if (err)
        text_index_close(&made);
    else
        *x = made;
    return err;
}

enum err csv_index_contents(const struct text_index *x, const struct paths *paths,
                            struct contents *out, struct errmsg *e)
{
    enum err err = contents_begin(out, e);
    for (uint32_t i = 0; i < x->files && !err; i++) {
        const struct text_index_file *f = &x->file[i];
        contents_file(out, paths->path[i]);
        for (uint64_t k = 0; k < f->cells; k++)
            contents_add(out, &f->entry[k].sum, sizeof f->entry[k].sum);
        contents_add(out, &f->bytes, sizeof f->bytes);
        contents_count(out, f->bytes);
        contents_rows(out, text_index_file_rows(x, i));
    }
    return err ? err : contents_finish(out, e);
}

const struct index_type csv_index_type = {
    .check = check_files,
    .make = csv_index,
    .of_chief = csv_index_of_chief,
    .contents = csv_index_contents,
    .reader = csv_index_reader,
};
