/* First weights from a file (model.weights).
 *
 * Happy path: DIR has no checkpoint -> the chief reads the file and writes the job's first cut, with step 0; tensors that
 * the file has not begin as their initializers say -> every process begins with that cut, as if the job resumed. A chief
 * that dies before the cut is published repeats this; one that dies after it resumes.
 * Failure modes: the file is missing or has other tensors; when the job resumes, the file has other values than before. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"
#include "common/parameters/layout.h"

enum { FIRST_WEIGHTS_WORDS_BYTES = 512 };

/* Write the model's first values to w (l->elems): those of the file, otherwise those of the initializers. words: one line
 * that says which. digest (65): hex SHA-256 of the tensors that the file has, or NULL. Errors: ERR_INPUT, naming the
 * file and the tensor; ERR_IO, ERR_NOMEM. */
enum err first_weights_read(const struct job *job, const struct layout *l, float *w,
                            char words[FIRST_WEIGHTS_WORDS_BYTES], char *digest,
                            struct errmsg *e) MUST_CHECK;

struct first_weights {
    struct job *job;                 /* its identity text gets a line for the file's contents */
    const uint8_t *data_fingerprint; /* (32) */
    const struct place *checkpoints; /* DIR/checkpoints, without a cut */
    const struct layout *layout;     /* of the model */
    const char *encoding;            /* encoding.json of the rows; NULL: they need none */
    char *words;                     /* (FIRST_WEIGHTS_WORDS_BYTES) */
};

/* Write the first cut of a job that begins from scratch. The caller holds DIR's lock. Errors: as first_weights_read. */
enum err first_weights_begin(const struct first_weights *s, struct errmsg *e) MUST_CHECK;
/* A run that begins with the weights of an earlier run (warm_start.h) does not read the file. Errors: ERR_NOMEM. */
enum err first_weights_pass(struct job *job, struct errmsg *e) MUST_CHECK;
/* The job resumes from `base`: check that the file has the same values as when the job began. It may be missing, and the
 * job may name none any more: its checkpoints still say with which values it began. Errors:
 * ERR_INPUT; ERR_NOMEM. */
enum err first_weights_check(struct job *job, const struct layout *l, const struct manifest *base,
                             struct errmsg *e) MUST_CHECK;
