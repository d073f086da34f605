/* The cut from which a job begins if its first weights are not those of its initializers: the chief writes it before it
 * trains, and every process begins with it, as if the job resumed. */
#ifndef GRADWIRE_WORKER_WARM_START_FIRST_CUT_H
#define GRADWIRE_WORKER_WARM_START_FIRST_CUT_H

#include "common/checkpoint/checkpoint_rows.h"
#include "job/job.h"
#include "common/parameters/layout.h"

enum { FIRST_CUT_FILES_MAX = 1 << 10 };

struct first_cut {
    const struct job *job;
    const struct place *checkpoints; /* DIR/checkpoints */
    const struct layout *layout;
    const uint8_t *data_fingerprint; /* (32) */
    const char *encoding;            /* encoding.json of the rows; NULL: they need none */
    /* Writes elements [first, first + n) of the flat block to w, which is 0. */
    enum err (*fill)(void *ctx, float *w, uint64_t first, uint64_t n, struct errmsg *e);
    /* Returns the rows in these buckets, valid until the next call; NULL: the job has no tables. */
    const struct checkpoint_rows *(*rows)(void *ctx, struct bucket_range of);
    void *ctx;
};

/* Sets what all such cuts have: a new UUID, the job's run, its identity, its data. m->file is `files`. Errors: ERR_IO. */
enum err first_cut_name(const struct first_cut *c, struct manifest *m,
                        struct checkpoint_file files[FIRST_CUT_FILES_MAX],
                        struct errmsg *e) MUST_CHECK;
/* Writes the files of cut m->cut, and lists them in the manifest. Slots are as before the first update. The caller
 * publishes the cut. Errors: those of fill; ERR_IO, ERR_NOMEM. */
enum err first_cut_write(const struct first_cut *c, struct manifest *m,
                         struct errmsg *e) MUST_CHECK;

#endif
