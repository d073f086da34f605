/* A job that begins with the weights of the earlier job in DIR (checkpoint.run); for example, a run every night.
 *
 * Happy path: the newest cut is final, and has another run name -> a cut numbered above all others, with the same
 * weights and tables, first values for the features of new words, fresh optimizer slots, step 0, another UUID, and
 * the present data -> the chief resumes from it, as from any other. The earlier job is over as soon as this cut's
 * manifest exists: a chief that dies before that repeats all of this, one that dies after it resumes.
 * Failure modes: another model or optimizer, which is refused naming the key; a full disk. */
#pragma once

#include <stdint.h>

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"
#include "common/parameters/layout.h"
#include "common/base/err.h"
#include "common/checkpoint/checkpoint_rows.h"

struct warm_start {
    const struct job *job;
    const uint8_t *data_fingerprint; /* (32) */
    const char *output;              /* DIR */
    const struct place *checkpoints; /* DIR/checkpoints */
    const struct layout *layout;     /* of the model */
    /* (tensors) flags of the new rows (model_growth); NULL: none */
    uint8_t *const *fresh;
    const char *encoding; /* encoding.json of the rows; NULL: they need none */
};

/* A warning, with the run and what differs (job_identity_compare_fields). */
#define WARM_START_FIELDS                                                                          \
    "run \"%s\": %s: a field that is read in another way makes another key, which finds no row "   \
    "of "                                                                                          \
    "the earlier run; if the files are written as before, restore the earlier value"

/* True if the job of this cut, the newest one, is done, and has another run name than this job. */
bool warm_start_is_due(const struct job *job, const struct manifest *newest);

/* Remove the earlier job's cuts that a chief left next to `newest`, the first cut of this run, because it died
 * between writing the one and removing the others: nothing may roll back to them. Cuts that cannot be removed stay. */
void warm_start_settle(const struct job *job, const struct place *checkpoints,
                       const struct manifest *newest);

/* Remove the files of `output` (DIR) that belong to an earlier job alone, except its cuts: a job that does not resume must not
 * compare with its best epoch, or leave out the batches of its journal. The caller holds DIR's lock. Errors: ERR_IO. */
enum err warm_start_forget(const char *output, struct errmsg *e) MUST_CHECK;
/* The same for the best epoch alone. best: DIR/best. */
enum err warm_start_forget_best(const struct place *best, struct errmsg *e) MUST_CHECK;

/* Write that cut. The journal, DIR/best and the earlier job's cuts are removed; DIR/model stays until the new job is
 * done. The caller holds DIR's lock. Errors: ERR_INPUT: another model or optimizer; ERR_IO, ERR_CORRUPT, ERR_NOMEM. */
enum err warm_start_begin(const struct warm_start *s, const struct manifest *newest,
                          struct errmsg *e) MUST_CHECK;

/* Maps each element of a new job's flat block to its position in the earlier job's block, whose model had fewer rows
 * in some tensors. */

#define BLOCK_MAP_NEW UINT64_MAX

/* Elements [at, at + n) were [from, from + n); from BLOCK_MAP_NEW: they are new. */
struct block_run {
    uint64_t at, n, from;
};

/* An element in no run is a gap between tensors, and 0. */
struct block_map {
    uint32_t runs;
    struct block_run *run; /* (runs) in ascending order of `at` */
    uint64_t old_elems;    /* size of the earlier block */
};

/* fresh (l->tensors): for each tensor 1 for each new row (shape[0]), or NULL. Owns: block_map_close, also on error.
 * Errors: ERR_NOMEM. */
enum err block_map_init(struct block_map *map, const struct layout *l, uint8_t *const *fresh,
                        struct errmsg *e) MUST_CHECK;
void block_map_close(struct block_map *map);

/* The cut from which a job begins if its first weights are not those of its initializers: the chief writes it before it
 * trains, and every process begins with it, as if the job resumed. */

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
