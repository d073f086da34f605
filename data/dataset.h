/* A data set, and its rows as a source. Rows are in memory, those of a csv partly in a file (table.h). One reader per
 * format fills a dataset; order.c decides which rows make which batch. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/process/contents.h"
#include "job/job.h"
#include "data/core/key_growth.h"
#include "data/csv_rows.h"
#include "data/source.h"
#include "data/table.h"

enum { DATASET_SEEN_CLASSES = 256 };

/* Facts about the good rows of a set. */
struct dataset_seen {
    bool any;                       /* there is a row */
    bool weighs;                    /* a row has a weight above 0 */
    float min, max;                 /* of the labels */
    float weighed_min, weighed_max; /* the same of rows with a weight above 0; NAN: none */
    double rows, weights;           /* how many; the sum of their weights */
    float weight_max;
    uint64_t classes[DATASET_SEEN_CLASSES / 64]; /* bits: labels from 0 that a row has */
};

struct dataset {
    uint64_t rows;
    struct dataset_seen seen; /* of a look: in the rows that it read; none: !any */
    uint64_t bad_rows; /* that are not held out; they keep their position, and are never gathered */
    /* Of the training part: rows that are never trained on, how many of them are bad, and what is in them. */
    struct order_held held;
    uint64_t held_bad;
    struct dataset_seen held_seen;
    /* Of an eval part that is held out: the set that has its rows, another one or this, and their numbers there. */
    const struct dataset *whole;           /* NULL: this */
    uint64_t *row;                         /* (rows); NULL: all */
    struct source *held_rows;              /* that are held out of a stream; NULL: none */
    uint32_t features;                     /* elements of one row */
    uint32_t rank, shape[TENSOR_RANK_MAX]; /* the shape of one row */
    uint8_t *x;                            /* (rows, features), raw bytes; a batch gets x / scale */
    float *x_float;                        /* in place of x, for numbers that are not bytes */
    uint8_t *labels;                       /* (rows) class or value, as a byte */
    float *y_float;                        /* in place of labels */
    float scale;
    bool bytes, shares; /* arrays: a file has bytes above 1; one has floats of at most 1 */
    struct table table; /* csv: it has the rows, and x and labels are NULL */
    uint64_t row_bytes; /* of a row in memory, by a sample of the stream; 0: not known */
    struct stream_rows *
        stream; /* data.order: stream: the rows are in their files, and the table has none; NULL: they are here */
    /* of the files; a look has none. Of an eval part whose rows are in another set: the fingerprint alone */
    struct contents contents;
    struct job_augment augment; /* for the training part */
    bool
        copied; /* held.bits, x to y_float, and the table's cells are in the host's copy (host_copy.h) */
    bool refused; /* they were to be, and this process still has its place there */
};

/* Load job->data's train (eval = 0) or eval (eval = 1) part, and check it against the model's input shape and, for
 * class labels, `classes` (labels must be < classes; 0: as the loss says, or unchecked). Errors: ERR_INPUT, naming
 * the file, what is wrong (line or offset), and what would be right. */
enum err dataset_load(struct dataset *d, const struct job *job, int eval, uint32_t classes,
                      struct errmsg *e) MUST_CHECK;
/* Load the training part with the encoding of a checkpoint; NULL: the part teaches its own. Errors: as dataset_load;
 * ERR_INPUT: columns that differ from the checkpoint's. */
struct encoding_given;
enum err dataset_load_given(struct dataset *d, const struct job *job,
                            const struct encoding_given *given, uint32_t classes,
                            struct errmsg *e) MUST_CHECK;
/* The same with the shape that the rows have, unchecked; dataset_check_shape then checks it against the model's.
 * Errors: ERR_INPUT. */
enum err dataset_load_unfitted(struct dataset *d, const struct job *job, uint32_t classes,
                               struct errmsg *e) MUST_CHECK;
enum err dataset_check_shape(const struct dataset *d, const struct job *job,
                             struct errmsg *e) MUST_CHECK;
/* Load the eval part with the words and scales of a csv that the training part taught. If it is held out of the training part,
 * *train, which must then outlive it, has its rows; if *train has none, they are read. */
enum err dataset_load_eval(struct dataset *d, const struct job *job, const struct dataset *train,
                           uint32_t classes, struct errmsg *e) MUST_CHECK;
/* A label of the training part is not one of the model's classes. Read the part again, now that the classes are
 * known, and return ERR_INPUT; *e names the file and line. Errors: as dataset_load. */
enum err dataset_name_label(const struct job *job, const struct encoding_given *given,
                            uint32_t classes, struct errmsg *e) MUST_CHECK;
