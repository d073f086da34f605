/* A trained model's files, without training: weights from a seed, rows of tables from their keys. A third of the keys of the
 * data have no row. */
#pragma once

#include "tests/lib/folder.h"
#include "data/dataset.h"
#include "model/model.h"

struct trained {
    char dir[FOLDER_BYTES]; /* train.txt, eval.txt, model/ */
    char model_dir[FOLDER_BYTES + 8];
    struct job job;
    struct dataset train, eval; /* read as training reads them */
    struct model *model;
    float *w; /* (elems of its layout) */
    struct errmsg e;
};

/* `job`: text of a job file that reads train.txt and, as eval, eval.txt in its directory, or neither (synthetic). The texts
 * are the files' contents; NULL: none. It fails the test on any error. */
void trained_init(struct trained *t, const char *job, const char *train, const char *eval);
/* The same in the current directory, with the data files that are there. */
void trained_here(struct trained *t, const char *job);
void trained_close(struct trained *t);

/* The rows of n mixed keys of table i: w (n, dim), as training reads them. */
void trained_rows(const struct trained *t, uint32_t table, const uint64_t *mixed, uint32_t n,
                  float *w);
/* The outputs of training's forward pass for rows [first, first + n) of the eval part: logits if the loss works on them.
 * out: (n, outputs). */
void trained_outputs(struct trained *t, uint32_t first, uint32_t n, float *out);
