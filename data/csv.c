/* csv: text with one row a line (RFC 4180), described by the job's data.columns; also libsvm, which differs only in
 * its lines (libsvm_rows.c), and Parquet, whose pieces are rows of its columns (parquet_rows.c).
 *
 * The text is divided into pieces of whole rows, of at most piece_bytes, by its contents alone. Each thread in
 * turn reads the next piece (decompression is sequential), converts it to rows in parallel with the other threads,
 * and then waits until all earlier pieces are joined. So rows, words and the first error are the same for any number
 * of threads. Only the pieces that are being read are in memory as text.
 *
 * A row ends at a newline that is not in quotes (csv_scan.h), so a quote that is never closed extends the row until a
 * piece is full or the file ends, and is refused. The fingerprint is made from the digests of the pieces, which threads
 * compute in parallel. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/printable.h"
#include "common/process/cgroup.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include <xxhash.h>
#include "data/core/order.h"
#include "data/csv_header.h"
#include "data/core/rounding.h"
#include "data/csv_batch.h"
#include "data/csv_rows.h"
#include "data/text/csv_scan.h"
#include "data/drawn/drawn.h"
#include "data/meaning/encoding_given.h"
#include "data/text/csv_hint.h"
#include "common/process/paths.h"
#include "common/process/process_state.h"
#include "data/arrow/parquet.h"
#include "data/host_copy.h"
#include "data/readers.h"
#include "data/bytes/stream.h"
#include "data/text/text_encoding.h"

enum {
    DIGEST_BYTES = 32,
    LOOK_ROWS = 1000, /* of each file, at least */
    /* To count keys a look reads so much text, shared by its files; of a larger plain file it reads blocks. */
    COUNTED_BYTES = 32 << 20,
    SPREAD_BYTES = 64 << 10 /* a block */
};

/* One thread's piece. */
struct work {
    struct csv_piece piece; /* its text is in `text`, after a header */
    char *text;             /* (format.piece_bytes + CSV_TEXT_PAD) */
    /* as in the file: without the newline that is added if the file lacks one at its end */
    size_t text_bytes;
    uint64_t ticket; /* its position among all pieces */
    const struct csv_file *file;
    bool spread; /* its rows are from the middle of the file, whose line numbers are not known */
    uint8_t digest[DIGEST_BYTES];
    size_t digest_bytes;
    bool digested;
    struct dataset_seen seen; /* in the piece */
    uint32_t *renumber;       /* number of a word in the piece -> number among all words */
    enum err err;
    struct errmsg e;
};

struct place {
    const char *path; /* NULL: no such line yet */
    uint64_t line;
};

struct spelling {
    const char *path; /* NULL: none */
    struct learned_spelling of;
};

struct unknown {
    const char *path, *marker_path; /* NULL: no row has such a word; a marker */
    struct learned_unknown of;
};

/* Blocks of the last file that was closed. */
struct spread {
    const struct csv_file *file;
    uint64_t begin, end;   /* where they are in the file */
    uint32_t next, blocks; /* next: the first one that is not read */
};

/* The key that more than half of the rows can have (Boyer and Moore 1991, "MJRTY"), and how many have it at least. */
struct leading_key {
    uint64_t hash, lead, rows;
    char text[CSV_SHOWN_BYTES]; /* its beginning */
    size_t bytes;
};

struct csv {
    const struct reading *reading;
    const struct job_csv *job;
    struct csv_format format;
    struct table *table;
    struct contents *contents;
    const struct csv_file *in_contents; /* the file that it has reached; NULL: none */
    struct paths paths;
    struct csv_file *file; /* (paths.count) */
    struct work *work;     /* (threads) */

    pthread_mutex_t lock; /* for reading; the thread that holds it reads the next piece */
    size_t next_file;
    struct stream *stream;   /* of file[next_file]; NULL: not open */
    struct parquet *parquet; /* in place of a stream; NULL: the files are text */
    struct drawn drawn;      /* for data.synthetic, in place of a stream */
    char *tail; /* the beginning of a row that continues in the next piece: (format.piece_bytes) */
    size_t tail_bytes;
    uint64_t line, tickets;
    uint64_t first_row;    /* the first row of this file, in the table */
    uint64_t file_bytes;   /* bytes read of the file's text */
    double more_rows;      /* for a look: likely rows behind the beginnings that were read */
    double more_alike;     /* and their number, if they were as long as those that were read */
    bool partly;           /* for a look: there are files with more than their beginnings */
    struct spread spread;  /* for a look: of which keys are counted */
    uint64_t spread_rows;  /* in the table, from blocks */
    uint64_t opened_bytes; /* sizes on the disk: of the files that were opened */
    uint64_t left_bytes;   /* and, for a look, of those that are skipped */
    bool open;             /* reading of file[next_file] has begun */
    bool ended;            /* all is read, or an error has occurred */

    /* for joining, in the order of tickets; never taken while another lock is held */
    pthread_mutex_t join_lock;
    pthread_cond_t joined;
    uint64_t next_ticket, rows; /* rows: all that were joined, also bad ones */
    uint64_t bad, bad_lines;    /* bad rows, and the lines in them */
    struct place zero, minus;   /* the positions of the first labels 0 and -1 */
    struct place odd[CSV_ODDS]; /* the position of the first */
    uint64_t empty_rows;        /* CSV_ODD_EMPTY */
    bool worded;                /* of a piece */
    struct csv_empty between,
        behind; /* between rows of one field, and behind the last row of empty_in */
    const struct csv_file *empty_in, *first_empty_in; /* of the first of `between` */
    struct spelling *spelled;                         /* (inputs + 2) of each column, or NULL */
    struct unknown *unknown;                          /* (inputs) */
    struct vocabulary *key_words;                     /* (LEARNED_KEYS) */
    struct vocabulary others;                         /* labels that "*" takes */
    enum err err;
    struct errmsg e; /* the first error in the order of the text */
    struct errmsg first_bad;
    struct dataset_seen seen;
    bool holds, by_column; /* rows are held out; by a column */
    struct order_held held;
    struct leading_key
        leading[2];  /* by a column: of the rows that stay, and of those that are held out */
    uint64_t hashes; /* bits: the highest 6 bits of hashes that came */
};

/* ---- reading pieces; the caller holds the lock ---- */

/* The position after the last '\n' that ends a row; 0: none. */
static size_t last_row_end(struct csv_piece *p)
{
    if (csv_is_plain(&p->grammar)) {
        const char *newline = memrchr(p->text, '\n', p->bytes);
        return newline ? (size_t)(newline - p->text) + 1 : 0;
    }
    p->marks = csv_scan_neat(p->mark, p->text, p->bytes, &p->grammar, &p->neat);
    while (p->marks && p->text[p->mark[p->marks - 1]] != '\n')
        p->marks--;
    return p->marks ? p->mark[p->marks - 1] + (size_t)1 : 0;
}

/* Keep whole rows in the piece, and the rest for the next one; at the file's end all is kept. */
static enum err cut_piece(struct csv *c, struct work *w, bool end_of_file, struct errmsg *e)
{
    struct csv_piece *p = &w->piece;
    csv_piece_grammar(p, &c->format);
    p->marks = 0;
    size_t keep = end_of_file ? p->bytes : last_row_end(p);
    if (keep == 0 && p->bytes)
        return err_wrap(e, csv_refuse_long(e, p->text, p->bytes, c->line, &c->format),
                        "%s:", c->file[c->next_file].path);
    c->tail_bytes = p->bytes - keep;
    memcpy(c->tail, p->text + keep, c->tail_bytes);
    p->bytes = keep;
    p->line = c->line;
    c->line += csv_count(p->text, p->bytes, '\n');
    return ERR_OK;
}

/* On the disk. */
static uint64_t size_of(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && s.st_size > 0 ? (uint64_t)s.st_size : 0;
}

static void note_groups(struct dataset_look *l, const struct parquet *p)
{
    for (uint32_t i = 0; i < p->module->groups(p->file->arrow); i++) {
        const uint64_t rows = p->module->rows(p->file->arrow, i);
        l->group_rows = rows > l->group_rows ? rows : l->group_rows;
    }
}

static enum err open_next(struct csv *c, struct errmsg *e)
{
    struct csv_file *f = &c->file[c->next_file];
    f->path = c->paths.path[c->next_file];
    c->line = 1;
    c->tail_bytes = 0;
    if (c->reading->look) /* only in a look: otherwise other threads may be joining their rows */
        c->first_row = c->table->rows;
    c->file_bytes = 0;
    c->open = true;
    if (c->reading->job->data.format == DATA_SYNTHETIC)
        return ERR_OK;
    c->opened_bytes += c->reading->look ? size_of(f->path) : 0;
    if (!c->parquet)
        return stream_open(&c->stream, f->path, e);
    enum err err = parquet_rows_begin(f, &c->format, c->parquet, e);
    if (!err && c->reading->look)
        note_groups(c->reading->look, c->parquet);
    return err;
}

/* ---- what a look has not read ---- */

/* A part of a file's text. */
struct span {
    double bytes, lines;
};

/* Up to SPREAD_BYTES of the file's text; 0: it cannot be read. */
static size_t read_at(const char *path, uint64_t at, char *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, out, SPREAD_BYTES, (off_t)at);
    if (fd >= 0)
        (void)close(fd);
    return n > 0 ? (size_t)n : 0;
}

/* Blocks that are spread over the rest of a plain file: its lines can be longer or shorter than those at its beginning. */
static struct span spread_blocks(const char *path, uint64_t begin, uint64_t end, char *room)
{
    enum { BLOCKS = 16 };
    struct span seen = {0, 0};
    uint64_t last = end > begin + SPREAD_BYTES ? end - begin - SPREAD_BYTES : 0;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        size_t n = read_at(path, begin + last * i / (BLOCKS - 1), room);
        seen.bytes += (double)n;
        seen.lines += (double)csv_count(room, n, '\n');
    }
    return seen;
}

/* A compressed file can only be read a little further. *rest_bytes: the likely size of the text behind the beginning. */
static struct span read_ahead(struct csv *c, double *rest_bytes)
{
    enum { AHEAD_PIECES = 16 };
    struct span seen = {(double)c->tail_bytes, (double)csv_count(c->tail, c->tail_bytes, '\n')};
    size_t got = c->format.piece_bytes;
    for (int i = 0; i < AHEAD_PIECES && got == c->format.piece_bytes; i++) {
        if (stream_read(c->stream, c->tail, c->format.piece_bytes, &got, NULL))
            break; /* the error is reported when the file is read */
        seen.bytes += (double)got;
        seen.lines += (double)csv_count(c->tail, got, '\n');
    }
    double likely = (double)stream_likely_bytes(c->stream) - (double)c->file_bytes;
    *rest_bytes = got < c->format.piece_bytes ? seen.bytes : fmax(likely, seen.bytes);
    return seen;
}

