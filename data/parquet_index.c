/* The index of Parquet files, and their rows by it. Their footers tell how many rows each row group has, so nothing else is read for it,
 * and each process makes its own. In a struct text_index a row group is a cell of one byte, `lines` is the size of the file, and
 * the checksum of each entry is that of the footer. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "data/arrow/parquet.h"
#include "data/core/text_index.h"
#include "data/csv_batch.h"
#include "data/csv_header.h"
#include "data/csv_rows.h"
#include "data/readers.h"

/* Of all files: so that numbers of rows can be added. */
#define MOST_ROWS (UINT64_C(1) << PARQUET_ROW_BITS)

/* ---- the index ---- */

/* A hash of the footer and the size of the file, whose last bytes are the footer's length and PAR1. */
static enum err hash_footer(const struct parquet_file *f, uint64_t *hash, struct errmsg *e)
{
    enum { TAIL_BYTES = 8 };
    const uint64_t size = (uint64_t)f->opened.st_size;
    uint8_t tail[TAIL_BYTES];
    bool read = size >= TAIL_BYTES &&
                files_get_at(f->fd, tail, TAIL_BYTES, size - TAIL_BYTES) == TAIL_BYTES;
    const uint64_t bytes = read ? TAIL_BYTES + (tail[0] | (uint64_t)tail[1] << 8 |
                                                (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24)
                                : 0;
    uint8_t *footer = read && bytes <= size ? mem_zalloc(bytes, 1) : NULL;
    if (read && bytes <= size && !footer)
        return err_memory_for(e, "a footer of %" PRIu64 " bytes", bytes);
    read = footer && files_get_at(f->fd, footer, bytes, size - bytes) == (ssize_t)bytes;
    if (read)
        *hash = XXH3_64bits_withSeed(footer, bytes, size);
    mem_free(footer);
    return read ? ERR_OK : err_set(e, ERR_INPUT, "its footer cannot be read");
}

static enum err count_rows(struct text_index *x, uint32_t i, const struct parquet *p,
                           struct errmsg *e)
{
    struct text_index_file *f = &x->file[i];
    uint64_t sum = 0, rows = text_index_rows(x), before = rows;
    enum err err = hash_footer(p->file, &sum, e);
    if (!err)
        err = text_index_size(x, i, p->module->groups(p->file->arrow),
                              indexed_text_modified_ns(&p->file->opened), e);
    for (uint32_t k = 0; k < f->cells && !err; k++) {
        const uint64_t more = p->module->rows(p->file->arrow, k);
        f->entry[k] = (struct text_index_entry){.row = rows - before, .sum = sum};
        if (more >= MOST_ROWS - rows)
            return err_set(e, ERR_INPUT,
                           "row group %" PRIu32 ": its footer says %" PRIu64 " rows, and %" PRIu64
                           " are more than can be read",
                           k, more, MOST_ROWS);
        rows += more;
    }
    f->joined = f->cells;
    f->rows = rows - before;
    f->lines = (uint64_t)p->file->opened.st_size;
    return err;
}

static enum err read_footers(struct text_index *x, const struct paths *paths, struct errmsg *e)
{
    struct text_index made;
    struct parquet *p = NULL;
    enum err err = text_index_init(&made, (uint32_t)paths->count, 1, false, e);
    if (err)
        return err;
    err = parquet_new(&p, e);
    for (uint32_t i = 0; i < made.files && !err; i++) {
        err = parquet_open(p, paths->path[i], e);
        if (!err)
            err = count_rows(&made, i, p, e);
        if (err)
            err = err_wrap(e, err, "%s: ", paths->path[i]);
        parquet_close(p);
    }
    parquet_free(p);
    if (err)
        text_index_close(&made);
    else
        *x = made;
    return err;
}

/* The size of a file and the hash of its footer, which other processes compare. */
struct packed {
    uint64_t bytes, sum;
};
static const char magic[8] = "GWPARQ1";

static uint64_t sum_of(const struct text_index_file *f)
{
    return f->cells ? f->entry[0].sum : 0;
}

static enum err keep_index(const struct text_index *x, const char *kept, struct errmsg *e)
{
    const size_t bytes = sizeof magic + x->files * sizeof(struct packed);
    uint8_t *out = mem_zalloc(bytes, 1);
    if (!out)
        return err_memory(e);
    memcpy(out, magic, sizeof magic);
    for (uint32_t i = 0; i < x->files; i++) {
        const struct packed p = {x->file[i].lines, sum_of(&x->file[i])};
        memcpy(out + sizeof magic + i * sizeof p, &p, sizeof p);
    }
    const enum err err = files_write(kept, out, bytes, e);
    mem_free(out);
    return err;
}

static enum err parquet_index(struct text_index *x, const struct paths *paths,
                              const struct csv_grammar *g, bool headers, uint64_t cell_bytes,
                              size_t row_bytes, const char *kept, struct pool *pool,
                              struct errmsg *e)
{
    (void)g, (void)headers, (void)cell_bytes, (void)row_bytes, (void)pool;
    enum err err = read_footers(x, paths, e);
    if (err || !kept)
        return err;
    err = keep_index(x, kept, e);
    if (err)
        text_index_close(x);
    return err;
}

/* Whether this process's file is the chief's. */
static enum err check_chiefs_file(const struct text_index_file *f, const struct packed *chief,
                                  const char *path, struct errmsg *e)
{
    if (f->lines != chief->bytes)
        return err_set(e, ERR_INPUT,
                       "%s: it has %" PRIu64 " bytes here, and %" PRIu64
                       " at the chief: data.train must name the same data everywhere",
                       path, f->lines, chief->bytes);
    if (sum_of(f) != chief->sum)
        return err_set(e, ERR_INPUT,
                       "%s: its footer is not that of the chief's file: data.train must name the "
                       "same data everywhere",
                       path);
    return ERR_OK;
}

static enum err parquet_index_of_chief(struct text_index *x, const struct paths *paths,
                                       const struct csv_grammar *g, bool headers,
                                       uint64_t cell_bytes, const uint8_t *in, size_t bytes,
                                       struct errmsg *e)
{
    (void)g, (void)headers, (void)cell_bytes;
    const size_t files = bytes < sizeof magic ? 0 : (bytes - sizeof magic) / sizeof(struct packed);
    if (bytes < sizeof magic || memcmp(in, magic, sizeof magic) != 0 ||
        bytes != sizeof magic + files * sizeof(struct packed))
        return err_set(e, ERR_CORRUPT, "the index of the data is damaged");
    if (files != paths->count)
        return err_set(e, ERR_INPUT,
                       "it names %zu files here, and %zu at the chief: it must name the same data "
                       "everywhere",
                       paths->count, files);
    enum err err = read_footers(x, paths, e);
    if (err)
        return err;
    for (uint32_t i = 0; i < files && !err; i++) {
        struct packed chief;
        memcpy(&chief, in + sizeof magic + i * sizeof chief, sizeof chief);
        err = check_chiefs_file(&x->file[i], &chief, paths->path[i], e);
    }
    if (err)
        text_index_close(x);
    return err;
}

static enum err parquet_index_contents(const struct text_index *x, const struct paths *paths,
                                       struct contents *out, struct errmsg *e)
{
    enum err err = contents_begin(out, e);
    for (uint32_t i = 0; i < x->files && !err; i++) {
        const struct text_index_file *f = &x->file[i];
        const struct packed p = {f->lines, sum_of(f)};
        contents_file(out, paths->path[i]);
        contents_add(out, &p, sizeof p);
        contents_count(out, f->lines);
        contents_rows(out, f->rows);
    }
    return err ? err : contents_finish(out, e);
}

/* ---- rows by the index ---- */

enum { IDLE_MOST = 16, IDLE_BYTES = 2 << 20 /* of one, and what the module says */ };

struct grouped {
    struct row_reader reader;
    const struct text_index *x;
    const struct paths *paths;
    struct csv_format format;
    pthread_mutex_t lock; /* of all below */
    uint32_t shown;       /* bad rows that were logged */
    struct reading_groups
        *idle[IDLE_MOST]; /* decoders that stand behind rows that were read; the oldest first */
    uint32_t idles;
    uint64_t idle_bytes; /* that they hold */
};

/* A decoder: it reads rows of one file, for one thread. */
struct reading_groups {
    struct grouped *of;
    struct parquet *p;
    struct csv_file file;
    struct csv_piece piece;
    uint32_t number; /* of the file */
    uint64_t row;    /* of the file: the next one */
    uint32_t left;   /* rows that the piece still has */
    uint64_t rows;   /* to give out */
    uint64_t end;    /* the number of the row behind them */
    uint64_t bytes;  /* that it holds while it is idle */
    row_visitor *visit;
    void *ctx;
};

static enum err check_same(const struct reading_groups *r, struct errmsg *e)
{
    const struct text_index_file *f = &r->of->x->file[r->number];
    return indexed_text_same(r->p->file->fd, f->lines, f->modified_ns, e);
}

/* Open a file behind the first one, which its columns are compared with. Errors name the file. */
static enum err open_grouped(struct reading_groups *r, uint32_t number, struct errmsg *e)
{
    const struct text_index_file *f = &r->of->x->file[number];
    const char *path = r->of->paths->path[number];
    uint64_t sum = 0;
    csv_file_close(&r->file);
    parquet_close(r->p);
    r->file = (struct csv_file){.path = path};
    r->number = number;
    r->row = 0;
    r->left = 0;
    enum err err = parquet_rows_begin(&r->file, &r->of->format, r->p, e);
    if (err)
        return err;
    err = check_same(r, e);
    if (!err)
        err = hash_footer(r->p->file, &sum, e);
    if (!err && f->cells && sum != sum_of(f))
        err = err_set(e, ERR_INPUT,
                      "it has changed since it was indexed: restore it, or start again with "
                      "--fresh");
    return err ? err_wrap(e, err, "%s: ", path) : ERR_OK;
}

enum { PLACE_BYTES = 64 };
static const char *group_place(char out[static PLACE_BYTES], uint64_t line)
{
    (void)snprintf(out, PLACE_BYTES, "row group %" PRIu64 ", row %" PRIu64,
                   (line >> PARQUET_ROW_BITS) - 1, line & (MOST_ROWS - 1));
    return out;
}

/* The first times. */
static void show_bad(struct grouped *x, const char *path, const struct csv_piece *p)
{
    enum { SHOWN_ROWS = 3 };
    pthread_mutex_lock(&x->lock);
    if (x->shown++ < SHOWN_ROWS)
        log_warn("%s: %s: this row is left out (data.bad_rows: skip): %s", path,
                 group_place((char[PLACE_BYTES]){""}, p->first_bad_line), p->first_bad.text);
    pthread_mutex_unlock(&x->lock);
}

/* Leave the first `most` rows that the piece still has. */
static void cut_piece(struct reading_groups *r, uint64_t most)
{
    r->piece.parquet->rows = most < r->left ? (uint32_t)most : r->left;
}

/* The piece's rows are done; there can be more behind them. */
static void pass_piece(struct reading_groups *r)
{
    struct parquet_piece *q = r->piece.parquet;
    r->row += q->rows;
    r->left -= q->rows;
    q->first += q->rows;
    q->row += q->rows;
}

/* The rows of the piece as rows of cells. */
static enum err give_piece(struct reading_groups *r, struct errmsg *e)
{
    const struct csv_format *f = &r->of->format;
    struct csv_piece *p = &r->piece;
    p->field = r->file.field;
    p->kept_as = r->file.kept_as;
    p->fields = r->file.fields;
    learned_clear(&p->learned, f->meaning.schema->inputs);
    enum err err = parquet_rows(p, f, e);
    if (!err && p->bad && f->job->bad_rows == BAD_ROWS_STOP)
        return err_set(e, ERR_INPUT, "%s: %s",
                       group_place((char[PLACE_BYTES]){""}, p->first_bad_line), p->first_bad.text);
    if (!err && p->bad)
        show_bad(r->of, r->file.path, p);
    return err ? err
               : row_reader_give(&r->of->reader, p, r->end - r->rows, &r->rows, r->visit, r->ctx,
                                 e);
}

/* Have a piece with rows. The errors of parquet_next name the file, and *named is set. */
static enum err have_piece(struct reading_groups *r, bool *named, struct errmsg *e)
{
    const struct text_index_file *f = &r->of->x->file[r->number];
    bool last;
    enum err err = ERR_OK;
    while (!r->left && !err) {
        err = parquet_next(r->p, &r->piece.parquet, &last, e);
        *named = err != ERR_OK;
        if (err)
            return err;
        const struct parquet_piece *q = r->piece.parquet;
        r->left = q->rows;
        if (f->entry[q->group].row + q->row != r->row || (!q->rows && last))
            err =
                err_set(e, ERR_INPUT,
                        "row group %" PRIu32 ": it has other rows than the footer says", q->group);
    }
    return err;
}

/* Read on, from the row `first` of the file on. Errors name the file. */
static enum err read_grouped(struct reading_groups *r, uint64_t first, struct errmsg *e)
{
    enum err err = ERR_OK;
    bool named = false;
    while (r->rows && !err) {
        err = have_piece(r, &named, e);
        if (err)
            break;
        cut_piece(r, r->row < first ? first - r->row : r->rows);
        if (r->row >= first)
            err = give_piece(r, e);
        pass_piece(r);
    }
    if (!err)
        err = check_same(r, e);
    return err && !named ? err_wrap(e, err, "%s: ", r->file.path) : err;
}

static void close_reading(struct reading_groups *r)
{
    learned_close(&r->piece.learned, r->of->reader.schema->inputs);
    csv_batch_free(r->piece.batch);
    parquet_piece_free(r->piece.parquet);
    mem_free(r->piece.kept);
    mem_free(r->piece.cells);
    mem_free(r->piece.present);
    csv_file_close(&r->file);
    parquet_free(r->p);
    mem_free(r);
}

/* The first file is open. */
static enum err begin_reading(struct reading_groups **out, struct grouped *of, struct errmsg *e)
{
    struct reading_groups *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return err_memory(e);
    r->of = of;
    enum err err = learned_init(&r->piece.learned, of->reader.schema, false, false);
    err = err ? err_memory(e) : parquet_new(&r->p, e);
    if (!err)
        err = open_grouped(r, 0, e);
    if (err)
        close_reading(r);
    else
        *out = r;
    return err;
}

/* ---- decoders that stay open ---- */

static struct reading_groups *remove_idle(struct grouped *x, uint32_t i)
{
    struct reading_groups *r = x->idle[i];
    x->idle_bytes -= r->bytes;
    x->idles--;
    memmove(x->idle + i, x->idle + i + 1, (x->idles - i) * sizeof *x->idle);
    return r;
}

/* At the end of a row group, so that it loses nothing where it goes. */
static bool ends_group(const struct reading_groups *r)
{
    const struct text_index_file *f = &r->of->x->file[r->number];
    const struct parquet_piece *q = r->piece.parquet;
    return !q || r->row == (q->group + 1 < f->cells ? f->entry[q->group + 1].row : f->rows);
}

/* The one that stands nearest before the row, in its row group; or one that nobody misses. NULL: there is none. */
static struct reading_groups *find_idle(struct grouped *x, const struct text_index_place *at)
{
    const uint64_t begin = x->x->file[at->file].entry[at->at].row, row = begin + at->skip;
    struct reading_groups *found = NULL;
    pthread_mutex_lock(&x->lock);
    uint32_t best = x->idles;
    for (uint32_t i = 0; i < x->idles; i++) {
        const struct reading_groups *r = x->idle[i];
        if (r->number == at->file && r->row >= begin && r->row <= row &&
            (best == x->idles || r->row > x->idle[best]->row))
            best = i;
    }
    for (uint32_t i = 0; i < x->idles && best == x->idles; i++)
        if (x->idle[i]->number == at->file && ends_group(x->idle[i]))
            best = i;
    if (best == x->idles && x->idles == IDLE_MOST)
        best = 0;
    if (best < x->idles)
        found = remove_idle(x, best);
    pthread_mutex_unlock(&x->lock);
    return found;
}

/* Keep it, in place of older ones if there is no memory for all. */
static void put_idle(struct reading_groups *r)
{
    struct grouped *x = r->of;
    struct reading_groups *gone[IDLE_MOST + 1];
    uint32_t goes = 0;
    r->bytes = parquet_held(r->p) + IDLE_BYTES;
    pthread_mutex_lock(&x->lock);
    while (r->bytes <= x->reader.keep_bytes && x->idles &&
           (x->idles == IDLE_MOST || x->idle_bytes + r->bytes > x->reader.keep_bytes))
        gone[goes++] = remove_idle(x, 0);
    if (r->bytes <= x->reader.keep_bytes) {
        x->idle[x->idles++] = r;
        x->idle_bytes += r->bytes;
    } else {
        gone[goes++] = r;
    }
    pthread_mutex_unlock(&x->lock);
    while (goes)
        close_reading(gone[--goes]);
}

/* Whether the file of this name is still the one that is open. */
static bool is_still_there(const struct reading_groups *r)
{
    struct stat now;
    return stat(r->file.path, &now) == 0 && now.st_dev == r->p->file->opened.st_dev &&
           now.st_ino == r->p->file->opened.st_ino && check_same(r, &(struct errmsg){""}) == ERR_OK;
}

/* Have a decoder that stands before the row, in its row group. */
static enum err find_reading(struct grouped *x, const struct text_index_place *at,
                             struct reading_groups **out, struct errmsg *e)
{
    const uint64_t begin = x->x->file[at->file].entry[at->at].row, row = begin + at->skip;
    struct reading_groups *r = find_idle(x, at);
    enum err err = r ? ERR_OK : begin_reading(&r, x, e);
    if (err)
        return err;
    if (r->number != at->file || !is_still_there(r))
        err = open_grouped(r, at->file, e);
    if (!err && (r->row < begin || r->row > row || (r->row == begin && !r->left))) {
        parquet_seek(r->p, (uint32_t)at->at);
        r->row = begin;
        r->left = 0;
    }
    if (err)
        close_reading(r);
    else
        *out = r;
    return err;
}

static enum err grouped_read(struct row_reader *of, uint64_t first, uint64_t end,
                             row_visitor *visit, void *ctx, struct errmsg *e)
{
    struct grouped *x = (struct grouped *)of;
    enum err err = ERR_OK;
    while (first < end && !err) {
        const struct text_index_place at = text_index_find(x->x, first);
        struct reading_groups *r;
        err = find_reading(x, &at, &r, e);
        if (err)
            return err;
        r->rows = at.left < end - first ? at.left : end - first;
        r->visit = visit;
        r->ctx = ctx;
        first += r->rows;
        r->end = first;
        err = read_grouped(r, x->x->file[at.file].entry[at.at].row + at.skip, e);
        if (err)
            close_reading(r);
        else
            put_idle(r);
    }
    return err;
}

static void grouped_free(struct row_reader *of)
{
    struct grouped *x = (struct grouped *)of;
    while (x->idles)
        close_reading(remove_idle(x, 0));
    pthread_mutex_destroy(&x->lock);
    csv_format_close(&x->format);
    mem_free(x);
}

/* Find the columns of all files, so that one that does not fit is refused before training. */
static enum err check_files(struct grouped *x, struct errmsg *e)
{
    struct reading_groups *r;
    enum err err = begin_reading(&r, x, e);
    if (err)
        return err;
    for (uint32_t i = 1; i < x->x->files && !err; i++)
        err = open_grouped(r, i, e);
    close_reading(r);
    return err;
}

static enum err parquet_index_reader(struct row_reader **out, const struct reading *r,
                                     const struct text_index *x, const struct paths *paths,
                                     struct errmsg *e)
{
    static const struct row_reader_type type = {grouped_read, grouped_free};
    struct grouped *made = mem_zalloc(1, sizeof *made);
    enum err err = made ? csv_format_init(&made->format, &r->job->data.csv, r->schema, r->teaches,
                                          r->classes, e)
                        : err_memory(e);
    if (err) {
        mem_free(made);
        return err;
    }
    made->format.parquet = true;
    made->format.meaning.whole = dataset_has_classes(r->job);
    made->reader = (struct row_reader){.type = &type,
                                       .schema = r->schema,
                                       .rows = text_index_rows(x),
                                       .may_be_bad = r->job->data.csv.bad_rows != BAD_ROWS_STOP};
    row_reader_hold(&made->reader, &made->format, r->job);
    made->x = x;
    made->paths = paths;
    pthread_mutex_init(&made->lock, NULL);
    err = check_files(made, e);
    if (err)
        grouped_free(&made->reader);
    else
        *out = &made->reader;
    return err;
}

const struct index_type parquet_index_type = {
    .make = parquet_index,
    .of_chief = parquet_index_of_chief,
    .contents = parquet_index_contents,
    .reader = parquet_index_reader,
};
