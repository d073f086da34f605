/* The trained model that a command's first argument names: an output directory, its model/ or best/, or a checkpoint.
 *
 * Happy path: trained_open -> a folder with job, model and weights; rows of tables by trained_rows.
 * Failure modes: the directory has no model yet (the error names what can be used now), a file is missing, damaged, or does
 * not fit the others. */
#pragma once

#include <stdint.h>

#include "common/checkpoint/checkpoint.h"
#include "common/place/place.h"
#include "data/source.h"
#include "predict/folder.h"

struct trained {
    struct folder folder;
    char path[4096]; /* of the directory that has the weights */
    /* of a checkpoint, or of DIR/best with tables while the job runs: the rows are in this cut, which is held */
    bool has_cut;
    struct place checkpoints; /* the cuts */
    struct manifest cut;
    int hold;
    uint64_t step; /* of the weights; UINT64_MAX: not known */
};

/* Open the model at `path`: DIR, DIR/model, DIR/best, DIR/checkpoints (the newest one) or DIR/checkpoints/cut-N. sets:
 * "key=value" for the job's keys about data, NULL at the end. threads: compute threads. Owns: *t is the
 * caller's (trained_close), unchanged on error. Errors: ERR_INPUT, ERR_CORRUPT, ERR_NEWER: the user must name something else;
 * ERR_IO, ERR_NOMEM. */
enum err trained_open(struct trained *t, const char *path, const char *const *sets,
                      uint32_t threads, struct errmsg *e) MUST_CHECK;
/* After trained_open, for scores: open the rows of tables that are in a checkpoint alone, by a copy in the directory of
 * data.spill that no one sees. Errors: ERR_INPUT: the copy has no room; as table_file_open. */
enum err trained_open_tables(struct trained *t, struct errmsg *e) MUST_CHECK;
void trained_close(struct trained *t);

/* Whether the files of a trained model have the content that was written: damage that leaves a valid file, such as a flipped bit,
 * or a file of another model, would only give other scores.
 * f: open, with weights of its directory. Compares the directory's files with manifest.json; without it (a job that runs, an
 * earlier release) the weights of a model without tables with the digest in their file. Errors: ERR_CORRUPT, naming the file;
 * ERR_IO, ERR_NOMEM. */
enum err written_check(const struct folder *f, struct errmsg *e) MUST_CHECK;

/* One thread's memory to score rows: their features and keys, and the scores. */
enum { LANE_ROWS = 250 }; /* as many as an evaluation takes at a time */

struct lane;

/* The folder is borrowed. Errors: ERR_NOMEM, ERR_INPUT. */
enum err lane_new(struct lane **l, const struct folder *f, struct errmsg *e) MUST_CHECK;
void lane_free(struct lane *l); /* NULL: nothing to do */

void lane_clear(struct lane *l);
/* Add a row, given its cells as a piece of csv has them: they are scaled now. At most LANE_ROWS. Errors: ERR_NOMEM. */
enum err lane_add(struct lane *l, uint32_t *cells, struct errmsg *e) MUST_CHECK;
uint32_t lane_rows(const struct lane *l); /* that were added */
/* All rows are added: *leaf has them, encoded and scaled, and their keys, until the lane is cleared. Errors: ERR_NOMEM. */
enum err lane_finish(struct lane *l, const struct leaf **leaf, struct errmsg *e) MUST_CHECK;
/* Take n rows of a source, from `first` on, in place of the present ones, and finish. Errors: as source_block. */
enum err lane_gather(struct lane *l, struct source *source, uint64_t first, uint32_t n,
                     const struct leaf **leaf, struct errmsg *e) MUST_CHECK;

/* Score the finished rows. *z: (rows, model_outputs), valid until the next call. Errors: as scorer_run. */
enum err lane_score(struct lane *l, const float **z, struct errmsg *e) MUST_CHECK;
/* Add what another lane's lookups of keys have found, and warn of columns of which nearly no key has a row. */
void lane_join_misses(struct lane *l, const struct lane *other);
void lane_say_misses(const struct lane *l);
/* The outputs of lookup layer i (model_lookup) for the finished rows. out: (rows, width). */
void lane_lookup(struct lane *l, uint32_t i, float *out);