/* The rows of a Parquet file are known. */
static void add_rows_left(struct csv *c)
{
    const double more = (double)c->parquet->left;
    c->partly |= more > 0;
    c->more_rows += more;
    c->more_alike += more;
}

/* Add the likely rows of the open file behind the beginning that was read. */
static void add_rows_behind(struct csv *c)
{
    enum { LINES_LEAST = 16 }; /* of longer lines the beginning tells more */
    const char *path = c->file[c->next_file].path;
    struct span begin = {(double)c->file_bytes, (double)(c->line - 1)}, rest;
    double bytes = 0;
    if (stream_is_compressed(c->stream)) {
        rest = read_ahead(c, &bytes);
    } else {
        uint64_t all = stream_likely_bytes(c->stream);
        bytes = all > c->file_bytes ? (double)(all - c->file_bytes) : 0;
        rest = spread_blocks(path, c->file_bytes, all, c->tail);
    }
    if (rest.lines < LINES_LEAST)
        rest = begin;
    double rows = (double)(c->table->rows - c->first_row);
    if (!(begin.lines > 0 && rest.bytes > 0 && bytes > 0 && rows > 0))
        return;
    c->partly = true;
    double more = bytes * rest.lines / rest.bytes * rows / begin.lines;
    c->more_rows += more;
    /* blocks have the keys of all rows, and the beginning alone those of its own */
    c->more_alike += c->spread.blocks ? more : bytes / begin.bytes * rows;
}

/* The text of each file that is read for its keys; 0: none are counted. */
static uint64_t counted_bytes(const struct csv *c)
{
    const struct reading *r = c->reading;
    size_t files = c->paths.count;
    if (!r->look || r->eval || c->table->schema->lookups == 0)
        return 0;
    if (r->sampled && files > DATASET_SAMPLE_FILES)
        files = DATASET_SAMPLE_FILES;
    return COUNTED_BYTES / files;
}

/* The blocks behind the beginning of the open file: none if it can only be read in sequence. */
static struct spread spread_over(const struct csv *c)
{
    const uint64_t end = stream_likely_bytes(c->stream), counted = counted_bytes(c);
    struct spread s = {.file = &c->file[c->next_file], .begin = c->file_bytes, .end = end};
    if (!stream_is_compressed(c->stream) && end > counted && counted > s.begin)
        s.blocks = (uint32_t)((counted - s.begin) / SPREAD_BYTES);
    return s;
}

/* Take the whole rows of the next block, if it does not begin in quotes (join_spread). */
static void read_spread(struct csv *c, struct work *w)
{
    struct spread *s = &c->spread;
    struct csv_piece *p = &w->piece;
    const struct csv_file *f = s->file;
    const uint64_t each = (s->end - s->begin - SPREAD_BYTES) / s->blocks;
    size_t n = read_at(f->path, s->begin + each * s->next++, w->text), row = 0;
    while (row < n && w->text[row++] != '\n')
        ;
    p->text = w->text + row;
    p->bytes = n - row;
    p->marks = 0;
    p->line = 1;
    p->begins_file = false;
    p->field = f->field;
    p->kept_as = f->kept_as;
    p->fields = f->fields;
    p->header = f->header;
    csv_piece_grammar(p, &c->format);
    p->bytes = last_row_end(p);
    w->file = f;
}

/* `whole`: all of it was read. */
static void close_file(struct csv *c, bool whole)
{
    if (!whole && c->stream) {
        c->spread = spread_over(c);
        add_rows_behind(c);
    }
    if (!whole && c->parquet)
        add_rows_left(c);
    if (c->parquet)
        parquet_close(c->parquet);
    stream_close(c->stream);
    c->stream = NULL;
    c->open = false;
    c->next_file++;
}

static enum err digest_piece(const struct csv *c, struct work *w, struct errmsg *e)
{
    if (w->digested || c->reading->sink)
        return ERR_OK;
    if (c->parquet) {
        enum err err = parquet_digest(w->piece.parquet, w->digest, &w->text_bytes, e);
        w->digested = w->text_bytes > 0;
        w->digest_bytes = sizeof w->digest;
        return err;
    }
    if (!c->reading->before) {
        XXH128_canonical_t digest;
        XXH128_canonicalFromHash(&digest, XXH3_128bits(w->text, w->text_bytes));
        memcpy(w->digest, digest.digest, sizeof digest.digest);
        w->digest_bytes = sizeof digest.digest;
        w->digested = true;
        return ERR_OK;
    }
    struct sha256 *hash = sha256_new();
    if (hash)
        sha256_add(hash, w->text, w->text_bytes);
    w->digest_bytes = sizeof w->digest;
    w->digested = hash && !sha256_final(hash, w->digest);
    sha256_free(hash);
    return w->digested ? ERR_OK : err_memory(e);
}

static enum err read_text(struct csv *c, char *out, size_t bytes, size_t *got, struct errmsg *e)
{
    if (c->reading->job->data.format != DATA_SYNTHETIC)
        return stream_read(c->stream, out, bytes, got, e);
    *got = drawn_read(&c->drawn, out, bytes);
    return ERR_OK;
}

/* Fill the piece from the open file. */
static enum err read_piece(struct csv *c, struct work *w, struct errmsg *e)
{
    struct csv_file *f = &c->file[c->next_file];
    struct csv_piece *p = &w->piece;
    bool first = c->file_bytes == 0, begins = !f->begun;
    size_t mark = 0, got, wanted = c->format.piece_bytes - c->tail_bytes;
    p->text = w->text;
    memcpy(p->text, c->tail, c->tail_bytes);
    enum err err = read_text(c, p->text + c->tail_bytes, wanted, &got, e);
    if (err)
        return err_wrap(e, err, "%s: ", f->path);
    p->bytes = c->tail_bytes + got;
    err = first ? csv_file_skip_mark(p, &mark, e) : ERR_OK;
    if (err)
        return err_wrap(e, err, "%s: ", f->path);
    err = cut_piece(c, w, got < wanted, e);
    if (err)
        return err;
    w->file = f;
    w->digested = false;
    w->text_bytes = mark + p->bytes;
    if (p->bytes && p->text[p->bytes - 1] != '\n')
        p->text[p->bytes++] = '\n';
    p->begins_file = begins;
    p->file = (uint32_t)c->next_file;
    if (begins && !c->reading->before) {
        err = digest_piece(c, w, e); /* before the quotes of a header are removed */
        if (!err)
            err = csv_file_begin(f, p, &c->format, e);
    }
    p->field = f->field;
    p->kept_as = f->kept_as;
    p->fields = f->fields;
    p->header = f->header;
    p->labels.field = f->labels.field;
    p->named = f->names_line > 0;
    c->file_bytes += w->text_bytes;
    if (got < wanted)
        close_file(c, true);
    return err;
}

/* The same of columns. */
static enum err read_columns(struct csv *c, struct work *w, struct errmsg *e)
{
    struct csv_file *f = &c->file[c->next_file];
    struct csv_piece *p = &w->piece;
    bool last;
    const uint64_t left_bytes = c->parquet->left_bytes;
    enum err err = parquet_next(c->parquet, &p->parquet, &last, e);
    if (err)
        return err;
    loading_read(left_bytes - c->parquet->left_bytes);
    w->file = f;
    w->digested = false;
    w->text_bytes = 0;
    p->begins_file = !f->begun;
    f->begun = true;
    p->field = f->field;
    p->kept_as = f->kept_as;
    p->fields = f->fields;
    c->file_bytes += c->format.piece_bytes; /* so much as text, or less */
    if (last)
        close_file(c, true);
    return ERR_OK;
}

/* For a look, which has one thread, so all that was read has been joined. */
static bool looked_enough(const struct csv *c)
{
    if (!c->reading->look || !c->open || c->table->rows - c->first_row < LOOK_ROWS)
        return false;
    bool jumps = c->stream && !stream_is_compressed(c->stream);
    uint64_t counted = counted_bytes(c);
    return c->file_bytes >= counted || (jumps && stream_likely_bytes(c->stream) > counted);
}

/* True if this file is part of the sample: the first, or the last of one of the equal parts. */
static bool is_in_sample(size_t file, size_t files)
{
    return files <= DATASET_SAMPLE_FILES || file == 0 ||
           file * (DATASET_SAMPLE_FILES - 1) / files !=
               (file + 1) * (DATASET_SAMPLE_FILES - 1) / files;
}

static void leave_out(struct csv *c)
{
    while (!c->open && c->next_file < c->paths.count &&
           !is_in_sample(c->next_file, c->paths.count)) {
        c->left_bytes += size_of(c->paths.path[c->next_file++]);
    }
}

/* Take the next piece, and its ticket; false: none is left. An error is reported in its turn. */
static bool take_piece(struct csv *c, struct work *w)
{
    pthread_mutex_lock(&c->lock);
    if (looked_enough(c))
        close_file(c, false);
    if (c->reading->sampled)
        leave_out(c);
    w->spread = c->spread.next < c->spread.blocks;
    bool more = !c->ended && (w->spread || c->next_file < c->paths.count);
    if (more) {
        w->ticket = c->tickets++;
        w->err = c->open || w->spread ? ERR_OK : open_next(c, &w->e);
        if (w->spread)
            read_spread(c, w);
        else if (!w->err)
            w->err = c->parquet ? read_columns(c, w, &w->e) : read_piece(c, w, &w->e);
        c->ended = w->err != ERR_OK;
    }
    pthread_mutex_unlock(&c->lock);
    return more;
}

/* ---- joining pieces, in order ---- */

static enum err join_words(struct csv *c, struct work *w, uint32_t input)
{
    const struct vocabulary *here = &w->piece.learned.words[input];
    uint32_t *to = mem_resize(w->renumber, (size_t)here->count + 1, sizeof *to);
    if (!to)
        return ERR_NOMEM;
    w->renumber = to;
    to[0] = 0;
    for (uint32_t i = 0; i < here->count; i++) {
        size_t bytes;
        const char *word = vocabulary_text(here, i, &bytes);
        enum err err =
            vocabulary_add(&c->table->schema->input[input].words, word, bytes, &to[i + 1]);
        if (err)
            return err;
        to[i + 1]++;
    }
    return ERR_OK;
}

