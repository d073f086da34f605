/* The columns of predictions, as csv, or as an array of all scores (npy). Pure. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "model_cli/output.h"
#include "predict/folder.h"
#include "data/csv_rows.h"

enum score_kind {
    SCORE_VALUE,  /* the column `prediction` */
    SCORE_BINARY, /* `score`: of class 1 */
    SCORE_CLASSES /* `class`, `score` of the best class */
};

struct score_columns {
    enum score_kind kind;
    uint32_t outputs; /* of the model */
    uint32_t top;     /* classes: 0: one; K: the best K, as class_1, score_1, class_2, .. */
    bool all;    /* classes: the scores of all, in columns named by class, in place of `score` */
    bool floats; /* npy: all scores, as float32 */
    const struct csv_keep *keep; /* columns before the scores; NULL: none */
    /* of the classes, a list of texts as in struct job_column; NULL: they have their numbers */
    const char *names;
};

/* The columns of this model's predictions. all, top: as wanted. Errors: ERR_INPUT: the model has fewer classes. */
enum err score_columns_init(struct score_columns *c, const struct folder *f, bool all, uint32_t top,
                            struct errmsg *e) MUST_CHECK;

/* The first line. */
void score_text_header(const struct score_columns *c, struct text *t);
/* How many columns of the scores, without the kept ones, have this name, of at least one byte. 0 also if memory runs out. */
uint32_t score_text_named(const struct score_columns *c, const char *name);
/* A row. kept: (keep->columns); z: (outputs); NULL: the row is bad, and has no scores. */
void score_text_row(const struct score_columns *c, const struct csv_text *kept, const float *z,
                    struct text *t);
