/* A data set and its rows as batches. Rows are in memory, those of a csv partly in a file (table.h). One reader per format
 * fills a dataset; order.c says which rows make which batch; loader.c prefetches. */
#ifndef GRADWIRE_WORKER_DATA_DATASET_H
#define GRADWIRE_WORKER_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "common/rows/lookups.h"
#include "worker/data/core/key_growth.h"
#include "worker/data/table.h"

struct dataset {
    uint64_t rows;
    uint64_t bad_rows; /* of them: they keep their place, and are never gathered */
    uint32_t features; /* elements of one row */
    uint32_t rank, shape[TENSOR_RANK_MAX]; /* of one row */
    uint8_t *x;      /* (rows, features), raw bytes; the batch gets x / scale */
    float *x_float;  /* in place of x: numbers that are no bytes */
    uint8_t *labels; /* (rows) class, or value, as a byte */
    float *y_float;  /* in place of labels */
    uint8_t label_max;
    float scale;
    struct table table;         /* csv: the rows are in it, and x and labels are NULL */
    uint8_t fingerprint[32];    /* SHA-256 over the decompressed contents, not the paths */
    struct job_augment augment; /* of the training part */
};

/* Load job->data's train (eval = 0) or eval (eval = 1) part and check it against the model's input shape
 * and, for class labels, `classes` (labels must be < classes; 0: the loss tells, or no check).
 * Errors: ERR_INPUT naming the file, what is wrong (its line, or its offset) and what would be right. */
enum err dataset_load(struct dataset *d, const struct job *job, int eval, uint32_t classes,
                      struct errmsg *e) MUST_CHECK;
/* The training part, whose rows mean what a checkpoint says; NULL: as the part itself teaches. Errors: as dataset_load;
 * ERR_INPUT columns that the checkpoint does not have so. */
struct encoding_given;
enum err dataset_load_given(struct dataset *d, const struct job *job,
                            const struct encoding_given *given, uint32_t classes,
                            struct errmsg *e) MUST_CHECK;
/* The same, of the shape that the rows have alone; then: do they fit the model? Errors: ERR_INPUT. */
enum err dataset_load_unfitted(struct dataset *d, const struct job *job, uint32_t classes,
                               struct errmsg *e) MUST_CHECK;
enum err dataset_check_shape(const struct dataset *d, const struct job *job,
                             struct errmsg *e) MUST_CHECK;
/* The eval part, read with what the training part taught: a csv's words and scales. */
enum err dataset_load_eval(struct dataset *d, const struct job *job, const struct dataset *train,
                           uint32_t classes, struct errmsg *e) MUST_CHECK;
/* A label of the training part is none of the model's classes: ERR_INPUT, and *e names its file and line. The part is read
 * again for that, now that the classes are known. Errors: as dataset_load. */
enum err dataset_name_label(const struct job *job, const struct encoding_given *given,
                            uint32_t classes, struct errmsg *e) MUST_CHECK;
/* Are all labels classes, 0 to `classes` - 1? For data loaded when the model was not known.
 * Errors: ERR_INPUT, which dataset_name_label tells with file and line; ERR_DISK. */
enum err dataset_check_classes(const struct dataset *d, uint32_t classes,
                               struct errmsg *e) MUST_CHECK;
void dataset_close(struct dataset *d);

/* Tell the job what its training part has said: the model's shape, where it is auto, and where the columns' features
 * stand. */
void dataset_tell(const struct dataset *d, struct job *job);

/* What can be said of a data set by how its files begin. */
struct dataset_look {
    size_t files;
    uint64_t rows, bytes; /* bytes: in memory, once it is loaded */
    bool estimated; /* rows and bytes are not what headers say, but what beginnings make likely */
    bool grows;     /* csv: words are learned, and those further on make more features */
    uint32_t rank, shape[TENSOR_RANK_MAX]; /* of one row, as far as it is known */
    struct key_growth keys;                /* of the training part: of what it looks up in tables */
};
/* Open the files and read their beginnings: are they of this format, of the model's shape and classes? Of more csv files than
 * DATASET_SAMPLE_FILES so many are looked at, the first and others evenly among all, so that the time has a bound. Of the
 * training part the job is told what dataset_tell does, as far as that is known. Errors: as dataset_load. */
enum { DATASET_SAMPLE_FILES = 16 /* 25 to 55 ms each */ };
enum err dataset_look(struct dataset_look *look, struct job *job, int eval, uint32_t classes,
                      struct errmsg *e) MUST_CHECK;

/* The same of each file, and of rows that mean what a checkpoint says (NULL: as the part itself teaches). *schema: of the columns of the training
 * part, by what was read of it, the caller's (table_schema_unref); NULL: it has none. */
enum err dataset_look_given(struct dataset_look *look, struct job *job,
                            const struct encoding_given *given, int eval, uint32_t classes,
                            struct table_schema **schema, struct errmsg *e) MUST_CHECK;

