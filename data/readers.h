/* Shared by dataset.c and the readers. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "common/math/pool.h"
#include "common/process/contents.h"
#include "common/process/paths.h"
#include "data/core/text_index.h"
#include "data/dataset.h"
#include "data/text/csv_scan.h"

/* The data to read. */
struct reading {
    const struct job *job;
    const char *key;      /* "data.train", "data.eval" or a name of the files, for messages */
    const char *patterns; /* names the files */
    uint32_t classes;     /* labels are less than it; 0: no check */
    int eval;
    const struct encoding_given *given; /* csv: the encoding of a checkpoint; NULL: none */
    bool unfitted;                      /* csv: the model's shape is checked later */
    struct table_schema *schema; /* csv: the training part's; NULL: this is the training part */
    bool complete;               /* the schema of a stream was there before */
    bool teaches;                /* the rows of a stream are read for what they teach */
    /* dataset_look: read only the beginnings of the files; else NULL */
    struct dataset_look *look;
    bool unlabeled; /* labels are not read, and can be absent */
    /* csv: takes the rows, which then are not in the dataset; NULL: none */
    const struct dataset_sink *sink;
    struct errmsg *unread; /* csv: as dataset_streamed.unread; NULL: not wanted */
    bool before;  /* csv, libsvm: only the fingerprint is wanted, as earlier releases made it */
    bool sampled; /* the look can skip files: csv reads DATASET_SAMPLE_FILES of them */
    struct spill *spill;           /* of the training part, as schema */
    const struct contents *train;  /* eval: the contents of the training part; NULL: not known */
    const struct dataset *learned; /* the same: the part itself */
};

/* True for a reading of data.train of which rows are held out. */
static inline bool reading_holds_out(const struct reading *r)
{
    return !r->eval && !r->sink && job_holds_rows_out(r->job);
}

/* Find the files that it reads: those that are held out of data.train are not. The caller owns *p (paths_close). Errors: as
 * paths_expand; ERR_INPUT: a file that is held out is not there, or no other is. */
enum err reading_paths(struct paths *p, const struct reading *r, struct errmsg *e) MUST_CHECK;

/* Add a row; a label that is NaN is a bad row's. */
void dataset_see(struct dataset_seen *s, float label, float weight);
static inline void dataset_see_also(struct dataset_seen *s, const struct dataset_seen *next)
{
    if (!s->any || !next->any) {
        *s = next->any ? *next : *s;
        return;
    }
    s->weighs |= next->weighs;
    s->rows += next->rows;
    s->weights += next->weights;
    s->weight_max = fmaxf(s->weight_max, next->weight_max);
    s->min = fminf(s->min, next->min);
    s->max = fmaxf(s->max, next->max);
    s->weighed_min = fminf(s->weighed_min, next->weighed_min); /* NAN is left out */
    s->weighed_max = fmaxf(s->weighed_max, next->weighed_max);
    for (size_t i = 0; i < DATASET_SEEN_CLASSES / 64; i++)
        s->classes[i] |= next->classes[i];
}

/* A reader: it is in the file of its format, which has a row in JOB_FORMATS (job/job.h). */
struct reader_type {
    /* Fills rows, features, rank, shape, x and labels of a zeroed dataset, and adds what it reads to d->contents. On error
     * the caller closes *d. Errors: ERR_INPUT and others, naming the file. */
    enum err (*load)(struct dataset *d, const struct reading *r, struct errmsg *e);
    /* Begins the training part of a stream: sets its schema, unless it has one, by r->given or without learning, its shape and its
     * memory, and of *r schema, complete and spill. NULL: the format is not streamed. Errors: ERR_INPUT: a column would learn buckets, or differs from the
     * checkpoint's; ERR_NOMEM. */
    enum err (*begin_stream)(struct dataset *d, struct reading *r, struct errmsg *e);
};
#define READER_TYPE(kind, word, rows, meaning) extern const struct reader_type reader_##word;
JOB_FORMATS(READER_TYPE, JOB_NO_ALIAS)
#undef READER_TYPE

/* The encoding that r->given has; the log says what differs by its release. Errors: as encoding_given_take. */
enum err reading_take_given(struct table_schema *s, const struct reading *r,
                            struct errmsg *e) MUST_CHECK;
/* Begin the table of the training part: its columns, and its memory. Errors: as dataset_load_given. */
enum err reading_columns(struct dataset *d, const struct reading *r, struct errmsg *e) MUST_CHECK;

/* ---- host_copy.c ---- */

/* Load the training part as this process's part in the host's copy (host_copy.h) is. load: as a process reads it by itself. *d has its
 * final place. Errors: as dataset_load_given. */
enum err host_copy_load(struct dataset *d, const struct reading *r,
                        enum err (*load)(struct dataset *d, const struct reading *r,
                                         struct errmsg *e),
                        struct errmsg *e) MUST_CHECK;