static void renumber_cells(const struct work *w, const struct table_schema *s, uint32_t input)
{
    uint32_t *cells = w->piece.cells;
    for (uint64_t row = 0; row < w->piece.rows; row++) {
        cells[input] = w->renumber[cells[input]];
        cells += schema_packed_raw_cells(s, cells);
    }
}

/* Append the piece's rows to the table. */
static enum err join_rows(struct csv *c, struct work *w, struct errmsg *e)
{
    const struct dataset_sink *sink = c->reading->sink;
    if (sink)
        return sink->put(sink->ctx, (uint32_t)(w - c->work), e);
    const struct table_schema *s = c->table->schema;
    for (uint32_t i = 0; i < s->inputs && c->format.meaning.learning; i++) {
        if (!s->input[i].learns)
            continue;
        enum err err = join_words(c, w, i);
        if (err)
            return err_set(e, err == ERR_TOOBIG ? ERR_INPUT : err, "category %s: %s",
                           SHOWN(s->input[i].name),
                           err == ERR_TOOBIG ? "too many words" : err_str(err));
        renumber_cells(w, s, i);
    }
    return table_append(c->table, w->piece.cells, w->piece.rows, e);
}

/* Where in its file a line is: ":12", or ": row group 3, row 12". Returns out. */
enum { PLACE_BYTES = 80 };
static const char *place_words(char out[static PLACE_BYTES], uint64_t line)
{
    const uint64_t group = line >> PARQUET_ROW_BITS;
    if (group)
        (void)snprintf(out, PLACE_BYTES, ": row group %" PRIu64 ", row %" PRIu64, group - 1,
                       line & ((UINT64_C(1) << PARQUET_ROW_BITS) - 1));
    else
        (void)snprintf(out, PLACE_BYTES, ":%" PRIu64, line);
    return out;
}

static enum err count_bad(struct csv *c, const struct work *w, struct errmsg *e)
{
    if (!w->piece.bad)
        return ERR_OK;
    if (!c->bad)
        (void)err_set(&c->first_bad, ERR_INPUT, "%s%s: %s", w->file->path,
                      place_words((char[PLACE_BYTES]){""}, w->piece.first_bad_line),
                      w->piece.first_bad.text);
    c->bad += w->piece.bad;
    c->bad_lines += w->piece.bad_lines;
    if (c->job->bad_rows == BAD_ROWS_STOP)
        return err_set(e, ERR_INPUT, "%s", c->first_bad.text);
    if (c->bad_lines <= c->job->bad_rows_max)
        return ERR_OK;
    return err_set(e, ERR_INPUT, "more than %u bad rows (data.bad_rows_max)%s; the first: %s",
                   c->job->bad_rows_max, c->bad_lines > c->bad ? ", each line counted" : "",
                   c->first_bad.text);
}

/* Refuse a set with both labels 0 and -1: one class for both would be a guess. */
static enum err check_signs(struct csv *c, const struct work *w, struct errmsg *e)
{
    if (!c->zero.path && w->piece.zero_line)
        c->zero = (struct place){w->file->path, w->piece.zero_line};
    if (!c->minus.path && w->piece.minus_line)
        c->minus = (struct place){w->file->path, w->piece.minus_line};
    if (!c->zero.path || !c->minus.path)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "%s:%" PRIu64 ": label 0, and %s:%" PRIu64
                   " has label -1: name the classes: - label: {classes: [\"-1\", \"1\"]}, or "
                   "[\"-1\", \"0|1\"] to take 0 for 1",
                   c->zero.path, c->zero.line, c->minus.path, c->minus.line);
}

static void note_odd(struct csv *c, const struct work *w)
{
    for (int i = 0; i < CSV_ODDS; i++)
        if (!c->odd[i].path && w->piece.odd_line[i])
            c->odd[i] = (struct place){w->file->path, w->piece.odd_line[i]};
    c->empty_rows += w->piece.empty_rows;
    c->worded |= c->format.libsvm && w->piece.worded;
}

static void join_labels(struct csv_labels *all, const struct csv_labels *of)
{
    if (!all->none) {
        memcpy(all->shown, of->shown, sizeof all->shown);
        all->line = of->line;
        all->first = of->first;
    }
    all->differ |= of->differ || (of->none && strcmp(all->shown, of->shown) != 0);
    all->rows += of->rows;
    all->none += of->none;
}

/* A piece can begin with lines that are between rows, as the one before it shows. */
static void note_empty(struct csv *c, struct work *w)
{
    struct csv_piece *p = &w->piece;
    if (c->empty_in != w->file)
        c->behind = (struct csv_empty){0};
    c->empty_in = w->file;
    if (p->rows)
        csv_empty_move(&c->between, &c->behind);
    csv_empty_move(&c->between, &p->between);
    csv_empty_move(&c->behind, &p->behind);
    if (c->between.lines && !c->first_empty_in)
        c->first_empty_in = w->file;
}

static void note_spellings(struct csv *c, const struct work *w)
{
    for (uint32_t i = 0; c->spelled && i < c->table->schema->inputs + 2; i++)
        if (!c->spelled[i].path && w->piece.learned.spelled[i].line)
            c->spelled[i] = (struct spelling){w->file->path, w->piece.learned.spelled[i]};
}

static void note_unknown(struct csv *c, const struct work *w)
{
    for (uint32_t i = 0; w->piece.learned.any_unknown && i < c->table->schema->inputs; i++) {
        const struct learned_unknown *of = &w->piece.learned.unknown[i];
        struct unknown *all = &c->unknown[i];
        const uint64_t rows = all->of.rows + of->rows;
        if (!*all->of.shown && of->rows)
            *all = (struct unknown){.path = w->file->path, .of = *of};
        if (!all->marker_path && *of->marker) {
            memcpy(all->of.marker, of->marker, sizeof all->of.marker);
            all->marker_path = w->file->path;
        }
        all->of.rows = rows;
    }
}

/* Texts join in the order of the rows, so the sample is the same for any number of threads. If it is full, a thread keeps its own
 * texts, and so stops to note more of them when it has as many. */
static enum err join_texts(struct vocabulary *all, struct vocabulary *words, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t k = 0, number; k < words->count && all->count < LEARNED_KEY_WORDS && !err; k++) {
        size_t bytes;
        const char *word = vocabulary_text(words, k, &bytes);
        err = vocabulary_add(all, word, bytes, &number) ? err_memory(e) : ERR_OK;
    }
    if (all->count < LEARNED_KEY_WORDS)
        vocabulary_clear(words);
    return err;
}

/* The samples of texts. */
static enum err join_samples(struct csv *c, struct work *w, struct errmsg *e)
{
    struct learned *t = &w->piece.learned;
    enum err err = join_texts(&c->others, &t->others, e);
    for (uint32_t i = 0; i < t->keys && !err; i++)
        err = join_texts(&c->key_words[i], &t->key_words[i], e);
    return err;
}

static void join_contents(struct csv *c, const struct work *w)
{
    if (c->reading->sink)
        return;
    if (c->in_contents != w->file)
        contents_file(c->contents, w->file->path);
    c->in_contents = w->file;
    if (w->digested) /* of Parquet the first piece of a row group */
        contents_add(c->contents, w->digest, w->digest_bytes);
    contents_count(c->contents, w->text_bytes);
    contents_rows(c->contents, w->piece.rows);
}

/* A block in which rows seem to be wrong may begin in quotes. */
static enum err join_spread(struct csv *c, struct work *w, struct errmsg *e)
{
    if (w->err == ERR_NOMEM)
        return err_set(e, w->err, "%s", w->e.text);
    if (w->err || (w->piece.bad && c->job->bad_rows == BAD_ROWS_STOP))
        return ERR_OK;
    dataset_see_also(&c->seen, &w->seen);
    c->spread_rows += w->piece.rows;
    enum err err = join_samples(c, w, e);
    return err ? err : join_rows(c, w, e);
}

static void lead(struct leading_key *k, uint64_t hash, const struct csv_text *text)
{
    if (!k->lead && k->hash != hash) {
        *k = (struct leading_key){.hash = hash};
        k->bytes = text->bytes < sizeof k->text ? text->bytes : sizeof k->text;
        memcpy(k->text, text->at, k->bytes);
    }
    k->rows += k->hash == hash;
    k->lead += k->hash == hash ? 1 : UINT64_MAX;
}

/* Note which rows of the piece are held out by a column, the one whose text is kept. */
static enum err note_held(struct csv *c, const struct work *w, struct errmsg *e)
{
    const struct job *job = c->reading->job;
    const uint64_t key = order_hold_key(job->training.seed, true);
    enum err err = ERR_OK;
    for (uint64_t i = 0; i < w->piece.rows && c->by_column && !err; i++) {
        const struct csv_text *text = &w->piece.kept[i];
        const uint64_t hash = csv_text_key(text);
        const bool held = order_holds_out(key, hash, job->data.validation.share);
        lead(&c->leading[held], hash, text);
        c->hashes |= UINT64_C(1) << (hash >> 58);
        err = order_note(&c->held, held);
    }
    return err ? err_memory(e) : ERR_OK;
}

static enum err join(struct csv *c, struct work *w, struct errmsg *e)
{
    if (w->spread)
        return join_spread(c, w, e);
    if (w->err)
        return err_set(e, w->err, "%s", w->e.text);
    join_contents(c, w);
    if (c->reading->before)
        return ERR_OK;
    note_odd(c, w);
    note_empty(c, w);
    note_spellings(c, w);
    note_unknown(c, w);
    dataset_see_also(&c->seen, &w->seen);
    join_labels(&c->file[w->file - c->file].labels, &w->piece.labels);
    c->file[w->file - c->file].rows += w->piece.rows;
    c->file[w->file - c->file].pairs += w->piece.pairs;
    c->rows += w->piece.rows;
    enum err err = count_bad(c, w, e);
    if (!err)
        err = check_signs(c, w, e);
    if (!err)
        err = join_samples(c, w, e);
    if (!err)
        err = note_held(c, w, e);
    return err ? err : join_rows(c, w, e);
}

