/* Rows of csv files by their index: a cell's text is compared with its checksum, and rows begin at the place that the index tells. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "data/csv_batch.h"
#include "data/csv_header.h"
#include "data/csv_rows.h"
#include "data/readers.h"

struct indexed {
    struct row_reader reader;
    const struct text_index *x;
    const struct paths *paths;
    struct csv_format format;
    pthread_mutex_t lock;  /* of the files' fields, until they have begun, and of `shown` */
    uint32_t shown;        /* bad rows that were logged */
    struct csv_file *file; /* (files) */
};

/* A read of rows of one file, by one thread. */
struct reading_rows {
    struct indexed *of;
    uint32_t file;
    struct indexed_text from;
    struct csv_piece piece;
    char *
        text; /* (format.piece_bytes + cell_bytes + 1 + CSV_SCAN_PAD) from a record's beginning on */
    size_t bytes;
    uint64_t cell, line; /* cell: the next one; line: of the first record */
    uint64_t skip, rows; /* records that are rows to skip; and then rows to give out */
    uint64_t end;        /* the number of the row behind them */
    row_visitor *visit;
    void *ctx;
};

/* Add the next cell's bytes from `from` on to the text, if its checksum is that of the index. */
static enum err add_cell(struct reading_rows *r, uint32_t from, struct errmsg *e)
{
    const struct text_index *x = r->of->x;
    const uint32_t size = text_index_cell_size(x, r->file, r->cell);
    char *to = r->text + r->bytes;
    enum err err = indexed_text_read(&r->from, to, size, r->cell * x->cell_bytes, e);
    if (err)
        return err;
    if (XXH3_64bits(to, size) != x->file[r->file].entry[r->cell].sum)
        return err_set(e, ERR_INPUT,
                       "it has changed since it was indexed, at byte %" PRIu64
                       " or behind it: restore it, or start again with --fresh",
                       r->cell * x->cell_bytes);
    memmove(to, to + from, size - from);
    r->bytes += size - from;
    r->cell++;
    if (r->cell == x->file[r->file].cells && r->bytes && r->text[r->bytes - 1] != '\n')
        r->text[r->bytes++] = '\n';
    return ERR_OK;
}

/* Drop the text before `bytes`. */
static void drop_records(struct reading_rows *r, size_t bytes)
{
    r->line += csv_count(r->text, bytes, '\n');
    r->bytes -= bytes;
    memmove(r->text, r->text + bytes, r->bytes);
}

static void skip_records(struct reading_rows *r)
{
    const struct csv_format *f = &r->of->format;
    size_t begin = 0, row = 1;
    while (r->skip && row) {
        row = csv_scan_row(r->text + begin, r->bytes - begin, &f->grammar);
        r->skip -= row && !csv_is_no_row(f, r->text + begin, r->text + begin + row - 1);
        begin += row;
    }
    drop_records(r, begin);
}

/* Make the text's whole rows, up to the last one's end, the piece's text. Returns how many ends p->mark has. */
static size_t set_piece(struct reading_rows *r)
{
    const struct csv_format *f = &r->of->format;
    struct csv_piece *p = &r->piece;
    enum csv_place place = PLACE_ROW;
    const size_t ends = csv_scan_rows(p->mark, r->text, r->bytes, 0, &f->grammar, &place);
    p->text = r->text;
    p->bytes = ends ? p->mark[ends - 1] + (size_t)1 : 0;
    p->line = r->line;
    p->marks = 0;
    csv_piece_grammar(p, f);
    return ends;
}

/* Cells have longer rows, too, but the reader refuses them. ends: the piece's, in p->mark. */
static enum err check_lengths(const struct reading_rows *r, size_t ends, struct errmsg *e)
{
    const struct csv_piece *p = &r->piece;
    const size_t most = r->of->format.piece_bytes;
    for (size_t i = 0, begin = 0; i < ends; begin = p->mark[i++] + (size_t)1)
        if (p->mark[i] + (size_t)1 - begin > most)
            return csv_refuse_long(e, r->text + begin, most,
                                   r->line + csv_count(r->text, begin, '\n'), &r->of->format);
    return ERR_OK;
}