/* Check that all labels are classes, 0 to `classes` - 1, for data that were loaded before the model was known.
 * Errors: ERR_INPUT, for which dataset_name_label finds file and line; ERR_DISK. */
enum err dataset_check_classes(const struct dataset *d, uint32_t classes,
                               struct errmsg *e) MUST_CHECK;
void dataset_close(struct dataset *d);
/* The subject of messages about the evaluation data: "data.eval", or the command's DATA. A view. */
const char *dataset_eval_name(const struct job *job);

/* Rows without labels: these can be absent, and are not read. */

/* Takes the rows of csv or libsvm piece by piece (csv_rows.h), in constant memory. */
struct dataset_sink {
    const struct csv_keep *keep; /* texts to keep; NULL: none */
    /* A piece was read: its cells, not scaled, and its texts. Called on all threads at the same time, with the thread's
     * number, below job->worker.threads; the piece's cells can be scaled. */
    enum err (*take)(void *ctx, uint32_t thread, struct csv_piece *piece, struct errmsg *e);
    /* The piece that this thread took last is next, in the order of the rows. Called by one thread at a time. */
    enum err (*put)(void *ctx, uint32_t thread, struct errmsg *e);
    void *ctx;
    const struct csv_receiver
        *receiver; /* has the rows of csv before `take`, as columns; NULL: they are encoded */
    /* With a receiver: work of the thread between its pieces and behind the last, while others go on; NULL: none. */
    enum err (*work)(void *ctx, uint32_t thread, struct errmsg *e);
};
struct dataset_streamed {
    uint64_t rows, bad; /* bad: those of `rows` that are bad: piece->present tells them */
    /* names columns of a header that the model does not read; without a header: those taken to be absent, where others could be, or
     * the first line that is left out, if it has not the names of the columns; "": none */
    struct errmsg unread;
};
/* Pass the rows of job->data.eval, or those that the job generates, to the sink: there can be none. schema: as the model was
 * trained. classes: the model's, to warn of columns in another order. job->worker.threads must be set. Errors: as dataset_load; the
 * sink's. */
enum err dataset_stream(const struct job *job, struct table_schema *schema, uint32_t classes,
                        const struct dataset_sink *sink, struct dataset_streamed *out,
                        struct errmsg *e) MUST_CHECK;
/* Pass the rows of job->data.eval, csv, to the sink's receiver: all their columns, labels, too. Errors: as dataset_stream. */
enum err dataset_columns(const struct job *job, struct table_schema *schema,
                         const struct dataset_sink *sink, struct dataset_streamed *out,
                         struct errmsg *e) MUST_CHECK;
/* Load job->data.eval in another format; all labels are 0. It can have no rows. Errors: as dataset_load. */
enum err dataset_load_unlabeled(struct dataset *d, const struct job *job,
                                struct errmsg *e) MUST_CHECK;

/* Set what the training part has determined in the job: the model's input shape, if it is auto, and the positions of
 * the columns' features. */
void dataset_tell(const struct dataset *d, struct job *job);

/* Facts about a data set that parts of its files show. */
struct dataset_look {
    size_t files;
    uint64_t rows, bytes;   /* bytes: size in memory, once loaded */
    uint64_t loading_bytes; /* while it is loaded, if that is more */
    /* rows and bytes are estimates from the beginnings, not values of headers; of plain csv files also from blocks spread over them */
    bool estimated;
    bool counted;        /* but their number is exact: each file's footer has it */
    double held_part;    /* by a key: the part of data.train that is held out; 0: not known */
    bool grows;          /* csv: words are learned, so later rows can add features */
    uint64_t group_rows; /* Parquet: of the largest row group, of the files that were opened */
    uint32_t rank, shape[TENSOR_RANK_MAX]; /* shape of one row, as far as it is known */
    struct key_growth keys;   /* for the training part: the keys that it looks up in tables */
    struct dataset_seen seen; /* csv: of the rows that were read */
    struct errmsg warning;    /* csv: the first warning about the data; "": none */
};
/* Read the beginnings of the files, and check that they have this format and the model's shape and classes. Where keys are
 * counted, more of a csv is read, up to 32 MiB of text in all: blocks spread over its files, unless they are compressed. Of more
 * than DATASET_SAMPLE_FILES csv files only so many are read, the first one and others spread evenly, so the time is
 * bounded. For the training part, the job is also changed as by dataset_tell, as far as that is known. Errors: as
 * dataset_load. */
enum { DATASET_SAMPLE_FILES = 16 /* 25 to 55 ms each */ };
enum err dataset_look(struct dataset_look *look, struct job *job, int eval, uint32_t classes,
                      struct errmsg *e) MUST_CHECK;

