/* DIR/eval.json: the evaluator's result for each checkpoint, in the order in which they were taken. The evaluator
 * writes the file atomically; the chief reads the results from it, and removes those that a rollback undoes. This file also
 * decides which cut is evaluated next, by values alone.
 *
 *   {"job": "mnist", "uuid": "...", "eval_fingerprint": "...", "blas": ["Zen (OpenBLAS 0.3.21)"], "results": [{"cut": 3, "generation": 1, "manifest": 2769421043,
 *    "step": 500, "final": false, "examples": 10000, "seconds": 0.21, "loss": 0.11, "accuracy": 0.97}, ...]}
 *
 * A job that goes back to an older cut uses numbers again. So a result counts for the cut with the same manifest alone. */
#pragma once

#include "common/checkpoint/checkpoint.h"
#include "job/job.h"
#include "common/process/contents.h"
#include "model/evaluation.h"
#include "model/model.h"

struct eval_result {
    uint64_t cut, generation;
    uint32_t manifest; /* the manifest's crc; 0: an earlier release wrote the result */
    bool final;        /* from the manifest: this was the last cut of the training */
    double examples, seconds;
    struct evaluation eval; /* its step is the cut's */
};

enum {
    EVAL_LOG_MAX = 100000, /* number of results; the oldest are dropped */
    EVAL_BLAS_MAX = 8      /* number of different kernels; later ones are not named */
};

struct eval_log {
    char uuid[37]; /* of the job; "": none yet */
    /* the fingerprint of the evaluation data; "": an earlier release wrote the file */
    char data[CONTENTS_HEX_BYTES];
    uint32_t kernels;
    /* (kernels) with which results were computed, as in model_blas */
    char blas[EVAL_BLAS_MAX][MODEL_BLAS_BYTES];
    size_t n;
    struct eval_result *result; /* (n) by generation and cut; steps ascend too */
};

/* An absent file, or one of a job with another name, is an empty log. *l is the caller's (eval_log_close), empty on
 * error. Errors: ERR_CORRUPT, naming the file; ERR_IO, ERR_NOMEM. */
enum err eval_log_read(struct eval_log *l, const struct job *job, const char *output,
                       struct errmsg *e) MUST_CHECK;
/* Errors: ERR_IO, ERR_NOMEM; the earlier file then stays. */
enum err eval_log_write(const struct eval_log *l, const struct job *job, const char *output,
                        struct errmsg *e) MUST_CHECK;
void eval_log_close(struct eval_log *l);

/* The index in m (n, of one job) of the cut to evaluate next: the oldest one that was taken after the newest cut with a result
 * or, *passed, the last cut that was passed over (NULL: none). If none of m is such a cut, it is the oldest one that was taken
 * after the cuts of the log's last result and of *passed, or else the newest. The log's results of another job do not count.
 * -1: none. */
struct eval_passed {
    uint64_t generation, cut;
    uint32_t manifest; /* its crc */
};
long eval_log_choose(const struct eval_log *l, const struct manifest *m, size_t n,
                     const struct eval_passed *passed);
/* True if this cut has a result, or was passed over last. */
bool eval_log_knows(const struct eval_log *l, const struct manifest *m,
                    const struct eval_passed *passed);

/* m (n): manifests of cuts, the newest first. Remove the results of their job that belong to a history which was rolled back:
 * the newest cut, or one of a later generation, has a lower number, or another cut has the number now. Returns the first step
 * of a removed result; UINT64_MAX: none was. */
uint64_t eval_log_undo(struct eval_log *l, const struct manifest *m, size_t n);

/* Add the result of a cut of job `uuid`. Results at its step or later belong to a history that was rolled back, and
 * are removed; *again is true if there were any. Errors: ERR_NOMEM. */
enum err eval_log_add(struct eval_log *l, const char *uuid, const struct eval_result *r,
                      bool *again) MUST_CHECK;

/* Note the kernels of OpenBLAS that compute this job's results; "": the model needs none. */
void eval_log_add_blas(struct eval_log *l, const char *blas);

/* The last result of job `uuid`, or NULL. */
const struct eval_result *eval_log_last(const struct eval_log *l, const char *uuid);
/* The result of this cut, or NULL. */
const struct eval_result *eval_log_of(const struct eval_log *l, const struct manifest *m);
/* True if DIR/eval.json has a result of this cut; *r is then the result. False also if the file cannot be read: *e then
 * says why; otherwise *e is empty. */
bool eval_log_judged(const struct job *job, const char *output, const struct manifest *m,
                     struct eval_result *r, struct errmsg *e);
/* The result at this step of job `uuid`, or NULL. */
const struct eval_result *eval_log_at(const struct eval_log *l, const char *uuid, uint64_t step);