/* The first times. */
static void show_bad(struct indexed *x, const char *path, const struct csv_piece *p)
{
    enum { SHOWN_ROWS = 3 };
    pthread_mutex_lock(&x->lock);
    if (x->shown++ < SHOWN_ROWS)
        log_warn("%s:%" PRIu64 ": this row is left out (data.bad_rows: skip): %s", path,
                 p->first_bad_line, p->first_bad.text);
    pthread_mutex_unlock(&x->lock);
}

/* The whole rows of the text become rows of cells, and the text behind them stays. */
static enum err read_rows(struct reading_rows *r, struct errmsg *e)
{
    const struct csv_format *f = &r->of->format;
    const struct csv_file *file = &r->of->file[r->file];
    struct csv_piece *p = &r->piece;
    enum err err = check_lengths(r, set_piece(r), e);
    if (err)
        return err;
    const size_t bytes = p->bytes;
    const uint64_t lines = csv_count(p->text, bytes, '\n'); /* before quotes are removed */
    p->field = file->field;
    p->kept_as = file->kept_as;
    p->fields = file->fields;
    p->header = file->header;
    learned_clear(&p->learned, f->meaning.schema->inputs);
    err = csv_rows(p, f, e);
    if (err)
        return err;
    if (p->bad && f->job->bad_rows != BAD_ROWS_STOP)
        show_bad(r->of, file->path, p);
    err = row_reader_give(&r->of->reader, p, r->end - r->rows, &r->rows, r->visit, r->ctx, e);
    if (!err && r->rows && p->bad && f->job->bad_rows == BAD_ROWS_STOP)
        return err_set(e, ERR_INPUT, "%" PRIu64 ": %s", p->first_bad_line, p->first_bad.text);
    r->bytes -= bytes;
    r->line += lines;
    memmove(r->text, r->text + bytes, r->bytes);
    return err;
}

/* Find the header, or the first row: what comes before it can be longer than the text's room. Errors name the file. */
static enum err find_fields(struct reading_rows *r, struct csv_file *file, struct errmsg *e)
{
    struct csv_piece *p = &r->piece;
    const size_t most = r->of->format.piece_bytes;
    size_t mark_bytes;
    enum err err = ERR_OK;
    for (r->line = 1; !err && !file->begun && r->cell < r->of->x->file[r->file].cells;) {
        if (r->bytes > most) {
            err = csv_refuse_long(e, r->text, most, r->line, &r->of->format);
            return err_wrap(e, err, "%s:", file->path);
        }
        err = add_cell(r, 0, e);
        (void)set_piece(r);
        const size_t bytes = p->bytes;
        if (!err && bytes && r->line == 1)
            err = csv_file_skip_mark(p, &mark_bytes, e);
        if (err)
            return err_wrap(e, err, "%s: ", file->path);
        if (bytes)
            err = csv_file_begin(file, p, &r->of->format, e);
        drop_records(r, bytes);
    }
    return err;
}

/* Find the fields of the file, by the job's order or by its header, once for all threads. An error comes again for each. */
static enum err begin_file(struct reading_rows *r, struct errmsg *e)
{
    struct csv_file *file = &r->of->file[r->file];
    pthread_mutex_lock(&r->of->lock);
    if (!file->path) /* those who have it read it without the lock */
        file->path = r->of->paths->path[r->file];
    const enum err err = find_fields(r, file, e);
    if (err)
        csv_file_close(file);
    pthread_mutex_unlock(&r->of->lock);
    r->cell = r->bytes = 0;
    return err;
}

static enum err read_on(struct reading_rows *r, uint32_t from, struct errmsg *e)
{
    const struct text_index_file *f = &r->of->x->file[r->file];
    const size_t most = r->of->format.piece_bytes;
    enum err err = ERR_OK;
    for (; r->rows && !err; from = 0) {
        if (r->bytes > most)
            return csv_refuse_long(e, r->text, most, r->line, &r->of->format);
        if (r->cell == f->cells)
            return err_set(e, ERR_INPUT,
                           " it has fewer rows than its index: start again with --fresh");
        err = add_cell(r, from, e);
        if (err)
            return err_wrap(e, err, " ");
        if (r->skip)
            skip_records(r);
        if (!err && !r->skip)
            err = read_rows(r, e);
    }
    return err;
}

