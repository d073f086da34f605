/* One thread's memory to score rows: their features and keys, and the scores. */
#ifndef GRADWIRE_MODEL_CLI_LANE_H
#define GRADWIRE_MODEL_CLI_LANE_H

#include <stdint.h>

#include "predict/folder.h"
#include "data/dataset.h"

enum { LANE_ROWS = 250 }; /* as many as an evaluation takes at a time */

struct lane;

/* The folder is borrowed. Errors: ERR_NOMEM, ERR_INPUT. */
enum err lane_new(struct lane **l, const struct folder *f, struct errmsg *e) MUST_CHECK;
void lane_free(struct lane *l); /* NULL: nothing to do */

void lane_clear(struct lane *l);
/* Add a row, given its cells as a piece of csv has them: they are scaled now. At most LANE_ROWS. Errors: ERR_NOMEM. */
enum err lane_add(struct lane *l, uint32_t *cells, struct errmsg *e) MUST_CHECK;
/* Take n rows of a set without columns, from `first` on, in place of the present ones. Errors: as dataset_gather. */
enum err lane_gather(struct lane *l, const struct dataset *d, uint64_t first, uint32_t n,
                     struct errmsg *e) MUST_CHECK;

uint32_t lane_rows(const struct lane *l);
/* Encoded and scaled: (rows, model_features). */
const float *lane_features(const struct lane *l);
/* The keys that the rows look up; NULL: none. Errors: ERR_NOMEM. */
enum err lane_keys(struct lane *l, const struct leaf_keys **keys, struct errmsg *e) MUST_CHECK;
/* *z: (rows, model_outputs), valid until the next call. Errors: as scorer_run; ERR_NOMEM. */
enum err lane_score(struct lane *l, const float **z, struct errmsg *e) MUST_CHECK;
/* The outputs of lookup layer i (model_lookup). out: (rows, width). */
void lane_look_up(struct lane *l, const struct leaf_keys *keys, uint32_t i, float *out);

#endif
