/* The model: a graph of layers over one flat parameter block. Each layer has one file with its forward and backward.
 * A model is immutable and shared by threads; a model_run holds one thread's activations. */
#pragma once

#include <stdint.h>

#include "job/job.h"
#include "common/parameters/layout.h"
#include "common/parameters/sums.h"
#include "common/rows/lookups.h"

enum { MODEL_BLAS_BYTES = 64 };
struct model;
struct model_run;
struct packed;

/* Check shapes, fuse a softmax or sigmoid that a head reads with its matching loss (any other pair of a loss and a last
 * activation is refused), and lay out the tensors. Errors: ERR_INPUT, naming the layer and what would fit. Owns: *m
 * is the caller's, model_free. */
enum err model_new(struct model **m, const struct job *job, struct errmsg *e) MUST_CHECK;
void model_free(struct model *m);

/* The tensors in the flat block, and the tables' rows; valid as long as the model. */
const struct layout *model_layout(const struct model *m);
uint32_t model_features(const struct model *m); /* inputs of one row; 0: it only looks up keys */
/* Labels of the first head must be below it; 0: they are values. */
uint32_t model_classes(const struct model *m);
uint32_t model_labels(const struct model *m);  /* of one row, of all heads */
uint32_t model_outputs(const struct model *m); /* of one row, of all heads */

/* The training rows and their labels, as far as they are known. */
struct model_labels {
    uint64_t rows; /* 0: not known */
    bool any;      /* a label was seen: min to max are their range */
    float min, max;
    const uint64_t *
        there; /* bits: which of the classes 0 to known - 1 have a row; NULL: not all rows were seen */
    uint32_t known;
    double weight; /* the mean of the rows' weights */
};

/* Calls `say` with each warning about the job: with what it says it trains, but may mean something else. */
void model_doubts(const struct model *m, const struct job *job, const struct model_labels *l,
                  void (*say)(void *ctx, const char *text), void *ctx);

/* The kernels that OpenBLAS has chosen for this process, and its version: "Zen (OpenBLAS 0.3.21)". The bits of training depend
 * on both. "": this model trains without OpenBLAS. Valid as long as the model. */
const char *model_blas(const struct model *m);

/* The layers that look up rows of tables, in their order. */
struct model_lookup {
    const char *layer; /* its name; valid as long as the model */
    uint32_t width;    /* of its output for one row */
};
uint32_t model_lookups(const struct model *m);
struct model_lookup model_lookup(const struct model *m, uint32_t i);
/* Write the shape of one row of layer i's output (in the job's order) to `dim`, and return its rank. */
uint32_t model_layer_shape(const struct model *m, uint32_t i, uint32_t dim[TENSOR_RANK_MAX]);

/* Memory for passes over up to rows_max examples, one pass at a time. The model is borrowed. Errors: ERR_INPUT: too
 * many rows for the model; ERR_NOMEM. */
enum err model_run_new(struct model_run **r, const struct model *m, uint32_t rows_max,
                       struct errmsg *e) MUST_CHECK;
void model_run_free(struct model_run *r);

/* ERR_INPUT with layer and value if any pass so far met invalid data (an embedding's row that is not in its table).
 * That pass's results are meaningless. */
enum err model_run_fault(const struct model_run *r, struct errmsg *e) MUST_CHECK;

/* The last pass's outputs of a head (n, outputs of a row): logits if the loss works on them. Valid until the next pass. */
const float *model_run_outputs(const struct model_run *r, uint32_t head);

/* metrics.progressive: model_train writes the marks of its examples here, rows_max at most (common/math/bins.h). NULL: it
 * writes none. */
bool model_is_progressive(const struct model *m);
void model_run_mark(struct model_run *r, uint16_t *marks);

/* The regularizers' part of the mean loss at w. */
double model_penalty(const struct model *m, const float *w);

/* Called during backward when the gradients of elements [first, first + n) are final; a dense layer's kernel and
 * bias come together, last layer first. The ranges include the gaps, and cover the whole block once. */
typedef void model_ready(void *ctx, uint64_t first, uint64_t n);

/* One microbatch: forward with dropout, loss, backward. `dw` (the whole flat block; gaps stay zero) receives the SUM
 * over the n examples of the gradient of the example's loss, which is the weighted sum of the heads' losses; a head's is the
 * mean over its labels. n = 0 zeroes it. The gradient by rows of tables is added to of->rows->dw when the whole block is
 * ready. `key`: for dropout's random numbers, a function of (seed, epoch, microbatch id). Adds to *sums. Thread: any, one at a time per run; single-threaded BLAS. */
void model_train(struct model_run *r, const float *w, const struct leaf *of, uint64_t key,
                 float *dw, struct sums *sums, model_ready *ready, void *ctx);

/* The weights of a trained model, for passes that only go forward: besides the flat block, the weights of some layers
 * in the order in which their forward reads them. Any number of threads can share them. w: the flat block. The model and w
 * must outlive *p. Owns: *p is the caller's, packed_free. Errors: ERR_NOMEM. */
enum err packed_new(struct packed **p, const struct model *m, const float *w,
                    struct errmsg *e) MUST_CHECK;
void packed_free(struct packed *p); /* NULL is ignored */

/* Forward alone, without dropout: no loss is computed, and labels and weights of the examples are not read. out (n,
 * outputs), one head after the other: the scores, after the softmax or sigmoid that the loss contains. Any number of
 * examples, rows_max at a time. Dense layers multiply without BLAS (dense.c): scores differ from model_eval's in the last
 * bits, and those of a row do not depend on the other rows. Allocates nothing. Errors: as model_run_fault, of this pass alone. */
enum err model_predict(struct model_run *r, const struct packed *w, const struct leaf *of,
                       float *out, struct errmsg *e) MUST_CHECK;
/* The output of lookup layer i alone. out: (n, width). Allocates nothing. */
void model_look_up(struct model_run *r, const float *w, const struct leaf *of, uint32_t i,
                   float *out);

/* Forward without dropout; loss (without penalty and class weights) and metrics are added to *sums. */
void model_eval(struct model_run *r, const float *w, const struct leaf *of, struct sums *sums);

/* A model whose input has more features than that of the run before: tells which rows of its tensors are new.
 * Features are only inserted, so the rows that are not new are, in the same order, the rows of the earlier model. */
struct model_growth {
    uint32_t tensors;
    uint8_t **fresh; /* (tensors) flags (shape[0]): 1 for each new row; NULL: no new rows */
};

/* fresh (features): 1 for each new feature; such a feature is 0 in each row of data without its word. Owns:
 * model_growth_close, also on error. Errors: ERR_INPUT: a layer would give other values for the earlier words; it is
 * named; ERR_NOMEM. */
enum err model_growth_init(struct model_growth *g, const struct model *m, const uint8_t *fresh,
                           struct errmsg *e) MUST_CHECK;
void model_growth_close(struct model_growth *g);