static void join_in_turn(struct csv *c, struct work *w)
{
    pthread_mutex_lock(&c->join_lock);
    while (c->next_ticket != w->ticket)
        pthread_cond_wait(&c->joined, &c->join_lock);
    if (!c->err)
        c->err = join(c, w, &c->e);
    bool failed = c->err != ERR_OK;
    c->next_ticket++;
    pthread_cond_broadcast(&c->joined);
    pthread_mutex_unlock(&c->join_lock);
    if (failed) {
        pthread_mutex_lock(&c->lock);
        c->ended = true;
        pthread_mutex_unlock(&c->lock);
    }
}

/* ---- threads ---- */

/* Text of UTF-16 is refused at its first line: its rows would have other errors, of CRs. */
static enum err find_nul(struct csv_piece *p, struct errmsg *e)
{
    const char *nul = memchr(p->text, '\0', p->bytes), *encoding = NULL;
    memset(p->odd_line, 0, sizeof p->odd_line);
    if (!nul)
        return ERR_OK;
    const uint64_t line = p->line + csv_count(p->text, (size_t)(nul - p->text), '\n');
    (void)text_encoding_change(p->text, p->bytes, &encoding);
    p->odd_line[CSV_ODD_NUL] = line;
    if (!encoding)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "%" PRIu64
                   ": %s text begins here, and the lines before are UTF-8, which alone is "
                   "read; convert these lines: iconv -f %s -t UTF-8",
                   line, encoding, encoding);
}

static void see_rows(const struct csv *c, struct work *w)
{
    const struct table_schema *s = c->table->schema;
    const uint32_t *cells = w->piece.cells;
    w->seen = (struct dataset_seen){.any = false};
    for (uint32_t i = 0; i < w->piece.rows; i++) {
        if (batch_bit(w->piece.present, i))
            dataset_see(&w->seen, schema_float(cells[s->inputs]),
                        s->weighted ? schema_float(cells[s->inputs + 1]) : 1);
        cells += schema_packed_raw_cells(s, cells);
    }
}

static void parse(struct csv *c, struct work *w)
{
    if (w->err)
        return;
    w->err = w->spread ? ERR_OK : digest_piece(c, w, &w->e);
    if (c->reading->before)
        return;
    if (!w->err && !c->parquet)
        w->err = find_nul(&w->piece, &w->e);
    learned_clear(&w->piece.learned, c->table->schema->inputs);
    if (!w->err)
        w->err = c->parquet         ? parquet_rows(&w->piece, &c->format, &w->e)
                 : c->format.libsvm ? libsvm_rows(&w->piece, &c->format, &w->e)
                                    : csv_rows(&w->piece, &c->format, &w->e);
    if (!w->err && !c->format.receiver)
        see_rows(c, w);
    if (w->err) /* wrong input has its line */
        (void)err_wrap(&w->e, w->err,
                       w->err == ERR_INPUT && !c->parquet ? "%s:" : "%s: ", w->file->path);
    else if (c->reading->sink)
        w->err = c->reading->sink->take(c->reading->sink->ctx, (uint32_t)(w - c->work), &w->piece,
                                        &w->e);
}

/* The sink's work, between pieces of the thread. */
static void do_work(struct csv *c, uint32_t thread)
{
    const struct dataset_sink *sink = c->reading->sink;
    struct errmsg e;
    const enum err err =
        c->format.receiver && sink->work ? sink->work(sink->ctx, thread, &e) : ERR_OK;
    if (!err)
        return;
    pthread_mutex_lock(&c->join_lock);
    if (!c->err)
        c->err = err_set(&c->e, err, "%s", e.text);
    pthread_mutex_unlock(&c->join_lock);
    pthread_mutex_lock(&c->lock);
    c->ended = true;
    pthread_mutex_unlock(&c->lock);
}

static void work_on(void *ctx, uint32_t thread)
{
    struct csv *c = ctx;
    struct work *w = &c->work[thread];
    while (take_piece(c, w)) {
        parse(c, w);
        join_in_turn(c, w);
        do_work(c, thread);
    }
}

/* ---- the load ---- */

static enum err work_init(struct work *w, const struct csv *c, struct errmsg *e)
{
    const bool learns = !c->reading->eval && !c->reading->sink;
    const size_t room = c->format.piece_bytes + CSV_TEXT_PAD;
    w->text = mem_zalloc(room, 1);
    w->piece.mark = mem_zalloc(room, sizeof *w->piece.mark);
    enum err err = learned_init(&w->piece.learned, c->table->schema, learns, c->spelled != NULL);
    return !err && w->text && w->piece.mark ? ERR_OK : err_memory_for(e, "a thread");
}

static void work_close(struct work *w, uint32_t inputs)
{
    learned_close(&w->piece.learned, inputs);
    csv_batch_free(w->piece.batch);
    parquet_piece_free(w->piece.parquet);
    mem_free(w->piece.mark);
    mem_free(w->piece.cells);
    mem_free(w->piece.present);
    mem_free(w->piece.kept);
    mem_free(w->text);
    mem_free(w->renumber);
}

/* Without a value in any row a category or a number tells the model nothing. */
static bool is_unknown(const struct csv *c, uint32_t threads, uint32_t i)
{
    const struct schema_input *in = &c->table->schema->input[i];
    uint8_t seen = in->kind == COLUMN_CATEGORY &&
                           (in->words.count == 0 || (c->format.meaning.learning && in->learns))
                       ? LEARNED_KNOWN
                       : 0;
    for (uint32_t k = 0; k < threads; k++)
        seen |= c->work[k].piece.learned.seen[i];
    return !(seen & LEARNED_KNOWN) && (seen & LEARNED_OTHER || !(seen & LEARNED_MISSING));
}

static bool are_utf8(const struct vocabulary *words)
{
    bool raw = false;
    for (uint32_t i = 0; i < words->count && !raw; i++) {
        size_t bytes;
        const char *word = vocabulary_text(words, i, &bytes);
        raw = csv_hint_shown_bytes((char[CSV_SHOWN_BYTES]){""}, word, bytes);
    }
    return !raw;
}

/* The differences that make another word of one. */
static const char *what_differs(const struct csv *c, uint32_t input)
{
    if (c->unknown[input].of.raw && are_utf8(&c->table->schema->input[input].words))
        return "the encoding: this word is not UTF-8, and all of data.train are; if it is Latin-1: "
               "iconv -f LATIN1 -t UTF-8 FILE > NEW";
    return c->format.parquet ? "case and blanks" : "case, blanks (data.trim) and quotes";
}

static void say_unknown_words(const struct csv *c, uint32_t input)
{
    size_t bytes;
    const struct schema_input *in = &c->table->schema->input[input];
    const struct unknown *u = &c->unknown[input];
    const char *word = vocabulary_text(&in->words, 0, &bytes);
    dataset_warn(c->reading,
                 "%s: column %s: no row has a word of its vocabulary, whose first word is "
                 "\"%s\"%s%s%s, so all are unknown: check %s",
                 c->reading->key, SHOWN(in->name),
                 printable_name((char[PRINTABLE_NAME_BYTES]){""}, word, bytes),
                 *u->of.shown ? ", but words such as \"" : "", u->of.shown,
                 *u->of.shown ? "\"" : "", what_differs(c, input));
}

/* Too few rows for a warning of unknown words have such a text, and a missing value has a word of its own. */
static void say_marker(const struct csv *c, uint32_t input)
{
    const struct unknown *u = &c->unknown[input];
    const struct schema_input *in = &c->table->schema->input[input];
    if (*u->of.marker && c->reading->eval && in->learns)
        dataset_warn(c->reading,
                     "%s: column %s: \"%s\" (%s) is read as a word, which is unknown to the model; "
                     "if it marks a missing value, write it as data.train does",
                     c->reading->key, SHOWN(in->name), u->of.marker, u->marker_path);
}

/* A word of a given vocabulary that no row has. VOCABULARY_NONE: there is none, or it is not known. */
static uint32_t absent_word(const struct csv *c, uint32_t threads, uint32_t i)
{
    uint8_t *const *found = c->work[0].piece.learned.found;
    const struct vocabulary *words = &c->table->schema->input[i].words;
    size_t bytes;
    for (uint32_t n = 0; c->unknown[i].of.rows && found && found[i] && n < words->count; n++) {
        const char *word = vocabulary_text(words, n, &bytes);
        bool has = meaning_is_missing(&c->format.meaning, (struct batch_text){word, bytes});
        for (uint32_t k = 0; k < threads && !has; k++)
            has = batch_bit(c->work[k].piece.learned.found[i], n);
        if (!has)
            return n;
    }
    return VOCABULARY_NONE;
}

enum { FEW = 20 };

/* More than a quarter of the rows, but a few. */
static bool is_many(const struct csv *c, uint64_t rows)
{
    return rows >= FEW && rows > c->rows / 4;
}

/* The unknown word that is shown has the letters of one in the vocabulary. */
static bool is_another_case(const struct csv *c, uint32_t i)
{
    const struct vocabulary *words = &c->table->schema->input[i].words;
    const char *shown = c->unknown[i].of.shown;
    size_t bytes;
    for (uint32_t n = 0; n < words->count; n++) {
        const char *word = vocabulary_text(words, n, &bytes);
        if (bytes == strlen(shown) && strncasecmp(word, shown, bytes) == 0)
            return true;
    }
    return false;
}

/* Rare words are normal, and a given vocabulary can leave frequent ones out on purpose: but then rows have all that it lists. Words
 * that data.train teaches are never unknown there. */
static bool is_often_unknown(const struct csv *c, uint32_t i, uint32_t absent)
{
    if (!is_many(c, c->unknown[i].of.rows))
        return false;
    return c->table->schema->input[i].learns ? c->reading->eval
                                             : absent != VOCABULARY_NONE || is_another_case(c, i);
}

/* A look has read the beginnings alone. */
static bool looked_partly(const struct csv *c)
{
    return c->reading->look && (c->partly || c->left_bytes);
}

