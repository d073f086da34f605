/* The result of an import of another program's model: the model of a job, and its first weights. */
#ifndef GRADWIRE_FORMATS_IMPORTS_IMPORTED_H
#define GRADWIRE_FORMATS_IMPORTS_IMPORTED_H

#include "common/base/err.h"
#include "model/model.h"

struct imported {
    char *yaml;          /* the job's part `model:` */
    float scale;         /* the job's data.scale */
    struct model *model; /* made from it */
    float *w;            /* (elems of model_layout(model)); NULL: the file has no weights */
    /* For the job's parts optimizer and training: "optimizer: {sgd: {momentum: 0.9}}\n", "  learning_rate: 0.1\n". NULL: the
     * file does not say. */
    char *optimizer, *training;
    char *notes; /* guesses and changes: lines, each with its line feed; "": nothing */
};

void imported_close(struct imported *m);

/* The model of a job with this part `model:`; `name` is the text's name in messages. Owns: *m is the caller's (model_free).
 * Errors: ERR_INPUT, ERR_NOMEM. */
enum err imported_model(struct model **m, const char *name, const char *yaml,
                        struct errmsg *e) MUST_CHECK;

/* Append "  metrics: [..]" to the yaml, with those that fit m->model. The others are noted: neither predictions nor training
 * depend on them. Errors: ERR_NOMEM. */
enum err imported_add_metrics(struct imported *m, const enum metric_kind *kind,
                              uint32_t n) MUST_CHECK;

#endif
