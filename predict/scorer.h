/* Scores of rows: one thread's memory for passes over a trained model, which any number of scorers share.
 *
 * Happy path: scorer_new -> scorer_run, scorer_run, ... -> scorer_free.
 * Failure modes: a row has an invalid value (the number of a row that an embedding does not have): ERR_INPUT. Other calls
 * are not affected. */
#ifndef GRADWIRE_PREDICT_SCORER_H
#define GRADWIRE_PREDICT_SCORER_H

#include "predict/folder.h"

struct scorer;

/* For up to rows_max rows at a time. The folder is borrowed, and has its packed weights (folder_pack). Errors: ERR_INPUT:
 * too many rows for the model; ERR_NOMEM. Thread: any; not while another thread opens or closes the folder. */
enum err scorer_new(struct scorer **s, const struct folder *f, uint32_t rows_max,
                    struct errmsg *e) MUST_CHECK;
void scorer_free(struct scorer *s);

/* Score n rows. x: (n, model_features), encoded and scaled; NULL: the model has no features. keys: the keys that the rows
 * look up, from rows_keys or dataset_gather_keys; NULL: the model has no tables. They are at most as many as rows_max rows can
 * have. out: (n, model_outputs), as by model_predict. Allocates nothing, and takes no lock. Errors: ERR_INPUT as above; `out`
 * is then meaningless. Thread: one at a time. */
enum err scorer_run(struct scorer *s, uint32_t n, const float *x, const struct leaf_keys *keys,
                    float *out, struct errmsg *e) MUST_CHECK;

/* The output of lookup layer i (model_lookup) for n rows. out: (n, width). */
void scorer_look_up(struct scorer *s, uint32_t n, const struct leaf_keys *keys, uint32_t i,
                    float *out);

#endif