static enum err check_same(const struct reading_rows *r, struct errmsg *e)
{
    const struct text_index_file *f = r->from.of;
    return indexed_text_same(r->from.fd, f->stored_bytes, f->modified_ns, e);
}

static enum err read_file(struct reading_rows *r, const struct text_index_place *p,
                          struct errmsg *e)
{
    const struct text_index *x = r->of->x;
    const char *path = r->of->paths->path[p->file];
    enum err err = indexed_text_open(&r->from, &x->file[p->file], path, e);
    if (!err)
        err = check_same(r, e);
    if (err)
        return err_wrap(e, err, "%s: ", path);
    err = begin_file(r, e);
    if (err)
        return err;
    r->cell = p->at / x->cell_bytes;
    r->line = p->line;
    r->skip = p->skip;
    err = read_on(r, (uint32_t)(p->at % x->cell_bytes), e);
    if (err) /* wrong input has its line */
        return err_wrap(e, err, err == ERR_INPUT ? "%s:" : "%s: ", path);
    err = check_same(r, e);
    return err ? err_wrap(e, err, "%s: ", path) : ERR_OK;
}

static enum err indexed_read(struct row_reader *of, uint64_t first, uint64_t end,
                             row_visitor *visit, void *ctx, struct errmsg *e)
{
    struct indexed *x = (struct indexed *)of;
    const size_t most = x->format.piece_bytes + (size_t)x->x->cell_bytes + 1 + CSV_SCAN_PAD;
    struct reading_rows r = {.of = x, .text = mem_zalloc(most, 1), .visit = visit, .ctx = ctx};
    r.piece.mark = mem_zalloc(most, sizeof *r.piece.mark);
    enum err err = learned_init(&r.piece.learned, of->schema, false, false);
    if (err || !r.text || !r.piece.mark)
        err = err_memory(e);
    while (first < end && !err) {
        const struct text_index_place p = text_index_find(x->x, first);
        r.file = p.file;
        r.rows = p.left < end - first ? p.left : end - first;
        r.cell = r.bytes = 0;
        first += r.rows;
        r.end = first;
        err = read_file(&r, &p, e);
        indexed_text_close(&r.from);
    }
    learned_close(&r.piece.learned, of->schema->inputs);
    csv_batch_free(r.piece.batch);
    mem_free(r.piece.kept);
    mem_free(r.piece.cells);
    mem_free(r.piece.present);
    mem_free(r.piece.mark);
    mem_free(r.text);
    return err;
}

static void indexed_free(struct row_reader *of)
{
    struct indexed *x = (struct indexed *)of;
    for (uint32_t i = 0; i < x->x->files; i++)
        csv_file_close(&x->file[i]);
    pthread_mutex_destroy(&x->lock);
    csv_format_close(&x->format);
    mem_free(x->file);
    mem_free(x);
}

enum err csv_index_reader(struct row_reader **out, const struct reading *r,
                          const struct text_index *x, const struct paths *paths, struct errmsg *e)
{
    static const struct row_reader_type type = {indexed_read, indexed_free};
    struct indexed *made = mem_zalloc(1, sizeof *made);
    struct csv_file *file = mem_zalloc(x->files, sizeof *file);
    enum err err = made && file ? csv_format_init(&made->format, &r->job->data.csv, r->schema,
                                                  r->teaches, r->classes, e)
                                : err_memory(e);
    if (err) {
        mem_free(file);
        mem_free(made);
        return err;
    }
    made->format.meaning.whole = dataset_has_classes(r->job);
    made->reader = (struct row_reader){.type = &type,
                                       .schema = r->schema,
                                       .rows = text_index_rows(x),
                                       .may_be_bad = r->job->data.csv.bad_rows != BAD_ROWS_STOP};
    row_reader_hold(&made->reader, &made->format, r->job);
    made->x = x;
    made->paths = paths;
    made->file = file;
    pthread_mutex_init(&made->lock, NULL);
    *out = &made->reader;
    return ERR_OK;
}