/* Make the fingerprint that earlier releases made of the text of this part, reading it once more: a checkpoint of theirs has it. Of
 * rows that are held out of a set, that is known of the set. Does nothing if it is known, or no text was read. Errors: as
 * dataset_load. */
enum err dataset_know_before(struct dataset *d, const struct job *job, int eval,
                             struct errmsg *e) MUST_CHECK;

/* The same for every file, with the encoding of a checkpoint (NULL: as the part itself teaches). *schema: the
 * columns of the training part as far as they were read, the caller's (schema_unref); NULL: the data have
 * none. */
enum err dataset_look_given(struct dataset_look *look, struct job *job,
                            const struct encoding_given *given, int eval, uint32_t classes,
                            struct table_schema **schema, struct errmsg *e) MUST_CHECK;

/* ---- stream_source.c: the training part of data.order: stream ---- */

/* Look at a sample of the training part, as dataset_look, with the encoding of a checkpoint (NULL: none): what its rows have and
 * take, for *d, which is zeros, and the keys that it looks up. */
enum err dataset_sample(struct dataset *d, struct job *job, const struct encoding_given *given,
                        struct key_growth *keys, struct errmsg *e) MUST_CHECK;
/* Whether the columns learn something from all rows that a stream does not learn; *why: what, and what to do. */
bool dataset_cannot_learn(const struct table_schema *s, struct errmsg *why);
/* Check, before dataset_index, that the beginnings of the files do not show that it will refuse them. Errors: as dataset_index; those
 * of paths_expand. */
enum err dataset_check_stream(const struct job *job, struct errmsg *e) MUST_CHECK;
/* The order of the job's stream of so many rows. */
struct lanes;
void stream_lanes(struct lanes *l, const struct job *job, uint64_t rows);
/* Find the files, and the meaning of their rows: by an encoding, or (given NULL) by the columns, of which dataset_index learns the
 * rest; if it learns words, d->rank is 0 until then. *d: zeros, or as dataset_sample leaves it; with a complete schema only rows that
 * are held out can be read (dataset_hold_stream). Then call dataset_index or dataset_index_of_chief, and dataset_open_stream. The job
 * and `given` must outlive *d. On any error the caller closes *d. Errors: ERR_INPUT: a column would learn buckets, or differs from the given encoding;
 * those of paths_expand. */
enum err dataset_begin_stream(struct dataset *d, const struct job *job,
                              const struct encoding_given *given, struct errmsg *e) MUST_CHECK;

/* Index the files (csv_index), with all of the job's threads, and read all rows once more if they teach something. kept: a
 * path, which then has the index. Errors: ERR_INPUT, also if data.memory_mb has no room for the windows; ERR_IO; ERR_NOMEM. They
 * name the file. */
enum err dataset_index(struct dataset *d, const char *kept, struct errmsg *e) MUST_CHECK;
/* The same with the bytes of the chief's index. Errors: as csv_index_of_chief. */
enum err dataset_index_of_chief(struct dataset *d, const uint8_t *index, size_t bytes,
                                struct errmsg *e) MUST_CHECK;
/* *out: the rows, which *d owns. classes: the model's. Errors: ERR_NOMEM. */
enum err dataset_open_stream(struct dataset *d, uint32_t classes, struct source **out,
                             struct errmsg *e) MUST_CHECK;

/* Whether dataset_hold_stream has what the job evaluates on. */
static inline bool dataset_holds_stream(const struct job *job)
{
    return job_streams(job) && job_holds_rows_out(job) && !job->data.eval;
}
/* After dataset_index, in place of dataset_load_eval: the rows that are held out of the stream *train, which has to outlive them. They
 * are read for each evaluation, and by a column also now, to count them. Errors: ERR_INPUT: one of the parts has no row; ERR_IO;
 * ERR_NOMEM. They name the file. */
enum err dataset_hold_stream(struct dataset *d, struct dataset *train, uint32_t classes,
                             struct errmsg *e) MUST_CHECK;

/* ---- csv_index.c: the index of text is scanned in parts, which the chief deals to workers, too ---- */

enum {
    INDEX_PART_BYTES =
        4392, /* of a scanned part (struct text_index_part), in the order of the machine */
    INDEX_DEALS_MOST = 256, /* parts that are dealt and not joined */
    INDEX_DEALS_LATE_MS = 3000
};

/* A part that is to be scanned: cells of a file of data.train, by its place among them. */
struct index_deal {
    uint64_t number, file_bytes, first_cell;
    uint32_t file, cells;
};