/* All rows of data.train are there, in a table not scaled yet: find those that are held out, unless the reader has noted them, and
 * what the others have. learning: categories have learned the words of all rows; they forget those that no other row has, and
 * d->table.renumber is set. Errors: ERR_INPUT: one of the parts has no row; ERR_NOMEM; ERR_DISK. */
enum err dataset_hold_out(struct dataset *d, const struct reading *r, bool learning,
                          struct errmsg *e) MUST_CHECK;

/* Check that there are rows to train on, so many are left, and rows to evaluate on, d->held; says how many. Errors: ERR_INPUT. */
enum err reading_check_parts(const struct reading *r, const struct dataset *d, uint64_t left,
                             struct errmsg *e) MUST_CHECK;

/* Whether the job's loss has classes, so that labels are whole numbers. */
bool dataset_has_classes(const struct job *job);
/* Log a warning about the data. A look remembers its first one, for its caller. */
void dataset_warn(const struct reading *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same for a line that is no warning. */
void dataset_info(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* From now on these lines are kept, or no more; none is kept so far. Thread: the one that begins to read. */
void reading_keep_said(bool keeps);
/* A view. NULL: none is kept. */
const char *reading_said(size_t *bytes);

/* Set the number and the shape of rows. `from`: the source of the shape, for messages. Errors: ERR_INPUT: the
 * model's input has another shape. */
enum err dataset_set_shape(struct dataset *d, const struct reading *r, const char *from,
                           uint64_t rows, uint32_t rank, const uint32_t *shape,
                           struct errmsg *e) MUST_CHECK;
/* The same, and allocate rows and labels as bytes, except for a look. Errors: as dataset_set_shape; ERR_NOMEM. */
enum err dataset_alloc(struct dataset *d, const struct reading *r, const char *from, uint64_t rows,
                       uint32_t rank, const uint32_t *shape, struct errmsg *e) MUST_CHECK;
/* The same, with rows, labels or both as floats. Errors: also ERR_INPUT: data.augment, which needs pixels of bytes. */
enum err dataset_alloc_as(struct dataset *d, const struct reading *r, const char *from,
                          uint64_t rows, uint32_t rank, const uint32_t *shape, bool float_rows,
                          bool float_labels, struct errmsg *e) MUST_CHECK;

/* ---- same_files.c ---- */

/* path: (count) the files that have the rows, or members of archives. with: (count) the file of labels of each; NULL: none.
 * Files are the same by device and inode, so names, links and patterns that overlap do not matter. Labels that several
 * files of rows share are no mistake. Says nothing of rows without labels, of a sample, and of files on a command line
 * that are in data.train. A sample, too, warns of an order of names that is not that of their numbers, if the order tells.
 * Errors: ERR_NOMEM. */
enum err same_files_warn(const struct reading *r, const char *const *path, const char *const *with,
                         size_t count, struct errmsg *e) MUST_CHECK;
/* The same for files with equal contents, decompressed. own: the complete files. Says nothing of files without rows, and of those
 * of which same_files_warn has told. Errors: ERR_NOMEM. */
enum err same_files_warn_contents(const struct reading *r, const struct contents *own,
                                  struct errmsg *e) MUST_CHECK;

/* ---- words_note.c ---- */

/* WORDS_LISTS: fields with several values. WORDS_LABELS: labels that are no names of classes. */
enum words_kind { WORDS_ALONE, WORDS_LISTS, WORDS_LABELS };

/* Warn of words of the column that a reader would take for a missing value, for rounded ids and, unless they are lists, for one
 * word, or that have control characters. Of labels: of one that a reader would take for a missing value, or for another class.
 * Errors: ERR_NOMEM. */
enum err words_note(const char *column, const struct vocabulary *words, enum words_kind kind,
                    const struct meaning *m, const struct reading *r, struct errmsg *e) MUST_CHECK;

/* ---- scale_note.c ---- */
/* Warn of the columns whose different numbers a scale makes equal. The rows of the training part have their encoding, and are not scaled yet. Looks at a sample of them. Errors: ERR_NOMEM;
 * ERR_DISK. */
enum err scale_note(const struct table *t, const struct reading *r, struct errmsg *e) MUST_CHECK;

/* Of a dataset, before its other parts; NULL is allowed. In stream_source.c. */
void stream_rows_free(struct stream_rows *s);

/* Reads rows by their numbers, from the middle of the data. */
struct row_reader;
/* A row of n cells: packed, scaled, and with the label NaN if it is bad. If the reader is raw it is not scaled, and its numbers have
 * second cells; then `bad` is true of rows that are held out, too. */
typedef enum err row_visitor(void *ctx, const uint32_t *cells, size_t n, bool bad,
                             struct errmsg *e);
struct row_reader_type {
    /* Visit the rows [first, end), which exist. Errors: ERR_INPUT: the data
     * are not those of the index any more, or a bad row with data.bad_rows: stop; ERR_IO; ERR_NOMEM; the visitor's. They name the
     * file. Thread: any. */
    enum err (*read)(struct row_reader *r, uint64_t first, uint64_t end, row_visitor *visit,
                     void *ctx, struct errmsg *e);
    void (*free)(struct row_reader *r);
};
struct row_reader {
    const struct row_reader_type *type;
    struct table_schema *schema; /* a view: complete, its features are placed */
    uint64_t rows;
    bool may_be_bad;     /* bad rows are no errors */
    bool raw;            /* the rows are wanted as they teach */
    uint64_t keep_bytes; /* of memory, for decoders that stay open between reads */
    /* If they teach words: gets those of each piece, before its rows are visited: (inputs), as in struct learned. NULL: they do not */
    enum err (*learn)(void *ctx, const struct vocabulary *words, struct errmsg *e);
    /* data.validation.share: rows that are held out lose their label, as bad rows have none */
    double share; /* 0: none is held out */
    uint64_t hold_key;
    const char *column;   /* the one whose keys decide; "": the rows' numbers do */
    struct csv_keep keep; /* the column, whose text is kept */
    bool held;            /* rows that are held out are visited alone, as they are */
};
/* Hold out what the job says; r stays where it is. f: by which its rows are read. */
static inline void row_reader_hold(struct row_reader *r, struct csv_format *f,
                                   const struct job *job)
{
    r->share = job->data.validation.share;
    r->column = job->data.validation.column;
    r->hold_key = order_hold_key(job->training.seed, *r->column);
    r->keep = (struct csv_keep){.key = "data.validation.column", .name = &r->column, .columns = 1};
    if (*r->column)
        f->keep = &r->keep;
}
/* Visit the rows of the piece, whose first one has the number `row`: *rows of them at most, which counts down. Errors: the
 * visitor's. */
enum err row_reader_give(const struct row_reader *r, const struct csv_piece *p, uint64_t row,
                         uint64_t *rows, row_visitor *visit, void *ctx,
                         struct errmsg *e) MUST_CHECK;

/* ---- indexed_text.c ---- */

/* The text of a file that has an index (data/core/text_index.h): it is read in its order, but can begin anywhere, also where gzip or
 * zstd has compressed it. */
struct text_index_file;
struct stream;
struct stat;
struct indexed_text {
    const struct text_index_file *of;
    const char *path;
    int fd;
    struct stream *unpacked; /* of a compressed file, at `at`; NULL: none yet */
    uint64_t at;
};

/* The file was there when its size was taken. `of` and the path must outlive *t. Owns: indexed_text_close, also on an error. Errors: of
 * these functions: ERR_INPUT: it is not there, or has become shorter; ERR_CORRUPT; ERR_IO; ERR_NOMEM. They do not name the file. */
enum err indexed_text_open(struct indexed_text *t, const struct text_index_file *of,
                           const char *path, struct errmsg *e) MUST_CHECK;
/* Read exactly the bytes [at, at + bytes) of the text. */
enum err indexed_text_read(struct indexed_text *t, char *out, size_t bytes, uint64_t at,
                           struct errmsg *e) MUST_CHECK;
void indexed_text_close(struct indexed_text *t);

/* The time of text_index_file. */
int64_t indexed_text_modified_ns(const struct stat *s);
/* Errors: ERR_INPUT: the open file has another size or time now; ERR_IO. */
enum err indexed_text_same(int fd, uint64_t stored_bytes, int64_t modified_ns,
                           struct errmsg *e) MUST_CHECK;

/* ---- csv_index.c ---- */

/* The index of csv files (data/core/text_index.h): parts are scanned by all threads, and joined in the order of the files.
 * A compressed one is scanned by one thread. */

/* Index all rows, also bad ones: those that csv_rows reads. headers: each file begins with one. cell_bytes:
 * TEXT_INDEX_CELL_BYTES, but tests have small cells. row_bytes: csv_piece_bytes. kept: a file that has the index, if the names, sizes and times of the files are those of
 * now, or gets it; NULL: none. csv_index_of_chief reads the same bytes. Uses 2 MiB, less than 1 MiB in each thread, and the index. Owns: text_index_close.
 * Errors: ERR_INPUT: a file that cannot be read, is no text, has a frame of zstd that is too large, changes meanwhile, or has a row that does not end, or
 * covers whole cells of row_bytes or more; ERR_IO; ERR_NOMEM. They name the file. */
enum err csv_index(struct text_index *x, const struct paths *paths, const struct csv_grammar *g,
                   bool headers, uint64_t cell_bytes, size_t row_bytes, const char *kept,
                   struct pool *pool, struct errmsg *e) MUST_CHECK;

/* Take the bytes of a kept index, which another process has made of files that are the same here, whatever their names and times.
 * Owns: text_index_close. Errors: ERR_INPUT: a file that cannot be read, or has another size; another number of them;
 * ERR_NOTFOUND: the index is of another grammar; ERR_CORRUPT; ERR_NOMEM. */
enum err csv_index_of_chief(struct text_index *x, const struct paths *paths,
                            const struct csv_grammar *g, bool headers, uint64_t cell_bytes,
                            const uint8_t *in, size_t bytes, struct errmsg *e) MUST_CHECK;

/* Scan the cells [p->first_cell, + p->cells) of file p->file, which is `path`, and which the index has the size of. Pure in the
 * file's bytes. Errors: ERR_INPUT, ERR_IO, ERR_NOMEM, with the path. Thread: any. */
enum err csv_index_scan(struct text_index_part *p, const struct text_index *x, const char *path,
                        const struct csv_grammar *g, struct errmsg *e) MUST_CHECK;

/* The fingerprint of the data, of the size, the rows and the checksums of each file. *out: zeros. Owns: contents_close. Errors:
 * ERR_NOMEM. */
enum err csv_index_contents(const struct text_index *x, const struct paths *paths,
                            struct contents *out, struct errmsg *e) MUST_CHECK;

/* Reads the rows that csv_load reads, with the same cells: whole cells of the index, whose checksums are compared. It is silent
 * about odd lines. r: the job, the complete schema and the classes; they, x and paths must outlive the reader. Errors: as
 * meaning_init. */
enum err csv_index_reader(struct row_reader **out, const struct reading *r,
                          const struct text_index *x, const struct paths *paths,
                          struct errmsg *e) MUST_CHECK;

/* These, for a stream. */
struct index_type {
    /* Whether rows of the files can be read from the middle, as far as their beginnings show it. NULL: always. Errors: ERR_INPUT,
     * naming the file; ERR_IO; ERR_NOMEM. */
    enum err (*check)(const struct paths *paths, struct errmsg *e);
    enum err (*make)(struct text_index *x, const struct paths *paths, const struct csv_grammar *g,
                     bool headers, uint64_t cell_bytes, size_t row_bytes, const char *kept,
                     struct pool *pool, struct errmsg *e);
    enum err (*of_chief)(struct text_index *x, const struct paths *paths,
                         const struct csv_grammar *g, bool headers, uint64_t cell_bytes,
                         const uint8_t *in, size_t bytes, struct errmsg *e);
    enum err (*contents)(const struct text_index *x, const struct paths *paths,
                         struct contents *out, struct errmsg *e);
    enum err (*reader)(struct row_reader **out, const struct reading *r, const struct text_index *x,
                       const struct paths *paths, struct errmsg *e);
};
extern const struct index_type csv_index_type;
/* Parquet: a row group is a cell. Each process reads the footers of its own files, and `kept` has what tells whether they are the chief's. The rows
 * of a row group before those that are wanted are decoded, too, unless a decoder of an earlier read stands behind them. In
 * parquet_index.c. */
extern const struct index_type parquet_index_type;

/* ---- stream_learn.c ---- */

enum { STREAM_LEARN_ROWS = 1 << 17 };
/* Learn words, and shifts, divisors and fills of numbers, from all rows of a reader that nobody else uses, and that was made with
 * reading.teaches; the encoding of its schema is then complete. bytes: of all rows, for loading_read. Words are in the order of the
 * first rows that have them. The result depends on the rows, their order and block_rows alone: STREAM_LEARN_ROWS, but tests have small
 * blocks. most_bytes: of the words. Errors: the reader's; ERR_INPUT: too many words; ERR_NOMEM. */
enum err stream_learn(struct row_reader *reader, uint64_t bytes, uint64_t block_rows,
                      uint64_t most_bytes, struct pool *pool, struct errmsg *e) MUST_CHECK;

/* ---- stream_source.c ---- */

struct stream_config {
    struct row_reader *reader;
    const struct lanes *lanes; /* copied */
    const struct order *order; /* copied: of the same batches */
    const struct contents *contents;
    uint64_t budget_bytes;
    uint32_t bad_rows_max; /* in the windows that the process reads, each counted once */
};
/* The rows of a reader as a source whose leaves are those of the lanes, for any number of processes. It holds the windows of the
 * lanes that are wanted (loader_want), and reads ahead as far as budget_bytes allow. reader and contents must outlive it.
 * Owns: stream_source_free. Errors: ERR_INPUT: the rows of all lanes do not fit; ERR_NOMEM. */
enum err stream_source_new(struct source **out, const struct stream_config *c,
                           struct errmsg *e) MUST_CHECK;
void stream_source_free(struct source *s);