static void say_often_unknown(const struct csv *c, uint32_t i, uint32_t absent)
{
    const struct schema_input *in = &c->table->schema->input[i];
    const struct unknown *u = &c->unknown[i];
    char none[PRINTABLE_NAME_BYTES + 32] = "";
    size_t bytes;
    if (!*u->of.shown && in->learns) {
        dataset_warn(c->reading,
                     "%s: column %s: %" PRIu64 " of %" PRIu64
                     " rows have no value (%s), as no row of data.train has, so it is "
                     "unknown to the model: check the files, and data.missing",
                     c->reading->key, SHOWN(in->name), u->of.rows, c->rows, u->path);
        return;
    }
    if (absent != VOCABULARY_NONE) {
        const char *word = vocabulary_text(&in->words, absent, &bytes);
        (void)snprintf(none, sizeof none, ", and none has its word \"%s\"",
                       printable_name((char[PRINTABLE_NAME_BYTES]){""}, word, bytes));
    }
    dataset_warn(c->reading,
                 "%s: column %s: %" PRIu64 " of %" PRIu64
                 " rows have a word that %s, such as \"%s\" (%s)%s, %s: check %s%s",
                 c->reading->key, SHOWN(in->name), u->of.rows, c->rows,
                 in->learns ? "is not in data.train" : "its vocabulary lacks", u->of.shown, u->path,
                 none, in->learns ? "and is unknown to the model" : "so it tells the model nothing",
                 in->learns ? "" : "the list, ", what_differs(c, i));
}

/* All rows are read, or of a stream the beginnings: training does not look at its words. One row can lack a number. */
static void say_unknown(const struct csv *c, uint32_t threads)
{
    const struct table_schema *s = c->table->schema;
    const uint64_t rows = c->rows - c->bad;
    const bool partly = looked_partly(c);
    if (!rows || (partly && (c->reading->eval || c->reading->job->data.order != ORDER_STREAM)))
        return;
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct schema_input *in = &s->input[i];
        if (partly || !is_unknown(c, threads, i)) {
            const uint32_t absent = partly ? VOCABULARY_NONE : absent_word(c, threads, i);
            if (is_often_unknown(c, i, absent))
                say_often_unknown(c, i, absent);
            else
                say_marker(c, i);
        } else if (in->kind == COLUMN_CATEGORY) {
            say_unknown_words(c, i);
        } else if (rows > 1) {
            dataset_warn(c->reading,
                         "%s: column %s: no row has a number, so all are missing: check the files, "
                         "and data.missing",
                         c->reading->key, in->name[0] ? SHOWN(in->name) : "without a name");
        }
    }
}

/* Which columns no row of the training part lacks; and those of other rows of which many lack one. */
static void say_lacking(const struct csv *c, uint32_t threads)
{
    struct table_schema *s = c->table->schema;
    for (uint32_t i = 0; i < s->inputs + s->keys && !looked_partly(c) && !c->format.libsvm; i++) {
        struct table_key *key = &s->key[i < s->inputs ? 0 : i - s->inputs];
        const char *name = i < s->inputs ? s->input[i].name : key->name;
        bool *complete = i < s->inputs ? &s->input[i].complete : &key->complete;
        uint64_t rows = 0;
        for (uint32_t k = 0; k < threads; k++)
            rows += c->work[k].piece.learned.lacking[i];
        if (!c->reading->eval)
            *complete = rows == 0 && (*complete || !s->taught);
        else if (*complete && is_many(c, rows))
            dataset_warn(c->reading,
                         "%s: column %s: %" PRIu64 " of %" PRIu64
                         " rows have no value, as no row of data.train has, so it is unknown to "
                         "the model: check the files, and data.missing",
                         c->reading->key, SHOWN(name), rows, c->rows);
    }
}

/* Labels that are spelled in another way than in data.train. */
static void say_others(const struct csv *c)
{
    const struct meaning *m = &c->format.meaning;
    const struct dataset_seen *seen = &c->seen;
    if (c->reading->eval && !m->unlabeled && m->others != VOCABULARY_NONE && seen->any &&
        seen->min == seen->max && seen->min == (float)m->others && !looked_partly(c))
        dataset_warn(c->reading,
                     "%s: no label is one of the classes that are listed, so all are \"*\": check "
                     "how they are written",
                     c->reading->key);
}

/* Many programs write a missing value of a file with one column as an empty line, and a row of zeros without a label. */
static void say_empty(const struct csv *c)
{
    char more[48] = "";
    if (c->between.lines > 1)
        (void)snprintf(more, sizeof more, " (and %" PRIu64 " more)", c->between.lines - 1);
    if (c->between.lines)
        dataset_warn(c->reading, "%s:%" PRIu64 ": this line%s is empty, and is no row; %s",
                     c->first_empty_in->path, c->between.first, more,
                     c->format.libsvm
                         ? "in a file without labels a row of zeros is written 0, as a label alone"
                     : c->format.grammar.quotes
                         ? "a missing value of a file with one column is written \"\""
                         : "a missing value of a file with one column is written as a text that "
                           "data.missing lists, such as NA");
}

/* A batch without rows has a header, but the shell empties a file to which it writes the output, and a command that fails writes
 * nothing. */
static void say_nothing(const struct csv *c)
{
    bool begun = !c->reading->unlabeled;
    for (const struct csv_file *f = c->file; f < c->file + c->paths.count; f++)
        begun |= f->begun;
    if (!begun)
        dataset_warn(c->reading,
                     "%s: it is empty; check what should have written it, and that the output does "
                     "not go to the same file",
                     c->paths.path[0]);
}

/* A file of another kind that is read without an error: libsvm has any text for a label that is not read, and no pair in a row of
 * zeros, of which one can be meant; and a header that is left out can be any line. */
static void say_other_kind(const struct csv *c)
{
    for (const struct csv_file *f = c->file; f < c->file + c->paths.count; f++)
        if (c->format.libsvm && f->rows > 1 && !f->pairs && !looked_partly(c)) {
            dataset_warn(c->reading,
                         "%s: none of its %" PRIu64 " rows has a pair index:value, so all are rows "
                         "of zeros; check that it is a file of libsvm, its first line is \"%s\"",
                         f->path, f->rows, f->names.shown);
            return;
        } else if (f->skipped_line && !f->rows && !f->names.hash) {
            dataset_warn(c->reading,
                         "%s: %s:%" PRIu64
                         ": data.header: skip leaves this line out, and no row follows, but it has "
                         "not the %" PRIu32
                         " fields of data.columns, it is \"%s\"; check that it is the right file",
                         c->reading->key, f->path, f->skipped_line, f->fields, f->names.shown);
            return;
        }
}

/* A part without a header of its own loses a row to data.header: skip. A line without the names of the columns could be one. */
static void say_skipped(const struct csv *c)
{
    size_t skipped = 0, rows = 0;
    const struct csv_file *first = NULL, *nameless = NULL;
    char more[64] = "";
    for (const struct csv_file *f = c->file; f < c->file + c->paths.count; f++) {
        skipped += f->skipped_line > 0;
        rows += f->skipped_row;
        first = first || !f->skipped_row ? first : f;
        nameless = nameless || !f->skipped_line || f->names.all || !f->rows ? nameless : f;
    }
    if (skipped > 1)
        dataset_info("%s: data.header: skip has left out the first line of each of %zu files",
                     c->reading->key, skipped);
    if (nameless && !first && c->reading->unread) {
        if (skipped > 1)
            (void)snprintf(more, sizeof more, " (and the first line of %zu more files)",
                           skipped - 1);
        (void)err_set(c->reading->unread, ERR_INPUT,
                      "%s:%" PRIu64 ": data.header: skip leaves this line out: \"%s\"%s",
                      nameless->path, nameless->skipped_line, nameless->names.shown, more);
    }
    if (rows > 1)
        (void)snprintf(more, sizeof more, " (in %zu more files, too)", rows - 1);
    if (first)
        dataset_warn(c->reading,
                     "%s: %s:%" PRIu64
                     ": data.header: skip leaves this line out, but it reads like a "
                     "row%s; for files without a header use data.header: none",
                     c->reading->key, first->path, first->skipped_line, more);
}

/* The columns are found by their places, and a header that is left out says that they have others. False: none does. */
static bool say_moved(const struct csv *c)
{
    char name[CSV_SHOWN_BYTES], more[64] = "";
    const struct csv_file *first = NULL;
    size_t moved = 0;
    for (size_t i = 0; i < c->paths.count; i++) {
        bool is = c->file[i].skipped_line && c->file[i].names.moved;
        first = first || !is ? first : &c->file[i];
        moved += is;
    }
    if (!first)
        return false;
    const char *text = c->job->column[first->names.moved - 1].name;
    if (moved > 1)
        (void)snprintf(more, sizeof more, " (in %zu more files, too)", moved - 1);
    dataset_warn(c->reading,
                 "%s: %s:%" PRIu64 ": data.header: skip leaves this line out, but it names %s in "
                 "field %" PRIu32 ", which data.columns has in field %" PRIu32
                 "%s; data.header: names finds columns by their names",
                 c->reading->key, first->path, first->skipped_line,
                 csv_hint_shown(name, text, strlen(text)), first->names.at, first->names.belongs,
                 more);
    return true;
}

/* Files whose headers are left out, and have other names or another order. */
static void say_differing(const struct csv *c)
{
    const struct csv_file *first = NULL;
    for (size_t i = 0; i < c->paths.count; i++) {
        const struct csv_file *f = &c->file[i];
        if (!f->skipped_line || f->skipped_row || !f->names.hash)
            continue;
        first = first ? first : f;
        if (f->names.hash == first->names.hash)
            continue;
        dataset_warn(c->reading,
                     "%s: data.header: skip leaves out \"%s\" of %s, but \"%s\" of %s: columns are "
                     "read by their order, unless data.header: names finds them by their names",
                     c->reading->key, first->names.shown, first->path, f->names.shown, f->path);
        return;
    }
}

/* The index that pandas writes, unless index=False, and by which the rows are ordered. */
static void say_index(const struct csv *c)
{
    for (uint32_t i = 0; i < c->job->columns && !c->reading->eval; i++)
        if (c->job->column[i].kind == COLUMN_NUMBER &&
            strcmp(c->job->column[i].name, "Unnamed: 0") == 0)
            dataset_warn(
                c->reading,
                "%s: column Unnamed: 0: pandas names an index so that it has written into "
                "a file: its numbers are those of rows, and can tell the label of a sorted "
                "file; leave the column out",
                c->reading->key);
}

/* A row that has the names of the columns, and fits them. */
static void say_names(const struct csv *c)
{
    const struct csv_file *f = c->file;
    while (f < c->file + c->paths.count && !f->names_line)
        f++;
    if (f == c->file + c->paths.count)
        return;
    char how[120];
    if (f->skipped_line)
        (void)snprintf(how, sizeof how,
                       ", as data.header: skip has left out line %" PRIu64
                       ": remove the lines before it",
                       f->skipped_line);
    else
        (void)snprintf(how, sizeof how, ": use data.header: names%s",
                       f->names.moved ? "" : ", or skip");
    dataset_warn(c->reading,
                 "%s: %s:%" PRIu64
                 ": this line has the names of the columns%s, but is read as a row%s",
                 c->reading->key, f->path, f->names_line,
                 !f->skipped_line && f->names.moved ? " in another order" : "", how);
}