/* In the chief. The next part for a worker; `by`: a number that the caller gives its connection, not 0. False: there is none now.
 * Thread: any, as of all of these. */
bool index_deal_next(uint64_t by, struct index_deal *out);
/* A worker has scanned part `number`. The first scan of a part counts, and others are dropped. Errors: ERR_PROTO: it has impossible
 * values, and is not used. */
enum err index_deal_answered(uint64_t number, const uint8_t part[INDEX_PART_BYTES],
                             struct errmsg *e) MUST_CHECK;
/* The parts that it has not answered are dealt again. */
void index_deal_left(uint64_t by);
/* Call it about each second, as long as a worker has parts: one that has had a part for INDEX_DEALS_LATE_MS is not waited for, when a
 * thread of the chief has nothing else to do. */
void index_deals_time(int64_t now_ms);
/* Call `wake` when there are parts; it must not wait, and deal none. NULL: call nothing any more. */
void index_deals_watch(void (*wake)(void *ctx), void *ctx);

/* Scans parts of the index for a chief, with threads of its own. */
struct index_helper;
struct index_answer {
    uint64_t connection, number;
    char error[512]; /* "": it is scanned */
    uint8_t part[INDEX_PART_BYTES];
};
/* Opens the files of data.train once. Owns: index_helper_free. Errors: ERR_INPUT: a file that cannot be read; ERR_NOMEM.
 * They name the file. */
enum err index_helper_new(struct index_helper **out, const struct job *job,
                          struct errmsg *e) MUST_CHECK;
uint32_t index_helper_threads(const struct index_helper *h);
/* Start the threads. They call `answered`, which owns the answer (mem_free). */
enum err index_helper_start(struct index_helper *h,
                            void (*answered)(void *ctx, struct index_answer *a), void *ctx,
                            struct errmsg *e) MUST_CHECK;
/* Scan it, later; parts of other connections are forgotten. False: too many wait. */
bool index_helper_scan(struct index_helper *h, uint64_t connection, const struct index_deal *deal);
/* Ends the threads. NULL: nothing to do. */
void index_helper_free(struct index_helper *h);

/* The label of a row outside a table. */
static inline float dataset_label(const struct dataset *d, uint64_t row)
{
    return d->y_float ? d->y_float[row] : (float)d->labels[row];
}

/* Gather the rows named into a buffer of the set's form, scaled, without bad rows. Vectorized, with the same bits on every
 * machine. augment: a key; the choices of data.augment for rows[i] are a function of it and i; NULL: as in evaluation.
 * Errors: ERR_NOMEM; ERR_DISK: the file of rows fails. Thread: any; waits for the disk if rows are in a file. */
enum err dataset_gather(const struct dataset *d, const uint64_t *rows, uint32_t n,
                        const uint64_t *augment, struct leaf_buffer *buffer, struct leaf *leaf,
                        struct errmsg *e) MUST_CHECK;
struct leaf_form dataset_form(const struct dataset *d);

/* A data set as a source. */
struct dataset_source {
    struct source source;
    const struct dataset *data;
};
/* order: of training; NULL: it is only read in blocks. The set must outlive the source, which has nothing to be closed. */
void dataset_source_init(struct dataset_source *s, const struct dataset *d,
                         const struct order *order);

bool dataset_has_keys(const struct dataset *d); /* its rows look up keys in tables */
/* Estimate the number of different keys of a set that has keys. `rows`: size of the whole set, of which
 * d->table.rows are loaded. Reads about `lookups` lookups, of rows spread over the set. Errors: ERR_NOMEM; ERR_DISK;
 * then g->lists is 0. */
enum { DATASET_COUNTED_LOOKUPS = 1 << 27 /* takes about a second */ };
enum err dataset_count_keys(const struct dataset *d, uint64_t rows, uint64_t lookups,
                            struct key_growth *g, struct errmsg *e) MUST_CHECK;
/* data.augment changes a training image each time it is drawn, as a function of 64 random bits alone. */

struct image {
    uint32_t rows, cols, channels; /* channels last */
};

static inline bool augment_any(const struct job_augment *a)
{
    return a->flip || a->crop || a->shift;
}

/* out: (rows, cols, channels) = the image * s: first moved by up to a->shift pixels each way (the border is
 * repeated), then mirrored if a->flip and one bit say so, then cut by a window that is up to a->crop pixels off,
 * with zeros outside the image. Sides are at most JOB_AUGMENT_SIDE_MAX. Thread: any. */
void augment_image(float *out, const uint8_t *in, float s, const struct image *image,
                   const struct job_augment *a, uint64_t bits);