/* ---- order.c: which rows make which batch; pure ---- */
struct order {
    uint64_t rows, batch_size, seed;
    uint32_t microbatches;
};
/* Batches in an epoch: rows / batch_size rounded up; the last one may be short. */
uint64_t order_batches(const struct order *o);
/* Rows of a batch, by its id: epoch * order_batches + batch within the epoch. */
uint64_t order_batch_rows(const struct order *o, uint64_t id);
/* The rows of microbatch `leaf` of batch `batch` (within its epoch) in epoch `epoch`: writes row numbers,
 * returns how many (0 is possible in a short batch). `out` holds batch_size / microbatches + 1. Position
 * p of a batch of R rows lies in leaf j where R*j/M <= p < R*(j+1)/M, both rounded down. */
uint32_t order_leaf(const struct order *o, uint64_t epoch, uint64_t batch, uint32_t leaf,
                    uint64_t *out);

/* x: (n, features) floats, y: (n) floats; the rows named, scaled. Vectorized; same bits everywhere.
 * Bad rows are left out: *there is how many are not. Errors: ERR_DISK rows in a file that fails.
 * Thread: any; waits for the disk where rows are in a file. */
enum err dataset_gather(const struct dataset *d, const uint64_t *rows, uint32_t n, float *x,
                        float *y, uint32_t *there, struct errmsg *e) MUST_CHECK;
bool dataset_is_weighted(const struct dataset *d);
/* And their weights. weight: (n); NULL: they are not wanted, or the set has none. */
enum err dataset_gather_weighted(const struct dataset *d, const uint64_t *rows, uint32_t n,
                                 float *x, float *y, float *weight, uint32_t *there,
                                 struct errmsg *e) MUST_CHECK;
struct leaf_keys;
struct leaf_room;
bool dataset_has_keys(const struct dataset *d); /* its rows look something up in tables */
/* The different keys of a set that has some. `rows`: of the whole of it, of which d->table.rows are there. About `lookups`
 * of them are looked at, of rows all over the set. Errors: ERR_NOMEM; ERR_DISK; g->lists is 0 then. */
enum { DATASET_COUNTED_LOOKUPS = 1 << 24 /* this takes about a second */ };
enum err dataset_count_keys(const struct dataset *d, uint64_t rows, uint64_t lookups,
                            struct key_growth *g, struct errmsg *e) MUST_CHECK;
/* The keys that these rows look up, without bad ones, into a room of at least n rows; *keys stays valid until it is filled again.
 * Errors: ERR_NOMEM; ERR_DISK. Thread: any; waits for the disk where rows are in a file. */
enum err dataset_gather_keys(const struct dataset *d, const uint64_t *rows, uint32_t n,
                             struct leaf_room *room, const struct leaf_keys **keys,
                             struct errmsg *e) MUST_CHECK;
/* The same for training: with d->augment, whose choices for rows[i] are a function of (key, i). */
enum err dataset_gather_train(const struct dataset *d, const uint64_t *rows, uint32_t n,
                              uint64_t key, float *x, float *y, float *weight, uint32_t *there,
                              struct errmsg *e) MUST_CHECK;

/* ---- loader.c: prefetch of microbatches on its own thread ---- */
struct loader;
/* Batches come in the order in which they are asked for with loader_want: a bounded ring of `depth`
 * microbatches, filled by one thread (woken only when half of the ring is empty). */
enum err loader_new(struct loader **l, const struct dataset *d, const struct order *o,
                    uint32_t depth, struct errmsg *e) MUST_CHECK;
struct microbatch {
    uint64_t id; /* batch id = epoch * order_batches + batch within the epoch */
    uint32_t leaf;
    uint32_t n;    /* rows, without bad ones */
    float *x, *y;  /* (n, features) and (n), aligned to 64 bytes; valid until loader_release */
    float *weight; /* (n), in the same way; NULL: the set has none */
    const struct leaf_keys *keys; /* what it looks up in tables; NULL: nothing. As long as x */
};
/* The microbatch (id, leaf). What was prefetched is handed out; anything else is gathered at once by the
 * caller's thread, so a wrong guess costs time and is never wrong.
 * Errors: ERR_NOMEM; ERR_DISK (dataset_gather); ERR_STATE when JOB_MICROBATCHES_MAX of those gathered
 * so are not released.
 * Thread: compute threads, concurrently; waits at most while this very microbatch is being filled. */
enum err loader_get(struct loader *l, uint64_t id, uint32_t leaf, struct microbatch *out,
                    struct errmsg *e) MUST_CHECK;
void loader_release(struct loader *l, struct microbatch *m);
/* Tell the loader what will be asked for next: leaves [first, first + count) of ids id, id + 1, ... up to
 * end_id. Replaces the former guess. Never blocks for long. */
void loader_want(struct loader *l, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                 uint32_t leaves);
/* Microbatches so far: filled ahead by the thread; handed out from the ring, and gathered by the caller.
 * Thread: any. */
struct loader_stats {
    uint64_t filled, prefetched, gathered;
};
struct loader_stats loader_stats(struct loader *l);
/* Every microbatch was released, and no other thread is in a call. */
void loader_free(struct loader *l);

#endif
