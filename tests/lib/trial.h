/* One model with rows to train on, for tests of arithmetic: fails the test where it cannot be made. */
#pragma once

#include "job/job.h"
#include "tests/lib/leaf.h"
#include "model/model.h"

struct trial {
    struct job job;
    bool made; /* the job is its own */
    struct model *m;
    struct model_run *run;
    uint32_t rows;
    uint64_t elems;
    float *w, *dw; /* elems */
    float *x;      /* (rows, features), within [-2, 2); ids below 5 where an embedding reads them */
    struct drawn_leaf leaf; /* where it has tables */
    float *y;               /* (rows, labels): classes in turn; NAN where absent */
    uint8_t *present;       /* (rows, labels), for heads that are masked */
};

/* make: fills the job, or NULL: it is. seed: of weights and inputs; biases are not 0. */
void trial_init(struct trial *t, void (*make)(struct job *), uint32_t rows, uint64_t seed);
void trial_close(struct trial *t);

/* Gradient into dw, and into leaf.dw, and sums, of rows [first, first + n). */
struct sums trial_train_rows(struct trial *t, uint32_t first, uint32_t n, uint64_t key);
double trial_loss(struct trial *t); /* of all rows, with the gradient in dw */

/* The model is refused in one line that says both. */
void trial_assert_refused(const struct job *job, const char *because, const char *mend);