/* A column in front, or a decimal comma in place of the label, gives rows all their fields, and then each is another column's; a header
 * with other names is a row. */
static void say_labels(const struct csv *c)
{
    for (const struct csv_file *f = c->file; f < c->file + c->paths.count; f++) {
        const struct csv_labels *l = &f->labels;
        /* one text can stand for any label, and with "*" each can be one */
        const bool others =
            l->differ && l->none * 2 >= l->rows && c->format.meaning.others == VOCABULARY_NONE;
        if (others || (l->first && l->none == 1 && l->rows > 1))
            dataset_warn(c->reading,
                         "%s:%" PRIu64 ": %" PRIu64 " of %" PRIu64
                         " rows have no label in the label's field, the first has \"%s\": check %s",
                         f->path, l->line, l->none, l->rows, l->shown,
                         others ? "the order of the columns" : "whether this line is a header");
    }
}

/* The columns that nothing reads, of the first file that has some. */
static void note_unread(const struct csv *c)
{
    const struct csv_file *f = c->file;
    while (f < c->file + c->paths.count && !f->unread)
        f++;
    if (c->reading->unread && f < c->file + c->paths.count)
        (void)err_set(c->reading->unread, ERR_INPUT,
                      "%s: the model does not read %u of its columns: %s", f->path, f->unread,
                      f->unread_names);
}

/* Of the first file whose fields could be others. */
static void note_guessed(const struct csv *c)
{
    const struct csv_file *f = c->file;
    while (f < c->file + c->paths.count && !f->guessed)
        f++;
    if (c->reading->unread && f < c->file + c->paths.count)
        (void)err_set(c->reading->unread, ERR_INPUT,
                      "%s: its rows have %" PRIu32 " of the %" PRIu32
                      " fields of data.columns, and are read as lacking the label %s; if they lack "
                      "another column, give them all fields",
                      f->path, f->fields, f->fields + f->guessed,
                      f->guessed > 1 ? "and the weight" : "alone");
}

/* For messages: of an input, or behind them of the label or the weight. */
static const char *column_words(const struct table_schema *s, uint32_t column)
{
    if (column >= s->inputs)
        return column == s->inputs ? "of the label" : "of the weight";
    return s->input[column].name[0] ? s->input[column].name : "without a name";
}

/* A marker of a missing value is a text, as in all other columns. */
static void say_spelling(const struct csv *c, uint32_t column)
{
    const struct spelling *first = &c->spelled[column];
    size_t bytes;
    char shown[CSV_SHOWN_BYTES];
    const char *marker = vocabulary_text(&c->format.meaning.missing, first->of.marker, &bytes);
    dataset_warn(c->reading,
                 "%s: column %s: %s%s: \"%s\" is a number and not missing, as data.missing has "
                 "another text for it, "
                 "\"%s\"; if it marks a missing value, add it to data.missing",
                 c->reading->key, SHOWN(column_words(c->table->schema, column)), first->path,
                 place_words((char[PLACE_BYTES]){""}, first->of.line), first->of.shown,
                 csv_hint_shown(shown, marker, bytes));
}

/* Warn of the column of an input, or of the label behind them, if its numbers become equal as floats, as times do: nothing is
 * learned from what is lost. */
static void say_rounding_of(const struct csv *c, uint32_t threads, uint32_t column)
{
    const struct table_schema *s = c->table->schema;
    const bool label = column == s->inputs;
    struct rounding all = {.noted = false};
    double numbers, left;
    for (uint32_t k = 0; k < threads; k++)
        if (c->work[k].piece.learned.rounding[column])
            rounding_join(&all, c->work[k].piece.learned.rounding[column]);
    const bool wide = !label && s->input[column].wide;
    const double share = wide ? ROUNDING_OF_DOUBLES : ROUNDING_OF_FLOATS;
    if (!all.noted || !rounding_loses(&all, share, &numbers, &left))
        return;
    dataset_warn(c->reading,
                 "%s: column %s: a sample has about %.0f different numbers, but about %.0f in "
                 "float%d, which has about %d digits; %s",
                 c->reading->key, SHOWN(column_words(s, column)), numbers, left, wide ? 64 : 32,
                 wide ? 16 : 7,
                 wide    ? "subtract the smallest of them before you save them, or make it a key"
                 : label ? "subtract their mean, or divide them, before you save them"
                         : "give the column a scale, such as scale: standard, or buckets");
}

static void say_rounding(const struct csv *c, uint32_t threads)
{
    for (uint32_t i = 0; i <= c->table->schema->inputs; i++)
        say_rounding_of(c, threads, i);
}

/* The place in learned_separators of the one that divides most of the fields that a usual one divides, if these are many; -1: none. */
static int likely_separator(const struct learned_divided *d)
{
    enum { MANY = 10 };
    int best = 0;
    for (int i = 1; i < LEARNED_SEPARATORS; i++)
        best = d->other[i] > d->other[best] ? i : best;
    bool is =
        d->other[best] > 1 && d->other[best] * 2 > d->others && d->other[best] * MANY >= d->fields;
    return d->is || !is ? -1 : best;
}

static struct learned_divided joined(const struct csv *c, uint32_t threads, uint32_t key)
{
    struct learned_divided all = {.is = false};
    for (uint32_t i = 0; i < threads; i++) {
        const struct learned_divided *d = &c->work[i].piece.learned.divided[key];
        all.is |= d->is;
        all.fields += d->fields;
        all.others += d->others;
        all.gaps += d->gaps;
        all.before += d->before;
        all.after += d->after;
        all.lists += d->lists;
        all.divided_lists += d->divided_lists;
        all.texts += d->texts;
        all.values += d->values;
        all.weights += d->weights;
        for (size_t n = 0; n < LEARNED_SEPARATORS; n++)
            all.other[n] += d->other[n];
    }
    return all;
}

/* "a, b" divided at "," has the key " b", which is another one than "b". */
static void say_blanks(const struct csv *c, const struct table_key *k,
                       const struct learned_divided *d)
{
    enum { MANY = 10 };
    const bool before = d->before > 1 && d->before * MANY >= d->gaps,
               after = d->after > 1 && d->after * MANY >= d->gaps;
    const bool all = (!before || d->before == d->gaps) && (!after || d->after == d->gaps);
    if (!k->options.hash || (!before && !after))
        return;
    dataset_warn(c->reading,
                 "%s: column %s: %s values %s with a blank, which makes another key of a word; %s "
                 "\"%s%s%s\"",
                 c->reading->key, SHOWN(k->name), all ? "all" : "many",
                 before && after ? "begin or end"
                 : after         ? "begin"
                                 : "end",
                 all ? "use separator:" : "remove the blanks from the files where they are, as in",
                 before ? " " : "", SHOWN(k->options.separator), after ? " " : "");
}

/* "[a, b]" has the keys "[a" and " b]", and without weights "a:2" is another key than "a". */
static void say_decorated(const struct csv *c, const struct table_key *k,
                          const struct learned_divided *d)
{
    enum { NEARLY_ALL = 20 };
    if (d->lists > 1 && d->divided_lists && d->lists * 2 > d->texts)
        dataset_warn(
            c->reading,
            "%s: column %s: fields are lists in brackets, as [a, b] in Python and JSON, so "
            "their brackets and quotes are part of the keys; write the values alone, with "
            "the separator between them",
            c->reading->key, SHOWN(k->name));
    if (d->weights > 1 && (d->values - d->weights) * NEARLY_ALL <= d->values)
        dataset_warn(c->reading,
                     "%s: column %s: values end with \":\" and a number, which is part of the key; "
                     "if it is a weight, use weights: true",
                     c->reading->key, SHOWN(k->name));
}

/* A separator that no field has makes one key of all words of a field. */
static void say_divided(const struct csv *c, uint32_t threads, uint32_t key)
{
    const struct table_key *k = &c->table->schema->key[key];
    const struct learned_divided all = joined(c, threads, key);
    if (k->kind != COLUMN_KEYS)
        return;
    say_blanks(c, k, &all);
    say_decorated(c, k, &all);
    int likely = likely_separator(&all);
    if (likely < 0)
        return;
    const char *shown = learned_separators[likely].shown;
    const bool newline = *learned_separators[likely].text == '\n'; /* it can be no separator */
    dataset_warn(c->reading,
                 "%s: column %s: no %s has the separator \"%s\", and many have \"%s\"; if that "
                 "separates the values, %s \"%s\"",
                 c->reading->key, SHOWN(k->name),
                 looked_partly(c) ? "field that was read" : "field", SHOWN(k->options.separator),
                 shown, newline ? "replace it in the files by" : "use separator:",
                 newline ? SHOWN(k->options.separator) : shown);
}

static enum err note_words(const struct csv *c, struct errmsg *e)
{
    const struct table_schema *s = c->table->schema;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < s->inputs && c->format.meaning.learning && !err; i++)
        if (s->input[i].learns)
            err = words_note(s->input[i].name, &s->input[i].words, WORDS_ALONE, &c->format.meaning,
                             c->reading, e);
    return err;
}

/* Of the labels that "*" takes, and the classes. */
static enum err note_labels(const struct csv *c, struct errmsg *e)
{
    return words_note(column_words(c->table->schema, c->table->schema->inputs), &c->others,
                      WORDS_LABELS, &c->format.meaning, c->reading, e);
}

/* Ids can have a common factor with the buckets, as those whose last bits are a counter. */
static enum err say_folded(const struct csv *c, uint32_t key, struct errmsg *e)
{
    enum { PART = 10 };
    const struct table_key *k = &c->table->schema->key[key];
    const struct vocabulary *words = &c->key_words[key];
    struct vocabulary keys = {.count = 0};
    uint32_t numbers = 0;
    enum err err = ERR_OK;
    for (uint32_t i = 0, number; i < words->count && !err; i++) {
        size_t bytes;
        uint64_t folded;
        const char *word = vocabulary_text(words, i, &bytes);
        if (!word_key(&k->options, k->seed, word, bytes, &folded))
            continue;
        numbers++;
        err = vocabulary_add(&keys, (const char *)&folded, sizeof folded, &number);
    }
    const uint64_t most = numbers < k->options.buckets ? numbers : k->options.buckets;
    if (!err && numbers >= FEW && keys.count < (most + PART - 1) / PART)
        dataset_warn(c->reading,
                     "%s: column %s: %u different numbers of a sample are %u key%s modulo the "
                     "%" PRIu64 " buckets, as numbers with a common factor are: leave hash: false "
                     "out, or choose a prime number of buckets",
                     c->reading->key, SHOWN(k->name), numbers, keys.count,
                     keys.count == 1 ? "" : "s", k->options.buckets);
    vocabulary_close(&keys);
    return err ? err_memory(e) : ERR_OK;
}

