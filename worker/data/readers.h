/* What dataset.c and the readers share: one reader per format fills a dataset. */
#ifndef GRADWIRE_WORKER_DATA_READERS_H
#define GRADWIRE_WORKER_DATA_READERS_H

#include <stdint.h>

#include "common/base/sha256.h"
#include "worker/data/dataset.h"

/* What is to be read. */
struct reading {
    const struct job *job;
    const char *key;      /* "data.train" or "data.eval", for messages */
    const char *patterns; /* the files */
    uint32_t classes;     /* labels are less than it; 0: no check */
    int eval;
    const struct encoding_given *given; /* csv: what a checkpoint has taught; NULL: nothing */
    bool unfitted;                      /* csv: the model's shape is compared later */
    struct table_schema *schema;        /* csv: of the training part; NULL: it is being read */
    struct dataset_look *look; /* dataset_look: read how the files begin, and no more; else NULL */
    bool sampled;        /* the look may leave out files: csv reads DATASET_SAMPLE_FILES of them */
    struct spill *spill; /* the same */
};

/* The readers: fill rows, features, rank, shape, x, labels of a zeroed dataset and put the contents
 * into `digest`. On error the caller closes *d. */
enum err idx_load(struct dataset *d, const struct reading *r, struct sha256 *digest,
                  struct errmsg *e) MUST_CHECK;
enum err npy_load(struct dataset *d, const struct reading *r, struct sha256 *digest,
                  struct errmsg *e) MUST_CHECK;
enum err cifar10_load(struct dataset *d, const struct reading *r, struct sha256 *digest,
                      struct errmsg *e) MUST_CHECK;
enum err csv_load(struct dataset *d, const struct reading *r, struct sha256 *digest,
                  struct errmsg *e) MUST_CHECK;
enum err synthetic_load(struct dataset *d, const struct reading *r, struct sha256 *digest,
                        struct errmsg *e) MUST_CHECK;

/* Set the number and the shape of rows. `from` names where the shape stands.
 * Errors: ERR_INPUT the model's input has another shape. */
enum err dataset_set_shape(struct dataset *d, const struct reading *r, const char *from,
                           uint64_t rows, uint32_t rank, const uint32_t *shape,
                           struct errmsg *e) MUST_CHECK;
/* The same, and allocate rows and labels, as bytes, but for a look. `from` names where the shape stands.
 * Errors: ERR_INPUT the model's input has another shape; ERR_NOMEM. */
enum err dataset_alloc(struct dataset *d, const struct reading *r, const char *from, uint64_t rows,
                       uint32_t rank, const uint32_t *shape, struct errmsg *e) MUST_CHECK;
/* The same, with rows, labels or both as floats. Errors: ERR_INPUT data.augment, which moves pixels of bytes, too. */
enum err dataset_alloc_as(struct dataset *d, const struct reading *r, const char *from,
                          uint64_t rows, uint32_t rank, const uint32_t *shape, bool float_rows,
                          bool float_labels, struct errmsg *e) MUST_CHECK;

#endif