static enum err note_key_words(const struct csv *c, uint32_t key, struct errmsg *e)
{
    const struct table_key *k = &c->table->schema->key[key];
    if (!k->options.hash)
        return say_folded(c, key, e);
    return words_note(k->name, &c->key_words[key],
                      k->kind == COLUMN_KEYS ? WORDS_LISTS : WORDS_ALONE, &c->format.meaning,
                      c->reading, e);
}

static enum err read_all(struct csv *c, struct pool *pool, struct errmsg *e)
{
    uint32_t threads = pool_threads(pool), inputs = c->table->schema->inputs;
    c->file = mem_zalloc(c->paths.count, sizeof *c->file);
    c->tail = mem_zalloc(c->format.piece_bytes, 1);
    c->work = mem_zalloc(threads, sizeof *c->work);
    c->spelled =
        c->format.meaning.markers ? mem_zalloc((size_t)inputs + 2, sizeof *c->spelled) : NULL;
    c->unknown = mem_zalloc(inputs, sizeof *c->unknown);
    c->key_words = mem_zalloc(LEARNED_KEYS, sizeof *c->key_words);
    bool all = c->file && c->tail && c->work && c->unknown && c->key_words &&
               (c->spelled || !c->format.meaning.markers);
    enum err err = all ? ERR_OK : err_memory(e);
    if (!err && c->format.parquet)
        err = parquet_new(&c->parquet, e);
    for (uint32_t i = 0; i < threads && !err; i++)
        err = work_init(&c->work[i], c, e);
    if (!err) {
        pool_run(pool, work_on, c);
        err = c->err ? err_set(e, c->err, "%s", c->e.text) : ERR_OK;
    }
    const bool tells = !err && !c->reading->before;
    if (tells)
        err = note_labels(c, e);
    if (tells && !err) {
        if (!c->format.receiver)
            say_unknown(c, threads);
        if (!c->format.receiver)
            say_lacking(c, threads);
        say_others(c);
        say_empty(c);
        say_nothing(c);
        say_other_kind(c);
        say_skipped(c);
        if (!say_moved(c))
            say_differing(c);
        say_names(c);
        say_index(c);
        say_labels(c);
        note_unread(c);
        note_guessed(c);
        err = note_words(c, e);
    }
    for (uint32_t i = 0; !err && c->spelled && i < inputs + 2; i++)
        if (c->spelled[i].path)
            say_spelling(c, i);
    for (uint32_t i = 0;
         tells && !err && c->work[0].piece.learned.divided && i < c->table->schema->keys; i++) {
        say_divided(c, threads, i);
        if (i < c->work[0].piece.learned.keys)
            err = note_key_words(c, i, e);
    }
    if (tells && !err && c->work[0].piece.learned.rounding)
        say_rounding(c, threads);
    for (uint32_t i = 0; i < threads && c->work; i++)
        work_close(&c->work[i], inputs);
    for (size_t i = 0; i < c->paths.count && c->file; i++)
        csv_file_close(&c->file[i]);
    stream_close(c->stream);
    parquet_free(c->parquet);
    mem_free(c->file);
    mem_free(c->spelled);
    mem_free(c->unknown);
    for (uint32_t i = 0; i < LEARNED_KEYS && c->key_words; i++)
        vocabulary_close(&c->key_words[i]);
    mem_free(c->key_words);
    vocabulary_close(&c->others);
    mem_free(c->tail);
    mem_free(c->work);
    return err;
}

/* Of a table's files that are not named one by one, some can be of earlier versions. A directory is refused (paths_expand). */
static void say_lake(const struct csv *c)
{
    for (size_t i = 0; i < c->paths.count && c->format.parquet; i++) {
        const char *path = c->paths.path[i], *lake = paths_lake(path);
        const char *at = lake ? strstr(c->reading->patterns, path) : path;
        if (at)
            continue;
        dataset_warn(c->reading,
                     "%s: %s: it belongs to a table of %s, which keeps files of earlier versions: "
                     "export the rows of its current version, or list its current files",
                     c->reading->key, path, lake);
        return;
    }
}

/* List the files, or the one synthetic source. */
static enum err name_sources(struct csv *c, struct errmsg *e)
{
    const struct job *job = c->reading->job;
    if (job->data.format != DATA_SYNTHETIC) {
        enum err err = reading_paths(&c->paths, c->reading, e);
        if (!err)
            say_lake(c);
        return err;
    }
    drawn_init(&c->drawn, job, c->reading->eval, c->format.grammar.delimiter);
    c->paths.path = mem_zalloc(1, sizeof *c->paths.path);
    char *name = c->paths.path ? mem_strdup(job->data.synthetic == SYNTHETIC_CLICKS
                                                ? "data.synthetic: clicks"
                                                : "data.synthetic: census")
                               : NULL;
    if (!name) {
        paths_close(&c->paths);
        return err_memory(e);
    }
    c->paths.path[c->paths.count++] = name;
    return ERR_OK;
}

static void say_bad(const struct csv *c)
{
    char lines[48] = "";
    if (c->bad_lines > c->bad)
        (void)snprintf(lines, sizeof lines, " (%" PRIu64 " lines)", c->bad_lines);
    dataset_warn(c->reading, "%s: %" PRIu64 " bad rows%s of %" PRIu64 " %s; the first: %s",
                 c->reading->key, c->bad, lines, c->rows,
                 c->reading->sink && !c->format.receiver ? "have no result" : "are left out",
                 c->first_bad.text);
}

static void say_odd(const struct csv *c)
{
    static const char *const what[CSV_ODDS] = {
        [CSV_ODD_NUL] = "a NUL byte, which is read like any other: is it text of UTF-16?",
        [CSV_ODD_NULS] = "this line " TEXT_NULS,
        [CSV_ODD_MARK] = "a byte order mark (U+FEFF) begins this line, and belongs to its first "
                         "field; if files were joined, remove it",
        [CSV_ODD_HEADER] = "this line is the header again, and is read as a row; if files were "
                           "joined, remove it",
        [CSV_ODD_NAMES] = "this line has the names of the columns, and is read as a row; if files "
                          "were joined, remove it",
        [CSV_ODD_COMMENT] = "this line begins with data.comment and is left out, but it reads like "
                            "a row; if it is one, write its first field in quotes, or choose "
                            "another data.comment",
        [CSV_ODD_QUOTE] = "a field in quotes of a column that is not read goes on over the ends of "
                          "lines, and text follows its closing quote, so rows are part of it; if a "
                          "backslash escapes quotes, use data.escape: backslash; if quotes are "
                          "text, data.quotes: false",
        [CSV_ODD_CTRL_Z] = "this line is Ctrl-Z (0x1A), the end of a file in DOS, and is read as a "
                           "row; remove it",
        [CSV_ODD_COPY] =
            "this line is \\., the end of the data in a dump of PostgreSQL, and is read "
            "as a row; remove it",
        [CSV_ODD_SQL] =
            "this line is a statement of SQL, and is read as a row; write the table as csv",
        [CSV_ODD_LABEL] = "the label of this line is not a number, and no pair follows, so it has "
                          "the score of a row of zeros: is it a row?"};
    char more[64] = "";
    if (c->empty_rows > 1)
        (void)snprintf(more, sizeof more, " (and those of %" PRIu64 " more)", c->empty_rows - 1);
    if (c->empty_rows)
        dataset_warn(c->reading,
                     "%s:%" PRIu64
                     ": all fields of this line%s are empty, and it is read as a row: "
                     "remove it if it is not one",
                     c->odd[CSV_ODD_EMPTY].path, c->odd[CSV_ODD_EMPTY].line, more);
    for (int i = 0; i < CSV_ODDS; i++)
        if (c->odd[i].path && what[i] && (i != CSV_ODD_NUL || !c->odd[CSV_ODD_NULS].path) &&
            (i != CSV_ODD_LABEL || !c->worded))
            dataset_warn(c->reading, "%s:%" PRIu64 ": %s", c->odd[i].path, c->odd[i].line, what[i]);
}

static enum err read_paths(struct csv *c, struct pool *pool, struct errmsg *e)
{
    enum err err = name_sources(c, e);
    if (err)
        return err;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->join_lock, NULL);
    pthread_cond_init(&c->joined, NULL);
    err = read_all(c, pool, e);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->join_lock);
    pthread_cond_destroy(&c->joined);
    if (!err && c->rows == c->bad && (c->bad || !c->reading->sink) && !c->reading->before)
        err = err_set(e, ERR_INPUT, "%s: it has no row%s", c->paths.path[0],
                      c->bad ? " that can be read" : "");
    if (!err && c->bad)
        say_bad(c);
    if (!err)
        say_odd(c);
    if (!err && !c->reading->before)
        err = same_files_warn(c->reading, (const char *const *)c->paths.path, NULL, c->paths.count,
                              e);
    if (c->reading->look)
        c->reading->look->files =
            c->reading->job->data.format == DATA_SYNTHETIC ? 0 : c->paths.count;
    paths_close(&c->paths);
    return err;
}

/* The likely memory of `rows` rows; of keys as many as in `alike` rows of those that were read. */
static void look_at_memory(struct dataset_look *look, const struct table *t, uint64_t rows,
                           double alike)
{
    const struct table_schema *s = t->schema;
    const uint64_t fixed = schema_fixed_cells(s) * sizeof(uint32_t);
    double of_keys = (double)(table_bytes(t) - t->rows * fixed) / (double)t->rows;
    look->bytes = rows * fixed + (uint64_t)(of_keys * alike);
    look->bytes += s->several ? rows * sizeof *t->chunk->begin : 0;
    look->loading_bytes = look->bytes + rows * s->wide * sizeof(uint32_t);
}

static enum err look(struct dataset *d, const struct csv *c, struct errmsg *e)
{
    const struct reading *r = c->reading;
    const struct table_schema *s = d->table.schema;
    uint64_t rows = d->table.rows - c->spread_rows;
    double alike = (double)rows;
    if (r->job->data.format == DATA_SYNTHETIC) {
        rows = c->drawn.rows;
        alike = (double)rows;
    } else if ((c->partly || c->left_bytes) && c->opened_bytes) {
        const double each = 1 + (double)c->left_bytes / (double)c->opened_bytes;
        const double least = (double)c->spread_rows; /* likely rows can be fewer */
        alike = ((double)rows + fmax(c->more_alike, least)) * each;
        rows = (uint64_t)(((double)rows + fmax(c->more_rows, least)) * each);
        r->look->estimated = true;
        r->look->counted = c->parquet && !c->left_bytes;
    }
    for (uint32_t i = 0; i < s->inputs; i++)
        r->look->grows |= r->look->estimated && schema_input_grows(&s->input[i]);
    look_at_memory(r->look, &d->table, rows, alike);
    if (!r->look->grows)
        return dataset_set_shape(d, r, "data.columns", rows, 1, &s->features, e);
    d->rows = rows;
    d->rank = 1;
    d->shape[0] = s->features;
    return ERR_OK;
}

static void say_spilled(const struct reading *r, const struct table *t)
{
    uint64_t bytes = table_spilled_bytes(t);
    if (bytes && !(r->look && job_streams(r->job)))
        dataset_info(
            "%s: %" PRIu64
            " MiB of its rows are in a file in %s, because data.memory_mb has no room for them%s",
            r->key, (bytes >> 20) + 1, spill_folder(t->spill),
            !r->eval && job_can_stream(r->job) ? "; with data.order: stream they stay in data.train"
                                               : "");
}

/* Whole keys are held out: one that many rows have, such as a missing value, makes far more or fewer rows of the share. */
static void say_held(const struct csv *c)
{
    const struct job_validation *v = &c->reading->job->data.validation;
    const double rows = (double)c->held.noted, held = (double)c->held.rows;
    const bool more = held > 2 * v->share * rows;
    const struct leading_key *k = &c->leading[more];
    if (c->held.noted < FEW || (!more && held * 2 >= v->share * rows) ||
        (double)k->rows * 2 < (more ? held : rows - held))
        return;
    dataset_warn(c->reading,
                 "data.validation.column %s: %" PRIu64 " of %" PRIu64
                 " rows are held out, and the share is %g, as all rows of a key stay together, and "
                 "at least %" PRIu64 " have \"%s\"; name another column, or none",
                 SHOWN(v->column), c->held.rows, c->held.noted, v->share, k->rows,
                 printable_name((char[PRINTABLE_NAME_BYTES]){""}, k->text, k->bytes));
}

/* Of the sample of a look; neighbors are often of one key, and of few keys it tells nothing. */
static void estimate_held(const struct csv *c)
{
    enum { HASHES = 32 /* about 44 keys */ };
    if (c->held.noted && (!looked_partly(c) || __builtin_popcountll(c->hashes) >= HASHES))
        c->reading->look->held_part = (double)c->held.rows / (double)c->held.noted;
}

static enum err load(struct dataset *d, const struct reading *r, struct pool *pool,
                     struct errmsg *e)
{
    struct csv c = {
        .reading = r, .job = &r->job->data.csv, .table = &d->table, .contents = &d->contents};
    bool learns = !r->schema && (!encoding_given_teaches(r->given) || r->given->extends);
    enum err err = csv_format_init(&c.format, c.job, d->table.schema, learns, r->classes, e);
    if (err)
        return err;
    c.format.meaning.whole = dataset_has_classes(r->job);
    c.format.libsvm = r->job->data.format == DATA_LIBSVM;
    c.format.parquet = r->job->data.format == DATA_PARQUET;
    c.format.grammar.quotes &= !c.format.libsvm;
    c.format.meaning.unlabeled = r->unlabeled;
    const char *const name = r->job->data.validation.column;
    const struct csv_keep column = {.key = "data.validation.column", .name = &name, .columns = 1};
    c.holds = reading_holds_out(r);
    c.by_column = c.holds && name[0];
    c.format.receiver = r->sink ? r->sink->receiver : NULL;
    c.format.keep = r->sink ? r->sink->keep : c.by_column ? &column : NULL;
    c.format.meaning.signs = c.format.libsvm &&
                             job_loss_labels(r->job->model.head[0].loss) == LABELS_TWO_CLASSES &&
                             !meaning_has_names(&c.format.meaning);
    if (!c.format.parquet && !r->before)
        contents_of_text(&d->contents);
    err = read_paths(&c, pool, e);
    csv_format_close(&c.format);
    if (r->before)
        return err;
    if (r->look)
        estimate_held(&c);
    if (looked_partly(&c)) { /* too few rows to tell, without their numbers */
        mem_free(c.held.bits);
        c.held = (struct order_held){.bits = NULL};
        c.holds = c.by_column = false;
    }
    d->held = c.held;
    d->seen = c.seen;
    if (!err && c.by_column)
        say_held(&c);
    if (!err && c.holds)
        err = dataset_hold_out(d, r, learns, e);
    if (!err && !r->schema)
        err = encoding_given_teaches(r->given) ? schema_place_features(d->table.schema, e)
                                               : table_learn(&d->table, d->held.bits, pool, e);
    if (!err && !r->schema)
        err = scale_note(&d->table, r, e);
    if (!err)
        err = table_scale(&d->table, pool, e);
    if (err)
        return err;
    say_spilled(r, &d->table);
    d->bad_rows = c.bad - d->held_bad;
    if (r->sink) {
        d->rows = c.rows;
        return ERR_OK;
    }
    if (r->look)
        return look(d, &c, e);
    return dataset_set_shape(d, r, "data.columns", d->table.rows, 1, &d->table.schema->features, e);
}

/* ---- a stream ---- */

bool dataset_cannot_learn(const struct table_schema *s, struct errmsg *why)
{
    for (uint32_t i = 0; i < s->inputs; i++) {
        const struct schema_input *in = &s->input[i];
        if (in->kind == COLUMN_CATEGORY || in->bucketing == BUCKETS_BORDERS ||
            in->bucketing == BUCKETS_NONE)
            continue;
        (void)err_set(why, ERR_INPUT,
                      "with data.order: stream words, means and scales are learned, but no "
                      "buckets, and column %s would learn its buckets: set borders; or train on a "
                      "part of the data in data.order: shuffled, and continue with another "
                      "checkpoint.run and data.encoding: keep",
                      in->name[0] ? SHOWN(in->name) : "without a name");
        return true;
    }
    return false;
}

/* As long as no row is read; stream_learn learns from them. Facts that are not known of the data are taken to be so: exported
 * models read buckets in float64. */
static enum err learn_nothing(struct table *t, struct errmsg *e)
{
    struct pool *pool = NULL;
    if (dataset_cannot_learn(t->schema, e))
        return ERR_INPUT;
    enum err err = pool_new(&pool, 1, e);
    if (!err)
        err = table_learn(t, NULL, pool, e);
    for (uint32_t i = 0; i < t->schema->inputs && !err; i++)
        t->schema->input[i].needs_double |= t->schema->input[i].bucketing != BUCKETS_NONE;
    pool_free(pool);
    return err;
}

/* Words that the data have and the checkpoint has not would be found by reading all rows. */
static enum err keep_given(struct table_schema *s, const struct reading *r, struct errmsg *e)
{
    struct encoding_given as_it_is = *r->given;
    struct reading kept = *r;
    for (uint32_t i = 0; i < s->inputs; i++)
        if (r->given->extends && s->input[i].learns)
            return err_set(e, ERR_INPUT,
                           "column %s: with data.order: stream no new words are learned: set "
                           "data.encoding: keep, by which they are unknown",
                           SHOWN(s->input[i].name));
    as_it_is.extends = false;
    kept.given = &as_it_is;
    enum err err = reading_take_given(s, &kept, e);
    for (uint32_t i = 0; i < s->inputs; i++) /* its rows are not looked at */
        s->input[i].complete = false;
    for (uint32_t i = 0; i < s->keys; i++)
        s->key[i].complete = false;
    return err ? err : schema_place_features(s, e);
}

static bool learns_words(const struct table_schema *s)
{
    bool learns = false;
    for (uint32_t i = 0; i < s->inputs; i++)
        learns |= s->input[i].learns;
    return learns;
}

static enum err csv_begin_stream(struct dataset *d, struct reading *r, struct errmsg *e)
{
    r->complete = d->table.schema;
    enum err err = r->complete ? ERR_OK : schema_of_job(&d->table.schema, r->job, e);
    if (!err)
        err = spill_new(&d->table.spill, r->job, e);
    if (err)
        return err;
    table_begin(&d->table);
    if (!r->complete)
        err = encoding_given_teaches(r->given) ? keep_given(d->table.schema, r, e)
                                               : learn_nothing(&d->table, e);
    if (!err && (r->complete || encoding_given_teaches(r->given) || !learns_words(d->table.schema)))
        err = dataset_set_shape(d, r, "data.columns", 0, 1, &d->table.schema->features, e);
    r->schema = d->table.schema;
    r->spill = d->table.spill;
    return err;
}

static enum err csv_load(struct dataset *d, const struct reading *r, struct errmsg *e)
{
    struct pool *pool = NULL;
    uint32_t threads = r->look                  ? 1
                       : r->job->worker.threads ? host_copy_threads(r->job->worker.threads)
                                                : cores_usable();
    if (r->eval && !r->schema && !r->before)
        return err_set(e, ERR_STATE, "the training part is read first");
    enum err err = ERR_OK;
    if (r->schema) {
        d->table.schema = schema_ref(r->schema);
        d->table.spill = r->spill ? spill_ref(r->spill) : NULL;
    } else {
        err = reading_columns(d, r, e);
        if (!err)
            host_copy_share(d->table.spill);
    }
    if (!err)
        err = pool_new(&pool, threads, e);
    if (!err)
        table_begin(&d->table);
    if (!err)
        err = load(d, r, pool, e);
    pool_free(pool);
    return err;
}

const struct reader_type reader_csv = {.load = csv_load, .begin_stream = csv_begin_stream};
const struct reader_type reader_libsvm = {.load = csv_load};
const struct reader_type reader_parquet = {.load = csv_load, .begin_stream = csv_begin_stream};
